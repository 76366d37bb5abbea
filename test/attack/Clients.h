// SPDX-License-Identifier: Apache-2.0
// The clients of the attacker's world, with budgets of their own: the owner's process, and two that have keys.
#ifndef SOJOURN_TEST_ATTACK_CLIENTS_H
#define SOJOURN_TEST_ATTACK_CLIENTS_H

#include "owner/Accounts.h"
#include "owner/Owner.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <string>
#include <vector>

namespace sojourn::attack {

inline constexpr size_t kClients = 3;

class Clients {
public:
  /// Adds them to the owner, and grants what each may learn of private tables.
  explicit Clients(owner::Owner &owner);
  /// Opens a session; `send` sends bytes as that client does. 0 where the owner refuses.
  uint64_t connect(size_t client, llvm::function_ref<std::string(const std::string &)> send) const;
  owner::Peer peer(size_t client) const { return client == 0 ? owner::Peer::owner : owner::Peer::client; }
  /// By client what was charged for which table, in the ledger's units.
  std::vector<std::string> spent(owner::Owner &owner) const;

private:
  std::vector<signing::SigningKey> keys; ///< of the second client and those after it
};

} // namespace sojourn::attack

#endif // SOJOURN_TEST_ATTACK_CLIENTS_H
