// SPDX-License-Identifier: Apache-2.0
// One walk over the words of a trace that keeps the ops that do not depend on a refused one.
#include "frontend/recording/Prune.h"

#include "frontend/recording/TraceWalk.h"

#include <algorithm>

namespace sojourn::frontend {

namespace {

class Pruner : public TraceVisitor {
public:
  Pruner(const Trace &trace, size_t refused) : from_(trace), refused_(refused) {
    out_.lost.assign(trace.storageCount, false);
    out_.newId.assign(trace.storageCount, 0);
    isInput_.assign(trace.storageCount, false);
    for (size_t at = 0; at < trace.inputs.size(); at += 4 + 2 * trace.inputs[at + 3]) {
      isInput_[trace.inputs[at]] = true;
    }
  }

  PrunedTrace run() {
    TraceWalk(from_.words, *this).run();
    for (int64_t id = 0, next = 0; id < from_.storageCount; ++id) {
      out_.newId[id] = dropped(id) ? -1 : next++;
      out_.trace.storageCount = next;
    }
    for (size_t position : idPositions_) {
      Word &id = out_.trace.words[position];
      id = out_.newId[id];
    }
    out_.trace.inputs = from_.inputs;
    for (size_t at = 0; at < out_.trace.inputs.size(); at += 4 + 2 * out_.trace.inputs[at + 3]) {
      out_.trace.inputs[at] = out_.newId[out_.trace.inputs[at]];
    }
    out_.trace.tables = from_.tables;
    return std::move(out_);
  }

  // What the walk tells.
  void defaultFloat(Element element) { defaultFloat_ = element; }
  void beginOp(size_t begin, const OpEntry &) {
    begin_ = begin;
    slotsBefore_ = slots_;
    seedsBefore_ = seeds_;
    positions_.clear();
    written_.clear();
    results_.clear();
    depends_ = op_ == refused_;
  }
  void slot(Tag) { ++slots_; }
  void seed() { ++seeds_; }
  void reference(size_t at, bool, bool isMutated) {
    positions_.push_back(at);
    Word id = from_.words[at];
    depends_ = depends_ || out_.lost[id];
    if (isMutated) {
      written_.push_back(id);
    }
  }
  void result(size_t at) {
    if (from_.words[at] >= 0) {
      results_.push_back(nextResult());
    }
  }
  void endOp(size_t end) {
    if (depends_) {
      for (int64_t id : results_) {
        out_.lost[id] = true;
        out_.newId[id] = -1;
      }
      for (Word id : written_) {
        out_.lost[id] = true;
      }
    } else {
      keep(end);
    }
    ++op_;
  }

private:
  bool dropped(int64_t id) const { return out_.newId[id] < 0; }

  int64_t nextResult() {
    while (isInput_[nextResult_]) {
      ++nextResult_;
    }
    return nextResult_++;
  }

  void keep(size_t end) {
    Trace &to = out_.trace;
    to.setDefaultFloat(defaultFloat_);
    for (size_t position : positions_) {
      idPositions_.push_back(to.words.size() + position - begin_);
    }
    auto words = from_.words.begin();
    to.words.insert(to.words.end(), words + static_cast<std::ptrdiff_t>(begin_),
                    words + static_cast<std::ptrdiff_t>(end));
    to.origins.push_back(from_.origins[op_]);
    for (size_t slot = slotsBefore_; slot < slots_; ++slot) {
      to.slots.push_back(from_.slots[slot]);
      to.slotOps.push_back(static_cast<uint32_t>(to.origins.size()) - 1);
    }
    for (size_t seed = seedsBefore_; seed < seeds_; ++seed) {
      to.seeds.push_back(from_.seeds[seed]);
    }
  }

  const Trace &from_;
  size_t refused_;
  PrunedTrace out_;
  std::vector<bool> isInput_;
  std::vector<size_t> positions_, idPositions_;
  std::vector<Word> written_;
  std::vector<int64_t> results_;
  size_t begin_ = 0, op_ = 0, slots_ = 0, seeds_ = 0, slotsBefore_ = 0, seedsBefore_ = 0;
  int64_t nextResult_ = 0;
  bool depends_ = false;
  Element defaultFloat_ = Element::f32;
};

} // namespace

PrunedTrace pruneTrace(const Trace &trace, size_t op) { return Pruner(trace, op).run(); }

namespace {

/// Positions of the words that are storages' ids.
struct References final : TraceVisitor {
  explicit References(const std::vector<Word> &words) { TraceWalk(words, *this).run(); }
  void reference(size_t at, bool, bool) { positions.push_back(at); }
  std::vector<size_t> positions;
};

} // namespace

std::vector<bool> usedIds(const Trace &trace) {
  std::vector<bool> used(static_cast<size_t>(trace.storageCount));
  for (size_t at : References(trace.words).positions) {
    used[static_cast<size_t>(trace.words[at])] = true;
  }
  return used;
}

size_t dropInput(Trace &trace, int64_t id) {
  size_t dropped = 0;
  for (size_t at = 0, size = 0; at < trace.inputs.size(); at += size) {
    size = 4 + 2 * static_cast<size_t>(trace.inputs[at + 3]);
    if (trace.inputs[at] == id) {
      dropped = at;
      const auto begin = trace.inputs.begin() + static_cast<std::ptrdiff_t>(at);
      trace.inputs.erase(begin, begin + static_cast<std::ptrdiff_t>(size));
      size = 0;
    } else {
      trace.inputs[at] -= trace.inputs[at] > id ? 1 : 0;
    }
  }
  for (size_t at : References(trace.words).positions) {
    trace.words[at] -= trace.words[at] > id ? 1 : 0;
  }
  --trace.storageCount;
  return dropped;
}

} // namespace sojourn::frontend
