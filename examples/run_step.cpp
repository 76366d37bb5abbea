// SPDX-License-Identifier: Apache-2.0
// Runs a compiled training step against an owner, one round trip per step; no Python.
//   run-step train.sojourn ipc:///run/owner.sock --steps 20
#include "frontend/ahead/Artifact.h"

#include <torch/torch.h>

#include <CLI/CLI.hpp>

#include <cmath>
#include <fstream>
#include <iomanip>
#include <iostream>

int main(int argc, char **argv) {
  CLI::App app{"Runs a compiled training step at an owner, on random data"};
  std::string path, url, save;
  int64_t steps = 20;
  uint64_t seed = 0;
  double rate = 0.1, decay = 0.9;
  app.add_option("file", path, "compiled step, written by compile-step")->required();
  app.add_option("owner", url, "address, as ipc:///path or tls+tcp://host:port")->required();
  app.add_option("--steps", steps, "training steps")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--seed", seed, "seed of data and initial weights")->capture_default_str();
  app.add_option("--rate", rate, "learning rate of the first step, if the step takes one")->capture_default_str();
  app.add_option("--decay", decay, "factor on the rate after each step")->capture_default_str();
  app.add_option("--save", save, "write inputs and published values of every step to this file (torch.load reads it)");
  CLI11_PARSE(app, argc, argv);
  try {
    torch::manual_seed(seed);
    sojourn::Artifact artifact = sojourn::Artifact::load(path);
    sojourn::Owner owner = sojourn::connect(url);
    sojourn::ArtifactRun run(artifact, owner);
    auto before = owner.counters();
    c10::impl::GenericList record(c10::AnyType::get());
    for (int64_t i = 0; i < steps; ++i) {
      const auto &specs = artifact.inputs;
      at::Tensor x = torch::randn(specs.at(0).sizes, specs[0].dtype);
      at::Tensor y = torch::randint(0, 2, specs.at(1).sizes, at::kLong);
      std::vector<at::Tensor> inputs{x, y};
      if (specs.size() > 2) {
        inputs.push_back(at::scalar_tensor(rate * std::pow(decay, i), at::kDouble));
      }
      std::vector<at::Tensor> published = run.step(inputs);
      std::cout << "step " << std::setw(3) << i + 1 << "  loss " << published.at(0).item<double>() << "\n";
      c10::List<at::Tensor> values({x, y});
      for (const at::Tensor &value : published) {
        values.push_back(value);
      }
      record.push_back(c10::IValue(values));
    }
    auto after = owner.counters();
    std::cout << "round trips per step: "
              << static_cast<double>(after["round_trips"] - before["round_trips"]) / static_cast<double>(steps) << "\n";
    if (!save.empty()) {
      auto bytes = torch::pickle_save(c10::IValue(record));
      std::ofstream(save, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    }
  } catch (const c10::Error &error) {
    std::cerr << "run-step: " << error.what_without_backtrace() << "\n";
    return 1;
  }
  return 0;
}
