// SPDX-License-Identifier: Apache-2.0
// What a step's request binds to the arguments of its program, each checked against what it declares.
#ifndef SOJOURN_OWNER_STEPBINDINGS_H
#define SOJOURN_OWNER_STEPBINDINGS_H

#include "owner/RequestError.h"
#include "owner/Session.h"
#include "owner/Store.h"
#include "runtime/wire/Step.h"

#include "llvm/ADT/StringRef.h"

#include <unordered_set>
#include <vector>

namespace sojourn::owner {

template <class T>
size_t length(const flatbuffers::Vector<T> *vector) {
  return vector ? vector->size() : 0;
}

inline llvm::StringRef bytesOf(const flatbuffers::Vector<uint8_t> *vector) {
  return vector ? llvm::StringRef(reinterpret_cast<const char *>(vector->data()), vector->size()) : llvm::StringRef();
}

/// What one step of a message binds.
struct StepPart {
  using Numbers = flatbuffers::Vector<uint64_t>;
  const Numbers *states, *slots, *seeds;
  sojourn::wire::HandleIds results, releases;
  const flatbuffers::Vector<flatbuffers::Offset<wire::Tensor>> *uploads;
  const flatbuffers::Vector<flatbuffers::Offset<wire::TableBinding>> *tables;

  static StepPart first(const wire::Step &request);
  /// The step after this one.
  StepPart next(const wire::Repetition &repetition) const;
};

/// Nothing is changed by binding. Everything here but tables is the session's own and needs its
/// turn only.
class StepBindings {
public:
  /// `messageBytes`: of the whole message.
  StepBindings(const StepPart &part, const Plan &plan, Session &session, size_t messageBytes)
      : part(part), plan(plan), session(session), messageBytes(messageBytes) {}

  /// As many of each kind as the program has.
  llvm::Error checkCounts() const;
  /// States, uploads (copied), slots and seeds.
  llvm::Error bindOwn();
  /// Tables; under the owner's mutex.
  llvm::Error bindTables(Store &store);
  /// Whether the files of all bound tables could be read so far.
  llvm::Error checkFiles() const;
  /// Tells the session's worker of the tables (WorkerStub::admit).
  void admitTables(bool isReadable) const;

  BoundWords bound;                    ///< for the worker
  std::vector<Handle *> states;        ///< per argument, null for the others
  std::vector<const Dataset *> tables; ///< per argument, null for the others
  std::vector<LabelPtr> labels;        ///< per argument
  std::vector<uint64_t> sentAhead;     ///< numbers of the uploads that the step consumes
  size_t copied = 0;                   ///< bytes of uploads that did not lie aligned in the message

private:
  llvm::Error bindState(size_t index, size_t position);
  llvm::Error bindUpload(size_t index, size_t position);
  llvm::Error bindWord(size_t index, uint64_t bits);
  llvm::Error bindTable(Store &store, size_t index, size_t position);

  const StepPart &part;
  const Plan &plan;
  Session &session;
  const size_t messageBytes;
  std::unordered_set<uint64_t> taken;                       ///< numbers of uploads sent ahead
  std::vector<std::shared_ptr<const LoadedDataset>> loaded; ///< keeps them loaded while they run
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_STEPBINDINGS_H
