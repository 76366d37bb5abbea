// SPDX-License-Identifier: Apache-2.0
// A received program as the owner runs it on private tables: clipped per row, with noise, proved, and planned anew.
#ifndef SOJOURN_OWNER_PRIVATEPLAN_H
#define SOJOURN_OWNER_PRIVATEPLAN_H

#include "owner/Dataset.h"
#include "owner/PlanCache.h"
#include "passes/privacy/Privacy.h"
#include "runtime/Extent.h"
#include "runtime/privacy/Charge.h"
#include "runtime/privacy/Coins.h"
#include "runtime/terms/Terms.h"
#include "runtime/wire/Step.h"

#include "llvm/Support/Error.h"

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sojourn::owner {

/// All that decides how a program is rewritten, apart from its bytes. The text is the key of the cache.
struct PrivateTerms : terms::StepTerms {
  struct Table {
    bool isPrivate = false;
    int64_t rows = 0;            ///< how many the bound table has
    std::vector<Column> columns; ///< their bounds
  };
  std::vector<bool> publicArguments;
  std::vector<Table> tables; ///< by argument; empty for the others
  /// Words of the slots, where no rows are drawn: bounds of statistics follow from them.
  std::vector<uint64_t> slots;
  /// Per argument where the elements of a small public tensor that the step does not write lie; empty where no bound
  /// is asked of them.
  std::vector<std::optional<runtime::Extent>> extents;
  std::string key() const;
};

/// One release of the plan, for receipts and logs.
struct SiteInfo {
  std::string what, op, location;
  bool isBeside = false, isLaplace = false;
  double bound = 0, sensitivity = 0, cost = 0;
  int64_t exponent = 0, scale = 0, coordinates = 0;
  std::optional<unsigned> result;
  std::vector<unsigned> tables; ///< private table arguments that pay for it
};

struct CoinInfo {
  enum class Kind : uint8_t { draw, gaussian, laplace } kind;
  runtime::TensorType type;
  int64_t rows = 0, expected = 0, scale = 0;
  size_t site = 0; ///< of noise: the release that it belongs to
};

/// What the step costs the people of one table: as a part of its run, and beside it.
struct TableCharge {
  size_t argument;
  privacy::Charge step, beside;
  /// `beside` where a row may become any other row.
  privacy::Charge besideReplaced;
};

/// Immutable but for what it remembers of lists.
struct PrivatePlan {
  std::unique_ptr<runtime::Executable> executable;
  /// Lists of row numbers that are known with the program, and with the message (RowLists.h); null where there are
  /// none.
  std::unique_ptr<runtime::Executable> fixedLists, sentLists;
  mutable std::atomic<bool> areFixedListsChecked = false;
  std::vector<CoinInfo> coins;
  std::vector<SiteInfo> sites;
  std::vector<bool> released;                  ///< per result
  std::vector<ResultTables> tables;            ///< likewise: what a result that stays holds
  std::vector<bool> tainted;                   ///< likewise: whether rows or draws reach it without noise
  std::vector<std::optional<NoiseForm>> forms; ///< likewise: how noise arrives in it
  std::vector<std::optional<double>> errors;   ///< likewise: its standard error, unless an argument changes it
  std::vector<TableCharge> charges;
  std::vector<std::string> notes;
  /// For the data owner: where rows meet, sensitivity and noise, a line or two for each site.
  std::string report;
  /// Whether a draw is sampled, and whether a site is paid for by the step (not beside it).
  bool isSampled = false, spendsInStep = false;
  uint64_t operations = 0; ///< of its price, coins among them
  size_t runBytes(unsigned threads) const;
  /// What it takes in the cache.
  size_t bytes() const;
};

/// Decodes the plan's program again, rewrites, proves and plans it. Refused with op, line and reasons where it cannot
/// be proved, or costs more than the limits.
llvm::Expected<std::shared_ptr<const PrivatePlan>> makePrivatePlan(const Plan &plan, const PrivateTerms &terms,
                                                                   const PriceLimits &limits = {});

/// Refused where a private table would be read at a list of row numbers that names one twice, as far as lists are known
/// before the step runs. `bindings` are those of the step, without coins.
llvm::Error checkRowLists(const PrivatePlan &plan, llvm::ArrayRef<runtime::Binding> bindings,
                          const runtime::RunOptions &options);

/// The report of a plan whose sites are known.
std::string describeSites(const PrivatePlan &plan, const PrivateTerms &terms);

/// Draws the coins of one run, in the order of the plan's coin arguments, on up to `threads` threads. `context`: what
/// was charged, and for which step; it goes into the key (runtime/privacy/Coins.h).
std::vector<runtime::Binding> drawCoins(const PrivatePlan &plan, unsigned threads, std::span<const uint64_t> context);
/// Seconds that drawing coins has taken in this process, for benchmarks.
double coinSeconds();

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_PRIVATEPLAN_H
