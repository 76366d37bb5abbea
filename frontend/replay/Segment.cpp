// SPDX-License-Identifier: Apache-2.0
// What two calls have in common, and the same call once more.
#include "frontend/replay/Segment.h"

#include "frontend/recording/Generator.h"
#include "frontend/recording/Origin.h"

#include <ATen/ops/equal.h>

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <sstream>

namespace sojourn::frontend {

namespace {

uint64_t bitsOf(double value) { return c10::bit_cast<uint64_t>(value); }

std::string textOf(uint64_t bits) {
  std::ostringstream text;
  text << std::setprecision(17) << c10::bit_cast<double>(bits);
  return text.str();
}

/// Bound of the integers that numbers of a call give: float64 holds those exactly.
constexpr double kIntegerMost = 9007199254740992.0; // 2^53

std::optional<int64_t> integerOf(double value) {
  const bool isWhole = std::abs(value) <= kIntegerMost && std::nearbyint(value) == value;
  return isWhole ? std::optional(static_cast<int64_t>(value)) : std::nullopt;
}

/// Of two increasing lists.
template <typename T>
std::vector<T> common(const std::vector<T> &a, const std::vector<T> &b) {
  std::vector<T> both;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  return both;
}

} // namespace

Storage *Segment::storageOf(const at::Tensor &tensor) {
  return isRemote(tensor) ? remoteImpl(tensor)->remoteStorage().get() : nullptr;
}

bool Segment::sameContents(const at::Tensor &a, const at::Tensor &b) {
  return a.device().is_cpu() && b.device().is_cpu() && a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         at::equal(a, b);
}

at::Tensor Segment::asUploaded(const at::Tensor &tensor, at::ScalarType dtype, const Dims &sizes, const Dims &strides) {
  if (tensor.scalar_type() == dtype && tensor.sizes() == c10::IntArrayRef(sizes) &&
      tensor.strides() == c10::IntArrayRef(strides)) {
    return tensor;
  }
  return at::empty_strided(sizes, strides, tensor.options().dtype(dtype)).copy_(tensor);
}

bool Segment::isUploadOf(const at::Tensor &tensor, const at::Tensor &upload) {
  // No upload drops an imaginary part.
  return tensor.device().is_cpu() && (!tensor.is_complex() || upload.is_complex()) &&
         at::is_expandable_to(tensor.sizes(), upload.sizes()) &&
         at::equal(tensor.to(upload.scalar_type()).expand(upload.sizes()), upload);
}

std::optional<size_t> Segment::placeOf(const PublishedState *state) const {
  auto found = std::find_if(publishes_.begin(), publishes_.end(),
                            [&](const Release &release) { return release.first == state; });
  return found == publishes_.end() ? std::nullopt : std::optional(static_cast<size_t>(found - publishes_.begin()));
}

std::string Segment::differs(const Segment &other) const {
  if (recipe_->words != other.recipe_->words || defaultFloat_ != other.defaultFloat_ ||
      seeds_.size() != other.seeds_.size()) {
    return "it recorded other ops than the previous call";
  }
  if (generators_ != other.generators_) {
    return "it drew from other generators than the previous call";
  }
  auto same = [](const LeftTensor &a, const LeftTensor &b) {
    return a.value == b.value && a.sizes == b.sizes && a.strides == b.strides && a.offset == b.offset;
  };
  for (size_t i = 0; i < integers_.size(); ++i) {
    const Integer &a = integers_[i], &b = other.integers_[i];
    if (a.value != b.value && common(a.sources, b.sources).empty()) {
      return "it recorded other ops than the previous call";
    }
  }
  auto sameRelease = [](const Release &a, const Release &b) {
    return a.value == b.value && a.terms.bound == b.terms.bound;
  };
  if (!std::equal(publishes_.begin(), publishes_.end(), other.publishes_.begin(), other.publishes_.end(),
                  sameRelease)) {
    return "it published other values than the previous call, or with other bounds";
  }
  if (!std::equal(outputs_.begin(), outputs_.end(), other.outputs_.begin(), other.outputs_.end(), same)) {
    return "it returned other tensors than the previous call";
  }
  if (!std::equal(gradients_.begin(), gradients_.end(), other.gradients_.begin(), other.gradients_.end(), same)) {
    return "it left other gradients than the previous call";
  }
  for (size_t i = 0; i < values_.size(); ++i) {
    const Value &a = values_[i], &b = other.values_[i];
    if (a.element != b.element || a.sizes != b.sizes || a.strides != b.strides) {
      return "it read tensors of other shapes than the previous call";
    }
    if (a.from != b.from || a.fixed != b.fixed ||
        (a.from != From::Constant && a.from != From::Fixed && a.from != From::Result &&
         common(a.places, b.places).empty())) {
      return "it read another tensor than the previous call, and this tensor is not an argument; pass it as an "
             "argument";
    }
    if (a.from == From::Constant && !sameContents(a.contents, b.contents)) {
      return "it uploaded a CPU tensor that changed and is not an argument; pass it as an argument";
    }
  }
  return {};
}

void Segment::note(const std::vector<double> &values) {
  for (uint32_t source = 0; source < values.size(); ++source) {
    for (Slot &slot : slots_) {
      if (bitsOf(values[source]) == slot.bits) {
        slot.sources.push_back(source);
      }
    }
    const std::optional<int64_t> whole = integerOf(values[source]);
    for (Integer &integer : integers_) {
      if (whole == integer.value) {
        integer.sources.push_back(source);
      }
    }
  }
}

std::string Segment::explain(const Segment &before) {
  for (size_t i = 0; i < values_.size(); ++i) {
    Value &value = values_[i];
    const Value &earlier = before.values_[i];
    value.places = common(value.places, earlier.places);
    value.isOne = earlier.isOne && (value.from == From::Copied ? sameContents(value.contents, earlier.contents)
                                                               : value.seen == earlier.seen);
  }
  for (size_t at = 0; at < slots_.size(); ++at) {
    Slot &slot = slots_[at];
    const Slot &earlier = before.slots_[at];
    slot.sources = common(slot.sources, earlier.sources);
    slot.isConstant = earlier.isConstant && earlier.bits == slot.bits;
    if (!slot.isConstant && slot.sources.empty()) {
      return "a number changed from call to call (" + textOf(earlier.bits) + ", then " + textOf(slot.bits) + ")" +
             describeOrigin(recipe_->origins[recipe_->slotOps[at]]);
    }
  }
  for (size_t i = 0; i < integers_.size(); ++i) {
    const Integer &earlier = before.integers_[i];
    integers_[i].sources = common(integers_[i].sources, earlier.sources);
    integers_[i].isConstant = earlier.isConstant && earlier.value == integers_[i].value;
  }
  return {};
}

bool Segment::determines(const std::vector<double> &values) const {
  const auto isDetermined = [&](const Integer &integer) {
    const auto first = integer.isConstant ? std::optional(integer.value) : integerOf(values[integer.sources.front()]);
    return first && std::all_of(integer.sources.begin(), integer.sources.end(),
                                [&](uint32_t source) { return integerOf(values[source]) == first; });
  };
  return std::all_of(integers_.begin(), integers_.end(), isDetermined) &&
         std::all_of(slots_.begin(), slots_.end(), [&](const Slot &slot) {
           const uint64_t bits = slot.isConstant ? slot.bits : bitsOf(values[slot.sources.front()]);
           return std::all_of(slot.sources.begin(), slot.sources.end(),
                              [&](uint32_t source) { return bitsOf(values[source]) == bits; });
         });
}

bool Segment::fits(const CallTensors &call) const {
  const std::shared_ptr<Session> session = session_.lock();
  if (!session) {
    return false;
  }
  return std::all_of(values_.begin(), values_.end(), [&](const Value &value) {
    if (value.from == From::Fixed) {
      return !value.fixed->lost;
    }
    if (value.from == From::Constant || value.from == From::Result) {
      return true;
    }
    const std::vector<at::Tensor> &tensors = value.from == From::Gradient ? call.gradients : call.arguments;
    const at::Tensor &first = tensors[value.places.front()];
    if (value.from == From::Copied) {
      const auto uploaded = [&](size_t place) {
        return asUploaded(tensors[place], value.contents.scalar_type(), value.sizes, value.strides);
      };
      return (!value.isOne || isUploadOf(first, value.contents)) &&
             std::all_of(value.places.begin() + 1, value.places.end(),
                         [&](size_t place) { return sameContents(uploaded(place), uploaded(value.places.front())); });
    }
    const Storage *storage = storageOf(first);
    return storage && storage->device == session && elementOf(storage->dtype) == value.element &&
           storage->sizes == value.sizes && storage->strides == value.strides &&
           (!value.isOne || value.from == From::Gradient || storage->serial == value.seen) &&
           std::all_of(value.places.begin() + 1, value.places.end(),
                       [&](size_t place) { return storageOf(tensors[place]) == storage; });
  });
}

Storage *Segment::known(const Value &value, const CallTensors &call) const {
  switch (value.from) {
  case From::Argument: return storageOf(call.arguments[value.places.front()]);
  case From::Gradient: return storageOf(call.gradients[value.places.front()]);
  case From::Fixed: return value.fixed.get();
  default: return nullptr;
  }
}

void Segment::prepare(const CallTensors &call, Recording &open) const {
  const Origin first = recipe_->origins.empty() ? Origin() : recipe_->origins.front();
  for (const Value &value : values_) {
    if (Storage *storage = known(value, call)) {
      open.unpack(*storage, first);
      if (!value.isWritten) {
        open.readAgain(*storage, first);
      }
    }
  }
}

std::vector<int64_t> Segment::enter(const CallTensors &call, Recording &open, Storages &storages) const {
  std::vector<int64_t> ids;
  ids.reserve(values_.size());
  storages.resize(values_.size());
  for (size_t number = 0; number < values_.size(); ++number) {
    const Value &value = values_[number];
    c10::intrusive_ptr<Storage> &storage = storages[number];
    if (value.from == From::Result) {
      if (value.isKept) {
        storage = open.makeResult({value.sizes, value.strides, scalarTypeOf(value.element), true});
        storage->isTrained = value.isTrained;
        ids.push_back(open.trace.storageCount - 1);
      } else {
        ids.push_back(open.makeHidden());
      }
      continue;
    }
    if (Storage *there = known(value, call)) {
      storage = there->strong();
    } else {
      const bool isCopied = value.from == From::Copied;
      const at::Tensor &source = isCopied ? call.arguments[value.places.front()] : value.contents;
      storage = open.device().makeUpload(asUploaded(source, value.contents.scalar_type(), value.sizes, value.strides),
                                         /*fresh=*/!isCopied);
    }
    storage->isTrained = storage->isTrained || value.isTrained;
    if (value.isWritten) {
      open.willWrite(*storage);
    }
    ids.push_back(open.idOf(*storage));
  }
  return ids;
}

void Segment::write(std::vector<int64_t> ids, const std::vector<double> &values, const std::vector<uint64_t> &seeds,
                    bool isOnly, Recording &open) const {
  Trace &trace = open.trace;
  for (const Slot &slot : slots_) {
    trace.slots.push_back(slot.isConstant ? slot.bits : bitsOf(values[slot.sources.front()]));
  }
  trace.seeds.insert(trace.seeds.end(), seeds.begin(), seeds.end());
  open.generators.insert(open.generators.end(), generators_.begin(), generators_.end());
  open.device().counts().ops_recorded += recipe_->origins.size();
  if (isOnly) {
    open.recipe = recipe_;
    open.recipeIds = std::move(ids);
    return;
  }
  const size_t begin = trace.words.size();
  trace.words.insert(trace.words.end(), recipe_->words.begin(), recipe_->words.end());
  for (size_t position : recipe_->references) {
    Word &word = trace.words[begin + position];
    word = ids[static_cast<size_t>(word)];
  }
  for (const Integer &integer : integers_) {
    trace.words[begin + integer.at] =
        integer.isConstant ? integer.value : static_cast<Word>(values[integer.sources.front()]);
  }
  const auto firstOp = static_cast<uint32_t>(trace.origins.size());
  trace.origins.insert(trace.origins.end(), recipe_->origins.begin(), recipe_->origins.end());
  for (uint32_t op : recipe_->slotOps) {
    trace.slotOps.push_back(firstOp + op);
  }
}

Replayed Segment::leave(const Storages &storages, Recording &open) const {
  Replayed made;
  for (const Release &release : publishes_) {
    auto state = std::make_shared<PublishedState>();
    state->terms = release.terms;
    open.publishes.emplace_back(storages[static_cast<size_t>(release.value)], state);
    made.published.push_back(std::move(state));
  }
  auto tensorOf = [&](const LeftTensor &left) {
    if (left.value < 0) {
      return at::Tensor();
    }
    const auto &storage = storages[static_cast<size_t>(left.value)];
    at::Tensor whole = makeTensor(storage);
    bool isWhole = left.offset == 0 && left.sizes == storage->sizes && left.strides == storage->strides;
    return isWhole ? whole : makeView(whole, {left.sizes, left.strides, left.offset});
  };
  for (const LeftTensor &left : outputs_) {
    made.outputs.push_back(tensorOf(left));
  }
  for (const LeftTensor &left : gradients_) {
    made.gradients.push_back(tensorOf(left));
  }
  return made;
}

Replayed Segment::replay(const CallTensors &call, const std::vector<double> &values) const {
  const std::shared_ptr<Session> session = session_.lock();
  if (!session) {
    raise(ErrorKind::Error, "the session that recorded this call has ended");
  }
  std::vector<uint64_t> seeds;
  seeds.reserve(generators_.size());
  for (const at::Generator &generator : generators_) {
    seeds.push_back(drawSeed(generator)); // before the lock: some wait for Python's
  }
  DeviceLock lock(session->mutex());
  session->requireOpen();
  Recording &open = session->recording();
  prepare(call, open);
  const Trace &trace = open.trace;
  const bool isOnly = trace.words.empty() && trace.tables.empty() && trace.defaultFloat == defaultFloat_ &&
                      open.publishes.empty() &&
                      std::all_of(integers_.begin(), integers_.end(), [](auto &integer) { return integer.isConstant; });
  open.trace.setDefaultFloat(defaultFloat_);
  Storages storages;
  std::vector<int64_t> ids = enter(call, open, storages);
  write(std::move(ids), values, seeds, isOnly, open);
  return leave(storages, open);
}

void Segment::settle(const CallTensors &call, const Replayed &made) const {
  for (size_t i = 0; i < gradients_.size(); ++i) {
    if (gradients_[i].value != LeftTensor::kUntouched) {
      call.leaves[i].mutable_grad() = made.gradients[i];
    }
  }
}

} // namespace sojourn::frontend
