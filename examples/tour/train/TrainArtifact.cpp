// SPDX-License-Identifier: Apache-2.0
// Trains a compiled loop over a table of a served owner, 16 steps per message; no Python.
//   train-artifact train.sojourn ipc://owner.sock points
#include "frontend/ahead/Artifact.h"

#include <algorithm>
#include <iostream>
#include <vector>

int main(int argc, char **argv) {
  if (argc != 4) {
    std::cerr << "usage: train-artifact FILE OWNER DATASET\n";
    return 2;
  }
  try {
    const sojourn::Owner owner = sojourn::connect(argv[2]);
    sojourn::ArtifactRun run(sojourn::Artifact::load(argv[1]), owner, {{"points", argv[3]}});
    const int64_t steps = run.artifact().steps().value();
    for (int64_t done = 0; done < steps;) {
      const auto many = static_cast<size_t>(std::min<int64_t>(16, steps - done));
      const sojourn::ArtifactSteps trip = run.steps(std::vector<std::vector<at::Tensor>>(many));
      if (trip.failure) {
        std::rethrow_exception(trip.failure);
      }
      done += trip.committed;
      std::cout << "step " << done << "  loss " << trip.published.back().front().item<float>() << "\n";
    }
  } catch (const c10::Error &error) {
    std::cerr << "train-artifact: " << error.what_without_backtrace() << "\n";
    return 1;
  }
}
