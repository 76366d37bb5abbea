// SPDX-License-Identifier: Apache-2.0
// A file of programs that have left the log.
#ifndef SOJOURN_OWNER_PROGRAMARCHIVE_H
#define SOJOURN_OWNER_PROGRAMARCHIVE_H

#include "owner/Catalogue.h"

#include "llvm/Support/Error.h"

#include <memory>
#include <string>
#include <vector>

namespace sojourn::owner {

/// From hash, client, runs, ops, first_ms, last_ms, text, privacy.
ProgramRecord readProgram(Statement &row);

/// A database of its own, to which entries are added and in which none is changed. Entries are told apart by the store
/// that they come from and the number of the move that brought them; the same move may bring an entry again, with the
/// runs that it has by then.
class ProgramArchive {
public:
  /// `create`: made, for the data owner's account alone, if there is none.
  static llvm::Expected<std::unique_ptr<ProgramArchive>> open(const std::string &path, bool create);
  /// The file in `folder` to which the next entries of an account go: one of many, each of a bounded size. Fails where
  /// those of the account take `most` bytes.
  static llvm::Expected<std::string> next(const std::string &folder, const std::string &account, size_t most);
  /// The archives in a folder.
  static std::vector<std::string> filesIn(const std::string &folder);
  ~ProgramArchive();
  ProgramArchive(const ProgramArchive &) = delete;
  ProgramArchive &operator=(const ProgramArchive &) = delete;

  /// Either all of what is put between these is there, on the disk, or none.
  llvm::Error begin() { return execute("BEGIN IMMEDIATE"); }
  llvm::Error put(const std::string &store, uint64_t move, const ProgramRecord &record);
  llvm::Error commit() { return execute("COMMIT"); }
  void rollBack() { llvm::consumeError(execute("ROLLBACK")); }

  /// Hash and client of what a move brought; nothing else of it.
  llvm::Expected<std::vector<ProgramRecord>> broughtBy(const std::string &store, uint64_t move);
  /// As Catalogue::programs.
  llvm::Expected<std::vector<ProgramRecord>> programs(bool withText, const std::string &prefix = "");

private:
  ProgramArchive(sqlite3 *database, std::string path) : database(database), path(std::move(path)) {}
  llvm::Error execute(const char *sql);
  llvm::Error failed(const char *doing);

  sqlite3 *database;
  std::string path;
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_PROGRAMARCHIVE_H
