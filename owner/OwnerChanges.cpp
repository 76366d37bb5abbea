// SPDX-License-Identifier: Apache-2.0
// Datasets and clients that go, or get another name, a description, other rows or another key. The ledger is changed
// first, under the catalogue's lock: should the process end between both, the next one that opens the store finishes a
// renaming, and a removal is finished by the same command.
#include "owner/Owner.h"
#include "owner/OwnerState.h"

namespace sojourn::owner {

static Charged chargedOf(const DatasetRecord &record) { return {record.name, record.population}; }

/// Whether a dataset keeps its name in the ledger: it is, or was meant to be, about people.
static bool isCharged(const DatasetRecord &record) {
  return record.policy == Policy::privateOnly || record.subject || !record.population.empty();
}

/// The population, written down: the default is the name.
static std::string peopleOf(const DatasetRecord &record, const std::string &name) {
  const std::string people = record.population.empty() ? record.name : record.population;
  return people == name ? "" : people;
}

/// Renamings that a process did not finish. Removals would delete rows, also such that somebody restored from a copy.
llvm::Error OwnerState::settleNames() {
  auto records = store->list(); // before the ledger is asked: what it says then holds for these versions
  if (!records) {
    return records.takeError();
  }
  for (const DatasetRecord &record : **records) {
    auto known = accounts->nameOf(record.name);
    if (!known) {
      return known.takeError();
    }
    if (known->now.empty()) {
      continue;
    }
    if (llvm::Error error = store->rename(record, known->now, peopleOf(record, known->now))) {
      tell(llvm::toString(std::move(error))); // another process was quicker
    }
  }
  return llvm::Error::success();
}

llvm::Error OwnerState::checkKey(uint64_t id) {
  auto session = [&] {
    std::lock_guard lock(mutex);
    return sessions.peek(id);
  }();
  if (!session) {
    return llvm::Error::success();
  }
  llvm::Error failed = accounts->checkKey(session->account, session->key);
  if (!failed) {
    return failed;
  }
  RequestError error = takeRequestError(std::move(failed));
  if (error.code == wire::ErrorCode_Session) { // not where the ledger cannot be read
    std::lock_guard lock(mutex);
    sessions.endUnused(id);
  }
  return llvm::make_error<RequestError>(std::move(error));
}

llvm::Error Owner::replaceDataset(const std::string &name, const DatasetSource &source, RegisterOptions options) {
  if (llvm::Error error = state->checkOpen()) {
    return error;
  }
  auto old = dataset(name);
  if (!old) {
    return old.takeError();
  }
  auto record = [&] {
    std::lock_guard lock(state->mutex);
    return state->store->beginReplacement(*old, options);
  }();
  if (!record) {
    return record.takeError();
  }
  auto table = state->store->import(*record, source, options);
  if (!table) {
    return table.takeError();
  }
  std::lock_guard lock(state->mutex);
  return state->store->replace(*old, std::move(*record), std::move(*table));
}

llvm::Error Owner::renameDataset(const std::string &name, const std::string &to) {
  if (llvm::Error error = state->checkOpen()) {
    return error;
  }
  std::lock_guard lock(state->mutex);
  auto record = state->store->record(name);
  if (!record) {
    return record.takeError();
  }
  const bool charged = isCharged(*record);
  return state->store->rename(*record, to, charged ? peopleOf(*record, to) : record->population,
                              [&] { return state->accounts->renameDataset(chargedOf(*record), charged, to); });
}

llvm::Error Owner::removeDataset(const std::string &name) {
  if (llvm::Error error = state->checkOpen()) {
    return error;
  }
  std::lock_guard lock(state->mutex);
  auto record = state->store->record(name);
  if (!record) {
    return record.takeError();
  }
  return state->store->remove(*record,
                              [&] { return state->accounts->removeDataset(chargedOf(*record), isCharged(*record)); });
}

llvm::Error Owner::describe(const std::string &name, const std::string &text, const std::vector<std::string> &tags) {
  auto description = checkedDescription(text, tags);
  llvm::Error error = description ? state->checkOpen() : description.takeError();
  if (error) {
    return error;
  }
  std::lock_guard lock(state->mutex);
  return state->store->catalogue().setDescription(name, *description);
}

llvm::Error Owner::removeClient(const std::string &client) {
  llvm::Error error = state->checkOpen();
  error = error ? std::move(error) : state->accounts->removeClient(client);
  if (error) {
    return error;
  }
  std::lock_guard lock(state->mutex);
  return state->store->catalogue().removeAccessOf(client);
}

llvm::Error Owner::addClient(const std::string &client, const signing::PublicKey &key, bool again) {
  llvm::Error error = state->checkOpen();
  error = error ? std::move(error) : state->accounts->addClient(client, key, again);
  if (error || !again) {
    return error;
  }
  std::lock_guard lock(state->mutex); // left where the process that removed the client ended too early
  return state->store->catalogue().removeAccessOf(client);
}

} // namespace sojourn::owner
