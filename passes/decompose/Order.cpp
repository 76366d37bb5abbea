// SPDX-License-Identifier: Apache-2.0
// Scans along a dimension, and everything that sorts.
#include "passes/decompose/Call.h"

using namespace mlir;

namespace sojourn::decompose {
namespace {

Results scan(Call &c) {
  Term x = convert(c.in("self"), c.element());
  StringRef kind = c.base.ends_with("logcumsumexp") ? "cumlogsumexp" : c.base;
  return cumulative(kind, x, wrapDim(c.integer("dim"), x.rank()));
}

/// cummax and cummin with the index of the last tie, as ATen gives it: the
/// largest position so far at which the running value was met.
Results scanWithIndex(Call &c) {
  Term x = c.in("self");
  if (x.rank() == 0) {
    return {x, full(c.emitter, {}, 0, c.i64())};
  }
  int64_t dim = wrapDim(c.integer("dim"), x.rank());
  Term values = cumulative(c.base, x, dim);
  Term met = eq(x, values);
  if (x.isFloat()) {
    met = met | isNan(x);
  }
  Term index = select(met, positions(x, dim), 0.0);
  return {values, cumulative("cummax", index, dim)};
}

/// A rank-0 tensor has one order only.
Results single(Call &c, Term x) { return {reshape(x, c.shape()), full(c.emitter, c.shape(1), 0, c.i64())}; }

Results sorted(Call &c) {
  Term x = c.in("self");
  if (x.rank() == 0) {
    return single(c, x);
  }
  auto [values, indices] = sort(x, wrapDim(c.integer("dim", -1), x.rank()), c.boolean("descending"));
  return {values, indices};
}

Results argsort(Call &c) {
  Term x = c.in("self");
  if (x.rank() == 0) {
    return full(c.emitter, {}, 0, c.i64());
  }
  return sort(x, wrapDim(c.integer("dim", -1), x.rank()), c.boolean("descending")).second;
}

Results largest(Call &c) {
  Term x = c.in("self");
  if (x.rank() == 0) {
    return single(c, x);
  }
  auto [values, indices] = topk(x, wrapDim(c.integer("dim", -1), x.rank()), c.integer("k"), c.boolean("largest", true));
  return {values, indices};
}

Results kthValue(Call &c) {
  Term x = c.in("self");
  if (x.rank() == 0) {
    return single(c, x);
  }
  int64_t dim = wrapDim(c.integer("dim", -1), x.rank());
  int64_t k = c.integer("k");
  auto [values, indices] = sort(x, dim, false);
  return {reshape(sliceDim(values, dim, k - 1, k), c.shape()), reshape(sliceDim(indices, dim, k - 1, k), c.shape(1))};
}

/// The lower median. A NaN is the median of what holds one; nanmedian counts
/// the others only.
Results median(Call &c) {
  bool ignoreNan = c.base == "nanmedian";
  Term x = c.in("self");
  int64_t dim = wrapDim(c.integer("dim"), x.rank());
  if (!c.has("dim") || x.rank() == 0) {
    x = reshape(x, {x.numel()});
    dim = 0;
  }
  int64_t size = x.dim(dim);
  if (size == 0) {
    return c.fail("has no element to choose from");
  }
  auto [values, indices] = sort(x, dim, false);
  Term rank;
  if (ignoreNan) {
    Term count = sum(toIndex(~isNan(x)), {dim}, /*keep=*/true);
    rank = max((count - 1.0) / 2.0, 0.0);
  } else {
    Shape kept(x.shape());
    kept[dim] = 1;
    rank = full(c.emitter, kept, static_cast<double>((size - 1) / 2), c.i64());
    if (x.isFloat()) {
      // NaN sorts last; the first of them is the answer when there is one.
      Term nans = sum(toIndex(isNan(x)), {dim}, /*keep=*/true);
      rank = select(nans > 0.0, static_cast<double>(size) - nans, rank);
    }
  }
  Term value = reshape(takeAlong(values, rank, dim), c.shape());
  if (c.resultCount() == 1) {
    return value;
  }
  return {value, reshape(takeAlong(indices, rank, dim), c.shape(1))};
}

/// The smallest of the most frequent values, and the last place it stands.
Results mode(Call &c) {
  Term x = c.in("self");
  if (x.rank() == 0) {
    return single(c, x);
  }
  int64_t dim = wrapDim(c.integer("dim", -1), x.rank());
  auto [values, indices] = sort(x, dim, false);
  // Position since the start of the present run of equal values.
  Term at = positions(x, dim);
  int64_t size = x.dim(dim);
  Term previous = size > 1 ? concat({sliceDim(values, dim, 0, 1), sliceDim(values, dim, 0, size - 1)}, dim) : values;
  Term start = cumulative("cummax", select(ne(values, previous), at, 0.0), dim);
  Shape kept(x.shape());
  kept[dim] = 1;
  Term best = reshape(argmax(at - start, dim), kept);
  return {reshape(takeAlong(values, best, dim), c.shape()), reshape(takeAlong(indices, best, dim), c.shape(1))};
}

/// Number of sorted elements below (or not above) each value, by halving. What compares with nothing (a NaN) counts
/// as not reached yet, as in torch.
Results searchSorted(Call &c) {
  bool bucketize = c.base == "bucketize";
  Term sequence = c.in(bucketize ? "boundaries" : "sorted_sequence");
  Term values = c.number("self", sequence.element());
  bool right = c.boolean("right") || c.string("side") == "right";
  if (c.has("sorter")) {
    sequence = takeAlong(sequence, c.in("sorter"), sequence.rank() - 1);
  }
  const auto isReached = [&](Term element, Term value) { return right ? element > value : element >= value; };
  const int64_t size = sequence.dim(-1);
  // A one-dimensional sequence serves every value.
  const bool isShared = sequence.rank() == 1;
  Term begin = full(c.emitter, values.shape(), 0, c.i64());
  Term end = full(c.emitter, values.shape(), static_cast<double>(size), c.i64());
  for (int64_t left = size; left > 0; left /= 2) {
    Term middle = begin + (end - begin) / 2.0;
    Term element = isShared ? take(sequence, middle, 0) : takeAlong(sequence, middle, sequence.rank() - 1);
    Term isOpen = begin < end, reached = isReached(element, values);
    begin = select(isOpen & ~reached, middle + 1.0, begin);
    end = select(isOpen & reached, middle, end);
  }
  // It is in there already: said for those who look for ranges.
  return min(max(begin, 0.0), static_cast<double>(size));
}

} // namespace

void addOrder(Table &t) {
  t.add({"cumsum", "cumprod", "logcumsumexp", "_logcumsumexp"}, scan);
  t.add({"cummax", "cummin"}, scanWithIndex);
  t.add({"sort"}, sorted);
  t.add({"argsort"}, argsort);
  t.add({"topk"}, largest);
  t.add({"kthvalue"}, kthValue);
  t.add({"median", "nanmedian"}, median);
  t.add({"mode"}, mode);
  t.add({"searchsorted", "bucketize"}, searchSorted);
}

} // namespace sojourn::decompose
