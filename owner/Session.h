// SPDX-License-Identifier: Apache-2.0
// Clients' sessions: each owns its handles; nothing of another session can be named.
#ifndef SOJOURN_OWNER_SESSION_H
#define SOJOURN_OWNER_SESSION_H

#include "owner/AccountLines.h"
#include "owner/Environment.h"
#include "owner/Holdings.h"
#include "owner/Label.h"
#include "owner/Limits.h"
#include "owner/NamedValues.h"
#include "owner/PlanCache.h"
#include "owner/RememberedReplies.h"
#include "owner/ReplyTime.h"
#include "owner/RequestError.h"
#include "owner/WorkerStub.h"
#include "owner/peers/Group.h"
#include "runtime/wire/Message.h"
#include "runtime/wire/Messages_generated.h"

#include "llvm/Support/Error.h"

#include <atomic>
#include <condition_variable>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace sojourn::owner {

class ContentDigest;

struct RunAccount;
class RunningStep;

/// A value kept at the owner and what is known of where it comes from.
struct Handle {
  Value value;
  std::shared_ptr<runtime::Buffer> memory; ///< of the value, which another worker can have, too
  LabelPtr label;
  size_t held = 0;                             ///< bytes that count for its account
  bool isLeaving = false;                      ///< released by a step that is under way
  std::shared_ptr<NamedValue> named = nullptr; ///< that commits to it change; or null
  uint64_t copiesAt = 0; ///< number of the group whose members all have it; 0: none, as of what a session borrows
};

/// Memory of a value, in bytes: buffer, entry, sizes and label. Labels with one source are shared and cost nothing.
size_t heldBytes(const runtime::TensorType &type, const LabelPtr &label);

/// An upload that arrives in parts, ahead of the step that binds it.
struct PartialUpload {
  uint64_t value = 0;                      ///< of the worker
  size_t size = 0, received = 0;           ///< in bytes; those that stand, from the start
  bool isBits = true;                      ///< whether each of these is 0 or 1
  std::shared_ptr<runtime::Buffer> memory; ///< of all of it
  std::shared_ptr<ContentDigest> content;  ///< in a session of a group: its members compare it
};

/// Values that a session no longer has, until the worker drops them.
struct DroppedValues {
  std::vector<uint64_t> ids;
  Memory memory;
  void reserve(size_t more) {
    ids.reserve(ids.size() + more);
    memory.reserve(memory.size() + more);
  }
  /// In the room that was reserved.
  void add(uint64_t id, std::shared_ptr<runtime::Buffer> buffer) {
    ids.push_back(id);
    memory.push_back(std::move(buffer));
  }
};

/// The turn of a session, and the requests that wait for it in the order of their coming. Under the owner's mutex.
class TurnQueue {
public:
  /// Waits for the turn; `lock`: of the owner's mutex.
  void enter(std::unique_lock<std::mutex> &lock);
  void leave();

private:
  struct Waiter {
    std::condition_variable called;
    bool hasTurn = false;
  };
  std::list<Waiter *> waiting;
  bool isTaken = false;
};

/// Programs, by their codes, and terms that a session has had proved; it may forget them. In the session's turn.
class ProofsSeen {
public:
  bool has(uint64_t code, const std::string &terms) const {
    return (code == lastCode && terms == lastTerms) || all.contains({code, runtime::hashProgram(terms)});
  }
  void add(uint64_t code, const std::string &terms) {
    if (all.size() >= kMost) {
      all.clear();
    }
    all.emplace(code, runtime::hashProgram(terms));
    lastCode = code;
    lastTerms = terms.size() <= kLastBytes ? terms : std::string();
  }

private:
  static constexpr size_t kMost = 256, kLastBytes = 4'096;
  std::set<std::pair<uint64_t, runtime::ProgramHash>> all;
  uint64_t lastCode = 0; ///< training repeats the same terms
  std::string lastTerms;
};

/// Written by who has the turn and the owner's mutex, so either is enough for reading; but for
/// `last.reply`, which goes under the mutex alone when others need its room.
struct Session {
  explicit Session(WorkerStub &shared) : own(shared.forSession()), worker(own ? *own : shared) {}
  /// The worker drops its values.
  ~Session();
  Session(const Session &) = delete;
  Session &operator=(const Session &) = delete;

  /// Of a group: which member this owner is. Else no parties.
  /// `isMasked`: of the message.
  RoleOfGroup role(bool isMasked) const {
    return group ? RoleOfGroup{static_cast<uint8_t>(group->role()), static_cast<uint8_t>(group->parties()), isMasked}
                 : RoleOfGroup();
  }
  bool hasHandle(uint64_t id) const { return handles.contains(id) || elsewhere.contains(id); }

  const std::unique_ptr<WorkerStub> own; ///< null: sessions share one
  WorkerStub &worker;
  std::string client;
  int64_t lastUsedMs = 0;
  uint64_t connection = 0;                             ///< of the last request
  std::optional<int64_t> goneMs;                       ///< since when that connection is closed and no request runs
  std::unordered_map<uint64_t, Handle> handles;        ///< by the client's own ids
  std::unordered_map<uint64_t, PartialUpload> uploads; ///< by the client's own numbers
  std::set<uint64_t> named;                            ///< handles that follow values with names
  std::shared_ptr<Group> group;                        ///< its steps are joint; else null
  std::unordered_set<uint64_t> elsewhere;              ///< handles whose values other members of the group have
  std::map<runtime::ProgramHash, PlanKey> programs;    ///< what it may refer to by hash
  ProofsSeen proofs;                                   ///< what it has had proved
  std::string account;                                 ///< of the ledger; empty: without an identity, no budget
  std::string key;                                     ///< public, by which the client proved who it is; or empty
  /// Training runs by the client's number and the datasets that they read, with their owners.
  std::map<std::pair<uint64_t, std::string>, std::shared_ptr<RunAccount>> runs;
  LastStep last;
  /// Steps of that message that took the worker 10 ms, of the same program: those that its next call has.
  struct {
    runtime::ProgramHash program{};
    size_t steps = 1;
  } pace;
  StepPrices prices;              ///< of steps that depend on private rows
  std::set<std::string> reached;  ///< private tables that its steps have bound; values of unknown origin are theirs
  size_t held = 0, uploading = 0; ///< bytes that count for its account: of everything, of uploads
  /// Values that it no longer has, until the worker drops them (`dropValues`).
  DroppedValues dropped;

  /// Of the message that runs: steps that have committed, and whether no further one begins. Read and set by requests
  /// that wait for no turn.
  std::atomic<uint32_t> progress = 0;
  std::atomic<bool> stop = false;
  RunningStep *running = nullptr; ///< of the message that runs; under the owner's mutex, as its mark
  uint64_t mark = 0;

  /// Requests of one session take turns.
  TurnQueue turn;
  size_t users = 0;   ///< requests that have the turn or wait for it; under the owner's mutex
  bool ended = false; ///< by Bye; under the owner's mutex
};

/// Sessions by id. Ids are random: who does not know one cannot use it. All under the owner's mutex.
class Sessions {
public:
  Sessions(const Environment &environment, const Limits &limits, WorkerStub &worker)
      : holdings(limits.handleBytes), requests(limits.requests), uploads(holdings.most()),
        names(holdings, environment, limits), replies(limits.rememberedReplyBytes, limits.rememberedBytes),
        environment(environment), limits(limits), worker(worker) {}

  /// `connection`: over which the request came; 0 where there is none, as within a process.
  llvm::Expected<uint64_t> begin(std::string client, std::string account, uint64_t connection = 0,
                                 std::string key = "");
  /// Finds a session and renews its lease.
  llvm::Expected<std::shared_ptr<Session>> find(uint64_t id);
  /// Without renewing its lease; null if there is none.
  std::shared_ptr<const Session> peek(uint64_t id) const;
  /// Ends a session that no request uses.
  void endUnused(uint64_t id);
  /// Whether the session is there.
  bool has(uint64_t id) const { return sessions.count(id) != 0; }
  /// The session as it is, its lease unchanged; or null.
  const Session *look(uint64_t id) const {
    auto found = sessions.find(id);
    return found == sessions.end() ? nullptr : found->second.get();
  }
  /// Ends a session; unknown ones are ended already.
  void end(uint64_t id);
  /// Whether all of the handles are there, each named once. In the session's turn; needs no mutex.
  static llvm::Error checkRelease(const Session &session, llvm::ArrayRef<uint64_t> handles);
  /// Notes its value in `dropped`, which has room for it.
  void dropHandle(Session &session, uint64_t id);
  /// In the session's turn, and not under the mutex: freeing values takes long.
  static void dropValues(Session &session) noexcept;
  /// In the session's turn, and not under the mutex: gets its worker ready for calls, which may be another one than
  /// before and adopts the values then.
  static llvm::Error wake(Session &session, const runtime::StopFlag *stop, const Patience &patience = {});
  /// Notes that the session may refer to a program by its hash. One with too many learns by NeedProgram which to send
  /// again.
  void know(Session &session, const runtime::ProgramHash &hash, const PlanKey &key);
  /// Ends sessions whose time is over. They, and those that ended before, go with the result, outside of the mutex:
  /// freeing their values takes long.
  [[nodiscard]] std::vector<std::shared_ptr<Session>> tidy();

  /// Names values of a session, in its turn: all of them or none. A name that another value has moves. Errors: an
  /// unknown handle, a value that has another name, a bad name or tag, two values for one name, no room.
  llvm::Error name(Session &session, std::vector<NamedValues::Entry> entries);
  /// Commits to the handle change the value from now on.
  void follow(Session &session, uint64_t id, Handle &handle, const std::shared_ptr<NamedValue> &value);
  /// A step has given the handle, which may follow a value, its memory. Cannot fail: the session's `dropped` has room
  /// for one more.
  void committed(Session &session, const Handle &handle, const LabelPtr &label) noexcept;

  /// Counts bytes for the session's account, and back.
  void hold(Session &session, size_t bytes) {
    holdings.add(session.account, bytes);
    session.held += bytes;
  }
  void letGo(Session &session, size_t bytes) {
    holdings.remove(session.account, bytes);
    session.held -= bytes;
  }
  /// Makes room for an upload of which a part arrives; returns it, or null if the part drops it.
  llvm::Expected<PartialUpload *> place(Session &session, const sojourn_wire::Upload &part);
  /// Takes in a part of an upload, in the session's turn; returns how many bytes of it stand. Not under the mutex.
  static llvm::Expected<size_t> receive(WorkerStub &worker, PartialUpload &upload, const sojourn_wire::Upload &part);
  /// Drops an upload, if there is one of this number.
  void dropUpload(Session &session, uint64_t upload);

  size_t count() const { return sessions.size(); }
  size_t count(const std::string &account) const;
  size_t handleCount() const;
  /// Of handles and uploads of all sessions, and of what running steps will keep.
  Holdings holdings;
  /// Requests under way, of sessions.
  Shares requests;
  /// Bytes of uploads, of those of `holdings`.
  Shares uploads;
  /// Values that outlive their sessions; their bytes are among `holdings`.
  NamedValues names;
  /// Those that end by themselves, in the log.
  AccountLines ended{kSessionLines, kSessionLineMs, "sessions ended", "of"};

  /// A request of the session has come over a connection; unknown sessions have none. Returns the step of the session
  /// that runs, if any. `looks`: a client that looks after its step, over a second connection where the first is open.
  RunningStep *connected(uint64_t id, uint64_t connection, bool looks);
  /// A connection has closed. Sessions whose last request came over it end unless another one comes soon. Returns their
  /// steps that run.
  std::vector<RunningStep *> disconnected(uint64_t connection);
  /// Connections over which the last request of a session came, sorted: of all sessions, or of those without an
  /// identity.
  std::vector<uint64_t> connections(bool isAnonymous = false) const;
  bool isConnected(uint64_t connection) const;
  /// Steps that run, of sessions whose last request came over a connection.
  std::vector<RunningStep *> stepsOf(uint64_t connection) const;

  /// Of the last step of each session.
  RememberedReplies replies;

private:
  friend class SessionTurn;
  using Map = std::unordered_map<uint64_t, std::shared_ptr<Session>>;
  /// Brings tags to their form, too.
  llvm::Error checkNames(const Session &session, std::vector<NamedValues::Entry> &entries) const;
  /// The handle, or all handles, are about to go; values with names stay. Cannot fail.
  void leaveName(Session &session, Handle &handle) noexcept;
  void leaveNames(Session &session) noexcept;
  bool isOver(const Session &session) const;
  void expire();
  void endOver(Map::iterator session);
  void drop(Map::iterator session);

  const Environment &environment;
  const Limits &limits;
  WorkerStub &worker;
  Map sessions;
  std::vector<std::shared_ptr<Session>> dropped; ///< until `tidy`
};

/// A request's turn in its session: until it ends, no other request of the session changes it, and
/// its lease does not run out.
class SessionTurn {
public:
  /// Waits for the turn. Takes `mutex`, the owner's, for moments; the caller must not hold it.
  static llvm::Expected<std::unique_ptr<SessionTurn>> take(std::mutex &mutex, Sessions &sessions, uint64_t id);
  ~SessionTurn();
  SessionTurn(const SessionTurn &) = delete;
  SessionTurn &operator=(const SessionTurn &) = delete;
  Session *operator->() const { return session.get(); }
  Session &operator*() const { return *session; }

private:
  SessionTurn(std::mutex &mutex, Sessions &sessions, std::shared_ptr<Session> session);
  std::mutex &mutex;
  Sessions &sessions;
  std::shared_ptr<Session> session;
  bool hasTurn = false;
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_SESSION_H
