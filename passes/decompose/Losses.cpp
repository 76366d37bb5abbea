// SPDX-License-Identifier: Apache-2.0
// Loss functions and their gradients. `reduction` is 0 none, 1 mean, 2 sum.
#include "passes/decompose/Call.h"

using namespace mlir;

namespace sojourn::decompose {
namespace {

enum Reduction : int64_t { kNone = 0, kMean = 1, kSum = 2 };

Term reduced(Call &c, Term loss) {
  switch (c.integer("reduction", kMean)) {
  case kMean: return mean(loss, allDims(loss));
  case kSum: return sum(loss, allDims(loss));
  default: return loss;
  }
}

/// The incoming gradient divided by the number of elements for a mean.
Term spread(Call &c, Term x) {
  Term g = c.wide("grad_output");
  if (c.integer("reduction", kMean) == kMean) {
    g = g / static_cast<double>(x.numel());
  }
  return g;
}

/// Losses that eager refuses for operands of two dtypes; a wide f32 would hide the difference.
void demandOneType(Call &c) {
  if (c.in("self").element() != c.in("target").element()) {
    refuse("takes an input and a target of two dtypes, expected one dtype as in eager; convert one of them");
  }
}

Term difference(Call &c) { return c.wide("self") - c.wide("target"); }

/// The parts of a negative log likelihood: class dimension, index with the
/// ignored ones at 0, weight of each target with 0 for the ignored ones.
struct Likelihood {
  Term x;
  int64_t dim;
  Term valid, index, weight;
};

Likelihood likelihood(Call &c) {
  Term x = c.wide("self");
  int64_t dim = x.rank() == 1 ? 0 : 1;
  Term target = toIndex(c.in("target"));
  Term ignored = constantInt(c.emitter, c.integer("ignore_index", -100), c.i64());
  Term valid = ne(target, ignored);
  Term index = select(valid, target, 0.0);
  Term weight = convert(valid, x.element());
  if (Term classes = c.number("weight", x.element())) {
    weight = select(valid, take(classes, index, 0), 0.0);
  }
  return {x, dim, valid, index, weight};
}

Results nllForward(Call &c) {
  Likelihood l = likelihood(c);
  Term index = unsqueeze(l.index, l.dim);
  Term picked = squeeze(takeAlong(l.x, index, l.dim), l.dim);
  // Select, not multiply: an ignored row may hold -inf.
  Term loss = select(l.valid, -picked * l.weight, 0.0);
  Term total = sum(l.weight, allDims(l.weight));
  switch (c.integer("reduction", kMean)) {
  case kMean: return {sum(loss, allDims(loss)) / total, total};
  case kSum: return {sum(loss, allDims(loss)), total};
  default: return {loss, full(c.emitter, c.shape(1), 0, l.x.element())};
  }
}

Results nllBackward(Call &c) {
  Likelihood l = likelihood(c);
  Term g = c.wide("grad_output");
  if (c.integer("reduction", kMean) == kMean) {
    g = g / c.number("total_weight", g.element());
  }
  Term value = select(l.valid, -(l.weight * g), 0.0);
  Term zeros = full(c.emitter, l.x.shape(), 0, l.x.element());
  return putAlong(zeros, unsqueeze(l.index, l.dim), unsqueeze(value, l.dim), l.dim, "set");
}

Results smoothL1(Call &c) {
  Term distance = abs(difference(c));
  Term beta = c.number("beta", distance.element(), 1);
  return reduced(c, select(distance < beta, 0.5 * square(distance) / beta, distance - 0.5 * beta));
}

Results smoothL1Gradient(Call &c) {
  Term x = difference(c);
  Term beta = c.number("beta", x.element(), 1);
  return spread(c, x) * select(abs(x) >= beta, sign(x), x / beta);
}

Results huber(Call &c) {
  Term distance = abs(difference(c));
  Term delta = c.number("delta", distance.element(), 1);
  return reduced(c, select(distance <= delta, 0.5 * square(distance), delta * (distance - 0.5 * delta)));
}

Results huberGradient(Call &c) {
  demandOneType(c);
  Term x = difference(c);
  Term delta = c.number("delta", x.element(), 1);
  return spread(c, x) * min(max(x, -delta), delta);
}

Term weighted(Call &c, Term loss) {
  Term weight = c.wide("weight");
  return weight ? loss * weight : loss;
}

Results crossEntropy(Call &c) {
  demandOneType(c);
  Term x = c.wide("self");
  Term t = c.wide("target");
  // ATen's bound keeps log(0) finite.
  Term no = max(log1p(-x), -100.0);
  Term yes = max(log(x), -100.0);
  return reduced(c, weighted(c, (t - 1.0) * no - t * yes));
}

Results crossEntropyGradient(Call &c) {
  demandOneType(c);
  Term x = c.wide("self");
  Term slope = (x - c.wide("target")) / max((1.0 - x) * x, 1e-12);
  return weighted(c, spread(c, x) * slope);
}

Results crossEntropyWithLogits(Call &c) {
  Term x = c.wide("self");
  Term t = c.wide("target");
  // log(1 + exp(-x)) without overflow.
  Term tail = log1p(exp(-abs(x))) + max(-x, 0.0);
  if (Term positive = c.wide("pos_weight")) {
    tail = tail * ((positive - 1.0) * t + 1.0);
  }
  return reduced(c, weighted(c, (1.0 - t) * x + tail));
}

Results softMargin(Call &c) {
  Term product = c.wide("self") * c.wide("target");
  return reduced(c, softplus(-product));
}

Results softMarginGradient(Call &c) {
  Term x = c.wide("self");
  Term t = c.wide("target");
  return -(spread(c, x) * t * logistic(-(x * t)));
}

Results divergence(Call &c) {
  Term x = c.wide("self");
  Term t = c.wide("target");
  Term loss = c.boolean("log_target") ? exp(t) * (t - x) : select(eq(t, 0.0), 0.0, t * log(t)) - t * x;
  return reduced(c, loss);
}

/// Distance of every other class below the target's by less than `margin`.
struct Margin {
  Term x, index, at, excess, weight;
};

/// `one` where p is 1, `two` where it is 2; the run may be the first to know.
Term byPower(Call &c, Term one, Term two) {
  if (!c.has("p") || c.isLiteral("p", 1)) {
    return one;
  }
  if (c.isLiteral("p", 2)) {
    return two;
  }
  return select(broadcastTo(eq(c.number("p", one.element()), 2.0), one.shape()), two, one);
}

Margin margins(Call &c) {
  Term x = c.wide("self");
  if (x.rank() < 2) {
    x = reshape(x, {1, x.numel()});
  }
  Term index = reshape(toIndex(c.in("target")), {x.dim(0), 1});
  Term margin = c.number("margin", x.element(), 1);
  Term excess = max(margin - takeAlong(x, index, 1) + x, 0.0);
  Term at = eq(positions(x, 1), broadcastTo(index, x.shape()));
  Term weight = constantLike(x, 1.0 / static_cast<double>(x.dim(1)));
  if (Term classes = c.number("weight", x.element())) {
    weight = weight * take(classes, index, 0);
  }
  return {x, index, at, select(at, 0.0, excess), weight};
}

Results multiMargin(Call &c) {
  Margin m = margins(c);
  Term powers = byPower(c, m.excess, square(m.excess));
  Term loss = sum(powers * m.weight, {1});
  return reduced(c, reshape(loss, c.integer("reduction", kMean) == kNone ? c.shape() : Dims(loss.shape())));
}

Results multiMarginGradient(Call &c) {
  Margin m = margins(c);
  Term slope = byPower(c, convert(m.excess > 0.0, m.x.element()), 2.0 * m.excess) * m.weight;
  Term opposite = -sum(slope, {1}, /*keep=*/true);
  Term g = c.wide("grad_output");
  if (c.integer("reduction", kMean) == kMean) {
    g = g / static_cast<double>(m.x.dim(0));
  }
  if (g.rank() == 1) {
    g = unsqueeze(g, 1);
  }
  return reshape(select(m.at, broadcastTo(opposite, m.x.shape()), slope) * g, c.shape());
}

/// Every pair of a target class (those before the first -1) and another class, [rows, targets, classes].
struct Labels {
  Term x, index, isTarget, margin, active;
};

Labels labels(Call &c) {
  Labels l;
  Term x = c.wide("self"), target = toIndex(c.in("target"));
  int64_t classes = x.rank() == 0 ? 1 : x.dim(-1);
  int64_t rows = x.numel() / std::max<int64_t>(classes, 1);
  l.x = reshape(x, {rows, classes});
  target = reshape(target, {rows, classes});
  Term valid = cumulative("cummin", toIndex(target >= 0.0), 1) > 0.0;
  l.index = select(valid, target, -1.0);
  Term none = full(c.emitter, {rows, classes}, 0, x.element());
  Term ones = full(c.emitter, {rows, classes}, 1, x.element());
  l.isTarget = putAlong(none, l.index, ones, 1, "set");
  l.margin = 1.0 - unsqueeze(takeAlong(l.x, l.index, 1), 2) + unsqueeze(l.x, 1);
  Term other = broadcastTo(unsqueeze(eq(l.isTarget, 0.0), 1), l.margin.shape());
  l.active = (l.margin > 0.0) & other & broadcastTo(unsqueeze(valid, 2), l.margin.shape());
  return l;
}

Results multilabelMargin(Call &c) {
  Labels l = labels(c);
  Term loss = sum(select(l.active, l.margin, 0.0), {1, 2}) / static_cast<double>(l.x.dim(1));
  loss = c.integer("reduction", kMean) == kNone ? reshape(loss, c.shape()) : reduced(c, loss);
  return {loss, reshape(l.isTarget, c.shape(1))};
}

Results multilabelMarginGradient(Call &c) {
  Labels l = labels(c);
  int64_t rows = l.x.dim(0), classes = l.x.dim(1);
  Term g = c.wide("grad_output") / static_cast<double>(classes);
  if (c.integer("reduction", kMean) == kMean) {
    g = g / static_cast<double>(rows);
  }
  g = g.numel() == rows ? reshape(g, {rows, 1}) : g;
  Term active = convert(l.active, l.x.element());
  Term slope = putAlong(sum(active, {1}), l.index, -sum(active, {2}), 1, "add");
  return reshape(slope * g, c.shape());
}

} // namespace

void addLosses(Table &t) {
  t.add({"nll_loss_forward", "nll_loss2d_forward"}, nllForward);
  t.add({"nll_loss_backward", "nll_loss2d_backward"}, nllBackward);
  t.add({"mse_loss"}, [](Call &c) -> Results { return reduced(c, square(difference(c))); });
  t.add({"mse_loss_backward"}, [](Call &c) -> Results {
    Term x = difference(c);
    return (2.0 * x) * spread(c, x);
  });
  t.add({"l1_loss"}, [](Call &c) -> Results { return reduced(c, abs(difference(c))); });
  t.add({"smooth_l1_loss"}, smoothL1);
  t.add({"smooth_l1_loss_backward"}, smoothL1Gradient);
  t.add({"huber_loss"}, huber);
  t.add({"huber_loss_backward"}, huberGradient);
  t.add({"binary_cross_entropy"}, crossEntropy);
  t.add({"binary_cross_entropy_backward"}, crossEntropyGradient);
  t.add({"binary_cross_entropy_with_logits"}, crossEntropyWithLogits);
  t.add({"soft_margin_loss"}, softMargin);
  t.add({"soft_margin_loss_backward"}, softMarginGradient);
  t.add({"kl_div"}, divergence);
  t.add({"multilabel_margin_loss_forward"}, multilabelMargin);
  t.add({"multilabel_margin_loss_backward"}, multilabelMarginGradient);
  t.add({"multi_margin_loss"}, multiMargin);
  t.add({"multi_margin_loss_backward"}, multiMarginGradient);
}

} // namespace sojourn::decompose
