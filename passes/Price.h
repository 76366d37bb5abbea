// SPDX-License-Identifier: Apache-2.0
// What one run of a program costs at most, from its shapes alone: known before anything is built or allocated, so that
// limits can stand on it. The formula of each op is in its record (dialect/*.td).
#ifndef SOJOURN_PASSES_PRICE_H
#define SOJOURN_PASSES_PRICE_H

#include "passes/PriceLimits.h"

#include "mlir/IR/BuiltinOps.h"

#include <optional>
#include <string>

namespace sojourn {

/// Every number saturates at 2^64 - 1.
struct Price {
  /// Elements computed, combined or moved, over all ops.
  uint64_t operations = 0;
  /// Memory for values between ops, scratch included: an upper bound for a straight run of the ops in their order.
  uint64_t arenaBytes = 0;
  /// The largest part of it that one op needs for itself alone.
  uint64_t scratchBytes = 0;
  /// Memory that the plan of the program takes for as long as it is cached.
  uint64_t planBytes = 0;
  /// Of a role's part of a joint step: its terms of all exchanges, and their sums.
  uint64_t exchangedBytes = 0;
};

/// About how long one thread takes for an op in the kernel library, in seconds, by shapes and element type alone; 0 for
/// an op that a run can be stopped in. Rates are those of large operands (`tools/price_long.py`), because they matter
/// where a call is long.
double librarySeconds(mlir::Operation *op);

/// The first op at which a price exceeds a limit; `message` says what it comes to there and what is allowed.
struct PriceExcess {
  mlir::Operation *op;
  std::string message;
};

/// The price of a module in core form.
Price priceOf(mlir::ModuleOp core);

/// Nothing, or where and by how much the module exceeds the limits. Cost is linear in the size of the module and in
/// nothing else: the first excess ends the walk.
std::optional<PriceExcess> findExcess(mlir::ModuleOp core, const PriceLimits &limits);

} // namespace sojourn

#endif // SOJOURN_PASSES_PRICE_H
