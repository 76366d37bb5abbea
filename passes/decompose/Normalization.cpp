// SPDX-License-Identifier: Apache-2.0
// Batch, layer, group and weight normalization with their gradients.
// Variances take two passes.
#include "passes/decompose/Call.h"

using namespace mlir;

namespace sojourn::decompose {
namespace {

Shape dimsExcept(Term x, int64_t kept) {
  Shape dims = allDims(x);
  dims.erase(dims.begin() + kept);
  return dims;
}

/// A per-channel vector laid along dimension 1; absent stays absent.
Term channels(Term v, Term x) { return v ? alongDim(v, 1, x.rank()) : v; }

Term reciprocalRoot(Term variance, Term eps) { return 1.0 / sqrt(variance + eps); }

Results batchNorm(Call &c) {
  Term x = c.wide("input");
  Type element = x.element();
  Term weight = channels(c.number("weight", element), x);
  Term bias = channels(c.number("bias", element), x);
  Term runningMean = c.number("running_mean", element);
  Term runningVar = c.number("running_var", element);
  Term eps = c.number("eps", element);
  bool training = c.boolean("training", c.base.starts_with("_batch_norm_with_update"));
  Shape dims = dimsExcept(x, 1);
  int64_t size = x.dim(1);

  Term center, scale;
  if (training) {
    Term kept = mean(x, dims, /*keep=*/true);
    Term squares = centeredSquares(x, kept, dims);
    double count = static_cast<double>(x.numel() / std::max<int64_t>(size, 1));
    center = reshape(kept, {size});
    scale = reciprocalRoot(squares / count, eps);
    if (runningMean && runningVar) {
      // Running statistics hold the unbiased variance.
      Term momentum = c.number("momentum", element);
      Term keep = 1.0 - momentum;
      runningMean = keep * runningMean + momentum * center;
      runningVar = keep * runningVar + momentum * (squares / (count - 1));
    }
  } else {
    center = runningMean;
    scale = reciprocalRoot(runningVar, eps);
  }
  Term gain = channels(scale, x);
  if (weight) {
    gain = gain * weight;
  }
  Term y = (x - channels(center, x)) * gain;
  if (bias) {
    y = y + bias;
  }

  SmallVector<Term, 4> results{y};
  // Saved statistics may be recorded empty where nothing reads them.
  auto save = [&](Term statistic) {
    size_t i = results.size();
    bool empty = c.wants(i) && product(c.shape(i)) != statistic.numel();
    results.push_back(empty ? full(c.emitter, c.shape(i), 0, element) : statistic);
  };
  save(center);
  save(scale);
  if (c.base.starts_with("_batch_norm")) {
    results.push_back(full(c.emitter, c.shape(3), 0, c.element(3)));
  }
  for (Term updated : {runningMean, runningVar}) {
    if (results.size() < c.resultCount()) {
      results.push_back(updated);
    }
  }
  return results;
}

Results batchNormGradient(Call &c) {
  Term g = c.wide(c.anyOf({"grad_out", "grad_output"}));
  Term x = c.wide("input");
  Type element = x.element();
  Term weight = channels(c.number("weight", element), x);
  bool training = c.boolean("train", c.boolean("update"));
  Term center, scale;
  if (training) {
    center = c.number("save_mean", element);
    scale = c.number(c.anyOf({"save_invstd", "save_var"}), element);
  } else {
    center = c.number("running_mean", element);
    scale = reciprocalRoot(c.number("running_var", element), c.number("eps", element));
  }
  Shape dims = dimsExcept(x, 1);
  double count = static_cast<double>(x.numel() / std::max<int64_t>(x.dim(1), 1));
  Term distance = x - channels(center, x);
  Term total = sum(g, dims);
  Term projected = sum(g * distance, dims);

  Term gx;
  if (c.wants(0)) {
    Term gain = channels(scale, x);
    if (training) {
      Term slope = channels(projected * square(scale) / count, x);
      gx = g - channels(total / count, x) - distance * slope;
    } else {
      gx = g;
    }
    gx = gx * (weight ? gain * weight : gain);
  }
  return {gx, projected * scale, total};
}

/// Normalizes over `dims`; mean and reciprocal deviation keep size-1 dims.
struct Normalized {
  Term y, center, scale;
};

Normalized normalize(Term x, Dims dims, Term eps) {
  Term center = mean(x, dims, /*keep=*/true);
  Term distance = x - center;
  Term variance = mean(square(distance), dims, /*keep=*/true);
  Term scale = reciprocalRoot(variance, eps);
  return {distance * scale, center, scale};
}

/// Gradient of `normalize` given that of its result and the result itself.
Term normalizeGradient(Term g, Term y, Term scale, Dims dims) {
  Term along = mean(g * y, dims, /*keep=*/true);
  return (g - mean(g, dims, /*keep=*/true) - y * along) * scale;
}

Shape trailing(Call &c, Term x) {
  int64_t count = static_cast<int64_t>(c.ints("normalized_shape").size());
  Shape dims;
  for (int64_t dim = x.rank() - count; dim < x.rank(); ++dim) {
    dims.push_back(dim);
  }
  return dims;
}

Shape leading(Call &c, Term x) {
  int64_t count = static_cast<int64_t>(c.ints("normalized_shape").size());
  Shape dims;
  for (int64_t dim = 0; dim < x.rank() - count; ++dim) {
    dims.push_back(dim);
  }
  return dims;
}

Results layerNorm(Call &c) {
  Term x = c.wide("input");
  Type element = x.element();
  auto [y, center, scale] = normalize(x, trailing(c, x), c.number("eps", element));
  if (Term weight = c.number("weight", element)) {
    y = y * weight;
  }
  if (Term bias = c.number("bias", element)) {
    y = y + bias;
  }
  return {y, reshape(center, c.shape(1)), reshape(scale, c.shape(2))};
}

Results layerNormGradient(Call &c) {
  Term g = c.wide("grad_out");
  Term x = c.wide("input");
  Type element = x.element();
  Shape inner = trailing(c, x), outer = leading(c, x);
  Shape kept(x.shape());
  for (int64_t dim : inner) {
    kept[dim] = 1;
  }
  Term scale = reshape(c.number("rstd", element), kept);
  Term y = (x - reshape(c.number("mean", element), kept)) * scale;
  Term gx;
  if (c.wants(0)) {
    Term weight = c.number("weight", element);
    gx = normalizeGradient(weight ? g * weight : g, y, scale, inner);
  }
  return {gx, c.wants(1) ? sum(g * y, outer) : Term(), c.wants(2) ? sum(g, outer) : Term()};
}

/// [N, C, ...] as [N, groups, channels of the group, positions].
Term grouped(Call &c, Term x) {
  int64_t n = c.integer("N"), channelCount = c.integer("C");
  int64_t groups = c.integer("group");
  return reshape(x, {n, groups, quotient(channelCount, groups), c.integer("HxW")});
}

/// A per-channel vector as [1, groups, channels of the group, 1].
Term groupedChannels(Call &c, Term v) {
  int64_t groups = c.integer("group");
  return reshape(v, {1, groups, quotient(c.integer("C"), groups), 1});
}

Results groupNorm(Call &c) {
  Term input = c.wide("input");
  Type element = input.element();
  auto [y, center, scale] = normalize(grouped(c, input), {2, 3}, c.number("eps", element));
  if (Term weight = c.number("weight", element)) {
    y = y * groupedChannels(c, weight);
  }
  if (Term bias = c.number("bias", element)) {
    y = y + groupedChannels(c, bias);
  }
  return {reshape(y, c.shape()), reshape(center, c.shape(1)), reshape(scale, c.shape(2))};
}

Results groupNormGradient(Call &c) {
  Term g = grouped(c, c.wide("grad_out"));
  Term x = grouped(c, c.wide("input"));
  Type element = x.element();
  Shape kept = {x.dim(0), x.dim(1), 1, 1};
  Term scale = reshape(c.number("rstd", element), kept);
  Term y = (x - reshape(c.number("mean", element), kept)) * scale;
  int64_t channelCount = c.integer("C");
  Term gx;
  if (c.wants(0)) {
    Term weight = c.number("weight", element);
    Term weighted = weight ? g * groupedChannels(c, weight) : g;
    gx = reshape(normalizeGradient(weighted, y, scale, {2, 3}), c.shape());
  }
  auto perChannel = [&](Term v) { return reshape(sum(v, {0, 3}), {channelCount}); };
  return {gx, c.wants(1) ? perChannel(g * y) : Term(), c.wants(2) ? perChannel(g) : Term()};
}

Results weightNorm(Call &c) {
  Term v = c.wide("v");
  Shape dims = dimsExcept(v, wrapDim(c.integer("dim"), v.rank()));
  Term norm = sqrt(sum(square(v), dims, /*keep=*/true));
  return {v * (c.wide("g") / norm), norm};
}

Results weightNormGradient(Call &c) {
  Term g = c.wide("grad_w");
  Term v = c.wide("saved_v");
  Term norm = convert(c.in("saved_norms"), v.element());
  Shape dims = dimsExcept(v, wrapDim(c.integer("dim"), v.rank()));
  Term along = sum(g * v, dims, /*keep=*/true);
  Term ratio = c.wide("saved_g") / norm;
  return {ratio * (g - v * (along / square(norm))), along / norm};
}

} // namespace

void addNormalization(Table &t) {
  t.add({"native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_functional",
         "_native_batch_norm_legit_no_training", "_batch_norm_with_update", "_batch_norm_with_update_functional",
         "_batch_norm_no_update"},
        batchNorm);
  t.add({"native_batch_norm_backward", "batch_norm_backward"}, batchNormGradient);
  t.add({"native_layer_norm"}, layerNorm);
  t.add({"native_layer_norm_backward"}, layerNormGradient);
  t.add({"native_group_norm"}, groupNorm);
  t.add({"native_group_norm_backward"}, groupNormGradient);
  t.add({"_weight_norm_interface"}, weightNorm);
  t.add({"_weight_norm_interface_backward"}, weightNormGradient);
}

} // namespace sojourn::decompose
