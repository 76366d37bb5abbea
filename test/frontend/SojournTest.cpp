// SPDX-License-Identifier: Apache-2.0
// The C++ surface as a user meets it: an embedded owner beside plain CPU tensors, which are the oracle.
#include "frontend/tables/Rows.h"
#include "frontend/flight/Flights.h"
#include "frontend/Sojourn.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

namespace {

using namespace sojourn;

constexpr int64_t kRows = 37;

std::vector<std::pair<std::string, at::Tensor>> people() {
  return {{"age", torch::randint(0, 100, {kRows}, at::kLong)},
          {"weight", torch::randn({kRows}, at::kDouble) * 12 + 70},
          {"smoker", torch::rand({kRows}) < 0.3},
          {"y", torch::randint(0, 3, {kRows}, at::kInt)}};
}

class Surface : public testing::Test {
protected:
  void SetUp() override {
    seed = std::random_device{}();
    std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
    torch::manual_seed(seed);
    data = people();
    owner.emplace(local());
    here.emplace(plain(data, {.name = "people"}));
    there.emplace(owner->registerDataset("people", data, {.policy = "open", .bounds = {}, .fills = {}}));
  }
  void TearDown() override { owner->close(); }

  /// Kind and text of what `call` throws.
  template <class Call>
  static std::pair<ErrorKind, std::string> thrown(Call &&call) {
    try {
      call();
    } catch (const Error &error) {
      return {error.kind(), error.what_without_backtrace()};
    }
    return {ErrorKind::Error, "nothing was thrown"};
  }

  uint64_t seed = 0;
  std::vector<std::pair<std::string, at::Tensor>> data;
  std::optional<Owner> owner;
  std::optional<Table> here, there;
};

bool same(const at::Tensor &a, const at::Tensor &b) { return a.dtype() == b.dtype() && torch::equal(a, b); }

TEST_F(Surface, ColumnsAndWholeRows) {
  EXPECT_EQ(there->title(), "people: 37 rows, 4 columns, policy open");
  EXPECT_EQ(there->str(), here->str());
  for (const auto &[name, values] : data) {
    EXPECT_TRUE(same((*here)[name], values)) << name;
    EXPECT_TRUE(same(publish((*there)[name]), values)) << name;
  }
  at::Tensor wide = at::stack({data[1].second, data[0].second.to(at::kDouble)}, 1);
  EXPECT_TRUE(same(here->rows({"weight", "age"}, at::kDouble), wide));
  EXPECT_TRUE(same(publish(there->rows({"weight", "age"}, at::kDouble)), wide));
}

/// Codes of tensors, and texts of a file: one description, here and from the owner.
TEST_F(Surface, ColumnsSayWhatTheirNumbersStandFor) {
  const std::string path = std::filesystem::temp_directory_path() / ("sojourn-" + std::to_string(seed) + ".csv");
  std::ofstream(path) << "arm,visit\nhigh,2024-03-01\n,1969-12-31\nlow,1970-01-02\n";
  std::map<std::string, Meaning> meanings{{"arm", {.texts = {"low", "high"}}}};
  Table file = plain(path, {.meanings = meanings, .fillTexts = {{"arm", "high"}}});
  std::filesystem::remove(path);
  auto codes = at::tensor({1, 1, 0}, at::kLong), days = at::tensor({19783, -1, 1}, at::kLong);
  meanings["visit"].unit = Unit::Days;
  RegisterOptions options{.policy = "open", .bounds = {}, .fills = {{"arm", 1}}, .meanings = meanings};
  Table table = owner->registerDataset("visits", {{{"arm", codes}, {"visit", days}}}, options);
  EXPECT_EQ(table.meanings(), (std::vector<std::string>{"arm: 0 low, 1 high; missing entries are 1 high",
                                                        "visit: days since 1970-01-01"}));
  EXPECT_EQ(file.meanings(), table.meanings());
  EXPECT_NE(table.str().find("\n  arm: 0 low, 1 high; missing"), std::string::npos) << table.str();
  EXPECT_EQ(table.columns()[0].bounds, std::make_optional(std::pair(0.0, 1.0)));
  EXPECT_TRUE(same(file["arm"], codes) && same(file["visit"], days));
  EXPECT_TRUE(same(publish(table["arm"]), codes) && same(publish(table["visit"]), days));
  EXPECT_EQ((*there).columns()[0].meaning, nullptr);
}

TEST_F(Surface, BatchesFollowTheDocumentedOrder) {
  std::mt19937_64 dice(seed);
  for (bool dropLast : {false, true}) {
    auto size = static_cast<int64_t>(1 + dice() % 20);
    auto order = static_cast<int64_t>(dice());
    BatchOptions options{
        .features = {"weight", "age"}, .label = "y", .size = size, .epochs = 2, .seed = order, .dropLast = dropLast};
    Batches ours = there->batches(options), theirs = here->batches(options);
    EXPECT_EQ(ours.size(), 2 * (dropLast ? kRows / size : (kRows + size - 1) / size));
    int64_t index = 0;
    for (auto [x, y] : ours) {
      at::Tensor rows = batchIndices(kRows, size, order, index / ours.perEpoch(), dropLast)
                            .at(static_cast<size_t>(index % ours.perEpoch()));
      auto [localX, localY] = theirs.at(index++);
      EXPECT_TRUE(same(publish(x), localX) && same(publish(y), localY));
      EXPECT_TRUE(same(localX, at::stack({data[1].second, data[0].second}, 1).index_select(0, rows).to(at::kFloat)));
      EXPECT_TRUE(same(localY, data[3].second.index_select(0, rows).to(at::kLong)));
    }
    EXPECT_EQ(index, ours.size());
  }
}

/// A list, a column alone and the label of one draw: all at the rows of the documented order.
TEST_F(Surface, NamedFeaturesAreOfTheSameRows) {
  for (Table *table : {&*here, &*there}) {
    auto value = [&](const at::Tensor &tensor) { return table == &*there ? publish(tensor) : tensor; };
    BatchOptions options{.named = {{"row", {"weight", "age"}}, {"smoker", "smoker"}}, .label = "y", .size = 9};
    options.seed = static_cast<int64_t>(seed);
    Batches batches = table->batches(options);
    for (int64_t index = 0; index < batches.size(); ++index) {
      const at::Tensor rows = batchIndices(kRows, 9, options.seed, 0).at(static_cast<size_t>(index));
      const Batch batch = batches.at(index);
      EXPECT_TRUE(same(value(batch["row"]),
                       at::stack({data[1].second, data[0].second}, 1).index_select(0, rows).to(at::kFloat)));
      EXPECT_TRUE(same(value(batch["smoker"]), data[2].second.index_select(0, rows).to(at::kLong)));
      EXPECT_TRUE(same(value(batch.y), data[3].second.index_select(0, rows).to(at::kLong)));
      EXPECT_FALSE(batch.x.defined());
      const std::vector<at::Tensor> tensors = batch.tensors();
      ASSERT_EQ(tensors.size(), 3u);
      EXPECT_TRUE(tensors[0].is_same(batch["row"]) && tensors[2].is_same(batch.y));
    }
  }
}

TEST_F(Surface, ColumnsAloneAndLabelsKeepTheirKind) {
  for (Table *table : {&*here, &*there}) {
    auto value = [&](const at::Tensor &tensor) { return table == &*there ? publish(tensor) : tensor; };
    EXPECT_TRUE(same(value(table->rows("age")), data[0].second));
    EXPECT_TRUE(same(value(table->rows("weight")), data[1].second.to(at::kFloat)));
    EXPECT_TRUE(same(value(table->rows(std::string("smoker"))), data[2].second.to(at::kLong)));
    EXPECT_TRUE(same(value(table->rows("age", at::kDouble)), data[0].second.to(at::kDouble)));
    BatchOptions options{.features = "age", .label = "weight", .size = kRows, .shuffle = false};
    auto [x, y] = table->batches(options).at(0);
    EXPECT_TRUE(same(value(x), data[0].second));
    EXPECT_TRUE(same(value(y), data[1].second.to(at::kFloat)));
    options.labelDtype = at::kLong;
    EXPECT_TRUE(same(value(table->batches(options).at(0).y), data[1].second.to(at::kLong)));
  }
}

/// A table of columns of every kind, and what is asked of its rows.
class AskedRows final : public frontend::RowReader {
public:
  std::shared_ptr<frontend::RowReader> ofMember(const std::shared_ptr<frontend::Session> &, unsigned) override {
    return nullptr;
  }
  at::Tensor rows(const std::vector<std::string> &columns, bool alone, at::ScalarType dtype,
                  const frontend::RowNumbers &numbers) override {
    asked.push_back({columns, alone, dtype, frontend::evaluate(numbers, kCount)});
    return torch::zeros({1});
  }
  static constexpr int64_t kCount = 11; ///< rows of the table
  struct Request {
    std::vector<std::string> columns;
    bool alone;
    at::ScalarType dtype;
    at::Tensor numbers;
  };
  std::vector<Request> asked;
};

TEST(Table, ShapedColumnsAreReadAlone) {
  auto reader = std::make_shared<AskedRows>();
  Table table(reader, {"digits",
                       "open",
                       "",
                       AskedRows::kCount,
                       {{"image", at::kByte, std::nullopt, {28, 28}},
                        {"sound", at::kDouble, std::nullopt, {64}},
                        {"mask", at::kBool, std::nullopt, {2, 3, 4}},
                        {"digit", at::kByte, std::nullopt, {}},
                        {"mean", at::kHalf, std::nullopt, {}}}});
  EXPECT_NE(table.str().find("image   uint8 [28, 28]  none"), std::string::npos) << table.str();
  auto type = [&](const Features &features, std::optional<at::ScalarType> dtype = std::nullopt) {
    table.rows(features, dtype);
    EXPECT_EQ(reader->asked.back().columns, features.names);
    EXPECT_EQ(reader->asked.back().alone, features.alone);
    return reader->asked.back().dtype;
  };
  EXPECT_EQ(type("image"), at::kByte);
  EXPECT_EQ(type("sound"), at::kFloat);
  EXPECT_EQ(type("mask"), at::kLong);
  EXPECT_EQ(type("digit"), at::kLong);
  EXPECT_EQ(type("mean"), at::kFloat);
  EXPECT_EQ(type("image", at::kHalf), at::kHalf);
  EXPECT_EQ(type({"digit", "mean"}), at::kFloat);
  EXPECT_EQ(type({"digit"}), at::kFloat);
  table["image"];
  EXPECT_TRUE(reader->asked.back().alone && reader->asked.back().dtype == at::kByte);
  table["sound"];
  EXPECT_EQ(reader->asked.back().dtype, at::kDouble);

  BatchOptions options{.features = "image", .label = "mask", .size = 4, .seed = 6};
  table.split(0.5, 2).second.batches(options).at(1);
  const auto &label = reader->asked.back(), &image = reader->asked[reader->asked.size() - 2];
  EXPECT_TRUE(image.alone && image.dtype == at::kByte && label.alone && label.dtype == at::kLong);
  at::Tensor expected = splitIndices(AskedRows::kCount, 0.5, 2).second.index_select(0, batchIndices(5, 4, 6, 0).at(1));
  EXPECT_TRUE(same(image.numbers, expected) && same(label.numbers, expected));

  for (const Features &list : {Features{"image"}, Features{"digit", "sound"}, Features(std::vector<std::string>())}) {
    try {
      table.rows(list);
      ADD_FAILURE() << "a shaped column was read in a list";
    } catch (const Error &error) {
      std::string text = error.what_without_backtrace();
      EXPECT_NE(text.find("has entries of shape ["), std::string::npos) << text;
      EXPECT_NE(text.find("read it alone, by its name: \""), std::string::npos) << text;
    }
  }
  EXPECT_THROW(table.batches({.features = {"digit", "image"}, .label = {}}), Error);
}

/// What an owner is sent: entries of a shape in the table's type, which says no number of rows, and one draw for image
/// and label.
TEST(Table, ShapedColumnsAreRecordedWithTheirShape) {
  auto session = frontend::Session::openOffline();
  frontend::DatasetInfo info{"digits", 569, {}, "open", "one", {}};
  info.columns.push_back({"digit", sojourn::Element::u8, std::nullopt, {}});
  info.columns.push_back({"image", sojourn::Element::u8, std::nullopt, {28, 28}});
  info.columns.push_back({"word", sojourn::Element::i64, std::nullopt, {64}});
  auto [x, y] = frontend::remoteTable(session, info).batches({.features = "image", .label = "digit", .size = 16}).at(0);
  EXPECT_EQ(x.sizes(), (std::vector<int64_t>{16, 28, 28}));
  EXPECT_EQ(y.sizes(), (std::vector<int64_t>{16}));
  EXPECT_TRUE(x.scalar_type() == at::kByte && y.scalar_type() == at::kLong);
  auto call = finishOffline(session);
  std::string text = frontend::decodeToText(call.compiled->program, call.compiled->debug);
  EXPECT_NE(text.find("!sojourn.table<?, \"image\" : 28x28xui8, \"digit\" : ui8>"), std::string::npos) << text;
  EXPECT_NE(text.find("-> tensor<16x28x28xui8>"), std::string::npos) << text;
  EXPECT_NE(text.find("-> tensor<16xi64>"), std::string::npos) << text;
  size_t draws = 0;
  for (size_t at = text.find("sojourn.sample_rows "); at != std::string::npos;
       at = text.find("sojourn.sample_rows ", at + 1)) {
    ++draws;
  }
  EXPECT_EQ(draws, 1u) << text;
}

/// A table that was got before the owner's changed is another one: the step says which versions.
TEST_F(Surface, AnotherVersionOfATableIsRefused) {
  std::vector<frontend::DatasetInfo> known = owner->session()->datasets();
  ASSERT_EQ(known.size(), 1u);
  std::string current = known[0].version;
  known[0].version = "stale";
  Table old = frontend::remoteTable(owner->session(), known[0]);
  auto [kind, text] = thrown([&] { publish(old["age"]); });
  EXPECT_EQ(kind, ErrorKind::OwnerError);
  EXPECT_NE(text.find("dataset 'people' has version " + current + ", the step was made for version stale"),
            std::string::npos)
      << text;
  // Both in one step: two arguments, of which one is refused; nothing ran.
  EXPECT_NE(thrown([&] { publish(old["age"] + (*there)["age"]); }).second.find("made for version stale"),
            std::string::npos);
  EXPECT_TRUE(same(publish((*there)["age"]), data[0].second));
}

TEST_F(Surface, SplitsNestAndCoverEveryRow) {
  auto [train, test] = there->split(0.7, 5);
  auto [fit, valid] = train.split(0.5, 6);
  EXPECT_EQ(train.rows() + test.rows(), kRows);
  auto [first, other] = splitIndices(kRows, 0.7, 5);
  EXPECT_TRUE(same(publish(test["weight"]), data[1].second.index_select(0, other)));
  at::Tensor inner = first.index_select(0, splitIndices(train.rows(), 0.5, 6).second);
  EXPECT_TRUE(same(publish(valid["age"]), data[0].second.index_select(0, inner)));
  at::Tensor rows = inner.index_select(0, batchIndices(valid.rows(), 5, 3, 1)[1]);
  Batches batches = valid.batches({.features = "weight", .label = {}, .size = 5, .epochs = 2, .seed = 3});
  at::Tensor x = publish(batches.at(batches.perEpoch() + 1).x);
  EXPECT_TRUE(same(x, data[1].second.index_select(0, rows).to(at::kFloat)));
  EXPECT_TRUE(same(here->split(0.7, 5).first.split(0.5, 6).second["age"], data[0].second.index_select(0, inner)));
  EXPECT_EQ(fit.rows() + valid.rows(), train.rows());
}

TEST_F(Surface, TrainingMatchesTheCpu) {
  torch::nn::Sequential onCpu(torch::nn::Linear(3, 9), torch::nn::Tanh(), torch::nn::Linear(9, 3));
  onCpu->to(at::kDouble);
  auto atOwner = toOwner(*onCpu, *owner);
  BatchOptions options{
      .features = {"age", "weight", "smoker"}, .label = "y", .size = 8, .epochs = 3, .dtype = at::kDouble};
  auto run = [&](torch::nn::SequentialImpl &model, const Table &table) {
    torch::optim::Adam optimizer(model.parameters(), torch::optim::AdamOptions(0.01));
    std::vector<Published> losses;
    for (auto [x, y] : table.batches(options)) {
      losses.push_back(step([&, x = x, y = y] {
        optimizer.zero_grad();
        at::Tensor loss = torch::nn::functional::cross_entropy(model.forward(x / 50), y);
        loss.backward();
        optimizer.step();
        Published published = publishLater({loss.detach()}).front();
        EXPECT_FALSE(published.ready());
        return published;
      }));
    }
    return losses;
  };
  auto expected = run(*onCpu, *here);
  auto before = owner->counters(), beforeOfAll = counters();
  auto losses = run(*atOwner, *there);
  EXPECT_EQ(owner->counters()["round_trips"] - before["round_trips"], losses.size());
  EXPECT_EQ(counters()["steps"] - beforeOfAll["steps"], owner->counters()["steps"] - before["steps"]);
  ASSERT_EQ(losses.size(), expected.size());
  for (size_t i = 0; i < losses.size(); ++i) {
    EXPECT_TRUE(torch::allclose(losses[i].value(), expected[i].value(), 1e-12, 1e-12)) << "step " << i;
  }
  auto parameters = atOwner->named_parameters();
  for (const auto &item : onCpu->named_parameters()) {
    EXPECT_TRUE(torch::allclose(publish(parameters[item.key()]), item.value().detach(), 1e-10, 1e-12)) << item.key();
  }
}

TEST_F(Surface, StockModulesAreMadeWhereTheScopeSays) {
  auto make = [] {
    return torch::nn::Sequential(torch::nn::Conv2d(1, 3, 2), torch::nn::BatchNorm2d(3), torch::nn::Flatten(),
                                 torch::nn::Dropout(0.3), torch::nn::Linear(12, 4),
                                 torch::nn::LayerNorm(std::vector<int64_t>{4}));
  };
  torch::nn::Sequential onCpu = make();
  onCpu->parameters()[0].set_requires_grad(false);
  torch::nn::Sequential copied(toOwner(*onCpu, *owner));
  EXPECT_FALSE(copied->parameters()[0].requires_grad());
  EXPECT_TRUE(copied->parameters()[1].requires_grad());
  at::Tensor x = torch::randn({5, 1, 3, 3});
  for (bool training : {true, false}) {
    onCpu->train(training);
    copied->train(training);
    std::dynamic_pointer_cast<torch::nn::DropoutImpl>(onCpu->ptr(3))->eval();
    std::dynamic_pointer_cast<torch::nn::DropoutImpl>(copied->ptr(3))->eval();
    at::Tensor expected = onCpu->forward(x), found = publish(copied->forward(x.to(owner->device())));
    EXPECT_TRUE(torch::allclose(found, expected, 1e-4, 1e-5)) << found << expected;
  }
  {
    DeviceScope scope(owner->device());
    torch::nn::Sequential made = make();
    for (const auto &parameter : made->parameters()) {
      EXPECT_EQ(parameter.device(), owner->device());
    }
    at::Tensor weight = publish(made->parameters().front());
    EXPECT_LE(weight.abs().max().item<float>(), 0.5f); // 1 / sqrt(fan in)
    EXPECT_GT(weight.std().item<float>(), 0);
    EXPECT_EQ(torch::zeros({2}, at::kCPU).device(), at::kCPU);
    DeviceScope inner(at::kCPU);
    EXPECT_EQ(torch::zeros({2}).device(), at::kCPU);
  }
  EXPECT_EQ(torch::zeros({2}).device(), at::kCPU);
}

TEST_F(Surface, AStepThatThrowsIsDropped) {
  at::Tensor x = torch::ones({3}, owner->device());
  flush();
  auto before = owner->counters()["round_trips"];
  EXPECT_THROW(step([&] {
                 x.add_(5);
                 throw std::runtime_error("stop");
               }),
               std::runtime_error);
  EXPECT_EQ(owner->counters()["round_trips"], before);
  EXPECT_TRUE(same(publish(x), torch::ones({3})));
}

/// Some steps of SGD on a linear model, on the device of `weight`; the weight afterwards.
at::Tensor descend(at::Tensor weight, const std::vector<at::Tensor> &data) {
  weight.requires_grad_();
  torch::optim::SGD optimizer({weight}, torch::optim::SGDOptions(0.05));
  for (const at::Tensor &x : data) {
    step([&] {
      optimizer.zero_grad();
      (x.to(weight.device()).matmul(weight) - 1).square().mean().backward();
      optimizer.step();
    });
  }
  return publish(weight.detach());
}

TEST_F(Surface, ThreadsStepForThemselves) {
  std::vector<at::Tensor> weights, found(3);
  std::vector<std::vector<at::Tensor>> data(3);
  for (auto &batches : data) {
    weights.push_back(torch::randn({4}, at::kDouble));
    for (int i = 0; i < 6; ++i) {
      batches.push_back(torch::randn({5, 4}, at::kDouble));
    }
  }
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] { found[i] = descend(weights[i].to(owner->device()), data[i]); });
  }
  for (std::thread &thread : threads) {
    thread.join();
  }
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(torch::allclose(found[i], descend(weights[i].clone(), data[i]), 1e-12, 1e-12)) << i;
  }
}

TEST_F(Surface, AnotherThreadsUnsentResultIsTold) {
  at::Tensor x = torch::ones({3}, owner->device()) * 2;
  auto used = [&] {
    std::pair<ErrorKind, std::string> told;
    std::thread([&] { told = thrown([&] { x.add(1); }); }).join();
    return told.second;
  };
  EXPECT_NE(used().find("another thread has computed this tensor"), std::string::npos) << used();
  flush();
  std::thread([&] { EXPECT_TRUE(same(publish(x + 1), torch::full({3}, 3.0))); }).join();
  at::Tensor left;
  std::thread([&] { left = x + 1; }).join();
  EXPECT_NE(thrown([&] { left.add(1); }).second.find("ended before it was sent"), std::string::npos);
}

TEST_F(Surface, AnotherThreadUsesAnUnsentUpload) {
  const at::Tensor value = torch::randn({7}, at::kDouble);
  at::Tensor x = value.to(owner->device());
  at::Tensor twice = x * 2; // its trace takes it, too
  std::thread([&] { EXPECT_TRUE(same(publish(x + 1), value + 1)); }).join();
  x.add_(1);
  EXPECT_TRUE(same(publish(twice), value * 2));
  std::thread([&] { EXPECT_TRUE(same(publish(x), value + 1)); }).join();
}

TEST_F(Surface, AStepAtTwoOwners) {
  Owner other = local();
  at::Tensor a = torch::ones({2}, owner->device()), b = torch::ones({2}, other.device());
  flush();
  auto trips = [&] { return owner->counters()["round_trips"] + other.counters()["round_trips"]; };
  uint64_t before = trips();
  std::vector<Published> values;
  step([&] {
    a.add_(1);
    b.add_(2);
    values = publishLater({a, b});
  });
  EXPECT_EQ(trips() - before, 2u);
  EXPECT_TRUE(same(values[0].value(), torch::full({2}, 2.0)) && same(values[1].value(), torch::full({2}, 3.0)));
  other.close();
}

TEST_F(Surface, PublishedValuesAreReadAfterTheirStep) {
  for (c10::Device device : {c10::Device(at::kCPU), owner->device()}) {
    at::Tensor x = torch::full({2}, 3.0, device);
    std::optional<Published> published;
    step([&] {
      published = publishLater({x * 2}).front();
      auto [kind, text] = thrown([&] { published->value(); });
      EXPECT_EQ(kind, ErrorKind::ValueNeeded) << text;
    });
    step([&] { EXPECT_TRUE(same(published->value(), torch::full({2}, 6.0))); });
  }
}

TEST_F(Surface, MistakesAreTold) {
  auto says = [&](ErrorKind kind, const std::string &part, const std::function<void()> &call) {
    auto [found, text] = thrown(call);
    EXPECT_EQ(found, kind);
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  auto [name, values] = data[0];
  says(ErrorKind::Error, "already registered", [&] { owner->registerDataset("people", data); });
  says(ErrorKind::Error, "policy 'public' is unknown; expected 'open' or 'private'",
       [&] { owner->registerDataset("t", data, {.policy = "public", .bounds = {}, .fills = {}}); });
  says(ErrorKind::Error, "has no dataset 'peopel'; did you mean 'people'?", [&] { owner->dataset("peopel"); });
  says(ErrorKind::Error, "no column 'wieght'; did you mean 'weight'?", [&] { (*there)["wieght"]; });
  says(ErrorKind::Error, "at least one column", [&] { there->batches({}); });
  says(ErrorKind::Error, "size must be an integer of at least 1, got 0",
       [&] { there->batches({.features = {"age"}, .label = {}, .size = 0}); });
  says(ErrorKind::Error, "batch 99 is not one of the",
       [&] { there->batches({.features = {"age"}, .label = {}}).at(99); });
  says(ErrorKind::Error, "features['row'] must name at least one column", [&] {
    there->batches({.named = {{"row", Features()}}, .label = {}});
  });
  says(ErrorKind::Error, "two tensors of a batch are named 'row'; give each its own name", [&] {
    there->batches({.named = {{"row", "age"}, {"row", "weight"}}, .label = {}});
  });
  says(ErrorKind::Error, "give features for one tensor or named for several, not both", [&] {
    there->batches({.features = "age", .named = {{"row", "age"}}, .label = {}});
  });
  says(ErrorKind::Error, "these are 1 named ones; leave dtype out and convert a tensor of the batch", [&] {
    there->batches({.named = {{"row", "age"}}, .label = {}, .dtype = at::kDouble});
  });
  says(ErrorKind::Error, "the batch has no tensor named 'rwo'; did you mean 'row'?", [&] {
    there->batches({.named = {{"row", "age"}}, .label = {}}).at(0)["rwo"];
  });
  says(ErrorKind::Error, "the batch has no tensor named 'row'; its features are x",
       [&] { there->batches({.features = "age", .label = {}}).at(0)["row"]; });
  says(ErrorKind::Error, "one side empty", [&] { there->split(0.001); });
  says(ErrorKind::Error, "fraction must lie between 0 and 1", [&] { there->split(std::nan("")); });
  says(ErrorKind::Error, "no such file", [&] { plain("nowhere.csv"); });
  says(ErrorKind::Error, "first dimension counts rows", [&] { plain({{{"a", torch::zeros({})}}}); });
  says(ErrorKind::Error, "a dimension of size 0", [&] { plain({{{"a", torch::zeros({2, 0})}}}); });
  says(ErrorKind::Error, "has type complex64", [&] { plain({{{"a", torch::zeros({2}, at::kComplexFloat)}}}); });
  says(ErrorKind::ConnectionLost, "no owner answers at", [&] { connect("ipc:///nowhere/at/all.sock", 200); });
  std::map<std::string, std::pair<double, double>> bounds;
  for (const auto &[name, column] : data) {
    bounds[name] = {-1000, 1000};
  }
  says(ErrorKind::Error, "policy private needs bounds of every column", [&] { owner->registerDataset("kept", data); });
  Table kept = owner->registerDataset("kept", data, {.policy = "private", .bounds = bounds, .fills = {}});
  says(ErrorKind::Refused, "kept", [&] { publish(kept["age"].sum()); });
}

/// Told before anything is recorded: by quotes and publishes alike, of every kind of tensor.
TEST_F(Surface, PricesAreNumbersThatOwnersTake) {
  double nan = std::nan(""), infinity = INFINITY;
  std::vector<std::pair<PublishOptions, std::string>> wrong = {
      {{.epsilon = -1}, "epsilon must be a number above 0 and at most 1.04858e+06, got -1"},
      {{.epsilon = nan}, "epsilon must be a number above 0 and at most 1.04858e+06, got nan"},
      {{.epsilon = 2e6}, "epsilon must be a number above 0 and at most 1.04858e+06, got 2e+06"},
      {{.epsilon = 0.1, .delta = 1}, "delta must be a number above 0 and below 1, got 1"},
      {{.epsilon = 0.1, .delta = nan}, "delta must be a number above 0 and below 1, got nan"},
      {{.epsilon = 0.1, .delta = -1e-5}, "delta must be a number above 0 and below 1, got -1e-05"},
      {{.bound = 1e-31, .epsilon = 0.1}, "bound must be a number from 1e-30 to 1e+30, got 1e-31"},
      {{.bound = -0.5, .epsilon = 0.1}, "bound must be a number from 1e-30 to 1e+30, got -0.5"},
      {{.bound = infinity, .epsilon = 0.1}, "bound must be a number from 1e-30 to 1e+30, got inf"},
  };
  std::map<std::string, std::pair<double, double>> bounds = {{"age", {0, 100}}};
  Table kept = owner->registerDataset("kept", Source{{data[0]}}, {.policy = "private", .bounds = bounds, .fills = {}});
  at::Tensor sum = kept["age"].sum();
  for (const at::Tensor &value : {data[0].second, (*there)["age"], sum}) {
    for (const auto &[options, text] : wrong) {
      for (auto [kind, said] :
           {thrown([&] { quote(value, options); }), thrown([&] { publishLater({value}, options); })}) {
        EXPECT_EQ(kind, ErrorKind::Error);
        EXPECT_TRUE(said.ends_with(text)) << said;
      }
    }
    EXPECT_TRUE(thrown([&] { quote(value, {}); }).second.ends_with("at most 1.04858e+06, got 0"));
  }
  EXPECT_TRUE(quote((*there)["age"], {.epsilon = 0.5}).isFree);
  // A price is that of a grant with some delta.
  EXPECT_NE(
      thrown([&] { quote(sum, {.epsilon = 0.5}); }).second.find("no budget is granted, so no delta gives the price"),
      std::string::npos);
  EXPECT_NE(thrown([&] { quote(sum, {.epsilon = 1e-12, .delta = 1e-5}); }).second.find("epsilon"), std::string::npos);
  // A row moves the sum by 50 at most: a row that is gone counts as the middle of its bounds. Gaussian noise of
  // deviation s costs epsilon 1 / (2 s^2) + sqrt(2 log(1 / delta)) / s in those units, and by finer bounds a little
  // less.
  ReleaseQuote quoted = quote(sum, {.epsilon = 0.5, .delta = 1e-5});
  EXPECT_FALSE(quoted.isFree || quoted.isLaplace);
  EXPECT_EQ(quoted.delta, 1e-5);
  EXPECT_EQ(quoted.numbers, 1);
  double s = quoted.error / 50;
  double epsilon = 1 / (2 * s * s) + std::sqrt(2 * std::log(1e5)) / s;
  EXPECT_GT(epsilon, 0.5);
  EXPECT_LT(epsilon, 0.7);
}

TEST(Store, KeepsTablesBetweenOwners) {
  auto folder = std::filesystem::temp_directory_path() / ("sojourn-" + std::to_string(std::random_device{}()));
  auto data = people();
  {
    Owner owner = local(folder.string());
    owner.registerDataset("people", data, {.policy = "open", .bounds = {{"age", {0, 50}}}, .fills = {}});
    owner.close();
  }
  Owner owner = local(folder.string());
  Table table = owner.dataset("people");
  EXPECT_EQ(table.columns().at(0).bounds, (std::pair{0.0, 50.0}));
  EXPECT_TRUE(same(publish(table["age"]), data[0].second.clamp(0, 50)));
  owner.close();
  std::filesystem::remove_all(folder);
}

} // namespace
