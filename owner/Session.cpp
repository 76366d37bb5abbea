// SPDX-License-Identifier: Apache-2.0
// Opening, leasing and ending of sessions.
#include "owner/Session.h"

#include "llvm/ADT/STLExtras.h"

#include "owner/Accounts.h"

#include "owner/RequestError.h"
#include "owner/peers/Digest.h"
#include "runtime/wire/Step.h"

#include "llvm/ADT/ScopeExit.h"

#include <unordered_set>
#include <utility>

namespace sojourn::owner {

using llvm::Twine;

llvm::Expected<uint64_t> Sessions::begin(std::string client, std::string account, uint64_t connection,
                                         std::string key) {
  // Per account: sessions of nobody, which anyone may open, lock out no client with an identity.
  const size_t most = account.empty() ? limits.anonymousSessions : limits.sessions;
  size_t open = count(account);
  if (open >= most) {
    expire();
    open = count(account);
  }
  if (open >= most) {
    return requestError(wire::ErrorCode_Limit,
                        "the owner has " + Twine(open) + " open sessions of " +
                            (account.empty() ? "clients without an identity" : "client '" + account + "'") +
                            ", its limit; close one or try again later");
  }
  uint64_t id = 0;
  for (int attempt = 0; attempt < 16 && (id == 0 || sessions.count(id)); ++attempt) {
    environment.randomBytes(&id, sizeof(id));
  }
  if (id == 0 || sessions.count(id)) {
    return requestError(wire::ErrorCode_Internal, "the owner's source of randomness repeats itself");
  }
  auto session = std::make_shared<Session>(worker);
  session->account = std::move(account);
  session->key = std::move(key);
  session->client = std::move(client);
  session->lastUsedMs = environment.clockMs();
  session->connection = connection;
  sessions[id] = std::move(session);
  return id;
}

static llvm::Error unknownSession() {
  return requestError(wire::ErrorCode_Session, "unknown session: it was closed, its lease ran out, or the owner was "
                                               "restarted; connect again (handles of an old session are gone)");
}

llvm::Expected<std::shared_ptr<Session>> Sessions::find(uint64_t id) {
  auto found = sessions.find(id);
  if (found != sessions.end() && isOver(*found->second)) {
    endOver(found);
    found = sessions.end();
  }
  if (found == sessions.end()) {
    return unknownSession();
  }
  found->second->lastUsedMs = environment.clockMs();
  return found->second;
}

RunningStep *Sessions::connected(uint64_t id, uint64_t connection, bool looks) {
  auto found = sessions.find(id);
  if (found == sessions.end() || isOver(*found->second) || (looks && !found->second->goneMs)) {
    return nullptr;
  }
  found->second->connection = connection;
  found->second->goneMs.reset();
  return found->second->running;
}

std::vector<RunningStep *> Sessions::disconnected(uint64_t connection) {
  for (auto &[id, session] : sessions) {
    if (connection != 0 && session->connection == connection) {
      session->goneMs = environment.elapsedMs();
    }
  }
  return stepsOf(connection);
}

std::vector<uint64_t> Sessions::connections(bool isAnonymous) const {
  std::vector<uint64_t> all;
  for (const auto &[id, session] : sessions) {
    if (!isAnonymous || session->account.empty()) {
      all.push_back(session->connection);
    }
  }
  llvm::sort(all);
  return all;
}

bool Sessions::isConnected(uint64_t connection) const {
  return llvm::any_of(sessions, [&](const auto &entry) { return entry.second->connection == connection; });
}

std::vector<RunningStep *> Sessions::stepsOf(uint64_t connection) const {
  std::vector<RunningStep *> running;
  for (const auto &[id, session] : sessions) {
    if (connection != 0 && session->connection == connection && session->running != nullptr) {
      running.push_back(session->running);
    }
  }
  return running;
}

std::shared_ptr<const Session> Sessions::peek(uint64_t id) const {
  auto found = sessions.find(id);
  return found == sessions.end() ? nullptr : found->second;
}

void Sessions::endUnused(uint64_t id) {
  if (auto found = sessions.find(id); found != sessions.end() && found->second->users == 0) {
    drop(found);
  }
}

void Sessions::end(uint64_t id) {
  if (auto found = sessions.find(id); found != sessions.end()) {
    drop(found);
  }
}

size_t heldBytes(const runtime::TensorType &type, const LabelPtr &label) {
  constexpr size_t kSource = 224, kMember = 96; // with its texts; of an audience
  const size_t sources = label ? label->sources().size() : 0, sizes = type.rank() > 4 ? 16 * type.rank() : 0;
  const size_t members = label && label->audience() ? 1 + label->audience()->size() : 0;
  return heldBytes(type.bytes()) + sizes + (sources > 1 ? sources * kSource : 0) + members * kMember;
}

Session::~Session() {
  if (own) { // which ends
    return;
  }
  for (const auto &[id, handle] : handles) {
    worker.drop(handle.value.id);
  }
  for (const auto &[number, upload] : uploads) {
    worker.drop(upload.value);
  }
  worker.drop(dropped.ids);
}

void Sessions::dropHandle(Session &session, uint64_t id) {
  session.elsewhere.erase(id);
  auto found = session.handles.find(id);
  if (found != session.handles.end()) {
    if (found->second.named) {
      leaveName(session, found->second);
      session.named.erase(id);
    }
    session.dropped.add(found->second.value.id, std::move(found->second.memory));
    letGo(session, found->second.held);
    session.handles.erase(found);
  }
}

llvm::Error Sessions::wake(Session &session, const runtime::StopFlag *stop, const Patience &patience) {
  auto isNew = session.worker.begin(stop, patience);
  if (!isNew || !*isNew) {
    return isNew.takeError();
  }
  llvm::scope_exit end([&] { session.worker.end(); }); // unless it has all of them
  std::vector<WorkerStub::Adopted> values;
  values.reserve(session.handles.size() + session.uploads.size());
  for (const auto &[id, handle] : session.handles) {
    values.push_back({handle.value, handle.memory});
  }
  for (const auto &[number, upload] : session.uploads) {
    if (upload.received > 0) {
      values.push_back({{.type = {}, .id = upload.value},
                        upload.memory,
                        /*isUpload=*/true,
                        {upload.received, upload.isBits, nullptr}});
    }
  }
  if (llvm::Error error = values.empty() ? llvm::Error::success() : session.worker.adopt(values)) {
    return error;
  }
  end.release();
  return llvm::Error::success();
}

void Sessions::dropValues(Session &session) noexcept {
  session.worker.drop(session.dropped.ids);
  session.dropped.ids.clear();
  session.dropped.memory.clear();
}

llvm::Error Sessions::checkRelease(const Session &session, llvm::ArrayRef<uint64_t> handles) {
  std::unordered_set<uint64_t> distinct; // ids are the client's own: any number
  for (uint64_t id : handles) {
    if (!session.hasHandle(id)) {
      return requestError(wire::ErrorCode_Handle,
                          "cannot release handle " + Twine(id) + ": this session has no such handle");
    }
    if (!distinct.insert(id).second) {
      return requestError(wire::ErrorCode_Malformed, "handle " + Twine(id) + " is released twice in one request");
    }
  }
  return llvm::Error::success();
}

void Sessions::know(Session &session, const runtime::ProgramHash &hash, const PlanKey &key) {
  auto &programs = session.programs;
  if (auto found = programs.find(hash); found != programs.end()) {
    found->second = key;
    return;
  }
  auto hasRoom = [&] {
    const std::string &account = session.account;
    return programs.size() < limits.programsPerSession && kProgramBytes <= holdings.left() &&
           holdings.used(account) + kProgramBytes <= std::min(holdings.share(account), holdings.claim(account));
  };
  if (!hasRoom()) {
    letGo(session, programs.size() * kProgramBytes);
    programs.clear();
  }
  if (hasRoom()) { // else its bytes come with each step
    hold(session, kProgramBytes);
    llvm::scope_exit undo([&] { letGo(session, kProgramBytes); });
    programs.emplace(hash, key);
    undo.release();
  }
}

llvm::Expected<PartialUpload *> Sessions::place(Session &session, const wire::Upload &part) {
  uint64_t number = part.upload(), size = part.size();
  if (size == 0) {
    session.dropped.reserve(1);
    dropUpload(session, number);
    return nullptr;
  }
  auto found = session.uploads.find(number);
  if (found == session.uploads.end()) {
    if (number == 0) {
      return requestError(wire::ErrorCode_Malformed, "an upload has number 0, expected 1 or more");
    }
    if (session.uploads.size() >= limits.uploadsPerSession) {
      return requestError(wire::ErrorCode_Limit, "the session has " + Twine(session.uploads.size()) +
                                                     " uploads under way, its limit; finish the steps that bind them");
    }
    // Within a sixteenth of all, the uploads of an account may pass its claim: who was there first trains on.
    const size_t bytes = heldBytes(size), own = uploads.used(session.account), few = uploads.most() / 16;
    const auto check = bytes <= few && own <= few - bytes ? &Holdings::check : &Holdings::checkKept;
    if (llvm::Error error =
            (holdings.*check)(session.account, bytes, 0, "an upload of " + Twine(size) + " bytes does not fit")) {
      return error;
    }
    hold(session, bytes);
    llvm::scope_exit undo([&] { letGo(session, bytes); });
    found =
        session.uploads
            .try_emplace(number, PartialUpload{.value = worker.newId(),
                                               .size = size,
                                               .memory = nullptr,
                                               .content = session.group ? std::make_shared<ContentDigest>() : nullptr})
            .first;
    llvm::scope_exit remove([&] { session.uploads.erase(found); });
    uploads.add(session.account, bytes);
    session.uploading += bytes;
    remove.release();
    undo.release();
  }
  return &found->second;
}

llvm::Expected<size_t> Sessions::receive(WorkerStub &worker, PartialUpload &upload, const wire::Upload &part) {
  size_t size = part.size(), length = part.data() ? part.data()->size() : 0;
  if (size != upload.size || part.offset() > size || length > size - part.offset()) {
    return requestError(wire::ErrorCode_Malformed, "upload " + Twine(part.upload()) + " has " + Twine(upload.size) +
                                                       " bytes; a part of " + Twine(length) + " bytes at " +
                                                       Twine(part.offset()) + " of " + Twine(size) +
                                                       " lies outside of it");
  }
  if (part.offset() == upload.received && length > 0) {
    auto stands = worker.put(upload.value, size, upload.received, runtime::Buffer::borrow(part.data()->data(), length));
    if (!stands) {
      return stands.takeError();
    }
    sojourn::wire::countCopied(length);
    if (upload.content) {
      upload.content->add(part.data()->data(), length);
    }
    upload.received = stands->bytes;
    upload.isBits = stands->isBits;
    upload.memory = std::move(stands->memory);
  }
  return upload.received;
}

void Sessions::dropUpload(Session &session, uint64_t upload) {
  if (auto found = session.uploads.find(upload); found != session.uploads.end()) {
    const size_t bytes = heldBytes(found->second.size);
    session.dropped.add(found->second.value, std::move(found->second.memory));
    letGo(session, bytes);
    uploads.remove(session.account, bytes);
    session.uploading -= bytes;
    session.uploads.erase(found);
  }
}

size_t Sessions::count(const std::string &account) const {
  return static_cast<size_t>(
      llvm::count_if(sessions, [&](const auto &entry) { return entry.second->account == account; }));
}

size_t Sessions::handleCount() const {
  size_t count = 0;
  for (const auto &[id, session] : sessions) {
    count += session->handles.size();
  }
  return count;
}

/// Whether the lease has run out, or the time after the end of its connection. Where a request runs or waits a session
/// is in use, however long that takes.
bool Sessions::isOver(const Session &session) const {
  const bool isIdle = session.lastUsedMs < environment.clockMs() - limits.leaseMs;
  const bool isGone = session.goneMs && *session.goneMs < environment.elapsedMs() - limits.goneMs;
  return session.users == 0 && (isIdle || isGone);
}

void Sessions::endOver(Map::iterator at) {
  const Session &session = *at->second;
  if (environment.log) {
    const std::string text = "session of '" + session.client +
                             "' ended: " + (session.goneMs ? "its connection is gone" : "its lease ran out");
    for (const std::string &told : ended.add(session.account, text, environment.elapsedMs())) {
      LogLine line = told;
      if (told == text) { // else it is a count
        line.event = "session ended";
        line.client = session.client;
      }
      environment.log(line);
    }
  }
  drop(at);
}

void Sessions::expire() {
  for (auto at = sessions.begin(); at != sessions.end();) {
    auto next = std::next(at);
    if (isOver(*at->second)) {
      endOver(at);
    }
    at = next;
  }
}

std::vector<std::shared_ptr<Session>> Sessions::tidy() {
  expire();
  return std::exchange(dropped, {});
}

void Sessions::drop(Map::iterator at) {
  dropped.push_back(at->second); // first what may fail
  Session &session = *at->second;
  leaveNames(session);
  holdings.remove(session.account, session.held);
  uploads.remove(session.account, session.uploading);
  replies.forget(session.last, session.account);
  session.ended = true;
  sessions.erase(at);
}

SessionTurn::SessionTurn(std::mutex &mutex, Sessions &sessions, std::shared_ptr<Session> session)
    : mutex(mutex), sessions(sessions), session(std::move(session)) {}

void TurnQueue::enter(std::unique_lock<std::mutex> &lock) {
  if (!isTaken) {
    isTaken = true;
    return;
  }
  Waiter self;
  waiting.push_back(&self);
  self.called.wait(lock, [&] { return self.hasTurn; });
}

void TurnQueue::leave() {
  isTaken = !waiting.empty();
  if (isTaken) {
    waiting.front()->hasTurn = true;
    waiting.front()->called.notify_one();
    waiting.pop_front();
  }
}

llvm::Expected<std::unique_ptr<SessionTurn>> SessionTurn::take(std::mutex &mutex, Sessions &sessions, uint64_t id) {
  std::unique_ptr<SessionTurn> taken; // goes without the mutex
  bool hasEnded;
  {
    std::unique_lock lock(mutex);
    auto found = sessions.find(id);
    if (!found) {
      return found.takeError();
    }
    // Each request that waits holds a thread of the server.
    size_t most = sessions.limits.requestsPerSession;
    if ((*found)->users >= most) {
      return requestError(wire::ErrorCode_Limit,
                          "the session has " + Twine(most) + " requests under way, its limit; wait for their replies");
    }
    const std::string &account = (*found)->account;
    if (const size_t used = sessions.requests.used(account); used >= sessions.requests.share(account)) {
      return requestError(wire::ErrorCode_Limit, (account.empty() ? "clients without an identity have " : "you have ") +
                                                     Twine(used) + " requests under way, " +
                                                     (account.empty() ? "their" : "your") +
                                                     " share; wait for some of the replies");
    }
    if (sessions.requests.left() == 0 || sessions.requests.used(account) >= sessions.requests.claim(account)) {
      return requestError(wire::ErrorCode_Limit, "the owner has no room for further requests; try again later");
    }
    // Its end gives both back, so nothing may fail in between.
    sessions.requests.add(account, 1);
    llvm::scope_exit undo([&, used = account] { sessions.requests.remove(used, 1); });
    taken.reset(new SessionTurn(mutex, sessions, std::move(*found)));
    undo.release();
    ++taken->session->users;
    taken->session->turn.enter(lock);
    taken->hasTurn = true;
    hasEnded = taken->session->ended;
  }
  if (hasEnded) {
    return unknownSession();
  }
  return taken;
}

SessionTurn::~SessionTurn() {
  if (hasTurn) {
    Sessions::dropValues(*session);
  }
  std::lock_guard lock(mutex);
  if (hasTurn) {
    session->turn.leave();
  }
  --session->users;
  sessions.requests.remove(session->account, 1);
  session->lastUsedMs = sessions.environment.clockMs();
  if (session->goneMs) {
    session->goneMs = sessions.environment.elapsedMs(); // a client has the whole time after a long step, too
  }
}

} // namespace sojourn::owner
