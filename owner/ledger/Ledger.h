// SPDX-License-Identifier: Apache-2.0
// The ledger of privacy: who may learn how much about whom, and every charge. Nothing private is
// read before its charge is durable, and nothing leaves before its bytes are.
#ifndef SOJOURN_OWNER_LEDGER_LEDGER_H
#define SOJOURN_OWNER_LEDGER_LEDGER_H

#include "owner/ledger/Books.h"
#include "owner/ledger/Database.h"
#include "owner/ledger/Head.h"
#include "owner/ledger/Locks.h"
#include "owner/ledger/Signing.h"
#include "runtime/OwnProcess.h"

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace sojourn::owner::ledger {

/// For how long a retry gets the sealed bytes again, at least.
inline constexpr int64_t kKeepSealedMs = int64_t{30} * 24 * 60 * 60 * 1000;
/// Steps of a run that one durable entry covers.
inline constexpr uint64_t kBlockSteps = 64;
/// Bytes of one sealed result: SQLite's own bound on a value, less its overhead.
inline constexpr size_t kSealedBytesMost = 999'000'000;

struct LedgerOptions {
  /// ":memory:" for the embedded owner; else a file, with "<path>.lock" beside it.
  std::string path = ":memory:";
  /// The head's file, in a folder that is not copied together with the ledger; unused in memory.
  std::string headPath;
  /// Milliseconds since the epoch.
  std::function<int64_t()> clockMs;
  /// The filter. Without one nothing may be charged.
  Admission admits;
  /// Signs the owner's entries; those of the file must carry its signature, and charges must be for datasets of its
  /// owner. Null: none are signed, and neither is asked for. Outlives the ledger.
  const SigningKey *key = nullptr;
  /// Whether this process charges. Such a ledger ends what dead processes left; one that only looks
  /// or administers leaves everything as it is.
  bool serves = true;
  /// Raised to kKeepSealedMs where below.
  int64_t keepSealedMs = kKeepSealedMs;
  /// Patience with other processes.
  int busyMs = 10'000;
  DiskHook hook;
};

/// A release to be paid for. A retry is known by client, key and hash, so the hash must cover
/// everything that decides the result: program, bindings, options.
struct ReserveRequest {
  std::string client, key;
  Hash moduleHash{};
  /// For people: what is released.
  std::string what;
  Relation relation = Relation::nullOne;
  /// One for each dataset that the release depends on. Populations are filled in.
  std::vector<Item> items;
  std::vector<Site> sites;
};

/// A paid release on its way; an id is the number of its first entry.
struct Ticket {
  uint64_t id = 0;
};

/// Bytes that may leave, and the entry that says so: receipts name it.
struct SealedBytes {
  uint64_t id = 0;
  uint64_t seq = 0;
  Hash hash{}, digest{};
  int64_t timeMs = 0;
  bool delivered = false;
  std::string bytes;
  Reserved request;
};

/// budgetExhausted, keyReused, inFlight, burnt, expired and the like are problems; the sealed bytes
/// of an earlier attempt are an answer.
using ReserveAnswer = std::variant<Ticket, SealedBytes, Problem>;

struct RunRequest {
  std::string client;
  Hash moduleHash{};
  std::string what;
  Relation relation = Relation::nullOne;
  std::vector<Item> items; ///< what one step costs
  std::vector<Site> sites;
  /// The plan; a step beyond it is refused. 0: none.
  uint64_t steps = 0;
  /// Pays for the plan at once, so that no step is refused for the budget. Else the plan must fit
  /// when the run opens, and each block is paid for when it starts.
  bool whole = false;
  uint64_t blockSteps = kBlockSteps;
};

class Ledger;

/// An open run. Thread-safe; must not outlive its ledger. Dropping it leaves the run open: its rest
/// is returned by `close` only, and by the next server at the latest.
class Run {
public:
  uint64_t id() const { return number; }
  /// To be called before a step's coins are drawn: from then on the step is paid for, whatever
  /// becomes of it. Returns the number of steps taken so far, this one included. Touches the disk
  /// once a block, and when the price changes. `charges` has one for each item; empty: the run's.
  Result<uint64_t> takeStep(const std::vector<privacy::Charge> &charges = {});
  uint64_t taken() const;
  /// The last step that was taken did not begin: no coin was drawn for it. It stays paid where its block has ended.
  void putBack();
  /// Steps that are paid for and not taken yet.
  uint64_t ahead() const;
  /// Returns the steps that were not taken. Once.
  Status close();

private:
  friend class Ledger;
  Run(Ledger &ledger, uint64_t number, const RunRequest &request);

  Ledger &ledger;
  const uint64_t number, plan, blockSteps;
  std::vector<privacy::Charge> usual;
  mutable std::mutex mutex;
  bool open = true;
  uint64_t before = 0; ///< steps of ended blocks
  uint64_t block = 0, steps = 0, used = 0;
  std::vector<privacy::Charge> price; ///< of the open block
};

/// An entry with what people ask for first.
struct Listed {
  Entry entry;
  Hash hash{};
  std::string client;
  std::vector<std::string> datasets;
};

struct AccountLine {
  std::string client, dataset, population;
  Grant grant;
  privacy::Charge spent;
};
/// What overruns may have told a client, where that is anything.
struct OverrunsLine {
  std::string client, dataset;
  uint64_t bits = 0;
};
struct PopulationLine {
  std::string population;
  std::optional<Grant> cap;
  privacy::Charge spent;
  Relation relation = Relation::nullOne;
  std::vector<std::string> datasets;
};

/// What the books know of a name.
struct DatasetName {
  bool isKnown = false;   ///< of a dataset that is there, or was removed
  bool isRemoved = false; ///< the latter
  std::string population; ///< of a known one
  std::string now;        ///< of a dataset that was renamed: its name now
};

struct VerifyReport {
  uint64_t entries = 0, publishes = 0, runs = 0, sealedBytes = 0;
  HeadValue head;
};

/// Thread-safe. Any number of processes may open one file, and charge; a fork of one that has it open is refused until
/// it opens the file itself.
class Ledger {
public:
  /// Replays and checks every entry. A file that is damaged, older than its head, or not signed is
  /// refused with the first bad entry named.
  static Result<std::unique_ptr<Ledger>> open(LedgerOptions options);
  Ledger(const Ledger &) = delete;
  Ledger &operator=(const Ledger &) = delete;
  ~Ledger();

  // The owner's entries: budgets change by them alone. Names are unique and never reused.

  /// `publicKey`: 32 bytes of Ed25519, or empty. A key that another client has or had is refused: one person would have
  /// two budgets. `again`: a client that was removed comes back, without a grant and with what it spent.
  Status addClient(const std::string &client, const std::string &publicKey, bool again = false);
  /// In place of the client's key, which is nobody's from now on.
  Status changeKey(const std::string &client, const std::string &publicKey);
  /// Takes its key and its grants; what it spent stays, for itself and for the people.
  Status removeClient(const std::string &client);
  /// Puts a dataset, with all its versions, under a population; empty: one of its own name. `again`: one that was
  /// removed is there again, with its accounts.
  Status linkDataset(const std::string &dataset, const std::string &population, Relation relation, bool again = false);
  /// All accounts go along, also those of runs and releases under way. The name of before is nobody else's, ever.
  Status renameDataset(const std::string &dataset, const std::string &name);
  /// Nothing is charged to it or granted on it from now on; its accounts stay.
  Status removeDataset(const std::string &dataset);
  /// The budget of all clients together on the people of a dataset.
  Status setCap(const std::string &dataset, const Grant &cap);
  /// A client's budget on a dataset. Needs a cap. Lowering one never takes back what was spent.
  Status setGrant(const std::string &client, const std::string &dataset, const Grant &grant);

  // Steps that took longer than their time. Their counts follow the accounts: a dataset's new name takes them along,
  // and a client or dataset that comes back continues them.

  /// Adds to the count, which stops at its greatest number; durable when it returns. Also of clients and datasets that
  /// were removed, and under a dataset's former names: all of it may happen during a step.
  Status addOverruns(const std::string &client, const std::string &dataset, uint64_t bits);
  /// Looks at memory alone, unless another process wrote. Zero where nothing was counted.
  Result<uint64_t> overruns(const std::string &client, const std::string &dataset);
  /// The owner's entry: the count begins at zero again.
  Status forgiveOverruns(const std::string &client, const std::string &dataset);

  // A single release: reserve, start, seal, deliver. Each is durable when it returns.

  ReserveAnswer reserve(const ReserveRequest &request);
  /// The answer to a retry, before any work on it; nothing if the key is new or its attempt void.
  Result<std::optional<SealedBytes>> retry(const std::string &client, const std::string &key, const Hash &moduleHash);
  /// Rows may be read and coins drawn afterwards, not before.
  Status start(Ticket ticket);
  /// Keeps the bytes; they may leave afterwards, not before.
  Result<SealedBytes> seal(Ticket ticket, std::string bytes);
  /// Notes that the bytes left. More than once is fine.
  Status deliver(Ticket ticket);
  /// Gives up before the start; the charge is returned.
  Status cancel(Ticket ticket, const std::string &why);
  /// Gives up after the start; the charge stands, and the key answers "burnt" for ever.
  Status burn(Ticket ticket, const std::string &why);

  Result<std::shared_ptr<Run>> openRun(const RunRequest &request);

  // For people.

  /// Of one client, of one dataset; empty: of all.
  Result<std::vector<AccountLine>> accounts(const std::string &client = "", const std::string &dataset = "");
  Result<std::vector<PopulationLine>> populations();
  /// All counts above zero.
  Result<std::vector<OverrunsLine>> overrunsLines();
  /// Public keys by name.
  Result<std::map<std::string, std::string>> clients();
  /// Of those that were removed, the last ones.
  Result<std::map<std::string, std::string>> removedClients();
  /// The public key that a client has now; nothing where there is no such client.
  Result<std::optional<std::string>> keyOf(const std::string &client);
  Result<DatasetName> datasetName(const std::string &name);
  /// Newest first, before entry `before` (0: from the end); of one client where named.
  Result<std::vector<Listed>> entries(size_t limit, uint64_t before = 0, const std::string &client = "");
  /// Replays the file afresh, the filter's decisions included, and compares every sealed byte.
  Result<VerifyReport> verify();

private:
  friend class Run;
  class Transaction;
  Ledger(LedgerOptions options, Locks locks, std::unique_ptr<Database> database);

  Status catchUp();
  Status replay(Books &into, bool decided);
  Status checkHead();
  Status recover(Transaction &transaction);
  Status endDead(Transaction &transaction, uint64_t id);
  Status change(const Body &body);
  /// For a publish of this process.
  Status advance(Ticket ticket, const Body &body);
  bool isDead(uint64_t holder);
  /// What is known of a key, dead attempts ended first; nothing if it is free.
  Result<std::optional<SealedBytes>> lookUp(Transaction &transaction, const std::string &client, const std::string &key,
                                            const Hash &moduleHash);
  Result<SealedBytes> sealedAnswer(uint64_t id);
  Status nextBlock(Run &run, const std::vector<privacy::Charge> &charges);
  Status closeRun(Run &run);

  /// In a fork; to be asked before any lock is taken.
  Status elsewhere() const;

  const LedgerOptions options;
  const runtime::OwnProcess process;
  std::mutex mutex; ///< of all below; a run's mutex is taken before it
  Locks locks;
  std::unique_ptr<Database> database;
  std::optional<HeadFile> head;
  Books books;
  /// The books hold entries that were rolled back, and must be read again.
  bool stale = false;
  std::optional<DatabaseVersion::Value> readVersion; ///< of the database when the books were last those of it
  /// Once damaged, always damaged.
  Status broken;
  uint64_t holder = 0;
  int64_t purgedMs = 0;
};

} // namespace sojourn::owner::ledger

#endif // SOJOURN_OWNER_LEDGER_LEDGER_H
