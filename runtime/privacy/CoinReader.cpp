// SPDX-License-Identifier: Apache-2.0
// The exact choices.
#include "runtime/privacy/CoinReader.h"

#include <bit>
#include <sodium.h>

namespace sojourn::privacy {

static_assert(std::endian::native == std::endian::little, "words of coins are read in place");

CoinReader::~CoinReader() { sodium_memzero(words.data(), sizeof words); }

void CoinReader::seek(uint64_t value) {
  block = value << 20;
  next = kWords;
}

uint64_t CoinReader::word() {
  if (next == kWords) {
    coins.fill(stream, block, {reinterpret_cast<uint8_t *>(words.data()), sizeof words});
    block += sizeof words / kCoinBlock;
    next = 0;
  }
  return words[next++];
}

Uint128 CoinReader::uniform(Uint128 bound) {
  const Uint128 last = bound - 1;
  const auto high = static_cast<uint64_t>(last >> 64), low = static_cast<uint64_t>(last);
  const uint64_t ones = ~uint64_t{0};
  // The smallest mask of ones that covers `last`, in two halves.
  const uint64_t highMask = high == 0 ? 0 : ones >> std::countl_zero(high);
  const uint64_t lowMask = high != 0 ? ones : low == 0 ? 0 : ones >> std::countl_zero(low);
  while (last != 0) {
    Uint128 drawn = word() & lowMask;
    if (high != 0) {
      drawn |= Uint128{word() & highMask} << 64;
    }
    if (drawn <= last) {
      return drawn;
    }
  }
  return 0;
}

bool CoinReader::expOfMinusFraction(Uint128 n, Uint128 d) {
  // Heads of probability (n/d)/k for k = 1, 2, ... until the first tails, whose number is odd with
  // probability 1 - y + y^2/2 - ... = exp(-y). k passes 2^28 with probability below 1/(2^28)!.
  uint64_t k = 1;
  while (uniform(d * k) < n) {
    ++k;
  }
  return k % 2 == 1;
}

bool CoinReader::expOfMinus(Uint128 n, Uint128 d) {
  for (; n > d; n -= d) {
    if (!expOfMinusFraction(1, 1)) {
      return false;
    }
  }
  return expOfMinusFraction(n, d);
}

} // namespace sojourn::privacy
