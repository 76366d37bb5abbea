// SPDX-License-Identifier: Apache-2.0
// Captured form: the schema-carrying call, its memory effects, views and allocation.
#include "dialect/Bounds.h"
#include "dialect/CapturedOps.h"
#include "dialect/Families.h"
#include "dialect/rows/Rules.h"

#include "dialect/Box.h"

#include "llvm/ADT/SmallBitVector.h"

using namespace mlir;
using namespace sojourn;

StringRef AtenOp::getBaseName() {
  StringRef name = getName();
  name.consume_front("aten.");
  return name.split('.').first;
}

StringRef AtenOp::getOverload() {
  StringRef name = getName();
  name.consume_front("aten.");
  return name.split('.').second;
}

Attribute AtenOp::getArg(StringRef argument) {
  for (auto [name, arg] : llvm::zip(getNames(), getArgs())) {
    if (auto text = dyn_cast<StringAttr>(name); text && text.getValue() == argument) {
      return arg;
    }
  }
  return {};
}

Value AtenOp::getArgOperand(StringRef argument) {
  auto reference = dyn_cast_or_null<OperandAttr>(getArg(argument));
  if (!reference || reference.getIndex() >= static_cast<int64_t>(getInputs().size())) {
    return {};
  }
  return getInputs()[reference.getIndex()];
}

/// Checks one argument and marks the operands it refers to. Lists nest once.
static LogicalResult verifyArg(AtenOp op, Attribute arg, unsigned position, bool nested,
                               llvm::SmallBitVector &referenced) {
  if (auto reference = dyn_cast<OperandAttr>(arg)) {
    if (reference.getIndex() >= static_cast<int64_t>(referenced.size())) {
      return op.emitOpError() << "argument #" << position << " refers to operand " << reference.getIndex() << ", found "
                              << referenced.size() << " operands";
    }
    referenced.set(static_cast<unsigned>(reference.getIndex()));
    return success();
  }
  if (isa<UnitAttr, BoolAttr, IntegerAttr, FloatAttr, StringAttr, TypeAttr>(arg)) {
    return success();
  }
  if (auto list = dyn_cast<ArrayAttr>(arg); list && !nested) {
    for (Attribute element : list) {
      if (failed(verifyArg(op, element, position, /*nested=*/true, referenced))) {
        return failure();
      }
    }
    return success();
  }
  return op.emitOpError() << "argument #" << position << " is " << arg
                          << ", expected an operand reference, a literal, a list of those, or unit";
}

LogicalResult AtenOp::verify() {
  if (!getName().starts_with("aten.") || getBaseName().empty()) {
    return emitOpError() << "names \"" << getName() << "\", expected \"aten.<op>\" or \"aten.<op>.<overload>\"";
  }
  if (getArgs().size() != getNames().size()) {
    return emitOpError() << "has " << getArgs().size() << " args and " << getNames().size()
                         << " names, expected one name per argument";
  }
  llvm::SmallBitVector referenced(getInputs().size());
  for (auto [position, arg] : llvm::enumerate(getArgs())) {
    if (failed(verifyArg(*this, arg, position, /*nested=*/false, referenced))) {
      return failure();
    }
  }
  if (!referenced.all()) {
    return emitOpError() << "operand #" << referenced.find_first_unset() << " is not referred to by any argument";
  }
  llvm::SmallBitVector written(getInputs().size());
  for (int64_t index : getMutates()) {
    if (index < 0 || index >= static_cast<int64_t>(getInputs().size())) {
      return emitOpError() << "mutates operand " << index << ", found " << getInputs().size() << " operands";
    }
    Type type = getInputs()[index].getType();
    if (!isa<RefType>(type)) {
      return emitOpError() << "mutates operand " << index << " of type " << type << ", expected a !sojourn.ref";
    }
    if (written.test(static_cast<unsigned>(index))) {
      return emitOpError() << "mutates operand " << index << " twice";
    }
    written.set(static_cast<unsigned>(index));
  }
  for (auto [index, type] : llvm::enumerate(getInputs().getTypes())) {
    if (isa<NoneType>(type)) {
      return emitOpError() << "operand #" << index << " has type none; an absent argument is `unit` in args";
    }
  }
  return success();
}

void AtenOp::getEffects(SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>> &effects) {
  for (OpOperand &operand : getInputsMutable()) {
    if (isa<RefType>(operand.get().getType())) {
      effects.emplace_back(MemoryEffects::Read::get(), &operand);
    }
  }
  for (int64_t index : getMutates()) {
    if (index >= 0 && index < static_cast<int64_t>(getInputs().size())) {
      effects.emplace_back(MemoryEffects::Write::get(), &getInputsMutable()[index]);
    }
  }
  for (OpResult result : getOutputs()) {
    if (isa<RefType>(result.getType())) {
      effects.emplace_back(MemoryEffects::Allocate::get(), result);
      effects.emplace_back(MemoryEffects::Write::get(), result);
    }
  }
}

/// The storage that `ref` looks at; null when it is not in sight.
static Value rootOf(Value ref) {
  // Bounded: the chain of definitions may be a cycle in IR that is not verified yet.
  for (int hop = 0; hop < 1024; ++hop) {
    if (auto moved = ref.getDefiningOp<MovedViewOp>()) {
      ref = moved.getSource();
    } else if (auto view = ref.getDefiningOp<ViewOp>()) {
      ref = view.getSource();
    } else {
      auto type = dyn_cast<RefType>(ref.getType());
      return type && type.isDenseRoot() ? ref : Value();
    }
  }
  return {};
}

LogicalResult ViewOp::verify() {
  RefType source = getSource().getType();
  RefType result = getResult().getType();
  // Of another element type it sees the same memory, in which sizes count differently.
  const int64_t width = elementBytes(source.getElementType()), seen = elementBytes(result.getElementType());
  if (source.getElementType() != result.getElementType() && (width == 0 || seen == 0)) {
    return emitOpError() << "result has type " << result << ", expected the element type of " << source;
  }
  std::optional<int64_t> extent = result.getExtent();
  if (!extent) {
    return emitOpError() << "result " << result << " reaches beyond 2^63 elements";
  }
  // The root may have another element type than a view of it that is the source here.
  const Value root = rootOf(getSource());
  if (!root) {
    return success();
  }
  auto storage = cast<RefType>(root.getType());
  const int64_t held = elementBytes(storage.getElementType()), count = storage.getNumElements();
  const int64_t fits = seen == 0 || held == 0 ? count : held >= seen ? count * (held / seen) : count / (seen / held);
  if (*extent > fits) {
    return emitOpError() << "result " << result << " reaches element " << *extent - 1 << " of a storage of " << fits
                         << " elements";
  }
  return success();
}

LogicalResult MovedViewOp::verify() {
  RefType source = getSource().getType(), result = getResult().getType();
  std::optional<int64_t> elements = checkedNumel(getShape(), bounds::kViewElements);
  if (!source.isDenseRoot() || elements != source.getNumElements() || *elements == 0) {
    return emitOpError() << "views " << source << " as [" << getShape() << "], expected a root with as many elements";
  }
  if (source.getElementType() != result.getElementType()) {
    return emitOpError() << "result has type " << result << ", expected the element type of " << source;
  }
  std::optional<Box> box = boxOf(getShape(), result.getShape(), result.getStrides(), result.getOffset());
  if (!box) {
    return emitOpError() << "result " << result << " is not a window whose dims follow those of [" << getShape() << "]";
  }
  int64_t previous = -1;
  for (int64_t dim : getDims()) {
    if (dim <= previous || dim >= static_cast<int64_t>(getShape().size()) || box->starts[dim] != 0) {
      return emitOpError() << "dims are [" << getDims() << "], expected strictly increasing dims of [" << getShape()
                           << "] in which the result begins at 0";
    }
    previous = dim;
  }
  if (getDims().size() != getPlaces().size() || getDims().empty()) {
    return emitOpError() << "has " << getPlaces().size() << " places and " << getDims().size()
                         << " dims, expected one each";
  }
  return success();
}

template <typename OpType>
static LogicalResult verifySameTensor(OpType op, RefType ref, RankedTensorType tensor) {
  if (ref.getShape() != tensor.getShape() || ref.getElementType() != tensor.getElementType()) {
    return op.emitOpError() << "found " << ref << " and " << tensor << ", expected one shape and element type";
  }
  return success();
}

LogicalResult AllocOp::verify() {
  RefType ref = getResult().getType();
  if (!ref.isDenseRoot()) {
    return emitOpError() << "result has type " << ref << ", expected a dense layout at offset 0";
  }
  return verifySameTensor(*this, ref, getValue().getType());
}

LogicalResult LoadOp::verify() { return verifySameTensor(*this, getSource().getType(), getResult().getType()); }

#define GET_OP_CLASSES
#include "dialect/CapturedOps.cpp.inc"

void sojourn::detail::registerCapturedOps(SojournDialect &dialect) {
  dialect.add<
#define GET_OP_LIST
#include "dialect/CapturedOps.cpp.inc"
      >();
}
