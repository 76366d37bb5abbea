// SPDX-License-Identifier: Apache-2.0
// Compiled programs by content, least recently used out first.
#ifndef SOJOURN_OWNER_PLANCACHE_H
#define SOJOURN_OWNER_PLANCACHE_H

#include "owner/Label.h"
#include "owner/Peer.h"
#include "owner/RequestError.h"
#include "owner/Shares.h"
#include "passes/Price.h"
#include "runtime/Execute.h"
#include "runtime/Program.h"
#include "runtime/facts/ProgramFacts.h"

#include "llvm/Support/Error.h"

#include <atomic>
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

struct PrivatePlan; // owner/PrivatePlan.h

/// What was made of one program for private tables, by terms, and the terms for which it was refused; guards itself.
/// Bounded by number, and by bytes over all programs, of all accounts and of each (Shares.h): beyond that a plan is
/// made anew for each step.
class PrivatePlans {
public:
  ~PrivatePlans();
  /// Null if it is not known; the error of a program that was refused for these terms before.
  llvm::Expected<std::shared_ptr<const PrivatePlan>> find(const std::string &terms);
  void insert(const std::string &terms, std::shared_ptr<const PrivatePlan> plan, const std::string &account);
  /// A proof that fails does so again: it is work, and a client may ask as often as it likes.
  void refuse(const std::string &terms, const RequestError &error);
  /// Whether the program is proved only with what is known of its small tensors.
  std::atomic<bool> needsExtents = false;

private:
  struct Entry {
    std::shared_ptr<const PrivatePlan> plan;
    std::string account; ///< that made it
  };
  void clear();
  std::mutex mutex;
  /// By hashes of the terms, which may be long.
  std::map<runtime::ProgramHash, Entry> known;
  std::map<runtime::ProgramHash, RequestError> refused;
  /// The last plan that was found: training repeats the same terms.
  std::string lastTerms;
  std::shared_ptr<const PrivatePlan> last;
};

/// A program that passed every check that does not depend on a request. Immutable once made: any
/// number of steps run it at once.
struct Plan {
  std::unique_ptr<runtime::Executable> executable;
  /// Grows while the plan is used.
  std::unique_ptr<PrivatePlans> privatePlans = std::make_unique<PrivatePlans>();
  /// The bytes it was made from: `decodeProgram` gives the verified module again, to analyse it anew.
  std::string program, debug;
  std::string text; ///< core form with the scientist's locations, for the log
  runtime::ProgramFacts facts;

  /// What it takes in the cache.
  size_t bytes() const;
};

/// Refuses a program with a call of the kernel library that would take longer than `limits` allow: a stop of the step
/// waits for it.
llvm::Error checkLibraryCalls(mlir::ModuleOp core, const runtime::Executable &executable, const PriceLimits &limits);

/// Decodes and verifies a program, holds its price against the limits, plans it, and checks that its
/// signature is one the owner can serve.
llvm::Expected<std::shared_ptr<const Plan>> makePlan(llvm::StringRef program, llvm::StringRef debug,
                                                     const PriceLimits &limits = {});

/// Bounded by number and by bytes, of all accounts and of each (Shares.h); the last used plan always stays. Under the
/// owner's mutex.
class PlanCache {
public:
  PlanCache(size_t plansMost, size_t bytesMost)
      : plansMost(plansMost), bytesMost(bytesMost), counts(plansMost), total(bytesMost) {}
  std::shared_ptr<const Plan> find(const PlanKey &key);
  /// Returns what had to go, for the caller to destroy without the lock. If another step put the
  /// same program there meanwhile, that plan stays and `plan` becomes it. `account`: the client's that sent it.
  std::vector<std::shared_ptr<const Plan>> insert(const PlanKey &key, std::shared_ptr<const Plan> &plan,
                                                  const std::string &account = kLocalClient);
  size_t count() const { return recent.size(); }
  size_t bytes() const { return total.used(); }

private:
  struct Entry {
    PlanKey key;
    std::shared_ptr<const Plan> plan;
    std::string account;
  };
  void drop(std::list<Entry>::iterator entry, std::vector<std::shared_ptr<const Plan>> &gone);

  const size_t plansMost, bytesMost;
  Shares counts, total;
  std::list<Entry> recent; ///< last used first
  std::map<PlanKey, std::list<Entry>::iterator> index;
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_PLANCACHE_H
