// SPDX-License-Identifier: Apache-2.0
// Fractions of 256 bits in integers: tables of probabilities are computed without floating point, so
// that their error is a count of units and they are the same on every machine. Header only.
#ifndef SOJOURN_RUNTIME_PRIVACY_WIDEFRACTION_H
#define SOJOURN_RUNTIME_PRIVACY_WIDEFRACTION_H

#include <algorithm>
#include <array>
#include <bit>
#include <compare>
#include <cstdint>

namespace sojourn::privacy {

__extension__ typedef unsigned __int128 Uint128;

/// A number in [0, 1) in units of 2^-256. Operations round down; whoever calls proves that results
/// stay below 1.
class WideFraction {
public:
  constexpr WideFraction() = default;

  /// 2^-k, k in [1, 256].
  static constexpr WideFraction powerOfTwo(unsigned k) {
    WideFraction result;
    result.limb[(256 - k) / 64] = uint64_t{1} << (256 - k) % 64;
    return result;
  }
  /// a / b for a < b.
  static constexpr WideFraction ratio(uint64_t a, uint64_t b) {
    std::array<uint64_t, 6> wide{0, 0, 0, 0, a, 0};
    divide(wide, b);
    return low(wide);
  }

  friend constexpr bool operator==(const WideFraction &, const WideFraction &) = default;
  friend constexpr std::strong_ordering operator<=>(const WideFraction &a, const WideFraction &b) {
    for (int k = 3; k > 0; --k) {
      if (a.limb[k] != b.limb[k]) {
        return a.limb[k] <=> b.limb[k];
      }
    }
    return a.limb[0] <=> b.limb[0];
  }
  friend constexpr WideFraction operator+(const WideFraction &a, const WideFraction &b) {
    WideFraction sum;
    Uint128 carry = 0;
    for (int k = 0; k < 4; ++k) {
      carry += Uint128{a.limb[k]} + b.limb[k];
      sum.limb[k] = static_cast<uint64_t>(carry);
      carry >>= 64;
    }
    return sum;
  }
  /// a >= b.
  friend constexpr WideFraction operator-(const WideFraction &a, const WideFraction &b) {
    WideFraction difference;
    uint64_t borrow = 0;
    for (int k = 0; k < 4; ++k) {
      Uint128 part = Uint128{a.limb[k]} - b.limb[k] - borrow;
      difference.limb[k] = static_cast<uint64_t>(part);
      borrow = static_cast<uint64_t>(part >> 64) & 1;
    }
    return difference;
  }
  friend constexpr WideFraction operator*(const WideFraction &a, const WideFraction &b) {
    std::array<uint64_t, 8> product{};
    for (int i = 0; i < 4; ++i) {
      uint64_t carry = 0;
      for (int j = 0; j < 4; ++j) {
        Uint128 part = Uint128{a.limb[i]} * b.limb[j] + product[i + j] + carry;
        product[i + j] = static_cast<uint64_t>(part);
        carry = static_cast<uint64_t>(part >> 64);
      }
      product[i + 4] = carry;
    }
    WideFraction result;
    std::copy_n(product.begin() + 4, 4, result.limb.begin());
    return result;
  }

  /// This times (m1 * m2) / (d1 * d2), rounded down once.
  constexpr WideFraction scaled(uint64_t m1, uint64_t m2, uint64_t d1, uint64_t d2) const {
    std::array<uint64_t, 6> wide{limb[0], limb[1], limb[2], limb[3], 0, 0};
    multiply(wide, m1);
    multiply(wide, m2);
    divide(wide, d1);
    divide(wide, d2);
    return low(wide);
  }
  constexpr WideFraction shiftedLeft(unsigned bits) const {
    WideFraction result;
    for (unsigned k = bits / 64; k < 4; ++k) {
      unsigned from = k - bits / 64;
      result.limb[k] = limb[from] << bits % 64;
      if (bits % 64 != 0 && from > 0) {
        result.limb[k] |= limb[from - 1] >> (64 - bits % 64);
      }
    }
    return result;
  }
  constexpr unsigned leadingZeros() const {
    unsigned zeros = 0;
    for (int k = 3; k >= 0; --k) {
      zeros += static_cast<unsigned>(std::countl_zero(limb[k]));
      if (limb[k] != 0) {
        break;
      }
    }
    return zeros;
  }
  /// The first 128 bits after the point.
  constexpr Uint128 top() const { return Uint128{limb[3]} << 64 | limb[2]; }

private:
  static constexpr void multiply(std::array<uint64_t, 6> &wide, uint64_t factor) {
    Uint128 carry = 0;
    for (uint64_t &word : wide) {
      carry += Uint128{word} * factor;
      word = static_cast<uint64_t>(carry);
      carry >>= 64;
    }
  }
  static constexpr void divide(std::array<uint64_t, 6> &wide, uint64_t divisor) {
    Uint128 rest = 0;
    for (size_t k = wide.size(); k-- > 0;) {
      Uint128 part = rest << 64 | wide[k];
      wide[k] = static_cast<uint64_t>(part / divisor);
      rest = part % divisor;
    }
  }
  static constexpr WideFraction low(const std::array<uint64_t, 6> &wide) {
    WideFraction result;
    std::copy_n(wide.begin(), 4, result.limb.begin());
    return result;
  }

  /// Least first.
  std::array<uint64_t, 4> limb{};
};

/// Divides weights by their sum.
class Shares {
public:
  /// `whole` > 0.
  explicit constexpr Shares(const WideFraction &whole) : shift(whole.leadingZeros()) {
    // 1 / (2 * whole') for whole' = whole * 2^shift in [1/2, 1), bit by bit.
    WideFraction divisor = whole.shiftedLeft(shift), rest = WideFraction::powerOfTwo(1);
    for (unsigned bit = 1; bit <= 256; ++bit) {
      bool carry = rest.leadingZeros() == 0;
      rest = rest.shiftedLeft(1);
      if (carry || rest >= divisor) {
        rest = rest - divisor;
        halfInverse = halfInverse + WideFraction::powerOfTwo(bit);
      }
    }
  }
  /// part / whole in units of 2^-128, for part < whole: below the truth by less than 1 + 2^-120 units.
  constexpr Uint128 of(const WideFraction &part) const {
    return (part.shiftedLeft(shift) * halfInverse).shiftedLeft(1).top();
  }

private:
  unsigned shift;
  WideFraction halfInverse;
};

} // namespace sojourn::privacy

#endif // SOJOURN_RUNTIME_PRIVACY_WIDEFRACTION_H
