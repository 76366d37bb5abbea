// SPDX-License-Identifier: Apache-2.0
// Counting by classes and by bins: ones or weights are added onto zeros, each at its element's place. So a row of a
// private table moves a histogram by 1, and nothing of the size rows x bins is made.
#include "passes/decompose/Call.h"

using namespace mlir;

namespace sojourn::decompose {
namespace {

/// How often each place occurs, or the sum of its weights; what is no place counts nowhere.
Term tally(Call &c, Term places, Term weights, int64_t count, Type element) {
  Shape flat = {places.numel()};
  Term zeros = full(c.emitter, {count}, 0, element);
  Term added = weights ? reshape(convert(weights, element), flat) : full(c.emitter, flat, 1, element);
  return put(zeros, reshape(places, flat), added, 0, "add");
}

/// As many classes as were recorded, whichever occur.
Results bincount(Call &c) {
  Term x = c.in("self");
  if (x.numel() == 0 || c.shape()[0] == 0) {
    return full(c.emitter, c.shape(), 0, c.element());
  }
  return tally(c, toIndex(x), c.in("weights"), c.shape()[0], c.element());
}

/// -1 for what lies outside of the first and last edge, and for NaN; the last bin holds its upper edge.
Term inside(Term x, Term low, Term high, Term place, int64_t bins) {
  place = min(place, static_cast<double>(bins - 1));
  return select((x >= low) & (x <= high), place, -1.0);
}

/// By division, in the type of x, as ATen does it.
Term placeByDivision(Term x, Term low, Term high, int64_t bins) {
  return toIndex((x - low) * static_cast<double>(bins) / (high - low));
}

Results histc(Call &c) {
  Term x = c.in("self");
  int64_t bins = c.shape()[0];
  if (x.numel() == 0) {
    return full(c.emitter, c.shape(), 0, c.element());
  }
  Term low = c.number("min", x.element(), 0), high = c.number("max", x.element(), 0);
  return tally(c, inside(x, low, high, placeByDivision(x, low, high, bins), bins), {}, bins, x.element());
}

/// Division rounds; the edges decide between the bin that it finds and the two beside it.
Term placeByEdgesNear(Term x, Term edges, Term low, Term high, int64_t bins) {
  Term first = max(placeByDivision(x, low, high, bins) - 1.0, 0.0), below;
  for (int k = 0; k < 3; ++k) {
    Term at = first + static_cast<double>(k);
    Term isBelow = (at <= static_cast<double>(bins)) & (take(edges, at, 0) <= x);
    below = below ? below + toIndex(isBelow) : toIndex(isBelow);
  }
  return first + below - 1.0;
}

/// The number of edges that are not above x, less one.
Term placeByEdges(Term x, Term edges) {
  Shape grid(x.shape());
  grid.push_back(edges.numel());
  Term isBelow = broadcastTo(edges, grid) <= broadcastTo(unsqueeze(x, x.rank()), grid);
  return sum(toIndex(isBelow), {x.rank()}) - 1.0;
}

Results histogram(Call &c) {
  Term x = c.in("self"), weights = c.in("weight"), edges = c.in("bins"), low, high;
  int64_t bins = c.shape()[0];
  bool isEven = !edges;
  if (isEven) {
    low = c.entry("range", 0, x.element());
    high = c.entry("range", 1, x.element());
    Term isPoint = eq(low, high);
    low = select(isPoint, low - 0.5, low);
    high = select(isPoint, high + 0.5, high);
    edges = ramp(low, high, bins + 1);
  } else {
    low = reshape(sliceDim(edges, 0, 0, 1), {});
    high = reshape(sliceDim(edges, 0, bins, bins + 1), {});
  }
  if (x.numel() == 0) {
    return {full(c.emitter, c.shape(), 0, x.element()), edges};
  }
  Term place = isEven ? placeByEdgesNear(x, edges, low, high, bins) : placeByEdges(x, edges);
  Term counts = tally(c, inside(x, low, high, place, bins), weights, bins, x.element());
  if (c.boolean("density")) {
    Term widths = sliceDim(edges, 0, 1, bins + 1) - sliceDim(edges, 0, 0, bins);
    counts = counts / sum(counts, {0}) / widths;
  }
  return {counts, edges};
}

} // namespace

void addHistograms(Table &t) {
  t.add({"bincount"}, bincount);
  t.add({"histc"}, histc);
  t.add({"histogram"}, histogram);
}

} // namespace sojourn::decompose
