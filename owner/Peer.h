// SPDX-License-Identifier: Apache-2.0
// Who asks: the data owner's own process, or a client.
#ifndef SOJOURN_OWNER_PEER_H
#define SOJOURN_OWNER_PEER_H

namespace sojourn::owner {

/// The client of the data owner's own process, in the books of budgets.
inline constexpr const char *kLocalClient = "local";

/// Who sent a request: the data owner's own process, or somebody behind a transport.
enum class Peer { owner, client };

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_PEER_H
