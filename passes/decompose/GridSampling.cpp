// SPDX-License-Identifier: Apache-2.0
// grid_sampler: reading an image at run-time coordinates, and its gradient. What lies outside reads 0, since an index
// of -1 does.
#include "passes/decompose/Call.h"

using namespace mlir;

namespace sojourn::decompose {
namespace {

enum Padding : int64_t { kZeros = 0, kBorder = 1, kReflection = 2 };
enum Mode : int64_t { kBilinear = 0, kNearest = 1 };

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

Coordinate position(Call &c, Term grid, int64_t size) {
  bool align = c.boolean("align_corners");
  auto last = static_cast<double>(size - 1);
  double scale = align ? last / 2 : static_cast<double>(size) / 2;
  Term at = (grid + 1.0) * scale;
  at = align ? at : at - 0.5;
  Coordinate p = {at, full(c.emitter, grid.shape(), scale, grid.element())};
  int64_t padding = c.integer("padding_mode");
  if (padding == kReflection) {
    p = align ? reflected(p, 0, 2 * last) : reflected(p, -1, 2 * static_cast<double>(size) - 1);
  }
  return padding == kZeros ? p : clipped(p, last);
}

struct Sampler {
  Term image; // [N, C, H * W]
  int64_t height, width, points;
  Coordinate x, y; // [N, points]

  Term at(Term row, Term column) const {
    auto h = static_cast<double>(height), w = static_cast<double>(width);
    Term inside = (row >= 0.0) & (row < h) & (column >= 0.0) & (column < w);
    Term flat = select(inside, row * w + column, -1.0);
    return broadcastTo(unsqueeze(flat, 1), {image.dim(0), image.dim(1), points});
  }
};

Sampler sampler(Call &c) {
  Term image = c.wide("input"), grid = convert(c.in("grid"), image.element());
  int64_t n = image.dim(0), points = grid.dim(1) * grid.dim(2);
  Sampler s;
  s.height = image.dim(2);
  s.width = image.dim(3);
  s.points = points;
  s.image = reshape(image, {n, image.dim(1), s.height * s.width});
  auto coordinate = [&](int64_t i, int64_t size) {
    return position(c, reshape(sliceDim(grid, 3, i, i + 1), {n, points}), size);
  };
  s.x = coordinate(0, s.width);
  s.y = coordinate(1, s.height);
  return s;
}

/// One of the four neighbours: where it is, its weight, the slopes of the weight.
struct Corner {
  Term index, weight, slopeX, slopeY;
};

SmallVector<Corner, 4> corners(const Sampler &s) {
  Term left = floor(s.x.at), top = floor(s.y.at);
  Term tx = s.x.at - left, ty = s.y.at - top;
  SmallVector<Corner, 4> result;
  for (bool down : {false, true}) {
    for (bool right : {false, true}) {
      Term wx = right ? tx : 1.0 - tx, wy = down ? ty : 1.0 - ty;
      Term row = toIndex(down ? top + 1.0 : top), column = toIndex(right ? left + 1.0 : left);
      result.push_back({s.at(row, column), wx * wy, right ? wy : -wy, down ? wx : -wx});
    }
  }
  return result;
}

Term nearest(const Sampler &s) { return s.at(toIndex(round(s.y.at)), toIndex(round(s.x.at))); }

Results gridSample(Call &c) {
  Sampler s = sampler(c);
  int64_t mode = c.integer("interpolation_mode");
  if (mode == kNearest) {
    return reshape(takeAlong(s.image, nearest(s), 2), c.shape());
  }
  if (mode != kBilinear) {
    return c.fail("samples bicubically; use bilinear or nearest");
  }
  Term total;
  for (const Corner &corner : corners(s)) {
    Term part = takeAlong(s.image, corner.index, 2) * unsqueeze(corner.weight, 1);
    total = total ? total + part : part;
  }
  return reshape(total, c.shape());
}

Results gridSampleGradient(Call &c) {
  Sampler s = sampler(c);
  int64_t mode = c.integer("interpolation_mode");
  Term output = c.wide("grad_output");
  Term g = reshape(output, {s.image.dim(0), s.image.dim(1), s.points});
  Term image = full(c.emitter, s.image.shape(), 0, g.element());
  if (mode == kNearest) {
    image = putAlong(image, nearest(s), g, 2, "add");
    return {c.wants(0) ? reshape(image, c.shape()) : Term(), full(c.emitter, c.shape(1), 0, g.element())};
  }
  if (mode != kBilinear) {
    return c.fail("samples bicubically; use bilinear or nearest");
  }
  Term gx, gy;
  for (const Corner &corner : corners(s)) {
    image = putAlong(image, corner.index, g * unsqueeze(corner.weight, 1), 2, "add");
    Term along = sum(g * takeAlong(s.image, corner.index, 2), {1});
    Term partX = along * corner.slopeX, partY = along * corner.slopeY;
    gx = gx ? gx + partX : partX;
    gy = gy ? gy + partY : partY;
  }
  gx = unsqueeze(gx * s.x.slope, 2);
  gy = unsqueeze(gy * s.y.slope, 2);
  return {c.wants(0) ? reshape(image, c.shape()) : Term(), reshape(concat({gx, gy}, 2), c.shape(1))};
}

} // namespace

void addGridSampling(Table &t) {
  t.add({"grid_sampler_2d"}, gridSample);
  t.add({"grid_sampler_2d_backward"}, gridSampleGradient);
}

} // namespace sojourn::decompose
