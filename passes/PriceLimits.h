// SPDX-License-Identifier: Apache-2.0
// Limits on the price of a program (Price.h). Knows no MLIR.
#ifndef SOJOURN_PASSES_PRICELIMITS_H
#define SOJOURN_PASSES_PRICELIMITS_H

#include <cstdint>

namespace sojourn {

/// The most that a price may be; the defaults are those of an owner.
struct PriceLimits {
  uint64_t operations = 10'000'000'000'000;
  uint64_t arenaBytes = uint64_t{64} << 30;
  uint64_t scratchBytes = uint64_t{64} << 30;
  uint64_t planBytes = uint64_t{1} << 30;
  uint64_t exchangedBytes = uint64_t{8} << 30;
  /// Of one call of the kernel library, which a stop of the step waits for; 0: no limit.
  double callSeconds = 0;
};

} // namespace sojourn

#endif // SOJOURN_PASSES_PRICELIMITS_H
