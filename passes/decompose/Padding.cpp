// SPDX-License-Identifier: Apache-2.0
// Padding with a constant, by reflection and by replication. `pad` lists the
// last dimension first.
#include "passes/decompose/Call.h"

using namespace mlir;

namespace sojourn::decompose {
namespace {

Results constantPad(Call &c) {
  Term x = c.in("self");
  Shape amounts = c.ints("pad");
  Shape low(x.rank(), 0), high(x.rank(), 0), interior(x.rank(), 0);
  for (size_t i = 0; i + 1 < amounts.size(); i += 2) {
    int64_t dim = x.rank() - 1 - static_cast<int64_t>(i / 2);
    low[dim] = amounts[i];
    high[dim] = amounts[i + 1];
  }
  return pad(x, c.number("value", x.element(), 0), low, high, interior);
}

/// Which input position each output position along a dimension repeats.
Term source(Call &c, int64_t size, int64_t low, int64_t padded) {
  auto last = static_cast<double>(size - 1);
  Term at = counting(c.emitter, padded) - static_cast<double>(low);
  if (c.base.starts_with("reflection")) {
    // Mirrored at both ends, the end itself not repeated.
    at = abs(at);
    return last - abs(last - at);
  }
  return min(max(at, 0.0), last);
}

Results edgePad(Call &c) {
  Term x = c.in("self");
  Shape amounts = c.ints("padding");
  for (size_t i = 0; i + 1 < amounts.size(); i += 2) {
    int64_t dim = x.rank() - 1 - static_cast<int64_t>(i / 2);
    int64_t size = x.dim(dim);
    int64_t padded = size + amounts[i] + amounts[i + 1];
    x = take(x, source(c, size, amounts[i], padded), dim);
  }
  return x;
}

Results edgePadGradient(Call &c) {
  Term g = c.in("grad_output");
  Dims sizes = c.shape();
  Shape amounts = c.ints("padding");
  for (size_t i = 0; i + 1 < amounts.size(); i += 2) {
    int64_t dim = g.rank() - 1 - static_cast<int64_t>(i / 2);
    Shape shape(g.shape());
    shape[dim] = sizes[dim];
    Term index = source(c, sizes[dim], amounts[i], g.dim(dim));
    g = put(full(c.emitter, shape, 0, g.element()), index, g, dim, "add");
  }
  return g;
}

} // namespace

void addPadding(Table &t) {
  t.add({"constant_pad_nd"}, constantPad);
  t.add({"reflection_pad1d", "reflection_pad2d", "reflection_pad3d", "replication_pad1d", "replication_pad2d",
         "replication_pad3d"},
        edgePad);
  t.add({"reflection_pad1d_backward", "reflection_pad2d_backward", "reflection_pad3d_backward",
         "replication_pad1d_backward", "replication_pad2d_backward", "replication_pad3d_backward"},
        edgePadGradient);
}

} // namespace sojourn::decompose
