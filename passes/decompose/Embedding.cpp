// SPDX-License-Identifier: Apache-2.0
// Embedding tables: rows taken at indices, gradients added back to them.
#include "passes/decompose/Call.h"

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
  Term p = c.number("norm_type", x.element(), 2);
  Term norm = pow(sum(pow(abs(rows), p), {1}, /*keep=*/true), 1.0 / p);
  Term limit = c.number("max_norm", x.element());
  Term scaled = rows * (limit / (norm + 1e-7));
  return put(x, index, select(norm > limit, scaled, rows), 0, "set");
}

} // namespace

void addEmbedding(Table &t) {
  t.add({"embedding"}, embedding);
  t.add({"embedding_dense_backward"}, embeddingGradient);
  t.add({"embedding_renorm"}, embeddingRenorm);
}

} // namespace sojourn::decompose
