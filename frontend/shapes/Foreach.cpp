// SPDX-License-Identifier: Apache-2.0
// Ops over lists of tensors: the base op's rule per element. In-place forms and the fused optimizers
// return nothing, but bad arguments must fail here, not at the owner.
#include "frontend/shapes/Rules.h"

#include <ATen/ExpandUtils.h>

namespace sojourn::frontend::shapes {

namespace {

bool isElementList(const c10::IValue &value) {
  return value.isTensorList() || (value.isList() && !value.isIntList() && !value.isBoolList());
}

size_t listLength(Arguments args) {
  std::optional<size_t> length;
  for (size_t i = 0; i < args.size(); ++i) {
    if (!isElementList(args[i])) {
      continue;
    }
    size_t size = args[i].toListRef().size();
    if (!length) {
      length = size;
      TORCH_CHECK(size > 0, "Tensor list must have at least one tensor.");
    } else if (args[i].isTensorList()) {
      TORCH_CHECK(size == *length, "Tensor lists must have the same number of tensors, got ", *length, " and ", size);
    } else {
      TORCH_CHECK(size == *length, "Tensor list must have same number of elements as scalar list.");
    }
  }
  return length.value_or(0);
}

/// Whether every tensor that takes part in element `index` has self's sizes and dtype (or is rank 0).
bool plain(Arguments args, size_t index) {
  const Tensor &self = args[0].toListRef()[index].toTensor();
  if (!c10::isFloatingType(self.scalar_type())) {
    return false;
  }
  for (size_t i = 1; i < args.size(); ++i) {
    if (args[i].isTensor() || args[i].isTensorList()) {
      const Tensor &other = args[i].isTensor() ? args[i].toTensor() : args[i].toListRef()[index].toTensor();
      if (other.scalar_type() != self.scalar_type() || (other.dim() != 0 && other.sizes() != self.sizes())) {
        return false;
      }
    }
  }
  return true;
}

/// Runs `rule` per element over the arguments of that element.
void perElement(const ShapeRule &op, Arguments args, const ShapeRule *rule, Outputs &out) {
  const size_t length = listLength(args);
  const bool inPlace = op.schema().returns().empty();
  c10::SmallVector<c10::IValue, 6> element(args.begin(), args.end());
  c10::SmallVector<OutputMeta, 1> scratch;
  for (size_t index = 0; index < length; ++index) {
    if (inPlace && plain(args, index)) {
      continue;
    }
    for (size_t i = 0; i < args.size(); ++i) {
      if (isElementList(args[i])) {
        element[i] = args[i].toListRef()[index];
      }
    }
    if (!inPlace) {
      (*rule)(element, out);
      continue;
    }
    scratch.clear();
    (*rule)(element, scratch);
    const Tensor &self = element[0].toTensor();
    TORCH_CHECK(IntArrayRef(scratch[0].sizes) == self.sizes(), "output with shape ", self.sizes(),
                " doesn't match the broadcast shape ", IntArrayRef(scratch[0].sizes));
    TORCH_CHECK(c10::canCast(scratch[0].dtype, self.scalar_type()), "result type ", scratch[0].dtype,
                " can't be cast to the desired output type ", self.scalar_type());
  }
}

/// _foreach_add_ -> the rule of aten::add; the base op's rules accept list elements in its argument order.
void foreach (const ShapeRule &op, Arguments args, Outputs & out) {
  TORCH_CHECK_NOT_IMPLEMENTED(op.ofElements(), "no shape rule for the elements of ", op.schema().name());
  perElement(op, args, op.ofElements(), out);
}

/// .Tensor overloads of addcmul and addcdiv: the last argument is a 1-D tensor of one number per element.
void foreachFused(const ShapeRule &op, Arguments args, Outputs &out) {
  c10::SmallVector<c10::IValue, 4> inputs(args.begin(), args.begin() + 3);
  listLength(args.slice(0, 3));
  if (args[3].isTensor()) {
    const Tensor &numbers = args[3].toTensor();
    TORCH_CHECK(numbers.dim() == 1, "Expected packed scalar Tensor to be of dimension 1. Got ", numbers.dim(),
                " instead.");
    TORCH_CHECK(static_cast<size_t>(numbers.numel()) == args[0].toListRef().size(),
                "Expected length of scalars to match input of length ", args[0].toListRef().size(), " but got ",
                numbers.numel(), " instead.");
  } else {
    listLength({args[0], args[3]});
  }
  perElement(op, inputs, op.ofElements(), out);
}

/// _foreach_norm(self, ord, dtype): rank 0 per element.
void foreachNorm(const ShapeRule &op, Arguments args, Outputs &out) {
  listLength(args.slice(0, 1));
  for (const c10::IValue &value : listAt(args, 0)) {
    ScalarType type = value.toTensor().scalar_type();
    TORCH_CHECK(c10::isFloatingType(type) || c10::isComplexType(type),
                "linalg.vector_norm: Expected a floating point or complex tensor as input. Got ", type);
  }
  perElement(op, args, op.ofElements(), out);
}

/// _foreach_copy_(self, src): each source must broadcast to its target.
void foreachCopy(const ShapeRule &op, Arguments args, Outputs &out) {
  listLength(args.slice(0, 2));
  for (size_t i = 0; i < listAt(args, 0).size(); ++i) {
    const Tensor &self = listAt(args, 0)[i].toTensor(), &source = listAt(args, 1)[i].toTensor();
    at::inferExpandGeometry_dimvector(source.sizes(), source.strides(), self.sizes());
    if (!op.schema().returns().empty()) {
      appendLike(out, self).dtype = self.scalar_type();
    }
  }
}

/// Fused optimizers: (params, grads, states..., numbers...); every state looks like its parameter.
void fusedOptimizer(const ShapeRule &op, Arguments args, Outputs &) {
  c10::ArrayRef<c10::IValue> params = listAt(args, 0);
  for (size_t i = 1; i < args.size() && args[i].isTensorList(); ++i) {
    c10::ArrayRef<c10::IValue> list = listAt(args, i);
    if (list.empty()) {
      continue; // amsgrad or momentum is off
    }
    const std::string &name = op.schema().arguments()[i].name();
    TORCH_CHECK(list.size() == params.size(), op.schema().name(), ": expected ", params.size(), " tensors in ", name,
                ", got ", list.size());
    if (name == "state_steps") {
      continue;
    }
    for (size_t j = 0; j < list.size(); ++j) {
      TORCH_CHECK(list[j].toTensor().sizes() == params[j].toTensor().sizes(), op.schema().name(), ": ", name, "[", j,
                  "] has size ", list[j].toTensor().sizes(), ", its parameter ", params[j].toTensor().sizes());
    }
  }
}

const RuleEntry kRules[] = {
    {"_foreach_abs", foreach},          {"_foreach_acos", foreach},
    {"_foreach_add", foreach},          {"_foreach_asin", foreach},
    {"_foreach_atan", foreach},         {"_foreach_ceil", foreach},
    {"_foreach_clamp_max", foreach},    {"_foreach_clamp_min", foreach},
    {"_foreach_clone", foreach},        {"_foreach_cos", foreach},
    {"_foreach_cosh", foreach},         {"_foreach_div", foreach},
    {"_foreach_erf", foreach},          {"_foreach_erfc", foreach},
    {"_foreach_exp", foreach},          {"_foreach_expm1", foreach},
    {"_foreach_floor", foreach},        {"_foreach_frac", foreach},
    {"_foreach_lerp", foreach},         {"_foreach_lgamma", foreach},
    {"_foreach_log", foreach},          {"_foreach_log10", foreach},
    {"_foreach_log1p", foreach},        {"_foreach_log2", foreach},
    {"_foreach_max", foreach},          {"_foreach_mm", foreach},
    {"_foreach_mul", foreach},          {"_foreach_neg", foreach},
    {"_foreach_pow", foreach},          {"_foreach_reciprocal", foreach},
    {"_foreach_round", foreach},        {"_foreach_rsqrt", foreach},
    {"_foreach_sigmoid", foreach},      {"_foreach_sign", foreach},
    {"_foreach_sin", foreach},          {"_foreach_sinh", foreach},
    {"_foreach_sqrt", foreach},         {"_foreach_sub", foreach},
    {"_foreach_tan", foreach},          {"_foreach_tanh", foreach},
    {"_foreach_trunc", foreach},        {"_foreach_zero", foreach},
    {"_foreach_maximum", foreach},      {"_foreach_minimum", foreach},
    {"_foreach_addcmul", foreachFused}, {"_foreach_addcdiv", foreachFused},
    {"_foreach_norm", foreachNorm},     {"_foreach_powsum", foreachNorm},
    {"_foreach_copy", foreachCopy},     {"_fused_adam", fusedOptimizer},
    {"_fused_adamw", fusedOptimizer},   {"_fused_adagrad", fusedOptimizer},
    {"_fused_sgd", fusedOptimizer},     {"_amp_foreach_non_finite_check_and_unscale", returnsNothing},
};

} // namespace

c10::ArrayRef<RuleEntry> foreachRules() { return kRules; }

std::string elementRuleOf(std::string_view base) {
  constexpr std::string_view kPrefix = "_foreach_";
  if (base.substr(0, kPrefix.size()) != kPrefix) {
    return {};
  }
  base.remove_prefix(kPrefix.size());
  if (base.back() == '_') {
    base.remove_suffix(1);
  }
  // `maximum` and `minimum` take numbers only in list form.
  static const std::unordered_map<std::string_view, std::string_view> others{{"add", "add.Tensor"},
                                                                             {"sub", "sub.Tensor"},
                                                                             {"mul", "mul.Tensor"},
                                                                             {"div", "div.Tensor"},
                                                                             {"lerp", "lerp.Tensor"},
                                                                             {"pow", "pow.Tensor_Tensor"},
                                                                             {"maximum", "clamp_min"},
                                                                             {"minimum", "clamp_min"},
                                                                             {"norm", "norm.ScalarOpt_dtype"},
                                                                             {"powsum", "norm.ScalarOpt_dtype"}};
  auto other = others.find(base);
  return "aten::" + std::string(other == others.end() ? base : other->second);
}

} // namespace sojourn::frontend::shapes
