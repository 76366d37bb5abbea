// SPDX-License-Identifier: Apache-2.0
// Commands about other owners: who they are, and what they may see of a table.
#include "owner/Administration.h"
#include "owner/TextTable.h"
#include "owner/links/PeerLinks.h"
#include "tools/OwnerArguments.h"

#include <fstream>
#include <map>

namespace sojourn::owner {

/// 64 digits, as 'sojourn-owner key' prints them, or a file with them.
static llvm::Expected<signing::PublicKey> ownerKey(const std::string &text) {
  if (auto key = signing::parseKey(text)) {
    return *key;
  }
  std::ifstream file(text);
  std::string line;
  std::getline(file, line);
  if (auto key = signing::parseKey(line)) {
    return *key;
  }
  return llvm::createStringError("the key is '" + text +
                                 "', expected the 64 digits that 'sojourn-owner key' prints at the other owner, or a "
                                 "file with them");
}

llvm::Error addPeer(Owner &owner, const Arguments &arguments) {
  auto key = ownerKey(arguments.key);
  if (!key) {
    return key.takeError();
  }
  if (llvm::Error error = owner.addPeer({arguments.client, *key, arguments.address}, arguments.plainTcp)) {
    return error;
  }
  standardOutput() << "owner " << arguments.client << " has key " << signing::keyText(*key) << " and address "
                   << arguments.address << "\nits data owner registers this one with: sojourn-owner peer add NAME "
                   << "--key " << owner.key() << " --address ADDRESS\n";
  return llvm::Error::success();
}

llvm::Error removePeer(Owner &owner, const Arguments &arguments) {
  if (llvm::Error error = owner.removePeer(arguments.client)) {
    return error;
  }
  standardOutput() << "owner " << arguments.client
                   << " is removed; groups with it end; the access of its key to tables stays\n";
  return llvm::Error::success();
}

llvm::Error listPeers(Owner &owner, const Arguments &) {
  auto peers = owner.peers();
  if (!peers) {
    return peers.takeError();
  }
  if (peers->empty()) {
    standardOutput() << "no other owner is registered\n";
    return llvm::Error::success();
  }
  std::vector<std::vector<std::string>> rows{{"owner", "address", "key"}};
  for (const PeerRecord &peer : *peers) {
    rows.push_back({peer.name, peer.address, signing::keyText(peer.key)});
  }
  printTable(rows, standardOutput());
  return llvm::Error::success();
}

llvm::Error checkPeers(Owner &owner, const Arguments &arguments) {
  std::vector<PeerRecord> peers;
  if (arguments.client.empty()) {
    auto all = owner.peers();
    if (!all) {
      return all.takeError();
    }
    peers = std::move(*all);
  } else {
    auto one = owner.peer(arguments.client);
    if (!one) {
      return one.takeError();
    }
    peers.push_back(std::move(*one));
  }
  size_t failed = 0;
  for (const PeerRecord &peer : peers) {
    llvm::Error error = checkPeer(owner, peer);
    failed += error ? 1 : 0;
    standardOutput() << peer.name << ": "
                     << (error
                             ? llvm::toString(std::move(error))
                             : "answers at " + peer.address + ", has the key that is registered, and knows this owner")
                     << '\n';
    standardOutput().flush();
  }
  if (peers.empty()) {
    standardOutput() << "no other owner is registered\n";
  }
  return failed == 0 ? llvm::Error::success()
                     : llvm::createStringError(std::to_string(failed) + " of " + std::to_string(peers.size()) +
                                               " owners cannot be members of groups now");
}

llvm::Error shareTable(Owner &owner, const Arguments &arguments) {
  std::vector<signing::PublicKey> members;
  for (const std::string &name : arguments.clients) {
    auto peer = owner.peer(name);
    if (!peer) {
      return peer.takeError();
    }
    members.push_back(peer->key);
  }
  if (!members.empty()) {
    if (llvm::Error error = owner.share(arguments.name, members, *parseSharing(arguments.level))) {
      return error;
    }
  }
  auto record = owner.dataset(arguments.name);
  auto sharing = record ? owner.sharing(arguments.name) : record.takeError();
  auto peers = sharing ? owner.peers() : sharing.takeError();
  if (!peers) {
    return peers.takeError();
  }
  std::map<std::string, std::string> names;
  for (const PeerRecord &peer : *peers) {
    names[signing::keyText(peer.key)] = peer.name;
  }
  std::vector<std::vector<std::string>> rows{{"owner", "may see of " + arguments.name}};
  for (const auto &[key, level] : *sharing) {
    const std::string name = names.count(key) ? names[key] : key.substr(0, 16) + " (not registered)";
    const char *seen = level == Sharing::clear  ? "clear: the values that the client may see"
                       : level == Sharing::sums ? "sums: totals over rows of all owners of a group"
                                                : "none: no value";
    rows.push_back({name, seen});
  }
  if (rows.size() == 1) {
    standardOutput() << arguments.name << ": other owners may see nothing\n";
  } else {
    printTable(rows, standardOutput());
  }
  return llvm::Error::success();
}

} // namespace sojourn::owner
