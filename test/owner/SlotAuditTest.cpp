// SPDX-License-Identifier: Apache-2.0
// Goal: a sum over a part of the slots gives away no more of a row than it is charged, and did so when drawn rows lay
// in front. Method: millions of draws and noises of the owner's own, added up by a formula that is compared bit by bit
// with what the owner's plan computes.
#include "runtime/privacy/DiscreteGaussian.h"
#include "runtime/privacy/PoissonDraw.h"
#include "test/owner/AuditSupport.h"

namespace sojourn::owner::test {

namespace {

/// Of a draw of 100 of 2000 rows the sum over the first slots, with noise of 0.8; eight such releases compose.
constexpr int64_t kRows = 2000, kExpected = 100;
constexpr double kRate = 0.05, kSigma = 0.8, kDelta = 3e-3;
constexpr size_t kSteps = 8;

struct Design {
  int64_t summed;
  /// Of row 0 and of all others.
  double canary, other;
  std::function<double(double)> score;
};

std::string moduleFor(const Design &design) {
  const int64_t slots = slotsFor(kExpected);
  const std::string n = "tensor<" + text(slots), type = tableType(kRows, 0), part = "tensor<" + text(design.summed);
  return moduleText("(" + kSeed + ", " + argument("t", type, "table") + ") -> (" + published("tensor<f64>") + ")",
                    batch(kExpected, slots, type, n + "xf64>") + "    %y = sojourn.slice %x, start = [0], limit = [" +
                        text(design.summed) + "], stride = [1] : " + n +
                        "xf64>\n    %s = sojourn.reduce_sum %y, dims = [0] : " + part +
                        "xf64>\n    return %s : tensor<f64>");
}
Dataset rowsOf(const Design &design) {
  std::vector<double> values(kRows, design.other);
  values[0] = design.canary;
  return table(kRows, {}, {-1, 1}, std::move(values));
}

double sumOf(std::span<const int64_t> slots, const Design &design, double canary) {
  double sum = 0;
  for (size_t slot = 0; slot < static_cast<size_t>(design.summed); ++slot) {
    sum += slots[slot] > 0 ? design.other : slots[slot] == 0 ? canary : 0;
  }
  return sum;
}
/// (round(sum / h) + coin) h.
double released(double sum, int64_t coin, const Step &step) {
  const double grid = std::ldexp(1.0, static_cast<int>(step.plan->verdict.sites[0].exponent));
  return (std::nearbyint(sum / grid) + static_cast<double>(coin)) * grid;
}

/// The formula is what the plan computes, with row 0 and with the null row.
void checkFormula(const Step &step, const Design &design) {
  Broken how = seamState();
  for (int64_t nullRow : {-1, 0}) {
    how.nullRow = nullRow;
    breakOwner(how);
    for (int run = 0; run < 500; ++run) {
      std::vector<runtime::Binding> all = step.bindings, coins = drawCoins(step.plan->verdict.coins, 1, {});
      all.insert(all.end(), coins.begin(), coins.end());
      const double sum = sumOf(numbers<int64_t>(coins[1].tensor), design, design.canary);
      ASSERT_EQ(numbers<double>(step.run(all)[0])[0], released(sum, numbers<int64_t>(coins[0].tensor)[0], step));
    }
  }
  how.nullRow = -1;
  breakOwner(how);
}

/// Of one draw both tables, and with `front` both placements: a bound of a rate does not ask whether others share its
/// runs.
Scores play(const Design &design, size_t transcripts, Scores *front = nullptr) {
  const Dataset rows = rowsOf(design);
  PrivateTerms terms;
  terms.releases = {{.rho = 1 / (2 * kSigma * kSigma)}};
  const Step step(moduleFor(design), terms, rows);
  const runtime::CoinInfo &noise = step.plan->verdict.coins[0], &list = step.plan->verdict.coins[1];
  EXPECT_EQ(noise.kind, runtime::CoinInfo::Kind::gaussian);
  EXPECT_EQ(list.kind, runtime::CoinInfo::Kind::draw);
  checkFormula(step, design);
  if (front) {
    breakOwner({.drawsInFront = true});
    checkFormula(step, design);
    breakOwner({});
  }
  const auto draw =
      std::get<privacy::PoissonDraw>(privacy::PoissonDraw::plan(list.rows, list.expected, list.type.dims[0]));
  const privacy::Coins coins = privacy::Coins::fromSystem();
  std::vector<int64_t> slots(static_cast<size_t>(draw.capacity())), values(kSteps * 1024);
  Scores scores;
  uint32_t index = 0, site = 0;
  for (size_t run = 0; run < transcripts; ++run) {
    if (run % 1024 == 0) {
      fillDiscreteGaussian(coins, site++, static_cast<uint64_t>(noise.scale), 0, values);
    }
    double totals[4] = {};
    for (size_t k = 0; k < kSteps; ++k) {
      draw.draw(coins, index++, slots);
      const int64_t coin = values[run % 1024 * kSteps + k];
      for (size_t placement = 0; placement < (front ? 2 : 1); ++placement) {
        totals[2 * placement] += design.score(released(sumOf(slots, design, design.canary), coin, step));
        totals[2 * placement + 1] += design.score(released(sumOf(slots, design, 0), coin, step));
        std::fill(std::remove(slots.begin(), slots.end(), -1), slots.end(), -1);
      }
    }
    scores.with.push_back(totals[0]);
    scores.without.push_back(totals[1]);
    if (front) {
      front->with.push_back(totals[2]);
      front->without.push_back(totals[3]);
    }
  }
  return scores;
}

class SlotAudit : public AuditTest {
protected:
  double claimOf(const Design &design) {
    const Dataset rows = rowsOf(design);
    PrivateTerms terms;
    terms.releases = {{.rho = 1 / (2 * kSigma * kSigma)}};
    return privacy::bestOrderEpsilon(kSteps * Step(moduleFor(design), terms, rows).charge(), kDelta);
  }
};

} // namespace

TEST_F(SlotAudit, WhatOthersAddIsNotKnown) {
  // Row 0 is -1 or null, all others are 1. With drawn rows in front the first 64 slots sum to 64, but to 63 (null) or
  // 62 where row 0 is among them: what others add is known, and with it the draw, which is what amplification has to
  // hide. 200,000 times 8 steps: in front worth 2.1 (1.85 where all rates are five
  // deviations off), 1.62 is claimed. In random slots others hide row 0 altogether.
  const Design design{64, -1, 1, [](double sum) {
                        const double z = 64 - sum, first = kRate * 64 / kExpected;
                        auto density = [&](double shift) {
                          return std::exp(-(z - shift) * (z - shift) / (2 * kSigma * kSigma));
                        };
                        auto mixture = [&](double shift) {
                          return std::log((1 - first) * density(0) + first * density(shift) + 1e-300);
                        };
                        return mixture(2) - mixture(1);
                      }};
  const size_t transcripts = 200000 * auditScale();
  Audit audit(transcripts, kDelta);
  Scores law;
  std::normal_distribution<double> normal(0, kSigma);
  std::binomial_distribution<int64_t> others(kRows - 1, kRate);
  std::uniform_real_distribution<double> uniform;
  for (auto [into, moved] : {std::pair(&law.with, 2.0), std::pair(&law.without, 1.0)}) {
    for (int run = 0; run < 100000; ++run) {
      double total = 0;
      for (size_t k = 0; k < kSteps; ++k) {
        const int64_t count = others(random);
        const bool isDrawn = uniform(random) < kRate;
        const bool isSummed = isDrawn && uniform(random) * static_cast<double>(count + 1) < 64;
        const double sum = static_cast<double>(std::min<int64_t>(count + isDrawn, 64)) - (isSummed ? moved : 0);
        total += design.score(sum + normal(random));
      }
      into->push_back(total);
    }
  }
  audit.aim(law);
  Scores front;
  const Scores ours = play(design, transcripts, &front);
  const double claim = claimOf(design), bound = audit.epsilon(ours), control = audit.epsilon(front);
  print("sum of 64 slots", claim, audit, bound);
  print("sum of 64 slots, drawn rows in front", claim, audit, control);
  EXPECT_LE(bound, claim);
  EXPECT_GT(control, claim) << "the audit sees what it is for";
}

TEST_F(SlotAudit, OneRowAlone) {
  // Row 0 is 1 or null, all others are 0; it is in one of the first 150 of 200 slots at a rate of 0.0375. 80,000 times
  // 8 steps: half of the noise is worth 2.7 (2.1 in the worst case), 1.62 is claimed.
  const size_t transcripts = 80000 * auditScale();
  const double rate = kRate * 150 / static_cast<double>(slotsFor(kExpected));
  const Design design{150, 1, 0, [rate](double sum) { return sampledScore(sum, rate, kSigma); }};
  Audit audit(transcripts, kDelta);
  for (double noise : {kSigma, kSigma / 2}) {
    audit.aim(simulate(random, rate, kSigma, noise, 1, kSteps));
  }
  compare("sum of 150 slots", claimOf(design), audit, {{"halved noise", {.halvesNoise = true}}},
          [&] { return play(design, transcripts); });
}

} // namespace sojourn::owner::test
