// SPDX-License-Identifier: Apache-2.0
// What an owner sees of small tensors: every element lies within, and rounding only widens, by an eighth at most.
#include "runtime/Extent.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

using namespace sojourn::runtime;

namespace {

template <typename T>
std::optional<Extent> extent(Element element, const std::vector<T> &values) {
  std::vector<uint8_t> bytes(values.size() * sizeof(T));
  if (!values.empty()) {
    std::memcpy(bytes.data(), values.data(), bytes.size());
  }
  return extentOf(element, bytes);
}

} // namespace

TEST(Extent, LeastAndLargest) {
  unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  SCOPED_TRACE(seed);
  for (int round = 0; round < 100; ++round) {
    std::vector<float> values(1 + random() % 50);
    std::vector<int16_t> whole(values.size());
    double low = 1e30, high = -1e30;
    int16_t least = INT16_MAX, most = INT16_MIN;
    for (size_t k = 0; k < values.size(); ++k) {
      values[k] = std::ldexp(static_cast<float>(random()) - 0x1p31f, static_cast<int>(random() % 60) - 60);
      whole[k] = static_cast<int16_t>(random());
      low = std::min<double>(low, values[k]);
      high = std::max<double>(high, values[k]);
      least = std::min(least, whole[k]);
      most = std::max(most, whole[k]);
    }
    EXPECT_EQ(extent(Element::f32, values), (Extent{low, high}));
    EXPECT_EQ(extent(Element::i16, whole), (Extent{double(least), double(most)}));
    Extent wide = roundedOut({low, high});
    EXPECT_TRUE(wide.low <= low && high <= wide.high);
    EXPECT_TRUE(low - wide.low <= std::abs(low) / 8 && wide.high - high <= std::abs(high) / 8);
    EXPECT_EQ(roundedOut(wide), wide);
  }
}

TEST(Extent, EveryElementType) {
  EXPECT_EQ(extent<uint8_t>(Element::i1, {0, 1}), (Extent{0, 1}));
  EXPECT_EQ(extent<uint8_t>(Element::u8, {200, 3}), (Extent{3, 200}));
  EXPECT_EQ(extent<int8_t>(Element::i8, {-128, 3}), (Extent{-128, 3}));
  EXPECT_EQ(extent<int32_t>(Element::i32, {-7}), (Extent{-7, -7}));
  EXPECT_EQ(extent<int64_t>(Element::i64, {1, -(int64_t{1} << 52)}), (Extent{-0x1p52, 1}));
  EXPECT_EQ(extent<uint16_t>(Element::f16, {0x3e00, 0xc000}), (Extent{-2, 1.5}));
  EXPECT_EQ(extent<uint16_t>(Element::bf16, {0x3fc0, 0xc000}), (Extent{-2, 1.5}));
  EXPECT_EQ(extent<double>(Element::f64, {1e300, -1e-300}), (Extent{-1e-300, 1e300}));
  EXPECT_EQ(roundedOut({0, 0}), (Extent{0, 0}));
  EXPECT_TRUE(std::isinf(roundedOut({0, std::numeric_limits<double>::max()}).high));
}

TEST(Extent, NothingWhereNothingIsSure) {
  double infinity = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(extent<double>(Element::f64, {}));
  EXPECT_FALSE(extent<double>(Element::f64, {1, std::nan("")}));
  EXPECT_FALSE(extent<double>(Element::f64, {-infinity, 1}));
  EXPECT_FALSE(extent<uint16_t>(Element::f16, {0x7c00}));
  EXPECT_FALSE(extent<int64_t>(Element::i64, {1, (int64_t{1} << 53) + 1}));
  EXPECT_FALSE(extent<float>(Element::c64, {1, 2}));
  EXPECT_FALSE(extent<uint8_t>(Element::u8, std::vector<uint8_t>(kExtentBytes + 1)));
}
