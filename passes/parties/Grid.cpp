// SPDX-License-Identifier: Apache-2.0
// Core ops between floats and the grid of masked sums (see Grid.h).
#include "passes/parties/Grid.h"

#include "dialect/Bounds.h"
#include "passes/Emit.h"

#include "llvm/ADT/Sequence.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace sojourn;
using namespace sojourn::parties;

bool parties::isMaskable(const Placement &placement, Operation *op) {
  const int64_t all = (int64_t{1} << placement.parties()) - 1;
  return placement.rowsSummed(op) && placement.meetingOf(op) == all &&
         placement.parties() >= static_cast<unsigned>(bounds::kMaskedRolesLeast) &&
         !isa<ComplexType>(getElementTypeOrSelf(op->getResult(0).getType()));
}

GridTerm parties::toGrid(OpBuilder &builder, Location location, Value term, int64_t roles) {
  Emit emit(builder, location);
  if (!isa<FloatType>(Emit::element(term))) {
    return {emit.convert(term, builder.getI64Type()), {}};
  }
  const double most = std::floor(std::ldexp(1.0, kSumBits) / llvm::popcount(static_cast<uint64_t>(roles)));
  Value steps = emit.round(emit.mul(emit.wide(term), emit.constant(std::ldexp(1.0, kGridBits))));
  // False for NaN.
  Value fits =
      emit.both(emit.compare("le", steps, emit.constant(most)), emit.compare("ge", steps, emit.constant(-most)));
  Value kept = emit.select(fits, steps, emit.constant(0));
  Value one = emit.constant(1, builder.getI64Type()), zero = emit.constant(0, builder.getI64Type());
  Value lost = emit.select(fits, zero, one);
  const auto rank = static_cast<int64_t>(Emit::shape(term).size());
  return {emit.convert(kept, builder.getI64Type()),
          rank == 0 ? lost : emit.sum(lost, llvm::to_vector(llvm::seq<int64_t>(0, rank)))};
}

Value parties::fromGrid(OpBuilder &builder, Location location, const GridTerm &sum, RankedTensorType type) {
  Emit emit(builder, location);
  if (!sum.lost) {
    return emit.convert(sum.words, type.getElementType());
  }
  Value number = emit.mul(emit.wide(sum.words), emit.constant(std::ldexp(1.0, -kGridBits)));
  Value isWhole = emit.compare("eq", sum.lost, emit.constant(0, builder.getI64Type()));
  Value nan = emit.constant(std::numeric_limits<double>::quiet_NaN());
  return emit.convert(emit.select(isWhole, number, nan), type.getElementType());
}
