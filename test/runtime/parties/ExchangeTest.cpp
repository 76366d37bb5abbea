// SPDX-License-Identifier: Apache-2.0
// Sums of exchanges, by each element type, against arithmetic of their own; and their shares.
#include "runtime/Exchange.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

namespace sojourn::runtime {
namespace {

template <class Number>
std::vector<Number> sumsOf(Element element, const std::vector<std::vector<Number>> &terms, unsigned shares = 1) {
  const uint64_t width = byteWidth(element), count = terms[0].size() * sizeof(Number) / width;
  const Exchange exchange = {{element, count, (1u << terms.size()) - 1}};
  const FramePlaces whole = placesOfSums(exchange);
  std::vector<std::byte> sums(whole.bytes, std::byte{7});
  for (unsigned index = 0; index < shares; ++index) {
    const Share share{index, shares};
    std::vector<std::vector<std::byte>> frames;
    std::vector<const std::byte *> pointers;
    for (unsigned role = 0; role < terms.size(); ++role) {
      const FramePlaces all = placesOfTerms(exchange, role), places = placesOfTerms(exchange, role, share);
      std::vector<std::byte> frame(all.bytes);
      std::memcpy(frame.data(), terms[role].data(), terms[role].size() * sizeof(Number));
      frames.emplace_back(places.bytes);
      cutShare(exchange, share, all, frame.data(), places, frames.back().data());
    }
    for (const auto &frame : frames) {
      pointers.push_back(frame.data());
    }
    const FramePlaces places = placesOfSums(exchange, share);
    std::vector<std::byte> part(places.bytes, std::byte{7});
    addTerms(exchange, share, pointers, part.data());
    pasteShare(exchange, share, places, part.data(), whole, sums.data());
  }
  std::vector<Number> found(terms[0].size());
  std::memcpy(found.data(), sums.data(), found.size() * sizeof(Number));
  return found;
}

} // namespace

TEST(Exchange, FloatsAreAddedInTheOrderOfRoles) {
  EXPECT_EQ(sumsOf<float>(Element::f32, {{1e8f, 1}, {1, 1e8f}, {-1e8f, -1e8f}}), (std::vector<float>{0, 0}));
  EXPECT_EQ(sumsOf<float>(Element::f32, {{1e8f}, {-1e8f}, {1}}), std::vector<float>{1});
  EXPECT_EQ(sumsOf<double>(Element::f64, {{1e17, -1e17}, {-1e17, 1e17}, {1, 2}}), (std::vector<double>{1, 2}));
  EXPECT_EQ(sumsOf<float>(Element::c64, {{1, 2, 3, 4}, {10, 20, 30, 40}}), (std::vector<float>{11, 22, 33, 44}));
  EXPECT_EQ(sumsOf<double>(Element::c128, {{1, 2}, {10, 20}}), (std::vector<double>{11, 22}));
  EXPECT_TRUE(std::isnan(sumsOf<double>(Element::f64, {{INFINITY}, {-INFINITY}})[0]));
}

TEST(Exchange, IntegersWrapAround) {
  EXPECT_EQ(sumsOf<int64_t>(Element::i64, {{INT64_MAX}, {2}, {-5}}), std::vector<int64_t>{INT64_MAX - 3});
  EXPECT_EQ(sumsOf<int64_t>(Element::i64, {{INT64_MAX}, {1}}), std::vector<int64_t>{INT64_MIN});
  EXPECT_EQ(sumsOf<int32_t>(Element::i32, {{INT32_MIN}, {-1}}), std::vector<int32_t>{INT32_MAX});
  EXPECT_EQ(sumsOf<int16_t>(Element::i16, {{32767}, {2}}), std::vector<int16_t>{-32767});
  EXPECT_EQ(sumsOf<int8_t>(Element::i8, {{127, -3}, {1, -4}}), (std::vector<int8_t>{-128, -7}));
  EXPECT_EQ(sumsOf<uint8_t>(Element::u8, {{200}, {100}}), std::vector<uint8_t>{44});
}

/// Half-width floats are added in f32 and rounded once, to nearest, ties to even.
TEST(Exchange, NarrowFloatsAreRoundedOnce) {
  // f16 1, 2^-11, 2^-11: each addition alone rounds to 1, both together give 1 + 2^-10.
  EXPECT_EQ(sumsOf<uint16_t>(Element::f16, {{0x3c00, 0x3c00}, {0x1000, 0x1000}, {0x1000, 0x0000}}),
            (std::vector<uint16_t>{0x3c01, 0x3c00}));
  // bf16 1, 2^-8, 2^-8; and 1 + 2^-7 with 2^-8, a tie that goes to the even 1 + 2^-6.
  EXPECT_EQ(sumsOf<uint16_t>(Element::bf16, {{0x3f80, 0x3f81}, {0x3b80, 0x3b80}, {0x3b80, 0x0000}}),
            (std::vector<uint16_t>{0x3f81, 0x3f82}));
  const uint16_t nan = sumsOf<uint16_t>(Element::bf16, {{0x7fff}, {0x3f80}})[0];
  EXPECT_TRUE((nan & 0x7f80) == 0x7f80 && (nan & 0x7f) != 0) << nan;
  EXPECT_EQ(sumsOf<uint16_t>(Element::bf16, {{0x7f80}, {0x3f80}})[0], 0x7f80) << "infinity";
  EXPECT_EQ(sumsOf<uint16_t>(Element::f16, {{0x7bff}, {0x7bff}})[0], 0x7c00) << "beyond the largest";
}

TEST(Exchange, SharesCoverAllElementsOnce) {
  for (uint64_t elements : {0ul, 1ul, 2ul, 15ul, 16ul, 1000ul, (1ul << 60) + 7}) {
    for (unsigned of = 1; of <= 16; ++of) {
      uint64_t next = 0;
      for (unsigned index = 0; index < of; ++index) {
        const Share share{index, of};
        EXPECT_EQ(share.first(elements), next);
        EXPECT_LE(share.count(elements), elements / of + 1);
        next += share.count(elements);
      }
      EXPECT_EQ(next, elements);
    }
  }
  std::vector<std::vector<double>> terms(3, std::vector<double>(101));
  std::vector<double> expected(101);
  for (size_t role = 0; role < 3; ++role) {
    for (size_t at = 0; at < 101; ++at) {
      terms[role][at] = static_cast<double>(role * 1000 + at);
      expected[at] += terms[role][at];
    }
  }
  for (unsigned shares : {1u, 3u, 16u}) {
    EXPECT_EQ(sumsOf<double>(Element::f64, terms, shares), expected);
  }
}

/// Frames have the terms of their role alone, and no bytes between them but zeros.
TEST(Exchange, FramesHaveTermsOfTheirRole) {
  const Exchange exchange = {{Element::f32, 3, 3}, {Element::i64, 1, 2}, {Element::i8, 65, 1}};
  EXPECT_EQ(placesOfTerms(exchange, 0).offsets, (std::vector<size_t>{0, FramePlaces::kNone, 64}));
  EXPECT_EQ(placesOfTerms(exchange, 0).bytes, 192u);
  EXPECT_EQ(placesOfTerms(exchange, 1).offsets, (std::vector<size_t>{0, 64, FramePlaces::kNone}));
  EXPECT_EQ(placesOfSums(exchange).offsets, (std::vector<size_t>{0, 64, 128}));
  const std::vector<std::byte> first(192, std::byte{1}), second(128, std::byte{1});
  std::vector<std::byte> sums(placesOfSums(exchange).bytes, std::byte{9});
  addTerms(exchange, {}, {first.data(), second.data()}, sums.data());
  for (size_t at : {12ul, 63ul, 72ul, 127ul, 193ul, 255ul}) {
    EXPECT_EQ(sums[at], std::byte{0}) << at;
  }
}

} // namespace sojourn::runtime
