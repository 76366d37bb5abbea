// SPDX-License-Identifier: Apache-2.0
// Datasets that get another name or other rows, or go; and what is still known of them then.
#include "owner/Catalogue.h"
#include "owner/Error.h"
#include "owner/Statement.h"

#include "llvm/ADT/StringExtras.h"

namespace sojourn::owner {

llvm::Error Catalogue::change(llvm::ArrayRef<const char *> statements, llvm::ArrayRef<std::string> parameters,
                              const char *doing) {
  for (const char *sql : statements) {
    Statement statement(database, sql);
    for (const std::string &parameter : parameters) {
      statement.bind(parameter);
    }
    if (statement.step() != SQLITE_DONE) {
      return lastError(doing);
    }
  }
  return llvm::Error::success();
}

/// Under the catalogue's lock, so that it stays true.
llvm::Error Catalogue::checkThere(const DatasetRecord &record) {
  Statement read(database, "SELECT 1 FROM datasets WHERE name = ? AND version = ?");
  int state = read.bind(record.name).bind(record.version).step();
  return state == SQLITE_ROW    ? llvm::Error::success()
         : state == SQLITE_DONE ? failure("dataset '" + record.name +
                                          "' was changed by another command meanwhile; 'sojourn-owner datasets' shows "
                                          "what there is now")
                                : lastError("reading a dataset");
}

llvm::Error Catalogue::leaveFiles(const DatasetRecord &record) {
  for (const std::string &file : {record.file, record.subjectsFile.value_or("")}) {
    if (!file.empty()) {
      if (llvm::Error error =
              change({"INSERT OR IGNORE INTO left_files VALUES(?)"}, file, "noting a file that is to be deleted")) {
        return error;
      }
    }
  }
  return llvm::Error::success();
}

llvm::Error Catalogue::renameDataset(const DatasetRecord &record, const std::string &name,
                                     const std::string &population, Entering entering) {
  return transact([&]() -> llvm::Error {
    if (llvm::Error error = checkThere(record)) {
      return error;
    }
    Statement read(database, "SELECT 1 FROM datasets WHERE name = ?");
    if (read.bind(name).step() == SQLITE_ROW) {
      return failure("a dataset named '" + name + "' is already registered; choose another name");
    }
    read.reset();
    llvm::Error error = entering ? entering() : llvm::Error::success();
    error = error ? std::move(error)
                  : change({"UPDATE datasets SET name = ?, population = ? WHERE version = ?"},
                           {name, population, record.version}, "renaming a dataset");
    // Left by a table that was removed by hand.
    error = error ? std::move(error)
                  : change({"DELETE FROM columns WHERE dataset = ?", "DELETE FROM meanings WHERE dataset = ?",
                            "DELETE FROM access WHERE dataset = ?", "DELETE FROM descriptions WHERE dataset = ?",
                            "DELETE FROM sharing WHERE dataset = ?"},
                           name, "renaming a dataset");
    return error ? std::move(error)
                 : change({"UPDATE columns SET dataset = ? WHERE dataset = ?",
                           "UPDATE meanings SET dataset = ? WHERE dataset = ?",
                           "UPDATE access SET dataset = ? WHERE dataset = ?",
                           "UPDATE descriptions SET dataset = ? WHERE dataset = ?",
                           "UPDATE sharing SET dataset = ? WHERE dataset = ?"},
                          {name, record.name}, "renaming a dataset");
  });
}

llvm::Error Catalogue::removeDataset(const DatasetRecord &record, Entering entering) {
  return transact([&]() -> llvm::Error {
    llvm::Error error = checkThere(record);
    error = error || !entering ? std::move(error) : entering();
    error = error ? std::move(error)
                  : change({"UPDATE former SET became = '' WHERE became = ?",
                            "INSERT OR REPLACE INTO former SELECT version, name, '', 'private' FROM datasets WHERE "
                            "version = ?",
                            "DELETE FROM datasets WHERE version = ?"},
                           record.version, "removing a dataset");
    error = error ? std::move(error)
                  : change({"DELETE FROM columns WHERE dataset = ?", "DELETE FROM meanings WHERE dataset = ?",
                            "DELETE FROM access WHERE dataset = ?", "DELETE FROM descriptions WHERE dataset = ?",
                            "DELETE FROM sharing WHERE dataset = ?"},
                           record.name, "removing a dataset");
    return error ? std::move(error) : leaveFiles(record);
  });
}

llvm::Error Catalogue::replaceDataset(const DatasetRecord &old, const DatasetRecord &now) {
  return transact([&]() -> llvm::Error {
    llvm::Error error = checkThere(old);
    auto policy = error ? Policy::privateOnly : this->policy({{}, old.name, old.version});
    if (error || !policy) {
      return error ? std::move(error) : policy.takeError();
    }
    if (*policy != old.policy) { // the import kept the rules of the other one
      return failure("the policy of dataset '" + old.name + "' was changed meanwhile; run the command again");
    }
    const char *doing = "replacing a dataset";
    error = change({"UPDATE former SET policy = 'private' WHERE became = ?1 AND EXISTS (SELECT 1 FROM datasets WHERE "
                    "version = ?1 AND policy != 'open')",
                    "INSERT OR REPLACE INTO former SELECT version, name, '', policy FROM datasets WHERE version = ?1"},
                   old.version, doing);
    error = error ? std::move(error)
                  : change({"UPDATE former SET became = ?1 WHERE became = ?2 OR version = ?2"},
                           {now.version, old.version}, doing);
    if (error) {
      return error;
    }
    Statement update(database, "UPDATE datasets SET version = ?, content_hash = ?, source = ?, file = ?, rows = ?, "
                               "registered_ms = ?, subject = ?, subjects_file = ? WHERE version = ?");
    update.bind(now.version).bind(now.contentHash).bind(now.source).bind(now.file).bind(now.rows);
    update.bind(now.registeredMs).bind(now.subject).bind(now.subjectsFile);
    if (update.bind(old.version).step() != SQLITE_DONE) {
      return lastError(doing);
    }
    error =
        change({"DELETE FROM columns WHERE dataset = ?", "DELETE FROM meanings WHERE dataset = ?"}, old.name, doing);
    error = error ? std::move(error) : enterColumns(now);
    return error ? std::move(error) : leaveFiles(old);
  });
}

llvm::Expected<bool> Catalogue::isNamed(const std::string &name) {
  Statement read(database, "SELECT 1 FROM datasets WHERE name = ?");
  const int state = read.bind(name).step();
  return state == SQLITE_ROW || state == SQLITE_DONE ? llvm::Expected<bool>(state == SQLITE_ROW)
                                                     : lastError("reading a dataset");
}

llvm::Error Catalogue::checkNamed(const std::string &name) {
  auto found = isNamed(name);
  return !found   ? found.takeError()
         : *found ? llvm::Error::success()
                  : failure("no dataset is named '" + name + "'; 'sojourn-owner datasets' lists all datasets");
}

llvm::Error Catalogue::setDescription(const std::string &name, const Description &description) {
  return transact([&]() -> llvm::Error {
    if (llvm::Error error = checkNamed(name)) {
      return error;
    }
    return change({"INSERT OR REPLACE INTO descriptions VALUES(?, ?, ?)"},
                  {name, description.text, llvm::join(description.tags, "\n")}, "describing a dataset");
  });
}

llvm::Expected<std::optional<Catalogue::Place>> Catalogue::place(const std::string &version) {
  Answers &known = answers();
  if (auto found = known.places.find(version); found != known.places.end()) {
    return std::optional(found->second);
  }
  Statement read(database, "SELECT name, 0, 0 FROM datasets WHERE version = ?1 UNION ALL SELECT "
                           "coalesce(datasets.name, former.name), former.became != '', datasets.name IS NULL FROM "
                           "former LEFT JOIN datasets ON datasets.version = former.became WHERE former.version = ?1");
  int state = read.bind(version).step();
  if (state == SQLITE_ROW) {
    const Place found{read.text(0), read.integer(1) != 0, read.integer(2) != 0};
    keep(known.places, version, found);
    return std::optional(found);
  }
  return state == SQLITE_DONE ? llvm::Expected<std::optional<Place>>(std::nullopt)
                              : lastError("looking for a version of a dataset");
}

llvm::Expected<std::vector<std::string>> Catalogue::leftFiles() {
  std::vector<std::string> files;
  Statement read(database, "SELECT file FROM left_files");
  int state;
  while ((state = read.step()) == SQLITE_ROW) {
    files.push_back(read.text(0));
  }
  return state == SQLITE_DONE ? llvm::Expected<std::vector<std::string>>(std::move(files))
                              : lastError("reading the files that are to be deleted");
}

llvm::Error Catalogue::forgetFile(const std::string &file) {
  return change({"DELETE FROM left_files WHERE file = ?"}, file, "noting that a file is deleted");
}

llvm::Expected<bool> Catalogue::hasChanged() {
  const auto seen = version.now();
  if (seen && seen == changesVersion) {
    return false;
  }
  if (!readChanges) {
    readChanges = std::make_unique<Statement>(database, "PRAGMA data_version");
  }
  int state = readChanges->step();
  int64_t now = state == SQLITE_ROW ? readChanges->integer(0) : 0;
  readChanges->reset();
  if (state != SQLITE_ROW) {
    return lastError("looking for changes");
  }
  changesVersion = seen;
  return std::exchange(changes, now) != now;
}

} // namespace sojourn::owner
