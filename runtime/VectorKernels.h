// SPDX-License-Identifier: Apache-2.0
// Own elementwise loops over contiguous elements, compiled once per instruction set.
#pragma once
#include "runtime/Tensor.h"
#include <cstdint>

namespace sojourn::runtime {

/// Elementwise operations as kernels know them.
enum class EOp : uint8_t {
  // own loops
  neg,
  abs,
  sign,
  floor,
  ceil,
  round,
  bitNot,
  sqrt,
  add,
  sub,
  mul,
  div,
  rem,
  max,
  min,
  bitAnd,
  bitOr,
  bitXor,
  shl,
  shr,
  eq,
  ne,
  lt,
  le,
  gt,
  ge,
  select,
  copy,
  convert,
  // library or libm
  exp,
  expm1,
  log,
  log1p,
  sin,
  cos,
  tanh,
  logistic,
  erf,
  erfc,
  erfinv,
  lgamma,
  digamma,
  pow,
  atan2
};

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
/// become the largest and where it stands; of equals the first, the first NaN before all. taps >= 1.
using MaximaFn = void (*)(void *out, int64_t *positions, const void *taken, const int64_t *bases,
                          const int64_t *offsets, int64_t taps, int64_t n);
/// f32, f64 and i64; null for others.
MaximaFn maximaKernel(Element element);

/// out[row] = the sum of the squares of line `row` of x, [rows, n]. f32 (in blocks that are added in f64) and f64; null
/// for others.
using SquaresFn = void (*)(void *out, const void *x, int64_t rows, int64_t n);
SquaresFn squaresKernel(Element element);

/// Steps of a conversion between real elements: first into `via`, then out of it. A step is null
/// where it is not needed.
struct Conversion {
  VectorFn first, second;
  Element via;
};
Conversion conversion(Element from, Element to);

/// Plain loops over libm for f32 and f64, for few elements. null where there is none.
VectorFn scalarKernel(EOp op, Element element, unsigned splats);

/// Name of the instruction set in use, for reports.
const char *vectorIsa();

} // namespace sojourn::runtime
