// SPDX-License-Identifier: Apache-2.0
// Counting by classes and by bins: ones or weights are added onto zeros, each at its element's place. So a row of a
// private table moves a histogram by 1, and nothing of the size rows x bins is made.
#include "passes/decompose/Call.h"

#include "llvm/ADT/STLExtras.h"

#include <tuple>

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

/// The least and the greatest element; around a single value, `margin` to each side.
std::pair<Term, Term> rangeOf(Term x, double margin) {
  Term low = amin(x, allDims(x)), high = amax(x, allDims(x)), isPoint = eq(low, high);
  return {select(isPoint, low - margin, low), select(isPoint, high + margin, high)};
}

Results histc(Call &c) {
  Term x = c.in("self");
  int64_t bins = c.shape()[0];
  if (x.numel() == 0) {
    return full(c.emitter, c.shape(), 0, c.element());
  }
  Term low = c.number("min", x.element(), 0), high = c.number("max", x.element(), 0);
  if (!c.has("min")) {
    std::tie(low, high) = rangeOf(x, 1);
  }
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

/// One dimension's bins.
struct Bins {
  Term edges, low, high;
  int64_t count;
  bool isEven;
};

/// Even ones: of the given range (entries from `first` on), else of that of the values.
Bins evenBins(Call &c, Term x, int64_t count, size_t first) {
  Term low = constantLike(x, 0), high = constantLike(x, 1);
  if (c.has("range")) {
    low = c.entry("range", first, x.element());
    high = c.entry("range", first + 1, x.element());
    Term isPoint = eq(low, high);
    low = select(isPoint, low - 0.5, low);
    high = select(isPoint, high + 0.5, high);
  } else if (x.numel() != 0) {
    std::tie(low, high) = rangeOf(x, 0.5);
  }
  return {ramp(low, high, count + 1), low, high, count, true};
}

Bins givenBins(Term edges) {
  int64_t count = edges.numel() - 1;
  return {edges, reshape(sliceDim(edges, 0, 0, 1), {}), reshape(sliceDim(edges, 0, count, count + 1), {}), count,
          false};
}

Term placeIn(Term x, const Bins &b) {
  Term place = b.isEven ? placeByEdgesNear(x, b.edges, b.low, b.high, b.count) : placeByEdges(x, b.edges);
  return inside(x, b.low, b.high, place, b.count);
}

/// Counts per bin of columns that have as many elements; a density is one per volume.
Term countsOf(Call &c, ArrayRef<Term> columns, ArrayRef<Bins> bins) {
  Shape shape;
  Term flat, isInside;
  for (auto [x, b] : llvm::zip(columns, bins)) {
    shape.push_back(b.count);
    if (x.numel() == 0) {
      continue;
    }
    Term place = placeIn(x, b), valid = place >= 0.0;
    isInside = isInside ? isInside & valid : valid;
    flat = flat ? flat * static_cast<double>(b.count) + place : place;
  }
  Type element = bins.front().edges.element();
  Term counts = flat ? reshape(tally(c, select(isInside, flat, -1.0), c.in("weight"), product(shape), element), shape)
                     : full(c.emitter, shape, 0, element);
  if (c.boolean("density")) {
    counts = counts / sum(counts, allDims(counts));
    for (auto [dim, b] : llvm::enumerate(bins)) {
      Term widths = sliceDim(b.edges, 0, 1, b.count + 1) - sliceDim(b.edges, 0, 0, b.count);
      counts = counts / broadcastTo(alongDim(widths, static_cast<int64_t>(dim), counts.rank()), shape);
    }
  }
  return counts;
}

Results histogram(Call &c) {
  Term x = c.in("self"), edges = c.in("bins");
  Bins bins = edges ? givenBins(edges) : evenBins(c, x, c.shape()[0], 0);
  return {countsOf(c, {x}, {bins}), bins.edges};
}

/// Of [..., columns] each column as a vector.
SmallVector<Term> columnsOf(Term x) {
  int64_t count = x.dim(-1), rows = x.numel() / std::max<int64_t>(count, 1);
  SmallVector<Term> columns;
  for (int64_t i = 0; i < count; ++i) {
    columns.push_back(reshape(sliceDim(x, x.rank() - 1, i, i + 1), {rows}));
  }
  return columns;
}

SmallVector<Bins> evenBinsOf(Call &c, ArrayRef<Term> columns) {
  SmallVector<Bins> bins;
  Shape counts = c.ints("bins");
  for (auto [i, x] : llvm::enumerate(columns)) {
    bins.push_back(evenBins(c, x, counts[i], 2 * i));
  }
  return bins;
}

Results manyEdges(Call &c) {
  SmallVector<Term, 4> edges;
  for (const Bins &bins : evenBinsOf(c, columnsOf(c.in("self")))) {
    edges.push_back(bins.edges);
  }
  return edges;
}

Results manyFromCounts(Call &c) {
  SmallVector<Term> columns = columnsOf(c.in("self"));
  return countsOf(c, columns, evenBinsOf(c, columns));
}

Results manyFromEdges(Call &c) {
  SmallVector<Bins> bins;
  for (Term edges : c.list("bins")) {
    bins.push_back(givenBins(edges));
  }
  return countsOf(c, columnsOf(c.in("self")), bins);
}

} // namespace

void addHistograms(Table &t) {
  t.add({"bincount"}, bincount);
  t.add({"histc"}, histc);
  t.add({"histogram"}, histogram);
  t.add({"_histogramdd_bin_edges"}, manyEdges);
  t.add({"_histogramdd_from_bin_cts"}, manyFromCounts);
  t.add({"_histogramdd_from_bin_tensors"}, manyFromEdges);
}

} // namespace sojourn::decompose
