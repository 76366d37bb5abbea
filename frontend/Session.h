// SPDX-License-Identifier: Apache-2.0
// A session with one owner: the open trace, steps, handles and the cache of compiled traces.
// Usable from any thread (the autograd thread records too): every method takes the lock.
#pragma once

#include "frontend/Client.h"
#include "frontend/Compile.h"
#include "frontend/Origin.h"
#include "frontend/TableRecords.h"
#include "frontend/Tensor.h"
#include "frontend/Trace.h"

#include <ATen/core/Tensor.h>

#include <memory>
#include <mutex>
#include <string>
#include <set>
#include <vector>

namespace sojourn::frontend {

/// Highest number of owners a process can talk to: the autograd engine sizes its queues once.
inline constexpr int kDeviceCountMax = 16;

/// Why a value is lost whose step failed at the owner.
inline constexpr const char *kFailed = "the owner did not run the step that computed it";

struct Counters {
  uint64_t ops_recorded = 0, programs_compiled = 0, cache_hits = 0, steps = 0, steps_dropped = 0;
  uint64_t shapes_from_rules = 0, shapes_from_python = 0, live_handles = 0, uploads = 0;
  uint64_t round_trips = 0, upload_parts = 0, bytes_up = 0, bytes_down = 0;
};

/// A value on its way out; filled by the reply of the step that holds it.
struct PublishedState {
  at::Tensor value;    ///< CPU tensor once filled
  std::string failure; ///< why it never will be
};

/// One finished trace with everything that a call needs beside the program.
struct TraceCall {
  std::shared_ptr<const CompiledTrace> compiled;
  std::vector<uint64_t> states, results, slots, seeds;
  std::vector<Word> kept; ///< storages that live on, by trace id; each has one of `results`
  std::vector<at::Tensor> uploads;
  std::vector<TableBinding> tables;
  std::vector<uint64_t> releases;
  std::vector<int> uploadInputs;   ///< per upload: position among an artifact's inputs, or -1
  std::vector<Origin> slotOrigins; ///< per slot, offline only
  size_t published = 0;
};

/// How to wait for the lock without holding the interpreter's (set by the bindings): whoever holds
/// a session may need the interpreter to answer.
void setLockWaiter(void (*waiter)(std::recursive_mutex &));

/// std::lock_guard that waits politely.
class SessionLock {
public:
  explicit SessionLock(std::recursive_mutex &mutex);
  ~SessionLock() { mutex_.unlock(); }
  SessionLock(const SessionLock &) = delete;
  SessionLock &operator=(const SessionLock &) = delete;

private:
  std::recursive_mutex &mutex_;
};

class Session : public std::enable_shared_from_this<Session> {
public:
  /// Opens a session; says hello. `client == nullptr`: an offline session that only records.
  static std::shared_ptr<Session> open(std::unique_ptr<Transport> transport);
  static std::shared_ptr<Session> openOffline();
  /// Throws Error naming the open ones if `index` is not a session.
  static std::shared_ptr<Session> at(int index);
  static std::vector<std::shared_ptr<Session>> all();
  ~Session();

  c10::DeviceIndex index() const { return index_; }
  c10::Device device() const { return {c10::DeviceType::PrivateUse1, index_}; }
  bool offline() const { return !client_; }
  /// As the user wrote it to `connect`.
  std::string address() const;
  std::recursive_mutex &mutex() { return mutex_; }
  void close();

  std::vector<DatasetInfo> datasets();
  std::vector<ProgramSummary> programs(bool withText);
  Counters counters();

  // --- recording (Record.cpp drives these with the lock held) ---
  Trace &trace() { return trace_; }
  Counters &mutableCounters() { return counters_; }
  /// Throws Error if the session is closed.
  void requireOpen() const;
  /// Id of a storage in the open trace; the first use makes it an input. Throws if its value is lost.
  int64_t idInTrace(Storage &storage);
  /// A storage that the op just recorded computes.
  c10::intrusive_ptr<Storage> makeResult(const OutputMeta &meta);
  /// A storage holding a copy of a CPU tensor; travels with the next step.
  c10::intrusive_ptr<Storage> makeUpload(const at::Tensor &hostTensor);
  /// Input of an artifact (offline): whoever runs it sends its contents.
  c10::intrusive_ptr<Storage> makeInput(c10::IntArrayRef sizes, at::ScalarType dtype, int position);
  /// Id of a value that the op just recorded computes and no tensor names.
  int64_t makeHidden();
  int64_t tableInTrace(const DatasetInfo &dataset, const std::vector<ColumnInfo> &columns);
  TableRecords &tableRecords() { return tables_; }
  void storageDied(Storage &storage);
  /// Called before a tensor object changes its layout, or its storage too: a rollback undoes it.
  void willChange(RemoteTensorImpl &tensor, bool storageToo);

  // --- steps ---
  /// Marks the trace, so that `rollback` can return to it.
  void mark();
  void rollback(const char *reason);
  /// Sends the open trace (nothing to do: no round trip).
  void flush();
  /// Has the next flush send back a tensor that nothing else refers to.
  std::shared_ptr<PublishedState> publish(const at::Tensor &copy);
  bool pending();

  /// Offline: finishes the trace without an owner.
  TraceCall finishOffline();

  // --- artifacts ---
  uint64_t newHandle();
  void releaseHandle(uint64_t handle);
  /// Sends a program that was compiled elsewhere; releases waiting here ride along.
  std::vector<at::Tensor> runProgram(StepCall call);

private:
  Session();
  TraceCall finish();
  void commit(const TraceCall &call);
  void reset();
  void send(const TraceCall &call);
  void fillPublished(std::vector<OwnedTensor> values);
  std::vector<OwnedTensor> exchange(StepCall &step);

  struct Change {
    c10::weak_intrusive_ptr<RemoteTensorImpl> tensor;
    c10::intrusive_ptr<RemoteTensorImpl> before;
  };
  void undoChanges(size_t from);
  void forgetReplaced();

  struct Mark {
    size_t inputs, words, slots, seeds, origins, publishes, changes;
    int64_t storages;
    TableRecords::Mark tables;
  };

  std::recursive_mutex mutex_;
  std::unique_ptr<Client> client_;
  c10::DeviceIndex index_ = -1;
  Trace trace_;
  std::vector<Storage *> storages_;    ///< by trace id; nullptr once dead
  std::vector<uint64_t> stateHandles_; ///< by order of state inputs
  std::vector<at::Tensor> uploads_;    ///< by order of upload inputs
  std::vector<int> uploadInputs_;      ///< likewise: artifact input, or -1
  std::vector<int64_t> inputIds_;      ///< storage ids of inputs, in order
  TableRecords tables_;
  std::vector<std::pair<c10::intrusive_ptr<Storage>, std::shared_ptr<PublishedState>>> publishes_;
  std::vector<uint64_t> releases_;
  std::vector<Change> changes_; ///< of tensor objects since the trace began, oldest first
  Mark mark_{};
  uint64_t nextHandle_ = 1;
  Counters counters_;
  TraceCache cache_;
  std::set<std::array<uint8_t, 32>> knownHashes_; ///< programs the owner has been sent
  bool closed_ = false;
};

/// Explicit steps, over all sessions. Nested steps join the outer one.
class Steps {
public:
  static void begin();
  /// Ends the outermost step: one round trip per session that recorded something.
  static void end();
  static void abort();
  static bool active();
  /// Number of the open step, counted from 1; 0 if none is open.
  static uint64_t current();
};

/// Ends implicit steps: sends what every session has open.
void flushAll();

} // namespace sojourn::frontend
