// SPDX-License-Identifier: Apache-2.0
// One walk over the words of a step: which values a call refers to, where they come from, what it leaves.
#include "dialect/Signature.h"
#include "frontend/recording/TraceWalk.h"
#include "frontend/replay/Segment.h"

#include <algorithm>
#include <map>
#include <utility>

namespace sojourn::frontend {

/// Reads the words of a segment: which values it refers to, makes and writes, in order.
class Segment::Walk : public TraceVisitor {
public:
  Walk(Segment &segment, const Recording &open, const Trace::Mark &mark)
      : segment_(segment), open_(open), mark_(mark), numbers_(open.storages.size(), LeftTensor::kNone),
        inputs_(open.storages.size(), -1), uploads_(open.storages.size(), -1) {
    int64_t upload = 0;
    const std::vector<Word> &inputs = open.trace.inputs;
    for (size_t at = 0; at < inputs.size(); at += 4 + 2 * static_cast<size_t>(inputs[at + 3])) {
      const auto id = static_cast<size_t>(inputs[at]);
      inputs_[id] = static_cast<int64_t>(at);
      uploads_[id] = inputKindOf(inputs[at + 1]) == InputKind::Upload ? upload++ : -1;
    }
    nextResult_ = mark.storages;
  }

  void run() {
    const Trace &trace = open_.trace;
    std::vector<Word> &words = segment_.recipe_->words;
    words.assign(trace.words.begin() + static_cast<std::ptrdiff_t>(mark_.words), trace.words.end());
    segment_.defaultFloat_ = trace.defaultFloat;
    if (!words.empty() && static_cast<Record>(words[0]) == Record::DefaultFloat) {
      words.erase(words.begin(), words.begin() + 2);
    }
    TraceWalk(words, *this).run();
    numberThem();
  }

  const std::vector<int64_t> &numbers() const { return numbers_; }
  /// Of an id whose value comes from outside: the host tensor that it was uploaded from, if it was.
  at::Tensor uploadOf(int64_t id) const {
    int64_t at = uploads_[static_cast<size_t>(id)];
    return at < 0 ? at::Tensor() : open_.uploads[static_cast<size_t>(at)];
  }
  /// Of such an upload: its element, sizes and strides, as they entered the trace.
  void describe(int64_t id, Value &value) const {
    const Word *words = open_.trace.inputs.data() + inputs_[static_cast<size_t>(id)];
    value.element = static_cast<Element>(words[2]);
    value.sizes.assign(words + 4, words + 4 + words[3]);
    value.strides.assign(words + 4 + words[3], words + 4 + 2 * words[3]);
  }
  const std::vector<int64_t> &ids() const { return ids_; }
  bool isResult(int64_t id) const { return id >= mark_.storages && inputs_[static_cast<size_t>(id)] < 0; }

  // What the walk tells.
  bool goesOn() const { return segment_.obstacle.empty(); }
  void defaultFloat(Element) { segment_.obstacle = "it changes torch's default dtype"; }
  void slot(Tag tag) {
    if (tag == Tag::IntSlot) {
      tableRef();
    }
  }
  void number(size_t at) {
    segment_.integers_.push_back({at, std::exchange(segment_.recipe_->words[at], 0), true, {}});
    segment_.recipe_->integers.emplace_back(at, segment_.integers_.back().value);
  }
  void tableRef() { segment_.obstacle = "it reads a table; read its batches outside and pass them"; }
  void reference(size_t at, bool, bool isMutated) {
    segment_.recipe_->references.push_back(at);
    const Word id = segment_.recipe_->words[at];
    if (numbers_[static_cast<size_t>(id)] == LeftTensor::kNone) {
      numbers_[static_cast<size_t>(id)] = 0;
      found_.push_back(id);
    }
    if (isMutated) {
      written_.push_back(id);
    }
  }
  void result(size_t at) {
    const Word *words = segment_.recipe_->words.data() + at;
    if (words[0] < 0) {
      return;
    }
    while (inputs_[static_cast<size_t>(nextResult_)] >= 0) {
      ++nextResult_;
    }
    const auto rank = static_cast<size_t>(words[1]);
    const Word *layout = words + 2;
    Value value;
    value.element = static_cast<Element>(words[0]);
    value.sizes.assign(layout, layout + rank);
    value.strides.assign(layout + rank, layout + 2 * rank);
    numbers_[static_cast<size_t>(nextResult_)] = 0;
    found_.push_back(nextResult_);
    results_[nextResult_++] = std::move(value);
  }

private:
  /// What was pending before comes first, the rest in the order in which it entered the trace.
  void numberThem() {
    std::stable_sort(found_.begin(), found_.end(), [&](int64_t a, int64_t b) {
      return std::max(a, mark_.storages - 1) < std::max(b, mark_.storages - 1);
    });
    ids_ = found_;
    for (size_t number = 0; number < ids_.size(); ++number) {
      numbers_[static_cast<size_t>(ids_[number])] = static_cast<int64_t>(number);
      auto result = results_.find(ids_[number]);
      segment_.values_.push_back(result == results_.end() ? Value() : std::move(result->second));
    }
    for (size_t position : segment_.recipe_->references) {
      Word &id = segment_.recipe_->words[position];
      id = numbers_[static_cast<size_t>(id)];
    }
    for (int64_t id : written_) {
      segment_.values_[static_cast<size_t>(numbers_[static_cast<size_t>(id)])].isWritten = true;
    }
  }

  Segment &segment_;
  const Recording &open_;
  const Trace::Mark mark_;
  int64_t nextResult_ = 0;
  std::vector<int64_t> numbers_; ///< by id
  std::vector<int64_t> inputs_;  ///< where each of them is described, or -1
  std::vector<int64_t> uploads_;
  std::vector<int64_t> found_, written_, ids_;
  std::map<int64_t, Value> results_;
};

namespace {

/// Whether both show the same elements of the same memory, in the same form.
bool isSameWindow(const at::Tensor &a, const at::Tensor &b) {
  return remoteImpl(a)->remoteStorage() == remoteImpl(b)->remoteStorage() && a.scalar_type() == b.scalar_type() &&
         a.sizes() == b.sizes() && a.strides() == b.strides() && a.storage_offset() == b.storage_offset();
}

} // namespace

LeftTensor Segment::left(const at::Tensor &tensor, const std::vector<int64_t> &numbers, const Recording &open) const {
  Storage::Place *place = remoteImpl(tensor)->remoteStorage()->placeIn(open);
  LeftTensor result;
  result.value = place ? numbers[static_cast<size_t>(place->id)] : LeftTensor::kNone;
  result.sizes.assign(tensor.sizes().begin(), tensor.sizes().end());
  result.strides.assign(tensor.strides().begin(), tensor.strides().end());
  result.offset = tensor.storage_offset();
  return result;
}

std::shared_ptr<Segment> Segment::capture(const std::shared_ptr<Session> &session, const CallTensors &call,
                                          const std::vector<at::Tensor> &outputs) {
  DeviceLock lock(session->mutex());
  auto segment = std::make_shared<Segment>();
  Recording &open = session->recording();
  const Recording::Mark &mark = open.marked();
  const Trace &trace = open.trace;
  segment->session_ = session;
  if (mark.trace.storages > trace.storageCount || mark.trace.words > trace.words.size()) {
    segment->obstacle = "pending ops were sent inside the call";
    return segment;
  }
  if (open.hasChanged()) {
    segment->obstacle = "it changes the layout of a tensor that outlives the call (t_(), out=, .data =)";
  }
  if (open.unrepeatable) {
    segment->obstacle = open.unrepeatable;
  }
  Walk walk(*segment, open, mark.trace);
  walk.run();
  if (!segment->obstacle.empty()) {
    return segment;
  }
  for (size_t number = 0; number < segment->values_.size(); ++number) {
    const int64_t id = walk.ids()[number];
    Value &value = segment->values_[number];
    Storage *storage = open.storages[static_cast<size_t>(id)];
    if (walk.isResult(id)) {
      value.isTrained = storage && storage->isTrained;
      continue;
    }
    const at::Tensor upload = walk.uploadOf(id);
    auto among = [](const std::vector<at::Tensor> &tensors, auto is) {
      std::vector<size_t> found;
      for (size_t i = 0; i < tensors.size(); ++i) {
        if (tensors[i].defined() && is(tensors[i])) {
          found.push_back(i);
        }
      }
      return found;
    };
    auto isHere = [&](const at::Tensor &tensor) { return storage && storageOf(tensor) == storage; };
    value.seen = storage ? storage->serial : 0;
    if (value.places = among(call.arguments, isHere); !value.places.empty()) {
      value.from = From::Argument;
    } else if (value.places = among(call.gradients, isHere); !value.places.empty()) {
      value.from = From::Gradient;
    } else if (upload.defined()) {
      value.places = among(call.arguments, [&](const at::Tensor &tensor) { return isUploadOf(tensor, upload); });
      value.from = value.places.empty() ? From::Constant : From::Copied;
      value.contents = upload;
    } else if (storage && (value.fixed = storage->strong())) {
      value.from = From::Fixed;
    } else {
      segment->obstacle = "it reads and replaces a tensor that is not an argument (such as a hidden state); take it as "
                          "an argument and return it";
      return segment;
    }
    if (upload.defined()) {
      walk.describe(id, value);
    }
    if (storage) {
      value.element = elementOf(storage->dtype);
      value.sizes = storage->sizes;
      value.strides = storage->strides;
      value.isTrained = storage->isTrained;
      if (value.isTrained && among(call.leaves, isHere).empty()) {
        segment->obstacle =
            "it trains a tensor that is neither an argument nor a parameter of a module or optimizer that it uses";
      }
    }
  }
  for (size_t at = mark.trace.slots; at < trace.slots.size(); ++at) {
    segment->slots_.push_back({trace.slots[at], true, {}});
    segment->recipe_->slotOps.push_back(trace.slotOps[at] - static_cast<uint32_t>(mark.trace.origins));
  }
  segment->recipe_->origins.assign(trace.origins.begin() + static_cast<std::ptrdiff_t>(mark.trace.origins),
                                   trace.origins.end());
  segment->seeds_.assign(trace.seeds.begin() + static_cast<std::ptrdiff_t>(mark.trace.seeds), trace.seeds.end());
  segment->generators_.assign(open.generators.begin() + static_cast<std::ptrdiff_t>(mark.trace.seeds),
                              open.generators.end());
  auto keep = [&](const at::Tensor &seen, LeftTensor tensor) {
    if (plainType(seen) != storageOf(seen)->dtype) {
      segment->obstacle = "it leaves a tensor that is viewed as another dtype, conjugated or negated; clone() it";
    }
    if (tensor.value >= 0) {
      segment->values_[static_cast<size_t>(tensor.value)].isKept = true;
    }
    return tensor;
  };
  for (const at::Tensor &output : outputs) {
    segment->outputs_.push_back(keep(output, segment->left(output, walk.numbers(), open)));
    if (segment->outputs_.back().value < 0) {
      segment->obstacle = "it returns a tensor that it neither takes nor computes";
    }
  }
  for (size_t i = 0; i < call.leaves.size(); ++i) {
    const at::Tensor &gradient = call.leaves[i].grad();
    LeftTensor found;
    found.value = LeftTensor::kUntouched;
    if (!gradient.defined()) {
      found.value = call.gradients[i].defined() ? LeftTensor::kNone : LeftTensor::kUntouched;
    } else if (isRemote(gradient) && storageOf(gradient)->device == session &&
               (!call.gradients[i].defined() || !isSameWindow(gradient, call.gradients[i]))) {
      found = keep(gradient, segment->left(gradient, walk.numbers(), open));
      if (found.value < 0) {
        segment->obstacle = "it gives a parameter a gradient that it does not compute";
      }
    }
    segment->gradients_.push_back(std::move(found));
  }
  for (size_t at = mark.publishes; at < open.publishes.size(); ++at) {
    const auto &[storage, state] = open.publishes[at];
    const int64_t number = walk.numbers()[static_cast<size_t>(storage->placeIn(open)->id)];
    if (number < 0) {
      segment->obstacle = "it publishes a value that it does not compute";
      return segment;
    }
    segment->values_[static_cast<size_t>(number)].isKept = true;
    if (state->terms.epsilon != 0 || state->terms.delta != 0) {
      segment->obstacle = "it publishes at a price, which each call must state anew";
    }
    segment->publishes_.push_back({number, state->terms, state.get()});
  }
  return segment;
}

} // namespace sojourn::frontend
