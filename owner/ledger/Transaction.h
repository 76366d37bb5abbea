// SPDX-License-Identifier: Apache-2.0
// All or nothing: the entries of one transaction, durable together with the head.
#ifndef SOJOURN_OWNER_LEDGER_TRANSACTION_H
#define SOJOURN_OWNER_LEDGER_TRANSACTION_H

#include "owner/ledger/Ledger.h"

namespace sojourn::owner::ledger {

/// Holds the ledger's mutex and the writer's lock from `begin` on. What was not committed when it goes is undone.
class Ledger::Transaction {
public:
  explicit Transaction(Ledger &ledger) : ledger(ledger), guard(ledger.mutex, std::defer_lock) {}
  ~Transaction();

  /// Afterwards the books know what every process wrote, and the head agrees.
  Status begin();
  /// Enters into the books at once, so that the next one is judged with it. A refused entry leaves
  /// the transaction as it was.
  Status append(Body body);
  /// A reservation or a run: completed by the books, appended and committed. Returns its number.
  template <typename Opened>
  Result<uint64_t> open(Opened body);
  /// Forgets sealed bytes whose time is over.
  Status purge();
  /// Does nothing where there is nothing to write.
  Status commit();
  int64_t timeMs() const { return now; }

private:
  Ledger &ledger;
  std::unique_lock<std::mutex> guard;
  bool locked = false, begun = false;
  uint64_t batch = 0;
  size_t appended = 0;
  bool purged = false;
  int64_t now = 0;
};

/// Only a serving ledger charges, for tables of its own owner alone, and what the reader of entries would refuse is
/// refused before it is written.
Status checkCharge(const LedgerOptions &options, const std::string &what, const std::vector<Item> &items,
                   const std::vector<Site> &sites);

} // namespace sojourn::owner::ledger

#endif // SOJOURN_OWNER_LEDGER_TRANSACTION_H
