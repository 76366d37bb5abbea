// SPDX-License-Identifier: Apache-2.0
// Trains a classifier on an open table, wherever the table is; the C++ twin of breast_cancer.py, no Python. A CSV file
// declares no bounds, so features are scaled by what is measured, which a private table would refuse.
//   train patients.csv --label malignant                        # on plain CPU tensors
//   train patients.csv --label malignant --owner local          # at an owner inside this process
//   train patients --label malignant --owner ipc:///run/o.sock  # at a `sojourn-owner serve`
#include "frontend/Sojourn.h"

#include <torch/torch.h>

#include <CLI/CLI.hpp>

#include <iomanip>
#include <iostream>

namespace {

struct Options {
  std::string table, label, owner = "none";
  int64_t epochs = 5, size = 64, classes = 2, seed = 0;
};

struct Place {
  sojourn::Table table;
  std::optional<sojourn::Owner> owner;
};

Place openTable(const Options &options) {
  if (options.owner == "none") {
    return {sojourn::plain(options.table), std::nullopt};
  }
  if (options.owner == "local") {
    sojourn::Owner owner = sojourn::local();
    return {owner.registerDataset("table", options.table, {.policy = "open", .bounds = {}, .fills = {}}), owner};
  }
  sojourn::Owner owner = sojourn::connect(options.owner);
  return {owner.dataset(options.table), owner};
}

void train(const Options &options) {
  auto [table, owner] = openTable(options);
  std::cout << table << "\n";
  std::vector<std::string> features;
  for (const sojourn::Column &column : table.columns()) {
    if (column.name != options.label) {
      features.push_back(column.name);
    }
  }
  auto [trainRows, testRows] = table.split(0.8, options.seed);

  torch::manual_seed(static_cast<uint64_t>(options.seed));
  auto width = static_cast<int64_t>(features.size());
  torch::nn::Sequential model(torch::nn::Linear(width, 32), torch::nn::ReLU(), torch::nn::Linear(32, options.classes));
  if (owner) {
    model = torch::nn::Sequential(sojourn::toOwner(*model, *owner));
  }
  torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(3e-3));

  at::Tensor mean, deviation;
  sojourn::step([&] {
    at::Tensor whole = trainRows.rows(features);
    mean = whole.mean(0);
    deviation = whole.std(0);
  });

  auto before = sojourn::counters();
  auto batches = trainRows.batches({.features = features,
                                    .label = options.label,
                                    .size = options.size,
                                    .epochs = options.epochs,
                                    .seed = options.seed});
  std::vector<sojourn::Published> losses;
  for (auto [x, y] : batches) {
    losses.push_back(sojourn::step([&, x = x, y = y] {
      optimizer.zero_grad();
      at::Tensor loss = torch::nn::functional::cross_entropy(model->forward((x - mean) / deviation), y);
      loss.backward();
      optimizer.step();
      return sojourn::publishLater({loss.detach()}).front();
    }));
    if (static_cast<int64_t>(losses.size()) % batches.perEpoch() == 0) {
      double sum = 0;
      for (auto loss = losses.end() - batches.perEpoch(); loss != losses.end(); ++loss) {
        sum += loss->value().item<double>();
      }
      std::cout << "epoch " << static_cast<int64_t>(losses.size()) / batches.perEpoch() << "  loss "
                << std::setprecision(6) << sum / static_cast<double>(batches.perEpoch()) << "\n";
    }
  }
  auto trips = static_cast<double>(sojourn::counters()["round_trips"] - before["round_trips"]);

  torch::NoGradGuard noGrad;
  at::Tensor scores = model->forward((testRows.rows(features) - mean) / deviation);
  at::Tensor accuracy = sojourn::publish((scores.argmax(1) == testRows[options.label]).to(at::kDouble).mean());
  std::cout << "accuracy " << accuracy.item<double>() << "\n"
            << "round trips per step " << trips / static_cast<double>(losses.size()) << "\n";
}

} // namespace

int main(int argc, char **argv) {
  CLI::App app{"Trains a small classifier on a table, wherever the table is"};
  Options options;
  app.add_option("table", options.table, "a .csv, .parquet, .arrow or .npz file, or the name of a served table")
      ->required();
  app.add_option("--label", options.label, "the column to predict: 0, 1, ...")->required();
  app.add_option("--owner", options.owner, "none (plain CPU tensors), local, or the address of an owner")
      ->capture_default_str();
  app.add_option("--epochs", options.epochs, "passes over the data")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--size", options.size, "rows per batch")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--classes", options.classes, "how many classes")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--seed", options.seed, "seed of weights, split and batches")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    train(options);
  } catch (const c10::Error &error) {
    std::cerr << "train: " << error.what_without_backtrace() << "\n";
    return 1;
  }
  return 0;
}
