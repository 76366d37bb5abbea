// SPDX-License-Identifier: Apache-2.0
// Another owner that the data owner has registered: a possible member of groups.
#ifndef SOJOURN_OWNER_PEERS_PEERRECORD_H
#define SOJOURN_OWNER_PEERS_PEERRECORD_H

#include "runtime/signing/SigningKey.h"

#include <string>

namespace sojourn::owner {

struct PeerRecord {
  std::string name;
  signing::PublicKey key{};
  std::string address; ///< of its server's --peers
  friend bool operator==(const PeerRecord &, const PeerRecord &) = default;
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_PEERS_PEERRECORD_H
