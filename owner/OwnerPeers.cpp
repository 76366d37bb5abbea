// SPDX-License-Identifier: Apache-2.0
// Other owners that the data owner has registered, and what they may see.
#include "owner/Owner.h"
#include "owner/OwnerState.h"
#include "runtime/Limits.h"
#include "runtime/wire/Address.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace sojourn::owner {

using llvm::Twine;

std::shared_ptr<Peers> Owner::groups() { return state->peers; }

const Limits &Owner::limits() const { return state->limits; }

llvm::Error Owner::addPeer(const PeerRecord &peer, bool plainTcp) {
  if (llvm::Error error = state->checkOpen()) {
    return error;
  }
  auto isPlain = [](char c) { return llvm::isAlnum(c) || llvm::StringRef("-_.@").contains(c); };
  if (peer.name.empty() || peer.name.size() > runtime::limits::kNameBytes || !llvm::all_of(peer.name, isPlain)) {
    return failure("'" + peer.name + "' is not a valid name for an owner: expected 1 to " +
                   Twine(runtime::limits::kNameBytes) + " letters, digits and - _ . @ characters");
  }
  if (peer.key == state->accounts->key().publicKey()) {
    return failure("the key of '" + peer.name + "' is this owner's own; expected that of another one");
  }
  if (std::string problem = sojourn::wire::addressProblem(peer.address, plainTcp); !problem.empty()) {
    return failure(problem);
  }
  std::lock_guard lock(state->mutex);
  return state->store->catalogue().addPeer(peer);
}

llvm::Error Owner::removePeer(const std::string &name) {
  if (llvm::Error error = state->checkOpen()) {
    return error;
  }
  std::lock_guard lock(state->mutex);
  return state->store->catalogue().removePeer(name);
}

llvm::Expected<std::vector<PeerRecord>> Owner::peers() {
  if (llvm::Error error = state->checkOpen()) {
    return error;
  }
  std::lock_guard lock(state->mutex);
  return state->store->catalogue().peers();
}

llvm::Expected<PeerRecord> Owner::peer(const std::string &name) {
  auto all = peers();
  if (!all) {
    return all.takeError();
  }
  for (PeerRecord &peer : *all) {
    if (peer.name == name) {
      return std::move(peer);
    }
  }
  return failure("no other owner is registered as '" + name + "'; 'sojourn-owner peer list' shows them");
}

llvm::Error Owner::share(const std::string &name, const std::vector<signing::PublicKey> &members, Sharing sharing) {
  if (llvm::Error error = state->checkOpen()) {
    return error;
  }
  for (const signing::PublicKey &member : members) {
    if (member == state->accounts->key().publicKey()) {
      return failure("dataset '" + name + "' is shared with its own owner; name the other members");
    }
  }
  std::lock_guard lock(state->mutex);
  return state->store->catalogue().setSharing(name, members, sharing);
}

llvm::Expected<std::vector<std::pair<std::string, Sharing>>> Owner::sharing(const std::string &name) {
  if (llvm::Error error = state->checkOpen()) {
    return error;
  }
  std::lock_guard lock(state->mutex);
  return state->store->catalogue().sharingOf(name);
}

} // namespace sojourn::owner
