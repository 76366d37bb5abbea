// SPDX-License-Identifier: Apache-2.0
// Average and maximum pooling with their gradients, over 1 to 3 spatial
// dimensions, batched or not.
#include "passes/decompose/FractionalPooling.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace sojourn::decompose {
namespace {

/// How many spatial dimensions the operator of this name has.
int64_t spatialRank(StringRef base) { return base.contains("1d") ? 1 : base.contains("2d") ? 2 : 3; }

/// Adds the batch dimension where the input came without.
Term batched(Term x, int64_t spatial) { return x.rank() == spatial + 1 ? unsqueeze(x, 0) : x; }

struct Pool {
  int64_t spatial;
  Shape size;
  Window window;
  /// Sizes before and after, without batch and channels.
  Shape input, output;

  /// What a window at the end needs beyond the symmetric padding (ceil mode);
  /// negative where the end is not reached.
  int64_t high(int64_t i) const {
    int64_t extent = (output[i] - 1) * window.stride[i] + (size[i] - 1) * window.dilation[i] + 1;
    return extent - input[i] - window.padding[i];
  }
  bool symmetric() const {
    for (int64_t i = 0; i < spatial; ++i) {
      if (high(i) > window.padding[i]) {
        return false;
      }
    }
    return true;
  }
};

Pool pool(Call &c, Dims input, Dims output) {
  Pool p;
  p.spatial = spatialRank(c.base);
  p.size = c.spatial("kernel_size", p.spatial, {1});
  p.window = {c.spatial("stride", p.spatial, p.size), c.spatial("padding", p.spatial, {0}),
              c.spatial("dilation", p.spatial, {1}), 1};
  p.input = Shape(input.take_back(p.spatial));
  p.output = Shape(output.take_back(p.spatial));
  return p;
}

/// Pads the spatial dimensions by hand for windows that end outside.
Term padded(Term x, const Pool &p, Term value) {
  Shape low(2, 0), high(2, 0), interior(x.rank(), 0);
  for (int64_t i = 0; i < p.spatial; ++i) {
    low.push_back(p.window.padding[i]);
    high.push_back(p.high(i));
  }
  return pad(x, value, low, high, interior);
}

/// The number of elements that each window averages over, shaped to
/// broadcast over [N, C, output]; a splat where every window has the same.
Term averageCount(Call &c, const Pool &p, Type element) {
  if (c.has("divisor_override")) {
    return constantInt(c.emitter, c.integer("divisor_override"), element);
  }
  bool includePad = c.boolean("count_include_pad", true);
  bool whole = p.symmetric();
  for (int64_t padding : p.window.padding) {
    whole = whole && (includePad || padding == 0);
  }
  if (whole) {
    return constantInt(c.emitter, product(p.size), element);
  }
  // The count is a product over dimensions; each factor follows from where
  // the window starts and ends.
  Term count;
  for (int64_t i = 0; i < p.spatial; ++i) {
    auto padding = static_cast<double>(p.window.padding[i]);
    auto limit = static_cast<double>(p.input[i]);
    Term start = counting(c.emitter, p.output[i]) * static_cast<double>(p.window.stride[i]) - padding;
    Term end = start + static_cast<double>(p.size[i]);
    end = min(end, includePad ? limit + padding : limit);
    if (!includePad) {
      start = max(start, 0.0);
    }
    Term along = alongDim(convert(end - start, element), i, p.spatial);
    count = count ? count * along : along;
  }
  return count;
}

Results averagePool(Call &c) {
  Term input = c.wide("self");
  Pool p = pool(c, input.shape(), c.shape());
  Term x = batched(input, p.spatial);
  Term count = averageCount(c, p, x.element());
  Term total = p.symmetric() ? poolSum(x, p.size, p.window.stride, p.window.padding)
                             : poolSum(padded(x, p, constantLike(x, 0)), p.size, p.window.stride, Shape(p.spatial, 0));
  if (!p.symmetric() || Dims(total.shape()).take_back(p.spatial) != Dims(p.output)) {
    Shape start(total.rank(), 0), limit(total.shape()), stride(total.rank(), 1);
    for (int64_t i = 0; i < p.spatial; ++i) {
      limit[2 + i] = p.output[i];
    }
    total = slice(total, start, limit, stride);
  }
  return reshape(total / count, c.shape());
}

/// The adjoint of a window sum: each input position collects the windows that
/// cover it, which is again a window sum, over the gradient spread by the
/// stride.
Results averagePoolGradient(Call &c) {
  Term input = c.in("self");
  Term gradient = c.wide("grad_output");
  Pool p = pool(c, input.shape(), gradient.shape());
  Term g = batched(gradient, p.spatial);
  g = g / averageCount(c, p, g.element());
  bool tiled = p.size == p.window.stride;
  for (int64_t i = 0; i < p.spatial; ++i) {
    tiled = tiled && p.window.padding[i] == 0 && p.input[i] == p.output[i] * p.size[i];
  }
  Shape shape = {g.dim(0), g.dim(1)};
  if (tiled) {
    // Windows side by side: every element of one gets the same.
    Shape split = shape, dims = {0, 1};
    for (int64_t i = 0; i < p.spatial; ++i) {
      dims.push_back(static_cast<int64_t>(split.size()));
      split.append({p.output[i], p.size[i]});
    }
    return reshape(broadcastDims(g, split, dims), c.shape());
  }
  Shape low(2, 0), high(2, 0), interior(2, 0);
  for (int64_t i = 0; i < p.spatial; ++i) {
    int64_t before = p.size[i] - 1 - p.window.padding[i];
    int64_t extent = (p.output[i] - 1) * p.window.stride[i] + 1;
    low.push_back(before);
    high.push_back(p.input[i] + p.size[i] - 1 - before - extent);
    interior.push_back(p.window.stride[i] - 1);
  }
  Term spreadOut = pad(g, constantLike(g, 0), low, high, interior);
  return reshape(poolSum(spreadOut, p.size, Shape(p.spatial, 1), Shape(p.spatial, 0)), c.shape());
}

Term lowest(Term x) {
  if (x.isFloat()) {
    return constantLike(x, -kInfinity);
  }
  unsigned width = x.element().getIntOrFloatBitWidth();
  return constantInt(*x.emitter, x.element().isUnsignedInteger() ? 0 : APInt::getSignedMinValue(width).getSExtValue(),
                     x.element());
}

/// Flat positions in the padded input as flat positions in the input.
Term unpadded(Term index, const Pool &p) {
  Term flat;
  Term rest = index;
  int64_t scale = 1;
  for (int64_t i = p.spatial - 1; i >= 0; --i) {
    auto size = static_cast<double>(p.input[i] + p.window.padding[i] + p.high(i));
    Term at = rem(rest, size) - static_cast<double>(p.window.padding[i]);
    at = at * static_cast<double>(scale);
    flat = flat ? flat + at : at;
    rest = rest / size;
    scale *= p.input[i];
  }
  return flat;
}

Results maxPool(Call &c) {
  Term input = c.in("self");
  Pool p = pool(c, input.shape(), c.shape());
  Term x = batched(input, p.spatial);
  Term values, index;
  if (p.symmetric()) {
    std::tie(values, index) = poolMax(x, p.size, p.window);
  } else {
    Window plain = p.window;
    plain.padding.assign(p.spatial, 0);
    std::tie(values, index) = poolMax(padded(x, p, lowest(x)), p.size, plain);
    index = unpadded(index, p);
  }
  values = reshape(values, c.shape());
  if (c.resultCount() == 1) {
    return values;
  }
  return {values, reshape(index, c.shape(1))};
}

/// Puts each value where its maximum was.
Results maxUnpool(Call &c) {
  Term x = c.in("self");
  int64_t spatial = spatialRank(c.base);
  int64_t rows = product(Dims(x.shape()).drop_back(spatial));
  if (rows == 0 || x.numel() == 0) {
    return full(c.emitter, c.shape(), 0, x.element());
  }
  auto flat = [&](Term v) { return reshape(v, {rows, v.numel() / rows}); };
  Term zeros = full(c.emitter, {rows, product(c.shape()) / rows}, 0, x.element());
  return reshape(putAlong(zeros, flat(c.in("indices")), flat(x), 1, "set"), c.shape());
}

/// Adds each gradient where its maximum was; serves every kind of maximum
/// pooling, since the indices say it all.
Results maxPoolGradient(Call &c) {
  Term input = c.in("self");
  Term g = c.wide("grad_output");
  Term index = c.in("indices");
  int64_t spatial = spatialRank(c.base);
  int64_t rank = input.rank();
  int64_t rows = product(Dims(input.shape()).drop_back(spatial));
  auto flat = [&](Term v) { return reshape(v, {rows, v.numel() / rows}); };
  if (rank < spatial + 1 || rows == 0) {
    return full(c.emitter, c.shape(), 0, g.element());
  }
  Term zeros = full(c.emitter, {rows, input.numel() / rows}, 0, g.element());
  return reshape(putAlong(zeros, flat(index), flat(g), 1, "add"), c.shape());
}

/// Windows of unequal size: each is gathered at the size of the largest, its
/// last element repeated, which wins no tie against the first of its kind; a NaN's place is that of both.
Results unevenMaxPool(Call &c, Term input, const Pool &p) {
  int64_t rows = product(Dims(input.shape()).drop_back(p.spatial));
  Shape shape = {rows};
  shape.append(p.input);
  Term x = reshape(input, shape);
  Term flat;
  Shape perm = {0}, windows;
  for (int64_t i = 0; i < p.spatial; ++i) {
    int64_t in = p.input[i], out = p.output[i];
    int64_t size = (in + out - 1) / out + (in % out == 0 ? 0 : 1);
    auto sizeIn = static_cast<double>(in), sizeOut = static_cast<double>(out);
    Term start = iota(c.emitter, {out, size}, 0, c.i64());
    Term end = ((start + 1.0) * sizeIn + (sizeOut - 1)) / sizeOut;
    start = start * sizeIn / sizeOut;
    Term at = min(start + iota(c.emitter, {out, size}, 1, c.i64()), end - 1.0);
    x = take(x, at, 1 + 2 * i);
    Shape place(2 * p.spatial, 1);
    place[2 * i] = out;
    place[2 * i + 1] = size;
    Term along = reshape(at, place);
    flat = flat ? flat * sizeIn + along : along;
    perm.push_back(1 + 2 * i);
    windows.push_back(2 + 2 * i);
  }
  perm.append(windows);
  int64_t outputs = product(p.output);
  Shape table = {rows, outputs, x.numel() / std::max<int64_t>(rows * outputs, 1)};
  x = reshape(transpose(x, perm), table);
  Shape flatPerm;
  for (int64_t dim : Dims(perm).drop_front()) {
    flatPerm.push_back(dim - 1);
  }
  flat = reshape(transpose(flat, flatPerm), Dims(table).drop_front());
  Term best = chosen(x, 2);
  return {reshape(amax(x, {2}), c.shape()), reshape(takeAlong(broadcastTo(flat, table), best, 2), c.shape(1))};
}

/// Sizes that divide evenly make adaptive maximum pooling a plain one.
Results adaptiveMaxPool(Call &c) {
  Term input = c.in("self");
  Pool p = pool(c, input.shape(), c.shape());
  if (product(c.shape()) == 0) {
    return {full(c.emitter, c.shape(), 0, input.element()), full(c.emitter, c.shape(1), 0, c.i64())};
  }
  for (int64_t i = 0; i < p.spatial; ++i) {
    if (p.input[i] % p.output[i] != 0) {
      return unevenMaxPool(c, input, p);
    }
    p.size[i] = p.input[i] / p.output[i];
  }
  p.window = {p.size, Shape(p.spatial, 0), Shape(p.spatial, 1), 1};
  auto [values, index] = poolMax(batched(input, p.spatial), p.size, p.window);
  return {reshape(values, c.shape()), reshape(index, c.shape(1))};
}

} // namespace

void addPooling(Table &t) {
  t.add({"avg_pool1d", "avg_pool2d", "avg_pool3d"}, averagePool);
  t.add({"avg_pool2d_backward", "avg_pool3d_backward"}, averagePoolGradient);
  t.add({"max_pool1d", "max_pool1d_with_indices", "max_pool2d_with_indices", "max_pool3d_with_indices"}, maxPool);
  t.add({"max_pool2d_with_indices_backward", "max_pool3d_with_indices_backward", "adaptive_max_pool2d_backward",
         "adaptive_max_pool3d_backward", "fractional_max_pool2d_backward", "fractional_max_pool3d_backward"},
        maxPoolGradient);
  t.add({"max_unpool2d", "max_unpool3d"}, maxUnpool);
  t.add({"adaptive_max_pool2d", "adaptive_max_pool3d"}, adaptiveMaxPool);
  t.add({"fractional_max_pool2d", "fractional_max_pool3d"}, fractionalMaxPool);
}

} // namespace sojourn::decompose
