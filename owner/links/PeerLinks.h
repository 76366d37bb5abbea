// SPDX-License-Identifier: Apache-2.0
// The links of a served owner to the owners that it has registered: one to each, dialed by the one with the smaller
// key, made anew when it ends.
#ifndef SOJOURN_OWNER_LINKS_PEERLINKS_H
#define SOJOURN_OWNER_LINKS_PEERLINKS_H

#include "owner/Owner.h"
#include "owner/peers/Peers.h"

#include "llvm/Support/Error.h"

#include <memory>
#include <string>

namespace sojourn::owner {

/// From its start to its end the owner takes part in groups. Frames of groups that it is not in are dropped.
class PeerLinks {
public:
  /// Listens at once. Errors name the address.
  static llvm::Expected<std::unique_ptr<PeerLinks>> start(Owner &owner, const std::string &address);
  ~PeerLinks();
  PeerLinks(const PeerLinks &) = delete;
  PeerLinks &operator=(const PeerLinks &) = delete;

private:
  class State;
  explicit PeerLinks(std::shared_ptr<State> state) : state(std::move(state)) {}
  std::shared_ptr<State> state;
};

/// Whether a registered owner answers at its address, has its key and version, and knows this one; errors say what is
/// wrong, and the next step.
llvm::Error checkPeer(Owner &owner, const PeerRecord &peer);

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_LINKS_PEERLINKS_H
