// SPDX-License-Identifier: Apache-2.0
// Resampling matrices, made from index ramps.
#include "passes/decompose/ResamplingMatrices.h"

#include <cmath>
#include <numeric>

using namespace mlir;

namespace sojourn::decompose {
namespace {

Term scalar(Emitter &e, double value) { return constant(e, value, e.builder.getF64Type()); }

/// Column [out, 1] of i64 positions and row [1, in] of them.
std::pair<Term, Term> grid(Emitter &e, int64_t out, int64_t in) {
  return {reshape(counting(e, out), {out, 1}), reshape(counting(e, in), {1, in})};
}

/// Source step per output position: 1 / scale where the caller gave one.
Term sourceStep(Call &c, StringRef name, int64_t out, int64_t in) {
  auto ratio = static_cast<double>(in) / static_cast<double>(out);
  Term given = c.number(name, c.f64());
  return given ? select(given > 0.0, 1.0 / given, ratio) : scalar(c.emitter, ratio);
}

/// The same as a splat, or the distance that keeps the corners where they are.
Term stepOf(Call &c, StringRef name, int64_t out, int64_t in) {
  if (c.boolean("align_corners")) {
    return scalar(c.emitter, out > 1 ? static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0.0);
  }
  return sourceStep(c, name, out, in);
}

/// Weight of what lies at this distance, in pixels of the coarser image; 0 from the radius on.
struct Filter {
  int64_t radius;
  Term (*weight)(Term distance);
};

Term triangle(Term x) { return max(1.0 - abs(x), 0.0); }

Term convolution(Term x, double a) {
  x = abs(x);
  Term inner = ((a + 2) * x - (a + 3)) * x * x + 1.0;
  Term outer = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return select(x < 1.0, inner, select(x < 2.0, outer, 0.0));
}

Term sinc(Term x) {
  Term angle = x * M_PI;
  return select(eq(x, 0.0), 1.0, sin(angle) / angle);
}

Term lanczos(Term x) { return select(abs(x) < 3.0, sinc(x) * sinc(x / 3.0), 0.0); }

/// The cubic's parameter is that of PIL with antialiasing, else that of OpenCV.
Filter filterOf(StringRef base) {
  if (base.contains("lanczos")) {
    return {3, lanczos};
  }
  if (!base.contains("bicubic")) {
    return {1, triangle};
  }
  return base.contains("_aa") ? Filter{2, [](Term x) { return convolution(x, -0.5); }}
                              : Filter{2, [](Term x) { return convolution(x, -0.75); }};
}

} // namespace

namespace {

/// Where the window of each position [out, 1] begins and ends.
std::pair<Term, Term> windows(Emitter &e, int64_t out, int64_t in) {
  Term i = reshape(counting(e, out), {out, 1});
  auto size = static_cast<double>(in), parts = static_cast<double>(out);
  return {floor(i * size / parts), floor(((i + 1.0) * size + (parts - 1)) / parts)};
}

} // namespace

Term averageMatrix(Emitter &e, int64_t out, int64_t in, Type element) {
  auto [start, end] = windows(e, out, in);
  Term j = reshape(counting(e, in), {1, in});
  Term inside = (j >= start) & (j < end);
  return select(inside, broadcastTo(1.0 / convert(end - start, element), inside.shape()), 0.0);
}

Term averaged(Term x, int64_t dim, int64_t out) {
  const int64_t in = x.dim(dim);
  // Windows begin at multiples of gcd / out within an element; the widest at the last of them.
  const int64_t most = out == 0 ? 1 : (in + 2 * out - std::gcd(in, out) - 1) / out;
  Emitter &e = *x.emitter;
  auto [start, end] = windows(e, out, in);
  Term at = start + reshape(counting(e, most), {1, most});
  Shape split(x.shape()), along(split.size() + 1, 1);
  split[dim] = most;
  split.insert(split.begin() + dim, out);
  along[dim] = out;
  Term sizes = squeeze(reshape(convert(end - start, x.element()), along), dim + 1);
  along[dim + 1] = most;
  Term inside = broadcastTo(reshape(at < end, along), split);
  Term values = reshape(take(x, reshape(min(at, static_cast<double>(in - 1)), {out * most}), dim), split);
  return sum(select(inside, values, 0.0), {dim + 1}) / sizes;
}

Term nearestPositions(Call &c, StringRef name, int64_t out, int64_t in, Type element, bool isIndexed) {
  // Of its two rules eager has one per kernel: a step in f32 (unless sides are equal or double), or one in the
  // element's type. Either rounds to f32 before it takes the floor.
  const bool isExact = c.base.contains("exact");
  Type single = c.emitter.builder.getF32Type();
  Term i = counting(c.emitter, out), at;
  if (isIndexed) {
    Term step = convert(sourceStep(c, name, out, in), single);
    at = isExact ? (convert(i, c.f64()) + 0.5) * convert(step, c.f64()) : convert(i, single) * step;
  } else {
    Type wide = element.isF64() ? c.f64() : single;
    Term step = convert(sourceStep(c, name, out, in), wide);
    at = isExact ? (convert(i, wide) + 0.5) * step - 0.5 + 0.5 : convert(i, wide) * step;
  }
  return min(toIndex(floor(convert(at, single))), static_cast<double>(in - 1));
}

Taps linearTaps(Call &c, StringRef name, int64_t out, int64_t in, Type element) {
  Term at = convert(counting(c.emitter, out), element);
  if (c.boolean("align_corners")) {
    at = at * (out > 1 ? static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0.0);
  } else {
    Term step = convert(sourceStep(c, name, out, in), element);
    at = max((at + 0.5) * step - 0.5, 0.0);
  }
  Term low = min(toIndex(at), static_cast<double>(in - 1));
  Term high = min(low + 1.0, static_cast<double>(in - 1));
  Term part = min(max(at - convert(low, element), 0.0), 1.0);
  return {{low, 1.0 - part}, {high, part}};
}

Taps cubicTaps(Call &c, StringRef name, int64_t out, int64_t in, Type element) {
  constexpr double a = -0.75;
  Term at = convert(counting(c.emitter, out), element);
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
  Taps taps;
  for (int64_t tap = 0; tap < 4; ++tap) {
    Term source = toIndex(base) + static_cast<double>(tap - 1);
    taps.push_back({min(max(source, 0.0), static_cast<double>(in - 1)), weights[tap]});
  }
  return taps;
}

Term matrixOf(const Taps &taps, int64_t in) {
  Term matrix;
  for (const auto &[source, weight] : taps) {
    const int64_t out = source.dim(0);
    Term row = reshape(counting(*source.emitter, in), {1, in});
    Term placed = convert(eq(reshape(source, {out, 1}), row), weight.element()) * reshape(weight, {out, 1});
    matrix = matrix ? matrix + placed : placed;
  }
  return matrix;
}

Term readTaps(Term x, const Taps &taps, int64_t dim) {
  Term y;
  for (const auto &[source, weight] : taps) {
    Shape along(x.shape().size(), 1);
    along[dim] = source.dim(0);
    Term part = take(x, source, dim) * reshape(weight, along);
    y = y ? y + part : part;
  }
  return y;
}

Term smoothMatrix(Call &c, StringRef name, int64_t out, int64_t in, Type element) {
  Filter filter = filterOf(c.base);
  auto radius = static_cast<double>(filter.radius);
  auto [i, j] = grid(c.emitter, out, in);
  // Halves of pixels are added in f64, the rest is rounded to the element type, as in ATen: bounds depend on it.
  auto wide = [&](Term x) { return convert(x, c.f64()); };
  Term step = convert(stepOf(c, name, out, in), element);
  Term center = convert((wide(i) + 0.5) * wide(step), element);
  Term support = select(step >= 1.0, step * radius, radius);
  Term narrowing = select(step >= 1.0, 1.0 / step, 1.0);
  Term first = max(toIndex(trunc(wide(center - support) + 0.5)), 0.0);
  Term count = min(toIndex(trunc(wide(center + support) + 0.5)), static_cast<double>(in)) - first;
  count = min(max(count, 0.0), toIndex(ceil(support)) * 2.0 + 1.0);
  Term distance = convert((wide(convert(j, element) - center) + 0.5) * wide(narrowing), element);
  Term weights = select((j >= first) & (j < first + count), filter.weight(distance), 0.0);
  Term total = sum(weights, {1}, true);
  return weights / select(eq(total, 0.0), 1.0, total);
}

namespace {

/// The largest that eager meets while it adds up the taps that fall on one pixel, and their matrix.
std::pair<Term, Term> tapMatrix(Call &c, StringRef name, int64_t out, int64_t in) {
  Filter filter = filterOf(c.base);
  auto [i, j] = grid(c.emitter, out, in);
  Term step = stepOf(c, name, out, in), at = convert(i, c.f64());
  at = c.boolean("align_corners") ? at * step : (at + 0.5) * step - 0.5;
  at = filter.radius == 1 ? max(at, 0.0) : at;
  Term base = min(toIndex(floor(convert(at, c.emitter.builder.getF32Type()))), static_cast<double>(in - 1));
  Term part = min(max(at - convert(base, c.f64()), 0.0), 1.0);
  Term matrix, before, sum, largest;
  for (int64_t tap = 1 - filter.radius; tap <= filter.radius; ++tap) {
    Term pixel = min(max(base + static_cast<double>(tap), 0.0), static_cast<double>(in - 1));
    Term weight = filter.weight(static_cast<double>(tap) - part);
    sum = sum ? weight + select(eq(pixel, before), sum, 0.0) : weight;
    largest = largest ? max(largest, sum) : sum;
    Term placed = convert(eq(pixel, j), c.f64()) * weight;
    matrix = matrix ? matrix + placed : placed;
    before = pixel;
  }
  return {matrix, amax(largest, {0, 1})};
}

} // namespace

ByteMatrix byteMatrix(Call &c, StringRef name, int64_t out, int64_t in) {
  constexpr int64_t kMostBits = 22, kLimit = int64_t(1) << 15;
  Term matrix, largest;
  if (c.base.contains("_aa")) {
    matrix = smoothMatrix(c, name, out, in, c.f64());
    largest = amax(matrix, {0, 1});
  } else {
    std::tie(matrix, largest) = tapMatrix(c, name, out, in);
  }
  Term unit = constant(c.emitter, 1, c.f64());
  for (int64_t bits = 1; bits <= kMostBits; ++bits) {
    auto next = static_cast<double>(int64_t(1) << bits);
    unit = select(floor(largest * next + 0.5) < static_cast<double>(kLimit), constant(c.emitter, next, c.f64()), unit);
  }
  Term scaled = matrix * unit;
  return {select(scaled < 0.0, trunc(scaled - 0.5), trunc(scaled + 0.5)), unit};
}

} // namespace sojourn::decompose
