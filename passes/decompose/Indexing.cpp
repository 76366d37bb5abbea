// SPDX-License-Identifier: Apache-2.0
// Reading and writing at index tensors: index, index_put, index_select,
// index_add and their kin. Core reads 0 and drops writes out of range, so
// Python's negative indices are wrapped first.
#include "passes/decompose/Call.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace sojourn::decompose {
namespace {

Term wrapped(Term index, int64_t size) {
  index = toIndex(index);
  return select(index < 0.0, index + static_cast<double>(size), index);
}

/// Some dimensions of x indexed by tensors of one broadcast shape. `x` has
/// them merged into one, at `dim`; `index` is -1 where any index is out of
/// range, tested for each before they are combined.
struct Indexed {
  Term x, index;
  int64_t dim;
  /// Transposition that brought the indexed dimensions together, and x's
  /// shape after it.
  Shape perm, shape;
};

FailureOr<Indexed> indexed(Call &c, Term self) {
  SmallVector<Term, 4> indices = c.optionalList("indices");
  Shape dims, shape, sizes;
  for (auto [dim, index] : llvm::enumerate(indices)) {
    if (!index) {
      continue;
    }
    if (index.isBool() || index.element().isUnsignedInteger()) {
      return c.fail("indexes with a mask, whose result shape depends on values"
                    "; use torch.where or masked_fill");
    }
    dims.push_back(static_cast<int64_t>(dim));
    shape = broadcastShapes(shape, index.shape());
  }
  if (dims.empty()) {
    return c.fail("has no index");
  }
  // Adjacent indices keep their place, others move to the front, as in ATen.
  bool adjacent = dims.back() - dims.front() + 1 == static_cast<int64_t>(dims.size());
  int64_t place = adjacent ? dims.front() : 0;
  Indexed result;
  result.dim = place;
  for (int64_t dim = 0; dim < self.rank(); ++dim) {
    if (static_cast<int64_t>(result.perm.size()) == place) {
      result.perm.append(dims);
    }
    if (!llvm::is_contained(dims, dim)) {
      result.perm.push_back(dim);
    }
  }
  if (result.perm.size() < static_cast<size_t>(self.rank())) {
    result.perm.append(dims);
  }
  Term x = transpose(self, result.perm);
  result.shape = Shape(x.shape());

  Term linear, inside;
  for (int64_t dim : dims) {
    auto size = static_cast<double>(self.dim(dim));
    Term index = wrapped(indices[dim], self.dim(dim));
    if (dims.size() == 1) {
      linear = index;
      break;
    }
    Term valid = (index >= 0.0) & (index < size);
    inside = inside ? inside & valid : valid;
    linear = linear ? linear * size + index : index;
  }
  result.index = inside ? select(inside, linear, -1.0) : linear;
  result.index = broadcastTo(result.index, shape);
  Shape merged(Dims(result.shape).take_front(place));
  merged.push_back(product(Dims(result.shape).slice(place, dims.size())));
  merged.append(result.shape.begin() + place + dims.size(), result.shape.end());
  result.x = reshape(x, merged);
  return result;
}

Results indexTensor(Call &c) {
  auto at = indexed(c, c.in("self"));
  if (failed(at)) {
    return failure();
  }
  return take(at->x, at->index, at->dim);
}

/// A mask of a shape known before: a choice, not an index.
Results putMask(Call &c, Term self, Term mask, int64_t dim, Term values) {
  if (values.numel() != 1) {
    return c.fail("writes several values through a mask, which selects by "
                  "value; use torch.where or masked_scatter");
  }
  Shape dims;
  for (int64_t i = 0; i < mask.rank(); ++i) {
    dims.push_back(dim + i);
  }
  mask = broadcastDims(toBool(mask), self.shape(), dims);
  Term value = reshape(values, {});
  return select(mask, c.boolean("accumulate") ? self + value : value, self);
}

Results indexPut(Call &c) {
  Term self = c.in("self");
  Term values = c.number("values", self.element());
  for (auto [dim, index] : llvm::enumerate(c.optionalList("indices"))) {
    if (index && (index.isBool() || index.element().isUnsignedInteger())) {
      return putMask(c, self, index, static_cast<int64_t>(dim), values);
    }
  }
  auto at = indexed(c, self);
  if (failed(at)) {
    return failure();
  }
  Shape shape(Dims(at->x.shape()).take_front(at->dim));
  llvm::append_range(shape, at->index.shape());
  llvm::append_range(shape, Dims(at->x.shape()).drop_front(at->dim + 1));
  Term y = put(at->x, at->index, broadcastTo(values, shape), at->dim, c.boolean("accumulate") ? "add" : "set");
  Shape inverse(at->perm.size());
  for (auto [to, from] : llvm::enumerate(at->perm)) {
    inverse[from] = static_cast<int64_t>(to);
  }
  return transpose(reshape(y, at->shape), inverse);
}

/// self, with rank 0 seen as a vector of one; and the dimension.
std::pair<Term, int64_t> along(Call &c) {
  Term x = c.in("self");
  if (x.rank() == 0) {
    x = reshape(x, {1});
  }
  return {x, wrapDim(c.integer("dim"), x.rank())};
}

/// An index of rank 0 or 1 as a vector.
Term vector(Term index) { return reshape(toIndex(index), {index.numel()}); }

Results indexSelect(Call &c) {
  auto [x, dim] = along(c);
  return reshape(take(x, vector(c.in("index")), dim), c.shape());
}

/// index_add, index_copy and index_fill: slices written along a dimension.
Results indexWrite(Call &c) {
  auto [x, dim] = along(c);
  Term index = wrapped(vector(c.in("index")), x.dim(dim));
  Shape shape(x.shape());
  shape[dim] = index.numel();
  Term source = c.number(c.anyOf({"source", "value"}), x.element());
  source = source.rank() == 0 && product(shape) != 1 ? broadcastTo(source, shape) : reshape(source, shape);
  if (c.has("alpha") && !c.isLiteral("alpha", 1)) {
    source = source * c.number("alpha", x.element());
  }
  StringRef kind = c.base == "index_add" ? "add" : "set";
  return reshape(put(x, index, source, dim, kind), c.shape());
}

/// index_reduce: as scatter_reduce, slice by slice.
Results indexReduce(Call &c) {
  auto [x, dim] = along(c);
  Term index = wrapped(vector(c.in("index")), x.dim(dim));
  StringRef reduce = c.string("reduce");
  if (index.numel() == 0 || x.numel() == 0) {
    return c.in("self");
  }
  Shape shape(x.shape());
  shape[dim] = index.numel();
  Term source = widen(reshape(convert(c.in("source"), x.element()), shape)), self = widen(x);
  bool isMean = reduce == "mean", includeSelf = c.boolean("include_self", true);
  StringRef kind =
      llvm::StringSwitch<StringRef>(reduce).Case("prod", "mul").Case("mean", "add").Case("amax", "max").Default("min");
  if (!includeSelf) {
    // Start from what is neutral; one of the sources is so for the extremes.
    Term start = source;
    if (reduce == "prod" || isMean) {
      start = full(c.emitter, shape, isMean ? 0 : 1, source.element());
    }
    self = put(self, index, start, dim, "set");
  }
  Term y = put(self, index, source, dim, kind);
  if (isMean) {
    Term counts = full(c.emitter, {x.dim(dim)}, 0, y.element());
    counts = put(counts, index, full(c.emitter, {index.numel()}, 1, y.element()), 0, "add");
    counts = includeSelf ? counts + 1.0 : max(counts, 1.0);
    Term total = broadcastTo(alongDim(counts, dim, x.rank()), y.shape());
    y = y.isFloat() ? y / total : select(ne(rem(y, total), 0.0) & (y < 0.0), y / total - 1.0, y / total);
  }
  return reshape(y, c.shape());
}

/// Positions of the first `size` elements that are not 0, in row-major order.
Results nonzeroStatic(Call &c) {
  Term x = c.in("self");
  int64_t size = c.shape()[0], rank = c.shape()[1];
  Term filled = broadcastTo(c.number("fill_value", c.i64(), -1), c.shape());
  if (product(c.shape()) == 0 || x.numel() == 0) {
    return filled;
  }
  Term mask = reshape(x.isBool() ? x : ne(x, 0.0), {x.numel()});
  Term place = select(mask, cumulative("cumsum", toIndex(mask), 0) - 1.0, -1.0);
  SmallVector<Term> columns;
  for (int64_t dim = 0; dim < rank; ++dim) {
    columns.push_back(reshape(positions(x, dim), {x.numel(), 1}));
  }
  place = select(place < static_cast<double>(size), place, -1.0);
  return put(filled, place, concat(columns, 1), 0, "set");
}

Results takeFlat(Call &c) {
  Term x = c.in("self");
  Term index = wrapped(c.in("index"), x.numel());
  return take(reshape(x, {x.numel()}), index, 0);
}

Results putFlat(Call &c) {
  Term x = c.in("self");
  Term index = wrapped(vector(c.in("index")), x.numel());
  Term source = reshape(c.number("source", x.element()), {index.numel()});
  Term y = put(reshape(x, {x.numel()}), index, source, 0, c.boolean("accumulate") ? "add" : "set");
  return reshape(y, x.shape());
}

} // namespace

void addIndexing(Table &t) {
  t.add({"index", "_unsafe_index"}, indexTensor);
  t.add({"index_put", "_unsafe_index_put", "_index_put_impl"}, indexPut);
  t.add({"index_select"}, indexSelect);
  t.add({"index_add", "index_copy", "index_fill"}, indexWrite);
  t.add({"index_reduce"}, indexReduce);
  t.add({"nonzero_static"}, nonzeroStatic);
  t.add({"take"}, takeFlat);
  t.add({"put"}, putFlat);
}

} // namespace sojourn::decompose
