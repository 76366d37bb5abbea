// SPDX-License-Identifier: Apache-2.0
// The owner's books in SQLite: registered datasets and the programs that ran.
#ifndef SOJOURN_OWNER_CATALOGUE_H
#define SOJOURN_OWNER_CATALOGUE_H

#include "owner/Dataset.h"
#include "owner/Description.h"
#include "owner/Sharing.h"
#include "owner/ledger/DatabaseVersion.h"
#include "owner/peers/PeerRecord.h"
#include "runtime/Hash.h"

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

struct sqlite3;

namespace sojourn::owner {

class ProgramArchive;
class Statement;

/// Who may ask for a dataset, beside the data owner's own process.
struct Access {
  bool anyone = false; ///< also a client without an identity
  std::vector<std::string> clients;
};

/// A dataset as the books know it; `columns` carry no data.
struct DatasetRecord {
  std::string name, version, contentHash, source, file;
  Policy policy = Policy::privateOnly;
  int64_t rows = 0, registeredMs = 0;
  /// As in RegisterOptions; nothing: nobody has said.
  std::optional<std::string> subject;
  /// Where their sealed subjects are, beside `file`; empty where no column names any. Nothing: imported by a release
  /// that did not keep them.
  std::optional<std::string> subjectsFile;
  std::string population;
  PrivacyDefaults defaults;
  Access access;           ///< read only: changed by itself, as is the next
  Description description; ///< empty: none
  std::vector<Column> columns;
};

/// A program as the books know it: once per program and client.
struct ProgramRecord {
  runtime::ProgramHash hash{};
  std::string client, text;
  uint64_t runs = 0, ops = 0;
  int64_t firstMs = 0, lastMs = 0;
  /// Of its runs on private tables: what `ProgramLog::add` was told, one after another.
  std::string privacy;
};

/// One connection to catalogue.db, or to a database in memory. Several processes may hold the
/// same catalogue: an import is visible to a running server.
class Catalogue {
public:
  /// `directory` empty: in memory.
  static llvm::Expected<std::unique_ptr<Catalogue>> open(const std::string &directory);
  ~Catalogue();
  Catalogue(const Catalogue &) = delete;
  Catalogue &operator=(const Catalogue &) = delete;

  /// What else has to be entered, in other books: called before the changes and under the catalogue's lock, which all
  /// processes share. Where it fails nothing changes.
  using Entering = llvm::function_ref<llvm::Error()>;
  /// Fails if the name is taken.
  llvm::Error addDataset(const DatasetRecord &record, Entering entering = nullptr);
  /// These three fail if the dataset is not the one of `record` any more. With it go its access and its defaults; what
  /// was `population` is written down, as the default is another one under another name.
  llvm::Error renameDataset(const DatasetRecord &record, const std::string &name, const std::string &population,
                            Entering entering = nullptr);
  llvm::Error removeDataset(const DatasetRecord &record, Entering entering = nullptr);
  /// Other rows in place of those of `old`, whose name, policy, population, access and defaults stay.
  llvm::Error replaceDataset(const DatasetRecord &old, const DatasetRecord &now);
  /// Where a version that was registered once is now.
  struct Place {
    std::string name;        ///< of the dataset, or of the one that replaced it; the last one, where it was removed
    bool isReplaced = false; ///< by other rows
    bool isRemoved = false;
  };
  llvm::Expected<std::optional<Place>> place(const std::string &version);
  /// Files of tables that are there no longer and may not have been deleted yet.
  llvm::Expected<std::vector<std::string>> leftFiles();
  llvm::Error forgetFile(const std::string &file);
  /// Whether another process has written since the last call.
  llvm::Expected<bool> hasChanged();
  /// In order of registration.
  llvm::Expected<std::shared_ptr<const std::vector<DatasetRecord>>> datasets();
  /// Whether there is a dataset of this name, without the list of all.
  llvm::Expected<bool> isNamed(const std::string &name);
  /// The policy that stands in the books now, whoever entered it; private for a version that is not (or no longer)
  /// there. One that was open when other rows replaced it has the policy of these.
  llvm::Expected<Policy> policy(const Source &source);
  /// Fails if no dataset has this name.
  llvm::Error setPolicy(const std::string &name, Policy policy);
  llvm::Error setSubject(const std::string &name, const std::string &subject);
  /// Likewise.
  llvm::Error setDefaults(const std::string &name, const PrivacyDefaults &defaults);
  /// In place of what there was; fails if no dataset has this name.
  llvm::Error setDescription(const std::string &name, const Description &description);
  /// What another owner may see of a dataset's rows by the books of now; nothing of a version that is not there.
  llvm::Expected<Sharing> sharing(const Source &source, const signing::PublicKey &member);
  /// Whether an open dataset that the account may use is shared with one of these owners as sums alone.
  llvm::Expected<bool> sharesSums(llvm::ArrayRef<signing::PublicKey> members, const std::string &account);
  /// For each of the owners; fails if no dataset has this name.
  llvm::Error setSharing(const std::string &name, const std::vector<signing::PublicKey> &members, Sharing sharing);
  /// With whom, of other owners, a dataset is shared, by their keys; nothing where no dataset has this name.
  llvm::Expected<std::vector<std::pair<std::string, Sharing>>> sharingOf(const std::string &name);
  /// Other owners, by name. Adding fails where name or key is there, removing where the name is not.
  llvm::Expected<std::vector<PeerRecord>> peers();
  llvm::Error addPeer(const PeerRecord &peer);
  llvm::Error removePeer(const std::string &name);
  /// What stands in the books now; of a version that is not there, those of a new one.
  llvm::Expected<PrivacyDefaults> defaults(const Source &source);

  /// Who has access now; no client where no dataset has this name.
  llvm::Expected<Access> access(const std::string &name);
  /// Whether a client has access now, by its name or because anyone has; empty: one without an identity. False where no
  /// dataset has this name.
  llvm::Expected<bool> hasAccess(const std::string &name, const std::string &client);
  /// In place of what there was, of a dataset that is there.
  llvm::Error setAccess(const std::string &name, const Access &access);
  /// Fails if no dataset has this name.
  llvm::Error addAccess(const std::string &name, const std::vector<std::string> &clients);
  /// Of all datasets.
  llvm::Error removeAccessOf(const std::string &client);
  /// Whether it had any by its name.
  llvm::Expected<bool> removeAccess(const std::string &name, const std::string &client);
  /// Private datasets of a release before the first that knew access: `clientsOf` tells the clients with a grant on
  /// one.
  llvm::Error
  settleAccess(llvm::function_ref<llvm::Expected<std::vector<std::string>>(const std::string &name)> clientsOf);

  // The log of programs, for ProgramLog: CataloguePrograms.cpp.
  /// The account that entries of a client are counted for: its name, or empty for clients without an identity, whose
  /// names are in quotes.
  static std::string accountOf(const std::string &client);
  struct LogSize {
    size_t programs = 0, bytes = 0; ///< of texts and reports
  };
  /// Of one account, whichever process wrote it.
  llvm::Expected<LogSize> logSize(const std::string &account);
  /// Entries of clients without an identity that went for newer ones.
  llvm::Expected<size_t> droppedPrograms();
  /// Grows whenever entries leave the log: what a process remembers of them holds no longer.
  llvm::Expected<uint64_t> moves();
  /// What of a record stands in the log; no report is there always.
  struct Logged {
    bool program = false, text = false, report = false;
  };
  /// `digest`: of the text.
  llvm::Expected<Logged> logged(const ProgramRecord &record, const runtime::ProgramHash &digest);
  /// Enters a program, or adds to its run count; the first text stays. An entry that has left the log meanwhile begins
  /// again, without a text where none is given.
  llvm::Error addRuns(const ProgramRecord &record);
  /// Adds another text of a program that is there; nothing if the text is there, too.
  llvm::Error addText(const ProgramRecord &record, const runtime::ProgramHash &digest);
  /// Adds a report on a program's runs on private tables; nothing if it is there.
  llvm::Error addReport(const ProgramRecord &record);
  /// Drops the oldest entries of clients without an identity until the rest is within `most`.
  llvm::Error dropOldest(const LogSize &most);
  /// Moves the oldest entries, at most so many, to an archive (ProgramArchive.h), which is made if it is not there;
  /// `client`: those of one, or null. They stand in the archive, synced, before they go here; who is killed in between
  /// leaves a note, by which the next call finishes. Returns how many went.
  llvm::Expected<size_t> archive(const std::string &path, const std::string *client, const LogSize &most);
  /// Oldest first. Texts are left out unless asked for. `prefix`: of the hash, hexadecimal.
  llvm::Expected<std::vector<ProgramRecord>> programs(bool withText, const std::string &prefix = "");

private:
  explicit Catalogue(sqlite3 *database);
  llvm::Error execute(const char *sql);
  llvm::Error enterDataset(const DatasetRecord &record);
  llvm::Error enterColumns(const DatasetRecord &record);
  /// All of these statements, one after another, with the same parameters.
  llvm::Error change(llvm::ArrayRef<const char *> statements, llvm::ArrayRef<std::string> parameters,
                     const char *doing);
  llvm::Error checkThere(const DatasetRecord &record);
  /// Error where no dataset has the name. Within a transaction.
  llvm::Error checkNamed(const std::string &name);
  llvm::Error leaveFiles(const DatasetRecord &record);
  /// All of the changes, or none where they fail.
  llvm::Error transact(llvm::function_ref<llvm::Error()> changes);
  llvm::Error lastError(const char *doing);
  /// After an update of one dataset.
  llvm::Error checkChanged(int state, const std::string &name, const char *doing);
  static std::string logSchema();
  llvm::Expected<bool> isThere(Statement &query);
  llvm::Error run(Statement &statement);
  /// A move of entries that has begun: its number, and the archive.
  struct Move {
    uint64_t number = 0;
    std::string path;
  };
  llvm::Expected<Move> unfinishedMove();
  std::string storeId();
  llvm::Error noteMove(const Move &move);
  llvm::Error forgetMove(const Move &move, ProgramArchive *file);
  llvm::Error finishMove();
  /// Nothing where another process has begun or finished a move meanwhile.
  llvm::Expected<std::optional<size_t>> moveRows(const Move &move, ProgramArchive &file, Statement &rows, size_t bytes);
  llvm::Error removeProgram(const ProgramRecord &record);

  /// Answers to what each step asks, of datasets and clients that are there; they hold until someone writes.
  struct Answers {
    std::optional<ledger::DatabaseVersion::Value> version;
    std::map<std::string, Policy> policies;
    std::map<std::string, PrivacyDefaults> defaults;
    std::map<std::string, Place> places;
    std::map<std::string, std::map<std::string, bool>> access;     ///< true, of clients, of datasets
    std::map<std::string, std::map<std::string, Sharing>> sharing; ///< of versions, with owners
    std::shared_ptr<const std::vector<DatasetRecord>> datasets;
    std::optional<std::vector<PeerRecord>> peers;
  };
  /// The list, which outlives what is written beside it, and all of it that may change (`datasetsPrint`).
  std::shared_ptr<const std::vector<DatasetRecord>> listed;
  std::string listedPrint;
  llvm::Expected<std::string> datasetsPrint();
  /// Those that hold now; to be filled by reads that begin after the call. Empty where nothing may be kept.
  Answers &answers();
  template <class Known, class Value>
  static void keep(Known &known, const std::string &key, const Value &value) {
    if (known.size() < kKeptAnswers) {
      known.insert_or_assign(key, value);
    }
  }
  static constexpr size_t kKeptAnswers = 4'096; ///< of each kind

  sqlite3 *database;
  ledger::DatabaseVersion version{database};
  Answers kept;
  std::unique_ptr<Statement> readPolicy, readDefaults, readAccess, readChanges,
      readMoves;                                                ///< prepared once: steps ask often
  int64_t changes = 0;                                          ///< SQLite's number of them
  std::optional<ledger::DatabaseVersion::Value> changesVersion; ///< of before that number was read
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_CATALOGUE_H
