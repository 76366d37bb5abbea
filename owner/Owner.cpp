// SPDX-License-Identifier: Apache-2.0
// Requests in, replies out: the outermost check and the dispatch.
#include "owner/Owner.h"

#include "owner/OwnerState.h"
#include "owner/PrivateStep.h"
#include "owner/ProgramArchive.h"
#include "owner/Reply.h"
#include "owner/Step.h"
#include "runtime/wire/Step.h"

#include "llvm/ADT/ScopeExit.h"

#include <cstring>
#include <mutex>
#include <stdexcept>

namespace sojourn::owner {

using llvm::Twine;

/// Tables are labelled with the owner's key, so it comes first.
llvm::Error OwnerState::open() {
  if (llvm::Error error = Store::makeFolder(environment)) {
    return error;
  }
  auto key = Accounts::openKey(environment);
  if (!key) {
    return key.takeError();
  }
  auto opened = Store::open(environment, key->publicKey(), worker);
  if (!opened) {
    return opened.takeError();
  }
  store = std::move(*opened);
  log = std::make_unique<ProgramLog>(store->catalogue(), environment, limits);
  auto ledger = Accounts::open(environment, *key);
  if (!ledger) {
    return ledger.takeError();
  }
  accounts = std::move(*ledger);
  handshake = std::make_unique<Handshake>(environment, accounts->key());
  peers = Peers::open(accounts->key().publicKey(), environment.isNeighbour);
  llvm::Error error = settleNames();
  return error ? std::move(error) : settleAccess();
}

llvm::Expected<sojourn::wire::Message> OwnerState::listPrograms(const wire::ListPrograms &request, Peer peer) {
  if (peer == Peer::client) {
    return requestError(wire::ErrorCode_Refused,
                        "the log of programs holds other people's source lines; the data owner "
                        "reads it with 'sojourn-owner programs'");
  }
  auto records = programs(request.with_text());
  if (!records) {
    return records.takeError();
  }
  return programsReply(*records, request.with_text());
}

llvm::Expected<std::vector<ProgramRecord>> OwnerState::programs(bool withText, const std::string &prefix) {
  std::lock_guard lock(mutex);
  if (llvm::Error error = log->flush()) {
    return error;
  }
  return store->catalogue().programs(withText, prefix);
}

llvm::Expected<sojourn::wire::Message> OwnerState::step(const wire::Step &request, std::string_view bytes) {
  auto reply = runStep(*this, *this, request, bytes);
  if (!reply) {
    return reply.takeError();
  }
  steps += reply->steps;
  if (reply->failure) {
    try {
      refused(RefusedRequest(request), *reply->failure);
    } catch (const std::bad_alloc &) { // the reply, about steps that have committed, is worth more than the line
    }
  }
  return std::move(reply->bytes);
}

llvm::Expected<sojourn::wire::Message> OwnerState::upload(const wire::Upload &part) {
  auto session = SessionTurn::take(mutex, sessions, part.session());
  if (!session) {
    return session.takeError();
  }
  auto place = [&] {
    std::lock_guard lock(mutex);
    return sessions.place(**session->get(), part);
  }();
  if (!place) {
    return place.takeError();
  }
  if (!*place) {
    return receivedReply(0);
  }
  WorkerStub &worker = (**session)->worker;
  const llvm::scope_exit rest([&] { worker.rest(); });
  if (llvm::Error error = Sessions::wake(***session, nullptr)) {
    return error;
  }
  auto received = sessions.receive(worker, **place, part);
  if (!received) {
    return received.takeError();
  }
  return receivedReply(*received);
}

llvm::Expected<sojourn::wire::Message> OwnerState::release(const wire::Release &request) {
  auto session = SessionTurn::take(mutex, sessions, request.session());
  if (!session) {
    return session.takeError();
  }
  std::vector<uint64_t> handles = sojourn::wire::numbersOf(request.handles());
  if (llvm::Error error = Sessions::checkRelease(**session->get(), handles)) {
    return error;
  }
  (**session)->dropped.reserve(handles.size()); // freed without the mutex
  constexpr size_t kAtOnce = 1'024;             // others wait meanwhile
  for (size_t at = 0; at < handles.size();) {
    std::lock_guard lock(mutex);
    for (const size_t end = std::min(at + kAtOnce, handles.size()); at < end; ++at) {
      sessions.dropHandle(**session->get(), handles[at]);
    }
  }
  return doneReply({});
}

/// Waits for no turn: it is about who has it.
llvm::Expected<sojourn::wire::Message> OwnerState::watch(const wire::Watch &request) {
  auto session = [&] {
    std::lock_guard lock(mutex);
    return sessions.find(request.session());
  }();
  if (!session) {
    return session.takeError();
  }
  if (request.stop()) {
    std::lock_guard lock(mutex);
    Session &asked = **session;
    // A request that comes late stops no other message.
    if (asked.running != nullptr && (request.mark() == 0 || request.mark() == asked.mark)) {
      asked.stop = true;
      running.endIn(*asked.running, kStopGrace, StopCause::client);
    }
  }
  std::lock_guard lock(mutex);
  // Of the message that the client asks about: it may be on its way, or wait for its turn.
  const bool isThis = request.mark() == 0 || request.mark() == (*session)->mark;
  return progressReply(isThis ? (*session)->progress.load() : 0);
}

/// Waits for a step that runs; what it keeps goes with the session.
llvm::Expected<sojourn::wire::Message> OwnerState::bye(const wire::Bye &request) {
  {
    auto session = SessionTurn::take(mutex, sessions, request.session());
    if (!session) {
      RequestError error = takeRequestError(session.takeError());
      if (error.code == wire::ErrorCode_Session) {
        return doneReply({}); // ended already
      }
      return llvm::make_error<RequestError>(std::move(error));
    }
    std::lock_guard lock(mutex);
    sessions.end(request.session());
  }
  tidy(); // what the session held, budget of runs among it, is back when the client hears of it
  return doneReply({});
}

/// The session that a request names; 0 for none.
static uint64_t sessionOf(const wire::Request &request) {
  switch (request.body_type()) {
  case wire::RequestBody_Step: return request.body_as_Step()->session();
  case wire::RequestBody_Release: return request.body_as_Release()->session();
  case wire::RequestBody_Upload: return request.body_as_Upload()->session();
  case wire::RequestBody_GetBudget: return request.body_as_GetBudget()->session();
  case wire::RequestBody_Watch: return request.body_as_Watch()->session();
  case wire::RequestBody_ListDatasets: return request.body_as_ListDatasets()->session();
  case wire::RequestBody_Join: return request.body_as_Join()->session();
  case wire::RequestBody_Borrow: return request.body_as_Borrow()->session();
  case wire::RequestBody_NameValues: return request.body_as_NameValues()->session();
  case wire::RequestBody_ListValues: return request.body_as_ListValues()->session();
  case wire::RequestBody_TakeValues: return request.body_as_TakeValues()->session();
  case wire::RequestBody_ReleaseNames: return request.body_as_ReleaseNames()->session();
  default: return 0;
  }
}

/// Refusals are lines of one account, or of none.
void OwnerState::refused(const RefusedRequest &request, const RequestError &error) {
  ++refusedCodes[std::min<size_t>(error.code, Figures::kCodes - 1)];
  if (!environment.log || process.isElsewhere()) {
    return;
  }
  std::lock_guard lock(mutex);
  const Session *session = request.session ? sessions.look(request.session) : nullptr;
  const std::string text = refusalText(request, session ? session->client : "", error);
  for (const std::string &line : refusals.add(session ? session->account : "", text, environment.elapsedMs())) {
    LogLine told = line;
    if (line == text) { // else it is a count
      told.event = "refused";
      told.client = session ? std::string_view(session->client) : std::string_view(request.said);
      told.request = request.kind;
      told.tables = request.tables;
      told.code = wire::EnumNameErrorCode(error.code);
    }
    environment.log(told);
  }
}

llvm::Expected<sojourn::wire::Message> OwnerState::answer(std::string_view bytes, Peer peer, uint64_t connection,
                                                          std::string_view certificate) {
  auto refuse = [&](llvm::Error given, const RefusedRequest &request = {}) {
    RequestError error = takeRequestError(std::move(given));
    refused(request, error);
    return llvm::make_error<RequestError>(std::move(error));
  };
  if (bytes.size() > limits.requestBytes) {
    return refuse(requestError(wire::ErrorCode_Limit,
                               "the request has " + Twine(bytes.size()) + " bytes, this owner takes up to " +
                                   Twine(limits.requestBytes) + "; send large uploads ahead, in parts"));
  }
  // Transports may hand over bytes at any address; readers of 64-bit fields need them aligned.
  std::vector<uint64_t> aligned;
  auto *data = reinterpret_cast<const uint8_t *>(bytes.data());
  if (reinterpret_cast<uintptr_t>(data) % alignof(uint64_t) != 0) {
    aligned.resize((bytes.size() + 7) / 8);
    std::memcpy(aligned.data(), bytes.data(), bytes.size());
    sojourn::wire::countCopied(bytes.size());
    data = reinterpret_cast<const uint8_t *>(aligned.data());
  }
  flatbuffers::Verifier verifier(data, bytes.size(), kMessageDepth, kMessageTables);
  if (bytes.size() < 12 || !verifier.VerifyBuffer<wire::Request>(wire::RequestIdentifier())) {
    return refuse(
        requestError(wire::ErrorCode_Malformed, "these " + Twine(bytes.size()) +
                                                    " bytes are not a request of the Sojourn protocol (identifier " +
                                                    wire::RequestIdentifier() + ")"));
  }
  const auto *request = flatbuffers::GetRoot<wire::Request>(data);
  if (!request->body()) {
    return refuse(requestError(wire::ErrorCode_Malformed, "the request is empty"));
  }
  auto reply = serve(*request, bytes, peer, connection, certificate);
  return reply ? std::move(reply) : refuse(reply.takeError(), RefusedRequest(*request));
}

llvm::Expected<sojourn::wire::Message> OwnerState::serve(const wire::Request &request, std::string_view bytes,
                                                         Peer peer, uint64_t connection, std::string_view certificate) {
  if (llvm::Error error = checkOpen()) {
    return error;
  }
  if (connection == 0) { // without a server there is no housekeeper
    tidy();
  }
  if (const uint64_t session = sessionOf(request)) {
    // A step is checked when it has its turn, and any session may end.
    if (request.body_type() != wire::RequestBody_Step && request.body_type() != wire::RequestBody_Bye) {
      if (llvm::Error error = checkKey(session)) {
        return error;
      }
    }
    if (connection) {
      const bool looks = request.body_type() == wire::RequestBody_Watch;
      std::lock_guard lock(mutex);
      if (RunningStep *step = sessions.connected(session, connection, looks)) {
        running.keep(*step);
      }
    }
  }
  switch (request.body_type()) {
  case wire::RequestBody_Hello: return hello(*request.body_as_Hello(), peer, connection, certificate);
  case wire::RequestBody_Prove: return prove(*request.body_as_Prove(), connection, certificate);
  case wire::RequestBody_ListDatasets: return listDatasets(*request.body_as_ListDatasets(), peer, connection);
  case wire::RequestBody_Step: return step(*request.body_as_Step(), bytes);
  case wire::RequestBody_Release: return release(*request.body_as_Release());
  case wire::RequestBody_Upload: return upload(*request.body_as_Upload());
  case wire::RequestBody_Bye: return bye(*request.body_as_Bye());
  case wire::RequestBody_GetBudget: return budget(*request.body_as_GetBudget());
  case wire::RequestBody_ListPrograms: return listPrograms(*request.body_as_ListPrograms(), peer);
  case wire::RequestBody_Watch: return watch(*request.body_as_Watch());
  case wire::RequestBody_Join: return join(*request.body_as_Join());
  case wire::RequestBody_Borrow: return borrow(*request.body_as_Borrow());
  case wire::RequestBody_NameValues: return nameValues(*request.body_as_NameValues());
  case wire::RequestBody_ListValues: return listValues(*request.body_as_ListValues(), connection);
  case wire::RequestBody_TakeValues: return takeValues(*request.body_as_TakeValues());
  case wire::RequestBody_ReleaseNames: return releaseNames(*request.body_as_ReleaseNames());
  case wire::RequestBody_NONE: break;
  }
  return requestError(wire::ErrorCode_Malformed, "unknown kind of request " + Twine(unsigned(request.body_type())));
}

Owner::Owner(Environment environment, Limits limits)
    : state(std::make_unique<OwnerState>(std::move(environment), limits)) {}
Owner::~Owner() {
  if (state->process.isElsewhere()) {
    static_cast<void>(state.release()); // the parent goes on using its files
  }
}

std::string Owner::status() const { return state->problem; }

sojourn::wire::Message Owner::answer(std::string_view request, Peer peer, uint64_t connection,
                                     std::string_view certificate) noexcept {
  ++state->requests;
  std::string trouble;
  bool isShort = false; // of memory
  try {
    auto reply = state->answer(request, peer, connection, certificate);
    if (reply) {
      return std::move(*reply);
    }
    RequestError error = takeRequestError(reply.takeError());
    return errorReply(error);
  } catch (const std::bad_alloc &) {
    isShort = true;
  } catch (const std::exception &exception) {
    trouble = exception.what();
  } catch (...) {
    trouble = "an unknown exception";
  }
  try {
    RequestError error = isShort ? RequestError(wire::ErrorCode_Limit, "not enough memory for the request")
                                 : RequestError(wire::ErrorCode_Internal, "the owner failed: " + trouble);
    state->refused({}, error);
    return errorReply(error);
  } catch (...) {
    return {}; // not even memory for an error: the transport drops the request
  }
}

llvm::Error Owner::registerDataset(const DatasetSource &source, const RegisterOptions &options) {
  if (llvm::Error error = state->checkOpen()) {
    return error;
  }
  auto record = [&] {
    std::lock_guard lock(state->mutex);
    return state->store->begin(options);
  }();
  if (!record) {
    return record.takeError();
  }
  auto people = state->accounts->checkName(options.name, options.population, options.continuesBudget);
  if (!people) {
    return people.takeError();
  }
  if (*people) {
    record->population = **people == record->name ? "" : **people;
  }
  // Steps go on while a table is read.
  auto table = state->store->import(*record, source, options);
  if (!table) {
    return table.takeError();
  }
  std::lock_guard lock(state->mutex);
  return state->store->enter(std::move(*record), std::move(*table), [&]() -> llvm::Error {
    auto again = state->accounts->checkName(options.name, options.population, options.continuesBudget);
    return !again   ? again.takeError()
           : *again ? state->accounts->continueDataset(options.name)
                    : llvm::Error::success();
  });
}

llvm::Error Owner::setPolicy(const std::string &name, Policy policy, bool rowsAreSubjects) {
  if (llvm::Error error = state->checkOpen()) {
    return error;
  }
  std::lock_guard lock(state->mutex);
  if (policy != Policy::privateOnly) {
    return state->store->setPolicy(name, policy);
  }
  auto record = state->store->record(name);
  if (!record) {
    return record.takeError();
  }
  bool isNew = rowsAreSubjects && !record->subject;
  record->subject = isNew ? "" : record->subject;
  llvm::Error error = Store::checkPrivate(*record);
  error = error || !isNew ? std::move(error) : state->store->catalogue().setSubject(name, *record->subject);
  return error ? std::move(error) : state->store->setPolicy(name, policy);
}

llvm::Error Owner::setDefaults(const std::string &name, const PrivacyDefaults &defaults) {
  llvm::Error error = state->checkOpen();
  error = error ? std::move(error) : checkDefaults(defaults);
  if (error) {
    return error;
  }
  std::lock_guard lock(state->mutex);
  return state->store->catalogue().setDefaults(name, defaults);
}

Accounts &Owner::accounts() { return *state->accounts; }

std::string Owner::key() const {
  return state->accounts ? signing::keyText(state->accounts->key().publicKey()) : std::string();
}

llvm::Expected<Certificate> OwnerState::certificate(bool renew) {
  if (llvm::Error error = checkOpen()) {
    return error;
  }
  std::lock_guard lock(mutex);
  if (!environment.storeDirectory.empty()) {
    return openCertificate(environment.storeDirectory, accounts->key(), renew);
  }
  if (!ownCertificate || renew) {
    auto made = makeCertificate(accounts->key());
    if (!made) {
      return made.takeError();
    }
    ownCertificate = std::move(*made);
  }
  return *ownCertificate;
}

llvm::Expected<Certificate> Owner::certificate(bool renew) { return state->certificate(renew); }

llvm::Expected<std::vector<DatasetRecord>> Owner::datasets() {
  if (llvm::Error error = state->checkOpen()) {
    return error;
  }
  std::lock_guard lock(state->mutex);
  auto records = state->store->list();
  return records ? llvm::Expected<std::vector<DatasetRecord>>(**records) : records.takeError();
}

llvm::Expected<DatasetRecord> Owner::dataset(const std::string &name) {
  if (llvm::Error error = state->checkOpen()) {
    return error;
  }
  std::lock_guard lock(state->mutex);
  return state->store->record(name);
}

llvm::Expected<std::vector<ProgramRecord>> Owner::programs(bool withText, const std::string &prefix) {
  if (llvm::Error error = state->checkOpen()) {
    return error;
  }
  return state->programs(withText, prefix);
}

llvm::Expected<LoggedBefore> Owner::loggedBefore() {
  if (llvm::Error error = state->checkOpen()) {
    return error;
  }
  std::lock_guard lock(state->mutex);
  auto dropped = state->store->catalogue().droppedPrograms();
  if (!dropped) {
    return dropped.takeError();
  }
  return LoggedBefore{*dropped, ProgramArchive::filesIn(ProgramLog::archiveFolder(state->environment))};
}

llvm::Expected<size_t> Owner::archivePrograms(const std::string &path) {
  if (llvm::Error error = state->checkOpen()) {
    return error;
  }
  for (size_t all = 0;;) {
    // In parts, between which other processes write to the log.
    std::lock_guard lock(state->mutex);
    llvm::Error error = state->log->flush();
    auto moved = error ? llvm::Expected<size_t>(std::move(error))
                       : state->store->catalogue().archive(path, nullptr, {1'000, size_t{32} << 20});
    if (!moved || *moved == 0) {
      return moved ? llvm::Expected<size_t>(all) : moved.takeError();
    }
    all += *moved;
  }
}

uint64_t Owner::requests() const { return state->requests; }
uint64_t Owner::stepsHandled() const { return state->steps; }

size_t Owner::liveSessions() const {
  std::lock_guard lock(state->mutex);
  return state->sessions.count();
}

size_t Owner::liveHandles() const {
  std::lock_guard lock(state->mutex);
  return state->sessions.handleCount();
}

} // namespace sojourn::owner
