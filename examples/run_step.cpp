// SPDX-License-Identifier: Apache-2.0
// Runs a compiled training step against an owner, one round trip per step; no Python.
//   run-step train.sojourn ipc:///run/owner.sock --steps 20
//   run-step train.sojourn ipc:///run/owner.sock --table points=clinic --state weights.pt
#include "frontend/ahead/Artifact.h"

#include <torch/torch.h>

#include <CLI/CLI.hpp>

#include <cmath>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <iterator>

namespace {

struct Options {
  std::string path, url, inputs, save, state;
  std::map<std::string, std::string> tables;
  std::optional<int64_t> steps;
  int64_t perTrip = 1;
  uint64_t seed = 0;
  double rate = 0.1, decay = 0.9;
};

using Inputs = std::vector<at::Tensor>;

std::vector<c10::IValue> elementsOf(const c10::IValue &value) {
  if (value.isTuple()) {
    return value.toTupleRef().elements().vec();
  }
  TORCH_CHECK(value.isList(), "expected a list or a tuple, found ", value.tagKind());
  return value.toListRef().vec();
}

/// What torch.save wrote: a list with the tensors of each step.
std::vector<Inputs> readInputs(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  TORCH_CHECK(file, "cannot read ", path);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  std::vector<Inputs> steps;
  for (const c10::IValue &step : elementsOf(torch::pickle_load(bytes))) {
    steps.emplace_back();
    for (const c10::IValue &input : elementsOf(step)) {
      TORCH_CHECK(input.isTensor(), path, ": step ", steps.size() - 1, " has an input that is ", input.tagKind(),
                  ", expected a tensor (a number as one of float64)");
      steps.back().push_back(input.toTensor());
    }
  }
  return steps;
}

/// Of a step like that of compile-step: rows, classes 0 and 1, and with --scheduled the rate.
Inputs drawInputs(const sojourn::Artifact &artifact, const Options &options, int64_t step) {
  const std::vector<sojourn::Spec> &specs = artifact.inputs;
  if (specs.empty()) {
    return {};
  }
  Inputs inputs{torch::randn(specs.at(0).sizes, specs[0].dtype), torch::randint(0, 2, specs.at(1).sizes, at::kLong)};
  if (specs.size() > 2) {
    inputs.push_back(at::scalar_tensor(options.rate * std::pow(options.decay, step), at::kDouble));
  }
  return inputs;
}

std::vector<Inputs> inputsOf(const sojourn::Artifact &bound, const Options &options) {
  if (!options.inputs.empty()) {
    return readInputs(options.inputs);
  }
  std::vector<Inputs> steps;
  const int64_t count = options.steps.value_or(bound.steps().value_or(20));
  for (int64_t i = 0; i < count; ++i) {
    steps.push_back(drawInputs(bound, options, i));
  }
  return steps;
}

/// Tensors in lists, as torch.load reads them.
void save(const std::string &path, const c10::IValue &values) {
  const std::vector<char> bytes = torch::pickle_save(values);
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  TORCH_CHECK(file, "cannot write ", path);
}

void run(const Options &options) {
  torch::manual_seed(options.seed);
  sojourn::Artifact artifact = sojourn::Artifact::load(options.path);
  sojourn::Owner owner = sojourn::connect(options.url);
  sojourn::ArtifactRun run(std::move(artifact), owner, options.tables);
  const std::vector<Inputs> inputs = inputsOf(run.artifact(), options);
  auto before = owner.counters();
  c10::impl::GenericList record(c10::AnyType::get());
  for (auto trip = inputs.begin(); trip != inputs.end();) {
    const auto end = trip + std::min<std::ptrdiff_t>(options.perTrip, inputs.end() - trip);
    sojourn::ArtifactSteps done = run.steps({trip, end});
    for (const std::vector<at::Tensor> &published : done.published) {
      std::cout << "step " << std::setw(3) << record.size() + 1;
      if (!published.empty() && published.front().numel() == 1) {
        std::cout << "  loss " << published.front().item<double>();
      }
      std::cout << "\n";
      c10::List<at::Tensor> values;
      for (size_t i = 0; i < trip->size(); ++i) {
        if (!run.artifact().inputs[i].number) {
          values.push_back((*trip)[i]);
        }
      }
      for (const at::Tensor &value : published) {
        values.push_back(value);
      }
      record.push_back(c10::IValue(values));
      ++trip;
    }
    if (done.failure) {
      std::rethrow_exception(done.failure);
    }
  }
  auto after = owner.counters();
  std::cout << "round trips per step: "
            << static_cast<double>(after["round_trips"] - before["round_trips"]) / static_cast<double>(inputs.size())
            << "\n";
  if (!options.save.empty()) {
    save(options.save, c10::IValue(record));
  }
  if (!options.state.empty()) {
    save(options.state, c10::IValue(c10::List<at::Tensor>(run.state())));
  }
}

} // namespace

int main(int argc, char **argv) {
  CLI::App app{"Runs a compiled training step at an owner: on its tables, on given inputs, or on random data"};
  Options options;
  std::vector<std::string> tables;
  app.add_option("file", options.path, "compiled step, written by compile-step or by Program.save of Python")
      ->required();
  app.add_option("owner", options.url, "address, as ipc:///path or tls+tcp://host:port")->required();
  auto *given = app.add_option("--inputs", options.inputs,
                               "inputs of every step: a list of lists of CPU tensors, written by torch.save (default: "
                               "random rows and classes)");
  app.add_option("--steps", options.steps, "training steps (default: all batches of the tables; 20 of random data)")
      ->check(CLI::PositiveNumber)
      ->excludes(given);
  app.add_option("--per-trip", options.perTrip, "steps in each round trip")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--table", tables,
                 "TABLE=DATASET: the owner's dataset behind a table of the step (default: that of "
                 "the same name)");
  app.add_option("--seed", options.seed, "seed of data and initial weights")->capture_default_str();
  app.add_option("--rate", options.rate, "learning rate of the first step, if the step takes one")
      ->capture_default_str();
  app.add_option("--decay", options.decay, "factor on the rate after each step")->capture_default_str();
  app.add_option("--save", options.save,
                 "write input tensors and published values of every step to this file (torch.load reads it)");
  app.add_option("--state", options.state,
                 "write the values of the model after the run to this file, a list of tensors (torch.load reads it)");
  CLI11_PARSE(app, argc, argv);
  try {
    for (const std::string &table : tables) {
      const size_t equals = table.find('=');
      TORCH_CHECK(equals != std::string::npos, "--table is '", table, "', expected TABLE=DATASET");
      options.tables[table.substr(0, equals)] = table.substr(equals + 1);
    }
    run(options);
  } catch (const c10::Error &error) {
    std::cerr << "run-step: " << error.what_without_backtrace() << "\n";
    return 1;
  }
  return 0;
}
