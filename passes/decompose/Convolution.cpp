// SPDX-License-Identifier: Apache-2.0
// Convolutions and their gradients. A transposed convolution is the input
// gradient of the plain one, so that three core ops serve both.
#include "passes/decompose/Call.h"

using namespace mlir;

namespace sojourn::decompose {
namespace {

Window window(Call &c, Term x) {
  int64_t spatial = x.rank() - 2;
  return {c.spatial("stride", spatial, {1}), c.spatial("padding", spatial, {0}),
          c.spatial("dilation", spatial, {1}), c.integer("groups", 1)};
}

Shape allButChannels(Term x) {
  Shape dims = allDims(x);
  dims.erase(dims.begin() + 1);
  return dims;
}

Results convolution(Call &c) {
  Term x = c.wide("input");
  Term w = c.wide("weight");
  if (x.rank() < 3 || x.rank() > 5) {
    return c.fail("supports 1 to 3 spatial dimensions");
  }
  Term y = c.boolean("transposed")
               ? convGradInput(x, w, window(c, x), c.shape())
               : conv(x, w, window(c, x));
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
    gx = transposed ? conv(g, w, how) : convGradInput(g, w, how, x.shape());
  }
  if (c.wants(1)) {
    gw = transposed ? convGradWeight(x, g, how, w.shape())
                    : convGradWeight(g, x, how, w.shape());
  }
  if (c.wants(2)) {
    gb = sum(g, allButChannels(g));
  }
  return {gx, gw, gb};
}

} // namespace

void addConvolution(Table &t) {
  t.add({"convolution", "_convolution", "convolution_overrideable"},
        convolution);
  t.add({"convolution_backward", "convolution_backward_overrideable"},
        convolutionBackward);
}

} // namespace sojourn::decompose
