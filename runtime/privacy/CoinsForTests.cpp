// SPDX-License-Identifier: Apache-2.0
// Coins that anybody can repeat. Linked by tests and benchmarks only.
#include "runtime/privacy/Coins.h"

namespace sojourn::privacy {

Coins Coins::forTests(uint64_t seed) {
  Key key{};
  for (size_t byte = 0; byte < sizeof seed; ++byte) {
    key[byte] = static_cast<uint8_t>(seed >> (8 * byte));
  }
  return Coins(key);
}

} // namespace sojourn::privacy
