// SPDX-License-Identifier: Apache-2.0
// Coins: the very ChaCha20 of the literature, addressed by position, apart by stream, dead after a fork.
#include "runtime/privacy/CoinReader.h"
#include "runtime/privacy/Coins.h"
#include "test/runtime/privacy/Statistics.h"

#include <cstring>
#include <sodium.h>
#include <sys/wait.h>
#include <unistd.h>

namespace sojourn::privacy::test {

namespace {

using Bytes = std::vector<uint8_t>;

/// ChaCha20 as its paper has it (Bernstein 2008), word by word.
Bytes plainBlock(const std::array<uint32_t, 8> &key, uint64_t counter, uint64_t nonce) {
  std::array<uint32_t, 16> start{0x61707865, 0x3320646e, 0x79622d32, 0x6b206574};
  std::copy(key.begin(), key.end(), start.begin() + 4);
  start[12] = static_cast<uint32_t>(counter);
  start[13] = static_cast<uint32_t>(counter >> 32);
  start[14] = static_cast<uint32_t>(nonce);
  start[15] = static_cast<uint32_t>(nonce >> 32);
  auto state = start;
  auto quarter = [&](int a, int b, int c, int d) {
    auto mix = [&](int x, int y, int z, int turn) {
      state[x] += state[y];
      state[z] = std::rotl(state[z] ^ state[x], turn);
    };
    mix(a, b, d, 16);
    mix(c, d, b, 12);
    mix(a, b, d, 8);
    mix(c, d, b, 7);
  };
  for (int round = 0; round < 10; ++round) {
    for (int k = 0; k < 4; ++k) {
      quarter(k, 4 + k, 8 + k, 12 + k);
    }
    for (int k = 0; k < 4; ++k) {
      quarter(k, 4 + (k + 1) % 4, 8 + (k + 2) % 4, 12 + (k + 3) % 4);
    }
  }
  Bytes out;
  for (int k = 0; k < 16; ++k) {
    for (int byte = 0; byte < 4; ++byte) {
      out.push_back(static_cast<uint8_t>((state[k] + start[k]) >> (8 * byte)));
    }
  }
  return out;
}

Bytes blocks(const Coins &coins, CoinStream stream, uint64_t first, size_t bytes) {
  Bytes out(bytes, 0xAA);
  coins.fill(stream, first, out);
  return out;
}

constexpr CoinStream kNoise{CoinUse::noise, 5};

} // namespace

TEST(Coins, KnownAnswer) {
  // Key and nonce zero: test vector 1 of draft-agl-tls-chacha20poly1305-04.
  const Bytes published{0x76, 0xb8, 0xe0, 0xad, 0xa0, 0xf1, 0x3d, 0x90, 0x40, 0x5d, 0x6a, 0xe5, 0x53, 0x86, 0xbd, 0x28,
                        0xbd, 0xd2, 0x19, 0xb8, 0xa0, 0x8d, 0xed, 0x1a, 0xa8, 0x36, 0xef, 0xcc, 0x8b, 0x77, 0x0d, 0xc7};
  EXPECT_EQ(blocks(Coins::forTests(0), {CoinUse::sampling, 0}, 0, published.size()), published);
  Bytes oracle = plainBlock({}, 0, 0);
  oracle.resize(published.size());
  EXPECT_EQ(oracle, published);
}

TEST(Coins, EveryPositionIsTheCiphersBlock) {
  const uint64_t seed = freshSeed();
  const Coins coins = Coins::forTests(seed);
  const std::array<uint32_t, 8> key{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  // Counters that pass 32 bits, and lengths that use the wide and the narrow code.
  for (uint64_t first : {uint64_t{0}, uint64_t{1}, (uint64_t{1} << 32) - 3, (uint64_t{1} << 60) + 7}) {
    for (uint32_t index : {0u, 9u, 0xFFFFFFFFu}) {
      Bytes oracle;
      for (uint64_t k = 0; k < 21; ++k) {
        Bytes block = plainBlock(key, first + k, uint64_t{1} << 32 | index);
        oracle.insert(oracle.end(), block.begin(), block.end());
      }
      oracle.resize(20 * kCoinBlock + 13);
      EXPECT_EQ(blocks(coins, {CoinUse::noise, index}, first, oracle.size()), oracle) << first << " " << index;
    }
  }
}

TEST(Coins, PiecesAreTheWhole) {
  const Coins coins = Coins::forTests(freshSeed());
  const Bytes whole = blocks(coins, kNoise, 100, 50 * kCoinBlock);
  Bytes pieces;
  for (size_t first = 0, size; first < 50; first += size) {
    size = std::min<size_t>(50 - first, 1 + first % 9);
    Bytes piece = blocks(coins, kNoise, 100 + first, size * kCoinBlock);
    pieces.insert(pieces.end(), piece.begin(), piece.end());
  }
  EXPECT_EQ(pieces, whole);
}

TEST(Coins, StreamsAndKeysDiffer) {
  const Coins seeded = Coins::forTests(freshSeed()), other = Coins::forTests(freshSeed() + 1);
  const Coins fresh = Coins::fromSystem(), again = Coins::fromSystem();
  const uint8_t context[] = {1, 2, 3};
  const Coins bound = Coins::fromSystem(context);
  std::vector<Bytes> all;
  for (const Coins *coins : {&seeded, &other, &fresh, &again, &bound}) {
    for (CoinStream stream : {CoinStream{CoinUse::sampling, 0},
                              {CoinUse::sampling, 1},
                              {CoinUse::noise, 0},
                              {CoinUse::noise, 1},
                              {CoinUse::noise, 1u << 31}}) {
      all.push_back(blocks(*coins, stream, 0, 32));
      all.push_back(blocks(*coins, stream, 1, 32));
    }
  }
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end());
}

namespace {

/// While it lives, the system gives everybody the same bytes, as it may in clones of one machine.
class EqualEntropy {
public:
  EqualEntropy() {
    static randombytes_implementation equal{};
    equal.implementation_name = [] { return "equal"; };
    equal.random = [] { return uint32_t{7}; };
    equal.buf = [](void *out, size_t size) { std::memset(out, 7, size); };
    randombytes_set_implementation(&equal);
  }
  ~EqualEntropy() { randombytes_set_implementation(&randombytes_sysrandom_implementation); }
};

} // namespace

TEST(Coins, ClonesOfAMachineWithEqualEntropyPart) {
  ASSERT_GE(sodium_init(), 0);
  EqualEntropy equal;
  uint8_t one[32], other[32];
  randombytes_buf(one, sizeof one);
  randombytes_buf(other, sizeof other);
  ASSERT_EQ(std::memcmp(one, other, sizeof one), 0);
  std::vector<Bytes> all;
  for (int k = 0; k < 100; ++k) {
    all.push_back(blocks(Coins::fromSystem(), kNoise, 0, 32));
  }
  // As a snapshot that is resumed more than once: the same memory, the same entropy.
  for (int clone = 0; clone < 4; ++clone) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      const Bytes first = blocks(Coins::fromSystem(), kNoise, 0, 32);
      _exit(write(ends[1], first.data(), first.size()) == 32 ? 0 : 1);
    }
    Bytes first(32);
    EXPECT_EQ(read(ends[0], first.data(), first.size()), 32);
    close(ends[0]);
    close(ends[1]);
    EXPECT_EQ(waitpid(child, nullptr, 0), child);
    all.push_back(first);
  }
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end());
}

TEST(Coins, BytesAreUniform) {
  const Coins coins = Coins::fromSystem();
  std::vector<int64_t> counts(256);
  for (uint8_t byte : blocks(coins, kNoise, 0, 1 << 20)) {
    ++counts[byte];
  }
  EXPECT_GT(fit(counts, std::vector<double>(256, 1.0 / 256)), kAlarm);
}

TEST(CoinsDeathTest, AChildHasNone) {
  const Coins coins = Coins::forTests(freshSeed());
  Bytes out(64);
  std::fflush(nullptr);
  pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    close(STDERR_FILENO);
    coins.fill(kNoise, 0, out);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT) << "a child drew its parent's coins";
  coins.fill(kNoise, 0, out); // the parent goes on
  // A child makes its own.
  EXPECT_EXIT(
      {
        Coins own = Coins::fromSystem();
        own.fill(kNoise, 0, out);
        _exit(7);
      },
      testing::ExitedWithCode(7), "");
}

TEST(CoinsDeathTest, WhatWasMovedAwayHasNone) {
  Coins coins = Coins::forTests(freshSeed());
  const Bytes before = blocks(coins, kNoise, 3, 64);
  Coins moved = std::move(coins);
  EXPECT_EQ(blocks(moved, kNoise, 3, 64), before);
  Bytes out(64);
  EXPECT_DEATH(coins.fill(kNoise, 0, out), "moved away"); // NOLINT(bugprone-use-after-move)
}

TEST(CoinReader, UniformBelowABound) {
  const Coins coins = Coins::forTests(freshSeed());
  CoinReader reader(coins, kNoise);
  for (uint64_t bound : {2u, 3u, 7u, 64u, 65u}) {
    std::vector<int64_t> counts(bound);
    reader.seek(bound);
    for (int k = 0; k < 100000; ++k) {
      ++counts[static_cast<size_t>(reader.uniform(bound))];
    }
    EXPECT_GT(fit(counts, std::vector<double>(bound, 1.0 / static_cast<double>(bound))), kAlarm) << bound;
  }
  // Beyond 64 bits: thirds of 3 * 2^90, and what lies just below them.
  const Uint128 third = Uint128{1} << 90;
  std::vector<int64_t> thirds(3), low(16);
  for (int k = 0; k < 100000; ++k) {
    Uint128 drawn = reader.uniform(3 * third);
    ++thirds.at(static_cast<size_t>(drawn / third));
    ++low[static_cast<size_t>(drawn >> 60 & 15)];
  }
  EXPECT_GT(fit(thirds, std::vector<double>(3, 1.0 / 3)), kAlarm);
  EXPECT_GT(fit(low, std::vector<double>(16, 1.0 / 16)), kAlarm);
  EXPECT_EQ(reader.uniform(1), 0u);
}

TEST(CoinReader, EveryValueHasItsOwnBlocks) {
  const Coins coins = Coins::forTests(freshSeed());
  CoinReader reader(coins, kNoise);
  for (uint64_t value : {uint64_t{0}, uint64_t{1}, (uint64_t{1} << 44) - 1}) {
    reader.seek(value);
    const Bytes expected = blocks(coins, kNoise, value << 20, 20 * kCoinBlock);
    for (size_t k = 0; k < 160; ++k) {
      uint64_t word = 0;
      for (size_t byte = 8; byte-- > 0;) {
        word = word << 8 | expected[8 * k + byte];
      }
      EXPECT_EQ(static_cast<uint64_t>(reader.uniform(Uint128{1} << 64)), word) << value << " " << k;
    }
  }
}

TEST(CoinReader, ExponentialCoin) {
  const Coins coins = Coins::forTests(freshSeed());
  CoinReader reader(coins, kNoise);
  for (auto [n, d] : {std::pair<uint64_t, uint64_t>{0, 1}, {1, 3}, {1, 1}, {7, 2}, {1000, 999}}) {
    std::vector<int64_t> counts(2);
    for (int k = 0; k < 300000; ++k) {
      ++counts[reader.expOfMinus(n, d)];
    }
    double p = std::exp(-static_cast<double>(n) / static_cast<double>(d));
    EXPECT_GT(n == 0 ? counts[0] == 0 : fit(counts, std::vector<double>{1 - p, p}), kAlarm) << n << "/" << d;
  }
}

} // namespace sojourn::privacy::test
