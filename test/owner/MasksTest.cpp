// SPDX-License-Identifier: Apache-2.0
// Masks cancel in the sum of all members and nowhere else, and each word is uniform.
#include "owner/peers/Masks.h"
#include "runtime/Buffer.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <random>

namespace sojourn::owner::test {

using runtime::Exchange;

namespace {

using Words = std::vector<uint64_t>;

/// Members of one session of a group, each with a key pair of its own.
class Members {
public:
  explicit Members(unsigned count) : pairs(count), keys(count) {
    for (unsigned own = 0; own < count; ++own) {
      for (unsigned role = 0; role < count; ++role) {
        if (role != own) {
          keys[own][role] = *pairs[own].sharedWith(pairs[role].publicKey(), own < role);
        }
      }
    }
  }

  /// The frame of a member under masks; `words` of its terms, one after another.
  Words masked(unsigned role, const Exchange &exchange, const Words &words, const StepPoint &point = {1, 0, 0},
               uint32_t number = 0, const MessageDigest &digest = {}) const {
    const runtime::FramePlaces places = placesOfTerms(exchange, role);
    std::vector<std::byte> frame(places.bytes);
    size_t next = 0;
    for (size_t at = 0; at < exchange.size(); ++at) {
      if (exchange[at].isOf(role)) {
        std::memcpy(frame.data() + places.offsets[at], words.data() + next, 8 * exchange[at].elements);
        next += exchange[at].elements;
      }
    }
    EXPECT_TRUE(addMasks(keys[role], role, point, number, digest, exchange, stop, frame.data()));
    Words found;
    for (size_t at = 0; at < exchange.size(); ++at) {
      for (uint64_t k = 0; exchange[at].isOf(role) && k < exchange[at].elements; ++k) {
        uint64_t word = 0;
        std::memcpy(&word, frame.data() + places.offsets[at] + 8 * k, 8);
        found.push_back(word);
      }
    }
    return found;
  }

  const runtime::StopFlag stop{false};
  std::vector<MaskKeyPair> pairs;
  std::vector<MaskKeys> keys;
};

Exchange exchangeOf(uint64_t elements, uint32_t from = 7, bool isMasked = true) {
  return {{.element = Element::i64, .elements = elements, .from = from, .isMasked = isMasked}};
}

Words randomWords(std::mt19937_64 &dice, size_t count) {
  Words words(count);
  for (uint64_t &word : words) {
    word = dice();
  }
  return words;
}

Words sumOf(const std::vector<Words> &all) {
  Words sum(all[0].size());
  for (const Words &each : all) {
    for (size_t at = 0; at < sum.size(); ++at) {
      sum[at] += each[at];
    }
  }
  return sum;
}

size_t equalWords(const Words &a, const Words &b) {
  size_t equal = 0;
  for (size_t at = 0; at < a.size(); ++at) {
    equal += a[at] == b[at];
  }
  return equal;
}

} // namespace

TEST(Masks, CancelInTheSumOfAllMembersAlone) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 dice(seed);
  for (unsigned count : {3u, 4u, 16u}) {
    const Members members(count);
    const uint64_t elements = 1 + dice() % 9'000; // over the edges of blocks and buffers
    const uint32_t all = (1u << count) - 1;
    const Exchange exchange = {exchangeOf(elements, all)[0], exchangeOf(1, 7)[0], exchangeOf(3, all, false)[0],
                               exchangeOf(0, all)[0], exchangeOf(9, all)[0]};
    std::vector<Words> plain, masked;
    for (unsigned role = 0; role < count; ++role) {
      const bool isOfSecond = role < 3;
      plain.push_back(randomWords(dice, elements + (isOfSecond ? 1 : 0) + 3 + 9));
      masked.push_back(members.masked(role, exchange, plain[role]));
      if (!isOfSecond) { // so that sums go word by word
        plain[role].insert(plain[role].begin() + static_cast<ptrdiff_t>(elements), 0);
        masked[role].insert(masked[role].begin() + static_cast<ptrdiff_t>(elements), 0);
      }
    }
    EXPECT_EQ(sumOf(masked), sumOf(plain));
    for (unsigned role = 0; role < count; ++role) { // of a term that is not masked
      for (size_t at = elements + 1; at < elements + 4; ++at) {
        EXPECT_EQ(masked[role][at], plain[role][at]);
      }
    }
    // Without one of them nothing cancels.
    std::vector<Words> few(masked.begin(), masked.end() - 1), fewPlain(plain.begin(), plain.end() - 1);
    EXPECT_LE(equalWords(sumOf(few), sumOf(fewPlain)), 3u + (count > 3 ? 1 : 0))
        << "clear words, and those of roles 0 to 2";
  }
}

/// Members that were told different things learn noise.
TEST(Masks, CancelForOneMessageAlone) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 dice(seed);
  const Members members(3);
  const Exchange exchange = exchangeOf(64), longer = exchangeOf(65);
  const std::vector<Words> plain = {randomWords(dice, 64), randomWords(dice, 64), randomWords(dice, 64)};
  const Words first = members.masked(0, exchange, plain[0]), second = members.masked(1, exchange, plain[1]);
  auto isWhole = [&](const Words &third) { return equalWords(sumOf({first, second, third}), sumOf(plain)); };
  EXPECT_EQ(isWhole(members.masked(2, exchange, plain[2])), 64u);
  EXPECT_EQ(isWhole(members.masked(2, exchange, plain[2], {2, 0, 0})), 0u) << "another message";
  EXPECT_EQ(isWhole(members.masked(2, exchange, plain[2], {1, 1, 0})), 0u) << "another attempt";
  EXPECT_EQ(isWhole(members.masked(2, exchange, plain[2], {1, 0, 1})), 0u) << "another step";
  EXPECT_EQ(isWhole(members.masked(2, exchange, plain[2], {1, 0, 0}, 1)), 0u) << "another exchange";
  EXPECT_EQ(isWhole(members.masked(2, exchange, plain[2], {1, 0, 0}, 0, {1})), 0u) << "another digest";
  Words more = plain[2];
  more.push_back(0);
  more = members.masked(2, longer, more);
  more.pop_back();
  EXPECT_EQ(isWhole(more), 0u) << "other terms";
  Members anew(3);
  anew.keys[2][0] = *anew.pairs[2].sharedWith(members.pairs[0].publicKey(), false);
  EXPECT_EQ(isWhole(anew.masked(2, exchange, plain[2])), 0u) << "another session";
}

TEST(Masks, WordsAreUniformWhateverTheTermsAre) {
  const Members members(3);
  constexpr size_t kWords = 1 << 16;
  const Exchange exchange = exchangeOf(kWords);
  for (uint64_t term : {uint64_t{0}, ~uint64_t{0}, uint64_t{1} << 40}) {
    const Words words = members.masked(1, exchange, Words(kWords, term), {1, 0, static_cast<uint32_t>(term >> 40)});
    std::array<size_t, 256> bytes{};
    std::array<size_t, 64> bits{};
    for (uint64_t word : words) {
      for (unsigned at = 0; at < 8; ++at) {
        ++bytes[word >> 8 * at & 255];
      }
      for (unsigned bit = 0; bit < 64; ++bit) {
        bits[bit] += word >> bit & 1;
      }
    }
    const double expected = 8.0 * kWords / 256;
    double chi = 0;
    for (size_t count : bytes) {
      chi += (static_cast<double>(count) - expected) * (static_cast<double>(count) - expected) / expected;
    }
    EXPECT_LT(chi, 255 + 8 * std::sqrt(2.0 * 255)) << "of 255 degrees of freedom";
    EXPECT_GT(chi, 255 - 8 * std::sqrt(2.0 * 255));
    for (size_t count : bits) {
      EXPECT_NEAR(static_cast<double>(count), kWords / 2.0, 8 * std::sqrt(kWords) / 2);
    }
  }
}

TEST(Masks, BytesThatAreNoKeyGiveNone) {
  const MaskKeyPair pair;
  EXPECT_FALSE(pair.sharedWith({}, true)) << "a point of small order";
  EXPECT_FALSE(pair.sharedWith(pair.publicKey(), true)) << "its own";
  EXPECT_TRUE(pair.sharedWith(MaskKeyPair().publicKey(), true));
}

/// One shared secret, as where a member sends another one's key for its own: each pair has a stream of its own.
TEST(Masks, PairsOfOneSecretDiffer) {
  Members members(3);
  members.keys[0][1] = members.keys[0][2];
  const Exchange exchange = exchangeOf(64);
  const Words words = members.masked(0, exchange, Words(64));
  members.keys[0].erase(1);
  const Words one = members.masked(0, exchange, Words(64));
  Words twice = one;
  for (size_t at = 0; at < 64; ++at) {
    twice[at] += one[at];
  }
  EXPECT_EQ(equalWords(words, twice), 0u);
}

TEST(Masks, AStopEndsThem) {
  const Members members(3);
  const runtime::StopFlag stop{true};
  std::array<std::byte, 64> frame{};
  EXPECT_FALSE(addMasks(members.keys[0], 0, {}, 0, {}, exchangeOf(8), stop, frame.data()));
}

} // namespace sojourn::owner::test
