// SPDX-License-Identifier: Apache-2.0
// Other owners, in the catalogue.
#include "owner/Catalogue.h"
#include "owner/Error.h"
#include "owner/Statement.h"

namespace sojourn::owner {

using llvm::Twine;

llvm::Expected<std::vector<PeerRecord>> Catalogue::peers() {
  Answers &known = answers();
  if (known.peers) {
    return *known.peers;
  }
  std::vector<PeerRecord> found;
  Statement read(database, "SELECT name, key, address FROM peers ORDER BY name");
  int state;
  while ((state = read.step()) == SQLITE_ROW) {
    const auto key = signing::parseKey(read.text(1));
    if (!key) {
      return failure("the catalogue has no valid key of owner '" + read.text(0) +
                     "'; remove it with 'sojourn-owner peer remove', and add it anew");
    }
    found.push_back({read.text(0), *key, read.text(2)});
  }
  if (state != SQLITE_DONE) {
    return lastError("reading the registered owners");
  }
  known.peers = found;
  return found;
}

llvm::Error Catalogue::addPeer(const PeerRecord &peer) {
  return transact([&]() -> llvm::Error {
    const std::string key = signing::keyText(peer.key);
    Statement there(database, "SELECT name FROM peers WHERE name = ? OR key = ?");
    const int state = there.bind(peer.name).bind(key).step();
    if (state == SQLITE_ROW) {
      return failure("owner '" + there.text(0) + "' is registered already, with this " +
                     (there.text(0) == peer.name ? "name" : "key") +
                     "; remove it first with: sojourn-owner peer remove " + there.text(0));
    }
    if (state != SQLITE_DONE) {
      return lastError("reading the registered owners");
    }
    return change({"INSERT INTO peers VALUES(?, ?, ?)"}, {peer.name, key, peer.address}, "registering an owner");
  });
}

llvm::Error Catalogue::removePeer(const std::string &name) {
  return transact([&]() -> llvm::Error {
    Statement there(database, "SELECT 1 FROM peers WHERE name = ?");
    const int state = there.bind(name).step();
    if (state == SQLITE_DONE) {
      return failure("no other owner is registered as '" + name + "'; 'sojourn-owner peer list' shows them");
    }
    return state == SQLITE_ROW ? change({"DELETE FROM peers WHERE name = ?"}, {name}, "removing an owner")
                               : lastError("reading the registered owners");
  });
}

llvm::Expected<std::vector<std::pair<std::string, Sharing>>> Catalogue::sharingOf(const std::string &name) {
  std::vector<std::pair<std::string, Sharing>> found;
  Statement read(database, "SELECT member, level FROM sharing WHERE dataset = ? ORDER BY member");
  read.bind(name);
  int state;
  while ((state = read.step()) == SQLITE_ROW) {
    found.emplace_back(read.text(0), parseSharing(read.text(1)).value_or(Sharing::none));
  }
  return state == SQLITE_DONE ? llvm::Expected<std::vector<std::pair<std::string, Sharing>>>(std::move(found))
                              : lastError("reading what a dataset shows to other owners");
}

} // namespace sojourn::owner
