// SPDX-License-Identifier: Apache-2.0
// The owner's datasets: catalogued, at rest on disk or in memory, loaded when first used.
#ifndef SOJOURN_OWNER_STORE_H
#define SOJOURN_OWNER_STORE_H

#include "owner/Catalogue.h"
#include "owner/Environment.h"
#include "owner/Import.h"
#include "owner/Peer.h"
#include "owner/WorkerStub.h"
#include "runtime/signing/KeyFile.h"

#include <map>

namespace sojourn::owner {

/// A dataset with its label made once, so that equal labels are the same object.
struct LoadedDataset {
  explicit LoadedDataset(WorkerStub &worker) : worker(worker), id(worker.newId()) {}
  /// The worker reads its rows no longer.
  ~LoadedDataset() { worker.unmap(id); }
  LoadedDataset(const LoadedDataset &) = delete;
  LoadedDataset &operator=(const LoadedDataset &) = delete;

  WorkerStub &worker;
  const uint64_t id; ///< of its rows at the worker
  std::shared_ptr<const Dataset> dataset;
  LabelPtr label; ///< of this table alone
  const Source &source() const { return *label->sources().begin(); }
};

/// Not thread-safe: the owner's mutex guards everything but `import`.
class Store {
public:
  /// The folder that it and the ledger lie in (StoreFolder.h); nothing where they are in memory.
  static llvm::Error makeFolder(const Environment &environment);
  /// `owner`: whose store it is; the folder is there. Sweeps what interrupted imports left.
  static llvm::Expected<std::unique_ptr<Store>> open(const Environment &environment, const signing::PublicKey &owner,
                                                     WorkerStub &worker);
  ~Store();
  /// Never changes: no lock is needed.
  const signing::PublicKey &owner() const { return ownKey; }
  /// As keyText.
  const std::string &ownerText() const { return ownText; }

  /// Registration goes in three parts, because the middle one takes long and touches nothing that is
  /// shared: a record with a name that is free, the table itself, the entry in the books.
  llvm::Expected<DatasetRecord> begin(const RegisterOptions &options);
  /// Of other rows for a dataset. `options` gets what the dataset has and they do not declare.
  llvm::Expected<DatasetRecord> beginReplacement(const DatasetRecord &old, RegisterOptions &options);
  llvm::Expected<ImportedTable> import(DatasetRecord &record, const DatasetSource &source,
                                       const RegisterOptions &options) const;
  /// Fails if another registration took the name meanwhile.
  llvm::Error enter(DatasetRecord record, ImportedTable table, Catalogue::Entering entering = nullptr);
  /// Fails if the dataset was changed meanwhile, or the new rows have other columns. Steps under way keep the rows that
  /// they have.
  llvm::Error replace(const DatasetRecord &old, DatasetRecord now, ImportedTable table);
  llvm::Error rename(const DatasetRecord &record, const std::string &name, const std::string &population,
                     Catalogue::Entering entering = nullptr);
  /// With its files: what has them open keeps them until it ends.
  llvm::Error remove(const DatasetRecord &record, Catalogue::Entering entering = nullptr);
  /// Why the version of a dataset that an account asks for is not there under this name, for the account; empty where
  /// that is unknown, or is not for it to know.
  llvm::Expected<std::string> whatBecame(const std::string &name, const std::string &version,
                                         const std::string &account);
  /// Deletes what removed tables left where that failed before.
  llvm::Error removeLeftFiles();

  llvm::Expected<std::shared_ptr<const std::vector<DatasetRecord>>> list();
  /// Loads the dataset if need be; null if no dataset has this name.
  llvm::Expected<std::shared_ptr<const LoadedDataset>> find(const std::string &name);
  /// The normalised subject of each row, by which tables of two owners can be aligned. For that alone: no message,
  /// table, log or error shows one, and none leaves. Fails where the table was imported without a column of subjects,
  /// or by a release that did not keep them, and where file or key are gone, or were changed.
  llvm::Expected<Subjects> openSubjects(const std::string &name);
  /// The policy of the present; see Catalogue. Of what another owner has nothing is known here: private.
  llvm::Expected<Policy> policy(const Source &source) {
    return source.owner == ownKey ? books->policy(source) : Policy::privateOnly;
  }
  /// Whether a session's account may ask for this table now; not, where there is none.
  llvm::Expected<bool> hasAccess(const std::string &name, const std::string &account) {
    return account == kLocalClient ? true : books->hasAccess(name, account);
  }
  /// What another owner may see of a source; nothing of what this owner does not have.
  llvm::Expected<bool> sharesSums(llvm::ArrayRef<signing::PublicKey> members, const std::string &account) {
    return books->sharesSums(members, account);
  }
  llvm::Expected<Sharing> sharing(const Source &source, const signing::PublicKey &member) {
    return source.owner == ownKey ? books->sharing(source, member) : Sharing::none;
  }
  llvm::Error setPolicy(const std::string &name, Policy policy) { return books->setPolicy(name, policy); }
  /// Those of the present; of what another owner has those of a new one.
  llvm::Expected<PrivacyDefaults> defaults(const Source &source) {
    return source.owner == ownKey ? books->defaults(source) : PrivacyDefaults();
  }
  /// The record of this name; fails if there is none.
  llvm::Expected<DatasetRecord> record(const std::string &name);
  /// Whether a dataset can be private as it is; says what is missing.
  static llvm::Error checkPrivate(const DatasetRecord &record);
  Catalogue &catalogue() { return *books; }
  /// Whether a table may have this name.
  static bool isName(const std::string &name);

private:
  Store(const Environment &environment, const signing::PublicKey &owner, std::unique_ptr<Catalogue> books,
        WorkerStub &worker);
  /// Reads a source, and where the store is a folder writes the files of `record`, which learns what they hold.
  llvm::Expected<ImportedTable> produce(DatasetRecord &record, const DatasetSource &source,
                                        const RegisterOptions &options) const;
  /// The same in a separate process.
  llvm::Error produceApart(DatasetRecord &record, const DatasetSource &source, const RegisterOptions &options) const;
  /// Of an import, whose subjects they are, on the way to the files of `record`.
  llvm::Error keepSubjects(const DatasetRecord &record, ImportedTable &table, const Subjects &subjects) const;
  static llvm::Error checkName(const std::string &name, const char *what);
  /// With a new version.
  DatasetRecord newRecord(const RegisterOptions &options) const;
  /// Drops what other processes have removed, renamed or replaced.
  llvm::Error refresh();
  void forget(const DatasetRecord &record);
  std::shared_ptr<const LoadedDataset> keep(const DatasetRecord &record, ImportedTable table);
  /// Of a table, and of its subjects.
  void removeFiles(const DatasetRecord &record) const;
  std::string filePath(const std::string &file) const;
  std::string subjectsKeyPath() const { return environment.storeDirectory + "/subjects.key"; }

  const Environment &environment;
  const signing::PublicKey ownKey;
  const std::string ownText;
  std::unique_ptr<Catalogue> books;
  WorkerStub &worker; ///< reads the rows
  /// Where the store is in memory: sealed subjects by the names of the files that they would be, and their key. One
  /// form for both, so that embedded owners align tables as stores do, and nothing lies open for as long as they live.
  std::map<std::string, std::vector<char>> sealedSubjects;
  signing::KeyBytes memoryKey{};
  std::map<std::string, std::shared_ptr<const LoadedDataset>> loaded;
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_STORE_H
