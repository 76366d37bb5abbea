// SPDX-License-Identifier: Apache-2.0
// Bounds of rounding (see Rounding.h): any order of adding K terms errs by gamma_K = K u / (1 - K u) times the sum of
// their magnitudes (Higham 2002, section 4.2).
#include "dialect/rows/Rounding.h"

#include "dialect/OwnerOps.h"
#include "dialect/rows/Support.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace sojourn;

/// Infinite where the bound says nothing.
static double gammaOf(double terms, double unit) {
  return terms * unit < 0.5 ? terms * unit / (1 - terms * unit) : std::numeric_limits<double>::infinity();
}

/// All in f64. Each of the n rows has magnitudes of its own; 8 more units for the products and the factor itself. Of a
/// clipped row they sum to at most bound / kCancellation. Where ranges prove the bound, it is one of magnitudes:
/// `influenceOf` adds up where terms could cancel, too.
static double wideSlack(ClippedSumOp sum) {
  double slots = static_cast<double>(rows::shapeOf(sum.getSlots())[0]);
  double terms = slots + 1024; // the ops between cuts and noise
  for (Value input : sum.getInputs()) {
    terms += static_cast<double>(*checkedNumel(rows::shapeOf(input)));
  }
  double magnitudes = sum.getClip() == "none" ? 1 : 1 / rows::kCancellation;
  return 2 * (gammaOf(terms, 0x1p-53) + 8 * 0x1p-53) * slots * magnitudes + 16 * 0x1p-53;
}

/// What f32 adds to that: a row's magnitudes sum to at most the bound, for its terms do not cancel (one product) or
/// were added before. Roundings of a term: factor, product, and one per addition that it takes part in.
static double narrowSlack(ClippedSumOp sum, int64_t block) {
  int64_t slots = rows::shapeOf(sum.getSlots())[0];
  double depth = static_cast<double>(block + slots / block + 4), coordinates = 0, bound = 0;
  for (auto [k, value] : llvm::enumerate(sum.getSums())) {
    coordinates += static_cast<double>(*checkedNumel(rows::shapeOf(value)));
    double each = sum.getBounds()[sum.getBounds().size() == 1 ? 0 : k];
    bound = k == 0 ? each : std::min(bound, each);
  }
  // Products below 2^-126 may become 0. Scaled operands as small may have been rounded up before they met another one,
  // of at most the root of kNarrowSquaresMost.
  double tiny = 4 * static_cast<double>(slots) * 0x1p-126 + std::sqrt(rows::kNarrowSquaresMost) * 0x1p-148;
  return 2 * gammaOf(depth, 0x1p-24) * static_cast<double>(slots) + std::sqrt(coordinates) * tiny / bound;
}

rows::Accumulation rows::accumulationOf(Operation *op) {
  auto sum = cast<ClippedSumOp>(op);
  Accumulation wide{.block = 0, .slack = wideSlack(sum)};
  auto yielded = sum.getBody().front().getTerminator()->getOperandTypes();
  bool anyNarrow =
      llvm::any_of(yielded, [](Type type) { return cast<RankedTensorType>(type).getElementType().isF32(); });
  bool isSmall = llvm::all_of(sum.getBounds(), [](double bound) { return bound <= 0x1p60; });
  int64_t slots = shapeOf(sum.getSlots())[0];
  if (sum.getClip() == "none" || !anyNarrow || !isSmall) {
    return wide;
  }
  // Few partial sums cost little time: the largest blocks that are exact enough.
  for (int64_t parts = 1; parts <= 64 && parts <= slots; ++parts) {
    if (slots % parts == 0) {
      double slack = wide.slack + narrowSlack(sum, slots / parts);
      if (slack >= 0 && slack <= kNarrowSlackMost) {
        return {.block = slots / parts, .slack = slack};
      }
    }
  }
  return wide;
}
