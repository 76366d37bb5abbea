// SPDX-License-Identifier: Apache-2.0
// One call of a step's function: what it starts from, what it recorded at each owner, and its repetition. Which calls
// are alike, and where numbers come from, is the caller's business (sojourn/replay.py).
#ifndef SOJOURN_FRONTEND_REPLAY_CALL_H
#define SOJOURN_FRONTEND_REPLAY_CALL_H

#include "frontend/Sojourn.h"
#include "frontend/recording/Generator.h"
#include "frontend/replay/HostContents.h"
#include "frontend/replay/Segment.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sojourn::frontend {

/// What a tensor argument has to be like, for calls that are alike: a replay takes any such tensor.
struct TensorForm {
  explicit TensorForm(const at::Tensor &tensor)
      : device(tensor.device()), dtype(plainType(tensor)), sizes(tensor.sizes().vec()), strides(tensor.strides().vec()),
        offset(tensor.storage_offset()) {}
  bool fits(const at::Tensor &tensor) const {
    return dtype != at::ScalarType::Undefined && !tensor.requires_grad() && tensor.device() == device &&
           plainType(tensor) == dtype && tensor.sizes() == sizes && tensor.strides() == strides &&
           tensor.storage_offset() == offset;
  }

  c10::Device device;
  at::ScalarType dtype;
  std::vector<int64_t> sizes, strides;
  int64_t offset;
};

/// Tensors that a function uses without taking them: parameters, whose gradients it may leave, and others.
class Watched {
public:
  Watched(std::vector<at::Tensor> parameters, std::vector<at::Tensor> others)
      : parameters_(std::move(parameters)), others_(std::move(others)) {}
  const std::vector<at::Tensor> &parameters() const { return parameters_; }
  /// Which storages they name now and how, which want gradients, which have them: equal texts, equal places.
  std::string places() const;
  /// Whether `places` is that text now.
  bool isAt(std::string_view places) const;

private:
  template <class Note>
  void eachPlace(Note note) const;

  std::vector<at::Tensor> parameters_, others_;
};

/// The moment before a call.
class CallEntry {
public:
  CallEntry(std::vector<at::Tensor> arguments, std::shared_ptr<const Watched> watched);
  const CallTensors &tensors() const { return tensors_; }
  /// For calls that will be captured: notes the states of generators, torch's own among them, and gradients of
  /// arguments that require none. `given`: generators that the previous call of the kind has used; none, if there was
  /// no such call.
  void watch(const std::optional<std::vector<at::Generator>> &given);
  /// Why what was drawn since would not be drawn again by drawing such seeds from the same generators, or empty.
  std::string obstacleOf(const std::vector<uint64_t> &seeds, const std::vector<at::Generator> &from) const;
  /// Whether an argument that requires no gradient has another one now: no replay would give it.
  bool hasSetGradients() const;
  /// Whether an argument has begun (as a leaf) or ceased to require a gradient, or a parameter has: no replay would
  /// repeat it.
  bool hasSetRequirements() const;

private:
  CallTensors tensors_;
  std::shared_ptr<const Watched> watched_;
  std::optional<WatchedGenerators> generators_;
  bool areAllKnown_ = false;
  std::vector<at::Tensor> gradients_; ///< by argument
  std::vector<bool> requirements_;    ///< whether a gradient was required, by argument, then by parameter
};

/// What a repetition returns, in the order of the captured call; gradients change when it settles.
class RepeatedCall {
public:
  std::vector<at::Tensor> outputs;
  std::vector<Published> published;
  /// After the step has committed: gradients are those that it made. Keeps what it returns alone.
  void settle();

private:
  friend class CapturedCall;
  std::shared_ptr<const class CapturedCall> call_;
  std::shared_ptr<const CallEntry> entry_;
  std::vector<Replayed> made_; ///< by segment
};

class CapturedCall : public std::enable_shared_from_this<CapturedCall> {
public:
  /// What the calling thread's step has recorded since `entry`. `outputs`: remote tensors that the call returns and was
  /// not given; `published`: values on their way out that it returns; `reached`: CPU tensors whose values it
  /// used and was not given.
  static std::shared_ptr<CapturedCall> capture(const CallEntry &entry, const std::vector<at::Tensor> &outputs,
                                               const std::vector<Published> &published,
                                               const std::vector<at::Tensor> &reached);

  /// Why it cannot be repeated without the function, or empty.
  std::string obstacle;
  /// Whether it recorded nothing at any owner.
  bool empty() const;
  /// The generators that it drew from, but for torch's own.
  std::vector<at::Generator> generators() const;
  /// As Segment's, over all owners.
  void note(const std::vector<double> &values);
  std::string differs(const CapturedCall &other) const;
  std::string explain(const CapturedCall &before);
  bool determines(const std::vector<double> &values) const;
  bool fits(const CallEntry &entry) const;
  /// Whether host memory that it read, and was not given, has changed since; then it does not fit.
  bool isStale() const { return reached_.areStale(); }
  /// Records it again in the calling thread's open step.
  std::shared_ptr<RepeatedCall> repeat(const std::shared_ptr<const CallEntry> &entry,
                                       const std::vector<double> &values) const;

  /// Records it in a step of its own, which `send` ends. The step is dropped if recording throws.
  template <class Send>
  std::shared_ptr<RepeatedCall> repeatInStep(const std::shared_ptr<const CallEntry> &entry,
                                             const std::vector<double> &values, Send send) const {
    Steps::begin();
    std::shared_ptr<RepeatedCall> made;
    try {
      made = repeat(entry, values);
    } catch (...) {
      Steps::abort();
      throw;
    }
    send();
    return made;
  }

private:
  friend class RepeatedCall;
  /// A segment, and a position in what it returns.
  using Place = std::pair<size_t, size_t>;

  std::vector<std::shared_ptr<Segment>> segments_; ///< in order of the sessions' index
  std::vector<Place> outputs_, published_;
  HostContents reached_;
};

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_REPLAY_CALL_H
