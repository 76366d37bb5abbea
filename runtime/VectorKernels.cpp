// SPDX-License-Identifier: Apache-2.0
// The arithmetic behind runtime/VectorKernels.h. Compiled once per instruction set with SOJOURN_ISA as
// namespace; nothing of std is instantiated here, so no code of one set leaks into another. Elementwise.def includes
// nothing either.
#include "runtime/VectorChoice.h"
#include "runtime/VectorDivision.h"
#include <stdint.h>

namespace sojourn::runtime::SOJOURN_ISA {

using Fn = void (*)(void *, const void *, const void *, const void *, int64_t);
using MaximaFn = void (*)(void *, int64_t *, const void *, const int64_t *, const int64_t *, int64_t, int64_t);
using TakeFn = void (*)(void *, int64_t *, const void *, int64_t, int64_t, const int64_t *, int64_t, int64_t, int64_t);

namespace {

template <typename T>
struct Unsigned {
  using type = T;
};
template <>
struct Unsigned<int64_t> {
  using type = uint64_t;
};
template <typename T>
using Bits = typename Unsigned<T>::type;

// Integer arithmetic goes through the unsigned type: it wraps instead of being undefined.
struct Add {
  template <typename T>
  static T run(T a, T b) {
    return T(Bits<T>(a) + Bits<T>(b));
  }
};
struct Sub {
  template <typename T>
  static T run(T a, T b) {
    return T(Bits<T>(a) - Bits<T>(b));
  }
};
struct Mul {
  template <typename T>
  static T run(T a, T b) {
    return T(Bits<T>(a) * Bits<T>(b));
  }
};
// A NaN on either side comes out: the first comparison catches that of a, the second leaves that of b.
struct Max {
  template <typename T>
  static T run(T a, T b) {
    return chosen((a != a) | (a > b), a, b);
  }
};
struct Min {
  template <typename T>
  static T run(T a, T b) {
    return chosen((a != a) | (a < b), a, b);
  }
};
struct And {
  template <typename T>
  static T run(T a, T b) {
    return a & b;
  }
};
struct Or {
  template <typename T>
  static T run(T a, T b) {
    return a | b;
  }
};
struct Xor {
  template <typename T>
  static T run(T a, T b) {
    return a ^ b;
  }
};
struct Shl {
  static int64_t run(int64_t a, int64_t b) {
    return chosen(uint64_t(b) > 63, int64_t(0), int64_t(uint64_t(a) << (b & 63)));
  }
};
struct Shr {
  static int64_t run(int64_t a, int64_t b) { return a >> (uint64_t(b) > 63 ? 63 : b); }
};
struct Pow {
  static int64_t run(int64_t a, int64_t b) {
    if (b < 0) {
      return a == 1 ? 1 : a == -1 ? ((b & 1) != 0 ? -1 : 1) : 0;
    }
    uint64_t result = 1;
    for (uint64_t base = uint64_t(a), left = uint64_t(b); left != 0; left >>= 1, base *= base) {
      result = (left & 1) != 0 ? result * base : result;
    }
    return int64_t(result);
  }
};
struct Eq {
  template <typename T>
  static bool run(T a, T b) {
    return a == b;
  }
};
struct Ne {
  template <typename T>
  static bool run(T a, T b) {
    return a != b;
  }
};
struct Lt {
  template <typename T>
  static bool run(T a, T b) {
    return a < b;
  }
};
struct Le {
  template <typename T>
  static bool run(T a, T b) {
    return a <= b;
  }
};
struct Gt {
  template <typename T>
  static bool run(T a, T b) {
    return a > b;
  }
};
struct Ge {
  template <typename T>
  static bool run(T a, T b) {
    return a >= b;
  }
};

struct Neg {
  template <typename T>
  static T run(T a) {
    return T(-Bits<T>(a));
  }
};
struct Abs {
  static float run(float a) { return __builtin_fabsf(a); }
  static double run(double a) { return __builtin_fabs(a); }
  static int64_t run(int64_t a) { return a < 0 ? int64_t(0 - uint64_t(a)) : a; }
};
struct Sign {
  template <typename T>
  static T run(T a) {
    return chosen(a > T(0), T(1), chosen(a < T(0), T(-1), T(0)));
  }
};
struct Floor {
  static float run(float a) { return __builtin_floorf(a); }
  static double run(double a) { return __builtin_floor(a); }
};
struct Ceil {
  static float run(float a) { return __builtin_ceilf(a); }
  static double run(double a) { return __builtin_ceil(a); }
};
struct Round {
  static float run(float a) { return __builtin_rintf(a); }
  static double run(double a) { return __builtin_rint(a); }
};
struct Sqrt {
  static float run(float a) { return __builtin_sqrtf(a); }
  static double run(double a) { return __builtin_sqrt(a); }
};
struct NotInt {
  static int64_t run(int64_t a) { return ~a; }
};
struct NotBool {
  static uint8_t run(uint8_t a) { return a ^ 1; }
};

template <typename Op, typename T>
void unary(void *out, const void *a, const void *, const void *, int64_t n) {
  T *target = static_cast<T *>(out);
  const T *x = static_cast<const T *>(a);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    target[i] = Op::run(x[i]);
  }
}

template <typename Op, typename T, typename R, unsigned splats>
void binary(void *out, const void *a, const void *b, const void *, int64_t n) {
  R *target = static_cast<R *>(out);
  const T *x = static_cast<const T *>(a);
  const T *y = static_cast<const T *>(b);
  const T x0 = (splats & 1) != 0 ? x[0] : T(), y0 = (splats & 2) != 0 ? y[0] : T();
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    target[i] = R(Op::run((splats & 1) != 0 ? x0 : x[i], (splats & 2) != 0 ? y0 : y[i]));
  }
}

struct Wide {
  uint64_t words[2];
};
using runtime::chosen;
Wide chosen(bool isFirst, Wide first, Wide second) {
  return {{runtime::chosen(isFirst, first.words[0], second.words[0]),
           runtime::chosen(isFirst, first.words[1], second.words[1])}};
}

template <typename T, unsigned splats>
void select(void *out, const void *p, const void *a, const void *b, int64_t n) {
  T *target = static_cast<T *>(out);
  const uint8_t *mask = static_cast<const uint8_t *>(p);
  const T *x = static_cast<const T *>(a);
  const T *y = static_cast<const T *>(b);
  if (n == 0) {
    return;
  }
  const uint8_t mask0 = mask[0];
  const T x0 = x[0], y0 = y[0];
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const T left = (splats & 2) != 0 ? x0 : x[i], right = (splats & 4) != 0 ? y0 : y[i];
    target[i] = chosen(((splats & 1) != 0 ? mask0 : mask[i]) != 0, left, right);
  }
}

/// A splat operand becomes a block; anything else is a copy.
template <typename T, unsigned splats>
void copy(void *out, const void *a, const void *, const void *, int64_t n) {
  T *target = static_cast<T *>(out);
  const T *x = static_cast<const T *>(a);
  if (n == 0) {
    return;
  }
  const T x0 = x[0];
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    target[i] = (splats & 1) != 0 ? x0 : x[i];
  }
}

/// An integer as wide as the elements that it is chosen with, if it is small.
template <typename T>
struct Number {
  using type = int64_t;
};
template <>
struct Number<float> {
  using type = int32_t;
};

constexpr int64_t kWindows = 256, kPitch = kWindows + 16, kVector = 16;

/// Element i * stride of x for i < n, vector by vector: some more are read, and written, than asked for.
template <typename T, int64_t stride>
void takeLine(T *taken, const T *x, int64_t n) {
  constexpr int64_t kLanes = 64 / sizeof(T);
  typedef T Vector __attribute__((vector_size(64)));
  for (int64_t begin = 0; begin < n; begin += kLanes) {
    Vector low, high;
    __builtin_memcpy(&low, x + begin * stride, sizeof low);
    if constexpr (stride == 2) {
      __builtin_memcpy(&high, x + begin * stride + kLanes, sizeof high);
      if constexpr (kLanes == 16) {
        low = __builtin_shufflevector(low, high, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
      } else {
        low = __builtin_shufflevector(low, high, 0, 2, 4, 6, 8, 10, 12, 14);
      }
    }
    __builtin_memcpy(taken + begin, &low, sizeof low);
  }
}

template <typename T>
void takeWindows(void *out, int64_t *bases, const void *source, int64_t base, int64_t room, const int64_t *offsets,
                 int64_t taps, int64_t stride, int64_t n) {
  const int64_t most = (n + kVector - 1) / kVector * kVector * stride;
  for (int64_t tap = 0; tap < taps; ++tap) {
    T *taken = static_cast<T *>(out) + tap * kPitch;
    const int64_t offset = offsets[tap]; // time: of the window's elements
    const T *x = static_cast<const T *>(source) + offset;
    if (stride == 1 && offset + most <= room) {
      takeLine<T, 1>(taken, x, n);
    } else if (stride == 2 && offset + most <= room) {
      takeLine<T, 2>(taken, x, n);
    } else {
      for (int64_t i = 0; i < n; ++i) {
        taken[i] = x[i * stride];
      }
    }
  }
  for (int64_t i = 0; i < n; ++i) {
    bases[i] = base + i * stride;
  }
}

/// The offset of the best element is chosen together with it: a table of offsets would be read where values say. `Tap`
/// is as wide as the elements, which vectors ask for.
template <typename T, typename Tap>
void maximaAt(T *out, int64_t *positions, const T *x, const int64_t *bases, const int64_t *offsets, int64_t taps,
              int64_t n) {
  T best[kWindows];
  Tap tapOf[kWindows];
  const int64_t whole = (n + kVector - 1) / kVector * kVector;
  const Tap first = Tap(offsets[0]);
  for (int64_t i = 0; i < whole; ++i) {
    best[i] = x[i];
    tapOf[i] = first;
  }
  for (int64_t tap = 1; tap < taps; ++tap) {
    const Tap offset = Tap(offsets[tap]);
    x += kPitch;
    for (int64_t i = 0; i < whole; ++i) {
      const T value = x[i], was = best[i];
      const bool isBetter = (value > was) | (value != value);
      best[i] = chosen(isBetter, value, was);
      tapOf[i] = chosen(isBetter, offset, tapOf[i]);
    }
  }
  T *__restrict target = out;
  int64_t *__restrict places = positions;
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    target[i] = best[i];
    places[i] = bases[i] + tapOf[i];
  }
}

/// See runtime/VectorKernels.h. Whole vectors are computed, whatever n is.
template <typename T>
void maxima(void *out, int64_t *positions, const void *taken, const int64_t *bases, const int64_t *offsets,
            int64_t taps, int64_t n) {
  // Offsets ascend.
  const bool isNear = offsets[taps - 1] <= INT32_MAX;
  (isNear ? maximaAt<T, typename Number<T>::type> : maximaAt<T, int64_t>)(static_cast<T *>(out), positions,
                                                                          static_cast<const T *>(taken), bases, offsets,
                                                                          taps, n);
}

template <typename Op, typename T, typename R = T>
constexpr Fn pickBinary(unsigned splats) {
  switch (splats & 3) {
  case 0: return binary<Op, T, R, 0>;
  case 1: return binary<Op, T, R, 1>;
  case 2: return binary<Op, T, R, 2>;
  default: return binary<Op, T, R, 3>;
  }
}

template <typename T>
Fn pickSelect(unsigned splats) {
  static constexpr Fn table[8] = {select<T, 0>, select<T, 1>, select<T, 2>, select<T, 3>,
                                  select<T, 4>, select<T, 5>, select<T, 6>, select<T, 7>};
  return table[splats & 7];
}

template <typename T>
Fn pickCopy(unsigned splats) {
  return (splats & 1) != 0 ? copy<T, 1> : copy<T, 0>;
}

} // namespace

// clang-format 14 would run these three definitions together.
// clang-format off
#define SOJOURN_COMPARES(T)                                                                                            \
  case EOp::eq: return pickBinary<Eq, T, uint8_t>(splats);                                                             \
  case EOp::ne: return pickBinary<Ne, T, uint8_t>(splats);                                                             \
  case EOp::lt: return pickBinary<Lt, T, uint8_t>(splats);                                                             \
  case EOp::le: return pickBinary<Le, T, uint8_t>(splats);                                                             \
  case EOp::gt: return pickBinary<Gt, T, uint8_t>(splats);                                                             \
  case EOp::ge: return pickBinary<Ge, T, uint8_t>(splats);
#define SOJOURN_NUMBERS(T)                                                                                             \
  case EOp::neg: return unary<Neg, T>;                                                                                 \
  case EOp::abs: return unary<Abs, T>;                                                                                 \
  case EOp::sign: return unary<Sign, T>;                                                                               \
  case EOp::add: return pickBinary<Add, T>(splats);                                                                    \
  case EOp::sub: return pickBinary<Sub, T>(splats);                                                                    \
  case EOp::mul: return pickBinary<Mul, T>(splats);                                                                    \
  case EOp::div: return pickBinary<Div, T>(splats);                                                                    \
  case EOp::rem: return pickBinary<Rem, T>(splats);                                                                    \
  case EOp::max: return pickBinary<Max, T>(splats);                                                                    \
  case EOp::min: return pickBinary<Min, T>(splats);                                                                    \
  SOJOURN_COMPARES(T)
#define SOJOURN_REALS(T)                                                                                               \
  case EOp::floor: return unary<Floor, T>;                                                                             \
  case EOp::ceil: return unary<Ceil, T>;                                                                               \
  case EOp::round: return unary<Round, T>;                                                                             \
  case EOp::sqrt: return unary<Sqrt, T>;
// clang-format on

/// Elementwise steps, as runtime/VectorKernels.h numbers them.
enum class EOp : int {
#define SOJOURN_ELEMENTWISE(name, op, arity, kernel, library, libm) name,
#include "runtime/Elementwise.def"
};

/// kind: 0 i1, 1 i64, 2 f32, 3 f64. Steps that move bits have loops of their own; null where there is none.
constexpr Fn loopOf(EOp op, int kind, unsigned splats) {
  if (kind == 2) {
    switch (op) {
      SOJOURN_NUMBERS(float)
      SOJOURN_REALS(float)
    default: break;
    }
  } else if (kind == 3) {
    switch (op) {
      SOJOURN_NUMBERS(double)
      SOJOURN_REALS(double)
    default: break;
    }
  } else if (kind == 1) {
    switch (op) {
      SOJOURN_NUMBERS(int64_t)
    case EOp::bitNot: return unary<NotInt, int64_t>;
    case EOp::bitAnd: return pickBinary<And, int64_t>(splats);
    case EOp::bitOr: return pickBinary<Or, int64_t>(splats);
    case EOp::bitXor: return pickBinary<Xor, int64_t>(splats);
    case EOp::shl: return pickBinary<Shl, int64_t>(splats);
    case EOp::shr: return pickBinary<Shr, int64_t>(splats);
    case EOp::pow: return pickBinary<Pow, int64_t>(splats);
    default: break;
    }
  } else if (kind == 0) {
    switch (op) {
      SOJOURN_COMPARES(uint8_t)
    case EOp::bitNot: return unary<NotBool, uint8_t>;
    case EOp::max: return pickBinary<Or, uint8_t>(splats);
    case EOp::min: return pickBinary<And, uint8_t>(splats);
    case EOp::bitAnd: return pickBinary<And, uint8_t>(splats);
    case EOp::bitOr: return pickBinary<Or, uint8_t>(splats);
    case EOp::bitXor: return pickBinary<Xor, uint8_t>(splats);
    default: break;
    }
  }
  return nullptr;
}

enum class EClass { Loop, Move, Library };
constexpr bool hasLoop(EOp op) {
  return loopOf(op, 0, 0) != nullptr || loopOf(op, 1, 0) != nullptr || loopOf(op, 2, 0) != nullptr ||
         loopOf(op, 3, 0) != nullptr;
}
#define SOJOURN_ELEMENTWISE(name, op, arity, kernel, library, libm)                                                    \
  static_assert(EClass::kernel != EClass::Loop || hasLoop(EOp::name),                                                  \
                "runtime/Elementwise.def calls " #name                                                                 \
                " a Loop, and no loop of runtime/VectorKernels.cpp computes it");
#include "runtime/Elementwise.def"

Fn arithmetic(int op, int kind, unsigned splats) { return loopOf(static_cast<EOp>(op), kind, splats); }

MaximaFn maximaOf(int kind) {
  return kind == 1 ? maxima<int64_t> : kind == 2 ? maxima<float> : kind == 3 ? maxima<double> : nullptr;
}

TakeFn takeOf(int kind) {
  return kind == 1 ? takeWindows<int64_t> : kind == 2 ? takeWindows<float> : kind == 3 ? takeWindows<double> : nullptr;
}

Fn selectOf(unsigned width, unsigned splats) {
  switch (width) {
  case 1: return pickSelect<uint8_t>(splats);
  case 2: return pickSelect<uint16_t>(splats);
  case 4: return pickSelect<uint32_t>(splats);
  case 8: return pickSelect<uint64_t>(splats);
  case 16: return pickSelect<Wide>(splats);
  }
  return nullptr;
}

Fn copyOf(unsigned width, unsigned splats) {
  switch (width) {
  case 1: return pickCopy<uint8_t>(splats);
  case 2: return pickCopy<uint16_t>(splats);
  case 4: return pickCopy<uint32_t>(splats);
  case 8: return pickCopy<uint64_t>(splats);
  case 16: return pickCopy<Wide>(splats);
  }
  return nullptr;
}

} // namespace sojourn::runtime::SOJOURN_ISA
