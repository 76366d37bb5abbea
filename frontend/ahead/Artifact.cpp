// SPDX-License-Identifier: Apache-2.0
// Compiling artifacts; ArtifactFile.cpp stores them, ArtifactRun.cpp runs them.
#include "frontend/ahead/Artifact.h"

#include "frontend/ahead/Turns.h"
#include "frontend/recording/Generator.h"
#include "frontend/recording/Origin.h"
#include "frontend/flight/Flights.h"
#include "frontend/tables/JoinedRows.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cstdlib>
#include <exception>

namespace sojourn {

using namespace frontend;
namespace {

/// Calls that are recorded beyond the third to see how values take each other's places.
constexpr int kMostTurns = 64;

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

/// What a repetition put in the places of a batch's numbers.
struct BatchMark {
  int64_t start, epoch;
};

/// Which batches' numbers the slots of a call hold, likewise by value.
std::vector<int> matchBatches(const TraceCall &call, const std::vector<BatchMark> &marks) {
  const std::vector<uint64_t> &slots = call.step.slots;
  std::vector<int> matches(slots.size(), 0);
  for (size_t slot = 0; slot < slots.size(); ++slot) {
    for (size_t i = 0; i < marks.size(); ++i) {
      int position = static_cast<int>(i) + 1;
      matches[slot] = slots[slot] == static_cast<uint64_t>(marks[i].start)   ? position
                      : slots[slot] == static_cast<uint64_t>(marks[i].epoch) ? -position
                                                                             : matches[slot];
    }
  }
  return matches;
}

/// Where the slots of a call come from: 0 for what stays.
struct SlotSources {
  std::vector<int> numbers, batches;
};

ArtifactCall fromTrace(const TraceCall &call, SlotSources sources) {
  ArtifactCall result = call;
  result.step.seeds.clear();
  result.bytes = std::make_shared<const std::pair<std::shared_ptr<const CompiledTrace>, std::vector<at::Tensor>>>(
      call.compiled, call.uploads);
  result.slotInputs = std::move(sources.numbers);
  result.slotBatches = std::move(sources.batches);
  for (size_t i = 0; i < call.uploads.size(); ++i) {
    if (call.uploadInputs[i] != 0) {
      result.step.uploads[i].data = {};
    }
  }
  return result;
}

/// Refuses what a repetition of the second step would get wrong.
void checkRepeats(const TraceCall &second, const TraceCall &third, const SlotSources &sourcesSecond,
                  const SlotSources &sourcesThird) {
  if (second.compiled->hash != third.compiled->hash) {
    raise(ErrorKind::Unsupported, "the step does different work in its third call than in its second, so it cannot be "
                                  "compiled ahead of time; make it record the same ops in every call");
  }
  for (size_t i = 0; i < second.step.slots.size(); ++i) {
    auto follows = [&](const std::vector<int> SlotSources::*source) {
      return (sourcesSecond.*source)[i] != 0 && (sourcesSecond.*source)[i] == (sourcesThird.*source)[i];
    };
    if (second.step.slots[i] != third.step.slots[i] && !follows(&SlotSources::numbers) &&
        !follows(&SlotSources::batches)) {
      raise(ErrorKind::Unsupported,
            "a number changes from step to step (" + std::to_string(numberOf(second.step.slots[i])) + ", then " +
                std::to_string(numberOf(third.step.slots[i])) + ")" + describeOrigin(third.slotOrigins.at(i)) +
                ", but a compiled step repeats it; pass it as an input (sojourn.number() for a learning rate), or "
                "build Adam with capturable=True");
    }
  }
  for (size_t i = 0; i < second.uploads.size(); ++i) {
    if (second.uploadInputs[i] == 0 && third.uploadInputs[i] == 0 && !at::equal(second.uploads[i], third.uploads[i])) {
      raise(ErrorKind::Unsupported,
            "a CPU tensor that the step uploads changes from step to step; pass it as an input");
    }
  }
}

/// A compiled step has one shape.
void checkFull(const Batches &batches, int64_t shortRows) {
  if (batches.table().isPrivate() || batches.options().dropLast) {
    return; // batches of a private table are draws: none is short
  }
  const std::string &name = batches.table().name();
  if (std::optional<int64_t> rows = batches.table().knownRows()) {
    requireFull(name, *rows, batches.options().size, shortRows);
  } else if (shortRows == 0) {
    raise(ErrorKind::Error, "table '" + name +
                                "' was described without a number of rows: the last batch of an epoch may be short, "
                                "but a compiled step has one shape; " +
                                kLeaveOut);
  }
}

/// Requirements of a short step: batches of one open table, and fewer rows than they have.
void checkShort(const std::vector<Batches> &batches, int64_t shortRows) {
  if (batches.size() != 1 || batches[0].table().isPrivate() || batches[0].options().dropLast) {
    raise(ErrorKind::Error, "short= compiles a second step for the short last batch of an epoch; it needs the batches "
                            "of exactly one open table, without drop_last=True");
  }
  if (const int64_t size = batches[0].options().size; shortRows < 1 || shortRows >= size) {
    raise(ErrorKind::Error, "short is " + std::to_string(shortRows) + ", expected a number of rows from 1 to " +
                                std::to_string(size - 1) + ", less than the batch size");
  }
}

/// The kinds of batches of a joined table, by the rows that they take of each of its tables, the first one first. None
/// for batches of single tables.
std::vector<std::vector<int64_t>> kindsOf(const std::vector<Batches> &batches) {
  std::vector<std::vector<int64_t>> kinds;
  for (const Batches &each : batches) {
    if (each.table().reader()->tables().empty()) {
      continue;
    }
    if (batches.size() > 1) {
      raise(ErrorKind::Error, "the steps take batches of " + std::to_string(batches.size()) +
                                  " tables, one of them joined; give the batches of a joined table alone, or those of "
                                  "each party's table, and join their rows in the step (torch.cat)");
    }
    for (const AlikeBatches &alike :
         batchesOfEpoch(each.table().joined(), each.options().size, each.options().dropLast)) {
      if (std::find(kinds.begin(), kinds.end(), alike.sizes) == kinds.end()) {
        kinds.push_back(alike.sizes);
      }
    }
  }
  return kinds;
}

/// A step for another batch, in the names of the steady one: it takes what the step before left.
ArtifactCall variantOf(const TraceCall &recorded, SlotSources sources, const wire::Step &second, const Turns &turns) {
  ArtifactCall call = fromTrace(recorded, std::move(sources));
  bool isAlike = call.step.results.size() == second.results.size() && call.step.states.size() == second.states.size();
  for (uint64_t &handle : call.step.states) {
    std::optional<uint64_t> name = turns.nameOf(handle);
    isAlike = isAlike && name;
    handle = name.value_or(handle);
  }
  if (!isAlike) {
    raise(ErrorKind::Unsupported, "the step does different work for a short batch than for a full batch, so it cannot "
                                  "be compiled for both; leave the short batch out with drop_last=True");
  }
  std::vector<uint64_t> releases;
  for (uint64_t handle : call.step.releases) {
    if (std::optional<uint64_t> name = turns.nameOf(handle)) {
      releases.push_back(*name);
    }
  }
  call.step.releases = releases;
  call.step.results = second.results;
  return call;
}

/// The call that publishes the state, recorded after the steps, in the names of the steady one. None where a value has
/// no name.
std::optional<ArtifactCall> stateOf(const TraceCall &recorded, const Turns &turns) {
  ArtifactCall call = fromTrace(recorded, {});
  call.step.releases.clear(); // of the compilation
  for (uint64_t &handle : call.step.states) {
    std::optional<uint64_t> name = turns.nameOf(handle);
    if (!name) {
      return std::nullopt;
    }
    handle = *name;
  }
  return call;
}

/// The tables that the calls read, each with the columns that were read; the names of those of which whole columns are.
std::vector<Dataset> usedTables(const Offline &offline, Artifact &artifact) {
  std::set<std::string> &wholeTables = artifact.wholeTables;
  std::vector<ArtifactCall *> calls;
  for (ArtifactCall &call : artifact.calls) {
    calls.push_back(&call);
  }
  for (ArtifactVariant &variant : artifact.variants) {
    calls.push_back(&variant.call);
  }
  std::vector<Dataset> used;
  for (ArtifactCall *call : calls) {
    for (wire::TableBinding &binding : call->step.tables) {
      auto is = [&](const Dataset &table) { return table.name == binding.name; };
      auto known = std::find_if(used.begin(), used.end(), is);
      if (known == used.end()) {
        const SpecifiedTable &table = offline.tables().at(std::stoul(binding.version) - 1);
        used.push_back(table.spec);
        if (table.isWhole) {
          wholeTables.insert(binding.name);
        }
        std::erase_if(used.back().columns, [&](const Column &column) { return !table.read.contains(column.name); });
      } else if (known->version != binding.version) {
        raise(ErrorKind::Error,
              "the step reads two tables named '" + binding.name + "'; give each table of a step a different name");
      }
    }
  }
  for (ArtifactCall *call : calls) {
    for (wire::TableBinding &binding : call->step.tables) {
      binding.version.clear();
    }
  }
  for (Dataset &table : used) {
    table.version.clear();
  }
  return used;
}

} // namespace

Offline::Offline(const std::vector<std::string> &parties) : session_((initialize(), Session::openOffline())) {
  setParties(parties);
}

c10::Device Offline::device() const { return session_->device(); }

void Offline::setParties(const std::vector<std::string> &parties) {
  if (std::string problem = checkParties(parties); !problem.empty()) {
    raise(ErrorKind::Error, problem);
  }
  session_->setParties(static_cast<unsigned>(parties.size()));
  parties_ = parties;
}

Artifact compile(const Offline &offline, const std::function<void()> &init,
                 const std::function<void(const std::vector<at::Tensor> &)> &step, const std::vector<Spec> &inputs,
                 const std::vector<Batches> &batches, std::optional<int64_t> shortRows,
                 const std::function<std::vector<at::Tensor>()> &state) {
  Session &session = *offline.session();
  if (shortRows) {
    checkShort(batches, *shortRows);
  }
  for (const Batches &each : batches) {
    checkFull(each, shortRows.value_or(0));
  }
  init();
  std::vector<TraceCall> calls;
  calls.push_back(finishOffline(offline.session()));
  std::vector<SlotSources> sources(1);
  // A generator of its own: compiling must not move the caller's random numbers.
  at::Generator generator = at::detail::createCPUGenerator(c10::detail::getNonDeterministicRandom());
  const std::vector<std::vector<int64_t>> kinds = kindsOf(batches);
  if (shortRows && !kinds.empty() && batches[0].table().rows() % batches[0].options().size == 0) {
    raise(ErrorKind::Error, "short is " + std::to_string(*shortRows) + ", but no batch of table '" +
                                batches[0].table().name() + "' is short: its " +
                                std::to_string(batches[0].table().rows()) + " rows are full batches; leave short out");
  }
  // One more call, for a kind of batch: 0 is the full one, or the first kind of a joined table.
  auto record = [&](size_t kind) {
    std::vector<at::Tensor> given(inputs.size());
    std::vector<BatchMark> marks;
    {
      std::vector<at::Tensor> tensors;
      auto draw = [&] {
        return at::randint(int64_t{1} << 61, int64_t{1} << 62, {}, generator, at::kLong).item<int64_t>();
      };
      for (const Batches &each : batches) {
        const int64_t epoch = draw();
        Batch recorded;
        if (kinds.empty()) {
          marks.push_back({draw(), epoch});
          recorded = each.record(epoch, marks.back().start, kind == 0 ? each.options().size : *shortRows);
        } else {
          std::vector<BatchShare> shares;
          for (int64_t size : kinds[kind]) {
            marks.push_back({draw(), epoch});
            shares.push_back({marks.back().start, size});
          }
          recorded = each.record(epoch, shares);
        }
        std::vector<at::Tensor> batch = recorded.tensors();
        if (const c10::Device device = batch.front().device(); device != offline.device()) {
          raise(ErrorKind::Error,
                "the batches of table '" + each.table().name() + "' are on " + device.str() +
                    ", but the step is compiled on " + offline.device().str() +
                    "; describe the table on that device (specTable in C++, compile(tables=...) in Python)");
        }
        tensors.insert(tensors.end(), batch.begin(), batch.end());
      }
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
    calls.push_back(finishOffline(offline.session()));
    sources.push_back({matchNumbers(calls.back(), given, inputs), matchBatches(calls.back(), marks)});
  };
  for (int i = 0; i < 3; ++i) {
    record(0);
  }
  checkRepeats(calls[2], calls[3], sources[2], sources[3]);
  Turns turns(calls[2].step, calls[3].step);
  auto repeat = [&] {
    record(0);
    checkRepeats(calls[2], calls.back(), sources[2], sources.back());
    turns.learn(calls.back().step);
  };
  for (int i = 0; i < kMostTurns && !turns.isWhole(); ++i) {
    repeat();
  }
  if (!turns.isWhole() || !turns.isRegular()) {
    turns.forgetReleases();
  }
  if (!turns.isWhole() || !turns.isRegular()) {
    raise(ErrorKind::Unsupported,
          "the step takes another of its values in each call, and in " + std::to_string(calls.size() - 1) +
              " calls not in an order that a compiled step can repeat; let each call replace or exchange them alike");
  }
  std::vector<ArtifactCall> others; // for a short batch, or for the other kinds
  const size_t otherKinds = kinds.empty() ? (shortRows ? 1 : 0) : kinds.size() - 1;
  for (size_t kind = 1; kind <= otherKinds; ++kind) {
    record(kind);
    others.push_back(variantOf(calls.back(), sources.back(), calls[2].step, turns));
    turns.pass(calls.back().step);
  }
  auto stateNow = [&] { return state ? state() : std::vector<at::Tensor>(); };
  auto readState = [&](const std::vector<at::Tensor> &tensors) {
    std::vector<Published> published = publishLater(tensors);
    return stateOf(finishOffline(offline.session()), turns);
  };
  std::optional<ArtifactCall> readsState;
  if (std::vector<at::Tensor> tensors = stateNow(); !tensors.empty()) {
    readsState = readState(tensors);
    // Once more after a further step: the names are those after any step, or of no use.
    tensors.clear();
    record(0);
    turns.pass(calls.back().step);
    std::optional<ArtifactCall> again = readState(stateNow());
    if (!readsState || !again || again->step.states != readsState->step.states) {
      raise(ErrorKind::Unsupported,
            "the values in the result of init change places from step to step otherwise than the step takes them, so a "
            "run cannot read them; return from init what each step takes or replaces");
    }
  }

  Artifact artifact;
  for (size_t i = 0; i < 3; ++i) {
    artifact.calls[i] = fromTrace(calls[i], sources[i]);
  }
  turns.store(artifact.loopFrom, artifact.loopTo);
  for (size_t i = 0; i < others.size(); ++i) {
    if (kinds.empty()) {
      artifact.calls[3] = std::move(others[i]);
    } else {
      artifact.variants.push_back({kinds[i + 1], std::move(others[i])});
    }
  }
  if (readsState) {
    artifact.state = std::move(*readsState);
  }
  artifact.inputs = inputs;
  artifact.shortRows = shortRows.value_or(0);
  artifact.parties = offline.parties();
  artifact.tables = usedTables(offline, artifact);
  for (SpecifiedTable &table : offline.tables()) {
    table.read.clear(); // what the next compilation reads is its own
    table.isWhole = false;
  }
  for (const Batches &each : batches) {
    std::vector<std::string> names = each.table().reader()->tables();
    const bool isJoint = !names.empty();
    names = isJoint ? names : std::vector<std::string>{each.table().name()};
    for (size_t at = 0; at < names.size(); ++at) {
      auto is = [&](const Dataset &table) { return table.name == names[at]; };
      auto table = std::find_if(artifact.tables.begin(), artifact.tables.end(), is);
      if (table == artifact.tables.end()) { // each step reads a batch of a single one
        raise(ErrorKind::Error, "no batch of " + std::to_string(each.options().size) + " rows has a row of table '" +
                                    names[at] + "'; compile the step for larger batches, or without the table");
      }
      artifact.batches.push_back({isJoint ? kinds[0][at] : each.options().size, each.options().epochs,
                                  static_cast<size_t>(table - artifact.tables.begin()), each.table().part(),
                                  each.options().dropLast, isJoint ? each.options().size : 0});
    }
  }
  for (const ArtifactCall &call : artifact.calls) {
    judge(artifact, call); // what no owner of such tables would run is refused here
  }
  return artifact;
}

} // namespace sojourn
