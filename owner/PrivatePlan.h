// SPDX-License-Identifier: Apache-2.0
// Programs on private tables as the front knows them: verdicts, and the worker's code; and the cache of them.
#ifndef SOJOURN_OWNER_PRIVATEPLAN_H
#define SOJOURN_OWNER_PRIVATEPLAN_H

#include "owner/RequestError.h"
#include "owner/WorkerStub.h"
#include "runtime/Hash.h"

#include "llvm/Support/Error.h"

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace sojourn::owner {

using runtime::CoinInfo;
using runtime::PrivateTerms;
using runtime::SiteInfo;
using runtime::TableCharge;

/// A program proved for one set of terms. Immutable.
struct PrivatePlan {
  runtime::Verdict verdict;
  /// For the data owner: where rows meet, sensitivity and noise, a line or two for each site.
  std::string report;
  std::vector<std::optional<double>> errors; ///< of ProvedCode
  std::shared_ptr<const CodeRef> code;
  /// Memory in the cache.
  size_t bytes() const { return sizeof(*this) + (code ? code->size() : 0) + verdict.bytes() + report.size(); }
};

/// The report on these releases.
std::string describeSites(llvm::ArrayRef<SiteInfo> sites, const PrivateTerms &terms);

/// Proofs of one program, by terms: the plans, and the refusals. Guards itself.
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

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_PRIVATEPLAN_H
