// SPDX-License-Identifier: Apache-2.0
// Exact choices of unknown length for the rejection samplers: uniform integers and the coin that shows
// heads with probability exp(-n/d), in integers only (Canonne, Kamath, Steinke 2020, arXiv 2004.00010).
#ifndef SOJOURN_RUNTIME_PRIVACY_COINREADER_H
#define SOJOURN_RUNTIME_PRIVACY_COINREADER_H

#include "runtime/privacy/Coins.h"
#include "runtime/privacy/WideFraction.h"

namespace sojourn::privacy {

/// Reads one value's coins: value i of a stream owns the blocks [i * 2^20, (i + 1) * 2^20), so that values
/// do not depend on each other; i below 2^44.
class CoinReader {
public:
  CoinReader(const Coins &coins, CoinStream stream) : coins(coins), stream(stream) {}
  ~CoinReader();
  CoinReader(const CoinReader &) = delete;
  CoinReader &operator=(const CoinReader &) = delete;

  /// Goes to the first coin of a value.
  void seek(uint64_t value);

  /// Uniform on [0, bound); bound >= 1. Exact, by rejection.
  Uint128 uniform(Uint128 bound);
  bool fair() { return (word() & 1) != 0; }
  /// True with probability exp(-n/d); d >= 1, d below 2^100.
  bool expOfMinus(Uint128 n, Uint128 d);

private:
  uint64_t word();
  /// As expOfMinus, for n <= d.
  bool expOfMinusFraction(Uint128 n, Uint128 d);

  const Coins &coins;
  const CoinStream stream;
  uint64_t block = 0;
  size_t next = kWords;
  static constexpr size_t kWords = 64;
  std::array<uint64_t, kWords> words{};
};

} // namespace sojourn::privacy

#endif // SOJOURN_RUNTIME_PRIVACY_COINREADER_H
