// SPDX-License-Identifier: Apache-2.0
// Reading and building `sojourn.aten`.
#include "passes/Aten.h"
#include "dialect/CapturedOps.h"
#include "dialect/CoreForm.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVectorExtras.h"

using namespace mlir;
using namespace sojourn;

Value sojourn::operandOf(AtenOp op, Attribute argument) {
  auto reference = dyn_cast_or_null<OperandAttr>(argument);
  return reference ? op.getInputs()[reference.getIndex()] : Value();
}

Attribute AtenBuilder::reference(Value value) {
  auto *position = llvm::find(inputs, value);
  int64_t index = position - inputs.begin();
  if (position == inputs.end()) {
    inputs.push_back(value);
  }
  return OperandAttr::get(builder.getContext(), index);
}

void sojourn::copyTypeRules(Operation *from, Operation *to) {
  for (StringLiteral name : {kPromotionAttr, kDefaultFloatAttr}) {
    if (Attribute attribute = from->getAttr(name)) {
      to->setAttr(name, attribute);
    }
  }
}

AtenBuilder &AtenBuilder::arg(StringRef argument, Value value) {
  args.push_back(reference(value));
  names.push_back(builder.getStringAttr(argument));
  return *this;
}

AtenBuilder &AtenBuilder::arg(StringRef argument, int64_t value) {
  args.push_back(builder.getI64IntegerAttr(value));
  names.push_back(builder.getStringAttr(argument));
  return *this;
}

AtenBuilder &AtenBuilder::arg(StringRef argument, AtenOp from, Attribute attribute, function_ref<Value(Value)> map) {
  auto copy = [&](Attribute element) {
    Value value = operandOf(from, element);
    return value ? reference(map ? map(value) : value) : element;
  };
  if (auto list = dyn_cast<ArrayAttr>(attribute)) {
    attribute = builder.getArrayAttr(llvm::map_to_vector(list, copy));
  } else {
    attribute = copy(attribute);
  }
  args.push_back(attribute);
  names.push_back(builder.getStringAttr(argument));
  return *this;
}

AtenOp AtenBuilder::build(TypeRange results) {
  return AtenOp::create(builder, loc, results, name, inputs, builder.getArrayAttr(args), builder.getArrayAttr(names),
                        builder.getDenseI64ArrayAttr({}));
}
