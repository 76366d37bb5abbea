// SPDX-License-Identifier: Apache-2.0
// Adaptive average pooling and upsampling: each spatial dimension is a small
// matrix [out, in], made from index ramps; gradients use its transpose.
#include "passes/decompose/Call.h"

#include <cmath>

using namespace mlir;

namespace sojourn::decompose {
namespace {

Term scalar(Emitter &e, double value) { return constant(e, value, e.builder.getF64Type()); }

/// Column [out, 1] of i64 positions and row [1, in] of them.
std::pair<Term, Term> grid(Emitter &e, int64_t out, int64_t in) {
  return {reshape(counting(e, out), {out, 1}), reshape(counting(e, in), {1, in})};
}

/// Row i averages the positions from floor(i in / out) to
/// ceil((i + 1) in / out).
Term averageMatrix(Emitter &e, int64_t out, int64_t in, Type element) {
  auto [i, j] = grid(e, out, in);
  auto size = static_cast<double>(in), parts = static_cast<double>(out);
  Term start = i * size / parts;
  Term end = ((i + 1.0) * size + (parts - 1)) / parts;
  Term inside = (j >= start) & (j < end);
  return select(inside, broadcastTo(1.0 / convert(end - start, element), inside.shape()), 0.0);
}

/// Source step per output position: 1 / scale where the caller gave one.
Term sourceStep(Call &c, StringRef name, int64_t out, int64_t in) {
  auto ratio = static_cast<double>(in) / static_cast<double>(out);
  Term given = c.number(name, c.f64());
  return given ? select(given > 0.0, 1.0 / given, ratio) : scalar(c.emitter, ratio);
}

Term nearestMatrix(Call &c, StringRef name, int64_t out, int64_t in, Type element) {
  auto [i, j] = grid(c.emitter, out, in);
  // The step is rounded to f32 as in ATen, where it decides on ties.
  Type single = c.emitter.builder.getF32Type();
  Type step = element.isF64() ? c.f64() : single;
  Term at = convert(i, step);
  if (c.base.contains("exact")) {
    at = at + 0.5;
  }
  at = floor(at * convert(sourceStep(c, name, out, in), step));
  Term source = min(toIndex(at), static_cast<double>(in - 1));
  return convert(eq(source, j), element);
}

Term linearMatrix(Call &c, StringRef name, int64_t out, int64_t in, Type element) {
  auto [i, j] = grid(c.emitter, out, in);
  Term at = convert(i, element);
  if (c.boolean("align_corners")) {
    at = at * (out > 1 ? static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0.0);
  } else {
    Term step = convert(sourceStep(c, name, out, in), element);
    at = max((at + 0.5) * step - 0.5, 0.0);
  }
  Term low = min(toIndex(at), static_cast<double>(in - 1));
  Term high = min(low + 1.0, static_cast<double>(in - 1));
  Term part = min(max(at - convert(low, element), 0.0), 1.0);
  return convert(eq(low, j), element) * (1.0 - part) + convert(eq(high, j), element) * part;
}

/// Four taps around the source position, the outer ones repeated at the edge.
Term cubicMatrix(Call &c, StringRef name, int64_t out, int64_t in, Type element) {
  constexpr double a = -0.75;
  auto [i, j] = grid(c.emitter, out, in);
  Term at = convert(i, element);
  if (c.boolean("align_corners")) {
    at = at * (out > 1 ? static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0.0);
  } else {
    at = (at + 0.5) * convert(sourceStep(c, name, out, in), element) - 0.5;
  }
  Term base = floor(at);
  Term t = at - base;
  auto inner = [](Term x) { return ((a + 2) * x - (a + 3)) * x * x + 1.0; };
  auto outer = [](Term x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };
  Term weights[] = {outer(t + 1.0), inner(t), inner(1.0 - t), outer(2.0 - t)};
  Term matrix;
  for (int64_t tap = 0; tap < 4; ++tap) {
    Term source = toIndex(base) + static_cast<double>(tap - 1);
    source = min(max(source, 0.0), static_cast<double>(in - 1));
    Term part = convert(eq(source, j), element) * weights[tap];
    matrix = matrix ? matrix + part : part;
  }
  return matrix;
}

/// One matrix per spatial dimension, applied (or its transpose) to x.
Results resampled(Call &c, Term x, int64_t spatial, Dims input, Dims output, bool gradient) {
  static constexpr StringLiteral kScales[] = {"scales_d", "scales_h", "scales_w"};
  for (int64_t i = 0; i < spatial; ++i) {
    int64_t dim = x.rank() - spatial + i;
    int64_t in = input[input.size() - spatial + i];
    int64_t out = output[output.size() - spatial + i];
    if (in == out && c.base.contains("adaptive")) {
      continue;
    }
    StringRef name = c.has("scales") ? StringRef("scales") : StringRef(kScales[3 - spatial + i]);
    Term matrix = c.base.contains("nearest")    ? nearestMatrix(c, name, out, in, x.element())
                  : c.base.contains("adaptive") ? averageMatrix(c.emitter, out, in, x.element())
                  : c.base.contains("bicubic")  ? cubicMatrix(c, name, out, in, x.element())
                                                : linearMatrix(c, name, out, in, x.element());
    x = contractDim(x, gradient ? transpose(matrix, {1, 0}) : matrix, dim);
  }
  return x;
}

int64_t spatialRank(StringRef base) { return base.contains("1d") ? 1 : base.contains("2d") ? 2 : 3; }

/// Evenly divided adaptive pooling is a mean over blocks.
Results adaptiveAverage(Call &c) {
  Term x = c.wide("self");
  int64_t spatial = spatialRank(c.base);
  Dims in = Dims(x.shape()).take_back(spatial);
  Dims out = c.shape().take_back(spatial);
  Shape split(Dims(x.shape()).drop_back(spatial)), blocks;
  for (int64_t i = 0; i < spatial; ++i) {
    if (out[i] == 0 || in[i] % out[i] != 0) {
      return resampled(c, x, spatial, in, out, false);
    }
    split.append({out[i], in[i] / out[i]});
    blocks.push_back(static_cast<int64_t>(split.size()) - 1);
  }
  return reshape(mean(reshape(x, split), blocks), c.shape());
}

Results adaptiveAverageGradient(Call &c) {
  Term g = c.wide("grad_output");
  int64_t spatial = spatialRank(c.base);
  Shape input(c.shape().take_back(spatial));
  Shape output(Dims(g.shape()).take_back(spatial));
  Shape split(Dims(g.shape()).drop_back(spatial)), dims = allDims(g);
  dims.truncate(split.size());
  int64_t count = 1;
  for (int64_t i = 0; i < spatial; ++i) {
    if (output[i] == 0 || input[i] % output[i] != 0) {
      return resampled(c, g, spatial, input, output, true);
    }
    dims.push_back(static_cast<int64_t>(split.size()));
    split.append({output[i], input[i] / output[i]});
    count *= input[i] / output[i];
  }
  Term each = g / static_cast<double>(count);
  return reshape(broadcastDims(each, split, dims), c.shape());
}

Results upsample(Call &c) {
  Term x = c.wide(c.anyOf({"self", "input"}));
  if (x.isFloat() || c.base.contains("nearest")) {
    return resampled(c, x, spatialRank(c.base), x.shape(), c.shape(), false);
  }
  // Images of bytes: to the nearest one, as far as there are any.
  Term wide = resampled(c, convert(x, c.emitter.builder.getF32Type()), spatialRank(c.base), x.shape(), c.shape(), false)
                  .terms.front();
  return convert(min(max(round(wide), 0.0), 255.0), x.element());
}

Results upsampleGradient(Call &c) {
  Term g = c.wide("grad_output");
  return resampled(c, g, spatialRank(c.base), c.shape(), g.shape(), true);
}

} // namespace

void addResampling(Table &t) {
  t.add({"adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "_adaptive_avg_pool2d",
         "_adaptive_avg_pool3d"},
        adaptiveAverage);
  t.add({"_adaptive_avg_pool2d_backward", "_adaptive_avg_pool3d_backward", "adaptive_avg_pool3d_backward"},
        adaptiveAverageGradient);
  t.add({"upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "_upsample_nearest_exact1d",
         "_upsample_nearest_exact2d", "_upsample_nearest_exact3d", "upsample_linear1d", "upsample_bilinear2d",
         "upsample_bicubic2d", "upsample_trilinear3d"},
        upsample);
  t.add({"upsample_nearest1d_backward", "upsample_nearest2d_backward", "upsample_nearest3d_backward",
         "_upsample_nearest_exact1d_backward", "_upsample_nearest_exact2d_backward",
         "_upsample_nearest_exact3d_backward", "upsample_linear1d_backward", "upsample_bilinear2d_backward",
         "upsample_bicubic2d_backward", "upsample_trilinear3d_backward"},
        upsampleGradient);
}

} // namespace sojourn::decompose
