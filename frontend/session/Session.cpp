// SPDX-License-Identifier: Apache-2.0
// Session: opening and closing, questions to the owner, commits.
#include "frontend/session/Session.h"

#include "frontend/Error.h"
#include "frontend/Interrupt.h"
#include "frontend/wire/Identity.h"
#include "runtime/Limits.h"

#include <algorithm>
#include <mutex>
#include <utility>

namespace sojourn::frontend {

namespace {

std::mutex endedMutex;
Counters endedCounters; ///< of the sessions that are gone

const Reason &kClosed = constantReason("its session was closed");

} // namespace

std::shared_ptr<Session> Session::openOffline() { return open(nullptr); }

std::shared_ptr<Session> Session::open(std::unique_ptr<Transport> transport, std::shared_ptr<Identity> identity) {
  std::shared_ptr<Session> session(new Session(std::move(transport), std::move(identity)));
  session->enter();
  return session;
}

/// Connections of the members, to be opened anew.
static std::vector<const Connection *> connectionsOf(const std::vector<std::shared_ptr<Session>> &members) {
  std::vector<const Connection *> all;
  for (const auto &member : members) {
    all.push_back(&member->connection());
  }
  return all;
}

Session::Session(const std::vector<std::shared_ptr<Session>> &members, std::optional<bool> isMasked)
    : members_(members), connection_(connectionsOf(members), *this, isMasked) {}

std::shared_ptr<Session> Session::openGroup(const std::vector<std::shared_ptr<Session>> &members,
                                            std::optional<bool> isMasked) {
  if (members.empty()) {
    raise(ErrorKind::Error, "a group has at least 2 owners, got none");
  }
  for (const auto &member : members) {
    member->requireHere();
    if (member->offline() || member->isGroup() || member->isClosed()) {
      raise(ErrorKind::Error, member->address() + " is no open connection to one owner, and a group is of such");
    }
  }
  constexpr size_t kLeast = runtime::limits::kMaskedRolesLeast;
  if (isMasked.value_or(false) && members.size() < kLeast) {
    raise(ErrorKind::Error, "sums are masked among " + std::to_string(kLeast) + " owners or more, got " +
                                std::to_string(members.size()) + ": of two, each would know the other one's part");
  }
  std::shared_ptr<Session> session(new Session(members, isMasked));
  session->enter();
  return session;
}

bool Session::hasMember(const RemoteDevice &other) const {
  return std::any_of(members_.begin(), members_.end(), [&](const auto &member) { return member.get() == &other; });
}

std::vector<std::shared_ptr<Session>> Session::all() {
  std::vector<std::shared_ptr<Session>> sessions;
  for (const auto &device : RemoteDevice::all()) {
    sessions.push_back(of(device));
  }
  return sessions;
}

Session::~Session() {
  if (isElsewhere()) {
    return;
  }
  try {
    close();
  } catch (...) {
    // The owner drops a session's handles when its lease ends.
    if (takeInterruptNote()) {
      interruptLater(std::current_exception());
    }
  }
  const Counters own = counters();
  std::lock_guard lock(endedMutex);
  for (uint64_t Counters::*count : kCounts) {
    endedCounters.*count += own.*count;
  }
  endedCounters.live_handles = 0;
}

Counters Session::ended() {
  std::lock_guard lock(endedMutex);
  return endedCounters;
}

void Session::close() {
  if (isElsewhere()) {
    return;
  }
  Turn turn(connection_);
  sendHeld();
  if (closeTraces(kClosed) && !offline()) {
    translated([&] { connection_.bye(); });
  }
}

std::vector<DatasetInfo> Session::datasets(const TableSearch &search) {
  Turn turn(connection_);
  if (offline()) {
    return {};
  }
  const bool isAll = search.text.empty() && search.tag.empty() && search.columns.empty();
  return translated(
      [&] { return isAll ? spending_.tables(connection_.client()) : connection_.client().datasets(search); });
}

std::vector<ProgramSummary> Session::programs(bool withText) {
  Turn turn(connection_);
  return offline() ? std::vector<ProgramSummary>()
                   : translated([&] { return connection_.client().programs(withText); });
}

BudgetInfo Session::budget(const std::string &dataset, uint64_t endRun) {
  Turn turn(connection_);
  requireOpen();
  sendHeld(); // it may spend
  return translated([&] { return connection_.client().budget(dataset, endRun); });
}

void Session::setParties(unsigned roles) {
  Turn turn(connection_);
  if (roles != std::exchange(roles_, roles)) {
    cache_.emplace(); // a trace does not say how many roles its program has
  }
}

Counters Session::counters() {
  Counters result = countsNow();
  result.programs_resent = connection_.resent();
  result.busy_retries = connection_.busyRetries();
  if (!offline()) {
    const Client &client = connection_.client();
    result.round_trips = client.roundTrips;
    result.upload_parts = client.uploadParts;
    result.looks = client.looks;
    result.bytes_up = client.bytesUp;
    result.bytes_down = client.bytesDown;
    connection_.addOthers(result);
  }
  return result;
}

std::shared_ptr<PublishedState> Session::publish(const at::Tensor &copy, const wire::ReleaseTerms &terms) {
  DeviceLock lock(mutex());
  const auto &storage = remoteImpl(copy)->remoteStorage();
  Recording &open = recording();
  open.idOf(*storage);
  auto state = std::make_shared<PublishedState>();
  state->terms = terms;
  open.publishes.emplace_back(storage, state);
  return state;
}

/// Masks stay known: the positions of one say how large what it selects is (`StepSender::maskValue`).
static void forgetUpload(Storage &storage, const Recording &recording) {
  constexpr size_t kMaskBytes = size_t{1} << 20;
  const at::Tensor upload = std::exchange(storage.upload, {});
  const Storage::Place *place = storage.placeIn(recording);
  if (upload.defined() && upload.scalar_type() == at::kBool && upload.nbytes() <= kMaskBytes && storage.input < 0 &&
      !(place && place->written)) {
    storage.seen.push_back({storage.sizes, storage.strides, 0, upload, /*isOwn=*/true});
  }
}

void Session::commit(Recording &recording, const std::vector<Word> &kept, const std::vector<uint64_t> &results,
                     const wire::ResultPlaces *places) {
  TablesRead reads = recording.trace.tables.empty() ? TablesRead::None : TablesRead::Open;
  reads = std::max(recording.tables.holdPrivate() ? TablesRead::Private : reads, recording.reads);
  for (Storage *storage : recording.storages) {
    const Storage::Place *place = storage ? storage->placeIn(recording) : nullptr;
    if (!place || !place->written) {
      continue;
    }
    if (storage->handle) {
      storage->reads = std::max(storage->reads, reads);
    }
    storage->readAgain = nullptr; // no column any more
  }
  countCommit();
  std::vector<uint64_t> died; // while the reply was on its way
  for (size_t i = 0; i < kept.size(); ++i) {
    Storage *storage = recording.storages[static_cast<size_t>(kept[i])];
    if (!storage) {
      died.push_back(results[i]);
      continue;
    }
    storage->handle = results[i];
    storage->place = places ? PlaceTable::get().intern(places->kept[i]) : 0;
    for (const Storage::Place &place : storage->places) {
      if (place.recording != &recording) {
        place.recording->wasSent(place.id, storage->handle);
      }
    }
    forgetUpload(*storage, recording);
    storage->reads = reads;
    storage->usedAt = commits();
    kept_.note(*storage);
    handles().add(1);
  }
  handles().releaseUncounted(died);
  recording.clear();
}

void Session::sendHeld(const Trip &trip) {
  if (isElsewhere()) {
    return; // they are the parent's to send
  }
  Turn turn(connection_);
  if (held_ && held_->trip.get() == &trip) {
    sendHeld();
  }
}

void Trip::send() {
  if (auto at = session.lock()) {
    at->sendHeld(*this);
  }
  raiseFailure();
}

void Session::sendHeld() {
  if (const std::unique_ptr<HeldSteps> held = std::move(held_)) {
    held->send(connection_, spending_, news_);
  }
}

} // namespace sojourn::frontend
