// SPDX-License-Identifier: Apache-2.0
// Dtypes of results: a call's arguments by position, as the type rules ask for them.
#include "frontend/shapes/Rules.h"

#include "dialect/elements/OperatorName.h"
#include "runtime/LibraryElement.h"

#include <c10/core/DefaultDtype.h>

#include <utility>

namespace sojourn::frontend {

using namespace shapes;

namespace {

Element numberOf(const at::Scalar &scalar) {
  return scalar.isBoolean()                         ? Element::i1
         : scalar.isIntegral(/*includeBool=*/false) ? Element::i64
         : scalar.isComplex()                       ? Element::c128
                                                    : Element::f64;
}

/// Dtypes that no program holds take no part; the recorder refuses tensors of them.
void collectTensor(const Tensor &tensor, CommonType &common) {
  std::optional<Element> element = tensor.defined() ? runtime::elementOf(tensor.scalar_type()) : std::nullopt;
  if (!element) {
    return;
  }
  if (!tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
    return common.add(*element, tensor.dim() == 0 ? OperandKind::ZeroDim : OperandKind::Tensor);
  }
  // A Python number that became a tensor on its way.
  common.add(isComplex(*element) ? Element::c128 : isFloat(*element) ? Element::f64 : *element, OperandKind::Number);
}

const Tensor &firstTensor(const c10::IValue &value) {
  if (value.isTensor()) {
    return value.toTensor();
  }
  if (value.isTensorList() || (value.isList() && !value.isIntList() && !value.isBoolList())) {
    for (const c10::IValue &element : value.toListRef()) {
      if (element.isTensor() && element.toTensor().defined()) {
        return element.toTensor();
      }
    }
  }
  return undefinedTensor();
}

class RecordedCall final : public TypedCall {
public:
  RecordedCall(Arguments args, c10::ArrayRef<int16_t> positions) : args_(args), positions_(positions) {}

  void collect(unsigned argument, CommonType &common) const override {
    const c10::IValue *value = at(argument);
    if (!value) {
      return;
    }
    if (value->isTensor()) {
      collectTensor(value->toTensor(), common);
    } else if (isNumber(*value) || value->isBool()) {
      common.add(numberOf(value->toScalar()), OperandKind::Number);
    } else if (value->isList()) {
      for (const c10::IValue &element : value->toListRef()) {
        if (element.isTensor()) {
          collectTensor(element.toTensor(), common);
        }
      }
    }
  }

  std::optional<Element> typeOf(unsigned argument) const override {
    const c10::IValue *value = at(argument);
    if (!value) {
      return std::nullopt;
    }
    if (value->isInt()) { // a dtype
      return runtime::elementOf(static_cast<ScalarType>(value->toInt()));
    }
    return elementOf(firstTensor(*value));
  }

  bool isTrue(unsigned argument) const override {
    const c10::IValue *value = at(argument);
    return value && (!value->isBool() || value->toBool());
  }

  bool isEmpty(unsigned argument) const override {
    const c10::IValue *value = at(argument);
    return value && value->isTensor() && value->toTensor().defined() && value->toTensor().numel() == 0;
  }

  std::optional<Element> first() const override {
    for (const c10::IValue &value : args_) {
      if (const Tensor &tensor = firstTensor(value); tensor.defined()) {
        return elementOf(tensor);
      }
    }
    return std::nullopt;
  }

private:
  /// nullptr: not an argument of this overload, or None.
  const c10::IValue *at(unsigned argument) const {
    int16_t position = positions_[argument];
    bool isThere = position >= 0 && static_cast<size_t>(position) < args_.size() && !args_[position].isNone();
    return isThere ? &args_[position] : nullptr;
  }
  static std::optional<Element> elementOf(const Tensor &tensor) {
    return tensor.defined() ? runtime::elementOf(tensor.scalar_type()) : std::nullopt;
  }

  Arguments args_;
  c10::ArrayRef<int16_t> positions_;
};

thread_local bool byNumpy = false;

TypeContext context() {
  if (byNumpy) {
    return kNumpyTypes;
  }
  // Anything else than a float is no default dtype.
  return {PromotionRules::Torch, runtime::elementOf(c10::get_default_dtype_as_scalartype()).value_or(Element::f32)};
}

ScalarType dtypeOf(std::optional<Element> element) {
  return element ? runtime::scalarTypeOf(*element) : ScalarType::Undefined;
}

} // namespace

bool recordsByNumpy() { return byNumpy; }

bool recordByNumpy(bool on) { return std::exchange(byNumpy, on); }

ShapeRule::ShapeRule(const FunctionSchema &schema, Function function)
    : schema_(&schema), function_(function), types_(&TypeRule::of(functionalBase(baseName(schema)))) {
  for (const std::string &name : types_->arguments()) {
    std::optional<int> position = schema.argumentIndexWithName(name);
    bool isInput = position && !schema.arguments()[*position].is_out();
    positions_.push_back(isInput ? static_cast<int16_t>(*position) : int16_t{-1});
  }
}

void ShapeRule::operator()(Arguments args, Outputs &outputs) const {
  size_t begin = outputs.size();
  function_(*this, args, outputs);
  fillTypes(args, outputs, begin);
}

ScalarType ShapeRule::common(Arguments args) const {
  return dtypeOf(types_->common(RecordedCall(args, positions_), context()));
}

ScalarType ShapeRule::computed(Arguments args) const {
  RecordedCall call(args, positions_);
  std::optional<Element> computed = types_->computed(call, context());
  return dtypeOf(computed ? computed : types_->result(0, computed, call, context()));
}

ScalarType ShapeRule::result(Arguments args) const {
  RecordedCall call(args, positions_);
  return dtypeOf(types_->result(0, types_->computed(call, context()), call, context()));
}

void ShapeRule::fillTypes(Arguments args, Outputs &outputs, size_t begin) const {
  if (begin == outputs.size()) {
    return;
  }
  RecordedCall call(args, positions_);
  std::optional<Element> computed = types_->computed(call, context());
  for (size_t i = begin; i < outputs.size(); ++i) {
    if (outputs[i].defined && outputs[i].dtype == ScalarType::Undefined) {
      outputs[i].dtype = dtypeOf(types_->result(i - begin, computed, call, context()));
    }
  }
}

} // namespace sojourn::frontend
