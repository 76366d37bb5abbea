// SPDX-License-Identifier: Apache-2.0
// Goal: what a client is told in a loop of steps stays within the price that the run was quoted. Method: whole messages
// at an owner with its ledger and its coins; the client compares the weights of all steps with those before. Each row
// of 64 moves a weight of its own if it is there, so a loop audits 64 of them.
#include "owner/Accounts.h"
#include "runtime/privacy/Plan.h"
#include "test/owner/AuditSupport.h"

namespace sojourn::owner::test {

namespace {

constexpr int64_t kRows = 640, kExpected = 64;
constexpr double kRate = 0.1, kDelta = 1e-2, kRateOfLearning = 0x1p-10;
/// Steps of a loop, all in one message.
constexpr size_t kSteps = 32;

using MessageAudit = AuditTest;

std::string kept() { return "tensor<64xf32> {sojourn.result = \"keep\"}"; }

/// w <- w - rate * gradient of (x w)^2, the next w is published.
runtime::EncodedProgram trainProgram() {
  const int64_t slots = slotsFor(kExpected);
  const std::string n = "tensor<" + text(slots), type = tableType(kRows, kCanaries);
  return encode(moduleText(
      "(" + argument("w", "tensor<64xf32>", "state") + ", " + kSeed + ", " + argument("t", type, "table") +
          ") -> (tensor<64xf32> {sojourn.result = \"commit\", sojourn.target = 0 : i64}, " +
          published("tensor<64xf32>") + ")",
      batch(kExpected, slots, type, n + "x64xf32>") +
          "    %two = sojourn.constant 2.0 : f32\n    %rate = sojourn.constant 0.0009765625 : f32\n"
          "    %o = sojourn.dot %x, %w, lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [0] : " +
          n + "x64xf32>, tensor<64xf32> -> " + n + "xf32>\n    %d = sojourn.mul %o, %two : " + n +
          "xf32>, tensor<f32>\n"
          "    %g = sojourn.dot %d, %x, lhs_batch = [], rhs_batch = [], lhs_contract = [0], rhs_contract = [0] : " +
          n + "xf32>, " + n +
          "x64xf32> -> tensor<64xf32>\n    %r = sojourn.mul %g, %rate : tensor<64xf32>, tensor<f32>\n"
          "    %next = sojourn.sub %w, %r : tensor<64xf32>, tensor<64xf32>\n"
          "    return %next, %next : tensor<64xf32>, tensor<64xf32>"));
}

/// Loops at an owner of their own; a session each.
Scores playLoops(size_t loops, double noiseMultiplier, double price) {
  World world;
  Owner owner(world.environment());
  EXPECT_EQ(owner.status(), "");
  const Dataset rows = canaries(kRows, 2);
  RegisterOptions options;
  options.name = "people";
  options.subject = "";
  options.bounds = {{"v", {-2, 2}}};
  EXPECT_EQ(errorText(owner.registerDataset({"", {{"v", Element::f64, kRows, rows.columns()[0].data, {64}}}}, options)),
            "");
  EXPECT_EQ(errorText(owner.grant(kLocalClient, "people", 0x1p19, kDelta)), "");
  const runtime::EncodedProgram keep = encode(moduleText(
      "(" + argument("w", "tensor<64xf32>", "upload") + ") -> (" + kept() + ")", "    return %w : tensor<64xf32>"));
  const runtime::EncodedProgram train = trainProgram();
  Scores scores;
  for (size_t loop = 0; loop < loops; ++loop) {
    Client client(owner);
    StepRequest first;
    first.uploads = {f32({kCanaries}, std::vector<float>(kCanaries, 1))};
    first.results = {1};
    EXPECT_EQ(client.run(keep, first).error(), "");
    StepRequest step;
    step.states = {1};
    step.seeds = {loop};
    step.tables = {"people"};
    step.spending.run = 1;
    step.spending.steps = kSteps;
    step.spending.noiseMultiplier = noiseMultiplier;
    step.spending.clip = 1;
    step.spending.lossIsSum = true;
    step.spending.metricShare = 0;
    for (size_t k = 1; k < kSteps; ++k) {
      step.repetitions.emplace_back().seeds = {loop};
    }
    const Reply reply = client.run(train, step);
    if (!reply.error().empty() || reply.root->body_as_Done()->steps() != kSteps) {
      ADD_FAILURE() << reply.error();
      return scores;
    }
    std::vector<float> before(kCanaries, 1);
    std::vector<double> total(kCanaries);
    for (unsigned k = 0; k < kSteps; ++k) {
      const auto after = values<float>(reply.published(k));
      for (size_t at = 0; at < kCanaries; ++at) {
        total[at] += sampledScore((before[at] - after[at]) / kRateOfLearning, kRate, noiseMultiplier);
      }
      before = after;
    }
    for (size_t at = 0; at < kCanaries; ++at) {
      (at % 2 == 0 ? scores.with : scores.without).push_back(total[at]);
    }
    client.send(byeBytes(client.session));
    if (loop == 0) { // what was quoted is what is charged
      auto budget = owner.accounts().budget(kLocalClient, "people");
      EXPECT_TRUE(bool(budget));
      EXPECT_NEAR(budget->epsilon - budget->epsilonLeft, price, 1e-3 * price);
    }
  }
  return scores;
}

} // namespace

TEST_F(MessageAudit, Loops) {
  // 700 messages of 32 steps: 22,400 canaries there, as many not. Half of the noise is worth 3.4 (2.9 where all
  // rates are five deviations off), 2.4 is claimed.
  constexpr double kNoise = 1;
  const size_t loops = 700 * auditScale();
  const int64_t slots = slotsFor(kExpected);
  privacy::TrainingPlan plan;
  plan.rate = kRate;
  plan.steps = kSteps;
  plan.overflow = privacy::overflowMass(kRows, kRate, slots);
  plan.extraFailure = 0x1p-70;
  const double claim = *privacy::plannedEpsilonOf(plan, kNoise, kDelta);
  const double price = *privacy::epsilonOf(plan, kNoise, kDelta);
  Audit audit(loops * kCanaries / 2, kDelta);
  for (auto [noise, shift] : {std::pair(1.0, 1.0), {0.5, 1.0}, {1.0, 8.0}}) {
    audit.aim(simulate(random, kRate, kNoise, noise, shift, kSteps));
  }
  compare("loop of 32 steps", claim, audit,
          {{"halved noise", {.halvesNoise = true}}, {"forgotten clip", {.forgetsClip = true}}},
          [&] { return playLoops(loops, kNoise, price); });
}

} // namespace sojourn::owner::test
