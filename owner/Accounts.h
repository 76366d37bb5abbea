// SPDX-License-Identifier: Apache-2.0
// What clients may still learn, and what a step takes of it: the ledger and the filter in one place.
#ifndef SOJOURN_OWNER_ACCOUNTS_H
#define SOJOURN_OWNER_ACCOUNTS_H

#include "owner/Environment.h"
#include "owner/Owner.h"
#include "owner/PrivatePlan.h"
#include "owner/ledger/Ledger.h"
#include "runtime/privacy/Filter.h"

#include "llvm/Support/Error.h"

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace sojourn::owner {

/// A client's budget on a dataset, for people: the filter decides, not these numbers.
struct BudgetInfo {
  std::string dataset;
  bool granted = false;
  double epsilon = 0, delta = 0, epsilonLeft = 0;
};

/// Steps of one training run of one session on one set of tables. Thread-safe under the session's turn.
struct RunAccount {
  RunAccount() = default;
  RunAccount(const RunAccount &) = delete;
  /// Returns what the run did not use; what cannot be returned now is returned by the next server.
  ~RunAccount();
  std::shared_ptr<ledger::Run> run;
  std::vector<ledger::Item> items; ///< of one step, as opened
  std::vector<privacy::Charge> total;
  uint64_t plan = 0; ///< declared steps; 0: none
};

/// Thread-safe.
class Accounts {
public:
  static llvm::Expected<std::unique_ptr<Accounts>> open(const Environment &environment);

  llvm::Error linkDataset(const std::string &dataset, const std::string &population);
  llvm::Error addClient(const std::string &client, const std::string &publicKey);
  llvm::Error setCap(const std::string &dataset, const privacy::Grant &cap);
  /// The embedded owner's own client has its cap raised to the grant: its process is the data owner.
  llvm::Error setGrant(const std::string &client, const std::string &dataset, const privacy::Grant &grant);
  llvm::Expected<BudgetInfo> budget(const std::string &client, const std::string &dataset);
  /// Delta of the client's grant on a dataset; an error that says how to get one where there is none.
  llvm::Expected<double> deltaOf(const std::string &client, const std::string &dataset);

  /// Pays for one step of a run; opens the run if it is new.
  llvm::Error payStep(const std::string &client, std::shared_ptr<RunAccount> &account, uint64_t planSteps,
                      const runtime::ProgramHash &program, const std::vector<ledger::Item> &items);
  /// Reserves and starts releases with a price of their own.
  llvm::Expected<ledger::Ticket> payReleases(ledger::ReserveRequest request);
  llvm::Expected<ledger::SealedBytes> seal(ledger::Ticket ticket, std::string_view bytes);
  void deliver(ledger::Ticket ticket);
  void burn(ledger::Ticket ticket, const std::string &why);

  const ledger::SigningKey &key() const { return *signingKey; }

private:
  Accounts() = default;
  /// Puts a dataset that no population has under one of its own name.
  llvm::Error ensureLinked(const std::string &dataset);
  llvm::Error refused(const ledger::Problem &problem, const std::string &client, const RunAccount *account) const;

  std::unique_ptr<ledger::SigningKey> signingKey;
  std::unique_ptr<ledger::Ledger> books;
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_ACCOUNTS_H
