// SPDX-License-Identifier: Apache-2.0
// gather and scatter, and writes into part of a tensor: the functional forms
// of views and their gradients.
#include "passes/decompose/Call.h"
#include "dialect/LayoutOps.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace sojourn::decompose {

namespace {

/// A rank-0 tensor scatters as a vector of one.
Term atLeastVector(Term x) { return x && x.rank() == 0 ? reshape(x, {1}) : x; }

/// The part of x that an index reaches: along `dim` all of it, elsewhere the first positions, as many as the index has.
Term reached(Term x, Term index, int64_t dim) {
  Shape start(x.rank(), 0), limit(index.shape()), stride(x.rank(), 1);
  if (index.rank() != x.rank()) {
    refuse("has an index of rank " + Twine(index.rank()) + " for a tensor of rank " + Twine(x.rank()));
  }
  limit[wrapDim(dim, x.rank())] = x.dim(dim);
  return slice(x, start, limit, stride);
}

/// The index as a vector, if it says the same in all dimensions but `dim`: then whole slices are written, as by `put`,
/// and rows that are added into places stay rows.
Term vectorAlong(Term index, int64_t dim) {
  if (index.rank() == 1) {
    return index;
  }
  auto wide = index.value.getDefiningOp<BroadcastOp>();
  if (!wide) {
    return {};
  }
  Term narrow{wide.getX(), index.emitter};
  for (auto [from, to] : llvm::enumerate(wide.getDims())) {
    if (narrow.dim(static_cast<int64_t>(from)) != (to == dim ? index.dim(dim) : 1)) {
      return {};
    }
  }
  return narrow.numel() == index.dim(dim) ? reshape(narrow, {index.dim(dim)}) : Term();
}

/// x with the part that the index reaches written to.
Term putWithin(Term x, Term index, Term source, int64_t dim, StringRef kind) {
  Term part = reached(x, index, dim);
  Term places = kind == "add" ? vectorAlong(index, dim) : Term();
  Term written = places ? put(part, places, source, dim, kind) : putAlong(part, index, source, dim, kind);
  Shape start(x.rank(), 0), stride(x.rank(), 1);
  return part.shape() == x.shape() ? written : updateSlice(x, written, start, stride);
}

Results gather(Call &c) {
  Term x = atLeastVector(c.in("self"));
  Term index = atLeastVector(toIndex(c.in("index")));
  int64_t dim = wrapDim(c.integer("dim"), x.rank());
  if (index.numel() == 0) {
    return full(c.emitter, c.shape(), 0, x.element());
  }
  return reshape(takeAlong(reached(x, index, dim), index, dim), c.shape());
}

struct Scattered {
  Term x, index, source;
  int64_t dim;
};

/// The source may be larger than the index: only its corner counts.
Scattered scattered(Call &c) {
  Scattered s;
  s.x = atLeastVector(c.in("self"));
  s.index = atLeastVector(toIndex(c.in("index")));
  s.dim = wrapDim(c.integer("dim"), s.x.rank());
  Term source = c.in("src");
  if (!source) {
    s.source = broadcastTo(c.number("value", s.x.element()), s.index.shape());
    return s;
  }
  source = convert(atLeastVector(source), s.x.element());
  Shape start(source.rank(), 0), stride(source.rank(), 1);
  s.source = slice(source, start, s.index.shape(), stride);
  return s;
}

Term apply(const Scattered &s, Term x, StringRef kind) { return putWithin(x, s.index, s.source, s.dim, kind); }

/// An empty index may have any rank: nothing is written.
bool nothing(Call &c) { return c.in("index").numel() == 0; }

Results scatter(Call &c) {
  if (nothing(c)) {
    return c.in("self");
  }
  Scattered s = scattered(c);
  StringRef kind = llvm::StringSwitch<StringRef>(c.base == "scatter_add" ? "add" : c.string("reduce"))
                       .Case("add", "add")
                       .Case("multiply", "mul")
                       .Default("set");
  return reshape(apply(s, s.x, kind), c.shape());
}

Results scatterReduce(Call &c) {
  if (nothing(c)) {
    return c.in("self");
  }
  Scattered s = scattered(c);
  StringRef reduce = c.string("reduce");
  StringRef kind = llvm::StringSwitch<StringRef>(reduce)
                       .Cases({"sum", "mean"}, "add")
                       .Case("prod", "mul")
                       .Case("amax", "max")
                       .Default("min");
  bool includeSelf = c.boolean("include_self", true);
  Term x = s.x;
  auto writes = [&](double value) { return broadcastTo(constantLike(x, value), s.index.shape()); };
  Term zeros = full(c.emitter, x.shape(), 0, x.element());
  Term counts = putWithin(zeros, s.index, writes(1), s.dim, "add");
  if (!includeSelf) {
    // Where something arrives, start from what arrives alone: the last write is idempotent for the extremes, one is
    // neutral for products. Sums are made from zeros, and elsewhere are what was there.
    x = reduce == "prod" ? putWithin(x, s.index, writes(1), s.dim, "set") : kind == "add" ? zeros : apply(s, x, "set");
  }
  Term y = apply(s, x, kind);
  if (!includeSelf && kind == "add") {
    y = select(toBool(counts), y, s.x);
  }
  if (reduce == "mean") {
    Term total = includeSelf ? counts + 1.0 : max(counts, 1.0);
    y = y.isFloat() ? y / total : select(ne(rem(y, total), 0.0) & (y < 0.0), y / total - 1.0, y / total);
  }
  return reshape(y, c.shape());
}

/// Start of a slice as Python means it: from the end when negative, clamped.
int64_t sliceStart(int64_t start, int64_t size) {
  if (start < 0) {
    start += size;
  }
  return std::min(std::max<int64_t>(start, 0), size);
}

Term fromFront(Term start, int64_t size) { return select(start < 0.0, start + static_cast<double>(size), start); }

/// Writes u into the slice of x along one dimension.
Term writeSlice(Term x, Term u, int64_t dim, int64_t start, int64_t step) {
  Shape starts(x.rank(), 0), strides(x.rank(), 1);
  starts[dim] = start;
  strides[dim] = step;
  return u.numel() == 0 ? x : updateSlice(x, u, starts, strides);
}

/// Places g into zeros: padding around and, for a step, between.
Term placeSlice(Term g, Dims sizes, int64_t dim, int64_t start, int64_t step) {
  if (g.numel() == 0) {
    return full(*g.emitter, sizes, 0, g.element());
  }
  Shape low(g.rank(), 0), high(g.rank(), 0), interior(g.rank(), 0);
  low[dim] = start;
  interior[dim] = step - 1;
  high[dim] = sizes[dim] - start - ((g.dim(dim) - 1) * step + 1);
  return pad(g, constantLike(g, 0), low, high, interior);
}

/// The same from a number of the run on, which counts from the end where it is negative.
Term placeFrom(Term g, Dims sizes, int64_t dim, Term start, int64_t step) {
  Term zeros = full(*g.emitter, sizes, 0, g.element());
  if (g.numel() == 0) {
    return zeros;
  }
  Shape spread(g.shape());
  spread[dim] = (g.dim(dim) - 1) * step + 1;
  return updateFrom(zeros, placeSlice(g, spread, dim, 0, step), dim, fromFront(start, sizes[dim]));
}

Results sliceBackward(Call &c) {
  Shape sizes = c.ints("input_sizes");
  int64_t dim = wrapDim(c.integer("dim"), sizes.size());
  if (Term start = c.runInteger("start")) {
    return placeFrom(c.in("grad_output"), sizes, dim, start, c.integer("step", 1));
  }
  return placeSlice(c.in("grad_output"), sizes, dim, sliceStart(c.integer("start"), sizes[dim]), c.integer("step", 1));
}

Results selectBackward(Call &c) {
  Shape sizes = c.ints("input_sizes");
  int64_t dim = wrapDim(c.integer("dim"), sizes.size());
  if (Term index = c.runInteger("index")) {
    return placeFrom(unsqueeze(c.in("grad_output"), dim), sizes, dim, index, 1);
  }
  return placeSlice(unsqueeze(c.in("grad_output"), dim), sizes, dim, wrapDim(c.integer("index"), sizes[dim]), 1);
}

Results sliceScatter(Call &c) {
  Term x = c.in("self");
  int64_t dim = wrapDim(c.integer("dim"), x.rank());
  Term source = convert(c.in("src"), x.element());
  int64_t step = c.integer("step", 1);
  if (Term start = c.runInteger("start"); start && (step == 1 || source.dim(dim) <= 1)) {
    return source.numel() == 0 ? x : updateFrom(x, source, dim, fromFront(start, x.dim(dim)));
  }
  return writeSlice(x, source, dim, sliceStart(c.integer("start"), x.dim(dim)), step);
}

Results selectScatter(Call &c) {
  Term x = c.in("self");
  int64_t dim = wrapDim(c.integer("dim"), x.rank());
  Term source = unsqueeze(convert(c.in("src"), x.element()), dim);
  if (Term index = c.runInteger("index")) {
    return updateFrom(x, source, dim, fromFront(index, x.dim(dim)));
  }
  return writeSlice(x, source, dim, wrapDim(c.integer("index"), x.dim(dim)), 1);
}

/// Writes a diagonal: in the two dimensions flattened it is a stepped slice.
Term writeDiagonal(Call &c, Term x, Term source) {
  int64_t first = wrapDim(c.integer("dim1", 0), x.rank());
  int64_t second = wrapDim(c.integer("dim2", 1), x.rank());
  Shape perm, inverse(x.rank());
  for (int64_t dim = 0; dim < x.rank(); ++dim) {
    if (dim != first && dim != second) {
      perm.push_back(dim);
    }
  }
  perm.append({first, second});
  for (auto [to, from] : llvm::enumerate(perm)) {
    inverse[from] = static_cast<int64_t>(to);
  }
  Term turned = transpose(x, perm);
  Shape flat(Dims(turned.shape()).drop_back(2));
  int64_t columns = turned.dim(-1);
  flat.push_back(turned.dim(-2) * columns);
  int64_t offset = c.integer("offset");
  int64_t start = offset >= 0 ? offset : -offset * columns;
  Term y = writeSlice(reshape(turned, flat), source, static_cast<int64_t>(flat.size()) - 1, start, columns + 1);
  return transpose(reshape(y, turned.shape()), inverse);
}

Results diagonalBackward(Call &c) {
  Term g = c.in("grad_output");
  return writeDiagonal(c, full(c.emitter, c.ints("input_sizes"), 0, g.element()), g);
}

Results diagonalScatter(Call &c) {
  Term x = c.in("self");
  return writeDiagonal(c, x, convert(c.in("src"), x.element()));
}

/// Positions in the flat storage: offset + sum of stride * index.
Results asStridedScatter(Call &c) {
  Term x = c.in("self");
  Term source = convert(c.in("src"), x.element());
  Shape strides = c.ints("stride");
  Term at = constantInt(c.emitter, c.integer("storage_offset"), c.i64());
  at = broadcastTo(at, source.shape());
  for (auto [dim, stride] : llvm::enumerate(strides)) {
    at = at + positions(source, static_cast<int64_t>(dim)) * static_cast<double>(stride);
  }
  return reshape(put(reshape(x, {x.numel()}), at, source, 0, "set"), x.shape());
}

/// Windows along a dimension give back to what they covered.
Results unfoldBackward(Call &c) {
  Term g = c.in("grad_in");
  Shape sizes = c.ints("input_sizes");
  int64_t dim = wrapDim(c.integer("dim"), sizes.size());
  if (sizes.empty()) {
    return reshape(g, {});
  }
  Shape grid = {g.dim(dim), c.integer("size")};
  Term index =
      iota(c.emitter, grid, 0, c.i64()) * static_cast<double>(c.integer("step")) + iota(c.emitter, grid, 1, c.i64());
  Term windows = moveDim(g, g.rank() - 1, dim + 1);
  return put(full(c.emitter, sizes, 0, g.element()), index, windows, dim, "add");
}

/// The k-th chosen position receives the k-th element of the source.
Results maskedScatter(Call &c) {
  Term x = broadcastTo(c.in("self"), c.shape());
  Term mask = broadcastTo(toBool(c.in("mask")), x.shape());
  Term source = c.in("source");
  Term flat = reshape(toIndex(mask), {mask.numel()});
  Term rank = cumulative("cumsum", flat, 0) - 1.0;
  Term values = take(reshape(source, {source.numel()}), rank, 0);
  return select(mask, reshape(values, x.shape()), x);
}

/// The k-th element of the source receives the gradient of the k-th chosen position.
Results maskedScatterBackward(Call &c) {
  Term given = c.in("grad_output"), mask = toBool(c.in("mask"));
  const Shape common = broadcastShapes(given.shape(), mask.shape()); // as masked_select
  Term g = broadcastTo(given, common);
  mask = broadcastTo(mask, common);
  Term flat = reshape(mask, {mask.numel()});
  Term rank = cumulative("cumsum", toIndex(flat), 0) - 1.0;
  Shape sizes = c.ints("sizes");
  Term zeros = full(c.emitter, {product(sizes)}, 0, g.element());
  Term source = put(zeros, select(flat, rank, -1.0), reshape(g, {g.numel()}), 0, "set");
  return reshape(source, sizes);
}

Results diagonalEmbed(Call &c) {
  Term x = c.in("self");
  return writeDiagonal(c, full(c.emitter, c.shape(), 0, x.element()), x);
}

} // namespace

void addScatter(Table &t) {
  t.add({"gather"}, gather);
  t.add({"scatter", "scatter_add"}, scatter);
  t.add({"scatter_reduce"}, scatterReduce);
  t.add({"slice_backward"}, sliceBackward);
  t.add({"select_backward"}, selectBackward);
  t.add({"slice_scatter"}, sliceScatter);
  t.add({"select_scatter"}, selectScatter);
  t.add({"diagonal_backward"}, diagonalBackward);
  t.add({"diagonal_scatter"}, diagonalScatter);
  t.add({"as_strided_scatter"}, asStridedScatter);
  t.add({"unfold_backward"}, unfoldBackward);
  t.add({"masked_scatter"}, maskedScatter);
  t.add({"masked_scatter_backward"}, maskedScatterBackward);
  t.add({"diag_embed"}, diagonalEmbed);
}

} // namespace sojourn::decompose
