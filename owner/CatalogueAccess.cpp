// SPDX-License-Identifier: Apache-2.0
// Who has access to which dataset, in the catalogue.
#include "owner/Catalogue.h"
#include "owner/Error.h"
#include "owner/Statement.h"

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
  Answers &known = answers();
  if (auto found = known.access.find(client); found != known.access.end() && found->second.contains(name)) {
    return true;
  }
  if (!readAccess) {
    readAccess = std::make_unique<Statement>(database, "SELECT 1 FROM access JOIN datasets ON name = dataset "
                                                       "WHERE dataset = ? AND client IN (?, ?)");
  }
  int state = readAccess->bind(name).bind(kAnyone).bind(client).step();
  readAccess->reset();
  if (state == SQLITE_ROW) {
    keep(known.access[client], name, true);
  }
  return state == SQLITE_ROW || state == SQLITE_DONE ? llvm::Expected<bool>(state == SQLITE_ROW)
                                                     : lastError("reading the access to a dataset");
}

llvm::Error Catalogue::setAccess(const std::string &name, const Access &access) {
  return transact([&]() -> llvm::Error {
    Statement forget(database, "DELETE FROM access WHERE dataset = ?");
    if (forget.bind(name).step() != SQLITE_DONE) {
      return lastError("changing the access to a dataset");
    }
    std::vector<std::string> clients = access.clients;
    if (access.anyone) {
      clients.push_back(kAnyone);
    }
    return addAccess(name, clients);
  });
}

llvm::Error Catalogue::addAccess(const std::string &name, const std::vector<std::string> &clients) {
  for (const std::string &client : clients) {
    // An entry that is there is entered again, so that only an unknown dataset changes nothing.
    Statement add(database, "INSERT OR REPLACE INTO access SELECT name, ? FROM datasets WHERE name = ?");
    if (llvm::Error error =
            checkChanged(add.bind(client).bind(name).step(), name, "changing the access to a dataset")) {
      return error;
    }
  }
  return llvm::Error::success();
}

llvm::Expected<bool> Catalogue::removeAccess(const std::string &name, const std::string &client) {
  Statement remove(database, "DELETE FROM access WHERE dataset = ? AND client = ?");
  if (remove.bind(name).bind(client).step() != SQLITE_DONE) {
    return lastError("changing the access to a dataset");
  }
  return sqlite3_changes(database) > 0;
}

llvm::Error Catalogue::removeAccessOf(const std::string &client) {
  return change({"DELETE FROM access WHERE client = ?"}, client, "changing the access to datasets");
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
    llvm::Error error = transact([&]() -> llvm::Error {
      auto isMine = removeAccess(name, "?"); // another process may have been quicker
      if (!isMine) {
        return isMine.takeError();
      }
      return *isMine ? addAccess(name, *clients) : llvm::Error::success();
    });
    if (error) {
      return error;
    }
  }
  return llvm::Error::success();
}

} // namespace sojourn::owner
