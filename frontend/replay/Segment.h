// SPDX-License-Identifier: Apache-2.0
// What one call of a function recorded in a step at one session, so that it can be recorded again without the
// function: its words with places for the tensors, numbers and seeds of another call. What the words refer to is
// numbered in order of first use, so that two calls that recorded the same have equal words.
#ifndef SOJOURN_FRONTEND_REPLAY_SEGMENT_H
#define SOJOURN_FRONTEND_REPLAY_SEGMENT_H

#include "frontend/session/Session.h"

#include <optional>

namespace sojourn::frontend {

/// Tensors that a call takes or leaves, in an order that is the caller's own.
struct CallTensors {
  std::vector<at::Tensor> arguments; ///< remote or CPU
  std::vector<at::Tensor> leaves;    ///< parameters whose gradients may change
  std::vector<at::Tensor> gradients; ///< theirs at entry, or undefined
};

/// Of a tensor that a call leaves: the value of this number in the segment, seen so.
struct LeftTensor {
  static constexpr int64_t kNone = -1;      ///< no value: a gradient that is None
  static constexpr int64_t kUntouched = -2; ///< a gradient that is as it was
  int64_t value = kNone;
  Dims sizes, strides;
  int64_t offset = 0;
};

/// What one replay makes.
struct Replayed {
  std::vector<at::Tensor> outputs;
  std::vector<at::Tensor> gradients; ///< by leaf; undefined where it is None or not of this session
  std::vector<std::shared_ptr<PublishedState>> published;
};

/// The dtype of a tensor that is what its memory says; Undefined of one that torch conjugates or negates when it is
/// read, which no quick comparison takes for another.
inline at::ScalarType plainType(const at::Tensor &tensor) {
  return tensor.is_conj() || tensor.is_neg() ? at::ScalarType::Undefined : tensor.scalar_type();
}

class Segment {
public:
  /// What the calling thread's open step has recorded at `session`. `outputs` are remote tensors of that session that
  /// the call returns. Where it cannot be recorded again, `obstacle` says why.
  static std::shared_ptr<Segment> capture(const std::shared_ptr<Session> &session, const CallTensors &call,
                                          const std::vector<at::Tensor> &outputs);

  std::string obstacle;
  /// Null once it has ended.
  std::shared_ptr<Session> session() const { return session_.lock(); }
  /// Seeds that it drew in the captured call, and the generators that gave them; undefined: torch's own.
  const std::vector<uint64_t> &seeds() const { return seeds_; }
  const std::vector<at::Generator> &generators() const { return generators_; }
  size_t publishes() const { return publishes_.size(); }
  /// Whether it recorded nothing.
  bool empty() const { return recipe_->words.empty() && publishes_.empty(); }
  /// Which of its publishes this is.
  std::optional<size_t> placeOf(const PublishedState *state) const;

  /// Notes which of `values` (what numbers may come from, in an order that stays) each number may come from.
  void note(const std::vector<double> &values);
  /// The first difference of the other call's record, or an empty text. Slots may differ, and integers with a common
  /// source.
  std::string differs(const Segment &other) const;
  /// Notes what both calls allow: sources of numbers, arguments that tensors may be. `before`: an equal segment.
  /// Returns the first slot that nothing explains (its two values and its line), or empty.
  std::string explain(const Segment &before);
  /// Whether `values` say one number for each slot.
  bool determines(const std::vector<double> &values) const;
  /// Whether the tensors that the call would take are of the kinds that were recorded, and say for each value which.
  bool fits(const CallTensors &call) const;
  /// Records it again in the calling thread's open step.
  Replayed replay(const CallTensors &call, const std::vector<double> &values) const;
  /// After the step: leaves the gradients that it made.
  void settle(const CallTensors &call, const Replayed &made) const;

private:
  /// Where a value that was not computed here comes from.
  enum class From { Argument, Gradient, Copied, Constant, Fixed, Result };
  struct Value {
    From from = From::Result;
    std::vector<size_t> places; ///< arguments that it may be, or the leaf
    uint64_t seen = 0;          ///< serial of its storage in the traced call
    bool isOne = true;          ///< in all traced calls the same tensor, so that it may be no argument
    Element element = Element::f32;
    Dims sizes, strides;
    bool isWritten = false, isTrained = false, isKept = false;
    c10::intrusive_ptr<Storage> fixed;
    at::Tensor contents; ///< of what was uploaded
  };
  struct Slot {
    uint64_t bits = 0;
    bool isConstant = true;
    std::vector<uint32_t> sources;
  };
  /// An integer of the kind that no shape and no way to compute depends on (Tag::Number).
  struct Integer {
    size_t at; ///< of its word, which is 0 here
    int64_t value;
    bool isConstant = true;
    std::vector<uint32_t> sources;
  };
  class Walk;

  /// Of a remote tensor, else null.
  static Storage *storageOf(const at::Tensor &tensor);
  /// Of CPU tensors: one dtype, shape and content.
  static bool sameContents(const at::Tensor &a, const at::Tensor &b);
  /// As a call uploads it: in another dtype, expanded or laid out otherwise.
  static at::Tensor asUploaded(const at::Tensor &tensor, at::ScalarType dtype, const Dims &sizes, const Dims &strides);
  static bool isUploadOf(const at::Tensor &tensor, const at::Tensor &upload);
  using Storages = std::vector<c10::intrusive_ptr<Storage>>;
  /// The storage of a value that comes from outside; null for one that is uploaded or computed.
  Storage *known(const Value &value, const CallTensors &call) const;
  /// Records the copies and reads that its values need, before they get ids.
  void prepare(const CallTensors &call, Recording &open) const;
  /// Enters its values; `storages` gets those that have one. Returns their ids, by number.
  std::vector<int64_t> enter(const CallTensors &call, Recording &open, Storages &storages) const;
  /// Writes its ops, or lets the trace refer to the recipe if it is the trace's only one; in both cases their slots and
  /// seeds.
  void write(std::vector<int64_t> ids, const std::vector<double> &values, const std::vector<uint64_t> &seeds,
             bool isOnly, Recording &open) const;
  /// Publishes, outputs and gradients of a call that was recorded.
  Replayed leave(const Storages &storages, Recording &open) const;
  LeftTensor left(const at::Tensor &tensor, const std::vector<int64_t> &numbers, const Recording &open) const;

  std::weak_ptr<Session> session_;
  std::shared_ptr<Recipe> recipe_ = std::make_shared<Recipe>(); ///< with numbers of values for ids
  std::vector<Value> values_;                                   ///< by number
  std::vector<Slot> slots_;
  std::vector<Integer> integers_;
  std::vector<uint64_t> seeds_;
  std::vector<at::Generator> generators_;
  Element defaultFloat_ = Element::f32;
  std::vector<LeftTensor> outputs_, gradients_;
  struct Release {
    int64_t value; ///< its number
    wire::ReleaseTerms terms;
    const PublishedState *first; ///< of the captured call; not followed
  };
  std::vector<Release> publishes_;
};

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_REPLAY_SEGMENT_H
