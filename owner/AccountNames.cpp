// SPDX-License-Identifier: Apache-2.0
// Clients and datasets in the ledger: who they are, and what stays of them (ledger/Names.cpp).
#include "owner/Accounts.h"

#include "owner/Peer.h"
#include "owner/RequestError.h"
#include "runtime/Limits.h"

#include "llvm/ADT/StringExtras.h"

namespace sojourn::owner {

using llvm::Twine;

static llvm::Error statusOf(const ledger::Status &status) {
  return status ? Accounts::problemError(*status) : llvm::Error::success();
}

static std::string bytesOf(const signing::PublicKey &key) { return std::string(key.begin(), key.end()); }

static llvm::Error checkNotLocal(const std::string &name, const char *advice) {
  return name != kLocalClient ? llvm::Error::success()
                              : requestError(wire::ErrorCode_Refused,
                                             "'" + name + "' is reserved for the data owner's own process" + advice);
}

llvm::Error Accounts::addClient(const std::string &name, const signing::PublicKey &key, bool again) {
  auto isPlain = [](char c) { return llvm::isAlnum(c) || llvm::StringRef("-_.@").contains(c); };
  if (name.empty() || name.size() > runtime::limits::kNameBytes || !llvm::all_of(name, isPlain)) {
    return requestError(wire::ErrorCode_Refused, "'" + name + "' is not a valid name for a client: expected 1 to " +
                                                     Twine(runtime::limits::kNameBytes) +
                                                     " letters, digits and - _ . @ characters");
  }
  llvm::Error error = checkNotLocal(name, "; choose another name");
  return error ? std::move(error) : statusOf(books->addClient(name, bytesOf(key), again));
}

llvm::Error Accounts::changeKey(const std::string &name, const signing::PublicKey &key) {
  llvm::Error error = checkNotLocal(name, ", which has no key");
  return error ? std::move(error) : statusOf(books->changeKey(name, bytesOf(key)));
}

llvm::Error Accounts::removeClient(const std::string &name) {
  llvm::Error error = checkNotLocal(name, ", which is always there");
  return error ? std::move(error) : statusOf(books->removeClient(name));
}

llvm::Expected<std::optional<std::string>> Accounts::clientOf(const signing::PublicKey &key) {
  auto clients = books->clients();
  if (!clients) {
    return problemError(clients.problem());
  }
  for (const auto &[name, known] : *clients) {
    if (known == bytesOf(key)) {
      return std::optional(name);
    }
  }
  return std::nullopt;
}

llvm::Error Accounts::checkKey(const std::string &client, const std::string &key) {
  if (key.empty()) {
    return llvm::Error::success();
  }
  auto now = books->keyOf(client);
  if (!now) {
    return problemError(now.problem());
  }
  if (*now == key) {
    return llvm::Error::success();
  }
  return requestError(wire::ErrorCode_Session,
                      *now ? "the data owner gave client '" + client +
                                 "' another key, so the sessions of the last one are over; connect again with the new "
                                 "identity (handles of an old session are gone)"
                           : "the data owner removed client '" + client +
                                 "', so its sessions are over; ask the data owner for access");
}

llvm::Expected<ledger::DatasetName> Accounts::nameOf(const std::string &dataset) {
  auto known = books->datasetName(dataset);
  return known ? llvm::Expected<ledger::DatasetName>(std::move(*known)) : problemError(known.problem());
}

llvm::Expected<std::optional<std::string>> Accounts::checkName(const std::string &name, const std::string &population,
                                                               bool again) {
  auto known = nameOf(name);
  if (!known) {
    return known.takeError();
  }
  if (!known->now.empty()) {
    return requestError(wire::ErrorCode_Refused,
                        "'" + name + "' was the name of dataset '" + known->now +
                            "', which has its budgets; for newer rows of it: sojourn-owner replace " + known->now +
                            " FILE. For rows of other people choose another name");
  }
  if (again && !known->isKnown) {
    return requestError(wire::ErrorCode_Refused, "no dataset with budgets was ever named '" + name +
                                                     "', so there is nothing to continue; leave out "
                                                     "--continue-budget");
  }
  if (!known->isKnown) {
    return std::nullopt;
  }
  if (!again) {
    return requestError(wire::ErrorCode_Refused,
                        "'" + name +
                            "' is the name of a dataset that was removed, and charges to its people still "
                            "count. Continue its budgets: --continue-budget; or, for rows of other "
                            "people, choose another name");
  }
  if (!population.empty() && population != known->population) {
    return requestError(wire::ErrorCode_Refused, "the people of dataset '" + name + "' are those of '" +
                                                     known->population + "' in the ledger, not '" + population +
                                                     "'; leave out --population");
  }
  return std::optional(known->population);
}

llvm::Error Accounts::continueDataset(const std::string &name) {
  return statusOf(books->linkDataset(name, "", ledger::Relation::nullOne, /*again=*/true));
}

llvm::Error Accounts::renameDataset(const Charged &on, bool isCharged, const std::string &name) {
  auto known = nameOf(name);
  if (!known) {
    return known.takeError();
  }
  if (known->isKnown || (!known->now.empty() && known->now != on.dataset)) {
    return requestError(wire::ErrorCode_Refused,
                        "'" + name + "' is a name of " +
                            (known->isKnown ? "a dataset that was removed" : "dataset '" + known->now + "'") +
                            ", whose charges still count; choose another name");
  }
  auto own = nameOf(on.dataset);
  if (!own) {
    return own.takeError();
  }
  if (!isCharged && !own->isKnown) {
    return llvm::Error::success();
  }
  llvm::Error error = ensureLinked(on);
  return error ? std::move(error) : statusOf(books->renameDataset(on.dataset, name));
}

llvm::Error Accounts::removeDataset(const Charged &on, bool isCharged) {
  auto own = nameOf(on.dataset);
  if (!own) {
    return own.takeError();
  }
  if (own->isRemoved || (!isCharged && !own->isKnown)) { // the former: by a process that ended too early
    return llvm::Error::success();
  }
  llvm::Error error = ensureLinked(on);
  return error ? std::move(error) : statusOf(books->removeDataset(on.dataset));
}

} // namespace sojourn::owner
