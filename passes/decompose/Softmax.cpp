// SPDX-License-Identifier: Apache-2.0
// Softmax and its relatives: the row maximum is subtracted first, and
// log-softmax never takes the logarithm of a softmax.
#include "passes/decompose/Call.h"

using namespace mlir;

namespace sojourn::decompose {
namespace {

struct Row {
  Term x;
  Shape dim;
};

Row row(Call &c, StringRef name) {
  Term x = c.wide(name);
  if (!x.isFloat()) {
    x = convert(x, wideElement(c.element()));
  }
  return {x, x.rank() == 0 ? Shape{} : Shape{wrapDim(c.integer("dim"), x.rank())}};
}

/// A row of -inf alone becomes NaN, here as in ATen.
Term softmax(Row row) {
  Term e = exp(row.x - amax(row.x, row.dim, /*keep=*/true));
  return e / sum(e, row.dim, /*keep=*/true);
}

Results softmaxOf(Call &c) {
  Row r = row(c, "self");
  return r.x.numel() == 0 ? r.x : softmax(r);
}

Results logSoftmax(Call &c) {
  Row r = row(c, "self");
  if (r.x.numel() == 0) {
    return r.x;
  }
  Term shifted = r.x - amax(r.x, r.dim, /*keep=*/true);
  return shifted - log(sum(exp(shifted), r.dim, /*keep=*/true));
}

/// Gives 0 where every entry of the row is -inf: nothing to attend to.
Results safeSoftmax(Call &c) {
  Row r = row(c, "self");
  if (r.x.numel() == 0) {
    return r.x;
  }
  Term top = amax(r.x, r.dim, /*keep=*/true);
  Term masked = eq(top, -kInfinity);
  Term e = exp(r.x - select(masked, 0.0, top));
  return select(masked, 0.0, e / sum(e, r.dim, /*keep=*/true));
}

Results maskedSoftmax(Call &c) {
  Row r = row(c, "self");
  if (!c.has("dim")) {
    r.dim = {r.x.rank() - 1};
  }
  // mask_type 0 is [T, T], 1 is [B, T] of keys; both hide where true.
  Term mask = toBool(c.in("mask"));
  if (mask.rank() == 2 && r.x.rank() == 4 && c.integer("mask_type", 2) == 1) {
    mask = reshape(mask, {mask.dim(0), 1, 1, mask.dim(1)});
  }
  return softmax({select(mask, -kInfinity, r.x), r.dim});
}

Results softmaxGradient(Call &c) {
  Row y = row(c, "output");
  Term weighted = c.wide("grad_output") * y.x;
  return weighted - y.x * sum(weighted, y.dim, /*keep=*/true);
}

Results logSoftmaxGradient(Call &c) {
  Row y = row(c, "output");
  Term g = c.wide("grad_output");
  return g - exp(y.x) * sum(g, y.dim, /*keep=*/true);
}

} // namespace

void addSoftmax(Table &t) {
  t.add({"_softmax"}, softmaxOf);
  t.add({"_log_softmax"}, logSoftmax);
  t.add({"_safe_softmax"}, safeSoftmax);
  t.add({"_masked_softmax"}, maskedSoftmax);
  t.add({"_softmax_backward_data"}, softmaxGradient);
  t.add({"_log_softmax_backward_data"}, logSoftmaxGradient);
}

} // namespace sojourn::decompose
