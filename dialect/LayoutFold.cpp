// SPDX-License-Identifier: Apache-2.0
// Folds of layout ops and of reductions over nothing: identities, and chains that are one op.
#include "dialect/LayoutOps.h"
#include "dialect/ReductionOps.h"

using namespace mlir;
using namespace sojourn;

/// The op of the same kind that defines the operand; never the op itself (hostile IR may be cyclic).
template <typename OpType>
static OpType definingSame(OpType op) {
  auto inner = op.getX().template getDefiningOp<OpType>();
  return inner && inner.getOperation() != op.getOperation() ? inner : OpType();
}

OpFoldResult BroadcastOp::fold(FoldAdaptor adaptor) {
  // Strictly increasing dims into a result of the same rank leave no choice.
  if (getX().getType() == getType()) {
    return getX();
  }
  if (BroadcastOp inner = definingSame(*this)) {
    SmallVector<int64_t> dims;
    for (int64_t dim : inner.getDims()) {
      dims.push_back(getDims()[dim]);
    }
    setDims(dims);
    getXMutable().assign(inner.getX());
    return getResult();
  }
  return {};
}

OpFoldResult ReshapeOp::fold(FoldAdaptor adaptor) {
  if (getX().getType() == getType()) {
    return getX();
  }
  if (ReshapeOp inner = definingSame(*this)) {
    if (inner.getX().getType() == getType()) {
      return inner.getX();
    }
    getXMutable().assign(inner.getX());
    return getResult();
  }
  return {};
}

OpFoldResult PartsOp::fold(FoldAdaptor) {
  auto complex = getX().getDefiningOp<ComplexOp>();
  return complex ? complex.getX() : Value();
}

OpFoldResult ComplexOp::fold(FoldAdaptor) {
  auto parts = getX().getDefiningOp<PartsOp>();
  return parts ? parts.getX() : Value();
}

OpFoldResult TransposeOp::fold(FoldAdaptor adaptor) {
  if (llvm::equal(getPerm(), llvm::seq<int64_t>(0, getType().getRank()))) {
    return getX();
  }
  if (TransposeOp inner = definingSame(*this)) {
    SmallVector<int64_t> perm;
    for (int64_t dim : getPerm()) {
      perm.push_back(inner.getPerm()[dim]);
    }
    setPerm(perm);
    getXMutable().assign(inner.getX());
    return getResult();
  }
  return {};
}

/// A slice of what one operand of a concatenation gives is a slice of that operand.
static bool sliceOneOperand(SliceOp op) {
  auto joined = op.getX().getDefiningOp<ConcatOp>();
  const size_t dim = joined ? static_cast<size_t>(joined.getDim()) : 0;
  if (!joined || op.getType().getNumElements() == 0) {
    return false;
  }
  const int64_t first = op.getStart()[dim];
  const int64_t last = first + (op.getType().getDimSize(static_cast<unsigned>(dim)) - 1) * op.getStride()[dim];
  int64_t begin = 0;
  for (Value input : joined.getInputs()) {
    const int64_t size = cast<RankedTensorType>(input.getType()).getDimSize(static_cast<unsigned>(dim));
    if (first < begin + size) {
      if (last >= begin + size) {
        return false;
      }
      SmallVector<int64_t> starts(op.getStart()), limits(op.getLimit());
      starts[dim] -= begin;
      limits[dim] = std::min(limits[dim] - begin, size); // a stride may leave room behind the last one
      op.setStart(starts);
      op.setLimit(limits);
      op.getXMutable().assign(input);
      return true;
    }
    begin += size;
  }
  return false;
}

OpFoldResult SliceOp::fold(FoldAdaptor adaptor) {
  // As many elements as there are means all of them, in order.
  if (getX().getType() == getType()) {
    return getX();
  }
  if (sliceOneOperand(*this)) {
    return getResult();
  }
  SliceOp inner = definingSame(*this);
  if (!inner) {
    return {};
  }
  SmallVector<int64_t> starts;
  SmallVector<int64_t> limits;
  SmallVector<int64_t> strides;
  for (auto [innerStart, innerStride, start, stride, count] :
       llvm::zip_equal(inner.getStart(), inner.getStride(), getStart(), getStride(), getType().getShape())) {
    int64_t first = 0;
    int64_t step = 1;
    int64_t span = 0;
    if (count > 0) {
      // In bounds by both verifiers; a stride is free only where it is not used.
      first = innerStart + start * innerStride;
    }
    if (count > 1) {
      step = innerStride * stride;
      span = (count - 1) * step;
    }
    starts.push_back(first);
    limits.push_back(count > 0 ? first + span + 1 : first);
    strides.push_back(step);
  }
  setStart(starts);
  setLimit(limits);
  setStride(strides);
  getXMutable().assign(inner.getX());
  return getResult();
}

OpFoldResult ReverseOp::fold(FoldAdaptor adaptor) {
  if (llvm::all_of(getDims(), [&](int64_t dim) { return getType().getDimSize(static_cast<unsigned>(dim)) <= 1; })) {
    return getX();
  }
  ReverseOp inner = definingSame(*this);
  if (inner && inner.getDims() == getDims()) {
    return inner.getX();
  }
  return {};
}

OpFoldResult UpdateSliceOp::fold(FoldAdaptor adaptor) {
  if (getU().getType() == getType()) {
    return getU();
  }
  if (getU().getType().getNumElements() == 0) {
    return getX();
  }
  return {};
}

OpFoldResult DynamicSliceOp::fold(FoldAdaptor adaptor) {
  // All there is, wherever it starts.
  return getX().getType() == getType() ? OpFoldResult(getX()) : OpFoldResult();
}

OpFoldResult DynamicUpdateSliceOp::fold(FoldAdaptor adaptor) {
  if (getU().getType() == getType()) {
    return getU();
  }
  return getU().getType().getNumElements() == 0 ? OpFoldResult(getX()) : OpFoldResult();
}

OpFoldResult ConcatOp::fold(FoldAdaptor adaptor) {
  // All elements come from one operand: the others are empty, or there are none.
  for (Value input : getInputs()) {
    if (input.getType() == getType() &&
        (getInputs().size() == 1 || getType().getDimSize(static_cast<unsigned>(getDim())) != 0)) {
      return input;
    }
  }
  return {};
}

OpFoldResult PadOp::fold(FoldAdaptor adaptor) {
  auto zero = [](ArrayRef<int64_t> list) { return llvm::all_of(list, [](int64_t amount) { return amount == 0; }); };
  return zero(getLow()) && zero(getHigh()) && zero(getInterior()) ? OpFoldResult(getX()) : OpFoldResult();
}

OpFoldResult ReduceSumOp::fold(FoldAdaptor adaptor) { return getDims().empty() ? getX() : OpFoldResult(); }
OpFoldResult ReduceProdOp::fold(FoldAdaptor adaptor) { return getDims().empty() ? getX() : OpFoldResult(); }
OpFoldResult ReduceMaxOp::fold(FoldAdaptor adaptor) { return getDims().empty() ? getX() : OpFoldResult(); }
OpFoldResult ReduceMinOp::fold(FoldAdaptor adaptor) { return getDims().empty() ? getX() : OpFoldResult(); }
