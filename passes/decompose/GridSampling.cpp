// SPDX-License-Identifier: Apache-2.0
// grid_sampler: reading an image or a volume at run-time coordinates, and its gradient. What lies outside reads 0,
// since an index of -1 does.
#include "passes/decompose/Call.h"

using namespace mlir;

namespace sojourn::decompose {
namespace {

enum Padding : int64_t { kZeros = 0, kBorder = 1, kReflection = 2 };
enum Mode : int64_t { kBilinear = 0, kNearest = 1, kBicubic = 2 };

/// A position along one dimension in pixels, and its slope in the grid's coordinate.
struct Coordinate {
  Term at, slope;
};

Coordinate clipped(Coordinate p, double last) {
  Term inside = (p.at > 0.0) & (p.at < last);
  return {min(max(p.at, 0.0), last), select(inside, p.slope, 0.0)};
}

/// Mirrored at low / 2 and high / 2 as often as it takes.
Coordinate reflected(Coordinate p, double low, double high) {
  if (low == high) {
    return {p.at * 0.0, p.slope * 0.0};
  }
  double start = low / 2, span = (high - low) / 2;
  Term from = p.at - start;
  Term distance = abs(from);
  Term extra = rem(distance, span);
  Term flips = floor(distance / span);
  Term odd = ne(rem(flips, 2.0), 0.0);
  Term at = select(odd, (span + start) - extra, extra + start);
  Term turned = odd ^ (from < 0.0);
  return {at, select(turned, -p.slope, p.slope)};
}

/// Moved into the image of `size` pixels, as the padding mode says; zeros stay where they are.
Coordinate padded(Call &c, Coordinate p, int64_t size) {
  auto last = static_cast<double>(size - 1);
  int64_t padding = c.integer("padding_mode");
  if (padding == kReflection) {
    p = c.boolean("align_corners") ? reflected(p, 0, 2 * last) : reflected(p, -1, 2 * last + 1);
  }
  return padding == kZeros ? p : clipped(p, last);
}

/// Where the grid points to in an image of `size` pixels.
Coordinate position(Call &c, Term grid, int64_t size) {
  bool align = c.boolean("align_corners");
  double scale = static_cast<double>(align ? size - 1 : size) / 2;
  Term at = (grid + 1.0) * scale;
  return {align ? at : at - 0.5, full(c.emitter, grid.shape(), scale, grid.element())};
}

/// What a point takes along one dimension: a pixel, its weight, and the weight's slope in the grid's coordinate.
struct Tap {
  Term at, weight, slope;
};

SmallVector<Tap, 4> linearTaps(Coordinate p) {
  Term low = floor(p.at), part = p.at - low;
  return {{toIndex(low), 1.0 - part, -p.slope}, {toIndex(low + 1.0), part, p.slope}};
}

/// Each of the four pixels is padded by itself, so that the slope is that of the unpadded position.
SmallVector<Tap, 4> cubicTaps(Call &c, Coordinate p, int64_t size) {
  constexpr double a = -0.75;
  auto inner = [](Term x) { return ((a + 2) * x - (a + 3)) * x * x + 1.0; };
  auto outer = [](Term x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };
  auto innerSlope = [](Term x) { return (3 * (a + 2) * x - 2 * (a + 3)) * x; };
  auto outerSlope = [](Term x) { return (3 * a * x - 10 * a) * x + 8 * a; };
  Term low = floor(p.at), t = p.at - low;
  Term weights[] = {outer(t + 1.0), inner(t), inner(1.0 - t), outer(2.0 - t)};
  Term slopes[] = {outerSlope(t + 1.0), innerSlope(t), -innerSlope(1.0 - t), -outerSlope(2.0 - t)};
  SmallVector<Tap, 4> taps;
  for (int64_t i = 0; i < 4; ++i) {
    Term at = padded(c, {low + static_cast<double>(i - 1), p.slope}, size).at;
    taps.push_back({toIndex(at), weights[i], slopes[i] * p.slope});
  }
  return taps;
}

struct Sampler {
  Term image; // [N, C, pixels]
  Shape sizes;
  int64_t points;
  /// Per dimension of the image, each [N, points].
  SmallVector<SmallVector<Tap, 4>, 3> taps;

  /// The flat position of a pixel for all channels; -1 outside.
  Term flat(ArrayRef<Term> at) const {
    Term inside, flat;
    for (size_t i = 0; i < sizes.size(); ++i) {
      auto size = static_cast<double>(sizes[i]);
      Term within = (at[i] >= 0.0) & (at[i] < size);
      inside = inside ? inside & within : within;
      flat = flat ? flat * size + at[i] : at[i];
    }
    flat = select(inside, flat, -1.0);
    return broadcastTo(unsqueeze(flat, 1), {image.dim(0), image.dim(1), points});
  }
};

/// Points name their coordinates from the innermost dimension out.
Sampler sampler(Call &c) {
  Term image = c.wide("input"), grid = convert(c.in("grid"), image.element());
  int64_t mode = c.integer("interpolation_mode");
  Sampler s;
  s.sizes = Shape(Dims(image.shape()).drop_front(2));
  auto rank = static_cast<int64_t>(s.sizes.size());
  s.points = product(Dims(grid.shape()).drop_front().drop_back());
  s.image = reshape(image, {image.dim(0), image.dim(1), product(s.sizes)});
  for (int64_t i = 0; i < rank; ++i) {
    Term along = reshape(sliceDim(grid, rank + 1, rank - 1 - i, rank - i), {image.dim(0), s.points});
    Coordinate p = position(c, along, s.sizes[i]);
    if (mode == kBicubic) {
      s.taps.push_back(cubicTaps(c, p, s.sizes[i]));
      continue;
    }
    p = padded(c, p, s.sizes[i]);
    s.taps.push_back(mode == kBilinear ? linearTaps(p) : SmallVector<Tap, 4>{{toIndex(round(p.at)), {}, {}}});
  }
  return s;
}

/// A pixel that a point takes: where it is, its weight, and the weight's slope per dimension. The nearest has neither.
struct Pixel {
  Term index, weight;
  SmallVector<Term, 3> slopes;
};

SmallVector<Pixel, 16> pixels(const Sampler &s) {
  size_t rank = s.taps.size(), count = 1;
  for (ArrayRef<Tap> taps : s.taps) {
    count *= taps.size();
  }
  SmallVector<Pixel, 16> result;
  for (size_t number = 0; number < count; ++number) {
    SmallVector<Tap, 3> taps(rank);
    size_t rest = number;
    for (size_t i = rank; i-- > 0; rest /= s.taps[i].size()) {
      taps[i] = s.taps[i][rest % s.taps[i].size()];
    }
    Pixel pixel;
    SmallVector<Term, 3> at;
    for (size_t i = 0; i < rank; ++i) {
      at.push_back(taps[i].at);
      Term slope = taps[i].slope;
      for (size_t other = rank; slope && other-- > 0;) {
        slope = other == i ? slope : slope * taps[other].weight;
      }
      pixel.slopes.push_back(slope);
    }
    for (size_t i = rank; taps[0].weight && i-- > 0;) {
      pixel.weight = pixel.weight ? pixel.weight * taps[i].weight : taps[i].weight;
    }
    pixel.index = s.flat(at);
    result.push_back(std::move(pixel));
  }
  return result;
}

Results gridSample(Call &c) {
  if (product(c.shape()) == 0) {
    return full(c.emitter, c.shape(), 0, c.element());
  }
  Sampler s = sampler(c);
  Term total;
  for (const Pixel &pixel : pixels(s)) {
    Term part = takeAlong(s.image, pixel.index, 2);
    part = pixel.weight ? part * unsqueeze(pixel.weight, 1) : part;
    total = total ? total + part : part;
  }
  return reshape(total, c.shape());
}

Results gridSampleGradient(Call &c) {
  Term output = c.wide("grad_output");
  Term noGrid = full(c.emitter, c.shape(1), 0, output.element());
  if (output.numel() == 0) {
    return {c.wants(0) ? full(c.emitter, c.shape(), 0, output.element()) : Term(), noGrid};
  }
  Sampler s = sampler(c);
  Term g = reshape(output, {s.image.dim(0), s.image.dim(1), s.points});
  Term image = full(c.emitter, s.image.shape(), 0, g.element());
  SmallVector<Term, 3> slopes(s.sizes.size());
  for (const Pixel &pixel : pixels(s)) {
    if (c.wants(0)) {
      image = putAlong(image, pixel.index, pixel.weight ? g * unsqueeze(pixel.weight, 1) : g, 2, "add");
    }
    if (!pixel.weight) {
      continue;
    }
    Term along = sum(g * takeAlong(s.image, pixel.index, 2), {1});
    for (size_t i = 0; i < slopes.size(); ++i) {
      Term part = along * pixel.slopes[i];
      slopes[i] = slopes[i] ? slopes[i] + part : part;
    }
  }
  Term grid = noGrid;
  if (slopes.front()) {
    SmallVector<Term, 3> parts;
    for (size_t i = slopes.size(); i-- > 0;) {
      parts.push_back(unsqueeze(slopes[i], 2));
    }
    grid = reshape(concat(parts, 2), c.shape(1));
  }
  return {c.wants(0) ? reshape(image, c.shape()) : Term(), grid};
}

} // namespace

void addGridSampling(Table &t) {
  t.add({"grid_sampler_2d", "grid_sampler_3d"}, gridSample);
  t.add({"grid_sampler_2d_backward", "grid_sampler_3d_backward"}, gridSampleGradient);
}

} // namespace sojourn::decompose
