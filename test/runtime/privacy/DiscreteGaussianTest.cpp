// SPDX-License-Identifier: Apache-2.0
// Gaussian noise three ways: the table's distribution computed exactly and compared with the true one,
// samples of table and rejection sampler against the true one, and wrong samplers, which must be caught.
#include "runtime/privacy/DiscreteGaussian.h"
#include "runtime/privacy/GaussianTable.h"
#include "test/runtime/privacy/ExactGaussian.h"
#include "test/runtime/privacy/Statistics.h"

#include <thread>

namespace sojourn::privacy::test {

namespace {

constexpr uint64_t kTypical = 3 << 19;

double log2Of(Quad x) { return x == 0 ? -INFINITY : std::log2(static_cast<double>(x)); }

/// numerator / denominator = 1 / (2 s0^2) of a widening.
std::pair<uint64_t, uint64_t> baseOf(uint64_t sigma, Widening widening) {
  return {(1 + uint64_t{widening.inner} * widening.inner) * (1 + uint64_t{widening.outer} * widening.outer),
          2 * sigma * sigma};
}
Quad baseVariance(uint64_t sigma, Widening widening) {
  auto [numerator, denominator] = baseOf(sigma, widening);
  return Quad(denominator) / (2 * Quad(numerator));
}

/// P[first <= x < first + width]: exact sums where they are short, else the normal distribution between
/// halves, which is off by 1/(24 sigma^2) relative.
double mass(double sigma, int64_t first, int64_t width) {
  if (sigma > 2000) {
    auto cumulative = [&](int64_t x) {
      return std::erfc(-(static_cast<double>(x) - 0.5) / sigma / std::sqrt(2.0)) / 2;
    };
    return first > 0 ? cumulative(1 - first) - cumulative(1 - first - width)
                     : cumulative(first + width) - cumulative(first);
  }
  double norm = 0, sum = 0;
  auto weight = [&](int64_t x) { return std::exp(-static_cast<double>(x * x) / (2 * sigma * sigma)); };
  for (auto x = static_cast<int64_t>(10 * sigma); x >= 0; --x) {
    norm += weight(x) * (x == 0 ? 1 : 2);
  }
  for (int64_t x = first; x < first + width; ++x) {
    sum += weight(x);
  }
  return sum / norm;
}

/// Smallest p-value of shape, tails, mean, variance, dependence of neighbours, and low bits.
double gaussianFit(std::span<const int64_t> values, uint64_t sigma) {
  const auto s = static_cast<double>(sigma), n = static_cast<double>(values.size());
  const auto width = static_cast<int64_t>(std::max<uint64_t>(1, sigma / 8)),
             reach = static_cast<int64_t>(8 * s) / width;
  std::vector<int64_t> counts(static_cast<size_t>(2 * reach + 1));
  std::vector<double> probability;
  for (int64_t cell = -reach; cell <= reach; ++cell) {
    probability.push_back(mass(s, cell * width - width / 2, width));
  }
  int64_t others = 0, far[2] = {0, 0};
  double sum = 0, squares = 0, products = 0, previous = 0;
  for (int64_t x : values) {
    const int64_t above = x + width / 2, cell = (above < 0 ? above - width + 1 : above) / width + reach;
    cell >= 0 && cell <= 2 * reach ? ++counts[static_cast<size_t>(cell)] : ++others;
    const auto real = static_cast<double>(x);
    far[0] += std::abs(real) > 4 * s;
    far[1] += std::abs(real) > 5 * s;
    sum += real;
    squares += real * real;
    products += real * previous;
    previous = real;
  }
  double smallest = fit(counts, probability, others);
  for (int k = 0; k < 2; ++k) {
    const auto edge = static_cast<int64_t>((4 + k) * s) + 1;
    smallest = std::min(smallest, rareFit(far[k], 2 * n * mass(s, edge, static_cast<int64_t>(5 * s))));
  }
  smallest = std::min({smallest, normalFit(sum / s / std::sqrt(n)), normalFit((squares / s / s - n) / std::sqrt(2 * n)),
                       normalFit(products / s / s / std::sqrt(n))});
  for (int64_t modulus : {61, 64}) {
    if (sigma >= 100) {
      smallest = std::min(smallest, residueFit(values, modulus));
    }
  }
  return smallest;
}

template <auto fill = fillDiscreteGaussian>
std::vector<int64_t> drawn(uint64_t sigma, size_t count) {
  std::vector<int64_t> out(count);
  fill(Coins::forTests(freshSeed()), static_cast<uint32_t>(sigma), sigma, 0, out);
  return out;
}

/// The product's way of drawing, from a table of one's own and other randomness.
std::vector<int64_t> drawnFrom(const AliasTable &base, Widening widening, size_t count) {
  std::mt19937_64 random(freshSeed());
  std::vector<int64_t> out(count);
  for (int64_t &x : out) {
    int64_t y[4];
    for (int64_t &one : y) {
      uint64_t first = random(), second = random();
      one = base.pick(first, second);
    }
    x = int64_t{widening.outer} * (widening.inner * y[0] + y[1]) + widening.inner * y[2] + y[3];
  }
  return out;
}

std::vector<uint64_t> someSigmas() {
  std::mt19937_64 random(freshSeed());
  std::vector<uint64_t> all{1, 2, 3, 50, 81, 82, 300, 5000, 1 << 20, kTypical, 1 << 21, kSigmaMax};
  for (int k = 0; k < 6; ++k) {
    all.push_back(1 + random() % kSigmaMax);
  }
  return all;
}

} // namespace

TEST(GaussianTable, WeightsOfAnotherProgram) {
  // floor(2^128 P[x]) for x = 1, 2, 5, 40, 300 by mpmath with 600 bits.
  struct {
    uint64_t numerator, denominator;
    const char *hex[5];
  } cases[] = {
      {1,
       2,
       {"3df1cb16d6a9a396d8a296e52bc37a65", "0dd25a1a367c250e96dcdc0578b8ea7a", "000018f169628bc8fb657817011b60ab", "0",
        "0"}},
      {1,
       12800,
       {"0146c9b95f219609e6a3fcf65bbdbb84", "0146b61e7f0fa0407ec02128097f7c08", "01462d034957946637a2abb6d922b5cb",
        "012069734e6d223543c6de20f428b553", "000049f1d628887e9bd573a12a8ccd72"}},
      {7,
       30000,
       {"0234aaa22b30ab5c9f1aedd678ff8c82", "0234457b0af152145b9456622105481c", "02318363d182eab82fc94257aa48a67c",
        "0184d3cbbc3d16587400adc3fe3cb082", "0000000072f5ec0749740f5e4f93914"}}};
  const int values[] = {1, 2, 5, 40, 300};
  for (const auto &known : cases) {
    auto weights = gaussianWeights(known.numerator, known.denominator);
    for (int k = 0; k < 5; ++k) {
      Uint128 expected = 0;
      for (const char *digit = known.hex[k]; *digit; ++digit) {
        expected = expected << 4 | static_cast<unsigned>(*digit <= '9' ? *digit - '0' : *digit - 'a' + 10);
      }
      for (int sign : {-1, 1}) {
        Uint128 found = weights[static_cast<size_t>(kReach + sign * values[k])];
        EXPECT_LE(found > expected ? found - expected : expected - found, 1u)
            << known.denominator << " at " << values[k];
      }
    }
  }
}

TEST(GaussianTable, BaseIsWithinItsBound) {
  double worst = -INFINITY;
  for (uint64_t sigma : someSigmas()) {
    auto table = gaussianTable(sigma);
    double variation = log2Of(baseVariation(drawnWeights(table->base), baseVariance(sigma, table->widening)));
    EXPECT_LT(variation, -107) << sigma; // 113-bit arithmetic sees no more
    worst = std::max(worst, variation);
  }
  std::cout << "largest variation of a base: 2^" << worst << "\n";
  // A base of another deviation is far away.
  auto table = gaussianTable(kTypical);
  EXPECT_GT(log2Of(baseVariation(drawnWeights(table->base), baseVariance(kTypical + 1, table->widening))), -30);
}

TEST(GaussianTable, ColumnsAreExact) {
  for (uint64_t sigma : someSigmas()) {
    auto table = gaussianTable(sigma);
    auto [numerator, denominator] = baseOf(sigma, table->widening);
    auto weights = gaussianWeights(numerator, denominator);
    EXPECT_EQ(drawnWeights(table->base), weights) << sigma;
    Uint128 sum = 0;
    for (Uint128 weight : weights) {
      sum += weight;
    }
    EXPECT_EQ(sum, 0u) << "modulo 2^128";
    AliasTable wrong = table->base;
    ++wrong.threshold[kReach + 1];
    EXPECT_NE(drawnWeights(wrong), weights) << "a threshold that is one unit of 2^-128 off";
    std::rotate(wrong.threshold.begin(), wrong.threshold.begin() + 1, wrong.threshold.end());
    EXPECT_GT(log2Of(baseVariation(drawnWeights(wrong), baseVariance(sigma, table->widening))), -20) << "neighbours'";
  }
}

TEST(GaussianTable, PickIsTheAliasMethod) {
  const AliasTable &base = gaussianTable(kTypical)->base;
  std::mt19937_64 random(freshSeed());
  for (int k = 0; k < 100000; ++k) {
    const auto column = static_cast<size_t>(random() % kColumns);
    // On the threshold, one below it, and anywhere.
    Uint128 rest = base.threshold[column] - (k % 3 == 1 ? 1 : 0);
    rest = k % 3 == 2 ? (Uint128{random()} << 64 | random()) >> kColumnBits : rest;
    rest = rest >> (128 - kColumnBits) ? rest - 1 : rest;
    const auto first = static_cast<uint64_t>(rest >> 64) << kColumnBits | column, second = static_cast<uint64_t>(rest);
    int64_t expected = rest < base.threshold[column] ? static_cast<int64_t>(column) - kReach : base.alias[column];
    EXPECT_EQ(base.pick(first, second), expected);
  }
}

TEST(GaussianTable, FirstWordsTellOrTie) {
  for (uint64_t sigma : someSigmas()) {
    auto table = gaussianTable(sigma);
    std::mt19937_64 random(freshSeed());
    for (int k = 0; k < 100000; ++k) {
      const uint64_t column = random() % kColumns, bound = static_cast<uint64_t>(table->base.threshold[column] >> 64);
      // About the threshold, and anywhere.
      const uint64_t upper = k % 2 ? random() >> kColumnBits : bound + random() % 3 - 1;
      const uint64_t first = upper << kColumnBits | column;
      uint64_t tied = 0;
      const int64_t quick = table->first.pick(first, tied);
      const bool full = table->base.alias[column] == static_cast<int64_t>(column) - kReach;
      EXPECT_TRUE(full || tied == static_cast<uint64_t>(first >> kColumnBits == bound)) << sigma << ' ' << column;
      for (uint64_t second : {uint64_t{0}, random(), ~uint64_t{0}}) {
        EXPECT_TRUE(tied || quick == table->base.pick(first, second)) << sigma << ' ' << first;
      }
    }
  }
}

TEST(GaussianTable, TiesAreResolvedBySecondWords) {
  // Thresholds are moved under the words that this key draws, so that many tie.
  const Coins coins = Coins::forTests(freshSeed());
  for (size_t count : {size_t{1}, size_t{5}, size_t{255}, size_t{256}, size_t{257}, size_t{700}}) {
    const uint64_t position = 1000 + count % 2;
    AliasTable base = gaussianTable(kTypical)->base;
    std::vector<uint64_t> first(4 * count), second(4 * count);
    for (size_t k = 0; k < count; ++k) {
      for (auto [use, to] : {std::pair(CoinUse::noise, &first), std::pair(CoinUse::noiseSecond, &second)}) {
        uint64_t words[8];
        coins.fill({use, 9}, (position + k) / 2, {reinterpret_cast<uint8_t *>(words), sizeof words});
        std::copy_n(words + (position + k) % 2 * 4, 4, to->begin() + static_cast<ptrdiff_t>(4 * k));
      }
    }
    for (size_t pick = 0; pick < first.size(); pick += 1 + pick % 3) {
      base.threshold[first[pick] % kColumns] =
          (Uint128{first[pick] >> kColumnBits} << 64 | second[pick]) + (pick % 2 ? 0 : 1);
    }
    const GaussianTable table{{50, 2000}, base, FirstWords(base)};
    std::vector<int64_t> out(count);
    fillFromTable(table, coins, 9, position, out);
    size_t tieCount = 0;
    for (size_t k = 0; k < count; ++k) {
      int64_t x[4];
      for (size_t draw = 0; draw < 4; ++draw) {
        uint64_t tied = 0;
        table.first.pick(first[4 * k + draw], tied);
        tieCount += tied;
        x[draw] = base.pick(first[4 * k + draw], second[4 * k + draw]);
      }
      EXPECT_EQ(out[k], 2000 * (50 * x[0] + x[1]) + 50 * x[2] + x[3]) << count << ' ' << k;
    }
    EXPECT_GE(tieCount, count / 2 + 1) << count;
  }
}

TEST(Widening, EverySigmaHasOneWithinTheBound) {
  std::mt19937_64 random(freshSeed());
  auto check = [](uint64_t sigma) {
    auto widening = wideningFor(sigma);
    ASSERT_TRUE(widening) << sigma;
    // The proof's terms again, in floating point.
    const double pi = std::acos(-1.0), a = 1 + std::pow(widening->inner, 2), b = 1 + std::pow(widening->outer, 2);
    const double variance = std::pow(static_cast<double>(sigma), 2) / (a * b), reach = kReach / std::sqrt(variance);
    const double cut = 2 / (reach * std::sqrt(2 * pi)) * std::exp(-reach * reach / 2);
    auto stage = [&](uint32_t factor, double squared) {
      return factor == 0 ? 0 : 2 * std::exp(-2 * pi * pi * squared) * (1 + 0x1p-50);
    };
    const double total =
        4 * (cut + 0x1p-117) + 2 * stage(widening->inner, variance / a) + stage(widening->outer, variance * a / b);
    ASSERT_LT(total, sampleErrorMass(sigma)) << sigma;
  };
  for (uint64_t sigma = 1; sigma <= 20000; ++sigma) {
    check(sigma);
  }
  for (int k = 0; k < 20000; ++k) {
    check(1 + random() % kSigmaMax);
    check((uint64_t{1} << 20) + random() % (1 << 20));
  }
  for (uint64_t k = 0; k < 1000; ++k) {
    check(kSigmaMax - k);
  }
}

TEST(Widening, TheWholeDistributionOfASmallOne) {
  // Every probability of sigma = 100 and 150 as drawn, against the true ones.
  for (uint64_t sigma : {100, 150}) {
    auto table = gaussianTable(sigma);
    ASSERT_GT(table->widening.outer, 0u);
    const Sum drawn = drawnBy(drawnWeights(table->base), table->widening);
    const ExactGaussian exact(Quad(sigma) * Quad(sigma), drawn.reach);
    Quad variation = exact.tail / 2;
    for (int64_t x = -drawn.reach; x <= drawn.reach; ++x) {
      variation += magnitude(drawn.at(x) - exact.probability[static_cast<size_t>(std::abs(x))]) / 2;
    }
    std::cout << "variation of sigma " << sigma << ": 2^" << log2Of(variation) << "\n";
    EXPECT_LT(log2Of(variation), -106);
  }
}

TEST(Widening, PointsOfLargeOnes) {
  // P[x] as drawn, with both stages, against exp(-x^2 / (2 sigma^2)) / (sigma sqrt(2 pi)), whose norming
  // sum is off by 2 exp(-2 pi^2 sigma^2) only. Up to 3 sigma, as a weight's last unit is a large part of
  // it farther out.
  std::mt19937_64 random(freshSeed());
  const Quad pi = 4 * (4 * [] { // Machin's formula
                    auto arctan = [](int inverse) {
                      Quad sum = 0, power = Quad{1} / inverse;
                      for (int n = 0; n < 90; ++n, power /= -inverse * inverse) {
                        sum += power / (2 * n + 1);
                      }
                      return sum;
                    };
                    return arctan(5) - arctan(239) / 4;
                  }());
  for (uint64_t sigma : {uint64_t{1} << 20, kTypical + random() % 1000, kSigmaMax}) {
    auto table = gaussianTable(sigma);
    ASSERT_GT(table->widening.inner, 1u);
    ASSERT_GT(table->widening.outer, 1u);
    const Sum drawn = drawnBy(drawnWeights(table->base), table->widening);
    const Quad variance = Quad(sigma) * Quad(sigma), norm = 1 / (Quad(sigma) * root(2 * pi));
    Quad worst = 0;
    for (int k = 0; k < 3000; ++k) {
      const auto x = static_cast<int64_t>(random() % (6 * sigma + 1)) - static_cast<int64_t>(3 * sigma);
      const Quad exact = norm * expOfMinus(Quad(x) * Quad(x) / (2 * variance));
      worst = std::max(worst, magnitude(drawn.at(x) / exact - 1));
    }
    std::cout << "sigma " << sigma << " = base " << std::sqrt(static_cast<double>(baseVariance(sigma, table->widening)))
              << ", inner " << table->widening.inner << ", outer " << table->widening.outer
              << "; largest relative error of a probability: 2^" << log2Of(worst) << "\n";
    EXPECT_LT(log2Of(worst), -105);
  }
}

TEST(Widening, TooFarIsNoticed) {
  // s0^2 = 5/2, outer factor 2, sigma^2 = 25/2, hence t^2 = 1/2: at 0 the proof's f is 1 + 2 exp(-2 pi^2 t^2)
  // times its mean. So the bound is sharp, and these comparisons see what it bounds.
  const Sum drawn = drawnBy(gaussianWeights(5, 25), {0, 2});
  const ExactGaussian exact(Quad{25} / 2, drawn.reach);
  const double pi = std::acos(-1.0);
  EXPECT_NEAR(static_cast<double>(drawn.at(0) / exact.probability[0] - 1), 2 * std::exp(-pi * pi), 1e-9);
}

TEST(DiscreteGaussian, VarianceOfTheTable) {
  for (auto [sigma, variance] : {std::pair<uint64_t, double>{1, 0.999999788767728}, {2, 4}}) {
    auto table = gaussianTable(sigma);
    ASSERT_EQ(table->widening.outer, 0u);
    auto weights = drawnWeights(table->base);
    Quad sum = 0;
    for (int x = -kReach; x <= kReach; ++x) {
      sum += share(weights[static_cast<size_t>(x + kReach)]) * x * x;
    }
    EXPECT_NEAR(static_cast<double>(sum), variance, 2e-15);
  }
}

TEST(DiscreteGaussian, TableSampler) {
  for (uint64_t sigma : {uint64_t{1}, uint64_t{2}, uint64_t{3}, uint64_t{7}, uint64_t{100}, uint64_t{3001},
                         uint64_t{1} << 20, kTypical, kSigmaMax - 1}) {
    EXPECT_GT(gaussianFit(drawn(sigma, 2000000), sigma), kAlarm) << sigma;
  }
}

TEST(DiscreteGaussian, RejectionSampler) {
  for (uint64_t sigma : {uint64_t{1}, uint64_t{2}, uint64_t{3}, uint64_t{100}, kTypical}) {
    EXPECT_GT(gaussianFit(drawn<fillDiscreteGaussianByRejection>(sigma, 300000), sigma), kAlarm) << sigma;
  }
}

TEST(DiscreteGaussian, WrongOnesAreCaught) {
  const size_t count = 1000000;
  for (uint64_t sigma : {uint64_t{100}, kTypical}) {
    EXPECT_LT(gaussianFit(drawn(sigma + sigma / 100, count), sigma), kAlarm) << "a sigma that is 1 % off";
  }
  std::mt19937_64 random(freshSeed());
  auto rounded = [&](double sigma, double grid) {
    std::normal_distribution<double> normal(0, sigma);
    std::vector<int64_t> out(count);
    for (int64_t &x : out) {
      x = std::llround(grid * std::round(normal(random) / grid));
    }
    return out;
  };
  EXPECT_LT(gaussianFit(rounded(static_cast<double>(kTypical), 8), kTypical), kAlarm) << "a coarse grid";
  EXPECT_LT(gaussianFit(rounded(1, 1), 1), kAlarm) << "a continuous one, rounded";
  auto cut = drawn(kTypical, count);
  std::erase_if(cut, [](int64_t x) { return std::abs(x) > static_cast<int64_t>(4 * kTypical); });
  EXPECT_LT(gaussianFit(cut, kTypical), kAlarm) << "no tail";
  auto repeated = drawn(kTypical, count / 2);
  for (size_t k = 1; k < repeated.size(); k += 2) {
    repeated[k] = repeated[k - 1];
  }
  EXPECT_LT(gaussianFit(repeated, kTypical), kAlarm) << "coins used twice";
  for (uint64_t sigma : {uint64_t{3}, kTypical}) {
    auto table = gaussianTable(sigma);
    EXPECT_GT(gaussianFit(drawnFrom(table->base, table->widening, count), sigma), kAlarm) << "the test's own sampler";
    AliasTable wrong = table->base;
    for (int16_t &alias : wrong.alias) {
      ++alias;
    }
    EXPECT_LT(gaussianFit(drawnFrom(wrong, table->widening, count), sigma), kAlarm) << "aliases off by one";
  }
  auto table = gaussianTable(3);
  AliasTable wrong = table->base;
  std::rotate(wrong.threshold.begin(), wrong.threshold.begin() + 1, wrong.threshold.end());
  EXPECT_LT(gaussianFit(drawnFrom(wrong, table->widening, count), 3), kAlarm) << "a neighbour's threshold";
}

TEST(DiscreteGaussian, LowBitsAreUniform) {
  const auto widening = gaussianTable(kTypical)->widening;
  auto values = drawn(kTypical, 4000000);
  for (int64_t modulus : {2, 3, 64, 251, 1024, static_cast<int>(widening.inner), static_cast<int>(widening.outer)}) {
    EXPECT_GT(residueFit(values, modulus), kAlarm) << modulus;
  }
  for (int64_t &x : values) {
    x += x % 16 == 3;
  }
  EXPECT_LT(residueFit(values, 64), kAlarm) << "one residue moved";
}

TEST(DiscreteGaussian, AValueIsAFunctionOfItsHalfBlocks) {
  const Coins coins = Coins::forTests(freshSeed());
  std::vector<int64_t> out(300);
  fillDiscreteGaussian(coins, 9, kTypical, 1000, out);
  auto table = gaussianTable(kTypical);
  for (size_t k = 0; k < out.size(); ++k) {
    uint64_t first[8], second[8];
    coins.fill({CoinUse::noise, 9}, 500 + k / 2, {reinterpret_cast<uint8_t *>(first), sizeof first});
    coins.fill({CoinUse::noiseSecond, 9}, 500 + k / 2, {reinterpret_cast<uint8_t *>(second), sizeof second});
    std::array<int64_t, 4> x;
    for (size_t draw = 0; draw < 4; ++draw) {
      x[draw] = table->base.pick(first[k % 2 * 4 + draw], second[k % 2 * 4 + draw]);
    }
    const int64_t inner = table->widening.inner, outer = table->widening.outer;
    EXPECT_EQ(out[k], outer * (inner * x[0] + x[1]) + inner * x[2] + x[3]) << k;
  }
}

TEST(DiscreteGaussian, AValueDependsOnItsPositionAlone) {
  const Coins coins = Coins::forTests(freshSeed());
  const size_t count = 10000;
  std::vector<int64_t> whole(count), pieces(count), other(count);
  for (auto fill : {fillDiscreteGaussian, fillDiscreteGaussianByRejection}) {
    fill(coins, 3, kTypical, 1000, whole);
    std::vector<std::thread> threads;
    for (size_t thread = 0; thread < 3; ++thread) {
      threads.emplace_back([&, thread] {
        for (size_t first = thread * 77; first < count; first += 3 * 77) {
          fill(coins, 3, kTypical, 1000 + first, std::span(pieces).subspan(first, std::min<size_t>(77, count - first)));
        }
      });
    }
    for (std::thread &thread : threads) {
      thread.join();
    }
    EXPECT_EQ(pieces, whole);
    fill(coins, 4, kTypical, 1000, other);
    EXPECT_NE(other, whole) << "another site";
    fill(Coins::forTests(freshSeed() + 1), 3, kTypical, 1000, other);
    EXPECT_NE(other, whole) << "another key";
  }
}

TEST(DiscreteGaussian, ThreadsShareTheCache) {
  std::vector<std::thread> threads;
  std::vector<std::vector<int64_t>> out(3, std::vector<int64_t>(80));
  const Coins coins = Coins::forTests(freshSeed());
  for (auto &mine : out) {
    threads.emplace_back([&] {
      for (uint64_t k = 0; k < mine.size(); ++k) { // more sigmas than the cache holds
        fillDiscreteGaussian(coins, 0, 1000 + k % 40, k, {&mine[k], 1});
      }
    });
  }
  for (std::thread &thread : threads) {
    thread.join();
  }
  EXPECT_EQ(out[1], out[0]);
  EXPECT_EQ(out[2], out[0]);
}

TEST(DiscreteGaussianDeathTest, SigmasOutsideTheRange) {
  std::vector<int64_t> out(1);
  for (uint64_t sigma : {uint64_t{0}, kSigmaMax + 1, ~uint64_t{0}}) {
    EXPECT_DEATH(fillDiscreteGaussian(Coins::forTests(1), 0, sigma, 0, out), "sigma");
    EXPECT_DEATH(fillDiscreteGaussianByRejection(Coins::forTests(1), 0, sigma, 0, out), "sigma");
  }
}

} // namespace sojourn::privacy::test
