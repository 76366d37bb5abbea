// SPDX-License-Identifier: Apache-2.0
// Gradients of activation functions, as autograd records them.
#include "passes/decompose/Activations.h"

using namespace mlir;

namespace sojourn::decompose {
namespace {

/// Incoming gradient and the saved input, wide.
struct Saved {
  Term g, x;
};

Saved saved(Call &c) {
  return {widen(c.in(c.anyOf({"grad_output", "grad_out"}))),
          widen(c.in(c.anyOf({"self", "self_or_result", "output"})))};
}

Term factor(Call &c, StringRef name, Term x, double otherwise = 1) { return c.number(name, x.element(), otherwise); }

Results geluGradient(Call &c) {
  auto [g, x] = saved(c);
  if (c.string("approximate") == "tanh") {
    Term squared = x * x;
    Term t = tanh(kGeluBeta * (x + kGeluKappa * (squared * x)));
    Term inner = kGeluBeta * (1.0 + (3 * kGeluKappa) * squared);
    return g * (0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * inner);
  }
  Term cdf = 0.5 * (1.0 + erf(x * kHalfRoot));
  Term pdf = (0.5 * kGeluBeta) * exp(-0.5 * (x * x));
  return g * (cdf + x * pdf);
}

Results eluGradient(Call &c) {
  auto [g, x] = saved(c);
  Term scale = factor(c, "scale", x);
  Term inputScale = factor(c, "input_scale", x);
  Term negative = factor(c, "alpha", x) * scale;
  Term slope = c.boolean("is_result") ? inputScale * (x + negative) : (inputScale * negative) * exp(x * inputScale);
  return select(x <= 0.0, g * slope, g * scale);
}

Results hardswishGradient(Call &c) {
  auto [g, x] = saved(c);
  Term inside = g * (x / 3.0 + 0.5);
  return select(x <= -3.0, 0.0, select(x < 3.0, inside, g));
}

Results logSigmoidGradient(Call &c) {
  auto [g, x] = saved(c);
  // 1 - sigmoid(x), in the form that does not cancel.
  return g * logistic(-x);
}

Results gluGradient(Call &c) {
  auto [g, x] = saved(c);
  int64_t dim = wrapDim(c.integer("dim"), x.rank());
  auto halves = chunk(x, 2, dim);
  Term s = logistic(halves[1]);
  Term left = g * s;
  return concat({left, left * (1.0 - s) * halves[0]}, dim);
}

Results logitGradient(Call &c) {
  auto [g, x] = saved(c);
  Term inside = g / (x * (1.0 - x));
  if (Term eps = c.number("eps", x.element())) {
    return select((x < eps) | (x > 1.0 - eps), 0.0, inside);
  }
  Term outside = (x < 0.0) | (x > 1.0);
  return select(outside, std::numeric_limits<double>::quiet_NaN(), inside);
}

} // namespace

void addActivationGradients(Table &t) {
  t.add({"threshold_backward"}, [](Call &c) -> Results {
    Term g = c.in("grad_output");
    Term x = c.in("self");
    return select(x <= c.number("threshold", x.element()), 0.0, g);
  });
  t.add({"gelu_backward"}, geluGradient);
  t.add({"silu_backward"}, [](Call &c) -> Results {
    auto [g, x] = saved(c);
    Term s = logistic(x);
    return g * s * (1.0 + x * (1.0 - s));
  });
  t.add({"elu_backward"}, eluGradient);
  t.add({"leaky_relu_backward"}, [](Call &c) -> Results {
    auto [g, x] = saved(c);
    return select(x > 0.0, g, g * factor(c, "negative_slope", x, 0.01));
  });
  t.add({"rrelu_with_noise_backward"}, [](Call &c) -> Results {
    auto [g, x] = saved(c);
    if (c.boolean("training")) {
      return g * c.wide("noise");
    }
    Term slope = (factor(c, "lower", x) + factor(c, "upper", x)) / 2.0;
    return select(x > 0.0, g, g * slope);
  });
  t.add({"hardtanh_backward"}, [](Call &c) -> Results {
    auto [g, x] = saved(c);
    Term outside = (x <= factor(c, "min_val", x, -1)) | (x >= factor(c, "max_val", x, 1));
    return select(outside, 0.0, g);
  });
  t.add({"hardswish_backward"}, hardswishGradient);
  t.add({"hardsigmoid_backward"}, [](Call &c) -> Results {
    auto [g, x] = saved(c);
    return select((x > -3.0) & (x < 3.0), g / 6.0, 0.0);
  });
  t.add({"hardshrink_backward", "softshrink_backward"}, [](Call &c) -> Results {
    auto [g, x] = saved(c);
    return select(abs(x) <= factor(c, "lambd", x, 0.5), 0.0, g);
  });
  t.add({"softplus_backward"}, [](Call &c) -> Results {
    auto [g, x] = saved(c);
    Term scaled = x * factor(c, "beta", x);
    return select(scaled > factor(c, "threshold", x, 20), g, g * logistic(scaled));
  });
  t.add({"mish_backward"}, [](Call &c) -> Results {
    auto [g, x] = saved(c);
    Term t = tanh(softplus(x));
    return g * (t + x * logistic(x) * (1.0 - t * t));
  });
  t.add({"sigmoid_backward"}, [](Call &c) -> Results {
    auto [g, y] = saved(c);
    return y.isComplex() ? g * conj((1.0 - y) * y) : g * (1.0 - y) * y;
  });
  t.add({"tanh_backward"}, [](Call &c) -> Results {
    auto [g, y] = saved(c);
    return g * conj(1.0 - y * y);
  });
  t.add({"log_sigmoid_backward"}, logSigmoidGradient);
  t.add({"glu_backward"}, gluGradient);
  t.add({"logit_backward"}, logitGradient);
  t.add({"_prelu_kernel_backward"}, [](Call &c) -> Results {
    auto [g, x] = saved(c);
    Term positive = x > 0.0;
    return {select(positive, g, c.wide("weight") * g), select(positive, 0.0, x * g)};
  });
}

} // namespace sojourn::decompose
