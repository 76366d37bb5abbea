// SPDX-License-Identifier: Apache-2.0
// The open trace of one thread at one device: what was recorded and not yet sent, and what a step
// that fails takes back. The device's lock guards every field.
#ifndef SOJOURN_FRONTEND_RECORDING_RECORDING_H
#define SOJOURN_FRONTEND_RECORDING_RECORDING_H

#include "frontend/tables/TableRecords.h"
#include "frontend/recording/Recipe.h"
#include "frontend/recording/Tensor.h"
#include "frontend/recording/Trace.h"
#include "runtime/wire/Step.h"

#include <ATen/core/Tensor.h>

#include <atomic>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace sojourn::frontend {

/// A value on its way out; filled by the reply of the step that holds it. Written by the thread
/// that sends, before `settled`; read by any.
struct PublishedState {
  at::Tensor value;    ///< CPU tensor once filled
  std::string failure; ///< why it never will be
  std::atomic<bool> settled{false};
  /// Of a value of private tables: what it may cost, and once filled how far off it is, with what the
  /// owner signed.
  wire::ReleaseTerms terms;
  double error = 0;
  std::string receipt, receiptText;
  void fill(at::Tensor tensor) {
    value = std::move(tensor);
    settled = true;
  }
  void fail(std::string reason) {
    failure = std::move(reason);
    settled = true;
  }
};

class RemoteDevice;

class Recording {
public:
  explicit Recording(RemoteDevice &device) : device_(device) {}
  ~Recording() { clear(); }
  Recording(const Recording &) = delete;
  Recording &operator=(const Recording &) = delete;

  Trace trace;
  /// Of a replayed call before which nothing was recorded but uploads: its words are the recipe's, and not in the
  /// trace, in which its values have these ids. Who records more finds them written (`RemoteDevice::recording`).
  std::shared_ptr<Recipe> recipe;
  std::vector<int64_t> recipeIds;
  std::vector<Storage *> storages;       ///< by trace id; nullptr once dead
  std::vector<uint64_t> stateHandles;    ///< by order of state inputs
  std::vector<at::Tensor> uploads;       ///< by order of upload inputs
  std::vector<int> uploadInputs;         ///< likewise: artifact input, or -1
  std::vector<at::Generator> generators; ///< by seed: the one that gave it; undefined: torch's own
  TableRecords tables;
  std::vector<std::pair<c10::intrusive_ptr<Storage>, std::shared_ptr<PublishedState>>> publishes;

  /// A step that nobody declared has ended in it (Reads.h).
  bool hasEnded = false;
  /// The optimizers whose steps it holds.
  std::set<uint64_t> stepped;
  size_t steps = 0; ///< of optimizers
  /// Why no replay would repeat it: what it uploaded was computed here from other values than it holds.
  const char *unrepeatable = nullptr;
  /// What it published was refused by the owner, and the rest kept.
  bool wasRefused = false;
  /// Of the states that it takes; its own tables are in `tables`.
  TablesRead reads = TablesRead::None;
  /// It takes values and changes none, beside the script's own trace: those values may be written to meanwhile.
  bool isAside = false;
  /// Between the end of its step and the owner's answer: its ids are in the message.
  bool isUnderway = false;

  /// Nothing that an owner would have to do.
  bool empty() const;
  /// The trace gets the words of its recipe, if it has one: for all that looks at words.
  void writeWords();
  // --- storages that the next op uses (RecordingUses.cpp) ---
  /// The id of a storage; the first use makes it an input. Throws Error if its value is lost, or was not sent yet by
  /// the thread that records it.
  int64_t idOf(Storage &storage);
  /// The id of the storage that holds a packed one, for an op that takes a window of it.
  int64_t idOfPack(Storage &packed);
  /// Before an op that needs the value of a storage that is packed: records a copy, which the storage is from then on.
  /// Where another thread's trace holds such a copy it does nothing.
  void unpack(Storage &storage, const Origin &origin);
  /// Before an op that uses a storage: records the read of whole columns of a private table that an earlier step has
  /// read, once per trace.
  void readAgain(Storage &storage, const Origin &origin);
  /// Before an op that writes to a storage. Throws Error if another thread's open trace uses it.
  void willWrite(Storage &storage);
  /// A storage that the op just recorded computes.
  c10::intrusive_ptr<Storage> makeResult(const OutputMeta &meta);
  /// The id of a value that the op just recorded computes and no tensor names.
  int64_t makeHidden();
  /// Enters a storage under the next id.
  int64_t enter(Storage &storage);

  RemoteDevice &device() const { return device_; }
  /// Notes that `tensor` is about to change its layout, or its storage too.
  void willChange(RemoteTensorImpl &tensor, bool storageToo);
  /// A storage that only an undo would bring back is no result of the step.
  void forgetReplaced(const Reason &reason);
  /// Tensor objects keep the form they have.
  void forgetChanges() { changes_.clear(); }

  /// Forgets what the trace recorded since; storages that entered it since are told that they are not in it.
  void truncate(const Trace::Mark &mark);
  /// Marks the trace, so that `rollback` can return to it.
  void mark();
  void unmark() { mark_ = {}; }
  /// Cuts back to the mark. Returns whether anything was dropped.
  bool rollback(const Reason &reason);
  /// Forgets an upload that nothing here uses: it enters another thread's trace, and travels with that. Whether it did.
  bool letGo(Storage &storage);
  /// Forgets uploads that no op uses and no tensor holds any more, such as the count of updates that AveragedModel
  /// uploads.
  void dropUnusedUploads();
  /// Another thread's step has sent what was an upload here.
  void wasSent(int64_t id, uint64_t handle);
  /// Drops op record `op` and whatever depends on it; the rest stays.
  void dropOp(size_t op, const Reason &reason);
  /// None of them leaves.
  void failPublishes(const Reason &reason);
  /// Forgets everything; storages are told that they are in no trace here.
  void clear();

  struct Mark {
    Trace::Mark trace;
    size_t publishes = 0, changes = 0;
    TableRecords::Mark tables;
  };
  /// Where the open step began.
  const Mark &marked() const { return mark_; }
  /// Whether a tensor object that lives on has another form than at the mark.
  bool hasChanged() const;

private:
  struct Change {
    c10::weak_intrusive_ptr<RemoteTensorImpl> tensor;
    c10::intrusive_ptr<RemoteTensorImpl> before;
  };
  [[noreturn]] void raiseUnsent(bool written) const;
  void undoChanges(size_t from);
  void lose(Storage &storage, const Reason &reason);
  void dropUpload(int64_t id);

  RemoteDevice &device_;        ///< outlives what is recorded
  std::vector<Change> changes_; ///< of tensor objects since the trace began, oldest first
  Mark mark_{};
};

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_RECORDING_RECORDING_H
