// SPDX-License-Identifier: Apache-2.0
// Reads and writes at computed positions: result shapes and verifiers.
#include "dialect/Families.h"
#include "dialect/IndexOps.h"
#include "dialect/rows/Rules.h"

using namespace mlir;
using namespace sojourn;

/// Shape of take(x, i): x's shape with dim replaced by i's shape.
static SmallVector<int64_t> takeShape(RankedTensorType x, RankedTensorType i, int64_t dim) {
  SmallVector<int64_t> shape(x.getShape().take_front(static_cast<size_t>(dim)));
  llvm::append_range(shape, i.getShape());
  llvm::append_range(shape, x.getShape().drop_front(static_cast<size_t>(dim) + 1));
  return shape;
}

/// Along-form indices: the rank of x and, outside dim, its sizes. A row of the result then comes from that row of x.
static bool fitsAlong(RankedTensorType x, RankedTensorType i, int64_t dim) {
  if (x.getRank() != i.getRank()) {
    return false;
  }
  for (int64_t d = 0; d < x.getRank(); ++d) {
    if (d != dim && i.getDimSize(static_cast<unsigned>(d)) != x.getDimSize(static_cast<unsigned>(d))) {
      return false;
    }
  }
  return true;
}

template <typename Adaptor>
static LogicalResult takeOperands(std::optional<Location> location, Adaptor adaptor, RankedTensorType &x,
                                  RankedTensorType &i) {
  x = dyn_cast<RankedTensorType>(adaptor.getX().getType());
  i = dyn_cast<RankedTensorType>(adaptor.getI().getType());
  if (!x || !i || !checkedNumel(x.getShape()) || !checkedNumel(i.getShape())) {
    return emitOptionalError(location, "operands have types ", adaptor.getX().getType(), " and ",
                             adaptor.getI().getType(), ", expected tensors of static shape");
  }
  int64_t dim = adaptor.getDim();
  if (dim < 0 || dim >= x.getRank()) {
    return emitOptionalError(location, "dim is ", dim, ", expected one in [0, ", x.getRank(), ")");
  }
  return success();
}

LogicalResult TakeOp::inferReturnTypes(MLIRContext *context, std::optional<Location> location, Adaptor adaptor,
                                       SmallVectorImpl<Type> &results) {
  RankedTensorType x;
  RankedTensorType i;
  if (failed(takeOperands(location, adaptor, x, i))) {
    return failure();
  }
  results.push_back(RankedTensorType::get(takeShape(x, i, adaptor.getDim()), x.getElementType()));
  return success();
}

LogicalResult TakeAlongOp::inferReturnTypes(MLIRContext *context, std::optional<Location> location, Adaptor adaptor,
                                            SmallVectorImpl<Type> &results) {
  RankedTensorType x;
  RankedTensorType i;
  if (failed(takeOperands(location, adaptor, x, i))) {
    return failure();
  }
  if (!fitsAlong(x, i, adaptor.getDim())) {
    return emitOptionalError(location, "i has type ", i, ", expected the rank of ", x, " and its sizes outside dim ",
                             adaptor.getDim());
  }
  results.push_back(RankedTensorType::get(i.getShape(), x.getElementType()));
  return success();
}

template <typename OpType>
static LogicalResult verifyPut(OpType op) {
  RankedTensorType x = op.getX().getType();
  StringRef kind = op.getKind();
  if (!llvm::is_contained({"set", "add", "mul", "max", "min"}, kind)) {
    return op.emitOpError() << "kind is \"" << kind << "\", expected set, add, mul, max or min";
  }
  bool ordered = kind == "max" || kind == "min";
  if (ordered && isa<ComplexType>(x.getElementType())) {
    return op.emitOpError() << "kind is \"" << kind << "\", expected set, add or mul for complex elements";
  }
  if ((kind == "add" || kind == "mul") && x.getElementType().isSignlessInteger(1)) {
    return op.emitOpError() << "kind is \"" << kind << "\", expected set, max (or) or min (and) for i1";
  }
  if (op.getU().getType().getElementType() != x.getElementType()) {
    return op.emitOpError() << "u has type " << op.getU().getType() << ", expected element type " << x.getElementType();
  }
  if (op.getDim() < 0 || op.getDim() >= x.getRank()) {
    return op.emitOpError() << "dim is " << op.getDim() << ", expected one in [0, " << x.getRank() << ")";
  }
  return success();
}

LogicalResult PutOp::verify() {
  if (failed(verifyPut(*this))) {
    return failure();
  }
  SmallVector<int64_t> shape = takeShape(getX().getType(), getI().getType(), getDim());
  if (getU().getType().getShape() != ArrayRef<int64_t>(shape)) {
    return emitOpError() << "u has type " << getU().getType() << ", expected shape [" << ArrayRef<int64_t>(shape)
                         << "], that of take";
  }
  return success();
}

LogicalResult PutAlongOp::verify() {
  if (failed(verifyPut(*this))) {
    return failure();
  }
  if (getU().getType().getShape() != getI().getType().getShape()) {
    return emitOpError() << "u has type " << getU().getType() << " and i " << getI().getType()
                         << ", expected one shape";
  }
  if (!fitsAlong(getX().getType(), getI().getType(), getDim())) {
    return emitOpError() << "i has type " << getI().getType() << ", expected the rank of " << getX().getType()
                         << " and its sizes outside dim " << getDim();
  }
  return success();
}

#define GET_OP_CLASSES
#include "dialect/IndexOps.cpp.inc"

void sojourn::detail::registerIndexOps(SojournDialect &dialect) {
  dialect.add<
#define GET_OP_LIST
#include "dialect/IndexOps.cpp.inc"
      >();
}
