// SPDX-License-Identifier: Apache-2.0
// dot, the convolutions and factors of matrices: result shapes and verifiers.
#include "dialect/ContractionOps.h"
#include "dialect/Families.h"
#include "dialect/rows/Rules.h"

#include "llvm/ADT/SmallBitVector.h"

using namespace mlir;
using namespace sojourn;

/// Result shape of a dot, or an error naming what is wrong. `error` starts the diagnostic.
static FailureOr<SmallVector<int64_t>> dotShape(function_ref<InFlightDiagnostic()> error, RankedTensorType a,
                                                RankedTensorType b, ArrayRef<int64_t> lhsBatch,
                                                ArrayRef<int64_t> rhsBatch, ArrayRef<int64_t> lhsContract,
                                                ArrayRef<int64_t> rhsContract) {
  if (lhsBatch.size() != rhsBatch.size() || lhsContract.size() != rhsContract.size()) {
    return error() << "pairs " << lhsBatch.size() << " with " << rhsBatch.size() << " batch dims and "
                   << lhsContract.size() << " with " << rhsContract.size()
                   << " contracted dims, expected equal numbers";
  }
  auto mark = [&](RankedTensorType type, StringRef side, ArrayRef<int64_t> batch, ArrayRef<int64_t> contract,
                  llvm::SmallBitVector &used) -> LogicalResult {
    used.resize(static_cast<unsigned>(type.getRank()));
    for (ArrayRef<int64_t> dims : {batch, contract}) {
      for (int64_t dim : dims) {
        if (dim < 0 || dim >= type.getRank() || used.test(static_cast<unsigned>(dim))) {
          return error() << side << " dim " << dim << " of " << type << ", expected distinct dims in [0, "
                         << type.getRank() << ")";
        }
        used.set(static_cast<unsigned>(dim));
      }
    }
    return success();
  };
  llvm::SmallBitVector usedA;
  llvm::SmallBitVector usedB;
  if (failed(mark(a, "lhs", lhsBatch, lhsContract, usedA)) || failed(mark(b, "rhs", rhsBatch, rhsContract, usedB))) {
    return failure();
  }
  SmallVector<int64_t> shape;
  auto pair = [&](StringRef what, ArrayRef<int64_t> lhs, ArrayRef<int64_t> rhs, bool keep) -> LogicalResult {
    for (auto [left, right] : llvm::zip_equal(lhs, rhs)) {
      int64_t size = a.getDimSize(static_cast<unsigned>(left));
      if (size != b.getDimSize(static_cast<unsigned>(right))) {
        return error() << what << " dims " << left << " of " << a << " and " << right << " of " << b
                       << ", expected equal sizes";
      }
      if (keep) {
        shape.push_back(size);
      }
    }
    return success();
  };
  if (failed(pair("batch", lhsBatch, rhsBatch, true)) || failed(pair("contracted", lhsContract, rhsContract, false))) {
    return failure();
  }
  for (auto [type, used] : {std::pair(a, &usedA), std::pair(b, &usedB)}) {
    for (int64_t dim = 0; dim < type.getRank(); ++dim) {
      if (!used->test(static_cast<unsigned>(dim))) {
        shape.push_back(type.getDimSize(static_cast<unsigned>(dim)));
      }
    }
  }
  return shape;
}

void DotOp::build(OpBuilder &builder, OperationState &state, Value a, Value b, ArrayRef<int64_t> lhsBatch,
                  ArrayRef<int64_t> rhsBatch, ArrayRef<int64_t> lhsContract, ArrayRef<int64_t> rhsContract,
                  Type element) {
  auto typeA = cast<RankedTensorType>(a.getType());
  FailureOr<SmallVector<int64_t>> shape =
      dotShape([&] { return mlir::emitError(state.location); }, typeA, cast<RankedTensorType>(b.getType()), lhsBatch,
               rhsBatch, lhsContract, rhsContract);
  // A wrong call was reported; the rank-0 result makes the verifier report the op as well.
  build(builder, state,
        RankedTensorType::get(succeeded(shape) ? ArrayRef<int64_t>(*shape) : ArrayRef<int64_t>(),
                              element ? element : typeA.getElementType()),
        a, b, lhsBatch, rhsBatch, lhsContract, rhsContract);
}

LogicalResult DotOp::verify() {
  RankedTensorType a = getA().getType();
  RankedTensorType b = getB().getType();
  RankedTensorType result = getResult().getType();
  if (a.getElementType() != b.getElementType()) {
    return emitOpError() << "multiplies " << a << " and " << b << ", expected one element type";
  }
  Type element = result.getElementType();
  bool widened = (a.getElementType().isF16() || a.getElementType().isBF16()) && element.isF32();
  if (element != a.getElementType() && !widened) {
    return emitOpError() << "result has type " << result << ", expected element type " << a.getElementType()
                         << " (or f32 for f16 and bf16)";
  }
  FailureOr<SmallVector<int64_t>> shape =
      dotShape([&] { return emitOpError(); }, a, b, getLhsBatch(), getRhsBatch(), getLhsContract(), getRhsContract());
  if (failed(shape)) {
    return failure();
  }
  if (result.getShape() != ArrayRef<int64_t>(*shape)) {
    return emitOpError() << "result has type " << result << ", expected shape [" << ArrayRef<int64_t>(*shape) << "]";
  }
  return success();
}

/// Checks x, w and the attributes; the result is the shape of conv(x, w).
static FailureOr<SmallVector<int64_t>> convShape(function_ref<InFlightDiagnostic()> error, RankedTensorType x,
                                                 RankedTensorType w, ArrayRef<int64_t> stride,
                                                 ArrayRef<int64_t> padding, ArrayRef<int64_t> dilation,
                                                 int64_t groups) {
  if (x.getElementType() != w.getElementType()) {
    return error() << "found " << x << " and " << w << ", expected one element type";
  }
  int64_t rank = x.getRank();
  if (rank < 3 || rank > 5 || w.getRank() != rank) {
    return error() << "x has type " << x << " and w " << w << ", expected equal ranks from 3 to 5";
  }
  size_t spatial = static_cast<size_t>(rank) - 2;
  if (stride.size() != spatial || padding.size() != spatial || dilation.size() != spatial) {
    return error() << "stride, padding and dilation have " << stride.size() << ", " << padding.size() << " and "
                   << dilation.size() << " entries, expected " << spatial << ", the number of spatial dims";
  }
  int64_t channels = x.getDimSize(1);
  int64_t outputs = w.getDimSize(0);
  if (groups < 1 || channels % groups != 0 || outputs % groups != 0 || w.getDimSize(1) != channels / groups) {
    return error() << "x has " << channels << " channels and w " << outputs << " outputs of " << w.getDimSize(1)
                   << " channels in " << groups << " groups, expected channels = groups * w's and outputs divisible";
  }
  SmallVector<int64_t> shape = {x.getDimSize(0), outputs};
  for (size_t i = 0; i < spatial; ++i) {
    int64_t size = x.getDimSize(static_cast<unsigned>(i + 2));
    int64_t window = w.getDimSize(static_cast<unsigned>(i + 2));
    std::optional<int64_t> out = windowOutput(size, window, stride[i], padding[i], dilation[i]);
    if (!out) {
      return error() << "spatial dim " << i << " of size " << size << " with kernel " << window << ", stride "
                     << stride[i] << ", padding " << padding[i] << ", dilation " << dilation[i]
                     << ", expected positive numbers and a kernel that fits";
    }
    shape.push_back(*out);
  }
  return shape;
}

LogicalResult ConvOp::inferReturnTypes(MLIRContext *context, std::optional<Location> location, Adaptor adaptor,
                                       SmallVectorImpl<Type> &results) {
  auto x = dyn_cast<RankedTensorType>(adaptor.getX().getType());
  auto w = dyn_cast<RankedTensorType>(adaptor.getW().getType());
  if (!x || !w || !checkedNumel(x.getShape()) || !checkedNumel(w.getShape())) {
    return emitOptionalError(location, "operands have types ", adaptor.getX().getType(), " and ",
                             adaptor.getW().getType(), ", expected tensors of static shape");
  }
  auto error = [&] { return location ? mlir::emitError(*location) : InFlightDiagnostic(); };
  FailureOr<SmallVector<int64_t>> shape =
      convShape(error, x, w, adaptor.getStride(), adaptor.getPadding(), adaptor.getDilation(), adaptor.getGroups());
  if (failed(shape)) {
    return failure();
  }
  results.push_back(RankedTensorType::get(*shape, x.getElementType()));
  return success();
}

template <typename OpType>
static LogicalResult verifyConvGrad(OpType op, RankedTensorType g, RankedTensorType x, RankedTensorType w) {
  FailureOr<SmallVector<int64_t>> shape = convShape([&] { return op.emitOpError(); }, x, w, op.getStride(),
                                                    op.getPadding(), op.getDilation(), op.getGroups());
  if (failed(shape)) {
    return failure();
  }
  if (g.getElementType() != x.getElementType() || g.getShape() != ArrayRef<int64_t>(*shape)) {
    return op.emitOpError() << "g has type " << g << ", expected " << RankedTensorType::get(*shape, x.getElementType())
                            << ", the type of conv";
  }
  return success();
}

LogicalResult ConvGradInputOp::verify() {
  return verifyConvGrad(*this, getG().getType(), getResult().getType(), getW().getType());
}

LogicalResult ConvGradWeightOp::verify() {
  return verifyConvGrad(*this, getG().getType(), getX().getType(), getResult().getType());
}

#define GET_OP_CLASSES
#include "dialect/ContractionOps.cpp.inc"

void sojourn::detail::registerContractionOps(SojournDialect &dialect) {
  dialect.add<
#define GET_OP_LIST
#include "dialect/ContractionOps.cpp.inc"
      >();
}
