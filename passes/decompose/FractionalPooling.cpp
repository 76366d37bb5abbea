// SPDX-License-Identifier: Apache-2.0
// Fractional maximum pooling: windows of one size, whose starts follow from a number per plane and dimension.
#include "passes/decompose/FractionalPooling.h"

using namespace mlir;

namespace sojourn::decompose {
namespace {

/// Rounds to the element type after each step, as eager does where it computes in halves.
Term rounded(Term x, Type element) { return element == x.element() ? x : convert(convert(x, element), x.element()); }

/// Where the windows start: `out` of them per plane, as i64 [planes, out]. The last one ends where the input does.
Term starts(Term sample, int64_t in, int64_t out, int64_t size, Type element) {
  Emitter &e = *sample.emitter;
  int64_t planes = sample.dim(0);
  Term last = broadcastTo(constantInt(e, in - size, e.builder.getI64Type()), {planes, 1});
  if (out == 1) {
    return last;
  }
  auto whole = [&](int64_t value) { return rounded(constantInt(e, value, sample.element()), element); };
  Term step = rounded(whole(in - size) / whole(out - 1), element);
  Term number = rounded(iota(e, {1, out - 1}, 1, sample.element()), element);
  Term from = reshape(sample, {planes, 1});
  Term at = rounded(rounded(number + from, element) * step, element);
  Term first = rounded(from * step, element);
  return concat({toIndex(trunc(at)) - toIndex(trunc(first)), last}, 1);
}

} // namespace

Term chosen(Term windows, int64_t dim) {
  Term largest = unsqueeze(argmax(windows, dim), dim);
  if (!windows.isFloat()) {
    return largest;
  }
  Term place = iota(*windows.emitter, windows.shape(), dim, largest.element());
  Term lastNan = amax(select(isNan(windows), place, -1.0), {dim}, true);
  return select(lastNan >= 0.0, lastNan, largest);
}

Results fractionalMaxPool(Call &c) {
  Term x = c.in("self"), samples = c.wide("random_samples");
  int64_t spatial = c.base.contains("2d") ? 2 : 3;
  Shape size = c.spatial("kernel_size", spatial, {1});
  Dims out = c.shape().take_back(spatial), in = Dims(x.shape()).take_back(spatial);
  if (product(c.shape()) == 0) {
    return {full(c.emitter, c.shape(), 0, x.element()), full(c.emitter, c.shape(1), 0, c.i64())};
  }
  for (int64_t entry : size) {
    if (entry < 1) {
      return c.fail("pools over windows of " + Twine(entry) + " elements along a dimension; use 1 or more");
    }
  }
  // There may be samples for more batches than there are.
  int64_t planes = product(Dims(x.shape()).drop_back(spatial));
  samples = reshape(samples, {samples.dim(0) * samples.dim(1), spatial});
  samples = sliceDim(samples, 0, 0, planes);
  // Flat positions as [planes, windows per dimension, elements of a window per dimension].
  Term flat;
  for (int64_t i = 0; i < spatial; ++i) {
    // In a plane the first sample is that of the inner dimension, in a volume that of the outer one.
    int64_t column = spatial == 2 ? 1 - i : i;
    Term sample = sliceDim(samples, 1, column, column + 1);
    Shape place(1 + 2 * spatial, 1), window = place;
    place[0] = planes;
    place[1 + i] = out[i];
    window[1 + spatial + i] = size[i];
    Term along = reshape(starts(sample, in[i], out[i], size[i], c.in("random_samples").element()), place) +
                 reshape(counting(c.emitter, size[i]), window);
    flat = flat ? flat * static_cast<double>(in[i]) + along : along;
  }
  int64_t outputs = product(out), elements = product(size);
  flat = reshape(flat, {planes, outputs * elements});
  Term taken = takeAlong(reshape(x, {planes, product(in)}), flat, 1);
  Shape table = {planes, outputs, elements};
  taken = reshape(taken, table);
  Term best = chosen(taken, 2);
  Term index = takeAlong(reshape(flat, table), best, 2);
  return {reshape(takeAlong(taken, best, 2), c.shape()), reshape(index, c.shape(1))};
}

} // namespace sojourn::decompose
