// SPDX-License-Identifier: Apache-2.0
// Elementwise ops: which arguments are operands, and how the result dtype follows from them. Sizes and
// strides are TensorIterator's (Iterator.h).
#include "frontend/shapes/Iterator.h"

#include <ATen/ExpandUtils.h>
#include <ATen/native/BinaryOps.h>

namespace sojourn::frontend::shapes {

namespace {

enum class Result {
  promote,    ///< torch's promotion over all operands
  floating,   ///< promotion, then integers become the default dtype
  activation, ///< promotion; integers are refused as the kernels do
  boolean,    ///< bool
  integral,   ///< promotion; floats are refused
  sameDtype,  ///< all operands must agree
};

/// Operands are the argument positions in `Mask`; None and undefined ones are skipped.
template <unsigned Mask, Result Kind>
void elementwise(const FunctionSchema &schema, Arguments args, Outputs &out) {
  TensorPointers tensors;
  CommonType common;
  // Numbers are rank-0 operands of binary ops; of others they are parameters.
  bool withNumber = false;
  for (unsigned i = 0; (Mask >> i) != 0 && i < args.size(); ++i) {
    if (((Mask >> i) & 1) == 0) {
      continue;
    }
    const c10::IValue &arg = args[i];
    if (arg.isTensor()) {
      if (arg.toTensor().defined()) {
        tensors.push_back(&arg.toTensor());
        common.add(arg.toTensor());
      }
    } else if (isNumber(arg) || arg.isBool()) {
      common.add(arg.toScalar());
      withNumber = Mask == 3;
    }
  }
  if (Kind == Result::boolean) {
    OutputMeta &meta = out.emplace_back();
    meta.dtype = at::kBool;
    if (tensors.size() < 2) {
      iterate(tensors, meta.sizes, meta.strides, withNumber);
    } else {
      iteratePromoted(tensors, common.get(), meta.sizes, meta.strides, withNumber);
    }
    return;
  }
  ScalarType type = common.get();
  if (Kind == Result::floating) {
    type = integralToDefault(type);
  } else if (Kind == Result::activation) {
    if (!c10::isFloatingType(type)) {
      failDtype(std::string(baseName(schema)).c_str(), type);
    }
  } else if (Kind == Result::integral) {
    if (!c10::isIntegralType(type, /*includeBool=*/true)) {
      failDtype((std::string(baseName(schema)) + "_cpu").c_str(), type);
    }
  } else if (Kind == Result::sameDtype) {
    for (const Tensor *tensor : tensors) {
      TORCH_CHECK(tensor->scalar_type() == tensors[0]->scalar_type(), "Found dtype ", tensor->scalar_type(),
                  " but expected ", tensors[0]->scalar_type());
    }
    type = tensors[0]->scalar_type();
  }
  OutputMeta &meta = out.emplace_back();
  meta.dtype = type;
  if (tensors.size() < 2) {
    iterate(tensors, meta.sizes, meta.strides, withNumber);
  } else {
    iteratePromoted(tensors, type, meta.sizes, meta.strides, withNumber);
  }
}

/// Two operands of which a number is no tensor operand: the high bit stands for no argument.
constexpr unsigned kNumberIsParameter = 0x10003;

template <unsigned Mask>
constexpr ShapeRule promote = elementwise<Mask, Result::promote>;
template <unsigned Mask>
constexpr ShapeRule floating = elementwise<Mask, Result::floating>;
template <unsigned Mask>
constexpr ShapeRule activation = elementwise<Mask, Result::activation>;
template <unsigned Mask>
constexpr ShapeRule boolean = elementwise<Mask, Result::boolean>;
template <unsigned Mask>
constexpr ShapeRule integral = elementwise<Mask, Result::integral>;
template <unsigned Mask>
constexpr ShapeRule sameDtype = elementwise<Mask, Result::sameDtype>;

ScalarType typeOf(const c10::IValue &value) {
  return value.isTensor() ? value.toTensor().scalar_type() : value.toScalar().type();
}

void subtract(const FunctionSchema &schema, Arguments args, Outputs &out) {
  ScalarType left = typeOf(args[0]), right = typeOf(args[1]);
  TORCH_CHECK(left != at::kBool || right != at::kBool,
              "Subtraction, the `-` operator, with two bool tensors is not supported. "
              "Use the `^` or `logical_xor()` operator instead.");
  TORCH_CHECK(left != at::kBool && right != at::kBool,
              "Subtraction, the `-` operator, with a bool tensor is not supported. "
              "If you are trying to invert a mask, use the `~` or `logical_not()` operator instead.");
  elementwise<3, Result::promote>(schema, args, out);
  if (args.size() > 2 && args[2].isScalar()) {
    at::native::alpha_check(out.back().dtype, args[2].toScalar());
  }
}

void add(const FunctionSchema &schema, Arguments args, Outputs &out) {
  elementwise<3, Result::promote>(schema, args, out);
  if (args.size() > 2 && args[2].isScalar() && !args[2].isInt()) {
    at::native::alpha_check(out.back().dtype, args[2].toScalar());
  }
}

void divide(const FunctionSchema &schema, Arguments args, Outputs &out) {
  if (args.size() > 2 && args[2].isString()) {
    std::string_view mode = args[2].toStringView();
    TORCH_CHECK(mode == "trunc" || mode == "floor",
                "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '", mode, "'");
    elementwise<3, Result::promote>(schema, args, out);
    if (out.back().dtype == at::kBool) {
      failDtype(mode == "floor" ? "div_floor_cpu" : "div_trunc_cpu", at::kBool);
    }
  } else {
    elementwise<3, Result::floating>(schema, args, out);
  }
}

void negate(const FunctionSchema &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0);
  TORCH_CHECK(self.scalar_type() != at::kBool,
              "Negation, the `-` operator, on a bool tensor is not supported. "
              "If you are trying to invert a mask, use the `~` or `logical_not()` operator instead.");
  appendIterated(out, {&self}, self.scalar_type());
}

void absolute(const FunctionSchema &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0);
  appendIterated(out, {&self}, c10::toRealValueType(self.scalar_type()));
}

void relu(const FunctionSchema &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0);
  TORCH_CHECK(self.scalar_type() != at::kBool, "Boolean inputs not supported for relu");
  appendIterated(out, {&self}, self.scalar_type());
}

void hardtanh(const FunctionSchema &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0);
  TORCH_CHECK_NOT_IMPLEMENTED(self.scalar_type() != at::kBool, "Bool inputs not supported for hardtanh");
  appendLike(out, self, self.scalar_type());
}

void clamp(const FunctionSchema &schema, Arguments args, Outputs &out) {
  bool none = true;
  for (size_t i = 1; i < 3; ++i) {
    none = none && (args[i].isNone() || (args[i].isTensor() && !args[i].toTensor().defined()));
  }
  TORCH_CHECK(!none, "torch.clamp: At least one of 'min' or 'max' must not be None");
  elementwise<7, Result::promote>(schema, args, out);
}

/// pow of a number and a tensor allocates row-major; of two tensors it iterates.
void power(const FunctionSchema &schema, Arguments args, Outputs &out) {
  if (args[0].isTensor() && !args[1].isTensor()) {
    const Tensor &base = tensorAt(args, 0);
    at::Scalar exponent = args[1].toScalar();
    TORCH_CHECK(!(c10::isIntegralType(base.scalar_type(), /*includeBool=*/true) && exponent.isIntegral(true) &&
                  exponent.toLong() < 0),
                "Integers to negative integer powers are not allowed.");
  }
  elementwise<kNumberIsParameter, Result::promote>(schema, args, out);
  // Of bools only the powers that need no arithmetic, 0 and 1, are there.
  if (out.back().dtype == at::kBool && (args[1].isTensor() || !args[0].isTensor())) {
    failDtype("pow", at::kBool);
  }
  if (!args[0].isTensor()) {
    out.back().strides = contiguousStrides(out.back().sizes);
  }
}

void lerp(const FunctionSchema &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0), &end = tensorAt(args, 1), &weight = tensorAt(args, 2);
  TORCH_CHECK(self.scalar_type() == end.scalar_type(), "expected dtype ", self.dtype(), " for `end` but got dtype ",
              end.dtype());
  TensorPointers tensors{&self, &end};
  if (weight.defined()) {
    TORCH_CHECK(self.scalar_type() == weight.scalar_type(), "expected dtype ", self.dtype(),
                " for `weight` but got dtype ", weight.dtype());
    tensors.push_back(&weight);
  }
  appendIterated(out, tensors, self.scalar_type());
}

void addcdiv(const FunctionSchema &schema, Arguments args, Outputs &out) {
  TORCH_CHECK(
      !(c10::isIntegralType(typeOf(args[1]), true) && c10::isIntegralType(typeOf(args[2]), true)),
      "Integer division with addcdiv is no longer supported, and in a future  ",
      "release addcdiv will perform a true division of tensor1 and tensor2. ",
      "The historic addcdiv behavior can be implemented as (input + value * torch.trunc(tensor1 / tensor2)).to(",
      "input.dtype) ", "for integer inputs and as ", "(input + value * tensor1 / tensor2) for float inputs. ",
      "The future addcdiv behavior is just the latter implementation: (input + value * tensor1 / tensor2), "
      "for all dtypes.");
  elementwise<7, Result::promote>(schema, args, out);
}

void where(const FunctionSchema &, Arguments args, Outputs &out) {
  const Tensor &condition = tensorAt(args, 0), &self = tensorAt(args, 1), &other = tensorAt(args, 2);
  TORCH_CHECK(condition.scalar_type() == at::kBool || condition.scalar_type() == at::kByte,
              "where expected condition to be a boolean tensor, but got a tensor with dtype ", condition.scalar_type());
  CommonType common;
  common.add(self);
  common.add(other);
  OutputMeta &meta = out.emplace_back();
  meta.dtype = common.get();
  iteratePromoted({&condition, &self, &other}, meta.dtype, meta.sizes, meta.strides, /*withNumber=*/false,
                  /*exempt=*/1);
}

/// isnan, isinf on integers make a fresh zeros_like; same layout as TensorIterator's for one operand.
void isNan(const FunctionSchema &, Arguments args, Outputs &out) {
  appendIterated(out, {&tensorAt(args, 0)}, at::kBool);
}
void isInf(const FunctionSchema &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0);
  if (c10::isIntegralType(self.scalar_type(), true)) {
    appendLike(out, self, at::kBool);
  } else {
    appendIterated(out, {&self}, at::kBool);
  }
}

void bitwiseNot(const FunctionSchema &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0);
  if (!c10::isIntegralType(self.scalar_type(), true)) {
    failDtype("bitwise_not_cpu", self.scalar_type());
  }
  appendIterated(out, {&self}, self.scalar_type());
}

void gelu(const FunctionSchema &schema, Arguments args, Outputs &out) {
  if (args.size() > 1 && args[1].isString()) {
    std::string_view kind = args[1].toStringView();
    TORCH_CHECK(kind == "none" || kind == "tanh", "approximate argument must be either none or tanh.");
  }
  elementwise<1, Result::activation>(schema, args, out);
}

void softshrink(const FunctionSchema &schema, Arguments args, Outputs &out) {
  double lambda = args[1].toScalar().toDouble();
  TORCH_CHECK(lambda >= 0, "lambda must be in range [0, ", std::numeric_limits<float>::max(), "] for input dtype ",
              tensorAt(args, 0).scalar_type(), ", but found ", lambda);
  elementwise<1, Result::activation>(schema, args, out);
}

void logSigmoid(const FunctionSchema &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0);
  requireFloating("log_sigmoid_cpu", self.scalar_type());
  append(out, self.sizes(), self.scalar_type());
  append(out, self.sizes(), self.scalar_type());
}

void gluSizes(const Tensor &self, int64_t dim, Dims &sizes) {
  TORCH_CHECK(self.dim() > 0, "glu does not support 0-dimensional tensors");
  dim = at::maybe_wrap_dim(dim, self.dim());
  TORCH_CHECK(self.size(dim) % 2 == 0, "Halving dimension must be even, but dimension ", dim, " is size ",
              self.size(dim));
  sizes.assign(self.sizes().begin(), self.sizes().end());
  sizes[dim] /= 2;
}

void glu(const FunctionSchema &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0);
  Dims sizes;
  gluSizes(self, args[1].toInt(), sizes);
  // An iteration over two halves, which have self's strides.
  Operand half{sizes, self.strides()};
  append(out, sizes, self.scalar_type());
  out.back().strides = permutedStrides({half, half}, sizes);
}

void gluBackward(const FunctionSchema &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 1);
  Dims sizes;
  gluSizes(self, args[2].toInt(), sizes);
  append(out, self.sizes(), self.scalar_type());
}

void nativeDropout(const FunctionSchema &, Arguments args, Outputs &out) {
  const Tensor &input = tensorAt(args, 0);
  appendLike(out, input, input.scalar_type());
  appendLike(out, input, at::kBool);
}

/// Eager iterates these two with self first, which decides the strides when the layouts differ.
void selfThenGradient(const FunctionSchema &, Arguments args, Outputs &out) {
  const Tensor &grad = tensorAt(args, 0), &self = tensorAt(args, 1);
  CommonType common;
  common.add(self);
  common.add(grad);
  appendIterated(out, {&self, &grad}, common.get());
}

void preluBackward(const FunctionSchema &, Arguments args, Outputs &out) {
  const Tensor &grad = tensorAt(args, 0), &self = tensorAt(args, 1), &weight = tensorAt(args, 2);
  for (int i = 0; i < 2; ++i) {
    appendIterated(out, {&self, &weight, &grad}, self.scalar_type());
  }
}

void rreluWithNoise(const FunctionSchema &schema, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0), &noise = tensorAt(args, 1);
  TORCH_CHECK(self.sizes() == noise.sizes(),
              "noise tensor shape must match self tensor shape. Got self.shape = ", self.sizes(),
              " noise.shape = ", noise.sizes());
  appendLike(out, self, self.scalar_type());
  if (schema.returns().size() > 1) {
    appendLike(out, noise, noise.scalar_type());
  }
}

void heaviside(const FunctionSchema &schema, Arguments args, Outputs &out) {
  TORCH_CHECK(typeOf(args[0]) == typeOf(args[1]),
              "heaviside is not yet implemented for tensors with different dtypes.");
  elementwise<3, Result::promote>(schema, args, out);
}

void angle(const FunctionSchema &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0);
  appendIterated(out, {&self}, integralToDefault(c10::toRealValueType(self.scalar_type())));
}

const RuleEntry kRules[] = {
    // Unary, dtype kept.
    {"neg", negate},
    {"abs", absolute},
    {"sign", promote<1>},
    {"sgn", promote<1>},
    {"floor", promote<1>},
    {"ceil", promote<1>},
    {"round", promote<1>},
    {"trunc", promote<1>},
    {"frac", promote<1>},
    {"nan_to_num", promote<1>},
    {"bitwise_not", bitwiseNot},
    {"relu", relu},
    {"hardtanh", hardtanh},
    {"threshold", promote<1>},
    // Unary, integers to the default dtype.
    {"acos", floating<1>},
    {"acosh", floating<1>},
    {"asin", floating<1>},
    {"asinh", floating<1>},
    {"atan", floating<1>},
    {"atanh", floating<1>},
    {"cos", floating<1>},
    {"cosh", floating<1>},
    {"deg2rad", floating<1>},
    {"rad2deg", floating<1>},
    {"digamma", floating<1>},
    {"erf", floating<1>},
    {"erfc", floating<1>},
    {"erfinv", floating<1>},
    {"exp", floating<1>},
    {"exp2", floating<1>},
    {"expm1", floating<1>},
    {"i0", floating<1>},
    {"lgamma", floating<1>},
    {"log", floating<1>},
    {"log10", floating<1>},
    {"log1p", floating<1>},
    {"log2", floating<1>},
    {"logit", floating<1>},
    {"reciprocal", floating<1>},
    {"rsqrt", floating<1>},
    {"sigmoid", floating<1>},
    {"sin", floating<1>},
    {"sinc", floating<1>},
    {"sinh", floating<1>},
    {"sqrt", floating<1>},
    {"tan", floating<1>},
    {"tanh", floating<1>},
    {"angle", angle},
    // Unary to bool.
    {"isnan", isNan},
    {"isinf", isInf},
    {"isposinf", boolean<1>},
    {"isneginf", boolean<1>},
    {"signbit", boolean<1>},
    {"logical_not", boolean<1>},
    // Activations.
    {"celu", activation<1>},
    {"elu", activation<1>},
    {"gelu", gelu},
    {"hardshrink", activation<1>},
    {"hardsigmoid", activation<1>},
    {"hardswish", activation<1>},
    {"leaky_relu", activation<1>},
    {"mish", activation<1>},
    {"silu", activation<1>},
    {"softplus", activation<1>},
    {"softshrink", softshrink},
    {"glu", glu},
    {"log_sigmoid_forward", logSigmoid},
    {"_prelu_kernel", activation<3>},
    {"rrelu_with_noise", rreluWithNoise},
    {"rrelu_with_noise_functional", rreluWithNoise},
    // Backward of activations: (grad_output, self or output, ...).
    {"elu_backward", promote<0b100001>},
    {"gelu_backward", promote<3>},
    {"glu_backward", gluBackward},
    {"hardshrink_backward", promote<3>},
    {"hardsigmoid_backward", promote<3>},
    {"hardswish_backward", promote<3>},
    {"hardtanh_backward", promote<3>},
    {"leaky_relu_backward", selfThenGradient},
    {"log_sigmoid_backward", likeSelf},
    {"logit_backward", promote<3>},
    {"mish_backward", promote<3>},
    {"_prelu_kernel_backward", preluBackward},
    {"rrelu_with_noise_backward", promote<7>},
    {"sigmoid_backward", promote<3>},
    {"silu_backward", promote<3>},
    {"softplus_backward", promote<3>},
    {"softshrink_backward", promote<3>},
    {"tanh_backward", promote<3>},
    {"threshold_backward", selfThenGradient},
    // Binary arithmetic.
    {"add", add},
    {"sub", subtract},
    {"rsub", subtract},
    {"mul", promote<3>},
    {"div", divide},
    {"floor_divide", promote<3>},
    {"fmod", promote<3>},
    {"remainder", promote<3>},
    {"maximum", promote<3>},
    {"minimum", promote<3>},
    {"fmax", promote<3>},
    {"fmin", promote<3>},
    {"pow", power},
    {"atan2", floating<3>},
    {"copysign", floating<3>},
    {"hypot", promote<3>},
    {"logaddexp", promote<3>},
    {"logaddexp2", promote<3>},
    {"nextafter", promote<3>},
    {"xlogy", floating<3>},
    {"ldexp", floating<3>},
    {"heaviside", heaviside},
    {"gcd", integral<3>},
    {"lcm", integral<3>},
    {"bitwise_and", integral<3>},
    {"bitwise_or", integral<3>},
    {"bitwise_xor", integral<3>},
    {"bitwise_left_shift", integral<3>},
    {"bitwise_right_shift", integral<3>},
    {"__lshift__", promote<3>},
    {"__rshift__", promote<3>},
    {"__ilshift__", promote<3>},
    {"__irshift__", promote<3>},
    {"eq", boolean<3>},
    {"ne", boolean<3>},
    {"lt", boolean<3>},
    {"le", boolean<3>},
    {"gt", boolean<3>},
    {"ge", boolean<3>},
    {"logical_and", boolean<3>},
    {"logical_or", boolean<3>},
    {"logical_xor", boolean<3>},
    // Ternary.
    {"addcmul", promote<7>},
    {"addcdiv", addcdiv},
    {"lerp", lerp},
    {"clamp", clamp},
    {"clamp_min", promote<kNumberIsParameter>},
    {"clamp_max", promote<kNumberIsParameter>},
    {"where", where},
    // Dropout.
    {"native_dropout", nativeDropout},
    {"native_dropout_backward", floating<3>},
};

} // namespace

c10::ArrayRef<RuleEntry> elementwiseRules() { return kRules; }

} // namespace sojourn::frontend::shapes
