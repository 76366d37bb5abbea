// SPDX-License-Identifier: Apache-2.0
// Activation functions. Each computes wide and rounds once, as ATen does.
#include "passes/decompose/Activations.h"

using namespace mlir;

namespace sojourn::decompose {
namespace {

Term elu(Term x, Term alpha, Term scale, Term inputScale) {
  return select(x <= 0.0, expm1(x * inputScale) * (alpha * scale), x * scale);
}

/// The factor of an activation argument: 1 unless given.
Term factor(Call &c, StringRef name, Term x, double otherwise = 1) { return c.number(name, x.element(), otherwise); }

Results randomizedLeaky(Call &c) {
  Term x = c.wide("self");
  Term lower = factor(c, "lower", x, 0.125);
  Term upper = factor(c, "upper", x, 1.0 / 3);
  if (!c.boolean("training")) {
    Term slope = (lower + upper) / 2.0;
    return {select(x <= 0.0, x * slope, x), c.in("noise")};
  }
  Term u = draw(Draw::uniform, c.seed(), x.shape(), x.element());
  Term slope = lower + u * (upper - lower);
  Term noise = select(x <= 0.0, slope, 1.0);
  return {x * noise, noise};
}

Results logSigmoid(Call &c) {
  Term x = c.wide("self");
  Term z = exp(-abs(x));
  // The buffer is CPU eager's shortcut for backward; where the recorded one
  // is empty there is nothing to keep.
  Term buffer = product(c.shape(1)) == x.numel() ? z : full(c.emitter, c.shape(1), 0, x.element());
  return {min(x, 0.0) - log1p(z), buffer};
}

} // namespace

Term gelu(Term x, StringRef approximate) {
  if (approximate == "tanh") {
    Term inner = kGeluBeta * (x + kGeluKappa * (x * x * x));
    return 0.5 * x * (1.0 + tanh(inner));
  }
  return x * 0.5 * (1.0 + erf(x * kHalfRoot));
}

void addActivations(Table &t) {
  t.add({"relu"}, [](Call &c) -> Results { return max(c.in("self"), 0.0); });
  t.add({"relu6"}, [](Call &c) -> Results { return min(max(c.in("self"), 0.0), 6.0); });
  t.add({"threshold"}, [](Call &c) -> Results {
    Term x = c.in("self");
    return select(x <= factor(c, "threshold", x), factor(c, "value", x), x);
  });
  t.add({"gelu"}, [](Call &c) -> Results { return gelu(c.wide("self"), c.string("approximate")); });
  t.add({"silu"}, [](Call &c) -> Results {
    Term x = c.wide("self");
    return x * logistic(x);
  });
  t.add({"elu"}, [](Call &c) -> Results {
    Term x = c.wide("self");
    return elu(x, factor(c, "alpha", x), factor(c, "scale", x), factor(c, "input_scale", x));
  });
  t.add({"celu"}, [](Call &c) -> Results {
    Term x = c.wide("self");
    Term alpha = factor(c, "alpha", x);
    return elu(x, alpha, constantLike(x, 1), 1.0 / alpha);
  });
  t.add({"selu"}, [](Call &c) -> Results {
    Term x = c.wide("self");
    return elu(x, constantLike(x, 1.6732632423543772848170429916717),
               constantLike(x, 1.0507009873554804934193349852946), constantLike(x, 1));
  });
  t.add({"leaky_relu"}, [](Call &c) -> Results {
    Term x = c.wide("self");
    return select(x > 0.0, x, x * factor(c, "negative_slope", x, 0.01));
  });
  t.add({"rrelu_with_noise", "rrelu_with_noise_functional"}, randomizedLeaky);
  t.add({"hardtanh"}, [](Call &c) -> Results {
    Term x = c.in("self");
    return min(max(x, factor(c, "min_val", x, -1)), factor(c, "max_val", x));
  });
  t.add({"hardswish"}, [](Call &c) -> Results {
    Term x = c.wide("self");
    return x * min(max(x + 3.0, 0.0), 6.0) / 6.0;
  });
  t.add({"hardsigmoid"}, [](Call &c) -> Results { return min(max(c.wide("self") + 3.0, 0.0), 6.0) / 6.0; });
  t.add({"hardshrink"}, [](Call &c) -> Results {
    Term x = c.in("self");
    return select(abs(x) <= factor(c, "lambd", x, 0.5), 0.0, x);
  });
  t.add({"softshrink"}, [](Call &c) -> Results {
    Term x = c.wide("self");
    Term lambda = factor(c, "lambd", x, 0.5);
    // x * 0 keeps a NaN.
    return select(x > lambda, x - lambda, select(x < -lambda, x + lambda, x * 0.0));
  });
  t.add({"softplus"}, [](Call &c) -> Results {
    Term x = c.wide("self");
    Term beta = factor(c, "beta", x);
    Term scaled = x * beta;
    return select(scaled > factor(c, "threshold", x, 20), x, softplus(scaled) / beta);
  });
  t.add({"mish"}, [](Call &c) -> Results {
    Term x = c.wide("self");
    return x * tanh(softplus(x));
  });
  t.add({"log_sigmoid_forward"}, logSigmoid);
  t.add({"log_sigmoid"}, [](Call &c) -> Results { return -softplus(-c.wide("self")); });
  t.add({"glu"}, [](Call &c) -> Results {
    Term x = c.wide("self");
    auto halves = chunk(x, 2, wrapDim(c.integer("dim", -1), x.rank()));
    return halves[0] * logistic(halves[1]);
  });
  t.add({"glu_jvp"}, [](Call &c) -> Results {
    Term x = c.wide("x"), result = c.wide("glu");
    const int64_t dim = wrapDim(c.integer("dim", -1), x.rank());
    Term gate = logistic(chunk(x, 2, dim)[1]);
    auto tangents = chunk(c.wide("dx"), 2, dim);
    return tangents[0] * gate + tangents[1] * (result - gate * result);
  });
  t.add({"_prelu_kernel"}, [](Call &c) -> Results {
    Term x = c.wide("self");
    return select(x > 0.0, x, c.wide("weight") * x);
  });
}

} // namespace sojourn::decompose
