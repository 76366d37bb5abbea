// SPDX-License-Identifier: Apache-2.0
// Trains one model over the tables of three owners, and the same on all rows in plain libtorch; no Python.
//   train-parties [--rows 200] [--epochs 5]
#include "frontend/Sojourn.h"

#include <torch/torch.h>

#include <CLI/CLI.hpp>

#include <iostream>

namespace {

/// The weights after training a logistic regression on each batch in turn.
at::Tensor train(const sojourn::Table &table, at::Tensor weight, int64_t batch, int64_t epochs) {
  weight = weight.detach().requires_grad_();
  torch::optim::SGD optimizer({weight}, torch::optim::SGDOptions(0.5).momentum(0.9));
  const sojourn::Batches batches = table.batches({.features = {"age", "dose"},
                                                  .label = "relapse",
                                                  .size = batch,
                                                  .epochs = epochs,
                                                  .dtype = at::kDouble,
                                                  .labelDtype = at::kDouble});
  for (const sojourn::Batch &each : batches) {
    sojourn::step([&] { // one message to each owner
      optimizer.zero_grad();
      torch::binary_cross_entropy_with_logits(each.x.mv(weight), each.y).backward();
      optimizer.step();
    });
  }
  return weight.detach();
}

} // namespace

int main(int argc, char **argv) {
  CLI::App app{"Trains over the tables of three owners in this process, and in plain libtorch on all rows"};
  int64_t rows = 200, batch = 60, epochs = 5;
  uint64_t seed = 0;
  app.add_option("--rows", rows, "rows of the first owner; the others have a half and a third")
      ->check(CLI::Range(30, 1000000))
      ->capture_default_str();
  app.add_option("--batch", batch, "rows of a batch")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--epochs", epochs, "passes over the tables")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--seed", seed, "seed of data and initial weights")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    torch::manual_seed(seed);
    std::vector<sojourn::Owner> owners;
    std::vector<sojourn::Table> plains;
    for (int64_t part : {1, 2, 3}) {
      const at::Tensor x = torch::randn({rows / part, 2}, at::kDouble);
      const sojourn::Source source{
          {{"age", x.select(1, 0)}, {"dose", x.select(1, 1)}, {"relapse", x.sum(1).gt(0).to(at::kLong)}}};
      owners.push_back(sojourn::local());
      owners.back().registerDataset("patients", source, {.policy = "open", .bounds = {}, .fills = {}});
      plains.push_back(sojourn::plain(source, {.name = "patients"}));
    }
    for (const sojourn::Owner &owner : owners) { // each data owner's decision
      std::vector<sojourn::Owner> others;
      for (const sojourn::Owner &other : owners) {
        if (other.session() != owner.session()) {
          others.push_back(other);
        }
      }
      owner.share("patients", others, "clear");
    }
    const sojourn::Parties group = sojourn::parties(owners);
    const sojourn::Table table = group.rows("patients");
    const at::Tensor start = torch::randn({2}, at::kDouble);
    const at::Tensor joint = sojourn::publish(train(table, start.to(group.device()), batch, epochs));
    const at::Tensor plain = train(sojourn::pooled(plains), start, batch, epochs);
    std::cout << table.rows() << " rows of " << owners.size() << " owners, weights " << joint[0].item<double>() << " "
              << joint[1].item<double>() << "\n"
              << "largest difference to plain libtorch: " << (joint - plain).abs().max().item<double>() << "\n";
    group.close();
  } catch (const c10::Error &error) {
    std::cerr << "train-parties: " << error.what_without_backtrace() << "\n";
    return 1;
  }
  return 0;
}
