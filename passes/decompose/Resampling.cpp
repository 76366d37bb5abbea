// SPDX-License-Identifier: Apache-2.0
// Adaptive average pooling and upsampling: each spatial dimension reads a small
// number of positions with weights; gradients use the transpose of their matrix.
#include "passes/decompose/ResamplingMatrices.h"

#include <cmath>

using namespace mlir;

namespace sojourn::decompose {
namespace {

/// The number that the caller gave for the scale of a spatial dimension.
StringRef scaleName(const Call &c, int64_t spatial, int64_t i) {
  static constexpr StringLiteral kScales[] = {"scales_d", "scales_h", "scales_w"};
  return c.has("scales") ? StringRef("scales") : StringRef(kScales[3 - spatial + i]);
}

/// Whether position i of `out` certainly takes i / (out / in), whatever scale was given.
bool isRepetition(const Call &c, StringRef name, int64_t out, int64_t in, bool isIndexed) {
  if (in == 0 || out == 0 || out % in != 0 || c.base.contains("exact")) {
    return false;
  }
  if (isIndexed && (out == in || out == 2 * in)) {
    return true;
  }
  constexpr int64_t kExact = int64_t(1) << 24; // positions up to there are floats
  if (c.has(name) || out > kExact) {
    return false;
  }
  const float step = static_cast<float>(in) / static_cast<float>(out);
  for (int64_t i = 0; i < out; ++i) {
    if (static_cast<int64_t>(std::floor(static_cast<float>(i) * step)) != i / (out / in)) {
      return false;
    }
  }
  return true;
}

/// Every element of these dims so many times in a row, or the sums of so many.
Term repeated(Term x, ArrayRef<std::pair<int64_t, int64_t>> times, bool gradient) {
  Shape result(x.shape()), split, whole, spread;
  for (int64_t dim = 0; dim < x.rank(); ++dim) {
    auto found = llvm::find_if(times, [&](auto &entry) { return entry.first == dim; });
    if (found == times.end()) {
      split.push_back(x.dim(dim));
      whole.push_back(x.dim(dim));
      continue;
    }
    const int64_t count = gradient ? x.dim(dim) / found->second : x.dim(dim);
    result[dim] = gradient ? count : count * found->second;
    split.append({count, 1});
    whole.append({count, found->second});
    spread.push_back(static_cast<int64_t>(whole.size()) - 1);
  }
  return reshape(gradient ? sum(reshape(x, whole), spread) : broadcastTo(reshape(x, split), whole), result);
}

/// What is not taken has no part, infinities and NaN included.
Term nearest(Call &c, Term x, int64_t spatial, Dims input, Dims output, bool gradient) {
  constexpr int64_t kSmall = 128;
  const bool isIndexed = gradient || (spatial == 2 && output[output.size() - 2] + output.back() <= kSmall);
  SmallVector<std::pair<int64_t, int64_t>> times;
  for (int64_t i = 0; i < spatial; ++i) {
    const int64_t dim = x.rank() - spatial + i, in = input[input.size() - spatial + i],
                  out = output[output.size() - spatial + i];
    StringRef name = scaleName(c, spatial, i);
    if (isRepetition(c, name, out, in, isIndexed)) {
      times.push_back({dim, out / in});
      continue;
    }
    Term positions = nearestPositions(c, name, out, in, x.element(), isIndexed);
    if (gradient) {
      Shape result(x.shape());
      result[dim] = in;
      Term zeros = broadcastTo(constant(c.emitter, 0, x.element()), result);
      x = put(zeros, positions, x, dim, "add");
    } else {
      x = take(x, positions, dim);
    }
  }
  return repeated(x, times, gradient);
}

/// One spatial dimension after the other.
Results resampled(Call &c, Term x, int64_t spatial, Dims input, Dims output, bool gradient) {
  if (c.base.contains("nearest")) {
    return nearest(c, x, spatial, input, output, gradient);
  }
  for (int64_t i = 0; i < spatial; ++i) {
    int64_t dim = x.rank() - spatial + i;
    int64_t in = input[input.size() - spatial + i];
    int64_t out = output[output.size() - spatial + i];
    // A dimension that keeps its size keeps its values, whatever scale was given.
    bool smooth = c.base.contains("_aa");
    if (in == out && (smooth ? !gradient : c.base.contains("adaptive") || c.base.contains("linear"))) {
      continue;
    }
    StringRef name = scaleName(c, spatial, i);
    Term matrix;
    if (c.base.contains("adaptive")) {
      if (!gradient) {
        x = averaged(x, dim, out);
        continue;
      }
      matrix = averageMatrix(c.emitter, out, in, x.element());
    } else if (smooth) {
      // As wide as the run says, so that it is a product either way.
      matrix = smoothMatrix(c, name, out, in, x.element());
    } else {
      Taps taps = c.base.contains("bicubic") ? cubicTaps(c, name, out, in, x.element())
                                             : linearTaps(c, name, out, in, x.element());
      if (!gradient) {
        x = readTaps(x, taps, dim);
        continue;
      }
      matrix = matrixOf(taps, in);
    }
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
  // Images of bytes are resampled from the last dimension on, to bytes after each.
  int64_t spatial = spatialRank(c.base);
  Term y = convert(x, c.f64());
  for (int64_t i = spatial - 1; i >= 0; --i) {
    int64_t dim = x.rank() - spatial + i;
    if (x.dim(dim) == c.shape()[dim]) {
      continue;
    }
    auto [weights, unit] = byteMatrix(c, scaleName(c, spatial, i), c.shape()[dim], x.dim(dim));
    y = contractDim(y, weights, dim) + unit * 0.5;
    y = min(max(floor(y / unit), 0.0), 255.0);
  }
  return convert(y, x.element());
}

Results upsampleGradient(Call &c) {
  Term g = c.wide("grad_output");
  if (c.base.starts_with("upsample_bicubic2d") && g.shape() == c.shape()) {
    return g; // whatever scales were given: as eager, though its forward goes by them
  }
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
         "upsample_bicubic2d", "upsample_trilinear3d", "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa",
         "_upsample_lanczos2d_aa"},
        upsample);
  t.add({"upsample_nearest1d_backward", "upsample_nearest2d_backward", "upsample_nearest3d_backward",
         "_upsample_nearest_exact1d_backward", "_upsample_nearest_exact2d_backward",
         "_upsample_nearest_exact3d_backward", "upsample_linear1d_backward", "upsample_bilinear2d_backward",
         "upsample_bicubic2d_backward", "upsample_trilinear3d_backward", "_upsample_bilinear2d_aa_backward",
         "_upsample_bicubic2d_aa_backward", "_upsample_lanczos2d_aa_backward"},
        upsampleGradient);
}

} // namespace sojourn::decompose
