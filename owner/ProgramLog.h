// SPDX-License-Identifier: Apache-2.0
// The log of programs that ran: entered before the first run, counted after.
#ifndef SOJOURN_OWNER_PROGRAMLOG_H
#define SOJOURN_OWNER_PROGRAMLOG_H

#include "owner/Catalogue.h"
#include "owner/Environment.h"
#include "owner/Limits.h"
#include "owner/PlanCache.h"

#include <chrono>
#include <map>
#include <set>
#include <utility>

namespace sojourn::owner {

/// Every account has its own room, in programs and in bytes of text, so that none can use up the room of others.
/// There is no limit on all accounts together, since the data owner adds the clients.
///
/// | account | room | when it is full |
/// |---|---|---|
/// | the data owner's process | all of Limits | the oldest programs go to an archive in the store |
/// | a client with an identity | a tenth | likewise |
/// | all clients without an identity together | a twentieth | the oldest go, and are counted |
///
/// What stands in the log by a client runs again, however full it is. Nothing goes without an archive but programs of
/// anonymous clients: who is watched must not flush the log. Errors tell a client of its own use alone. Guarded by the
/// owner's mutex; several processes may write the log of one store.
class ProgramLog {
public:
  ProgramLog(Catalogue &catalogue, const Environment &environment, const Limits &limits)
      : catalogue(catalogue), environment(environment), limits(limits) {}

  /// Counts a run. The first of a program by a client goes to the catalogue at once, with its
  /// text: what cannot be logged does not run. Later ones are counted here and written together.
  /// A program that a client sends with other lines keeps those, too.
  /// `report`: of a run on private tables what leaves of them; kept once for each text.
  llvm::Error add(const runtime::ProgramHash &hash, const std::string &client, const Plan &plan,
                  const std::string &report);
  /// Brings the catalogue's counts up to date.
  llvm::Error flush();

  Catalogue::LogSize room(const std::string &account) const;
  /// Where archives of full rooms lie; empty in memory.
  static std::string archiveFolder(const Environment &environment);

private:
  llvm::Error refresh();
  llvm::Error enter(const ProgramRecord &record, const runtime::ProgramHash &digest);
  llvm::Expected<bool> makeRoom(const std::string &account, const Catalogue::LogSize &more);
  llvm::Expected<size_t> moveOldest(const std::string &account, const Catalogue::LogSize &more);

  Catalogue &catalogue;
  const Environment &environment;
  const Limits &limits;
  using Key = std::pair<runtime::ProgramHash, std::string>;
  std::map<Key, uint64_t> pending;
  /// Digests of texts and reports that are known to stand in the catalogue.
  std::set<std::pair<Key, runtime::ProgramHash>> known;
  uint64_t moves = 0;                           ///< of the catalogue, when these were noted
  std::chrono::steady_clock::time_point lookAt; ///< again, whether these are still there
  int64_t flushedMs = 0, pendingMs = 0;
  std::string lastReport;
  runtime::ProgramHash lastDigest{};
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_PROGRAMLOG_H
