// SPDX-License-Identifier: Apache-2.0
// Goal: what a release gives away of one row stays within what it is charged. Method: rows that are there and rows that
// are not (canaries) are told apart by an optimal test, over many runs of the plan that the owner made, with the
// owner's coins; each audit is repeated on an owner that is broken on purpose (AuditSeam.h), and has to see it.
#include "test/owner/AuditSupport.h"

namespace sojourn::owner::test {

namespace {

constexpr double kDelta = 1e-3;

using ReleaseAudit = AuditTest;

} // namespace

TEST(Audits, RatesAreBoundedExactly) {
  // The tail, added up; and where the bound leaves just the level.
  for (auto [n, k, p] : {std::tuple(50.0, 7.0, 0.03), {400.0, 3.0, 0.02}, {400.0, 399.0, 0.9}, {1000.0, 30.0, 0.03}}) {
    double sum = 0;
    for (double j = k; j <= n; ++j) {
      sum += std::exp(std::lgamma(n + 1) - std::lgamma(j + 1) - std::lgamma(n - j + 1) + j * std::log(p) +
                      (n - j) * std::log1p(-p));
    }
    EXPECT_NEAR(binomialTail(k, n, p), sum, 1e-10 * sum);
  }
  for (size_t hits : {size_t{1}, size_t{57}, size_t{4000}, size_t{99999}}) {
    const double low = rateAtLeast(hits, 100000, 1e-11), rate = static_cast<double>(hits) / 100000;
    EXPECT_LT(low, rate);
    EXPECT_NEAR(binomialTail(static_cast<double>(hits), 100000, low), 1e-11, 1e-14);
    EXPECT_NEAR(rateAtMost(100000 - hits, 100000, 1e-11), 1 - low, 1e-12);
  }
  EXPECT_EQ(rateAtLeast(0, 10, 1e-3), 0);
  EXPECT_EQ(rateAtMost(10, 10, 1e-3), 1);
  EXPECT_NEAR(rateAtMost(0, 1000, 1e-3), 1 - std::pow(1e-3, 1e-3), 1e-12);
}

TEST(Audits, KnownMechanismsAreBoundedTightly) {
  // Randomised response of epsilon 1 answers right with e / (1 + e).
  std::mt19937_64 random(freshSeed() ^ 0x17);
  std::bernoulli_distribution right(std::exp(1.0) / (1 + std::exp(1.0)));
  auto answers = [&](size_t count) {
    Scores scores;
    for (size_t k = 0; k < count; ++k) {
      scores.with.push_back(right(random));
      scores.without.push_back(!right(random));
    }
    return scores;
  };
  Audit audit(200000, 0);
  audit.aim(answers(20000));
  const double bound = audit.epsilon(answers(200000));
  EXPECT_GT(bound, 0.95);
  EXPECT_LE(bound, 1);
}

TEST_F(ReleaseAudit, BatchSum) {
  // A sum over a Poisson sample of rate 1/4, clipped to 1 a row, noise multiplier 1. 300,000 canaries there and as many
  // not: half of the noise is worth 3.4 with hardly less than 0.05 of luck, a row of norm 4 still more; 1.96 is
  // claimed.
  constexpr int64_t kRows = 256, kExpected = 64;
  const int64_t slots = slotsFor(kExpected);
  const size_t runs = 9600 * auditScale();
  const std::string list = "tensor<" + text(slots) + "x64xf64>", type = tableType(kRows, kCanaries);
  const std::string module =
      moduleText("(" + kSeed + ", " + argument("t", type, "table") + ") -> (" + published("tensor<64xf64>") + ")",
                 batch(kExpected, slots, type, list) + "    %s = sojourn.reduce_sum %x, dims = [0] : " + list +
                     "\n    return %s : tensor<64xf64>");
  const Dataset rows = canaries(kRows, 4);
  PrivateTerms terms;
  terms.releases = {{.bound = 1, .rho = 0.5}};
  auto step = [&] { return Step(module, terms, rows); };
  const double claim = privacy::bestOrderEpsilon(step().charge(), kDelta);
  Audit audit(runs * kCanaries / 2, kDelta);
  for (auto [noise, shift] : {std::pair(1.0, 1.0), {0.5, 1.0}, {1.0, 4.0}}) {
    audit.aim(simulate(random, 0.25, 1, noise, shift, 1));
  }
  compare("batch sum", claim, audit,
          {{"halved noise", {.halvesNoise = true}}, {"forgotten clip", {.forgetsClip = true}}}, [&] {
            const Step made = step();
            EXPECT_EQ(made.plan->verdict.sites.size(), 1u);
            EXPECT_NEAR(made.plan->verdict.sites[0].bound, 1, 1e-9);
            Scores scores;
            for (size_t run = 0; run < runs; ++run) {
              const auto results = made.run();
              const auto sums = numbers<double>(results[0]);
              for (size_t k = 0; k < kCanaries; ++k) {
                (k % 2 == 0 ? scores.with : scores.without).push_back(sampledScore(sums[k], 0.25, 1));
              }
            }
            return scores;
          });
}

TEST_F(ReleaseAudit, ClippedGradient) {
  // The gradient of x * w squared is 2 (x w) x: here 8, clipped to 1, in float32. Rate 1/4, noise multiplier 1, 300,000
  // canaries of each kind, as for sums.
  constexpr int64_t kRows = 256, kExpected = 64;
  const int64_t slots = slotsFor(kExpected);
  const size_t runs = 9600 * auditScale();
  const std::string n = "tensor<" + text(slots), type = tableType(kRows, kCanaries);
  const std::string module = moduleText(
      "(" + argument("w", "tensor<64xf32>", "state") + ", " + kSeed + ", " + argument("t", type, "table") +
          ") -> (tensor<64xf32> {sojourn.result = \"commit\", sojourn.target = 0 : i64}, " +
          published("tensor<64xf32>") + ")",
      batch(kExpected, slots, type, n + "x64xf32>") +
          "    %two = sojourn.constant 2.0 : f32\n"
          "    %o = sojourn.dot %x, %w, lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [0] : " +
          n + "x64xf32>, tensor<64xf32> -> " + n + "xf32>\n    %d = sojourn.mul %o, %two : " + n +
          "xf32>, tensor<f32>\n"
          "    %g = sojourn.dot %d, %x, lhs_batch = [], rhs_batch = [], lhs_contract = [0], rhs_contract = [0] : " +
          n + "xf32>, " + n +
          "x64xf32> -> tensor<64xf32>\n    %next = sojourn.sub %w, %g : tensor<64xf32>, tensor<64xf32>\n"
          "    return %next, %next : tensor<64xf32>, tensor<64xf32>");
  const Dataset rows = canaries(kRows, 2);
  PrivateTerms terms;
  terms.noiseMultiplier = 1;
  terms.clip = 1;
  terms.lossIsSum = true;
  terms.metricShare = 0;
  auto step = [&] { return Step(module, terms, rows, std::vector<float>(kCanaries, 1)); };
  const double claim = privacy::bestOrderEpsilon(step().charge(), kDelta);
  Audit audit(runs * kCanaries / 2, kDelta);
  for (auto [noise, shift] : {std::pair(1.0, 1.0), {0.5, 1.0}, {1.0, 8.0}}) {
    audit.aim(simulate(random, 0.25, 1, noise, shift, 1));
  }
  compare("clipped gradient", claim, audit,
          {{"halved noise", {.halvesNoise = true}}, {"forgotten clip", {.forgetsClip = true}}}, [&] {
            const SeamUses before = seamUses();
            const Step made = step();
            EXPECT_EQ(made.plan->verdict.sites.size(), 1u);
            Scores scores;
            for (size_t run = 0; run < runs; ++run) {
              const auto results = made.run();
              const auto next = numbers<float>(results[1]);
              for (size_t k = 0; k < kCanaries; ++k) {
                (k % 2 == 0 ? scores.with : scores.without).push_back(sampledScore(1 - next[k], 0.25, 1));
              }
            }
            EXPECT_EQ(seamUses().draws, before.draws + runs);
            return scores;
          });
}

TEST_F(ReleaseAudit, Histogram) {
  // Counts of all rows with Laplace noise at epsilon 1, which is tight; half of the noise is epsilon 2. 160,000
  // samples.
  const size_t runs = 5000 * auditScale();
  const std::string type = tableType(kCanaries, 0);
  const std::string module = moduleText(
      "(" + kSeed + ", " + argument("t", type, "table") + ") -> (" + published("tensor<64xf64>") + ")",
      "    %i = sojourn.iota dim = 0 : tensor<64xi64>\n    %x = sojourn.read_rows %t, %i, columns = [\"v\"] : " + type +
          ", tensor<64xi64> -> tensor<64xi64>\n    %wide = sojourn.broadcast %x, dims = [0] : tensor<64xi64> -> "
          "tensor<64x64xi64>\n    %bins = sojourn.iota dim = 1 : tensor<64x64xi64>\n"
          "    %is = sojourn.compare \"eq\" %wide, %bins : tensor<64x64xi64>, tensor<64x64xi64>\n"
          "    %one = sojourn.convert %is : tensor<64x64xi1> -> tensor<64x64xf64>\n"
          "    %s = sojourn.reduce_sum %one, dims = [0] : tensor<64x64xf64>\n    return %s : tensor<64xf64>");
  std::vector<double> values(kCanaries, 100); // no bin
  for (size_t k = 0; k < kCanaries; k += 2) {
    values[k] = static_cast<double>(k);
  }
  const Dataset rows = table(kCanaries, {}, {0, 127}, std::move(values));
  PrivateTerms terms;
  terms.releases = {{.laplaceEpsilon = 1}};
  Audit audit(runs * kCanaries / 2, 0);
  std::exponential_distribution<double> tail;
  for (double scale : {1.0, 0.5}) {
    Scores law;
    auto laplace = [&] { return scale * (tail(random) - tail(random)); };
    for (size_t k = 0; k < 100000; ++k) {
      law.with.push_back(1 + laplace());
      law.without.push_back(laplace());
    }
    audit.aim(law);
  }
  const double claim = Step(module, terms, rows).plan->verdict.sites[0].cost;
  EXPECT_NEAR(claim, 1, 1e-6);
  compare("histogram", claim, audit, {{"halved noise", {.halvesNoise = true}}}, [&] {
    const Step made(module, terms, rows);
    Scores scores;
    for (size_t run = 0; run < runs; ++run) {
      const auto results = made.run();
      const auto counts = numbers<double>(results[0]);
      for (size_t k = 0; k < kCanaries; ++k) {
        (k % 2 == 0 ? scores.with : scores.without).push_back(counts[k]);
      }
    }
    return scores;
  });
}

TEST_F(ReleaseAudit, MeanAndDeviation) {
  // Mean and standard deviation of all rows, each with a share of a Gaussian of noise multiplier 1; row 0 is 1 or null,
  // the others 0.8 and -0.8. 40,000 samples: half of the noise is worth 3.9, and 3.4 in the worst case; 2.79 is
  // claimed.
  constexpr int64_t kRows = 64;
  const size_t runs = 40000 * auditScale();
  const std::string type = tableType(kRows, 0);
  const std::string module = moduleText("(" + kSeed + ", " + argument("t", type, "table") + ") -> (" +
                                            published("tensor<f64>") + ", " + published("tensor<f64>") + ")",
                                        batch(kRows, kRows, type, "tensor<64xf64>") +
                                            "    %n = sojourn.constant 0.015625 : f64\n"
                                            "    %s = sojourn.reduce_sum %x, dims = [0] : tensor<64xf64>\n"
                                            "    %mean = sojourn.mul %s, %n : tensor<f64>, tensor<f64>\n"
                                            "    %square = sojourn.mul %x, %x : tensor<64xf64>, tensor<64xf64>\n"
                                            "    %u = sojourn.reduce_sum %square, dims = [0] : tensor<64xf64>\n"
                                            "    %second = sojourn.mul %u, %n : tensor<f64>, tensor<f64>\n"
                                            "    %first = sojourn.mul %mean, %mean : tensor<f64>, tensor<f64>\n"
                                            "    %variance = sojourn.sub %second, %first : tensor<f64>, tensor<f64>\n"
                                            "    %deviation = sojourn.sqrt %variance : tensor<f64>\n"
                                            "    return %mean, %deviation : tensor<f64>, tensor<f64>");
  std::vector<double> values(kRows, 1);
  for (size_t k = 1; k < kRows; ++k) {
    values[k] = k % 2 ? 0.8 : -0.8;
  }
  const Dataset rows = table(kRows, {}, {-1, 1}, std::move(values));
  PrivateTerms terms;
  terms.releases = {{.rho = 0.25}, {.rho = 0.25}};
  const Step first(module, terms, rows);
  ASSERT_EQ(first.plan->verdict.sites.size(), 2u);
  const double claim = privacy::bestOrderEpsilon(first.charge(), 1e-2);
  // How row 0 moves both sums, in standard deviations of their noise.
  const double sum = 1 / first.sigma(0), square = first.plan->verdict.sites[1].bound / first.sigma(1);
  const double strength = std::hypot(sum, square);
  EXPECT_NEAR(strength, 1, 0.02);
  Audit audit(runs, 1e-2);
  for (double noise : {1.0, 0.5}) {
    audit.aim(simulate(random, 1, 1 / strength, noise / strength, 1, 1));
  }
  compare("mean and deviation", claim, audit, {{"halved noise", {.halvesNoise = true}}}, [&] {
    const Step made(module, terms, rows);
    Scores scores;
    auto playInto = [&](std::vector<double> &into) {
      for (size_t run = 0; run < runs; ++run) {
        const auto results = made.run();
        const double mean = numbers<double>(results[0])[0], deviation = numbers<double>(results[1])[0];
        // Without row 0 the sums are 0.8 and 63 * 0.64.
        const double x = kRows * mean - 0.8, y = kRows * (deviation * deviation + mean * mean) - 63 * 0.64;
        const double along = (x * sum / first.sigma(0) + y * square / first.sigma(1)) / (strength * strength);
        into.push_back(std::isfinite(along) ? sampledScore(along, 1, 1 / strength) : 0);
      }
    };
    playInto(scores.with);
    Broken now = seamState();
    now.nullRow = 0;
    breakOwner(now);
    playInto(scores.without);
    return scores;
  });
}

} // namespace sojourn::owner::test
