// SPDX-License-Identifier: Apache-2.0
// Compiling, storing and running artifacts.
#include "frontend/Artifact.h"

#include "runtime/wire/Artifact_generated.h"
#include "frontend/Generator.h"
#include "frontend/Origin.h"
#include "frontend/Session.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>

namespace sojourn {

using namespace frontend;
namespace wire = sojourn_wire;

namespace {

constexpr uint32_t kArtifactVersion = 1;
/// A file beyond this is no artifact of ours: weights are uploads of `init`, still bounded.
constexpr std::streamoff kArtifactBytesMax = std::streamoff{1} << 31;

double numberOf(uint64_t slot) { return c10::bit_cast<double>(slot); }

/// Which number inputs the slots of a call hold, by value: each repetition draws new ones.
std::vector<int> matchNumbers(const TraceCall &call, const std::vector<at::Tensor> &given,
                              const std::vector<Spec> &specs) {
  std::vector<int> matches(call.slots.size(), 0);
  for (size_t slot = 0; slot < call.slots.size(); ++slot) {
    for (size_t i = 0; i < specs.size(); ++i) {
      if (specs[i].number) {
        double value = given[i].item<double>();
        int position = static_cast<int>(i) + 1;
        matches[slot] = numberOf(call.slots[slot]) == value    ? position
                        : numberOf(call.slots[slot]) == -value ? -position
                                                               : matches[slot];
      }
    }
  }
  return matches;
}

ArtifactCall fromTrace(const TraceCall &call, std::vector<int> slotInputs) {
  ArtifactCall result;
  result.program = call.compiled->program;
  result.debug = call.compiled->debug;
  result.hash = call.compiled->hash;
  result.states = call.states;
  result.results = call.results;
  result.releases = call.releases;
  result.slots = call.slots;
  result.slotInputs = std::move(slotInputs);
  result.seeds = call.seeds.size();
  result.published = call.published;
  for (size_t i = 0; i < call.uploads.size(); ++i) {
    result.uploads.push_back({call.uploadInputs[i], call.uploads[i]});
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
  for (size_t i = 0; i < second.slots.size(); ++i) {
    if (second.slots[i] != third.slots[i] && (numbersSecond[i] == 0 || numbersSecond[i] != numbersThird[i])) {
      raise(ErrorKind::Unsupported,
            "a number changes from step to step (" + std::to_string(numberOf(second.slots[i])) + ", then " +
                std::to_string(numberOf(third.slots[i])) + ")" + describeOrigin(third.slotOrigins.at(i)) +
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
  std::vector<std::vector<int>> numbers{std::vector<int>(calls[0].slots.size(), 0)};
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
  for (size_t i = 0; i < calls[2].states.size(); ++i) {
    if (calls[2].states[i] != calls[3].states[i]) {
      artifact.loopTo.push_back(calls[2].states[i]);
      artifact.loopFrom.push_back(calls[3].states[i]);
    }
  }
  for (size_t i = 0; i < std::min(calls[2].releases.size(), calls[3].releases.size()); ++i) {
    uint64_t to = calls[2].releases[i], from = calls[3].releases[i];
    if (to != from && std::find(artifact.loopTo.begin(), artifact.loopTo.end(), to) == artifact.loopTo.end()) {
      artifact.loopTo.push_back(to);
      artifact.loopFrom.push_back(from);
    }
  }
  return artifact;
}

void Artifact::save(const std::string &path) const {
  flatbuffers::FlatBufferBuilder builder(1 << 16);
  auto bytes = [&](const void *data, size_t size) {
    builder.ForceVectorAlignment(size, 1, 16);
    return builder.CreateVector(static_cast<const uint8_t *>(data), size);
  };
  std::vector<flatbuffers::Offset<wire::ArtifactCall>> callOffsets;
  for (const ArtifactCall &call : calls) {
    std::vector<flatbuffers::Offset<wire::ArtifactUpload>> uploads;
    for (const ArtifactCall::Upload &upload : call.uploads) {
      std::vector<int64_t> dims(upload.value.sizes().begin(), upload.value.sizes().end());
      auto data = upload.input < 0 ? bytes(upload.value.const_data_ptr(), upload.value.nbytes()) : bytes(nullptr, 0);
      uploads.push_back(wire::CreateArtifactUpload(builder, upload.input,
                                                   static_cast<uint8_t>(elementOf(upload.value.scalar_type())),
                                                   builder.CreateVector(dims), data));
    }
    auto uploadVector = builder.CreateVector(uploads);
    auto program = bytes(call.program.data(), call.program.size());
    auto debug = bytes(call.debug.data(), call.debug.size());
    auto hash = bytes(call.hash.data(), call.hash.size());
    auto states = builder.CreateVector(call.states), results = builder.CreateVector(call.results);
    auto releases = builder.CreateVector(call.releases), slots = builder.CreateVector(call.slots);
    callOffsets.push_back(wire::CreateArtifactCall(
        builder, program, debug, hash, states, results, releases, slots, static_cast<uint32_t>(call.seeds),
        uploadVector, static_cast<uint32_t>(call.published), builder.CreateVector(call.slotInputs)));
  }
  std::vector<flatbuffers::Offset<wire::ArtifactInput>> inputOffsets;
  for (const Spec &spec : inputs) {
    inputOffsets.push_back(wire::CreateArtifactInput(builder, static_cast<uint8_t>(elementOf(spec.dtype)),
                                                     builder.CreateVector(spec.sizes), spec.number));
  }
  auto callVector = builder.CreateVector(callOffsets);
  auto inputVector = builder.CreateVector(inputOffsets);
  auto from = builder.CreateVector(loopFrom), to = builder.CreateVector(loopTo);
  auto tree = builder.CreateString(outputTree), producer = builder.CreateString("sojourn");
  builder.Finish(wire::CreateArtifact(builder, kArtifactVersion, callVector, inputVector, from, to, tree, producer),
                 wire::ArtifactIdentifier());
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char *>(builder.GetBufferPointer()), builder.GetSize());
  file.close();
  if (!file) {
    raise(ErrorKind::Error, "cannot write " + path + ": " + std::strerror(errno));
  }
}

Artifact Artifact::load(const std::string &path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) {
    raise(ErrorKind::Error, "cannot read " + path + ": " + std::strerror(errno));
  }
  std::streamoff size = file.tellg();
  auto bad = [&](const std::string &what) {
    raise(ErrorKind::Error,
          path + " is not a compiled step: " + what + "; make one with sojourn.compile(...).save(path)");
  };
  if (size > kArtifactBytesMax) {
    bad(std::to_string(size) + " bytes is more than an artifact may have");
  }
  std::string bytes(static_cast<size_t>(size), '\0');
  file.seekg(0);
  file.read(bytes.data(), size);
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size());
  if (!file || !verifier.VerifyBuffer<wire::Artifact>(wire::ArtifactIdentifier())) {
    bad("its " + std::to_string(size) + " bytes have another format or are damaged");
  }
  const wire::Artifact &stored = *wire::GetArtifact(bytes.data());
  if (stored.version() != kArtifactVersion) {
    raise(ErrorKind::VersionMismatch, path + " has artifact version " + std::to_string(stored.version()) +
                                          ", this build reads " + std::to_string(kArtifactVersion) +
                                          "; compile it again");
  }
  Artifact artifact;
  if (!stored.calls() || stored.calls()->size() != artifact.calls.size()) {
    bad("it must hold the three programs init, first and steady");
  }
  auto numbers = [](const flatbuffers::Vector<uint64_t> *vector) {
    return vector ? std::vector<uint64_t>(vector->begin(), vector->end()) : std::vector<uint64_t>();
  };
  auto text = [](const flatbuffers::Vector<uint8_t> *vector) {
    return vector ? std::string(reinterpret_cast<const char *>(vector->data()), vector->size()) : std::string();
  };
  auto element = [&](uint8_t value) {
    if (value > static_cast<uint8_t>(Element::c128)) {
      bad("element type " + std::to_string(value) + " is unknown");
    }
    return scalarTypeOf(static_cast<Element>(value));
  };
  auto sizes = [&](const flatbuffers::Vector<int64_t> *dims) {
    std::vector<int64_t> values;
    if (dims) {
      values.assign(dims->begin(), dims->end());
    }
    if (values.size() > 64 || std::any_of(values.begin(), values.end(), [](int64_t d) { return d < 0; })) {
      bad("a tensor has impossible sizes");
    }
    return values;
  };
  if (stored.inputs()) {
    for (const wire::ArtifactInput *input : *stored.inputs()) {
      artifact.inputs.push_back({sizes(input->dims()), element(input->element()), input->number()});
    }
  }
  for (size_t i = 0; i < artifact.calls.size(); ++i) {
    const wire::ArtifactCall &from = *stored.calls()->Get(i);
    ArtifactCall &call = artifact.calls[i];
    call.program = text(from.program());
    call.debug = text(from.debug());
    std::string hash = text(from.hash());
    if (hash.size() != call.hash.size()) {
      bad("a program hash has " + std::to_string(hash.size()) + " bytes, expected 32");
    }
    std::copy(hash.begin(), hash.end(), call.hash.begin());
    call.states = numbers(from.states());
    call.results = numbers(from.results());
    call.releases = numbers(from.releases());
    call.slots = numbers(from.slots());
    if (from.slot_inputs()) {
      call.slotInputs.assign(from.slot_inputs()->begin(), from.slot_inputs()->end());
    }
    call.slotInputs.resize(call.slots.size());
    for (int input : call.slotInputs) {
      if (input && (std::abs(static_cast<int64_t>(input)) > static_cast<int64_t>(artifact.inputs.size()) ||
                    !artifact.inputs[std::abs(input) - 1].number)) {
        bad("a slot takes an input that is no number");
      }
    }
    call.seeds = from.seeds();
    call.published = from.published();
    if (!from.uploads()) {
      continue;
    }
    for (const wire::ArtifactUpload *upload : *from.uploads()) {
      ArtifactCall::Upload entry{upload->input(), {}};
      if (entry.input >= static_cast<int>(artifact.inputs.size()) ||
          (entry.input >= 0 && artifact.inputs[entry.input].number)) {
        bad("it uses input " + std::to_string(entry.input) + " of " + std::to_string(artifact.inputs.size()));
      }
      if (entry.input < 0) {
        std::string data = text(upload->data());
        std::vector<int64_t> dims = sizes(upload->dims());
        at::ScalarType dtype = element(upload->element());
        entry.value = hostTensor(dtype, dims, data);
        if (!entry.value.defined()) {
          bad("a constant has " + std::to_string(data.size()) + " bytes, not what its shape says");
        }
      }
      call.uploads.push_back(std::move(entry));
    }
  }
  artifact.loopFrom = numbers(stored.loop_from());
  artifact.loopTo = numbers(stored.loop_to());
  if (artifact.loopFrom.size() != artifact.loopTo.size()) {
    bad("its loop lists differ in length");
  }
  artifact.outputTree = stored.output_tree() ? stored.output_tree()->str() : "";
  return artifact;
}

ArtifactRun::ArtifactRun(Artifact artifact, const Owner &owner) : artifact_(std::move(artifact)), owner_(owner) {
  const ArtifactCall &init = artifact_.calls[0];
  if (!init.program.empty()) {
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
  StepCall step;
  step.hash = call.hash;
  step.program = call.program;
  step.debug = call.debug;
  step.slots = call.slots;
  for (size_t i = 0; i < call.slotInputs.size(); ++i) {
    if (int input = call.slotInputs[i]) {
      double value = inputs.at(std::abs(input) - 1).item<double>();
      step.slots[i] = c10::bit_cast<uint64_t>(input < 0 ? -value : value);
    }
  }
  for (uint64_t name : call.states) {
    step.states.push_back(real(name));
  }
  std::vector<at::Tensor> keep;
  for (const ArtifactCall::Upload &upload : call.uploads) {
    keep.push_back((upload.input < 0 ? upload.value : inputs.at(upload.input)).contiguous());
    const at::Tensor &value = keep.back();
    step.uploads.push_back({elementOf(value.scalar_type()),
                            {value.sizes().begin(), value.sizes().end()},
                            {static_cast<const uint8_t *>(value.const_data_ptr()), value.nbytes()}});
  }
  for (size_t i = 0; i < call.seeds; ++i) {
    step.seeds.push_back(drawDefaultSeed());
  }
  for (size_t i = 0; i < call.results.size(); ++i) {
    step.results.push_back(session.newHandle());
  }
  std::vector<size_t> released;
  for (uint64_t name : call.releases) {
    auto it = std::find_if(handles_.begin(), handles_.end(), [&](auto &entry) { return entry.first == name; });
    if (it != handles_.end()) {
      step.releases.push_back(it->second);
      released.push_back(it - handles_.begin());
    }
  }
  std::vector<at::Tensor> published = session.runProgram(step);
  std::sort(released.rbegin(), released.rend());
  for (size_t index : released) {
    handles_.erase(handles_.begin() + static_cast<std::ptrdiff_t>(index));
  }
  for (size_t i = 0; i < call.results.size(); ++i) {
    handles_.emplace_back(call.results[i], step.results[i]);
  }
  return published;
}

} // namespace sojourn
