// SPDX-License-Identifier: Apache-2.0
// Random choices that follow from one number, and the same on every machine.
#ifndef SOJOURN_TEST_ATTACK_DICE_H
#define SOJOURN_TEST_ATTACK_DICE_H

#include "llvm/ADT/ArrayRef.h"

#include <cstdint>
#include <random>

namespace sojourn::attack {

/// std::uniform_int_distribution differs between libraries, the generator does not.
class Dice {
public:
  explicit Dice(uint64_t seed) : words(seed * 0x9E3779B97F4A7C15u + 0x1234567u) {}
  uint64_t word() { return words(); }
  /// In [0, limit); 0 where limit is.
  size_t below(size_t limit) { return limit ? static_cast<size_t>(words() % limit) : 0; }
  int64_t between(int64_t least, int64_t most) {
    return least + static_cast<int64_t>(below(static_cast<size_t>(most - least + 1)));
  }
  bool chance(double probability) { return unit() < probability; }
  /// In [0, 1).
  double unit() { return static_cast<double>(words() >> 11) * 0x1p-53; }
  template <class T>
  T of(std::initializer_list<T> values) {
    return values.begin()[below(values.size())];
  }
  template <class T>
  const T &of(llvm::ArrayRef<T> values) {
    return values[below(values.size())];
  }
  /// A place in a list of that size, later ones more often.
  size_t recent(size_t size) { return std::max(below(size), below(size)); }

private:
  std::mt19937_64 words;
};

} // namespace sojourn::attack

#endif // SOJOURN_TEST_ATTACK_DICE_H
