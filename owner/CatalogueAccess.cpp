// SPDX-License-Identifier: Apache-2.0
// Who has access to which dataset, in the catalogue.
#include "owner/Catalogue.h"
#include "owner/Error.h"
#include "owner/Statement.h"

#include "llvm/ADT/ScopeExit.h"

namespace sojourn::owner {

/// Stands for all clients; no client has this name (Accounts::addClient).
static const std::string kAnyone = "*";

llvm::Expected<Access> Catalogue::access(const std::string &name) {
  Access access;
  Statement read(database, "SELECT client FROM access WHERE dataset = ? AND client != '?' ORDER BY client");
  read.bind(name);
  int state;
  while ((state = read.step()) == SQLITE_ROW) {
    std::string client = read.text(0);
    if (client == kAnyone) {
      access.anyone = true;
    } else {
      access.clients.push_back(std::move(client));
    }
  }
  return state == SQLITE_DONE ? llvm::Expected<Access>(std::move(access))
                              : lastError("reading the access to a dataset");
}

llvm::Expected<bool> Catalogue::hasAccess(const std::string &name, const std::string &client) {
  if (!readAccess) {
    readAccess = std::make_unique<Statement>(database, "SELECT 1 FROM access JOIN datasets ON name = dataset "
                                                       "WHERE dataset = ? AND client IN (?, ?)");
  }
  int state = readAccess->bind(name).bind(kAnyone).bind(client).step();
  readAccess->reset();
  return state == SQLITE_ROW || state == SQLITE_DONE ? llvm::Expected<bool>(state == SQLITE_ROW)
                                                     : lastError("reading the access to a dataset");
}

llvm::Error Catalogue::setAccess(const std::string &name, const Access &access) {
  if (llvm::Error error = execute("BEGIN IMMEDIATE")) {
    return error;
  }
  llvm::scope_exit undo([&] { llvm::consumeError(execute("ROLLBACK")); });
  Statement forget(database, "DELETE FROM access WHERE dataset = ?");
  if (forget.bind(name).step() != SQLITE_DONE) {
    return lastError("changing the access to a dataset");
  }
  std::vector<std::string> clients = access.clients;
  if (access.anyone) {
    clients.push_back(kAnyone);
  }
  for (const std::string &client : clients) {
    if (llvm::Error error = addAccess(name, client)) {
      return error;
    }
  }
  if (llvm::Error error = execute("COMMIT")) {
    return error;
  }
  undo.release();
  return llvm::Error::success();
}

llvm::Error Catalogue::addAccess(const std::string &name, const std::string &client) {
  // An entry that is there is entered again, so that only an unknown dataset changes nothing.
  Statement add(database, "INSERT OR REPLACE INTO access SELECT name, ? FROM datasets WHERE name = ?");
  return checkChanged(add.bind(client).bind(name).step(), name, "changing the access to a dataset");
}

llvm::Expected<bool> Catalogue::removeAccess(const std::string &name, const std::string &client) {
  Statement remove(database, "DELETE FROM access WHERE dataset = ? AND client = ?");
  if (remove.bind(name).bind(client).step() != SQLITE_DONE) {
    return lastError("changing the access to a dataset");
  }
  return sqlite3_changes(database) > 0;
}

llvm::Error Catalogue::settleAccess(
    llvm::function_ref<llvm::Expected<std::vector<std::string>>(const std::string &name)> clientsOf) {
  std::vector<std::string> names;
  Statement read(database, "SELECT dataset FROM access WHERE client = '?'");
  int state;
  while ((state = read.step()) == SQLITE_ROW) {
    names.push_back(read.text(0));
  }
  read.reset();
  if (state != SQLITE_DONE) {
    return lastError("reading the access to a dataset");
  }
  for (const std::string &name : names) {
    auto clients = clientsOf(name);
    if (!clients) {
      return clients.takeError();
    }
    if (llvm::Error error = execute("BEGIN IMMEDIATE")) {
      return error;
    }
    llvm::scope_exit undo([&] { llvm::consumeError(execute("ROLLBACK")); });
    auto isMine = removeAccess(name, "?"); // another process may have been quicker
    if (!isMine) {
      return isMine.takeError();
    }
    for (const std::string &client : *isMine ? *clients : std::vector<std::string>()) {
      if (llvm::Error error = addAccess(name, client)) {
        return error;
      }
    }
    if (llvm::Error error = execute("COMMIT")) {
      return error;
    }
    undo.release();
  }
  return llvm::Error::success();
}

} // namespace sojourn::owner
