// SPDX-License-Identifier: Apache-2.0
// Plans, and the cache of them (see PlanCache.h).
#include "owner/PlanCache.h"

namespace sojourn::owner {

llvm::Expected<std::shared_ptr<const Plan>> makePlan(WorkerStub &worker, llvm::StringRef program, llvm::StringRef debug,
                                                     const PriceLimits &limits, const runtime::StopFlag *stop,
                                                     const RoleOfGroup &role, const Patience &patience) {
  auto described = worker.describe(program, debug, limits, stop, role, patience);
  if (!described) {
    return described.takeError();
  }
  auto plan = std::make_shared<Plan>();
  plan->facts = std::move(described->facts);
  plan->text = std::move(described->text);
  plan->textDigest = runtime::hashProgram(plan->text);
  plan->code = std::move(described->code);
  return plan;
}

llvm::Expected<std::shared_ptr<const PrivatePlan>> makePrivatePlan(WorkerStub &worker, const Plan &plan,
                                                                   const runtime::PrivateTerms &terms,
                                                                   const PriceLimits &limits, bool &isLasting,
                                                                   const runtime::StopFlag *stop) {
  auto proved = worker.prove(plan.code, plan.facts, terms, limits, isLasting, stop);
  if (!proved) {
    return proved.takeError();
  }
  auto made = std::make_shared<PrivatePlan>();
  made->verdict = std::move(proved->verdict);
  made->report = describeSites(made->verdict.sites, terms);
  made->errors = std::move(proved->errors);
  made->code = std::move(proved->code);
  return made;
}

std::shared_ptr<const Plan> PlanCache::find(const PlanKey &key) {
  auto found = index.find(key);
  if (found == index.end()) {
    return nullptr;
  }
  recent.splice(recent.begin(), recent, found->second);
  return found->second->plan;
}

std::vector<std::shared_ptr<const Plan>> PlanCache::insert(const PlanKey &key, std::shared_ptr<const Plan> &plan,
                                                           const std::string &account) {
  if (auto present = find(key)) {
    std::vector<std::shared_ptr<const Plan>> second{std::move(plan)};
    plan = std::move(present);
    return second;
  }
  recent.push_front({key, plan, account});
  index[key] = recent.begin();
  counts.add(account, 1);
  total.add(account, plan->bytes());
  std::vector<std::shared_ptr<const Plan>> gone;
  auto isBeyond = [](const Shares &shares, const std::string &whose) {
    return shares.used(whose) > shares.share(whose);
  };
  // Each account makes room for its own plans first.
  for (auto at = recent.end(); at != std::next(recent.begin());) {
    auto entry = std::prev(at);
    const bool isTooMuch = isBeyond(counts, account) || isBeyond(total, account);
    if (isTooMuch && entry->account == account) {
      drop(entry, gone);
    } else if (isTooMuch) {
      at = entry;
    } else {
      break;
    }
  }
  while (recent.size() > 1 && (counts.used() > plansMost || total.used() > bytesMost)) {
    drop(std::prev(recent.end()), gone);
  }
  return gone;
}

void PlanCache::drop(std::list<Entry>::iterator entry, std::vector<std::shared_ptr<const Plan>> &gone) {
  counts.remove(entry->account, 1);
  total.remove(entry->account, entry->plan->bytes());
  gone.push_back(std::move(entry->plan));
  index.erase(entry->key);
  recent.erase(entry);
}

} // namespace sojourn::owner
