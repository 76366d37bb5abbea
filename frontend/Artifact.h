// SPDX-License-Identifier: Apache-2.0
// Ahead of time: a training step compiled to a file without data and without an owner, and run
// against an owner later. Neither needs Python.
//
//   auto artifact = sojourn::compile(init, step, {{{64, 30}, at::kFloat}, {{64}, at::kLong}});
//   artifact.save("train.sojourn");
//   sojourn::ArtifactRun run(sojourn::Artifact::load("train.sojourn"), owner);
//   std::vector<at::Tensor> published = run.step({x, y});    // one round trip
#pragma once

#include "frontend/Sojourn.h"
#include "runtime/wire/Step.h"

#include <array>
#include <functional>
#include <string>
#include <vector>

namespace sojourn {

/// Shape and dtype of an input whose contents come at run time.
struct Spec {
  std::vector<int64_t> sizes;
  at::ScalarType dtype = at::kFloat;
  /// A number that optimizers take as such (a scheduled learning rate): 0-dim float64; the step
  /// reads it with item<double>() and uses it or its negative.
  bool number = false;
};

/// One call of an artifact: a step message that lacks what each run supplies.
struct ArtifactCall {
  /// Handles are names within the artifact; constants are among its uploads. Without a program it
  /// does nothing.
  wire::Step step;
  std::shared_ptr<const void> bytes; ///< what `step` borrows from
  std::vector<int> uploadInputs;     ///< per upload: 0 for a constant, or position + 1 of an input
  std::vector<int> slotInputs;       ///< per slot: 0, or +-(position + 1) of a number input
  size_t seeds = 0;                  ///< drawn anew at every run
  size_t published = 0;
};

class Artifact {
public:
  /// Reads and checks a file. Throws Error naming what is wrong with it.
  static Artifact load(const std::string &path);
  void save(const std::string &path) const;

  /// init, first, steady.
  std::array<ArtifactCall, 3> calls;
  std::vector<Spec> inputs;
  std::vector<uint64_t> loopFrom, loopTo;
  std::string outputTree;
};

/// An offline device: records without an owner. Ends with the object.
class Offline {
public:
  Offline();
  c10::Device device() const;
  const std::shared_ptr<frontend::Session> &session() const { return session_; }

private:
  std::shared_ptr<frontend::Session> session_;
};

/// Records `init` once and `step` three times (optimizers make their state in the first step, and
/// the third must repeat the second). What `step` publishes with `publishLater` is what a run
/// returns. Throws Unsupported, with the op and its line, if a float differs between steps (a
/// learning rate set from outside, Adam without `capturable`): make it a number input instead.
Artifact compile(const Offline &offline, const std::function<void()> &init,
                 const std::function<void(const std::vector<at::Tensor> &)> &step, const std::vector<Spec> &inputs);

/// Execution against an owner: `init` at construction, then one round trip per step.
class ArtifactRun {
public:
  ArtifactRun(Artifact artifact, const Owner &owner);
  ~ArtifactRun();
  /// CPU inputs as the artifact's specs say; returns what the step published, as CPU tensors.
  /// Throws Error if an input does not fit its spec.
  std::vector<at::Tensor> step(const std::vector<at::Tensor> &inputs);

private:
  std::vector<at::Tensor> run(const ArtifactCall &call, const std::vector<at::Tensor> &inputs);
  uint64_t real(uint64_t name) const;

  Artifact artifact_;
  Owner owner_;
  size_t steps_ = 0;
  std::vector<std::pair<uint64_t, uint64_t>> handles_; ///< artifact's name -> owner's handle
};

} // namespace sojourn
