// SPDX-License-Identifier: Apache-2.0
// Coins of a run: draws of rows and noise.
#ifndef SOJOURN_OWNER_WORKER_COINS_H
#define SOJOURN_OWNER_WORKER_COINS_H

#include "runtime/HostTensor.h"
#include "runtime/facts/Verdict.h"

#include "llvm/ADT/ArrayRef.h"

#include <cstdint>
#include <span>
#include <vector>

namespace sojourn::owner {

/// Draws the coins of one run, in the order of the coin arguments, on up to `threads` threads. `context`: the charges
/// and the step that they are for; it goes into the key (runtime/privacy/Coins.h). The coins have been checked
/// (runtime::readVerdict).
std::vector<runtime::Binding> drawCoins(llvm::ArrayRef<runtime::CoinInfo> coins, unsigned threads,
                                        std::span<const uint64_t> context);
/// Seconds that drawing coins has taken in this process, for benchmarks.
double coinSeconds();

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_WORKER_COINS_H
