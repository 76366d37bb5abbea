// SPDX-License-Identifier: Apache-2.0
// The cache of proved programs (see PrivatePlan.h).
#include "owner/PrivatePlan.h"

#include "owner/Shares.h"

#include "llvm/ADT/ScopeExit.h"

namespace sojourn::owner {

/// Of the plans of one program, and of all.
static constexpr size_t kPlansMost = 16, kBytesMost = size_t{1} << 30, kRefusalsMost = 64,
                        kLastTermsBytes = size_t{16} << 10;

namespace {
/// Bytes of the plans of all programs.
class CachedBytes {
public:
  /// Whether there is room.
  bool take(const std::string &account, size_t bytes) {
    std::lock_guard lock(mutex);
    const bool fits = bytes <= shares.left() && shares.used(account) + bytes <= shares.share(account);
    if (fits) {
      shares.add(account, bytes);
    }
    return fits;
  }
  void giveBack(const std::string &account, size_t bytes) {
    std::lock_guard lock(mutex);
    shares.remove(account, bytes);
  }

private:
  std::mutex mutex;
  Shares shares{kBytesMost};
};
/// Never destroyed: plans may be, when the process ends.
CachedBytes &cachedBytes = *new CachedBytes;
} // namespace

PrivatePlans::~PrivatePlans() { clear(); }

void PrivatePlans::clear() {
  for (const auto &[terms, entry] : known) {
    cachedBytes.giveBack(entry.account, entry.plan->bytes());
  }
  known.clear();
  last = nullptr;
  lastTerms = {};
}

llvm::Expected<std::shared_ptr<const PrivatePlan>> PrivatePlans::find(const std::string &terms) {
  {
    std::lock_guard lock(mutex);
    if (last && terms == lastTerms) {
      return last;
    }
  }
  const runtime::ProgramHash key = runtime::hashProgram(terms);
  std::lock_guard lock(mutex);
  if (auto found = refused.find(key); found != refused.end()) {
    return llvm::make_error<RequestError>(found->second);
  }
  auto found = known.find(key);
  if (found == known.end()) {
    return nullptr;
  }
  if (terms.size() <= kLastTermsBytes) {
    lastTerms = terms;
    last = found->second.plan;
  }
  return found->second.plan;
}

void PrivatePlans::refuse(const std::string &terms, const RequestError &error) {
  const runtime::ProgramHash key = runtime::hashProgram(terms);
  std::lock_guard lock(mutex);
  if (refused.size() >= kRefusalsMost) {
    refused.clear();
  }
  refused.try_emplace(key, error);
}

void PrivatePlans::insert(const std::string &terms, std::shared_ptr<const PrivatePlan> plan,
                          const std::string &account) {
  const runtime::ProgramHash key = runtime::hashProgram(terms);
  std::lock_guard lock(mutex);
  const size_t bytes = plan->bytes();
  if (known.count(key) || !cachedBytes.take(account, bytes)) {
    return;
  }
  llvm::scope_exit undo([&] { cachedBytes.giveBack(account, bytes); });
  if (known.size() >= kPlansMost) {
    clear();
  }
  known.try_emplace(key, Entry{std::move(plan), account});
  undo.release();
}

} // namespace sojourn::owner
