// SPDX-License-Identifier: Apache-2.0
// Steps of three owners in one process, traced and compiled ahead of time: in float64 the training of plain libtorch on
// all rows, to 1e-12.
#include "frontend/ahead/Artifact.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdio>
#include <filesystem>
#include <random>

namespace {

using namespace sojourn;

using Columns = std::vector<std::pair<std::string, at::Tensor>>;

/// A small network whose weights start alike everywhere.
struct Net : torch::nn::Module {
  explicit Net(at::Tensor start)
      : first(register_parameter("first", start.slice(0, 0, 2).clone())),
        second(register_parameter("second", start.slice(0, 2, 4).t().contiguous().clone())) {}
  at::Tensor forward(const at::Tensor &x) { return x.mm(first).tanh().mm(second); }
  at::Tensor first, second;
};

struct Training {
  Training(const at::Tensor &start, c10::Device device)
      : net(start.to(device)),
        optimizer(net.parameters(), torch::optim::SGDOptions(0.2).momentum(0.9).weight_decay(1e-3)) {}
  at::Tensor step(const at::Tensor &x, const at::Tensor &y) {
    optimizer.zero_grad();
    at::Tensor loss = torch::cross_entropy_loss(net.forward(x), y);
    loss.backward();
    optimizer.step();
    return loss.detach();
  }
  Net net;
  torch::optim::SGD optimizer;
};

class PartiesAhead : public testing::Test {
protected:
  void SetUp() override {
    const auto seed = std::random_device{}();
    std::printf("seed %u\n", seed);
    torch::manual_seed(seed);
    options.seed = seed;
    std::mt19937 dice(seed);
    for (const std::string name : {"a", "b", "c"}) {
      const int64_t rows = 20 + static_cast<int64_t>(dice() % 40);
      const auto real = at::device(at::kCPU).dtype(at::kDouble);
      data.push_back({{"age", torch::randn({rows}, real)},
                      {"dose", torch::randn({rows}, real)},
                      {"y", torch::randint(0, 2, {rows}, at::kLong)}});
      counts.push_back(rows);
      names.push_back(name);
      owners.push_back(local());
      owners.back().registerDataset("patients", data.back(), {.policy = "open", .bounds = {}, .fills = {}});
      plains.push_back(plain(data.back(), {.name = "patients"}));
    }
    for (size_t at = 0; at < 3; ++at) {
      owners[at].share("patients", {owners[(at + 1) % 3], owners[(at + 2) % 3]});
    }
    start = torch::randn({4, 5}, at::kDouble) / 2;
    options.dropLast = true;
  }
  void TearDown() override {
    for (const Owner &owner : owners) {
      owner.close();
    }
  }

  /// Losses, then the weights.
  std::vector<at::Tensor> expected() const {
    Training plain(start, at::kCPU);
    std::vector<at::Tensor> values;
    for (auto [x, y] : pooled(plains).batches(options)) {
      values.push_back(plain.step(x, y));
    }
    values.insert(values.end(), {plain.net.first.detach(), plain.net.second.detach()});
    return values;
  }

  Artifact compiled() const {
    Offline offline(names);
    std::vector<Table> tables;
    for (size_t at = 0; at < 3; ++at) {
      Dataset described{.name = names[at],
                        .rows = counts[at],
                        .columns = {{"age", at::kDouble}, {"dose", at::kDouble}, {"y", at::kLong}}};
      described.party = names[at];
      tables.push_back(specTable(offline, described));
    }
    std::optional<Training> training;
    return compile(
        offline, [&] { training.emplace(start, offline.device()); },
        [&](const std::vector<at::Tensor> &given) { publishLater({training->step(given.at(0), given.at(1))}); }, {},
        {pooled(tables).batches(options)}, std::nullopt,
        [&] {
          return std::vector<at::Tensor>{training->net.first.detach(), training->net.second.detach()};
        });
  }

  static std::vector<at::Tensor> valuesOf(ArtifactRun &run, int64_t perTrip) {
    std::vector<at::Tensor> values;
    const int64_t steps = run.artifact().steps().value();
    for (int64_t done = 0; done < steps;) {
      ArtifactSteps some = run.steps(std::vector<std::vector<at::Tensor>>(std::min(perTrip, steps - done)));
      EXPECT_FALSE(some.failure);
      for (const auto &published : some.published) {
        values.push_back(published.at(0));
      }
      done += some.committed;
    }
    for (const at::Tensor &weight : run.state()) {
      values.push_back(weight);
    }
    return values;
  }

  static void expectSame(const std::vector<at::Tensor> &found, const std::vector<at::Tensor> &expected) {
    ASSERT_EQ(found.size(), expected.size());
    for (size_t at = 0; at < found.size(); ++at) {
      EXPECT_LE((found[at] - expected[at]).abs().max().item<double>(), 1e-12) << "value " << at;
    }
  }

  static std::string thrown(const std::function<void()> &call) {
    try {
      call();
    } catch (const Error &error) {
      return error.text();
    }
    return "nothing was thrown";
  }

  std::map<std::string, Owner> players() const { return {{"a", owners[0]}, {"b", owners[1]}, {"c", owners[2]}}; }

  const std::map<std::string, std::string> datasets{{"a", "patients"}, {"b", "patients"}, {"c", "patients"}};
  BatchOptions options{
      .features = {"age", "dose"}, .label = "y", .size = 14, .epochs = 3, .seed = 0, .dtype = at::kDouble};
  std::vector<Columns> data;
  std::vector<int64_t> counts;
  std::vector<std::string> names;
  std::vector<Owner> owners;
  std::vector<Table> plains;
  at::Tensor start;
};

TEST_F(PartiesAhead, TracedStepsTrainAsOnAllRows) {
  options.dropLast = false;
  const Parties group = parties(owners);
  Training training(start, group.device());
  std::vector<at::Tensor> found;
  for (auto [x, y] : group.rows("patients").batches(options)) {
    const auto [images, labels] = std::pair(x, y);
    found.push_back(step([&] { return publishLater({training.step(images, labels)}); })[0].value());
  }
  found.insert(found.end(), {publish(training.net.first.detach()), publish(training.net.second.detach())});
  expectSame(found, expected());
  group.close();
}

TEST_F(PartiesAhead, ArtifactsTrainAsOnAllRows) {
  const auto path = std::filesystem::temp_directory_path() / ("parties-" + std::to_string(std::random_device{}()));
  compiled().save(path.string());
  const Artifact artifact = Artifact::load(path.string());
  std::filesystem::remove(path);
  EXPECT_EQ(artifact.parties, names);
  const std::vector<at::Tensor> plain = expected();
  for (int64_t perTrip : {1, 6}) {
    ArtifactRun byParty(artifact, players(), datasets);
    expectSame(valuesOf(byParty, perTrip), plain);
    const Parties group = parties(owners);
    ArtifactRun inGroup(artifact, group, datasets);
    expectSame(valuesOf(inGroup, perTrip), plain);
  }
  // One owner plays all: the oracle, which needs no group.
  const Owner one = local();
  for (size_t at = 0; at < 3; ++at) {
    one.registerDataset(names[at], data[at], {.policy = "open", .bounds = {}, .fills = {}});
  }
  ArtifactRun alone(artifact, one);
  expectSame(valuesOf(alone, 4), plain);
  ArtifactRun all(artifact, std::map<std::string, Owner>{{"a", one}, {"b", one}, {"c", one}});
  expectSame(valuesOf(all, 4), plain);
  one.close();
}

TEST_F(PartiesAhead, ModulesAreCopiedToAGroup) {
  const Parties group = parties(owners);
  torch::nn::Linear onCpu(torch::nn::LinearOptions(2, 3));
  onCpu->to(at::kDouble);
  auto copy = toOwner(*onCpu, group);
  const at::Tensor x = torch::randn({5, 2}, at::kDouble);
  EXPECT_TRUE(torch::allclose(publish(copy->forward(x.to(group.device()))), onCpu->forward(x), 1e-13, 1e-13));
  group.close();
}

TEST_F(PartiesAhead, WhatDoesNotFitIsRefused) {
  const Artifact artifact = compiled();
  EXPECT_NE(thrown([&] {
              ArtifactRun(artifact, std::map<std::string, Owner>{{"a", owners[0]}, {"b", owners[1]}}, datasets);
            }).find("no owner plays party 'c' of the program; name the owner of each of its parties: a, b, c"),
            std::string::npos);
  EXPECT_NE(thrown([&] {
              ArtifactRun(artifact, parties({owners[0], owners[1]}), datasets);
            }).find("the program has 3 parties (a, b, c), but the group of local, local has 2 members"),
            std::string::npos);
  EXPECT_NE(thrown([&] { Offline({"a"}); }).find("has 2 to 16 parties, got 1 (a)"), std::string::npos);
  EXPECT_NE(thrown([&] { Offline({"a", "a"}); }).find("two parties are named 'a'"), std::string::npos);
  EXPECT_NE(thrown([&] { Offline({"a", ""}); }).find("the name of a party has 0 bytes"), std::string::npos);
  Dataset described{.name = "t", .rows = 9, .columns = {{"age", at::kDouble}}};
  described.party = "d";
  EXPECT_NE(thrown([&] { specTable(Offline(), described); }).find("the device records for one owner"),
            std::string::npos);
  EXPECT_NE(thrown([&] { specTable(Offline(names), described); }).find("table 't' is of party 'd'"), std::string::npos);
  EXPECT_NE(thrown([&] { parties({owners[0], owners[0]}); }), "nothing was thrown");
}

} // namespace
