// SPDX-License-Identifier: Apache-2.0
// Embedding tables: rows taken at indices, gradients added back to them.
#include "passes/decompose/Call.h"

#include <limits>

using namespace mlir;

namespace sojourn::decompose {
namespace {

Results embedding(Call &c) { return take(c.in("weight"), toIndex(c.in("indices")), 0); }

Results embeddingGradient(Call &c) {
  Term g = c.wide("grad_output");
  Term index = toIndex(c.in("indices"));
  int64_t padding = c.integer("padding_idx", -1);
  if (padding >= 0) {
    // Out of range is dropped, so the padding row receives nothing.
    index = select(eq(index, static_cast<double>(padding)), -1.0, index);
  }
  int64_t rows = c.integer("num_weights");
  if (c.boolean("scale_grad_by_freq")) {
    Term ones = full(c.emitter, index.shape(), 1, g.element());
    Term counts = put(full(c.emitter, {rows}, 0, g.element()), index, ones, 0, "add");
    Term frequency = max(take(counts, index, 0), 1.0);
    g = g / unsqueeze(frequency, frequency.rank());
  }
  Shape table = {rows, g.dim(-1)};
  return put(full(c.emitter, table, 0, g.element()), index, g, 0, "add");
}

/// Rows that are used and longer than max_norm are scaled down to it.
Results embeddingRenorm(Call &c) {
  Term x = c.wide("self");
  Term index = toIndex(c.in("indices"));
  index = reshape(index, {index.numel()});
  Term rows = take(x, index, 0);
  Term norm = unsqueeze(normOver(c, abs(rows), {1}, "norm_type"), 1);
  Term limit = c.number("max_norm", x.element());
  Term scaled = rows * (limit / (norm + 1e-7));
  return put(x, index, select(norm > limit, scaled, rows), 0, "set");
}

/// Bags of rows: entries of `indices` from one offset to the next.
struct Bags {
  enum Mode : int64_t { Sum = 0, Mean = 1, Max = 2 };
  Mode mode;
  Term index; ///< [entries]; -1 for one that counts nothing
  Term bag;   ///< [entries]: the bag of each
  Term scale; ///< [entries, 1], or absent

  explicit Bags(Call &c) : mode(static_cast<Mode>(c.integer("mode"))), index(toIndex(c.in("indices"))) {
    if (mode < Sum || mode > Max) {
      refuse("has mode " + Twine(static_cast<int64_t>(mode)) + ", expected 0, 1 or 2");
    }
    if (c.boolean("sparse")) {
      refuse("gives a sparse gradient; pass sparse=False");
    }
    if (Term known = c.in("offset2bag")) {
      bag = toIndex(known);
    } else {
      // Each offset begins a bag: how many have begun at an entry. What lies past the end begins none.
      Term offsets = toIndex(c.in("offsets"));
      Term begins = full(c.emitter, index.shape(), 0, c.i64());
      begins = put(begins, offsets, full(c.emitter, offsets.shape(), 1, c.i64()), 0, "add");
      bag = cumulative("cumsum", begins, 0) - 1.0;
    }
    int64_t padding = c.integer("padding_idx", -1);
    if (padding >= 0) {
      index = select(eq(index, static_cast<double>(padding)), -1.0, index);
    }
    if (Term weights = c.wide("per_sample_weights")) {
      scale = unsqueeze(weights, 1);
    }
  }
  Term counted() const { return index >= 0.0; }
  /// One row per entry, zeros where it counts nothing.
  Term rowsOf(Term table) const {
    Term rows = take(table, index, 0);
    return scale ? rows * broadcastTo(scale, rows.shape()) : rows;
  }
  /// Rows added up per bag.
  Term sumOf(Term rows, int64_t bags) const {
    return put(full(*rows.emitter, {bags, rows.dim(1)}, 0, rows.element()), bag, rows, 0, "add");
  }
};

/// (output, the bag of each entry, the entries of each bag, for maxima the row that each came from)
Results embeddingBag(Call &c) {
  Bags b(c);
  Term table = c.wide("weight");
  int64_t bags = c.shape()[0], width = table.dim(1);
  Term size = put(full(c.emitter, {bags}, 0, c.i64()), b.bag, toIndex(b.counted()), 0, "add");
  Term from = full(c.emitter, {c.wants(3) ? c.shape(3)[0] : bags}, 0, c.i64());
  Term output;
  if (b.mode == Bags::Max) {
    Term rows = b.rowsOf(table);
    Shape shape(rows.shape());
    Term counted = broadcastTo(unsqueeze(b.counted(), 1), shape);
    Term least = constantLike(rows, -std::numeric_limits<double>::infinity());
    rows = select(counted, rows, least);
    Term most = put(full(c.emitter, {bags, width}, -std::numeric_limits<double>::infinity(), rows.element()), b.bag,
                    rows, 0, "max");
    // The first entry of a bag that is its maximum, or NaN as it is.
    Term mine = take(most, b.bag, 0);
    Term isMost = counted & (eq(rows, mine) | (ne(rows, rows) & ne(mine, mine)));
    auto none = static_cast<double>(shape[0]);
    Term entry = select(isMost, iota(c.emitter, shape, 0, c.i64()), none);
    Term first = put(full(c.emitter, {bags, width}, none, c.i64()), b.bag, entry, 0, "min");
    from = max(take(b.index, first, 0), 0.0);
    output = select(broadcastTo(unsqueeze(size, 1), {bags, width}) > 0.0, most, 0.0);
  } else {
    output = b.sumOf(b.rowsOf(table), bags);
    if (b.mode == Bags::Mean) {
      output = output / unsqueeze(convert(max(size, 1.0), output.element()), 1);
    }
  }
  auto typed = [&](Term x, unsigned i) { return c.wants(i) ? convert(x, c.element(i)) : x; };
  return {output, typed(b.bag, 1), typed(size, 2), typed(from, 3)};
}

Results embeddingBagGradient(Call &c) {
  Bags b(c);
  Term grad = c.wide("grad");
  int64_t rows = c.integer("num_weights");
  Term zeros = full(c.emitter, {rows, grad.dim(1)}, 0, grad.element());
  if (b.mode == Bags::Max) {
    Term from = toIndex(c.in("maximum_indices")), size = toIndex(c.in("bag_size"));
    size = sliceDim(size, 0, 0, grad.dim(0));
    Term isEmpty = eq(broadcastTo(unsqueeze(size, 1), from.shape()), 0.0);
    return putAlong(zeros, select(isEmpty, -1.0, from), grad, 0, "add");
  }
  if (b.mode == Bags::Mean) {
    Term size = sliceDim(toIndex(c.in("bag_size")), 0, 0, grad.dim(0));
    grad = grad / unsqueeze(convert(max(size, 1.0), grad.element()), 1);
  }
  Term each = take(grad, b.bag, 0);
  if (b.scale) {
    each = each * broadcastTo(b.scale, each.shape());
  }
  if (c.boolean("scale_grad_by_freq")) {
    Term ones = full(c.emitter, b.index.shape(), 1, grad.element());
    Term counts = put(full(c.emitter, {rows}, 0, grad.element()), b.index, ones, 0, "add");
    each = each / broadcastTo(unsqueeze(max(take(counts, b.index, 0), 1.0), 1), each.shape());
  }
  return put(zeros, b.index, each, 0, "add");
}

Results sampleWeightGradient(Call &c) {
  Bags b(c);
  return sum(take(c.wide("grad"), b.bag, 0) * take(c.wide("weight"), b.index, 0), {1}, /*keep=*/false);
}

} // namespace

void addEmbedding(Table &t) {
  t.add({"_embedding_bag", "_embedding_bag_forward_only"}, embeddingBag);
  t.add({"_embedding_bag_backward", "_embedding_bag_dense_backward"}, embeddingBagGradient);
  t.add({"_embedding_bag_per_sample_weights_backward"}, sampleWeightGradient);
  t.add({"embedding"}, embedding);
  t.add({"embedding_dense_backward"}, embeddingGradient);
  t.add({"embedding_renorm"}, embeddingRenorm);
}

} // namespace sojourn::decompose
