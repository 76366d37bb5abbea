// SPDX-License-Identifier: Apache-2.0
// What the entries add up to: budgets, sums and states. A pure function of the entries, and the one
// place that knows which entry may follow which.
#ifndef SOJOURN_OWNER_LEDGER_BOOKS_H
#define SOJOURN_OWNER_LEDGER_BOOKS_H

#include "owner/ledger/Entry.h"

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace sojourn::owner::ledger {

/// Whether a budget admits all that was and will have been charged; monotone: what it refuses, it
/// refuses with more on top. An order that is lost (privacy::kLost) is infinite and admits nothing.
using Admission = std::function<bool(const Grant &budget, const privacy::Charge &total)>;

/// People, whichever tables they are in.
struct Population {
  std::optional<Grant> cap;
  privacy::Charge spent; ///< of all clients, reservations included
  Relation relation = Relation::nullOne;
  std::vector<std::string> datasets;
  friend bool operator==(const Population &, const Population &) = default;
};
/// A client's budget on a dataset.
struct Account {
  std::optional<Grant> grant;
  privacy::Charge spent;
  friend bool operator==(const Account &, const Account &) = default;
};

enum class State : uint8_t { reserved, started, sealed, delivered, voided, burnt };

struct Publish {
  std::string client, key;
  Hash moduleHash{};
  State state = State::reserved;
  uint64_t holder = 0;
  std::vector<std::string> datasets;
  std::vector<Item> items; ///< until it starts: after that nothing is returned
  /// Of its last entry, and of the sealed bytes.
  uint64_t seq = 0;
  Hash hash{};
  Hash digest{};
  int64_t sealedMs = 0;
};

struct RunState {
  std::string client;
  std::vector<Item> items;
  uint64_t holder = 0, steps = 0;
  bool whole = false;
  bool open = true;
  uint64_t used = 0;  ///< steps of the blocks that ended
  uint64_t block = 0; ///< id of the open block; 0: none
  uint64_t blockSteps = 0;
  std::vector<privacy::Charge> charges; ///< per step of the open block
};

class Books {
public:
  /// Without `admits` every charge fits.
  explicit Books(Admission admits = nullptr) : admits(std::move(admits)) {}

  /// Enters the next entry. Where it may not follow, or a budget does not admit it, says so and
  /// changes nothing. O(1) but for look-ups by name. `decided`: the filter admitted it when it was
  /// written, and is not asked again: a later release may have a stricter one.
  Status apply(const Entry &entry, const Hash &hash, bool decided = false);

  /// What `count` releases at these items' costs would be refused for; nothing if they fit now.
  Status admit(const std::string &client, const std::vector<Item> &items, uint64_t count) const;
  /// Whether a new run has room for a step at least: else refused steps open runs, and fill the books, for nothing. No
  /// rule of entries: books of before have such runs.
  Status hasRoom(const RunOpened &body) const;
  /// Fills in the populations. Refuses unknown names, and people named twice: their shifts at one
  /// noise site add up before they are squared, which the sum of two charges does not cover.
  Status complete(const std::string &client, Relation relation, std::vector<Item> &items) const;
  /// Of a dataset, whichever of its names is given; a name that no dataset had stays as it is.
  const std::string &nameNow(const std::string &dataset) const;

  /// The last entry; its batch, and the chain before that batch.
  uint64_t seq = 0, batch = 0, seqBeforeBatch = 0;
  Hash hash{}, hashBeforeBatch{};

  std::map<std::string, std::string> clients;        ///< public keys
  std::map<std::string, std::string> removedClients; ///< their last keys; their accounts stay
  std::map<std::string, std::string> holders;        ///< of every key that a client has, or had
  std::map<std::string, std::string> datasets;       ///< their populations
  std::set<std::string> removedDatasets;             ///< of these, those without a table
  std::map<std::string, std::string> formerNames;    ///< of datasets that were renamed: their names now
  std::map<std::string, Population> populations;
  std::map<std::pair<std::string, std::string>, Account> accounts;  ///< by client and dataset
  std::map<std::pair<std::string, std::string>, uint64_t> overruns; ///< likewise; in bits, and never zero
  std::unordered_map<uint64_t, Publish> publishes;
  std::map<std::pair<std::string, std::string>, uint64_t> keys; ///< by client and key
  std::unordered_map<uint64_t, RunState> runs;
  std::unordered_map<uint64_t, uint64_t> blocks; ///< their runs
  /// Publishes that are reserved or started, and runs that are open.
  std::map<uint64_t, uint64_t> live; ///< id to holder

private:
  Status enter(const Entry &entry, const ClientAdded &body);
  Status enter(const Entry &entry, const DatasetLinked &body);
  Status enter(const Entry &entry, const CapSet &body);
  Status enter(const Entry &entry, const GrantSet &body);
  Status enter(const Entry &entry, const Reserved &body);
  Status enter(const Entry &entry, const Started &body);
  Status enter(const Entry &entry, const Sealed &body);
  Status enter(const Entry &entry, const Delivered &body);
  Status enter(const Entry &entry, const Voided &body);
  Status enter(const Entry &entry, const Burnt &body);
  Status enter(const Entry &entry, const RunOpened &body);
  Status enter(const Entry &entry, const BlockStarted &body);
  Status enter(const Entry &entry, const BlockEnded &body);
  Status enter(const Entry &entry, const RunClosed &body);
  Status enter(const Entry &entry, const KeyChanged &body);
  Status enter(const Entry &entry, const ClientRemoved &body);
  Status enter(const Entry &entry, const DatasetRenamed &body);
  Status enter(const Entry &entry, const DatasetRemoved &body);
  Status enter(const Entry &entry, const Overruns &body);
  Status enter(const Entry &entry, const OverrunsForgiven &body);

  /// What became of a dataset that is charged or granted by this name no longer; nothing where it is there.
  Status checkPresent(const std::string &dataset) const;
  void moveOverruns(const std::string &from, const std::string &to);
  Status checkItems(const std::string &client, Relation relation, const std::vector<Item> &items) const;
  /// Adds to, or takes from, both ledgers.
  void charge(const std::string &client, const std::vector<Item> &items, uint64_t count);
  void giveBack(const std::string &client, const std::vector<Item> &items, uint64_t count);
  Result<Publish *> find(uint64_t id, State expected, const char *next);
  static std::vector<Item> priced(const RunState &run);

  Admission admits;
  bool decided = false; ///< while `apply` runs
};

} // namespace sojourn::owner::ledger

#endif // SOJOURN_OWNER_LEDGER_BOOKS_H
