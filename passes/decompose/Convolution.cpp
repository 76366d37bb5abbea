// SPDX-License-Identifier: Apache-2.0
// Convolutions and their gradients. A transposed convolution is the input
// gradient of the plain one, so that three core ops serve both.
#include "passes/decompose/Call.h"

using namespace mlir;

namespace sojourn::decompose {
namespace {

Window window(Call &c, Term x) {
  int64_t spatial = x.rank() - 2;
  return {c.spatial("stride", spatial, {1}), c.spatial("padding", spatial, {0}), c.spatial("dilation", spatial, {1}),
          c.integer("groups", 1)};
}

Shape allButChannels(Term x) {
  Shape dims = allDims(x);
  dims.erase(dims.begin() + 1);
  return dims;
}

/// x with zeros behind its spatial dimensions, up to what the plain
/// convolution of `shape` would give: an output padding of a stride or more
/// makes the transposed one skip its last positions.
Term reached(Term x, Term w, const Window &how, Dims shape) {
  Shape zero(x.rank(), 0), high(x.rank(), 0);
  for (int64_t i = 0; i + 2 < x.rank(); ++i) {
    int64_t extent = how.dilation[i] * (w.dim(i + 2) - 1) + 1;
    int64_t size = shape[shape.size() - x.rank() + i + 2];
    int64_t out = (size + 2 * how.padding[i] - extent) / how.stride[i] + 1;
    high[i + 2] = out - x.dim(i + 2);
  }
  return pad(x, constantLike(x, 0), zero, high, zero);
}

/// Where each place of the result [out] reads x in each step of the window [kernel], outside of x for padding and, of a
/// transposed convolution, between its elements.
Term reads(Call &c, const Window &how, int64_t i, int64_t out, int64_t kernel) {
  Shape grid = {out, kernel};
  Term place = iota(c.emitter, grid, 0, c.i64());
  Term step = iota(c.emitter, grid, 1, c.i64()) * static_cast<double>(how.dilation[i]);
  auto stride = static_cast<double>(how.stride[i]), padding = static_cast<double>(how.padding[i]);
  if (!c.boolean("transposed")) {
    return place * stride + step - padding;
  }
  Term at = place + padding - step;
  return select(eq(rem(at, stride), 0.0), at / stride, -1.0);
}

/// The same of integers, exactly and wrapping: what windows read, times a matrix.
Term convolveIntegers(Call &c, Term x, Term w, const Window &how) {
  bool transposed = c.boolean("transposed");
  int64_t spatial = x.rank() - 2, groups = how.groups;
  if (static_cast<int64_t>(c.shape().size()) != x.rank()) {
    refuse("has a result and an input of different ranks");
  }
  DotDims dims = {{1}, {0}, {2}, {transposed ? 1 : 2}};
  // [n, group, channel, out, kernel, out, kernel ...] by [group, out channel, channel, kernel ...]; of a transposed one
  // by [group, channel, out channel, kernel ...].
  Shape split = {x.dim(0), groups, quotient(x.dim(1), groups)};
  split.append(x.shape().begin() + 2, x.shape().end());
  Shape factor = {groups, quotient(w.dim(0), groups)};
  factor.append(w.shape().begin() + 1, w.shape().end());
  Term windows = reshape(x, split);
  for (int64_t i = 0; i < spatial; ++i) {
    windows = take(windows, reads(c, how, i, c.shape()[i + 2], w.dim(i + 2)), 3 + 2 * i);
    dims.lhsContract.push_back(4 + 2 * i);
    dims.rhsContract.push_back(3 + i);
  }
  Term y = dot(windows, reshape(w, factor), dims, x.element());
  return reshape(moveDim(moveDim(y, y.rank() - 1, 1), 2, 0), c.shape());
}

Results convolution(Call &c) {
  Term x = c.wide("input");
  Term w = c.wide("weight");
  if (x.isBool() || x.isComplex()) {
    return c.fail(Twine("convolves ") + (x.isBool() ? "booleans" : "complex numbers") +
                  "; convert to integers or floats first");
  }
  if (x.rank() < 3 || x.rank() > 5) {
    return c.fail("supports 1 to 3 spatial dimensions");
  }
  Window how = window(c, x);
  Term y = !x.isFloat()              ? convolveIntegers(c, x, w, how)
           : c.boolean("transposed") ? convGradInput(reached(x, w, how, c.shape()), w, how, c.shape())
                                     : conv(x, w, how);
  if (Term bias = c.wide("bias")) {
    y = y + alongDim(bias, 1, y.rank());
  }
  return y;
}

Results convolutionBackward(Call &c) {
  Term g = c.wide("grad_output");
  Term x = c.wide("input");
  Term w = c.wide("weight");
  Window how = window(c, x);
  bool transposed = c.boolean("transposed");
  Term gx, gw, gb;
  if (c.wants(0)) {
    if (transposed) {
      Shape start(x.rank(), 0), stride(x.rank(), 1);
      gx = slice(conv(g, w, how), start, x.shape(), stride);
    } else {
      gx = convGradInput(g, w, how, x.shape());
    }
  }
  if (c.wants(1)) {
    gw = transposed ? convGradWeight(reached(x, w, how, g.shape()), g, how, w.shape())
                    : convGradWeight(g, x, how, w.shape());
  }
  if (c.wants(2)) {
    gb = sum(g, allButChannels(g));
  }
  return {gx, gw, gb};
}

} // namespace

void addConvolution(Table &t) {
  t.add({"convolution", "_convolution", "convolution_overrideable"}, convolution);
  t.add({"convolution_backward", "convolution_backward_overrideable"}, convolutionBackward);
}

} // namespace sojourn::decompose
