// SPDX-License-Identifier: Apache-2.0
// Lanes of vectors in another order.
#ifndef SOJOURN_RUNTIME_VECTORSHUFFLE_H
#define SOJOURN_RUNTIME_VECTORSHUFFLE_H

namespace sojourn::runtime {
namespace {

/// The lanes of `a` and of `b` behind them, as `lanes` numbers them. Clang, which builds for sanitizers alone, has no
/// such builtin for lanes in a vector.
template <class Vector, class Lanes>
[[gnu::always_inline]] inline Vector shuffled(Vector a, Vector b, Lanes lanes) {
#if defined(__clang__)
  constexpr int count = sizeof(Lanes) / sizeof(int);
  Vector result;
  for (int lane = 0; lane < count; ++lane) {
    result[lane] = lanes[lane] < count ? a[lanes[lane]] : b[lanes[lane] - count];
  }
  return result;
#else
  return __builtin_shuffle(a, b, lanes);
#endif
}

} // namespace
} // namespace sojourn::runtime

#endif // SOJOURN_RUNTIME_VECTORSHUFFLE_H
