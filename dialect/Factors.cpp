// SPDX-License-Identifier: Apache-2.0
// Factors of matrices: result types, of matrices in the last two dims.
#include "dialect/Bounds.h"
#include "dialect/ContractionOps.h"

#include <limits>

using namespace mlir;
using namespace sojourn;

LogicalResult CholeskyOp::inferReturnTypes(MLIRContext *context, std::optional<Location> location, Adaptor adaptor,
                                           SmallVectorImpl<Type> &results) {
  auto x = dyn_cast<RankedTensorType>(adaptor.getX().getType());
  int64_t rank = x ? x.getRank() : 0;
  if (rank < 2 || !checkedNumel(x.getShape()) || x.getShape()[rank - 1] != x.getShape()[rank - 2]) {
    return emitOptionalError(location, "operand has type ", adaptor.getX().getType(),
                             ", expected square matrices [..., n, n] of static shape and at most ",
                             boundText(bounds::kValueElements), " elements");
  }
  results.push_back(x);
  results.push_back(RankedTensorType::get(x.getShape().drop_back(2), IntegerType::get(context, 64)));
  return success();
}

namespace {
/// Matrices [..., m, n]: leading dims, m and n.
struct Matrices {
  SmallVector<int64_t> batch;
  int64_t rows, columns;
  Type element;

  RankedTensorType of(std::initializer_list<int64_t> dims) const { return of(dims, element); }
  RankedTensorType of(std::initializer_list<int64_t> dims, Type type) const {
    SmallVector<int64_t> shape(batch);
    shape.append(dims);
    return RankedTensorType::get(shape, type);
  }
  int64_t least() const { return std::min(rows, columns); }
};
} // namespace

/// f32 of complex<f32>; a real type as it is.
static Type realOf(Type element) {
  auto complex = dyn_cast<ComplexType>(element);
  return complex ? complex.getElementType() : element;
}

/// Rows and columns that libraries count in 32 bits.
static bool isCountable(RankedTensorType x) {
  return llvm::all_of(x.getShape().take_back(2),
                      [](int64_t size) { return size <= std::numeric_limits<int32_t>::max(); });
}

static FailureOr<Matrices> matricesOf(std::optional<Location> location, Type type, bool isSquare) {
  auto x = dyn_cast<RankedTensorType>(type);
  int64_t rank = x ? x.getRank() : 0;
  if (rank < 2 || !checkedNumel(x.getShape()) || (isSquare && x.getShape()[rank - 1] != x.getShape()[rank - 2])) {
    return emitOptionalError(location, "operand has type ", type, ", expected ",
                             isSquare ? "square matrices [..., n, n]" : "matrices [..., m, n]",
                             " of static shape and at most ", boundText(bounds::kValueElements), " elements");
  }
  if (!isCountable(x)) {
    return emitOptionalError(location, "operand has type ", type, ", expected fewer than 2^31 rows and columns");
  }
  return Matrices{SmallVector<int64_t>(x.getShape().drop_back(2)), x.getShape()[rank - 2], x.getShape()[rank - 1],
                  x.getElementType()};
}

LogicalResult LuOp::inferReturnTypes(MLIRContext *context, std::optional<Location> location, Adaptor adaptor,
                                     SmallVectorImpl<Type> &results) {
  FailureOr<Matrices> x = matricesOf(location, adaptor.getX().getType(), /*isSquare=*/false);
  if (failed(x)) {
    return failure();
  }
  Type position = IntegerType::get(context, 64);
  results.append(
      {adaptor.getX().getType(), x->of({x->least()}, position), x->of({x->rows}, position), x->of({}, position)});
  return success();
}

LogicalResult QrOp::inferReturnTypes(MLIRContext *context, std::optional<Location> location, Adaptor adaptor,
                                     SmallVectorImpl<Type> &results) {
  FailureOr<Matrices> x = matricesOf(location, adaptor.getX().getType(), /*isSquare=*/false);
  if (failed(x)) {
    return failure();
  }
  int64_t inner = adaptor.getFull() ? x->rows : x->least();
  results.append({x->of({x->rows, inner}), x->of({inner, x->columns})});
  return success();
}

LogicalResult EighOp::inferReturnTypes(MLIRContext *context, std::optional<Location> location, Adaptor adaptor,
                                       SmallVectorImpl<Type> &results) {
  FailureOr<Matrices> x = matricesOf(location, adaptor.getX().getType(), /*isSquare=*/true);
  if (failed(x)) {
    return failure();
  }
  results.append({x->of({x->rows}, realOf(x->element)), adaptor.getX().getType()});
  return success();
}

LogicalResult LdlOp::inferReturnTypes(MLIRContext *context, std::optional<Location> location, Adaptor adaptor,
                                      SmallVectorImpl<Type> &results) {
  FailureOr<Matrices> x = matricesOf(location, adaptor.getX().getType(), /*isSquare=*/true);
  if (failed(x)) {
    return failure();
  }
  Type position = IntegerType::get(context, 64);
  results.append({adaptor.getX().getType(), x->of({x->rows}, position), x->of({}, position)});
  return success();
}

/// Right sides `b` for square matrices `a`.
static LogicalResult verifyRightSides(Operation *op, RankedTensorType a, RankedTensorType b) {
  if (b.getRank() != a.getRank() || b.getElementType() != a.getElementType() ||
      b.getShape().drop_back(1) != a.getShape().drop_back(1)) {
    return op->emitOpError() << "b has type " << b << ", expected matrices [..., n, k] that match " << a;
  }
  if (!isCountable(a) || !isCountable(b)) {
    return op->emitOpError() << "solves " << a << " for " << b << ", expected fewer than 2^31 rows and columns";
  }
  return success();
}

LogicalResult LdlSolveOp::verify() {
  RankedTensorType a = getFactors().getType(), b = getB().getType();
  int64_t rank = a.getRank();
  if (rank < 2 || a.getShape()[rank - 1] != a.getShape()[rank - 2]) {
    return emitOpError() << "factors have type " << a << ", expected square matrices [..., n, n]";
  }
  if (getPivots().getType().getShape() != a.getShape().drop_back(1)) {
    return emitOpError() << "pivots have type " << getPivots().getType()
                         << ", expected one row [..., n] for each matrix of " << a;
  }
  return verifyRightSides(*this, a, b);
}

LogicalResult EigOp::inferReturnTypes(MLIRContext *context, std::optional<Location> location, Adaptor adaptor,
                                      SmallVectorImpl<Type> &results) {
  FailureOr<Matrices> x = matricesOf(location, adaptor.getX().getType(), /*isSquare=*/true);
  if (failed(x)) {
    return failure();
  }
  Type element = isa<ComplexType>(x->element) ? x->element : ComplexType::get(x->element);
  results.append({x->of({x->rows}, element), x->of({x->rows, x->rows}, element)});
  return success();
}

LogicalResult SvdOp::inferReturnTypes(MLIRContext *context, std::optional<Location> location, Adaptor adaptor,
                                      SmallVectorImpl<Type> &results) {
  FailureOr<Matrices> x = matricesOf(location, adaptor.getX().getType(), /*isSquare=*/false);
  if (failed(x)) {
    return failure();
  }
  bool full = adaptor.getFull();
  results.append({x->of({x->rows, full ? x->rows : x->least()}), x->of({x->least()}, realOf(x->element)),
                  x->of({full ? x->columns : x->least(), x->columns})});
  return success();
}

LogicalResult TriangularSolveOp::verify() {
  RankedTensorType a = getA().getType(), b = getB().getType();
  int64_t rank = a.getRank();
  if (rank < 2 || a.getShape()[rank - 1] != a.getShape()[rank - 2]) {
    return emitOpError() << "a has type " << a << ", expected square matrices [..., n, n]";
  }
  return verifyRightSides(*this, a, b);
}
