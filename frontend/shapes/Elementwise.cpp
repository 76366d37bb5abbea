// SPDX-License-Identifier: Apache-2.0
// Elementwise ops: which arguments are operands, and which dtypes their kernels lack. Sizes and strides are
// TensorIterator's (Iterator.h); activations stand in Activations.cpp.
#include "frontend/shapes/Elementwise.h"

#include <ATen/ExpandUtils.h>
#include <ATen/native/BinaryOps.h>

namespace sojourn::frontend::shapes {

namespace {

void nextAfter(const ShapeRule &op, Arguments args, Outputs &out) {
  requireFloating("nextafter_cpu", op.computed(args));
  elementwise<3>(op, args, out);
}

ScalarType typeOf(const c10::IValue &value) {
  return value.isTensor() ? value.toTensor().scalar_type() : value.toScalar().type();
}

void subtract(const ShapeRule &op, Arguments args, Outputs &out) {
  ScalarType left = typeOf(args[0]), right = typeOf(args[1]);
  TORCH_CHECK(left != at::kBool || right != at::kBool,
              "Subtraction, the `-` operator, with two bool tensors is not supported. "
              "Use the `^` or `logical_xor()` operator instead.");
  TORCH_CHECK(left != at::kBool && right != at::kBool,
              "Subtraction, the `-` operator, with a bool tensor is not supported. "
              "If you are trying to invert a mask, use the `~` or `logical_not()` operator instead.");
  if (baseName(op) == "rsub" && args[1].isTensor()) { // the other one comes first
    OutputMeta &meta = out.emplace_back();
    const TensorPointers tensors{&args[1].toTensor(), &args[0].toTensor()};
    iteratePromoted(tensors, op.computed(args), meta.sizes, meta.strides, /*withNumber=*/false);
  } else {
    elementwise<3>(op, args, out);
  }
  if (args.size() > 2 && args[2].isScalar()) {
    at::native::alpha_check(op.result(args), args[2].toScalar());
  }
}

void add(const ShapeRule &op, Arguments args, Outputs &out) {
  elementwise<3>(op, args, out);
  if (args.size() > 2 && args[2].isScalar() && !args[2].isInt()) {
    at::native::alpha_check(op.result(args), args[2].toScalar());
  }
}

void divide(const ShapeRule &op, Arguments args, Outputs &out) {
  if (args.size() > 2 && args[2].isString()) {
    std::string_view mode = args[2].toStringView();
    TORCH_CHECK(mode == "trunc" || mode == "floor",
                "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '", mode, "'");
    elementwise<3>(op, args, out);
    if (op.result(args) == at::kBool) {
      failDtype(mode == "floor" ? "div_floor_cpu" : "div_trunc_cpu", at::kBool);
    }
  } else {
    elementwise<3>(op, args, out);
  }
}

void negate(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0);
  TORCH_CHECK(self.scalar_type() != at::kBool,
              "Negation, the `-` operator, on a bool tensor is not supported. "
              "If you are trying to invert a mask, use the `~` or `logical_not()` operator instead.");
  appendIterated(out, {&self});
}

void absolute(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0);
  appendIterated(out, {&self});
}

void clamp(const ShapeRule &op, Arguments args, Outputs &out) {
  bool none = true;
  for (size_t i = 1; i < 3; ++i) {
    none = none && (args[i].isNone() || (args[i].isTensor() && !args[i].toTensor().defined()));
  }
  TORCH_CHECK(!none, "torch.clamp: At least one of 'min' or 'max' must not be None");
  elementwise<7>(op, args, out);
}

/// The iteration promotes, though truth is taken of each operand.
void logical(const ShapeRule &op, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0), &other = tensorAt(args, 1);
  OutputMeta &meta = out.emplace_back();
  iteratePromoted({&self, &other}, op.common(args), meta.sizes, meta.strides);
}

/// pow of a number and a tensor allocates row-major; of two tensors it iterates.
void power(const ShapeRule &op, Arguments args, Outputs &out) {
  if (args[0].isTensor() && !args[1].isTensor()) {
    const Tensor &base = tensorAt(args, 0);
    at::Scalar exponent = args[1].toScalar();
    TORCH_CHECK(!(c10::isIntegralType(base.scalar_type(), /*includeBool=*/true) && exponent.isIntegral(true) &&
                  exponent.toLong() < 0),
                "Integers to negative integer powers are not allowed.");
  }
  elementwise<kNumberIsParameter>(op, args, out);
  // Of bools only the powers that need no arithmetic, 0 and 1, are there.
  if (op.result(args) == at::kBool && (args[1].isTensor() || !args[0].isTensor())) {
    failDtype("pow", at::kBool);
  }
  if (!args[0].isTensor()) {
    out.back().strides = contiguousStrides(out.back().sizes);
  }
}

void lerp(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0), &end = tensorAt(args, 1), &weight = tensorAt(args, 2);
  TORCH_CHECK(self.scalar_type() == end.scalar_type(), "expected dtype ", self.dtype(), " for `end` but got dtype ",
              end.dtype());
  TensorPointers tensors{&self, &end};
  if (weight.defined()) {
    TORCH_CHECK(self.scalar_type() == weight.scalar_type(), "expected dtype ", self.dtype(),
                " for `weight` but got dtype ", weight.dtype());
    tensors.push_back(&weight);
  }
  appendIterated(out, tensors);
}

void addcdiv(const ShapeRule &op, Arguments args, Outputs &out) {
  TORCH_CHECK(
      !(c10::isIntegralType(typeOf(args[1]), true) && c10::isIntegralType(typeOf(args[2]), true)),
      "Integer division with addcdiv is no longer supported, and in a future  ",
      "release addcdiv will perform a true division of tensor1 and tensor2. ",
      "The historic addcdiv behavior can be implemented as (input + value * torch.trunc(tensor1 / tensor2)).to(",
      "input.dtype) ", "for integer inputs and as ", "(input + value * tensor1 / tensor2) for float inputs. ",
      "The future addcdiv behavior is just the latter implementation: (input + value * tensor1 / tensor2), "
      "for all dtypes.");
  elementwise<7>(op, args, out);
}

void where(const ShapeRule &op, Arguments args, Outputs &out) {
  const Tensor &condition = tensorAt(args, 0), &self = tensorAt(args, 1), &other = tensorAt(args, 2);
  TORCH_CHECK(condition.scalar_type() == at::kBool || condition.scalar_type() == at::kByte,
              "where expected condition to be a boolean tensor, but got a tensor with dtype ", condition.scalar_type());
  OutputMeta &meta = out.emplace_back();
  iteratePromoted({&condition, &self, &other}, op.computed(args), meta.sizes, meta.strides, /*withNumber=*/false,
                  /*exempt=*/1);
}

/// isnan, isinf on integers make a fresh zeros_like; same layout as TensorIterator's for one operand.
void isNan(const ShapeRule &, Arguments args, Outputs &out) { appendIterated(out, {&tensorAt(args, 0)}); }
void isInf(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0);
  if (c10::isIntegralType(self.scalar_type(), true)) {
    appendLike(out, self);
  } else {
    appendIterated(out, {&self});
  }
}

void bitwiseNot(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0);
  if (!c10::isIntegralType(self.scalar_type(), true)) {
    failDtype("bitwise_not_cpu", self.scalar_type());
  }
  appendIterated(out, {&self});
}

/// (n, self), in place (self, n).
void polygamma(const ShapeRule &op, Arguments args, Outputs &out) {
  return args[0].isTensor() ? elementwise<1>(op, args, out) : elementwise<2>(op, args, out);
}

void multivariateLgamma(const ShapeRule &op, Arguments args, Outputs &out) {
  const int64_t p = *intAt(args, 1);
  TORCH_CHECK(p >= 1, "p has to be greater than or equal to 1");
  elementwise<1>(op, args, out);
}

void heaviside(const ShapeRule &op, Arguments args, Outputs &out) {
  TORCH_CHECK(typeOf(args[0]) == typeOf(args[1]),
              "heaviside is not yet implemented for tensors with different dtypes.");
  elementwise<3>(op, args, out);
}

void angle(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0);
  appendIterated(out, {&self});
}

const RuleEntry kRules[] = {
    // Unary.
    {"neg", negate},
    {"abs", absolute},
    {"sign", over<1>},
    {"sgn", over<1>},
    {"floor", over<1>},
    {"ceil", over<1>},
    {"round", over<1>},
    {"trunc", over<1>},
    {"frac", over<1>},
    {"nan_to_num", over<1>},
    {"bitwise_not", bitwiseNot},
    {"acos", over<1>},
    {"acosh", over<1>},
    {"asin", over<1>},
    {"asinh", over<1>},
    {"atan", over<1>},
    {"atanh", over<1>},
    {"cos", over<1>},
    {"cosh", over<1>},
    {"deg2rad", over<1>},
    {"rad2deg", over<1>},
    {"digamma", over<1>},
    {"erf", over<1>},
    {"erfc", over<1>},
    {"erfinv", over<1>},
    {"exp", over<1>},
    {"exp2", over<1>},
    {"expm1", over<1>},
    {"lgamma", over<1>},
    {"log", over<1>},
    {"log10", over<1>},
    {"log1p", over<1>},
    {"log2", over<1>},
    {"logit", over<1>},
    {"reciprocal", over<1>},
    {"rsqrt", over<1>},
    {"sigmoid", over<1>},
    {"sin", over<1>},
    {"sinc", over<1>},
    {"sinh", over<1>},
    {"sqrt", over<1>},
    {"tan", over<1>},
    {"tanh", over<1>},
    {"angle", angle},
    {"isnan", isNan},
    {"isinf", isInf},
    {"isposinf", over<1>},
    {"isneginf", over<1>},
    {"signbit", over<1>},
    {"logical_not", over<1>},
    // Binary arithmetic.
    {"add", add},
    {"sub", subtract},
    {"rsub", subtract},
    {"mul", over<3>},
    {"div", divide},
    {"floor_divide", over<3>},
    {"fmod", over<3>},
    {"remainder", over<3>},
    {"maximum", over<3>},
    {"minimum", over<3>},
    {"fmax", over<3>},
    {"fmin", over<3>},
    {"pow", power},
    {"atan2", over<3>},
    {"copysign", over<3>},
    {"hypot", over<3>},
    {"logaddexp", over<3>},
    {"logaddexp2", over<3>},
    {"nextafter", nextAfter},
    {"xlogy", over<3>},
    {"ldexp", over<3>},
    {"heaviside", heaviside},
    // Special functions.
    {"i0", over<1>},
    {"polygamma", polygamma},
    {"mvlgamma", multivariateLgamma},
    {"conj_physical", over<1>},
    {"special_airy_ai", over<1>},
    {"special_bessel_j0", over<1>},
    {"special_bessel_j1", over<1>},
    {"special_bessel_y0", over<1>},
    {"special_bessel_y1", over<1>},
    {"special_erfcx", over<1>},
    {"special_i0e", over<1>},
    {"special_i1", over<1>},
    {"special_i1e", over<1>},
    {"special_modified_bessel_i0", over<1>},
    {"special_modified_bessel_i1", over<1>},
    {"special_modified_bessel_k0", over<1>},
    {"special_modified_bessel_k1", over<1>},
    {"special_scaled_modified_bessel_k0", over<1>},
    {"special_scaled_modified_bessel_k1", over<1>},
    {"special_ndtri", over<1>},
    {"special_log_ndtr", over<1>},
    {"special_entr", over<1>},
    {"special_spherical_bessel_j0", over<1>},
    {"igamma", over<3>},
    {"igammac", over<3>},
    {"special_zeta", over<3>},
    {"special_xlog1py", over<3>},
    {"special_chebyshev_polynomial_t", over<3>},
    {"special_chebyshev_polynomial_u", over<3>},
    {"special_chebyshev_polynomial_v", over<3>},
    {"special_chebyshev_polynomial_w", over<3>},
    {"special_shifted_chebyshev_polynomial_t", over<3>},
    {"special_shifted_chebyshev_polynomial_u", over<3>},
    {"special_shifted_chebyshev_polynomial_v", over<3>},
    {"special_shifted_chebyshev_polynomial_w", over<3>},
    {"special_hermite_polynomial_h", over<3>},
    {"special_hermite_polynomial_he", over<3>},
    {"special_laguerre_polynomial_l", over<3>},
    {"special_legendre_polynomial_p", over<3>},
    {"gcd", integral<3>},
    {"lcm", integral<3>},
    {"bitwise_and", integral<3>},
    {"bitwise_or", integral<3>},
    {"bitwise_xor", integral<3>},
    {"bitwise_left_shift", integral<3>},
    {"bitwise_right_shift", integral<3>},
    {"__lshift__", over<3>},
    {"__rshift__", over<3>},
    {"__ilshift__", over<3>},
    {"__irshift__", over<3>},
    {"eq", over<3>},
    {"ne", over<3>},
    {"lt", over<3>},
    {"le", over<3>},
    {"gt", over<3>},
    {"ge", over<3>},
    {"logical_and", logical},
    {"logical_or", logical},
    {"logical_xor", logical},
    // Ternary.
    {"addcmul", over<7>},
    {"addcdiv", addcdiv},
    {"lerp", lerp},
    {"clamp", clamp},
    {"clamp_min", over<kNumberIsParameter>},
    {"clamp_max", over<kNumberIsParameter>},
    {"where", where},
};

} // namespace

c10::ArrayRef<RuleEntry> elementwiseRules() { return kRules; }

} // namespace sojourn::frontend::shapes
