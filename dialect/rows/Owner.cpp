// SPDX-License-Identifier: Apache-2.0
// The proof of what the owner put into a program: clipped sums bound each row's share, noise releases them.
#include "dialect/OwnerOps.h"
#include "dialect/rows/Rounding.h"
#include "dialect/rows/Support.h"

#include <cmath>

using namespace mlir;
using namespace sojourn;
using namespace sojourn::rows;

void rows::clippedSum(Operation *op, Operands operands, Analysis &analysis, Results results) {
  auto sum = cast<ClippedSumOp>(op);
  auto fail = [&](const Fact &fact) { llvm::fill(results, fact); };
  if (const Fact *bad = firstMixed(operands)) {
    return fail(*bad);
  }
  const Fact &slots = operands[0];
  if (!slots.namesRowsOnce() || shapeOf(sum.getSlots()).size() != 1) {
    return fail(analysis.mixed(op, "its slots are not a draw of rows", sum.getSlots()));
  }
  int64_t count = shapeOf(sum.getSlots())[0];
  unsigned draw = slots.isPerRow() ? slots.rows.draw : analysis.drawOf(sum.getSlots(), count);
  if (slots.isPerRow() &&
      (slots.rows.first != 0 || slots.rows.step != 1 || slots.rows.slots != count || slots.rows.start)) {
    return fail(analysis.mixed(op, "its slots are a part of a draw", sum.getSlots()));
  }
  // What is selected are the slots in which these numbers name a row: those that the values were read at.
  if (Value read = analysis.draws()[draw].read; read && read != sum.getSlots()) {
    return fail(analysis.mixed(op, "its slots differ from the numbers at which its rows were read", sum.getSlots()));
  }
  if (anyCuts(operands)) {
    return fail(analysis.mixed(op, "takes a value that was summed over rows"));
  }
  Block &body = sum.getBody().front();
  for (auto [argument, fact] : llvm::zip(body.getArguments(), operands.drop_front())) {
    analysis.facts[argument] = fact;
  }
  size_t firstCut = analysis.cuts().size();
  analysis.walk(body);
  for (size_t k = firstCut; k < analysis.cuts().size(); ++k) {
    if (analysis.cuts()[k].draw != draw) {
      return fail(analysis.mixed(analysis.cuts()[k].op, "sums over another draw of rows"));
    }
  }
  double l1 = 0, l2 = 0;
  for (Value value : body.getTerminator()->getOperands()) {
    Fact fact = analysis.factOf(value);
    if (fact.isMixed()) {
      return fail(fact);
    }
    if (!fact.isSum() && !fact.isZero()) {
      return fail(analysis.mixed(op, "yields a value that is not linear in sums over rows", value));
    }
    if (fact.isSum()) {
      l1 += fact.influence.l1;
      l2 = std::hypot(l2, fact.influence.l2);
    }
  }
  double bound = 0;
  for (double each : sum.getBounds()) {
    if (each < kBoundLeast) {
      return fail(analysis.mixed(op, "has a bound below 2^-400, which f64 cannot clip to"));
    }
    bound = std::hypot(bound, each);
  }
  // Of one bound the square root of its square may differ from it.
  bound = sum.getBounds().size() == 1 ? sum.getBounds()[0] : bound * (1 + 0x1p-50);
  double proved = (sum.getNorm() == 1 ? l1 : l2) * (1 + 0x1p-40);
  if (sum.getClip() == "none" && !(proved <= bound)) {
    return fail(analysis.mixed(op, "is not clipped, and a row's norm is only proved to be at most " +
                                       llvm::Twine(std::to_string(proved))));
  }
  analysis.bounded[op] = {draw, bound};
  Fact fact = Fact::of(Kind::Sum);
  fact.cuts = analysis.intern({});
  llvm::fill(results, fact);
}

void rows::noise(Operation *op, Operands operands, Analysis &analysis, Results results) {
  auto noise = cast<NoiseOp>(op);
  auto fail = [&](const Fact &fact) { llvm::fill(results, fact); };
  if (const Fact *bad = firstMixed(operands)) {
    return fail(*bad);
  }
  auto sum = noise.getSums().empty() ? ClippedSumOp() : noise.getSums()[0].getDefiningOp<ClippedSumOp>();
  auto known = sum ? analysis.bounded.find(sum) : analysis.bounded.end();
  if (!sum || known == analysis.bounded.end()) {
    return fail(analysis.mixed(op, "adds noise to a value that is not a clipped sum"));
  }
  if (noise.getSums().size() != sum.getNumResults()) {
    return fail(analysis.mixed(op, "adds noise to a part of a clipped sum"));
  }
  int64_t coordinates = 0;
  for (auto [k, value] : llvm::enumerate(noise.getSums())) {
    if (value != sum.getResult(static_cast<unsigned>(k)) || !value.hasOneUse()) {
      return fail(analysis.mixed(op, "adds noise to a sum that is used without noise, too", value));
    }
    coordinates += *checkedNumel(shapeOf(value));
  }
  for (Value coin : noise.getCoins()) {
    auto argument = dyn_cast<BlockArgument>(coin);
    if (!argument || !coin.hasOneUse() || !analysis.coins.contains(coin)) {
      return fail(analysis.mixed(op, "takes its noise from values other than fresh coins", coin));
    }
  }
  bool isLaplace = noise.getDistribution() == "laplace";
  if (!isLaplace && sum.getNorm() == 1) {
    return fail(analysis.mixed(op, "its distribution does not match the bounded norm"));
  }
  // On the grid: the bound in units, and at most 1 more per coordinate, for both neighbours round by 1/2. A sum of
  // magnitudes is at most the root of their number times the Euclidean norm.
  double grid = std::ldexp(1.0, static_cast<int>(noise.getExponent()));
  double bound = known->second.bound;
  bound *= isLaplace && sum.getNorm() == 2 ? std::sqrt(static_cast<double>(coordinates)) : 1;
  double units = bound * (1 + accumulationOf(sum).slack) / grid;
  double rounding = isLaplace ? static_cast<double>(coordinates) : std::sqrt(static_cast<double>(coordinates));
  double sensitivity = (units + rounding) * (1 + 0x1p-40);
  if (!std::isfinite(sensitivity) || sensitivity < rounding) {
    return fail(analysis.mixed(op, "adds noise to too many terms to bound their rounding"));
  }
  analysis.release(
      {.noise = op, .sum = sum, .draw = known->second.draw, .sensitivity = sensitivity, .coordinates = coordinates});
  llvm::fill(results, Fact::publicValue());
}

void rows::firstRows(Operation *op, Operands, Analysis &analysis, Results results) {
  results[0] = analysis.mixed(op, "is in a program that is already lowered");
}

void rows::acrossSum(Operation *op, Operands, Analysis &analysis, Results results) {
  llvm::fill(results, analysis.mixed(op, "was summed across owners"));
}
