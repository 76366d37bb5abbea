// SPDX-License-Identifier: Apache-2.0
// Own elementwise loops over contiguous elements, compiled once per instruction set.
#ifndef SOJOURN_RUNTIME_VECTORKERNELS_H
#define SOJOURN_RUNTIME_VECTORKERNELS_H
#include "runtime/FrameShape.h"
#include "runtime/PoolShape.h"
#include "runtime/Tensor.h"
#include <cstdint>

namespace sojourn::runtime {

/// Elementwise operations as kernels know them (runtime/Elementwise.def).
enum class EOp : uint8_t {
#define SOJOURN_ELEMENTWISE(name, op, arity, kernel, library, libm) name,
#include "runtime/Elementwise.def"
};

/// Where lines of f32 and f64 are computed: own loops, those that move bits alone, or the library (but for what
/// VectorMath.cpp has of f32).
enum class EClass : uint8_t { Loop, Move, Library };

constexpr EClass classOf(EOp op) {
  constexpr EClass classes[] = {
#define SOJOURN_ELEMENTWISE(name, op, arity, kernel, library, libm) EClass::kernel,
#include "runtime/Elementwise.def"
  };
  return classes[static_cast<unsigned>(op)];
}

/// Number of operands.
constexpr unsigned arityOf(EOp op) {
  constexpr unsigned arities[] = {
#define SOJOURN_ELEMENTWISE(name, op, arity, kernel, library, libm) arity,
#include "runtime/Elementwise.def"
  };
  return arities[static_cast<unsigned>(op)];
}

/// Computes n elements. Operands are contiguous or splats, as the kernel was chosen for; `out` may
/// be the same memory as an operand of equal width.
using VectorFn = void (*)(void *out, const void *a, const void *b, const void *c, int64_t n);

/// The type in which an element computes: f16, bf16 -> f32; small integers -> i64; others themselves.
Element hubOf(Element element);

/// A loop over `element` (a hub, or i1), bit k of `splats` set where operand k is one element.
/// null where there is none. select moves bits, so any element will do; compare gives i1.
VectorFn vectorKernel(EOp op, Element element, unsigned splats);

/// Windows whose maxima are taken together, and the distance of two taps of one window in memory.
inline constexpr int64_t kWindowsAtOnce = 256, kTapPitch = kWindowsAtOnce + 16;
/// taken[k * kTapPitch + i] = source[offsets[k] + i * stride] and bases[i] = base + i * stride, for n <= kWindowsAtOnce
/// windows i of `taps` elements k; up to 15 elements after those taken may be written. `room`: elements of source that
/// may be read.
using TakeFn = void (*)(void *taken, int64_t *bases, const void *source, int64_t base, int64_t room,
                        const int64_t *offsets, int64_t taps, int64_t stride, int64_t n);
TakeFn takeKernel(Element element);
/// Maxima of n windows that were taken: element k of window i stands at bases[i] + offsets[k]. out[i] and positions[i]
/// become the largest and where it stands; of equals the first, the last NaN before all. taps >= 1.
using MaximaFn = void (*)(void *out, int64_t *positions, const void *taken, const int64_t *bases,
                          const int64_t *offsets, int64_t taps, int64_t n);
/// f32, f64 and i64; null for others.
MaximaFn maximaKernel(Element element);

/// Lanes whose extremes are looked for side by side: lane l has the elements x[k * pitch + l * lanePitch].
inline constexpr int64_t kPlaceLanes = 16;
/// Takes elements k of [from, past), at most 2^20, into what was found before: best[l] and its places[l]. The first NaN
/// stays, else the first of equals. Every element costs the same, whatever was found.
using PlacesFn = void (*)(void *best, int64_t *places, const void *x, int64_t lanePitch, int64_t pitch, int64_t from,
                          int64_t past);
/// f32, f64 and i64; null for others.
PlacesFn placesKernel(bool largest, Element element);

/// How the elements of a row become one number; `squares` is the sum of theirs.
enum class RowOp : uint8_t { sum, squares, largest, smallest };
/// out[row] from row `row` of x, [rows, n], n > 0: a sum in an order that n alone decides, blocks of it in f64.
using RowsFn = void (*)(void *out, const void *x, int64_t rows, int64_t n);
/// f32 and f64; null for others.
RowsFn reduceRowsKernel(RowOp op, Element element);
/// The way back: out[row, i] = x[row]. null for the widest elements.
RowsFn spreadRowsKernel(Element element);

/// out[i] = the sum of window i, row by row, for a line of n windows that lie inside along it: their element (row,
/// column) stands at x[row * pitch + i * stride + column]. `room`: elements of x that may be read. For f32 and a stride
/// of 1 or 2; null else.
using SumLineFn = void (*)(float *out, const float *x, int64_t pitch, int64_t rows, int64_t columns, int64_t n,
                           int64_t room);
SumLineFn sumLineKernel(Element element, int64_t stride);
/// A line of n windows of maximum pooling that lie inside along it, as above. out[i] and codes[i] become the largest
/// and `code` + row * columns + column; of equals the first, the last NaN before all.
using MaxLineFn = void (*)(float *out, int32_t *codes, const float *x, int64_t pitch, int64_t rows, int64_t columns,
                           int64_t code, int64_t n, int64_t room);
/// Rows [first, past) of its gradient, in planes one after the other: each element is the sum, in order, of the
/// gradients of those windows that it was the largest of.
using MaxGradientFn = void (*)(float *target, const float *gradient, const int32_t *codes, const PoolShape &shape,
                               int64_t first, int64_t past);
/// Both for f32 and a stride of 1 or 2, of rows as of columns; null else.
struct MaxLineKernels {
  MaxLineFn forward;
  MaxGradientFn gradient;
};
MaxLineKernels maxLineKernels(Element element, int64_t stride);

/// Columns of a strip: how the right side b of a product, [inner, columns], is laid out for it. Element (k, j) stands
/// at (j / kStrip * inner + k) * kStrip + j % kStrip; columns past the last one are zeros.
inline constexpr int64_t kStrip = 32;
/// Lays `columns` columns out, from the first of a strip on; pitches count elements.
using PackFn = void (*)(float *packed, const float *b, int64_t innerPitch, int64_t columnPitch, int64_t inner,
                        int64_t columns);
/// out[rows, columns] = a b (+ addend, which lies as out does and may be it, or null), from the first column of a strip
/// on. Each element's sum has an order that `inner` alone
/// decides, so however rows and columns are cut, bits are equal.
using ProductFn = void (*)(float *out, int64_t outPitch, const float *a, int64_t rowPitch, int64_t innerPitch,
                           const float *packed, int64_t inner, int64_t rows, int64_t columns, const float *addend);
/// Inner sizes up to this one are one sum: what is added to it is added last.
inline constexpr int64_t kProductDepth = 512;
/// Both for f32, where the instruction set multiplies and adds in one rounding; null else.
struct ProductKernels {
  PackFn pack;
  ProductFn product;
};
ProductKernels productKernels(Element element);

/// Cuts `rows` rows of each part of a frame out of an image [channel, row, column], from window row `band` on.
using FrameFn = void (*)(float *frame, const float *image, const FrameShape &shape, int64_t band, int64_t rows);
/// The transpose of x [lines, elements].
using TurnFn = void (*)(float *out, int64_t outPitch, const float *x, int64_t pitch, int64_t lines, int64_t elements);
/// out[window, channel] = (or +=) the sum over `taps` taps, from grid.offsets on, of the frame's element and the weight
/// [tap, channel], which lie in strips as a product's right side does. grid.outPitch is a multiple of kStrip.
using WindowsFn = void (*)(float *out, const float *frame, const WindowGrid &grid, const float *weights, int64_t taps,
                           int64_t channels, bool adds);
/// out[channel, tap, c] = (or +=) the sum over windows of gradient[channel, window] and the frame's element of channel
/// c, whose channels lie side by side, `step` of them (a multiple of 16) in an element.
using TapsFn = void (*)(float *out, const float *gradient, int64_t gradientPitch, const float *turned,
                        const WindowGrid &grid, int64_t step, int64_t channels, bool adds);
/// For f32 where products are: null else.
struct FrameKernels {
  FrameFn frame;
  TurnFn turn;
  WindowsFn windows;
  TapsFn taps;
};
FrameKernels frameKernels(Element element);

/// Steps of a conversion between real elements: first into `via`, then out of it. A step is null
/// where it is not needed.
struct Conversion {
  VectorFn first, second;
  Element via;
};
Conversion conversion(Element from, Element to);

/// Plain loops over libm for f32 and f64, for few elements. null where there is none.
VectorFn scalarKernel(EOp op, Element element, unsigned splats);

} // namespace sojourn::runtime

#endif // SOJOURN_RUNTIME_VECTORKERNELS_H
