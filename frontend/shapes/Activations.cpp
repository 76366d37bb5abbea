// SPDX-License-Identifier: Apache-2.0
// Activations, their gradients, and dropout.
#include "frontend/shapes/Elementwise.h"

namespace sojourn::frontend::shapes {

namespace {

void relu(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0);
  TORCH_CHECK(self.scalar_type() != at::kBool, "Boolean inputs not supported for relu");
  appendIterated(out, {&self});
}

void hardtanh(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0);
  TORCH_CHECK_NOT_IMPLEMENTED(self.scalar_type() != at::kBool, "Bool inputs not supported for hardtanh");
  appendLike(out, self);
}

void gelu(const ShapeRule &op, Arguments args, Outputs &out) {
  if (args.size() > 1 && args[1].isString()) {
    std::string_view kind = args[1].toStringView();
    TORCH_CHECK(kind == "none" || kind == "tanh", "approximate argument must be either none or tanh.");
  }
  elementwise<1, Demands::floating>(op, args, out);
}

void softshrink(const ShapeRule &op, Arguments args, Outputs &out) {
  double lambda = args[1].toScalar().toDouble();
  TORCH_CHECK(lambda >= 0, "lambda must be in range [0, ", std::numeric_limits<float>::max(), "] for input dtype ",
              tensorAt(args, 0).scalar_type(), ", but found ", lambda);
  elementwise<1, Demands::floating>(op, args, out);
}

void logSigmoid(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0);
  requireFloating("log_sigmoid_cpu", self.scalar_type());
  append(out, self.sizes());
  append(out, self.sizes());
}

void gluSizes(const Tensor &self, int64_t dim, Dims &sizes) {
  TORCH_CHECK(self.dim() > 0, "glu does not support 0-dimensional tensors");
  dim = at::maybe_wrap_dim(dim, self.dim());
  TORCH_CHECK(self.size(dim) % 2 == 0, "Halving dimension must be even, but dimension ", dim, " is size ",
              self.size(dim));
  sizes.assign(self.sizes().begin(), self.sizes().end());
  sizes[dim] /= 2;
}

void glu(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0);
  Dims sizes;
  gluSizes(self, args[1].toInt(), sizes);
  // An iteration over two halves, which have self's strides.
  Operand half{sizes, self.strides()};
  append(out, sizes);
  out.back().strides = permutedStrides({half, half}, sizes);
}

/// (glu, x, dx, dim): like glu of x.
void gluTangent(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &result = tensorAt(args, 0);
  appendIterated(out, {&result});
}

void gluBackward(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 1);
  Dims sizes;
  gluSizes(self, args[2].toInt(), sizes);
  append(out, self.sizes());
}

void nativeDropout(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &input = tensorAt(args, 0);
  appendLike(out, input);
  appendLike(out, input);
}

/// Eager iterates these two with self first, which decides the strides when the layouts differ.
void selfThenGradient(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &grad = tensorAt(args, 0), &self = tensorAt(args, 1);
  appendIterated(out, {&self, &grad});
}

void preluBackward(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &grad = tensorAt(args, 0), &self = tensorAt(args, 1), &weight = tensorAt(args, 2);
  for (int i = 0; i < 2; ++i) {
    appendIterated(out, {&self, &weight, &grad});
  }
}

void rreluWithNoise(const ShapeRule &op, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0), &noise = tensorAt(args, 1);
  TORCH_CHECK(self.sizes() == noise.sizes(),
              "noise tensor shape must match self tensor shape. Got self.shape = ", self.sizes(),
              " noise.shape = ", noise.sizes());
  append(out, self.sizes());
  if (op.schema().returns().size() > 1) {
    appendLike(out, noise);
  }
}

/// silu(self); eager has it for complex64, too.
void silu(const ShapeRule &op, Arguments args, Outputs &out) {
  const ScalarType type = tensorAt(args, 0).scalar_type();
  if (!c10::isFloatingType(type) && type != c10::kComplexFloat) {
    failDtype("silu", type);
  }
  elementwise<1>(op, args, out);
}

const RuleEntry kRules[] = {
    {"relu", relu},
    {"hardtanh", hardtanh},
    {"threshold", over<1>},
    // Activations.
    {"celu", activation<1>},
    {"elu", activation<1>},
    {"gelu", gelu},
    {"hardshrink", activation<1>},
    {"hardsigmoid", activation<1>},
    {"hardswish", activation<1>},
    {"leaky_relu", activation<1>},
    {"mish", activation<1>},
    {"silu", silu},
    {"softplus", activation<1>},
    {"softshrink", softshrink},
    {"glu", glu},
    {"glu_jvp", gluTangent},
    {"log_sigmoid_forward", logSigmoid},
    {"_prelu_kernel", activation<3>},
    {"rrelu_with_noise", rreluWithNoise},
    {"rrelu_with_noise_functional", rreluWithNoise},
    // Backward of activations: (grad_output, self or output, ...).
    {"elu_backward", over<0b100001>},
    {"gelu_backward", over<3>},
    {"glu_backward", gluBackward},
    {"hardshrink_backward", over<3>},
    {"hardsigmoid_backward", over<3>},
    {"hardswish_backward", over<3>},
    {"hardtanh_backward", over<3>},
    {"leaky_relu_backward", selfThenGradient},
    {"log_sigmoid_backward", likeSelf},
    {"logit_backward", over<3>},
    {"mish_backward", over<3>},
    {"_prelu_kernel_backward", preluBackward},
    {"rrelu_with_noise_backward", over<7>},
    {"sigmoid_backward", over<3>},
    {"silu_backward", over<3>},
    {"softplus_backward", over<3>},
    {"softshrink_backward", over<3>},
    {"tanh_backward", over<3>},
    {"threshold_backward", selfThenGradient},
    // Dropout.
    {"native_dropout", nativeDropout},
    {"native_dropout_backward", over<3>},
};

} // namespace

c10::ArrayRef<RuleEntry> activationRules() { return kRules; }

} // namespace sojourn::frontend::shapes
