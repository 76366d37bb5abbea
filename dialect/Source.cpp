// SPDX-License-Identifier: Apache-2.0
// Constants, index ramps and random draws.
#include "dialect/Families.h"
#include "dialect/SourceOps.h"
#include "dialect/rows/Rules.h"

using namespace mlir;
using namespace sojourn;

LogicalResult ConstantOp::inferReturnTypes(MLIRContext *context, std::optional<Location> location, Adaptor adaptor,
                                           SmallVectorImpl<Type> &results) {
  Attribute value = adaptor.getValueAttr();
  auto typed = dyn_cast_or_null<TypedAttr>(value);
  if (!typed || !isa<IntegerAttr, FloatAttr>(value) || !isCoreElement(typed.getType())) {
    return emitOptionalError(location, "value is ", value, ", expected one number of an element type of core form");
  }
  results.push_back(RankedTensorType::get({}, typed.getType()));
  return success();
}

LogicalResult IotaOp::verify() {
  RankedTensorType type = getResult().getType();
  if (getDim() < 0 || getDim() >= type.getRank()) {
    return emitOpError() << "dim is " << getDim() << ", expected one in [0, " << type.getRank() << ")";
  }
  return success();
}

template <typename OpType>
static LogicalResult verifyStream(OpType op) {
  // The stream is one 32-bit word of the counter.
  if (op.getStream() < 0 || op.getStream() > int64_t(0xffffffff)) {
    return op.emitOpError() << "stream is " << op.getStream() << ", expected one in [0, 2^32)";
  }
  return success();
}

LogicalResult RngBitsOp::verify() { return verifyStream(*this); }
LogicalResult RngUniformOp::verify() { return verifyStream(*this); }
LogicalResult RngNormalOp::verify() { return verifyStream(*this); }

#define GET_OP_CLASSES
#include "dialect/SourceOps.cpp.inc"

void sojourn::detail::registerSourceOps(SojournDialect &dialect) {
  dialect.add<
#define GET_OP_LIST
#include "dialect/SourceOps.cpp.inc"
      >();
}
