// SPDX-License-Identifier: Apache-2.0
// A session with one owner: what its threads share. Handles, the cache of compiled traces and the
// connection are here; what a thread has recorded and not sent is a Recording of its own.
//
// Lock order (frontend/README.md says why): a session's turn, then its lock, then nothing; the
// compiler's lock alone, under a turn. Nobody waits for one of them while holding the interpreter.
#ifndef SOJOURN_FRONTEND_SESSION_SESSION_H
#define SOJOURN_FRONTEND_SESSION_SESSION_H

#include "frontend/wire/Client.h"
#include "frontend/compile/Cache.h"
#include "frontend/Error.h"
#include "frontend/recording/Origin.h"
#include "frontend/recording/Recording.h"
#include "frontend/RecentlyUsed.h"
#include "frontend/session/News.h"
#include "frontend/session/Spending.h"
#include "frontend/session/Steps.h"
#include "frontend/session/Trip.h"
#include "runtime/OwnProcess.h"

#include <ATen/core/Tensor.h>

#include <exception>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace sojourn::frontend {

struct Counters {
  uint64_t ops_recorded = 0, programs_compiled = 0, programs_resent = 0, cache_hits = 0, steps = 0, steps_dropped = 0;
  uint64_t live_handles = 0, reads = 0, uploads = 0, round_trips = 0, upload_parts = 0, looks = 0, bytes_up = 0,
           bytes_down = 0;
};
/// All of them.
inline constexpr uint64_t Counters::*kCounts[] = {
    &Counters::ops_recorded, &Counters::programs_compiled, &Counters::programs_resent, &Counters::cache_hits,
    &Counters::steps,        &Counters::steps_dropped,     &Counters::live_handles,    &Counters::reads,
    &Counters::uploads,      &Counters::round_trips,       &Counters::upload_parts,    &Counters::looks,
    &Counters::bytes_up,     &Counters::bytes_down};
static_assert(sizeof(Counters) == std::size(kCounts) * sizeof(uint64_t));

/// One finished trace: the step message, and what it borrows from or means to the recording.
struct TraceCall {
  std::shared_ptr<const CompiledTrace> compiled; ///< holds `step.program` and `step.debug`
  std::vector<at::Tensor> uploads;               ///< hold the bytes of `step.uploads`
  wire::Step step;
  std::vector<Word> kept;          ///< storages that live on, by trace id; each has one of `step.results`
  std::vector<int> uploadInputs;   ///< per upload: position among an artifact's inputs, or -1
  std::vector<Origin> slotOrigins; ///< per slot, offline only
  size_t published = 0;
};

/// How to wait for a lock without holding the interpreter's (set by the bindings): whoever holds
/// a session's turn may need the interpreter to answer.
void setLockWaiter(void (*waiter)(std::recursive_mutex &));

/// How to free objects that only refer to each other (set by the bindings), asked when every device is taken.
void setReclaimer(void (*reclaimer)());

class Session;

/// One of a session's locks. A session belongs to the process that opened it: in a fork its connection is the parent's,
/// an embedded owner's books are a copy, and a lock may be held for ever by a thread that is not there.
struct SessionMutex {
  const Session &session;
  std::recursive_mutex mutex = {};
};

/// std::lock_guard that waits politely. Throws Error in a fork of the session's process, so that nothing is done there
/// by a session; what goes by itself (ends of tensors, threads, sessions) asks `Session::isElsewhere` first.
class SessionLock {
public:
  explicit SessionLock(SessionMutex &mutex);
  ~SessionLock() { mutex_.mutex.unlock(); }
  SessionLock(const SessionLock &) = delete;
  SessionLock &operator=(const SessionLock &) = delete;

private:
  SessionMutex &mutex_;
};

/// One trace on its way to its owner.
struct Flight {
  std::shared_ptr<Session> session;
  std::shared_ptr<Recording> recording; ///< taken out of its thread
  TraceCall call;
  Trace::Mark end;     ///< of its trace before the Outputs record
  std::string refusal; ///< why it does not compile, or empty
  ErrorKind refusalKind = ErrorKind::Unsupported;
  std::optional<size_t> refusedOp; ///< the op record to blame, if it is known
  StepReply reply;
  std::exception_ptr failure; ///< of the exchange
  bool unknown = false;       ///< whether the failure leaves open that the owner ran it
};

/// What became of a program's steps that were to be run.
struct ProgramRun {
  size_t steps = 0;                  ///< that committed
  std::vector<at::Tensor> published; ///< by them, as CPU tensors
  bool isUnknown = false;            ///< whether more may have
  bool isReplyLost = false;          ///< what was published never came
  bool isStopped = false;            ///< by the follower
  std::exception_ptr failure;        ///< of the step after these, or why the reply is lost
};

class Session : public std::enable_shared_from_this<Session> {
public:
  /// Opens a session; says hello. `client == nullptr`: an offline session that only records.
  /// `identity`: who the client is, or null.
  static std::shared_ptr<Session> open(std::unique_ptr<Transport> transport, Identity *identity = nullptr);
  static std::shared_ptr<Session> openOffline();
  /// Throws Error naming the open ones if `index` is not a session.
  static std::shared_ptr<Session> at(int index);
  /// Of this process; not those of one that it is a fork of.
  static std::vector<std::shared_ptr<Session>> all();
  /// Counters of the sessions that are gone, summed; they have no live handles.
  static Counters ended();
  ~Session();

  c10::DeviceIndex index() const { return index_; }
  c10::Device device() const { return {c10::DeviceType::PrivateUse1, index_}; }
  bool offline() const { return !client_; }
  /// As the user wrote it to `connect`.
  std::string address() const;
  /// What the data owner calls this client, and the key that the owner has shown; empty without an identity, the key
  /// but for TLS.
  std::string account() const { return client_ ? client_->account() : ""; }
  const std::string &ownerKey() const { return ownerKey_; }
  SessionMutex &mutex() { return mutex_; }
  /// Whether this is a fork of the process that opened it.
  bool isElsewhere() const { return process_.isForked(); }
  [[noreturn]] void raiseElsewhere() const;
  void requireHere() const {
    if (isElsewhere()) {
      raiseElsewhere();
    }
  }
  /// In a fork it does nothing: the session goes on in the process that opened it.
  void close();

  std::vector<DatasetInfo> datasets();
  /// What publishing `copy` now would release, on what this session knows of its tables; nothing is sent but a question
  /// for the tables' policies and budgets. Throws Refused where the owner would refuse.
  Judgement quote(const at::Tensor &copy, const wire::ReleaseTerms &terms);
  std::vector<ProgramSummary> programs(bool withText);
  Counters counters();

  // --- recording, in the calling thread's trace (Record.cpp drives these with the lock held) ---
  Recording &recording() { return ThreadState::current().at(*this); }
  Counters &mutableCounters() { return counters_; }
  bool isClosed() {
    SessionLock lock(mutex_);
    return closed_;
  }
  /// Throws Error if the session is closed.
  void requireOpen() const;
  /// Id of a storage in the open trace; the first use makes it an input. Throws if its value is
  /// lost, or not sent yet by the thread that records it.
  int64_t idInTrace(Storage &storage) { return idInTrace(recording(), storage); }
  /// Likewise, where the caller has `recording()` at hand (several uses in one op).
  int64_t idInTrace(Recording &open, Storage &storage);
  /// Before an op that uses a storage: records the read of whole columns of a private table that an earlier step has
  /// read, once per trace.
  void readAgain(Recording &open, Storage &storage, const Origin &origin);
  /// Before an op that needs the value of a storage that is packed: records a copy, which the storage is from then on.
  /// Where another thread's trace holds such a copy it does nothing.
  void unpack(Recording &open, Storage &storage, const Origin &origin);
  /// Id of the storage that holds a packed one, for an op that takes a window of it.
  int64_t idOfPack(Recording &open, Storage &packed);
  /// Before an op that writes to a storage. Throws if another thread's open trace uses it.
  void willWrite(Recording &open, Storage &storage);
  /// A storage that the op just recorded computes.
  c10::intrusive_ptr<Storage> makeResult(Recording &open, const OutputMeta &meta);
  /// A storage holding a copy of a CPU tensor; travels with the next step. `fresh`: nobody else
  /// writes to `hostTensor`, so that it need not be copied.
  c10::intrusive_ptr<Storage> makeUpload(const at::Tensor &hostTensor, bool fresh = false);
  /// Input of an artifact (offline): whoever runs it sends its contents.
  c10::intrusive_ptr<Storage> makeInput(c10::IntArrayRef sizes, at::ScalarType dtype, int position);
  /// Id of a value that the op just recorded computes and no tensor names.
  int64_t makeHidden(Recording &open);
  int64_t tableInTrace(const DatasetInfo &dataset, const std::vector<ColumnInfo> &columns, bool isWhole);
  TableRecords &tableRecords() { return recording().tables; }
  void storageDied(Storage &storage);
  /// Called before a tensor object changes its layout, or its storage too: a rollback undoes it.
  void willChange(RemoteTensorImpl &tensor, bool storageToo);
  /// Has the next flush send back a tensor that nothing else refers to.
  std::shared_ptr<PublishedState> publish(const at::Tensor &copy, const wire::ReleaseTerms &terms = {});
  /// Throws Error in a fork of the session's process.
  Spending &spending() {
    requireHere();
    return spending_;
  }
  BudgetInfo budget(const std::string &dataset, uint64_t endRun = 0);
  News &news() { return news_; }

  // --- threads' traces ---
  void adopt(Recording &recording);
  /// Drops a trace whose thread has ended.
  void abandon(Recording &recording);
  /// Whether a step that nobody declared has ended in the calling thread's trace and was not sent.
  bool hasEnded();
  /// Marks that one ends here. Whether it is one too many: that optimizer had stepped in what is open.
  bool markEnd(uint64_t optimizer);
  /// Whether the owner has these values as they are now: the calling thread has nothing to send before they are read.
  bool hasNow(const std::vector<at::Tensor> &tensors);
  /// Cuts the calling thread's trace back to its mark.
  void rollback(const Reason &reason);

  // --- sending ---
  /// Sends the calling thread's trace (nothing to do: no round trip). Throws what went wrong; what
  /// does not depend on a refused op stays pending.
  void flush();
  /// Offline: finishes the calling thread's trace without an owner.
  TraceCall finishOffline();

  // --- artifacts ---
  uint64_t newHandle();
  void releaseHandle(uint64_t handle);
  /// Sends a program that was compiled elsewhere; releases waiting here ride along.
  ProgramRun runProgram(wire::Step step, const StepFollower &follow = {});
  /// Gathers small values that are only kept, outside of steps, while there are many (Packed.h). What goes wrong is no
  /// failure of the step before: values stay as they are.
  void gather();
  using Publishes = std::vector<std::pair<c10::intrusive_ptr<Storage>, std::shared_ptr<PublishedState>>>;
  /// Sends what is held for `trip` here, if anything is.
  void sendHeld(const Trip &trip);

private:
  friend class Flights;
  Session();
  /// Whether the calling thread has anything to send here.
  bool hasOpen();
  std::optional<Flight> take();
  void prepare(Flight &flight);
  void finish(Flight &flight);
  Compilation compile(const Trace &trace, bool &hit, TraceCache::Forms forms);
  void exchange(Flight &flight);
  void land(Flight &flight);
  void refuse(Flight &flight, bool explicitStep, const std::string &refusal);
  void dropRefused(Flight &flight, bool explicitStep, const std::string &refusal);
  bool keepRest(Flight &flight);
  void drop(Flight &flight, const Reason &reason);
  StepReply exchange(wire::Step &step, const Recording *own, bool &unknown);
  StepReply sendStep(wire::Step &step, bool &unknown, const StepFollower *follow = nullptr);
  /// From the reply's values from `first` on. Returns what is wrong with them, or an empty text.
  std::string fillPublished(const Publishes &publishes, const StepReply &reply, size_t first);
  /// Of a step, or steps, that were not run.
  void returnReleases(const std::vector<uint64_t> &releases, bool unknown);
  void hold(Flight &flight, const std::shared_ptr<Trip> &trip);
  void sendHeld();
  size_t sendOnce(HeldSteps &held);
  void takeBack(HeldSteps &held, size_t first, const Reason &reason, bool unknown);
  void commit(Recording &recording, const TraceCall &call);
  void noteSmall(Storage &storage);
  /// Values that no step has used for long and no trace holds, as many as one pack takes and alike; none if too few.
  std::vector<c10::intrusive_ptr<Storage>> gatherable();
  /// In order; not those that are in a trace, or were written to since `writes`.
  void moveInto(const c10::intrusive_ptr<Storage> &pack, const std::vector<c10::intrusive_ptr<Storage>> &values,
                const std::vector<uint64_t> &writes);
  void putBack(Flight &flight);
  std::vector<uint64_t> releasable(const Recording *own);
  [[noreturn]] void raiseUnsent(bool written) const;

  /// Programs that a session remembers something of.
  static constexpr size_t kPrograms = 4096;

  const runtime::OwnProcess process_;
  News news_;
  Spending spending_{news_};
  SessionMutex turn_{*this};        ///< whoever sends has it, from taking its trace to its commit
  SessionMutex mutex_{*this};       ///< the fields below; never held while an owner is waited for
  std::unique_ptr<Client> client_;  ///< the turn's
  TraceCache cache_;                ///< the turn's
  std::unique_ptr<HeldSteps> held_; ///< the turn's; before anything else is sent
  /// Programs the owner has been sent; the turn's. One that is forgotten is sent again.
  RecentlyUsed<std::array<uint8_t, 32>, std::monostate> knownHashes_{kPrograms};
  c10::DeviceIndex index_ = -1;
  std::vector<Recording *> recordings_; ///< of all threads
  std::vector<uint64_t> releases_;
  uint64_t nextHandle_ = 1;
  Counters counters_;
  uint64_t commits_ = 0;
  std::vector<c10::weak_intrusive_ptr<Storage>> small_; ///< candidates for a pack
  bool toldMany_ = false;
  size_t nextLook_ = 0;  ///< how many of them there are when they are looked at again
  size_t nextPrune_ = 0; ///< the same while few values live
  std::string ownerKey_;
  bool closed_ = false;
};

/// What `body` throws of our own becomes what the process's raiser makes of it.
template <class Body>
auto translated(Body &&body) {
  try {
    return body();
  } catch (const Error &error) {
    raise(error.kind(), error.text());
  }
}

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_SESSION_SESSION_H
