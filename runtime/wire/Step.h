// SPDX-License-Identifier: Apache-2.0
// The one step message as a C++ type, and its way to and from the bytes of Step.fbs. Tracing fills
// one, an artifact stores one, a request carries one. Knows neither torch nor MLIR.
#ifndef SOJOURN_RUNTIME_WIRE_STEP_H
#define SOJOURN_RUNTIME_WIRE_STEP_H

#include "dialect/elements/Elements.h"
#include "runtime/wire/Place.h"
#include "runtime/wire/Step_generated.h"

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sojourn::wire {

/// Bytes of a program's hash.
inline constexpr size_t kHashBytes = 32;

/// A dense row-major tensor; its bytes are borrowed.
struct TensorView {
  uint8_t element = 0;
  std::vector<int64_t> dims;
  std::span<const uint8_t> data;
  uint64_t sentAhead = 0; ///< number of an Upload that holds the bytes instead of `data`, or 0
};

/// The dataset behind a table argument.
struct TableBinding {
  std::string name, version;
};

/// Terms of a published result; 0 where the owner's defaults stand.
struct ReleaseTerms {
  double bound = 0, epsilon = 0, delta = 0;
  bool continues = false; ///< shares the price of the published result before
  bool isRead = false;    ///< has to be free; the client's own, no part of the message
};

/// How a step on private tables spends. Left out of the message where all of it is default.
struct Spending {
  uint64_t run = 0, steps = 0;
  double noiseMultiplier = 0, clip = 0;
  bool perLayer = false, lossIsSum = false;
  double metricShare = -1;
  std::vector<ReleaseTerms> releases; ///< one per published result, or none
  bool isDefault() const;
};

/// One more step of a message; empty states, uploads and slots are those of the step before.
struct Repetition {
  std::vector<uint64_t> states, slots, seeds, results, releases;
  std::vector<TensorView> uploads;
};

/// What Step.fbs says, field by field. Bytes are borrowed: whoever fills it keeps them.
struct Step {
  uint64_t session = 0, sequence = 0;
  std::array<uint8_t, kHashBytes> hash{};
  std::string_view program, debug;
  std::vector<uint64_t> states, slots, seeds, results, releases;
  std::vector<TensorView> uploads;
  std::vector<TableBinding> tables;
  Spending spending;
  std::vector<Repetition> repetitions;
  uint64_t deadlineMs = 0;
  uint64_t mark = 0;     ///< tells messages of one number apart; 0: none
  uint64_t attempt = 0;  ///< of a group's message
  bool isMasked = false; ///< likewise: members see the sum of each other's terms alone
  /// Of a group's message: where its results lie. The client's own, no part of the message.
  std::shared_ptr<const ResultPlaces> places = nullptr;

  /// Steps in the message.
  size_t count() const { return 1 + repetitions.size(); }
  /// Makes `next` the first step; empty states, uploads and slots stay.
  void begin(Repetition next);
};

/// Appends `step`; every byte of a tensor is copied once. Large steps: give the builder
/// `encodedBound` bytes to start with, so that it never grows.
flatbuffers::Offset<sojourn_wire::Step> encode(flatbuffers::FlatBufferBuilder &builder, const Step &step);

/// No fewer bytes than `encode` appends, names and all.
size_t encodedBound(const Step &step);

/// Reads a verified message without copying bytes: the result is valid while `message` is. Returns
/// what is wrong with it, or an empty text.
std::string decode(const sojourn_wire::Step &message, Step &step);
/// Likewise for one tensor: its element type and its sizes are possible; its bytes are not counted.
std::string decode(const sojourn_wire::Tensor &message, TensorView &tensor);
Spending decode(const sojourn_wire::Spending &message);
/// The numbers of a verified message, which need not be aligned there; none where the vector is absent.
std::vector<uint64_t> numbersOf(const flatbuffers::Vector<uint64_t> *vector);

/// Handle ids of a verified message: those of a list, then a range of consecutive ones.
class HandleIds {
public:
  using List = flatbuffers::Vector<uint64_t>;
  HandleIds(const List *list, uint64_t first, uint32_t count) : list_(list), first_(first), count_(count) {}
  /// Of a Step or of a Repetition.
  template <class Message>
  static HandleIds results(const Message &message) {
    return {message.results(), message.first_result(), message.result_count()};
  }
  template <class Message>
  static HandleIds releases(const Message &message) {
    return {message.releases(), message.first_release(), message.release_count()};
  }

  size_t size() const { return listed() + count_; }
  uint64_t operator[](size_t index) const {
    const size_t inList = listed();
    return index < inList ? list_->Get(static_cast<flatbuffers::uoffset_t>(index)) : first_ + (index - inList);
  }
  const List *list() const { return list_; }
  uint64_t first() const { return first_; }
  uint32_t count() const { return count_; }

private:
  size_t listed() const { return list_ ? list_->size() : 0; }

  const List *list_;
  uint64_t first_;
  uint32_t count_;
};

/// Bytes of tensors that this process has copied into or out of messages. Tests compare the growth
/// with the size of what travelled.
uint64_t copiedBytes();
void countCopied(size_t bytes);

} // namespace sojourn::wire

#endif // SOJOURN_RUNTIME_WIRE_STEP_H
