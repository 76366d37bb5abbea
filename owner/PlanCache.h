// SPDX-License-Identifier: Apache-2.0
// Compiled programs by content, least recently used out first.
#ifndef SOJOURN_OWNER_PLANCACHE_H
#define SOJOURN_OWNER_PLANCACHE_H

#include "owner/Label.h"
#include "passes/Dependence.h"
#include "runtime/Execute.h"
#include "runtime/Program.h"

#include "llvm/Support/Error.h"

#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace sojourn::owner {

/// Hashes of the program bytes and of the debug bytes, both taken here: locations belong to who
/// sent them and must not appear in another client's errors.
struct PlanKey {
  runtime::ProgramHash program{}, debug{};
  friend auto operator<=>(const PlanKey &, const PlanKey &) = default;
};

/// A program that passed every check that does not depend on a request.
struct Plan {
  std::unique_ptr<runtime::Executable> executable;
  /// Which arguments each result is computed from.
  DependenceSummary dependence;
  std::string text; ///< core form with the scientist's locations, for the log
  uint64_t ops = 0;
  /// Bindings that a request must bring, and results that it must name.
  size_t states = 0, uploads = 0, slots = 0, seeds = 0, tables = 0, keeps = 0;
  size_t keepBytes = 0, publishBytes = 0;

  /// The labels of the arguments of the last step and what they came to per result: in a training
  /// loop they are the same objects every time.
  std::vector<std::shared_ptr<const Label>> argLabels, resultLabels;
  /// Joins argument labels (null: the client's own) over what each result depends on.
  const std::vector<std::shared_ptr<const Label>> &joinLabels(const std::vector<std::shared_ptr<const Label>> &labels);
};

/// Decodes, verifies and plans a program; checks that its signature is one the owner can serve.
llvm::Expected<std::shared_ptr<Plan>> makePlan(llvm::StringRef program, llvm::StringRef debug);

class PlanCache {
public:
  explicit PlanCache(size_t capacity) : capacity(capacity) {}
  std::shared_ptr<Plan> find(const PlanKey &key);
  void insert(const PlanKey &key, std::shared_ptr<Plan> plan);

private:
  using Entry = std::pair<PlanKey, std::shared_ptr<Plan>>;
  size_t capacity;
  std::list<Entry> recent; ///< last used first
  std::map<PlanKey, std::list<Entry>::iterator> index;
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_PLANCACHE_H
