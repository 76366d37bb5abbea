// SPDX-License-Identifier: Apache-2.0
// Laplace noise against its exact probabilities; wrong samplers are caught by the same function.
#include "runtime/privacy/DiscreteLaplace.h"
#include "test/runtime/privacy/Statistics.h"

namespace sojourn::privacy::test {

namespace {

/// Smallest p-value of shape, sign, tail and mean magnitude against P[x] = (1 - r) / (1 + r) r^|x|, r = exp(-1 /
/// scale).
double laplaceFit(std::span<const int64_t> values, double scale) {
  const double r = std::exp(-1 / scale);
  // P[|x| <= m] = 1 - 2 r^(m+1) / (1 + r), in cells of `width` magnitudes.
  auto within = [&](int64_t m) { return 1 - 2 * std::exp(-static_cast<double>(m + 1) / scale) / (1 + r); };
  const auto width = static_cast<int64_t>(std::max(1.0, scale / 16));
  std::vector<int64_t> counts(16 * 16), signs(2);
  std::vector<double> probability(counts.size());
  int64_t beyond = 0, far = 0;
  double sum = 0;
  for (int64_t x : values) {
    sum += static_cast<double>(std::abs(x));
    auto cell = static_cast<size_t>(std::abs(x) / width);
    cell < counts.size() ? ++counts[cell] : ++beyond;
    far += static_cast<double>(std::abs(x)) > 10 * scale;
    if (x != 0) {
      ++signs[x > 0];
    }
  }
  for (size_t cell = 0; cell < counts.size(); ++cell) {
    const auto low = static_cast<int64_t>(cell) * width;
    probability[cell] = within(low + width - 1) - (cell == 0 ? 0 : within(low - 1));
  }
  // E|x| = 2 r / (1 - r^2), E x^2 = 2 r / (1 - r)^2
  const auto n = static_cast<double>(values.size());
  const double mean = 2 * r / (1 - r * r), variance = 2 * r / ((1 - r) * (1 - r)) - mean * mean;
  const double tail = 1 - within(static_cast<int64_t>(10 * scale));
  return std::min({fit(counts, probability, beyond), fit(signs, std::vector<double>{0.5, 0.5}), rareFit(far, tail * n),
                   normalFit((sum - n * mean) / std::sqrt(n * variance))});
}

std::vector<int64_t> drawn(LaplaceScale scale, size_t count, uint32_t site = 0) {
  std::vector<int64_t> out(count);
  fillDiscreteLaplace(Coins::forTests(freshSeed()), site, scale, 0, out);
  return out;
}

double value(LaplaceScale scale) {
  return static_cast<double>(scale.numerator) / static_cast<double>(scale.denominator);
}

} // namespace

TEST(DiscreteLaplace, Distribution) {
  uint32_t site = 0;
  for (LaplaceScale scale : {LaplaceScale{1}, {1, 3}, {7, 2}, {10}, {1000}, {1000, 7}, {1 << 20}}) {
    EXPECT_GT(laplaceFit(drawn(scale, 400000, site++), value(scale)), kAlarm) << value(scale);
  }
}

TEST(DiscreteLaplace, WrongOnesAreCaught) {
  auto right = drawn({100}, 2000000);
  EXPECT_GT(laplaceFit(right, 100), kAlarm);
  EXPECT_LT(laplaceFit(right, 101), kAlarm) << "a scale that is 1 % off";
  auto cut = right;
  std::erase_if(cut, [](int64_t x) { return std::abs(x) > 1000; });
  EXPECT_LT(laplaceFit(cut, 100), kAlarm) << "no tail";
  auto shifted = drawn({2}, 400000);
  for (int64_t &x : shifted) {
    x += x > 0 ? -1 : 0;
  }
  EXPECT_LT(laplaceFit(shifted, 2), kAlarm) << "0 counted for both signs";
}

TEST(DiscreteLaplace, LowBitsAreUniform) {
  auto values = drawn({1 << 20}, 400000, 77);
  EXPECT_GT(residueFit(values, 64), kAlarm);
  EXPECT_GT(residueFit(values, 61), kAlarm);
}

TEST(DiscreteLaplace, ARatioIsExact) {
  // 10 / 5 and 2 are one distribution by different steps.
  EXPECT_GT(laplaceFit(drawn({10, 5}, 400000, 3), 2), kAlarm);
  const LaplaceScale huge{kLaplaceMax, 1}, tiny{1, kLaplaceMax};
  EXPECT_GT(laplaceFit(drawn(huge, 100000), value(huge)), kAlarm);
  for (int64_t x : drawn(tiny, 1000)) {
    EXPECT_EQ(x, 0);
  }
}

TEST(DiscreteLaplace, AValueDependsOnItsPositionAlone) {
  const Coins coins = Coins::forTests(freshSeed());
  std::vector<int64_t> whole(1000), pieces(1000);
  fillDiscreteLaplace(coins, 3, {500}, 40, whole);
  for (size_t first = 0; first < 1000; first += 250) {
    fillDiscreteLaplace(coins, 3, {500}, 40 + first, std::span(pieces).subspan(first, 250));
  }
  EXPECT_EQ(pieces, whole);
  fillDiscreteLaplace(coins, 4, {500}, 40, pieces);
  EXPECT_NE(pieces, whole);
}

TEST(DiscreteLaplaceDeathTest, ScalesOutsideTheRange) {
  std::vector<int64_t> out(1);
  for (LaplaceScale scale : {LaplaceScale{0}, {1, 0}, {kLaplaceMax + 1}, {1, kLaplaceMax + 1}}) {
    // The child of a death test makes its own coins.
    EXPECT_DEATH(fillDiscreteLaplace(Coins::forTests(1), 0, scale, 0, out), "outside its range");
  }
}

} // namespace sojourn::privacy::test
