// SPDX-License-Identifier: Apache-2.0
// Compiled programs by content, least recently used out first.
#ifndef SOJOURN_OWNER_PLANCACHE_H
#define SOJOURN_OWNER_PLANCACHE_H

#include "owner/Label.h"
#include "owner/Peer.h"
#include "owner/PrivatePlan.h"
#include "owner/Shares.h"
#include "owner/WorkerStub.h"
#include "runtime/Hash.h"
#include "runtime/facts/ProgramFacts.h"

#include "llvm/Support/Error.h"

#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace sojourn::owner {

/// Hashes of the program bytes and of the debug bytes, both taken here: locations belong to who
/// sent them and must not appear in another client's errors. A joint program has a plan per role.
struct PlanKey {
  runtime::ProgramHash program{}, debug{};
  RoleOfGroup role = {};
  friend auto operator<=>(const PlanKey &, const PlanKey &) = default;
};

/// A program that passed every check that does not depend on a request. Immutable once made: any
/// number of steps run it at once.
struct Plan {
  runtime::ProgramFacts facts;
  std::string text; ///< core form with the scientist's locations, for the log
  runtime::ProgramHash textDigest{};
  std::shared_ptr<const CodeRef> code;
  /// Grows while the plan is used.
  std::unique_ptr<PrivatePlans> privatePlans = std::make_unique<PrivatePlans>();

  /// Memory in the cache.
  size_t bytes() const { return sizeof(Plan) + text.size() + facts.bytes() + (code ? code->size() : 0); }
};

/// A plan of what the worker describes; its errors are for the client.
llvm::Expected<std::shared_ptr<const Plan>> makePlan(WorkerStub &worker, llvm::StringRef program, llvm::StringRef debug,
                                                     const PriceLimits &limits = {},
                                                     const runtime::StopFlag *stop = nullptr,
                                                     const RoleOfGroup &role = {}, const Patience &patience = {});

/// A plan of what the worker proves; its errors, with op, line and reasons, are for the client. `isLasting` is set
/// where the same terms fail again.
llvm::Expected<std::shared_ptr<const PrivatePlan>> makePrivatePlan(WorkerStub &worker, const Plan &plan,
                                                                   const runtime::PrivateTerms &terms,
                                                                   const PriceLimits &limits, bool &isLasting,
                                                                   const runtime::StopFlag *stop = nullptr);

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
