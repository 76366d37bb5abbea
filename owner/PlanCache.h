// SPDX-License-Identifier: Apache-2.0
// Compiled programs by content, least recently used out first.
#ifndef SOJOURN_OWNER_PLANCACHE_H
#define SOJOURN_OWNER_PLANCACHE_H

#include "owner/Label.h"
#include "runtime/Execute.h"
#include "runtime/Program.h"

#include "llvm/Support/Error.h"

#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace sojourn::owner {

/// Hashes of the program bytes and of the debug bytes, both taken here: locations belong to who
/// sent them and must not appear in another client's errors.
struct PlanKey {
  runtime::ProgramHash program{}, debug{};
  friend auto operator<=>(const PlanKey &, const PlanKey &) = default;
};

/// A program that passed every check that does not depend on a request. Immutable once made: any
/// number of steps run it at once.
struct Plan {
  std::unique_ptr<runtime::Executable> executable;
  /// The bytes it was made from: `decodeProgram` gives the verified module again, to analyse it anew.
  std::string program, debug;
  std::string text; ///< core form with the scientist's locations, for the log
  uint64_t ops = 0;
  /// Bindings that a request must bring, and results that it must name.
  size_t states = 0, uploads = 0, slots = 0, seeds = 0, tables = 0, keeps = 0;
  size_t keepBytes = 0, publishBytes = 0;

  /// What it takes in the cache.
  size_t bytes() const;
  /// Runs it on up to `threads` threads.
  llvm::Expected<std::vector<runtime::HostTensor>> run(llvm::ArrayRef<runtime::Binding> bindings, unsigned threads);
  /// The label of each result, from those of the arguments.
  std::vector<LabelPtr> resultLabels(llvm::ArrayRef<LabelPtr> arguments) const;

private:
  std::mutex running; ///< the executor runs a program once at a time
};

/// Decodes, verifies and plans a program; checks that its signature is one the owner can serve.
llvm::Expected<std::shared_ptr<Plan>> makePlan(llvm::StringRef program, llvm::StringRef debug);

/// Bounded by number and by bytes; the last used plan always stays. Under the owner's mutex.
class PlanCache {
public:
  PlanCache(size_t plansMost, size_t bytesMost) : plansMost(plansMost), bytesMost(bytesMost) {}
  std::shared_ptr<Plan> find(const PlanKey &key);
  /// Returns what had to go, for the caller to destroy without the lock. If another step put the
  /// same program there meanwhile, that plan stays and `plan` becomes it.
  std::vector<std::shared_ptr<Plan>> insert(const PlanKey &key, std::shared_ptr<Plan> &plan);
  size_t count() const { return recent.size(); }
  size_t bytes() const { return total; }

private:
  using Entry = std::pair<PlanKey, std::shared_ptr<Plan>>;
  const size_t plansMost, bytesMost;
  size_t total = 0;
  std::list<Entry> recent; ///< last used first
  std::map<PlanKey, std::list<Entry>::iterator> index;
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_PLANCACHE_H
