// SPDX-License-Identifier: Apache-2.0
// Distances between rows and tensors, norms that bound, and what a gradient scaler checks.
#include "passes/decompose/Call.h"

using namespace mlir;

namespace sojourn::decompose {
namespace {

/// Differences of every row of x1 and every row of x2: [..., P, R, M].
Term differences(Call &c) {
  Term a = c.wide("x1"), b = c.wide("x2");
  return unsqueeze(a, a.rank() - 1) - unsqueeze(b, b.rank() - 2);
}

Results rowDistances(Call &c) {
  Term d = abs(differences(c));
  if (d.numel() == 0) {
    return full(c.emitter, c.shape(), 0, d.element());
  }
  return normOver(c, d, {d.rank() - 1}, "p");
}

/// g * sign(d) * (|d| / distance)^(p - 1), which holds for every order; 0 where rows coincide.
Term pulled(Term g, Term d, Term distance, Term p) {
  Term slope = sign(d) * pow(abs(d) / distance, p - 1.0);
  Term flat = eq(distance, 0.0) | eq(d, 0.0) | eq(p, 0.0);
  return select(flat, 0.0, broadcastTo(g, d.shape()) * slope);
}

Results rowDistancesGradient(Call &c) {
  Term d = differences(c);
  Term distance = c.wide("cdist");
  Term p = c.number("p", d.element());
  Term g = unsqueeze(c.wide("grad"), distance.rank());
  distance = unsqueeze(distance, distance.rank());
  Term each = pulled(g, d, distance, p);
  Term total = sum(each, {d.rank() - 2});
  // Batch dimensions that x1 repeats are summed.
  Shape dims;
  for (int64_t i = 0; i < total.rank(); ++i) {
    int64_t at = i - (total.rank() - static_cast<int64_t>(c.shape().size()));
    if (at < 0 || (c.shape()[at] == 1 && total.dim(i) != 1)) {
      dims.push_back(i);
    }
  }
  return reshape(sum(total, dims), c.shape());
}

/// The two rows of each pair in the order (0, 1), (0, 2), ..., (1, 2), ...
struct Pairs {
  Term first, second;
};

Pairs pairsOf(Call &c, int64_t rows) {
  Shape grid = {rows, rows};
  Term i = iota(c.emitter, grid, 0, c.i64()), j = iota(c.emitter, grid, 1, c.i64());
  auto n = static_cast<double>(rows);
  Term place = i * (2 * n - 1.0 - i) / 2.0 + j - i - 1.0;
  place = reshape(select(i < j, place, -1.0), {rows * rows});
  Term zeros = full(c.emitter, {rows * (rows - 1) / 2}, 0, c.i64());
  auto numbers = [&](Term x) { return put(zeros, place, reshape(x, {rows * rows}), 0, "set"); };
  return {numbers(i), numbers(j)};
}

Results pairDistances(Call &c) {
  Term x = c.in("self");
  if (x.numel() == 0 || product(c.shape()) == 0) {
    return full(c.emitter, c.shape(), 0, x.element());
  }
  auto [first, second] = pairsOf(c, x.dim(0));
  return normOver(c, abs(take(x, first, 0) - take(x, second, 0)), {1}, "p");
}

Results pairDistancesGradient(Call &c) {
  Term x = c.in("self"), zeros = full(c.emitter, x.shape(), 0, x.element());
  if (x.numel() == 0 || c.in("grad").numel() == 0) {
    return zeros;
  }
  auto [first, second] = pairsOf(c, x.dim(0));
  Term d = take(x, first, 0) - take(x, second, 0);
  auto each = [&](StringRef name) { return broadcastTo(unsqueeze(c.in(name), 1), d.shape()); };
  Term slope = pulled(each("grad"), d, each("pdist"), c.number("p", d.element()));
  return put(put(zeros, first, slope, 0, "add"), second, -slope, 0, "add");
}

/// |a|^2 + |b|^2 - 2ab, never below 0.
Results euclidean(Call &c) {
  Term a = c.wide("x1"), b = c.wide("x2");
  int64_t last = a.rank() - 1;
  Term product = matmul(a, moveDim(b, last, last - 1), a.element());
  Term squares = sum(square(a), {last}, /*keep=*/true) + unsqueeze(sum(square(b), {last}), last - 1);
  return sqrt(max(squares - 2.0 * product, 0.0));
}

Results renorm(Call &c) {
  Term x = c.wide("self");
  Shape dims = allDims(x);
  int64_t kept = wrapDim(c.integer("dim"), x.rank());
  dims.erase(dims.begin() + kept);
  Term norm = alongDim(normOver(c, abs(x), dims, "p"), kept, x.rank());
  Term limit = c.number("maxnorm", norm.element());
  return x * convert(select(norm > limit, limit / (norm + 1e-7), 1.0), x.element());
}

/// Gradients times the inverse scale, and whether any of them was not finite.
Results unscale(Call &c) {
  SmallVector<Term, 4> results;
  Term found = c.in("found_inf");
  for (Term x : c.list("self")) {
    Term wide = widen(x);
    if (x.numel() != 0) {
      Term bad = amax(~(abs(wide) < kInfinity), allDims(wide));
      found = max(found, reshape(convert(bad, found.element()), found.shape()));
    }
    results.push_back(wide * reshape(c.number("inv_scale", wide.element()), {}));
  }
  results.push_back(found);
  return results;
}

/// GradScaler's: after a step without infinities the count goes up, and at `growth_interval` the scale grows; else it
/// backs off.
Results updateScale(Call &c) {
  Term scale = c.in("self"), tracker = c.in("growth_tracker");
  Term found = ne(reshape(convert(c.in("found_inf"), scale.element()), scale.shape()), 0.0);
  Term next = tracker + 1.0;
  Term grows = eq(next, static_cast<double>(c.integer("growth_interval")));
  Term grown = scale * c.number("scale_growth_factor", scale.element());
  grown = select(grown < kInfinity, grown, scale);
  Term smaller = scale * c.number("scale_backoff_factor", scale.element());
  Term none = full(c.emitter, tracker.shape(), 0, tracker.element());
  return {select(found, smaller, select(grows, grown, scale)), select(found | grows, none, next)};
}

} // namespace

void addDistances(Table &t) {
  t.add({"_cdist_forward"}, rowDistances);
  t.add({"_cdist_backward"}, rowDistancesGradient);
  t.add({"_euclidean_dist"}, euclidean);
  t.add({"_pdist_forward"}, pairDistances);
  t.add({"_pdist_backward"}, pairDistancesGradient);
  t.add({"dist"}, [](Call &c) -> Results {
    Term d = abs(c.wide("self") - c.wide("other"));
    return normOver(c, d, allDims(d), "p");
  });
  t.add({"renorm"}, renorm);
  t.add({"_amp_foreach_non_finite_check_and_unscale"}, unscale);
  t.add({"_amp_update_scale"}, updateScale);
}

} // namespace sojourn::decompose
