// SPDX-License-Identifier: Apache-2.0
// What clients may still learn, and what a step takes of it: the ledger and the filter in one place.
#ifndef SOJOURN_OWNER_ACCOUNTS_H
#define SOJOURN_OWNER_ACCOUNTS_H

#include "owner/Environment.h"
#include "owner/PrivatePlan.h"
#include "owner/ledger/Ledger.h"
#include "runtime/privacy/Filter.h"

#include "llvm/Support/Error.h"

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace sojourn::owner {

/// Whose tables are paid for: a dataset, and the people that it is about.
struct Charged {
  std::string dataset;
  std::string population; ///< empty: of its own name
};

/// A client's budget on a dataset, for people: the filter decides, not these numbers.
struct BudgetInfo {
  std::string dataset;
  bool granted = false;
  double epsilon = 0, delta = 0, epsilonLeft = 0;
  double commonLeft = -1; ///< by the cap on the people over all clients, where that is less than epsilonLeft
};

/// Steps of one training run of one session on one set of tables. Thread-safe under the session's turn.
struct RunAccount {
  RunAccount() = default;
  RunAccount(const RunAccount &) = delete;
  /// Returns what the run did not use; what cannot be returned now is returned by the next server.
  ~RunAccount();
  std::shared_ptr<ledger::Run> run;
  std::vector<privacy::Charge> total; ///< of the steps so far, by dataset
};

/// Thread-safe.
class Accounts {
public:
  /// The key by which this owner is known: the store's, made at the first use; in memory one of its own.
  static llvm::Expected<signing::SigningKey> openKey(const Environment &environment);
  static llvm::Expected<std::unique_ptr<Accounts>> open(const Environment &environment, const signing::SigningKey &key);

  /// A client is known by its key, and a key is one client's. Names are plain: letters, digits and - _ . @
  /// `again`: one that was removed comes back, with what it spent and without a grant.
  llvm::Error addClient(const std::string &name, const signing::PublicKey &key, bool again = false);
  /// In place of the client's key. Sessions of the old one are over (checkKey).
  llvm::Error changeKey(const std::string &name, const signing::PublicKey &key);
  /// Its sessions are over, and its grants; what it spent stays.
  llvm::Error removeClient(const std::string &name);
  /// Fails where the key by which a client proved who it is is not the client's any more. Empty: of nobody, or of this
  /// process.
  llvm::Error checkKey(const std::string &client, const std::string &key);

  /// Whether a dataset may be registered under a name. `again`: under that of one that was removed, to go on with its
  /// budgets. What they are about does not change: returns its population, or nothing for a name that is new.
  llvm::Expected<std::optional<std::string>> checkName(const std::string &name, const std::string &population,
                                                       bool again);
  /// Of a dataset that was removed, and is registered again.
  llvm::Error continueDataset(const std::string &name);
  /// Its budgets go along. Does nothing to one without budgets but check the name.
  llvm::Error renameDataset(const Charged &on, bool isCharged, const std::string &name);
  /// Its budgets stay as they are, and its name with them.
  llvm::Error removeDataset(const Charged &on, bool isCharged);
  /// What the ledger says of a dataset that the catalogue has; see Ledger::datasetName.
  llvm::Expected<ledger::DatasetName> nameOf(const std::string &dataset);
  /// The client that has this key.
  llvm::Expected<std::optional<std::string>> clientOf(const signing::PublicKey &key);
  /// Of all clients together, on the people behind a dataset.
  llvm::Error setCap(const Charged &on, const privacy::Grant &cap);
  /// Refused above the cap. The embedded owner's own client has its cap raised to the grant: its process is the data
  /// owner.
  llvm::Error setGrant(const std::string &client, const Charged &on, const privacy::Grant &grant);
  /// Takes a client's grant away; its charges remain.
  llvm::Error revoke(const std::string &client, const std::string &dataset);
  llvm::Expected<BudgetInfo> budget(const std::string &client, const std::string &dataset);
  /// Delta of the client's grant on a dataset; an error that says how to get one where there is none.
  llvm::Expected<double> deltaOf(const std::string &client, const std::string &dataset);

  /// Fails where the client has no grant on a private dataset, or nothing is left of it. `run`: one of the session on
  /// it, or null; steps that it has paid for count as a rest.
  llvm::Error checkLeft(const std::string &client, const std::string &dataset, const RunAccount *run);

  /// Steps took longer than their time, which may have told the client so many bits; counted durably when it returns.
  llvm::Error addOverruns(const std::string &client, const std::string &dataset, uint64_t bits);
  /// Fails where the count is not below `most`; 0: no limit. Looks at memory alone, unless another process wrote.
  llvm::Error checkOverruns(const std::string &client, const std::string &dataset, uint64_t most);
  /// The data owner opens the dataset to the client again.
  llvm::Error forgiveOverruns(const std::string &client, const std::string &dataset);

  /// Pays for one step of a run; opens the run if it is new.
  llvm::Error payStep(const std::string &client, std::shared_ptr<RunAccount> &account, uint64_t planSteps,
                      const runtime::ProgramHash &program, const std::vector<ledger::Item> &items);
  /// The last step that was paid did not begin.
  static void putBackStep(RunAccount &account, const std::vector<ledger::Item> &items) noexcept;
  /// Reserves and starts releases with a price of their own.
  llvm::Expected<ledger::Ticket> payReleases(const ledger::ReserveRequest &request);
  /// A key for a request that no other had: a step that is sent again is answered from the session's memory, and one
  /// that failed pays anew.
  std::string nextKey();
  llvm::Expected<ledger::SealedBytes> seal(ledger::Ticket ticket, std::string_view bytes);
  void deliver(ledger::Ticket ticket);
  void burn(ledger::Ticket ticket, const std::string &why);

  const signing::SigningKey &key() const { return signingKey; }
  /// For people.
  ledger::Ledger &ledger() { return *books; }
  /// A problem of the ledger in the words of the wire.
  static llvm::Error problemError(const ledger::Problem &problem);

private:
  explicit Accounts(const signing::SigningKey &key) : signingKey(key) {}
  /// Puts a dataset under its population, where it is under none.
  llvm::Error ensureLinked(const Charged &on);
  /// `first`: of what was asked; `account`: of the run that it was asked for, or null.
  llvm::Error refused(const ledger::Problem &problem, const std::string &client, const ledger::Item &first,
                      const RunAccount *account) const;

  uint64_t opened = 0; ///< tells the keys of processes apart
  std::atomic<uint64_t> keys = 0;
  bool isUncounted(const std::string &client, const std::string &dataset);
  std::mutex uncountedMutex;
  /// Bits of overruns that the ledger could not take, by client and dataset: they count for the limit.
  std::map<std::pair<std::string, std::string>, uint64_t> uncounted;

  const signing::SigningKey signingKey; ///< outlives the books
  std::unique_ptr<ledger::Ledger> books;
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_ACCOUNTS_H
