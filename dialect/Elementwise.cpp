// SPDX-License-Identifier: Apache-2.0
// Elementwise ops: splat inference and the verifiers of casts and comparisons.
#include "dialect/ElementwiseOps.h"
#include "dialect/Families.h"
#include "dialect/UnaryOps.h"
#include "dialect/rows/Rules.h"

using namespace mlir;
using namespace sojourn;

LogicalResult sojourn::detail::inferSplat(MLIRContext *context, std::optional<Location> location, ValueRange operands,
                                          bool skipFirstElement, bool boolResult, SmallVectorImpl<Type> &results) {
  RankedTensorType shaped;
  Type element;
  for (auto [index, type] : llvm::enumerate(operands.getTypes())) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor || !tensor.hasStaticShape()) {
      return emitOptionalError(location, "operand #", index, " has type ", type, ", expected a tensor of static shape");
    }
    if (tensor.getRank() != 0) {
      if (shaped && shaped.getShape() != tensor.getShape()) {
        return emitOptionalError(location, "operand #", index, " has type ", type, ", expected the shape of ", shaped,
                                 " or rank 0");
      }
      shaped = tensor;
    }
    if (index == 0 && skipFirstElement) {
      continue;
    }
    if (element && element != tensor.getElementType()) {
      return emitOptionalError(location, "operand #", index, " has type ", type, ", expected element type ", element);
    }
    element = tensor.getElementType();
  }
  if (!element) {
    return emitOptionalError(location, "found no operands");
  }
  if (boolResult) {
    element = IntegerType::get(context, 1);
  }
  results.push_back(RankedTensorType::get(shaped ? shaped.getShape() : ArrayRef<int64_t>(), element));
  return success();
}

LogicalResult ConvertOp::verify() {
  if (isa<ComplexType>(getX().getType().getElementType()) &&
      !isa<ComplexType>(getResult().getType().getElementType())) {
    return emitOpError() << "converts " << getX().getType() << " to " << getResult().getType()
                         << "; a complex number has no real value, take its real part";
  }
  return success();
}

LogicalResult BitcastOp::verify() {
  unsigned from = getX().getType().getElementTypeBitWidth();
  unsigned to = getResult().getType().getElementTypeBitWidth();
  if (from != to) {
    return emitOpError() << "operand elements have " << from << " bits and result elements " << to
                         << ", expected equal widths";
  }
  return success();
}

LogicalResult CompareOp::verify() {
  StringRef predicate = getPredicate();
  if (!llvm::is_contained({"eq", "ne", "lt", "le", "gt", "ge"}, predicate)) {
    return emitOpError() << "predicate is \"" << predicate << "\", expected eq, ne, lt, le, gt or ge";
  }
  if (isa<ComplexType>(getA().getType().getElementType()) && predicate != "eq" && predicate != "ne") {
    return emitOpError() << "predicate is \"" << predicate << "\", expected eq or ne for complex elements";
  }
  return success();
}

LogicalResult SpecialBinaryOp::verify() {
  std::string problem = unknownSpecial(getFunction(), 2);
  return problem.empty() ? success() : emitOpError() << problem;
}

#define GET_OP_CLASSES
#include "dialect/ElementwiseOps.cpp.inc"

void sojourn::detail::registerElementwiseOps(SojournDialect &dialect) {
  dialect.add<
#define GET_OP_LIST
#include "dialect/ElementwiseOps.cpp.inc"
      >();
}
