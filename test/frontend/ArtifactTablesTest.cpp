// SPDX-License-Identifier: Apache-2.0
// Steps compiled over descriptions of an owner's tables, from C++: the oracle is the traced loop.
#include "frontend/ahead/Artifact.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

namespace {

using namespace sojourn;

constexpr int64_t kRows = 45;

/// Weights of one linear layer, trained by hand.
struct Model {
  explicit Model(c10::Device device)
      : weight(torch::zeros({2, 3}, device).requires_grad_()), bias(torch::zeros({3}, device).requires_grad_()) {}
  at::Tensor train(const at::Tensor &x, const at::Tensor &y) {
    at::Tensor loss = torch::cross_entropy_loss(torch::matmul(x, weight) + bias, y);
    std::vector<at::Tensor> gradients = torch::autograd::grad({loss}, {weight, bias});
    torch::NoGradGuard guard;
    weight.sub_(gradients[0] * 0.1);
    bias.sub_(gradients[1] * 0.1);
    return loss.detach();
  }
  at::Tensor weight, bias;
};

class ArtifactTables : public testing::Test {
protected:
  void SetUp() override {
    auto seed = std::random_device{}();
    std::printf("seed %u\n", seed);
    torch::manual_seed(seed);
    options.seed = static_cast<int64_t>(seed);
    owner.emplace(local());
    data = {{"age", torch::randint(0, 9, {kRows}, at::kLong)},
            {"weight", torch::randn({kRows}, at::kDouble)},
            {"y", torch::randint(0, 3, {kRows}, at::kInt)}};
    table.emplace(owner->registerDataset("people", data, {.policy = "open", .bounds = {}, .fills = {}}));
  }
  void TearDown() override { owner->close(); }

  static Dataset described() {
    return {
        "train", "", "", kRows, {{"age", at::kLong, {}, {}}, {"weight", at::kDouble, {}, {}}, {"y", at::kInt, {}, {}}}};
  }

  Artifact compiled(const Dataset &spec) const {
    Offline offline;
    Table train = specTable(offline, spec).split(0.7, 3).first;
    std::optional<Model> model;
    return compile(
        offline, [&] { model.emplace(offline.device()); },
        [&](const std::vector<at::Tensor> &given) {
          publishLater({model->train(given.at(0), given.at(1)), given[1]});
        },
        {}, {train.batches(options)});
  }

  static std::string thrown(const std::function<void()> &call) {
    try {
      call();
    } catch (const Error &error) {
      return error.text();
    }
    return "nothing was thrown";
  }

  BatchOptions options{
      .features = {"age", "weight"}, .label = "y", .size = 7, .epochs = 3, .seed = 0, .dropLast = true};
  std::vector<std::pair<std::string, at::Tensor>> data;
  std::optional<Owner> owner;
  std::optional<Table> table;
};

TEST_F(ArtifactTables, RunsAreTheTracedLoop) {
  auto path = std::filesystem::temp_directory_path() / ("tables-" + std::to_string(std::random_device{}()));
  compiled(described()).save(path.string());
  Artifact artifact = Artifact::load(path.string());
  std::filesystem::remove(path);
  Batches batches = table->split(0.7, 3).first.batches(options);
  ASSERT_EQ(artifact.steps(), batches.size());
  EXPECT_EQ(artifact.steps(), 3 * 4);

  auto before = owner->counters();
  ArtifactRun run(artifact, *owner, {{"train", "people"}});
  std::vector<std::vector<at::Tensor>> published;
  for (int64_t i = 0; i < artifact.steps(); ++i) {
    published.push_back(run.step({}));
  }
  auto after = owner->counters();
  EXPECT_EQ(after["uploads"], before["uploads"]);
  EXPECT_EQ(after["round_trips"] - before["round_trips"], 2 + published.size());
  EXPECT_NE(thrown([&] { run.step({}); }).find("all 12 batches of the compiled step have been served"),
            std::string::npos);

  Model model(owner->device());
  int64_t index = 0;
  for (auto [x, y] : batches) {
    std::vector<Published> traced = step([&] { return publishLater({model.train(x, y), y}); });
    EXPECT_TRUE(torch::equal(published[index][0], traced[0].value())) << "loss of step " << index;
    EXPECT_TRUE(torch::equal(published[index][1], traced[1].value())) << "labels of step " << index;
    ++index;
  }
}

/// A compiled step takes the tensors in the order of their names, the label last.
TEST_F(ArtifactTables, NamedFeaturesOfACompiledStep) {
  options.features = {};
  options.named = {{"weight", "weight"}, {"row", {"age"}}};
  Offline offline;
  Artifact artifact = compile(
      offline, [] {},
      [&](const std::vector<at::Tensor> &given) {
        publishLater({given.at(0).sum(), given.at(1) * 2, given.at(2)});
      },
      {}, {specTable(offline, described()).batches(options)});
  ArtifactRun run(artifact, *owner, {{"train", "people"}});
  const int64_t perEpoch = kRows / options.size;
  ASSERT_EQ(artifact.steps(), options.epochs * perEpoch);
  for (int64_t i = 0; i < artifact.steps(); ++i) {
    const std::vector<at::Tensor> published = run.step({});
    const std::vector<at::Tensor> order = batchIndices(kRows, options.size, options.seed, i / perEpoch, true);
    const at::Tensor rows = order.at(static_cast<size_t>(i % perEpoch));
    const at::Tensor weights = data[1].second.index_select(0, rows).to(at::kFloat);
    EXPECT_TRUE(at::allclose(published.at(0), weights.sum(), 1e-5, 1e-5));
    EXPECT_TRUE(torch::equal(published.at(1), data[0].second.index_select(0, rows).to(at::kFloat).unsqueeze(1) * 2));
    EXPECT_TRUE(torch::equal(published.at(2), data[2].second.index_select(0, rows).to(at::kLong)));
  }
}

TEST_F(ArtifactTables, OtherDatasetsAreRefused) {
  Artifact artifact = compiled(described());
  auto start = [&](const Artifact &what, const std::string &name) {
    return thrown([&] { ArtifactRun(what, *owner, {{"train", name}}); });
  };
  EXPECT_EQ(start(artifact, "people"), "nothing was thrown");
  EXPECT_NE(start(artifact, "peopel")
                .find("has no dataset 'peopel' for table 'train' of the compiled step; did you "
                      "mean 'people'?"),
            std::string::npos);
  EXPECT_NE(thrown([&] {
              ArtifactRun(artifact, *owner, {{"test", "people"}});
            }).find("reads no table 'test'"),
            std::string::npos);
  Dataset spec = described();
  spec.rows = 44;
  EXPECT_EQ(start(compiled(spec), "people"), "nothing was thrown") << "batches are counted when a run starts";
  spec = described();
  spec.columns[1].dtype = at::kFloat;
  EXPECT_NE(start(compiled(spec), "people").find("'weight' is float64, but the step was compiled for float32"),
            std::string::npos);
  spec = described();
  spec.columns[1].bounds = {-1, 1};
  EXPECT_NE(
      start(compiled(spec), "people").find("'weight' has no bounds, but the step was compiled for bounds [-1, 1]"),
      std::string::npos);
  // A column that the step does not read may differ.
  spec = described();
  spec.columns.push_back({"height", at::kHalf, {}, {2}});
  EXPECT_EQ(start(compiled(spec), "people"), "nothing was thrown");
}

/// A file is read as it was saved or not at all; the Python tests change each of its bytes.
TEST_F(ArtifactTables, DamagedFilesAreRefused) {
  auto path = std::filesystem::temp_directory_path() / ("damaged-" + std::to_string(std::random_device{}()));
  compiled(described()).save(path.string());
  auto read = [&] {
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  auto load = [&](const std::string &bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
    return thrown([&] { Artifact::load(path.string()); });
  };
  std::string whole = read();
  EXPECT_EQ(load(whole), "nothing was thrown");
  std::string flipped = whole;
  flipped[whole.size() / 2] ^= 1;
  for (const std::string &damaged : {flipped, whole.substr(0, whole.size() - 1), whole + '\0'}) {
    std::string text = load(damaged);
    EXPECT_NE(text.find("is damaged: it ends with the checksum "), std::string::npos) << text;
    EXPECT_NE(text.find("; copy it again, or compile it again"), std::string::npos) << text;
  }
  std::filesystem::remove(path);
}

/// Of a private table: what it would cost is known from the file, and the description has to be so.
TEST_F(ArtifactTables, PrivateOnesAreQuotedWithoutAnOwner) {
  Dataset spec = described();
  spec.policy = "private";
  EXPECT_NE(thrown([&] { compiled(spec); }).find("it is private, but column 'age' has no bounds"), std::string::npos);
  for (Column &column : spec.columns) {
    column.bounds = {0, 9};
  }
  spec.defaults = {1.5, 2, 2};
  options.size = 8; // Poisson draws of 31 rows, 4 steps an epoch
  Offline offline;
  Table train = specTable(offline, spec).split(0.7, 3).first;
  std::optional<Model> model;
  auto path = std::filesystem::temp_directory_path() / ("private-" + std::to_string(std::random_device{}()));
  compile(
      offline, [&] { model.emplace(offline.device()); },
      [&](const std::vector<at::Tensor> &given) { model->train(given.at(0), given.at(1)); }, {},
      {train.batches(options)})
      .save(path.string());
  Artifact artifact = Artifact::load(path.string());
  std::filesystem::remove(path);
  EXPECT_EQ(artifact.tables[0].policy, "private");
  EXPECT_EQ(artifact.steps(), 3 * 4);

  RunQuote stated = quoteRun(artifact, "train", 1e-5, 0, 0);
  EXPECT_EQ(stated.noiseMultiplier, 1.5) << "the default that was described";
  EXPECT_EQ(stated.steps, 12);
  EXPECT_DOUBLE_EQ(stated.samplingRate, 8.0 / static_cast<double>(train.rows()));
  RunQuote asked = quoteRun(artifact, "train", 1e-5, stated.epsilon, 0);
  EXPECT_NEAR(asked.noiseMultiplier, 1.5, 1e-6);
  EXPECT_LT(quoteRun(artifact, "train", 1e-5, 0, 1.5, 3).epsilon, stated.epsilon);
  EXPECT_NE(thrown([&] { quoteRun(artifact, "cars", 1e-5, 1, 0); }).find("reads no table 'cars'"), std::string::npos);
  EXPECT_NE(thrown([&] {
              quoteRun(artifact, "train", 1e-5, 1e-9, 0);
            }).find("no amount of noise keeps this run within epsilon"),
            std::string::npos);
  double nan = std::nan(""), infinity = INFINITY;
  struct Wrong {
    double delta, epsilon, noiseMultiplier;
    std::string text;
  };
  for (const auto &[delta, epsilon, noise, text] : {
           Wrong{0, 1, 0, "delta must be a number above 0 and below 1, got 0"},
           Wrong{1, 1, 0, "delta must be a number above 0 and below 1, got 1"},
           Wrong{nan, 1, 0, "delta must be a number above 0 and below 1, got nan"},
           Wrong{1e-5, -1, 0, "epsilon must be a number above 0 and at most 1.04858e+06, got -1"},
           Wrong{1e-5, nan, 0, "epsilon must be a number above 0 and at most 1.04858e+06, got nan"},
           Wrong{1e-5, infinity, 0, "epsilon must be a number above 0 and at most 1.04858e+06, got inf"},
           Wrong{1e-5, 0, -1, "noise_multiplier must be a number from 0.000976562 to 1.04858e+06, got -1"},
           Wrong{1e-5, 0, nan, "noise_multiplier must be a number from 0.000976562 to 1.04858e+06, got nan"},
           Wrong{1e-5, 0, 0x1p21, "noise_multiplier must be a number from 0.000976562 to 1.04858e+06, got 2097152"},
           Wrong{1e-5, 1, 1, "give epsilon (the noise follows) or noise_multiplier (the price follows), not both"},
       }) {
    EXPECT_EQ(thrown([&] { quoteRun(artifact, "train", delta, epsilon, noise); }), text);
  }
  for (int64_t steps : {0, -3}) {
    EXPECT_NE(thrown([&] {
                quoteRun(artifact, "train", 1e-5, 1, 0, steps);
              }).find("the run has " + std::to_string(steps) + " steps, expected at least 1"),
              std::string::npos);
  }
  EXPECT_NE(thrown([&] {
              ArtifactRun(artifact, *owner, {{"train", "people"}});
            }).find("its policy is open, but the step was compiled for private"),
            std::string::npos);
}

TEST_F(ArtifactTables, ImpossibleDescriptionsAreRefused) {
  Offline offline;
  auto told = [&](const Dataset &spec) { return thrown([&] { specTable(offline, spec); }); };
  Dataset spec = described();
  spec.name = "";
  EXPECT_NE(told(spec).find("the name of a table has 0 bytes"), std::string::npos);
  spec = described();
  spec.rows = -1;
  EXPECT_NE(told(spec).find("table 'train' is invalid: it has -1 rows"), std::string::npos);
  spec = described();
  spec.columns.push_back(spec.columns[0]);
  EXPECT_NE(told(spec).find("two columns are named 'age'"), std::string::npos);

  // Two of one name in one step, and a batch that is short.
  Table first = specTable(offline, described()), second = specTable(offline, described());
  auto sum = [&](const std::vector<at::Tensor> &given) { publishLater({given.at(0).sum() + given.at(2).sum()}); };
  EXPECT_NE(thrown([&] {
              compile(offline, [] {}, sum, {}, {first.batches(options), second.batches(options)});
            }).find("reads two tables named 'train'"),
            std::string::npos);
  options.dropLast = false;
  EXPECT_NE(thrown([&] {
              compile(offline, [] {}, sum, {}, {first.batches(options)});
            }).find("the last batch of each epoch has 3 of 7 rows"),
            std::string::npos);
}

} // namespace
