// SPDX-License-Identifier: Apache-2.0
// The log of programs that ran: entered before the first run, counted after.
#ifndef SOJOURN_OWNER_PROGRAMLOG_H
#define SOJOURN_OWNER_PROGRAMLOG_H

#include "owner/Catalogue.h"
#include "owner/Environment.h"
#include "owner/PlanCache.h"

#include <map>
#include <optional>
#include <set>
#include <utility>

namespace sojourn::owner {

class ProgramLog {
public:
  ProgramLog(Catalogue &catalogue, const Environment &environment) : catalogue(catalogue), environment(environment) {}

  /// Counts a run. The first of a program by a client goes to the catalogue at once, with its
  /// text: what cannot be logged does not run. Later ones are counted here and written together.
  /// `report`: of a run on private tables what leaves of them; kept once for each text.
  llvm::Error add(const runtime::ProgramHash &hash, const std::string &client, const Plan &plan,
                  const std::string &report);
  /// Brings the catalogue's counts up to date.
  llvm::Error flush();

private:
  llvm::Error addReport(const runtime::ProgramHash &hash, const std::string &client, const std::string &report);
  llvm::Error makeRoom(size_t bytes);

  Catalogue &catalogue;
  const Environment &environment;
  using Key = std::pair<runtime::ProgramHash, std::string>;
  std::map<Key, uint64_t> pending;
  std::set<std::pair<Key, std::string>> reported; ///< reports that are known to stand in the catalogue
  /// Measured once, then counted; entries seen again after a flush are counted high, never low.
  std::optional<Catalogue::LogSize> size;
  int64_t flushedMs = 0, pendingMs = 0;
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_PROGRAMLOG_H
