// SPDX-License-Identifier: Apache-2.0
// Hashes, hexadecimal digits, and charges at the orders of earlier releases.
#include "runtime/signing/Bytes.h"

#include <algorithm>
#include <sodium.h>

namespace sojourn::signing {

privacy::Charge widened(const FirstCosts &first, uint64_t delta) {
  __extension__ typedef unsigned __int128 Wide;
  privacy::Charge charge;
  charge.delta = delta;
  for (size_t k = 0, next = 0; k < privacy::kOrders.size(); ++k) {
    auto order = static_cast<uint64_t>(privacy::kOrders[k]);
    while (static_cast<uint64_t>(kFirstOrders[next]) < order) {
      ++next; // both end at one order
    }
    auto above = static_cast<uint64_t>(kFirstOrders[next]);
    if (above == order) {
      charge.rdp[k] = first[next];
      continue;
    }
    auto below = static_cast<uint64_t>(kFirstOrders[next - 1]);
    Wide chord =
        Wide{first[next - 1]} * ((above - order) * (below - 1)) + Wide{first[next]} * ((order - below) * (above - 1));
    uint64_t divisor = (order - 1) * (above - below);
    bool isLost = first[next - 1] == privacy::kLost || first[next] == privacy::kLost;
    charge.rdp[k] = isLost ? privacy::kLost : static_cast<uint64_t>((chord + divisor - 1) / divisor);
  }
  return charge;
}

FirstCosts narrowed(const privacy::Charge &charge) {
  FirstCosts first;
  for (size_t k = 0, next = 0; k < first.size(); ++k) {
    while (privacy::kOrders[next] < kFirstOrders[k]) {
      ++next;
    }
    first[k] = charge.rdp[next];
  }
  return first;
}
static_assert(std::ranges::includes(privacy::kOrders, kFirstOrders));

Hash hashOf(std::string_view bytes) {
  Hash hash{};
  crypto_generichash(hash.data(), hash.size(), reinterpret_cast<const unsigned char *>(bytes.data()), bytes.size(),
                     nullptr, 0);
  return hash;
}

std::string hex(std::string_view bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (char byte : bytes) {
    text += kDigits[static_cast<uint8_t>(byte) >> 4];
    text += kDigits[static_cast<uint8_t>(byte) & 15];
  }
  return text;
}

} // namespace sojourn::signing
