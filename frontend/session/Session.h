// SPDX-License-Identifier: Apache-2.0
// A connection to one owner, shared by all threads: what its device's open traces become (frontend/flight). It consists
// of objects with invariants of their own, whose headers state who may call them; the lock order is in
// frontend/recording/RemoteDevice.h.
#ifndef SOJOURN_FRONTEND_SESSION_SESSION_H
#define SOJOURN_FRONTEND_SESSION_SESSION_H

#include "frontend/compile/Cache.h"
#include "frontend/recording/RemoteDevice.h"
#include "frontend/recording/Steps.h"
#include "frontend/session/Connection.h"
#include "frontend/session/KeptValues.h"
#include "frontend/session/News.h"
#include "frontend/session/Spending.h"
#include "frontend/session/Translated.h"
#include "frontend/session/Trip.h"

#include <ATen/core/Tensor.h>

#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sojourn::frontend {

/// What became of a program's steps that were to be run.
struct ProgramRun {
  size_t steps = 0;                  ///< that committed
  std::vector<at::Tensor> published; ///< by them, as CPU tensors
  bool isUnknown = false;            ///< whether more may have
  bool isReplyLost = false;          ///< what was published never came
  bool isStopped = false;            ///< by the follower
  std::exception_ptr failure;        ///< of the step after these, or why the reply is lost
};

class Session final : public RemoteDevice {
public:
  /// Opens a session; says hello. `identity`: who the client is, or null.
  static std::shared_ptr<Session> open(std::unique_ptr<Transport> transport,
                                       std::shared_ptr<Identity> identity = nullptr);
  /// The session of a group of owners, with separate connections; its steps are joint. Throws Error where an owner
  /// refuses, or does not support groups.
  static std::shared_ptr<Session> openGroup(const std::vector<std::shared_ptr<Session>> &members,
                                            std::optional<bool> isMasked = std::nullopt);
  /// Whether members of the group see sums over rows of three of them or more under masks.
  bool isMasked() const { return connection_.isMasked(); }
  /// One that only records.
  static std::shared_ptr<Session> openOffline();
  /// The session that a device or a storage belongs to.
  static std::shared_ptr<Session> of(const std::shared_ptr<RemoteDevice> &device) {
    return std::static_pointer_cast<Session>(device); // there are no other devices
  }
  static std::shared_ptr<Session> of(const at::Tensor &remote) {
    return of(remoteImpl(remote)->remoteStorage()->device);
  }
  /// Of this process; not those of one that it is a fork of.
  static std::vector<std::shared_ptr<Session>> all();
  /// Counters of the sessions that are gone, summed; they have no live handles.
  static Counters ended();
  ~Session() override;

  bool offline() const override { return connection_.isOffline(); }
  /// Of a group, by role; else none.
  const std::vector<std::shared_ptr<Session>> &members() const { return members_; }
  /// Roles of its steps: of a group one for each member, of an offline session as many as were set; 0: one owner's.
  unsigned parties() const { return members_.empty() ? roles_ : static_cast<unsigned>(members_.size()); }
  bool isGroup() const override { return parties() > 0; }
  /// Of an offline session, for what is recorded from now on.
  void setParties(unsigned roles);
  bool hasMember(const RemoteDevice &other) const override;
  std::string address() const override { return connection_.address(); }
  /// What the data owner calls this client, and the key that the owner has shown; empty without an identity, the key
  /// but for TLS.
  std::string account() const { return offline() ? "" : connection_.client().account(); }
  const std::string &ownerKey() const { return connection_.ownerKey(); }
  Counters counters();

  // --- these take the turn, and wait for the owner ---
  /// In a fork it does nothing: the session goes on in the process that opened it.
  void close();
  std::vector<DatasetInfo> datasets(const TableSearch &search = {});
  std::vector<ProgramSummary> programs(bool withText);
  BudgetInfo budget(const std::string &dataset, uint64_t endRun = 0);
  /// Sends a program that was compiled elsewhere; releases waiting here ride along.
  ProgramRun runProgram(Message message, const StepFollower &follow = {});
  /// Sends what is held for `trip` here, if anything is.
  void sendHeld(const Trip &trip);

  // --- the calling thread's open trace ---
  /// Has the next flush send back a tensor that nothing else refers to.
  std::shared_ptr<PublishedState> publish(const at::Tensor &copy, const wire::ReleaseTerms &terms = {});

  // --- parts ---
  Spending &spending() {
    requireHere();
    return spending_;
  }
  News &news() { return news_; }
  KeptValues &kept() { return kept_; }
  Connection &connection() { return connection_; }
  /// In the turn.
  TraceCache &cache() { return *cache_; }
  /// In the turn: steps of a loop that go before anything else is sent.
  std::unique_ptr<HeldSteps> &held() { return held_; }
  void sendHeld();
  /// A trace has committed: its results are values at the owner. Lock held by the caller.
  /// `places`: of a group's results, else null.
  void commit(Recording &recording, const std::vector<Word> &kept, const std::vector<uint64_t> &results,
              const wire::ResultPlaces *places);

private:
  Session(std::unique_ptr<Transport> transport, std::shared_ptr<Identity> identity)
      : connection_(std::move(transport), std::move(identity), *this) {}
  Session(const std::vector<std::shared_ptr<Session>> &members, std::optional<bool> isMasked);

  const std::vector<std::shared_ptr<Session>> members_;
  unsigned roles_ = 0;
  News news_;
  Spending spending_{news_};
  KeptValues kept_{*this, news_};
  Connection connection_;
  std::optional<TraceCache> cache_{std::in_place};
  std::unique_ptr<HeldSteps> held_;
};

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_SESSION_SESSION_H
