// SPDX-License-Identifier: Apache-2.0
// Running artifacts: their names brought to handles, one step or several in one message.
#include "frontend/ahead/Artifact.h"

#include "frontend/compile/Compile.h"
#include "frontend/compile/Names.h"
#include "frontend/recording/Generator.h"
#include "frontend/session/Session.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace sojourn {

using namespace frontend;

namespace {

/// Places of the results, which a group needs and no file has.
void placeResults(Artifact &artifact, unsigned parties) {
  auto place = [&](ArtifactCall &call) {
    if (!call.step.program.empty() && !call.step.places) {
      call.step.places = placesOfProgram(std::string(call.step.program), parties);
    }
  };
  std::for_each(artifact.calls.begin(), artifact.calls.end(), place);
  std::for_each(artifact.variants.begin(), artifact.variants.end(), [&](auto &variant) { place(variant.call); });
  place(artifact.state);
}

std::shared_ptr<Session> sessionOf(const std::vector<Owner> &players) {
  return players.size() == 1 ? players.front().session() : parties(players).session();
}

} // namespace

std::vector<Owner> playersOf(const Artifact &artifact, const std::map<std::string, Owner> &parties) {
  if (artifact.parties.empty()) {
    raise(ErrorKind::Error, "the program was compiled for one owner, and has no parties to play; run it at an owner");
  }
  for (const auto &[name, owner] : parties) {
    if (std::find(artifact.parties.begin(), artifact.parties.end(), name) == artifact.parties.end()) {
      raise(ErrorKind::Error,
            "the program has no party '" + name + "'" + nearestNames(name, artifact.parties, "its parties"));
    }
  }
  std::vector<Owner> players;
  std::map<Session *, std::string> known;
  std::string twice;
  for (const std::string &name : artifact.parties) {
    const auto player = parties.find(name);
    if (player == parties.end()) {
      raise(ErrorKind::Error,
            "no owner plays party '" + name +
                "' of the program; name the owner of each of its parties: " + partiesText(artifact.parties));
    }
    players.push_back(player->second);
    const auto [before, isNew] = known.try_emplace(players.back().session().get(), name);
    if (!isNew && twice.empty()) {
      twice = "'" + before->second + "' and '" + name + "'";
    }
  }
  if (known.size() == 1) {
    return {players.front()};
  }
  if (!twice.empty()) {
    raise(ErrorKind::Error, "parties " + twice +
                                " are played by one owner, but others not: in a group each party is another owner, and "
                                "without one a single owner plays all");
  }
  return players;
}

ArtifactRun::ArtifactRun(Artifact artifact, const Owner &owner, const std::map<std::string, std::string> &tables)
    : ArtifactRun(std::move(artifact), owner.session(), tables) {}

ArtifactRun::ArtifactRun(Artifact artifact, const Parties &group, const std::map<std::string, std::string> &tables)
    : ArtifactRun(std::move(artifact), group.session(), tables) {}

ArtifactRun::ArtifactRun(Artifact artifact, const std::map<std::string, Owner> &parties,
                         const std::map<std::string, std::string> &tables)
    : ArtifactRun(artifact, sessionOf(playersOf(artifact, parties)), tables) {}

ArtifactRun::ArtifactRun(Artifact artifact, std::shared_ptr<Session> session,
                         const std::map<std::string, std::string> &tables)
    : artifact_(std::move(artifact)), session_(std::move(session)),
      bindings_(bindTables(artifact_, *session_, tables)) {
  artifact_.checkBatches(); // batches that these tables cannot have are refused before anything runs
  if (session_->isGroup()) {
    placeResults(artifact_, session_->parties());
  }
  const ArtifactCall &init = artifact_.calls[0];
  if (!init.step.program.empty()) {
    ArtifactSteps made = run(init, {{}}, {});
    if (made.committed == 0) { // it publishes nothing, so a reply that is lost costs nothing
      std::rethrow_exception(made.failure);
    }
  }
}

ArtifactRun::~ArtifactRun() {
  if (session_->isElsewhere()) {
    return; // the parent has them still
  }
  frontend::Handles &all = session_->handles();
  for (auto [name, handle] : handles_.named) {
    all.release(handle);
  }
  for (uint64_t handle : handles_.unnamed) {
    all.release(handle);
  }
}

void ArtifactRun::checkInputs(const std::vector<at::Tensor> &inputs) const {
  if (inputs.size() != artifact_.inputs.size()) {
    std::string names;
    const auto isNamed = [](const Spec &spec) { return !spec.name.empty(); };
    if (std::any_of(artifact_.inputs.begin(), artifact_.inputs.end(), isNamed)) {
      for (const Spec &spec : artifact_.inputs) {
        names += (names.empty() ? " (" : ", ") + (isNamed(spec) ? spec.name : "unnamed");
      }
    }
    raise(ErrorKind::Error, "the compiled step takes " + std::to_string(artifact_.inputs.size()) + " inputs" + names +
                                (names.empty() ? "" : ")") + ", got " + std::to_string(inputs.size()));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Spec &spec = artifact_.inputs[i];
    const at::Tensor &input = inputs[i];
    if (!input.defined() || !input.device().is_cpu() || input.layout() != at::kStrided ||
        input.sizes() != c10::IntArrayRef(spec.sizes) || input.scalar_type() != spec.dtype) {
      const std::string found =
          !input.defined()
              ? "no tensor"
              : c10::toString(input.scalar_type()) + c10::str(input.sizes()) + " on " + input.device().str() +
                    (input.layout() == at::kStrided ? "" : c10::str(" in layout ", input.layout()));
      const std::string named = spec.name.empty() ? "" : " (" + spec.name + ")";
      raise(ErrorKind::Error, "input " + std::to_string(i) + named + " is " + found +
                                  ", but the step was compiled for " + c10::toString(spec.dtype) +
                                  c10::str(c10::IntArrayRef(spec.sizes)) + " on cpu");
    }
  }
}

std::vector<at::Tensor> ArtifactRun::step(const std::vector<at::Tensor> &inputs) {
  ArtifactSteps done = steps({inputs});
  if (done.failure) {
    std::rethrow_exception(done.failure);
  }
  return std::move(done.published.front());
}

ArtifactSteps ArtifactRun::steps(const std::vector<std::vector<at::Tensor>> &inputs,
                                 const std::function<bool(uint64_t committed)> &follow) {
  for (const auto &each : inputs) {
    checkInputs(each);
  }
  std::optional<int64_t> most = artifact_.steps();
  if (most && steps_ + static_cast<int64_t>(inputs.size()) > *most) {
    raise(ErrorKind::Error, "all " + std::to_string(*most) +
                                " batches of the compiled step have been served; start another run, or compile the "
                                "step for more epochs");
  }
  size_t bytes = 0;
  for (size_t i = 0; i < artifact_.inputs.size(); ++i) {
    bytes += inputs.empty() ? 0 : inputs[0][i].nbytes();
  }
  const size_t steady = std::max<size_t>(1, kTripUploadBytes / std::max<size_t>(bytes, 1));
  ArtifactSteps done;
  for (size_t begin = 0; begin < inputs.size() && !done.failure;) {
    const ArtifactCall &call = artifact_.callOf(steps_);
    size_t end = begin + 1;
    while (steps_ != 0 && end < std::min(inputs.size(), begin + steady) &&
           &artifact_.callOf(steps_ + static_cast<int64_t>(end - begin)) == &call) {
      ++end;
    }
    const auto from = inputs.begin() + static_cast<std::ptrdiff_t>(begin);
    ArtifactSteps part;
    try {
      part = run(call, {from, inputs.begin() + static_cast<std::ptrdiff_t>(end)},
                 [&](uint64_t committed) { return !follow || follow(begin + committed); });
    } catch (...) {
      part.failure = std::current_exception();
    }
    steps_ += part.committed;
    done.committed += part.committed;
    std::move(part.published.begin(), part.published.end(), std::back_inserter(done.published));
    done.failure = part.failure;
    // An owner that ran fewer of them took its time; the rest is sent anew.
    if (part.isStopped || part.committed == 0) {
      break;
    }
    begin += static_cast<size_t>(part.committed);
  }
  if (done.failure && done.committed == 0) {
    std::rethrow_exception(done.failure);
  }
  return done;
}

std::vector<at::Tensor> ArtifactRun::state() {
  const ArtifactCall &call = artifact_.state;
  if (call.step.program.empty()) {
    raise(ErrorKind::Error, "this program was compiled without readable state; return the model from init: "
                            "sojourn.compile(..., init=make), where make() ends with `return model`");
  }
  Handles handles = handles_;
  if (steps_ > 1) {
    turn(handles);
  }
  for (uint64_t name : call.step.states) {
    if (!handles.named.contains(name)) {
      raise(ErrorKind::Error, "after " + std::to_string(steps_) +
                                  " steps some of the program's state does not exist yet; read it after more steps");
    }
  }
  std::vector<at::Tensor> keep;
  wire::Step message = call.step;
  message.begin(bind(call, {}, steps_, handles, keep));
  ProgramRun ran = session_->runProgram(Message(std::move(message)), {});
  if (ran.failure) {
    std::rethrow_exception(ran.failure);
  }
  return std::move(ran.published);
}

void ArtifactRun::Handles::set(uint64_t name, uint64_t handle) {
  auto [at, isNew] = named.try_emplace(name, handle);
  if (!isNew) {
    unnamed.push_back(std::exchange(at->second, handle));
  }
}

uint64_t ArtifactRun::Handles::at(uint64_t name) const {
  auto found = named.find(name);
  if (found == named.end()) {
    raise(ErrorKind::Error, "the artifact uses a value that none of its programs made; compile it again");
  }
  return found->second;
}

/// The values that the last repetition left take the places of those it took.
void ArtifactRun::turn(Handles &handles) const {
  std::vector<uint64_t> left;
  for (uint64_t from : artifact_.loopFrom) {
    left.push_back(handles.at(from));
    handles.named.erase(from);
  }
  for (size_t i = 0; i < left.size(); ++i) {
    handles.set(artifact_.loopTo[i], left[i]);
  }
}

std::vector<uint64_t> ArtifactRun::commit(const ArtifactCall &call, const std::vector<uint64_t> &results,
                                          Handles &handles) {
  std::vector<uint64_t> released;
  for (uint64_t name : call.step.releases) {
    if (auto found = handles.named.find(name); found != handles.named.end()) {
      released.push_back(found->second);
      handles.named.erase(found);
    }
  }
  for (size_t i = 0; i < results.size(); ++i) {
    handles.set(call.step.results[i], results[i]);
  }
  return released;
}

wire::Repetition ArtifactRun::bind(const ArtifactCall &call, const std::vector<at::Tensor> &inputs, int64_t at,
                                   const Handles &handles, std::vector<at::Tensor> &keep) const {
  wire::Repetition step;
  step.slots = call.step.slots;
  for (size_t i = 0; i < call.slotInputs.size(); ++i) {
    if (int input = call.slotInputs[i]) {
      double value = inputs.at(static_cast<size_t>(std::abs(input) - 1)).item<double>();
      step.slots[i] = c10::bit_cast<uint64_t>(input < 0 ? -value : value);
    }
  }
  for (size_t i = 0; i < call.slotBatches.size(); ++i) {
    if (int position = call.slotBatches[i]) {
      const ArtifactBatches &from = artifact_.batches.at(static_cast<size_t>(std::abs(position) - 1));
      const int64_t perEpoch = *artifact_.perEpoch(from); // its table is bound
      const auto index = static_cast<size_t>(std::abs(position) - 1);
      step.slots[i] = static_cast<uint64_t>(position > 0 ? artifact_.startOf(index, at) : at / perEpoch);
    }
  }
  for (uint64_t name : call.step.states) {
    step.states.push_back(handles.at(name));
  }
  step.uploads = call.step.uploads;
  for (size_t i = 0; i < step.uploads.size(); ++i) {
    if (int input = call.uploadInputs[i]) {
      // Bytes, so nothing may be left to do when they are read: no lazy conjugate, no lazy negative.
      keep.push_back(inputs.at(static_cast<size_t>(input - 1)).resolve_conj().resolve_neg().contiguous());
      step.uploads[i] = viewOf(keep.back());
    }
  }
  for (size_t i = 0; i < call.seeds; ++i) {
    step.seeds.push_back(drawSeed());
  }
  session_->handles().add(call.step.results.size());
  for (size_t i = 0; i < call.step.results.size(); ++i) {
    step.results.push_back(session_->handles().reserve());
  }
  return step;
}

ArtifactSteps ArtifactRun::run(const ArtifactCall &call, const std::vector<std::vector<at::Tensor>> &inputs,
                               const std::function<bool(uint64_t committed)> &follow) {
  wire::Step first = call.step;
  for (wire::TableBinding &binding : first.tables) {
    auto is = [&](const Dataset &table) { return table.name == binding.name; };
    auto table = std::find_if(artifact_.tables.begin(), artifact_.tables.end(), is);
    binding = bindings_.at(static_cast<size_t>(table - artifact_.tables.begin()));
  }
  const bool takesInputs = std::any_of(call.uploadInputs.begin(), call.uploadInputs.end(), [](int i) { return i; });
  std::vector<at::Tensor> keep;
  std::vector<std::vector<uint64_t>> results; // by step
  std::optional<Message> message;
  Handles handles = handles_;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const int64_t at = steps_ + static_cast<int64_t>(i);
    if (at > 1) {
      turn(handles);
    }
    wire::Repetition next = bind(call, inputs[i], at, handles, keep);
    results.push_back(next.results);
    next.releases = commit(call, next.results, handles);
    if (!message) {
      first.begin(std::move(next));
      message.emplace(std::move(first));
      continue;
    }
    if (!takesInputs) {
      next.uploads.clear();
    }
    message->add(std::move(next));
  }
  ProgramRun ran = session_->runProgram(std::move(*message), follow);
  // Where it is not known what ran, nothing is named that a step may have released.
  const size_t known = ran.isUnknown ? inputs.size() : ran.steps;
  for (size_t i = 0; i < known; ++i) {
    if (steps_ + static_cast<int64_t>(i) > 1) {
      turn(handles_);
    }
    commit(call, ran.isUnknown ? std::vector<uint64_t>() : results[i], handles_);
  }
  ArtifactSteps done;
  done.committed = ran.steps;
  done.failure = ran.failure;
  done.isStopped = ran.isStopped;
  const bool isWhole = ran.published.size() == ran.steps * call.published;
  if (!isWhole && !ran.failure) {
    try {
      raise(ErrorKind::OwnerError, "the owner's reply holds " + std::to_string(ran.published.size()) +
                                       " published values, expected " + std::to_string(ran.steps * call.published));
    } catch (...) {
      done.failure = std::current_exception(); // the steps have committed all the same
    }
  }
  for (size_t i = 0; isWhole && !ran.isReplyLost && i < ran.steps; ++i) {
    auto first = ran.published.begin() + static_cast<std::ptrdiff_t>(i * call.published);
    done.published.emplace_back(first, first + static_cast<std::ptrdiff_t>(call.published));
  }
  return done;
}

} // namespace sojourn
