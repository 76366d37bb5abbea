// SPDX-License-Identifier: Apache-2.0
// Which tables a client has access to, and what it may learn of them: the requests, and the data owner's changes.
#include "owner/HeldBytes.h"
#include "owner/Owner.h"
#include "owner/OwnerState.h"
#include "owner/Reply.h"
#include "owner/Search.h"
#include "runtime/Limits.h"
#include "runtime/stream/Frame.h"

#include <utility>

namespace sojourn::owner {

using llvm::Twine;

/// Of a store of before: clients with a grant keep what they had.
llvm::Error OwnerState::settleAccess() {
  return store->catalogue().settleAccess([&](const std::string &name) -> llvm::Expected<std::vector<std::string>> {
    auto lines = accounts->ledger().accounts("", name);
    if (!lines) {
      return failure(lines.problem().text);
    }
    std::vector<std::string> clients;
    for (const ledger::AccountLine &line : *lines) {
      if (line.grant.epsilon > 0 && line.client != kLocalClient) {
        clients.push_back(line.client);
      }
    }
    return clients;
  });
}

/// The search that a request asks for; without one, for everything.
static llvm::Expected<Search> searchOf(const wire::ListDatasets &request) {
  const auto view = [](const flatbuffers::String *text) {
    return text ? llvm::StringRef(text->data(), text->size()) : llvm::StringRef();
  };
  std::vector<std::string> columns;
  if (request.columns()) {
    for (const flatbuffers::String *column : *request.columns()) {
      if (columns.size() <= Search::kColumns) { // one more than is allowed, for the error
        columns.push_back(view(column).str());
      }
    }
  }
  return Search::of(view(request.text()), view(request.tag()), std::move(columns));
}

/// Those to which the session's account has access. Without a session, as older clients ask, it is a
/// client without an identity, or this process. The catalogue is read where it has changed alone.
llvm::Expected<sojourn::wire::Message> OwnerState::listDatasets(const wire::ListDatasets &request, Peer peer,
                                                                uint64_t connection) {
  std::string account = peer == Peer::owner ? kLocalClient : "";
  auto records = [&]() -> llvm::Expected<std::shared_ptr<const std::vector<DatasetRecord>>> {
    std::lock_guard lock(mutex);
    if (request.session() != 0) {
      auto session = sessions.find(request.session());
      if (!session) {
        return session.takeError();
      }
      account = (*session)->account;
    }
    return store->list();
  }();
  if (!records) {
    return records.takeError();
  }
  auto search = searchOf(request);
  if (!search) {
    return search.takeError();
  }
  std::vector<const DatasetRecord *> shown;
  for (const DatasetRecord &record : **records) {
    const bool hasAccess =
        account == kLocalClient || record.access.anyone || llvm::is_contained(record.access.clients, account);
    if (hasAccess && search->finds(record)) {
      shown.push_back(&record);
    }
  }
  if (!search->isEmpty()) {
    sojourn::wire::Message reply = datasetsReply(shown);
    return connection ? held(account, std::move(reply)) : llvm::Expected<sojourn::wire::Message>(std::move(reply));
  }
  // A list may be long, and who asks for it need not take it: all that show the same tables are one.
  sojourn::wire::Message reply;
  decltype(lists) gone; // freed without the mutex
  {
    std::lock_guard lock(mutex);
    if (lists.of != *records) {
      gone = std::exchange(lists, {*records, {}, 0});
    }
    auto known = lists.replies.find(shown);
    reply = known == lists.replies.end() ? reply : known->second;
  }
  if (reply.bytes.empty()) {
    constexpr size_t kLists = 64, kBytes = size_t{64} << 20;
    reply = datasetsReply(shown);
    std::lock_guard lock(mutex);
    const bool hasRoom = lists.replies.size() < kLists && reply.bytes.size() <= kBytes - lists.bytes;
    if (lists.of == *records && hasRoom && lists.replies.emplace(shown, reply).second) {
      lists.bytes += reply.bytes.size();
    }
  }
  return connection ? held(account, std::move(reply)) : llvm::Expected<sojourn::wire::Message>(std::move(reply));
}

llvm::Expected<sojourn::wire::Message> OwnerState::held(const std::string &account, sojourn::wire::Message message) {
  if (message.bytes.size() <= stream::kSmallBytes || account == kLocalClient) {
    return message;
  }
  auto room = HeldBytes::take(mutex, sessions.holdings, account, message.bytes.size(),
                              "a reply of " + Twine(message.bytes.size()) + " bytes does not fit");
  if (!room) {
    return room.takeError();
  }
  using Kept = std::pair<std::shared_ptr<HeldBytes>, std::shared_ptr<const void>>;
  message.keep = std::make_shared<Kept>(std::move(*room), std::move(message.keep));
  return message;
}

llvm::Expected<sojourn::wire::Message> OwnerState::budget(const wire::GetBudget &request) {
  auto session = SessionTurn::take(mutex, sessions, request.session());
  if (!session) {
    return session.takeError();
  }
  if (uint64_t number = request.end_run()) {
    // Runs go outside of the owner's mutex: what they did not use is returned on disk.
    std::erase_if((**session)->runs, [&](const auto &run) { return run.first.first == number; });
  }
  const std::string &account = (**session)->account;
  const size_t nameBytes = request.dataset() ? request.dataset()->size() : 0;
  if (nameBytes > runtime::limits::kNameBytes) {
    return requestError(wire::ErrorCode_Malformed, "the name of a table has " + Twine(nameBytes) +
                                                       " bytes, expected up to " + Twine(runtime::limits::kNameBytes));
  }
  std::string dataset = request.dataset() ? request.dataset()->str() : "";
  auto hasAccess = [&] {
    std::lock_guard lock(mutex);
    return store->hasAccess(dataset, account);
  }();
  if (!hasAccess) {
    return hasAccess.takeError();
  }
  auto info = *hasAccess ? accounts->budget(account, dataset) : BudgetInfo{dataset};
  if (!info) {
    return info.takeError();
  }
  return budgetReply(*info);
}

llvm::Expected<Charged> OwnerState::charged(const std::string &dataset, double epsilon) {
  if (llvm::Error error = checkOpen()) {
    return error;
  }
  std::lock_guard lock(mutex);
  auto record = store->record(dataset);
  if (!record) {
    return record.takeError();
  }
  if (epsilon > 0 && record->policy == Policy::open && !record->subject) {
    return failure("dataset '" + dataset +
                   "' is open and names no subjects, so it has no people with a budget; "
                   "budgets are for private datasets");
  }
  return Charged{record->name, record->population};
}

llvm::Error Owner::setCap(const std::string &dataset, double epsilon, double delta) {
  auto on = state->charged(dataset, epsilon);
  return on ? state->accounts->setCap(*on, {epsilon, delta}) : on.takeError();
}

llvm::Error Owner::grant(const std::string &client, const std::string &dataset, double epsilon, double delta) {
  auto on = state->charged(dataset, epsilon);
  if (!on) {
    return on.takeError();
  }
  llvm::Error error = state->accounts->setGrant(client, *on, {epsilon, delta});
  if (error || client == kLocalClient) {
    return error;
  }
  std::lock_guard lock(state->mutex);
  return state->store->catalogue().addAccess(dataset, {client});
}

llvm::Error Owner::revoke(const std::string &client, const std::string &dataset) {
  llvm::Error error = state->checkOpen();
  error = error ? std::move(error) : state->accounts->revoke(client, dataset);
  if (error) {
    return error;
  }
  std::lock_guard lock(state->mutex);
  auto had = state->store->catalogue().removeAccess(dataset, client);
  return had ? llvm::Error::success() : had.takeError();
}

llvm::Error Owner::checkClients(const std::vector<std::string> &clients) {
  if (llvm::Error error = state->checkOpen()) {
    return error;
  }
  auto known = state->accounts->ledger().clients();
  if (!known) {
    return failure(known.problem().text);
  }
  for (const std::string &client : clients) {
    if (client == kLocalClient) {
      return failure("'" + client + "' is the data owner's own process, which always has access");
    }
    if (!known->count(client)) {
      return failure("no client is named '" + client + "'; add it with: sojourn-owner client add " + client +
                     " --key FILE.pub");
    }
  }
  return llvm::Error::success();
}

llvm::Error Owner::setAccess(const std::string &name, const Access &access) {
  if (llvm::Error error = checkClients(access.clients)) {
    return error;
  }
  std::lock_guard lock(state->mutex);
  auto record = state->store->record(name);
  return record ? state->store->catalogue().setAccess(name, access) : record.takeError();
}

llvm::Error Owner::openToAnyone(const std::string &name) {
  if (llvm::Error error = state->checkOpen()) {
    return error;
  }
  std::lock_guard lock(state->mutex);
  auto record = state->store->record(name);
  if (!record) {
    return record.takeError();
  }
  return state->store->catalogue().setAccess(name, {true, record->access.clients});
}

llvm::Error Owner::changeAccess(const std::string &name, const std::vector<std::string> &add,
                                const std::vector<std::string> &remove) {
  if (llvm::Error error = checkClients(add)) {
    return error;
  }
  std::lock_guard lock(state->mutex);
  auto record = state->store->record(name);
  if (!record) {
    return record.takeError();
  }
  for (const std::string &client : remove) {
    if (!llvm::is_contained(record->access.clients, client)) {
      return failure("client '" + client + "' has no access to table '" + name +
                     "' by its name; 'sojourn-owner access " + name + "' lists who has");
    }
  }
  llvm::Error error = state->store->catalogue().addAccess(name, add);
  for (size_t at = 0; !error && at < remove.size(); ++at) {
    auto had = state->store->catalogue().removeAccess(name, remove[at]);
    error = had ? llvm::Error::success() : had.takeError();
  }
  return error;
}

} // namespace sojourn::owner
