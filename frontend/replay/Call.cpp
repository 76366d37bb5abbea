// SPDX-License-Identifier: Apache-2.0
// Calls over all owners that they touch.
#include "frontend/replay/Call.h"

#include "frontend/recording/Packed.h"

#include <algorithm>
#include <cstring>

namespace sojourn::frontend {

template <class Note>
void Watched::eachPlace(Note note) const {
  auto layout = [&](const at::Tensor &tensor) {
    note(tensor.storage_offset());
    for (int64_t dim = 0; dim < tensor.dim(); ++dim) {
      note(tensor.size(dim));
      note(tensor.stride(dim));
    }
  };
  auto place = [&](const at::Tensor &tensor) {
    note(isRemote(tensor) ? static_cast<int64_t>(remoteImpl(tensor)->remoteStorage()->serial)
                          : reinterpret_cast<int64_t>(tensor.unsafeGetTensorImpl()));
    layout(tensor);
  };
  for (const at::Tensor &parameter : parameters_) {
    place(parameter);
    const at::Tensor &gradient = parameter.grad();
    note(parameter.requires_grad() + 2 * gradient.defined());
    if (gradient.defined()) {
      layout(gradient);
    }
  }
  for (const at::Tensor &tensor : others_) {
    place(tensor);
  }
}

std::string Watched::places() const {
  std::string text;
  eachPlace([&](int64_t word) { text.append(reinterpret_cast<const char *>(&word), sizeof word); });
  return text;
}

bool Watched::isAt(std::string_view places) const {
  bool isSame = true;
  eachPlace([&](int64_t word) {
    int64_t then = 0;
    isSame = isSame && places.size() >= sizeof then;
    if (isSame) {
      std::memcpy(&then, places.data(), sizeof then);
      places.remove_prefix(sizeof then);
      isSame = then == word;
    }
  });
  return isSame && places.empty();
}

namespace {

bool isTrained(const at::Tensor &tensor) { return tensor.requires_grad() && tensor.is_leaf(); }

} // namespace

CallEntry::CallEntry(std::vector<at::Tensor> arguments, std::shared_ptr<const Watched> watched)
    : watched_(std::move(watched)) {
  tensors_.arguments = std::move(arguments);
  tensors_.leaves = watched_->parameters();
  for (const at::Tensor &argument : tensors_.arguments) {
    unpackBeforeStep(argument);
    if (isTrained(argument)) {
      tensors_.leaves.push_back(argument);
    }
  }
  for (const at::Tensor &leaf : tensors_.leaves) {
    tensors_.gradients.push_back(leaf.grad());
  }
}

void CallEntry::watch(const std::optional<std::vector<at::Generator>> &given) {
  for (const at::Tensor &argument : tensors_.arguments) {
    requirements_.push_back(argument.requires_grad());
    gradients_.push_back(argument.requires_grad() ? at::Tensor() : argument.grad());
  }
  for (const at::Tensor &parameter : watched_->parameters()) {
    requirements_.push_back(parameter.requires_grad());
  }
  generators_.emplace(given.value_or(std::vector<at::Generator>()));
  areAllKnown_ = given.has_value();
}

bool CallEntry::hasSetRequirements() const {
  // A write in place makes an argument require one, too, which is then no leaf.
  auto changed = [&](const at::Tensor &tensor, size_t at) {
    return requirements_[at] ? !tensor.requires_grad() : isTrained(tensor);
  };
  const std::vector<at::Tensor> &arguments = tensors_.arguments, &parameters = watched_->parameters();
  for (size_t i = 0; i < requirements_.size(); ++i) {
    if (changed(i < arguments.size() ? arguments[i] : parameters[i - arguments.size()], i)) {
      return true;
    }
  }
  return false;
}

bool CallEntry::hasSetGradients() const {
  for (size_t i = 0; i < gradients_.size(); ++i) {
    const at::Tensor &argument = tensors_.arguments[i];
    if (!argument.requires_grad() && !argument.grad().is_same(gradients_[i])) {
      return true;
    }
  }
  return false;
}

std::string CallEntry::obstacleOf(const std::vector<uint64_t> &seeds, const std::vector<at::Generator> &from) const {
  if (!generators_) {
    raise(ErrorKind::Error, "cannot capture a call whose generators were not watched");
  }
  const bool areWatched =
      std::all_of(from.begin(), from.end(), [&](const auto &generator) { return generators_->has(generator); });
  if (areAllKnown_ && !areWatched) {
    return "it draws from a generator that the previous call did not use; make generators outside, and use the same "
           "ones in each call";
  }
  return generators_->drew(seeds, from) ? ""
                                        : "it draws random numbers otherwise than by its ops (manual_seed, "
                                          "fork_rng, checkpoint, a number on the CPU)";
}

void RepeatedCall::settle() {
  for (size_t i = 0; i < made_.size(); ++i) {
    call_->segments_[i]->settle(entry_->tensors(), made_[i]);
  }
  made_.clear();
  entry_.reset();
  call_.reset();
}

std::shared_ptr<CapturedCall> CapturedCall::capture(const CallEntry &entry, const std::vector<at::Tensor> &outputs,
                                                    const std::vector<Published> &published,
                                                    const std::vector<at::Tensor> &reached) {
  auto call = std::make_shared<CapturedCall>();
  const auto &step = ThreadState::current().step;
  if (!step) {
    raise(ErrorKind::Error, "a call can only be captured inside its step");
  }
  call->reached_ = HostContents(reached);
  call->outputs_.resize(outputs.size(), {SIZE_MAX, 0});
  call->published_.resize(published.size(), {SIZE_MAX, 0});
  std::vector<uint64_t> seeds;
  std::vector<at::Generator> from;
  size_t drawing = 0;
  for (const auto &device : step->touched) {
    if (!device) {
      continue;
    }
    const auto session = Session::of(device);
    std::vector<at::Tensor> here;
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (remoteImpl(outputs[i])->remoteStorage()->device == session) {
        call->outputs_[i] = {call->segments_.size(), here.size()};
        here.push_back(outputs[i]);
      }
    }
    auto segment = Segment::capture(session, entry.tensors(), here);
    if (segment->empty() && here.empty()) {
      continue; // a session that the thread has used before, closed perhaps
    }
    for (size_t i = 0; i < published.size(); ++i) {
      if (auto at = segment->placeOf(published[i].state().get())) {
        call->published_[i] = {call->segments_.size(), *at};
      }
    }
    seeds.insert(seeds.end(), segment->seeds().begin(), segment->seeds().end());
    from.insert(from.end(), segment->generators().begin(), segment->generators().end());
    drawing += !segment->seeds().empty();
    call->obstacle = call->obstacle.empty() ? segment->obstacle : call->obstacle;
    call->segments_.push_back(std::move(segment));
  }
  auto unless = [&](bool good, const char *why) {
    if (!good && call->obstacle.empty()) {
      call->obstacle = why;
    }
  };
  auto isPlaced = [](const Place &place) { return place.first != SIZE_MAX; };
  unless(std::all_of(call->outputs_.begin(), call->outputs_.end(), isPlaced),
         "it returns a tensor that it neither takes nor computes");
  unless(std::all_of(call->published_.begin(), call->published_.end(), isPlaced),
         "it returns a value that another step published");
  unless(drawing <= 1, "it draws random numbers at several owners");
  if (call->obstacle.empty()) {
    call->obstacle = entry.obstacleOf(seeds, from);
  }
  unless(!entry.hasSetRequirements(),
         "it changes whether an argument or a parameter requires a gradient; call requires_grad_ before the step");
  unless(!entry.hasSetGradients(), "it sets the gradient of an argument that requires none; set it after the step");
  auto isReturned = [&](size_t segment, size_t at) {
    return std::find(call->published_.begin(), call->published_.end(), Place(segment, at)) != call->published_.end();
  };
  for (size_t segment = 0; segment < call->segments_.size(); ++segment) {
    for (size_t at = 0; at < call->segments_[segment]->publishes(); ++at) {
      unless(isReturned(segment, at), "it publishes a value that it does not return");
    }
  }
  return call;
}

std::vector<at::Generator> CapturedCall::generators() const {
  std::vector<at::Generator> found;
  for (const auto &segment : segments_) {
    for (const at::Generator &generator : segment->generators()) {
      if (generator.defined() && std::find(found.begin(), found.end(), generator) == found.end()) {
        found.push_back(generator);
      }
    }
  }
  return found;
}

bool CapturedCall::empty() const {
  return std::all_of(segments_.begin(), segments_.end(), [](const auto &segment) { return segment->empty(); });
}

std::string CapturedCall::differs(const CapturedCall &other) const {
  auto sameSession = [](const auto &a, const auto &b) { return a->session() == b->session(); };
  if (!std::equal(segments_.begin(), segments_.end(), other.segments_.begin(), other.segments_.end(), sameSession)) {
    return "it recorded at other owners than the previous call";
  }
  if (outputs_ != other.outputs_ || published_ != other.published_) {
    return "it returned other values than the previous call";
  }
  for (size_t i = 0; i < segments_.size(); ++i) {
    if (std::string why = segments_[i]->differs(*other.segments_[i]); !why.empty()) {
      return why;
    }
  }
  return {};
}

void CapturedCall::note(const std::vector<double> &values) {
  for (const auto &segment : segments_) {
    segment->note(values);
  }
}

std::string CapturedCall::explain(const CapturedCall &before) {
  for (size_t i = 0; i < segments_.size(); ++i) {
    if (std::string why = segments_[i]->explain(*before.segments_[i]); !why.empty()) {
      return why;
    }
  }
  return {};
}

bool CapturedCall::determines(const std::vector<double> &values) const {
  return std::all_of(segments_.begin(), segments_.end(),
                     [&](const auto &segment) { return segment->determines(values); });
}

bool CapturedCall::fits(const CallEntry &entry) const {
  return !isStale() && std::all_of(segments_.begin(), segments_.end(),
                                   [&](const auto &segment) { return segment->fits(entry.tensors()); });
}

std::shared_ptr<RepeatedCall> CapturedCall::repeat(const std::shared_ptr<const CallEntry> &entry,
                                                   const std::vector<double> &values) const {
  auto repeated = std::make_shared<RepeatedCall>();
  repeated->call_ = shared_from_this();
  repeated->entry_ = entry;
  for (const auto &segment : segments_) {
    repeated->made_.push_back(segment->replay(entry->tensors(), values));
  }
  for (auto [segment, position] : outputs_) {
    repeated->outputs.push_back(repeated->made_[segment].outputs[position]);
  }
  for (auto [segment, position] : published_) {
    repeated->published.emplace_back(repeated->made_[segment].published[position]);
  }
  return repeated;
}

} // namespace sojourn::frontend
