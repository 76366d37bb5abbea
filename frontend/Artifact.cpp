// SPDX-License-Identifier: Apache-2.0
// Compiling and running artifacts; ArtifactFile.cpp stores them.
#include "frontend/Artifact.h"

#include "frontend/Generator.h"
#include "frontend/Origin.h"
#include "frontend/Session.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cstdlib>
#include <exception>

namespace sojourn {

using namespace frontend;
namespace {

double numberOf(uint64_t slot) { return c10::bit_cast<double>(slot); }

/// Which number inputs the slots of a call hold, by value: each repetition draws new ones.
std::vector<int> matchNumbers(const TraceCall &call, const std::vector<at::Tensor> &given,
                              const std::vector<Spec> &specs) {
  const std::vector<uint64_t> &slots = call.step.slots;
  std::vector<int> matches(slots.size(), 0);
  for (size_t slot = 0; slot < slots.size(); ++slot) {
    for (size_t i = 0; i < specs.size(); ++i) {
      if (specs[i].number) {
        double value = given[i].item<double>();
        int position = static_cast<int>(i) + 1;
        matches[slot] = numberOf(slots[slot]) == value    ? position
                        : numberOf(slots[slot]) == -value ? -position
                                                          : matches[slot];
      }
    }
  }
  return matches;
}

ArtifactCall fromTrace(const TraceCall &call, std::vector<int> slotInputs) {
  ArtifactCall result;
  result.step = call.step;
  result.step.seeds.clear();
  result.bytes = std::make_shared<const std::pair<std::shared_ptr<const CompiledTrace>, std::vector<at::Tensor>>>(
      call.compiled, call.uploads);
  result.seeds = call.step.seeds.size();
  result.slotInputs = std::move(slotInputs);
  result.published = call.published;
  for (size_t i = 0; i < call.uploads.size(); ++i) {
    result.uploadInputs.push_back(call.uploadInputs[i] + 1);
    if (call.uploadInputs[i] >= 0) {
      result.step.uploads[i].data = {};
    }
  }
  return result;
}

/// Refuses what a repetition of the second step would get wrong.
void checkRepeats(const TraceCall &second, const TraceCall &third, const std::vector<int> &numbersSecond,
                  const std::vector<int> &numbersThird) {
  if (second.compiled->hash != third.compiled->hash) {
    raise(ErrorKind::Unsupported,
          "the step does other work the third time than the second, so it cannot be compiled ahead of time; "
          "make it record the same ops in every call");
  }
  for (size_t i = 0; i < second.step.slots.size(); ++i) {
    if (second.step.slots[i] != third.step.slots[i] && (numbersSecond[i] == 0 || numbersSecond[i] != numbersThird[i])) {
      raise(ErrorKind::Unsupported,
            "a number changes from step to step (" + std::to_string(numberOf(second.step.slots[i])) + ", then " +
                std::to_string(numberOf(third.step.slots[i])) + ")" + describeOrigin(third.slotOrigins.at(i)) +
                ": a compiled step repeats it. Pass it as an input (sojourn.number() for a learning rate), or build "
                "Adam with capturable=True");
    }
  }
  for (size_t i = 0; i < second.uploads.size(); ++i) {
    if (second.uploadInputs[i] < 0 && third.uploadInputs[i] < 0 && !at::equal(second.uploads[i], third.uploads[i])) {
      raise(ErrorKind::Unsupported,
            "a CPU tensor that the step uploads changes from step to step; pass it as an input");
    }
  }
}

} // namespace

Offline::Offline() : session_((initialize(), Session::openOffline())) {}

c10::Device Offline::device() const { return session_->device(); }

Artifact compile(const Offline &offline, const std::function<void()> &init,
                 const std::function<void(const std::vector<at::Tensor> &)> &step, const std::vector<Spec> &inputs) {
  Session &session = *offline.session();
  init();
  std::vector<TraceCall> calls;
  calls.push_back(session.finishOffline());
  std::vector<std::vector<int>> numbers{std::vector<int>(calls[0].step.slots.size(), 0)};
  // A generator of its own: compiling must not move the caller's random numbers.
  at::Generator generator = at::detail::createCPUGenerator(c10::detail::getNonDeterministicRandom());
  for (int repetition = 0; repetition < 3; ++repetition) {
    std::vector<at::Tensor> given(inputs.size());
    {
      std::vector<at::Tensor> tensors;
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (inputs[i].number) {
          given[i] = at::rand({}, generator, at::device(at::kCPU).dtype(at::kDouble));
          tensors.push_back(given[i]);
        } else {
          tensors.push_back(makeTensor(session.makeInput(inputs[i].sizes, inputs[i].dtype, static_cast<int>(i))));
        }
      }
      step(tensors);
    }
    calls.push_back(session.finishOffline());
    numbers.push_back(matchNumbers(calls.back(), given, inputs));
  }
  checkRepeats(calls[2], calls[3], numbers[2], numbers[3]);

  Artifact artifact;
  for (size_t i = 0; i < 3; ++i) {
    artifact.calls[i] = fromTrace(calls[i], numbers[i]);
  }
  artifact.inputs = inputs;
  // What the third step takes where the second took something else, and what it releases.
  for (size_t i = 0; i < calls[2].step.states.size(); ++i) {
    if (calls[2].step.states[i] != calls[3].step.states[i]) {
      artifact.loopTo.push_back(calls[2].step.states[i]);
      artifact.loopFrom.push_back(calls[3].step.states[i]);
    }
  }
  for (size_t i = 0; i < std::min(calls[2].step.releases.size(), calls[3].step.releases.size()); ++i) {
    uint64_t to = calls[2].step.releases[i], from = calls[3].step.releases[i];
    if (to != from && std::find(artifact.loopTo.begin(), artifact.loopTo.end(), to) == artifact.loopTo.end()) {
      artifact.loopTo.push_back(to);
      artifact.loopFrom.push_back(from);
    }
  }
  return artifact;
}

ArtifactRun::ArtifactRun(Artifact artifact, const Owner &owner) : artifact_(std::move(artifact)), owner_(owner) {
  const ArtifactCall &init = artifact_.calls[0];
  if (!init.step.program.empty()) {
    run(init, {});
  }
}

ArtifactRun::~ArtifactRun() {
  for (auto [name, handle] : handles_) {
    owner_.session()->releaseHandle(handle);
  }
}

uint64_t ArtifactRun::real(uint64_t name) const {
  for (auto [known, handle] : handles_) {
    if (known == name) {
      return handle;
    }
  }
  raise(ErrorKind::Error, "the artifact uses a value that none of its programs made; compile it again");
}

std::vector<at::Tensor> ArtifactRun::step(const std::vector<at::Tensor> &inputs) {
  if (inputs.size() != artifact_.inputs.size()) {
    raise(ErrorKind::Error, "the compiled step takes " + std::to_string(artifact_.inputs.size()) + " inputs, got " +
                                std::to_string(inputs.size()));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Spec &spec = artifact_.inputs[i];
    if (!inputs[i].device().is_cpu() || inputs[i].sizes() != c10::IntArrayRef(spec.sizes) ||
        inputs[i].scalar_type() != spec.dtype) {
      raise(ErrorKind::Error, "input " + std::to_string(i) + " is " + c10::toString(inputs[i].scalar_type()) +
                                  c10::str(inputs[i].sizes()) + " on " + inputs[i].device().str() +
                                  ", the step was compiled for " + c10::toString(spec.dtype) +
                                  c10::str(c10::IntArrayRef(spec.sizes)) + " on cpu");
    }
  }
  if (steps_ > 1) {
    // The values that the last repetition left take the places of those it took.
    std::vector<uint64_t> left;
    for (uint64_t from : artifact_.loopFrom) {
      left.push_back(real(from));
    }
    for (size_t i = 0; i < left.size(); ++i) {
      auto it = std::find_if(handles_.begin(), handles_.end(), [&](auto &entry) { return entry.second == left[i]; });
      it->first = artifact_.loopTo[i];
    }
  }
  const ArtifactCall &call = artifact_.calls[steps_ == 0 ? 1 : 2];
  std::vector<at::Tensor> published = run(call, inputs);
  ++steps_;
  return published;
}

std::vector<at::Tensor> ArtifactRun::run(const ArtifactCall &call, const std::vector<at::Tensor> &inputs) {
  Session &session = *owner_.session();
  wire::Step step = call.step;
  for (size_t i = 0; i < call.slotInputs.size(); ++i) {
    if (int input = call.slotInputs[i]) {
      double value = inputs.at(std::abs(input) - 1).item<double>();
      step.slots[i] = c10::bit_cast<uint64_t>(input < 0 ? -value : value);
    }
  }
  for (uint64_t &state : step.states) {
    state = real(state);
  }
  std::vector<at::Tensor> keep;
  for (size_t i = 0; i < step.uploads.size(); ++i) {
    if (int input = call.uploadInputs[i]) {
      keep.push_back(inputs.at(input - 1).contiguous());
      step.uploads[i] = viewOf(keep.back());
    }
  }
  for (size_t i = 0; i < call.seeds; ++i) {
    step.seeds.push_back(drawDefaultSeed());
  }
  for (uint64_t &result : step.results) {
    result = session.newHandle();
  }
  std::vector<uint64_t> released;
  auto isReleased = [&](auto &entry) {
    return std::find(released.begin(), released.end(), entry.second) != released.end();
  };
  for (uint64_t name : call.step.releases) {
    auto it = std::find_if(handles_.begin(), handles_.end(), [&](auto &entry) { return entry.first == name; });
    if (it != handles_.end()) {
      released.push_back(it->second);
    }
  }
  step.releases = released;
  bool unknown = false;
  std::vector<at::Tensor> published;
  std::exception_ptr lost;
  std::vector<uint64_t> results = step.results;
  try {
    published = session.runProgram(std::move(step), unknown);
  } catch (...) {
    lost = std::current_exception();
  }
  if (!lost || unknown) {
    std::erase_if(handles_, isReleased);
  }
  if (lost) {
    std::rethrow_exception(lost);
  }
  for (size_t i = 0; i < results.size(); ++i) {
    handles_.emplace_back(call.step.results[i], results[i]);
  }
  return published;
}

} // namespace sojourn
