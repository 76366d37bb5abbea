// SPDX-License-Identifier: Apache-2.0
// One walk over the words of a trace that keeps the ops that do not depend on a refused one.
#include "frontend/recording/Prune.h"

namespace sojourn::frontend {

namespace {

class Pruner {
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
    while (at_ < from_.words.size()) {
      if (static_cast<Record>(from_.words[at_]) == Record::DefaultFloat) {
        defaultFloat_ = static_cast<Element>(from_.words[at_ + 1]);
        at_ += 2;
      } else {
        walkOp();
      }
    }
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

private:
  bool dropped(int64_t id) const { return out_.newId[id] < 0; }
  Word word() { return from_.words[at_++]; }

  /// Reads one argument; notes the storages in it and how many slots and seeds it takes.
  void walkArgument(bool mutated) {
    switch (static_cast<Tag>(word())) {
    case Tag::None: break;
    case Tag::Slot:
    case Tag::IntSlot: ++slots_; break;
    case Tag::Seed: ++seeds_; break;
    case Tag::Whole: note(mutated); break;
    case Tag::View: {
      note(mutated);
      Word rank = word();
      at_ += 2 * rank + 1;
      break;
    }
    case Tag::IntList:
    case Tag::BoolList:
    case Tag::StringList: {
      Word count = word();
      at_ += count;
      break;
    }
    case Tag::List:
      for (Word count = word(); count > 0; --count) {
        walkArgument(mutated);
      }
      break;
    default: ++at_;
    }
  }

  void note(bool mutated) {
    positions_.push_back(at_);
    Word id = word();
    depends_ = depends_ || out_.lost[id];
    if (mutated) {
      written_.push_back(id);
    }
  }

  int64_t nextResult() {
    while (isInput_[nextResult_]) {
      ++nextResult_;
    }
    return nextResult_++;
  }

  void walkOp() {
    size_t begin = at_, slotsBefore = slots_, seedsBefore = seeds_;
    positions_.clear();
    written_.clear();
    depends_ = op_ == refused_;
    ++at_; // Record::Op
    const OpEntry &entry = OpTable::get().at(word());
    Word arguments = word();
    for (Word i = 0; i < arguments; ++i) {
      walkArgument(entry.mutated[i]);
    }
    std::vector<int64_t> results;
    for (Word count = word(); count > 0; --count) {
      if (word() >= 0) {
        Word rank = word();
        at_ += 2 * rank;
        results.push_back(nextResult());
      }
    }
    if (depends_) {
      for (int64_t id : results) {
        out_.lost[id] = true;
        out_.newId[id] = -1;
      }
      for (Word id : written_) {
        out_.lost[id] = true;
      }
    } else {
      keep(begin, slotsBefore, seedsBefore);
    }
    ++op_;
  }

  void keep(size_t begin, size_t slotsBefore, size_t seedsBefore) {
    Trace &to = out_.trace;
    to.setDefaultFloat(defaultFloat_);
    for (size_t position : positions_) {
      idPositions_.push_back(to.words.size() + position - begin);
    }
    auto words = from_.words.begin();
    to.words.insert(to.words.end(), words + static_cast<std::ptrdiff_t>(begin),
                    words + static_cast<std::ptrdiff_t>(at_));
    to.origins.push_back(from_.origins[op_]);
    for (size_t slot = slotsBefore; slot < slots_; ++slot) {
      to.slots.push_back(from_.slots[slot]);
      to.slotOps.push_back(static_cast<uint32_t>(to.origins.size()) - 1);
    }
    for (size_t seed = seedsBefore; seed < seeds_; ++seed) {
      to.seeds.push_back(from_.seeds[seed]);
    }
  }

  const Trace &from_;
  size_t refused_;
  PrunedTrace out_;
  std::vector<bool> isInput_;
  std::vector<size_t> positions_, idPositions_;
  std::vector<Word> written_;
  size_t at_ = 0, op_ = 0, slots_ = 0, seeds_ = 0;
  int64_t nextResult_ = 0;
  bool depends_ = false;
  Element defaultFloat_ = Element::f32;
};

} // namespace

PrunedTrace pruneTrace(const Trace &trace, size_t op) { return Pruner(trace, op).run(); }

} // namespace sojourn::frontend
