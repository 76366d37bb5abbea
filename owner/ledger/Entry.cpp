// SPDX-License-Identifier: Apache-2.0
// Canonical bytes of entries.
#include "owner/ledger/Entry.h"

#include <algorithm>
#include <sodium.h>

namespace sojourn::owner::ledger {

/// Before every entry, and its version.
static constexpr std::string_view kMagic = "SJLE";

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

const char *relationName(Relation relation) { return relation == Relation::nullOne ? "null_one" : "replace_one"; }

const char *kindName(const Body &body) {
  static constexpr const char *kNames[] = {"client added", "dataset linked", "cap set",     "grant set", "reserved",
                                           "started",      "sealed",         "delivered",   "void",      "burnt",
                                           "run opened",   "block started",  "block ended", "run closed"};
  static_assert(std::size(kNames) == std::variant_size_v<Body>);
  return kNames[body.index()];
}

bool isOwners(const Body &body) {
  return std::holds_alternative<ClientAdded>(body) || std::holds_alternative<DatasetLinked>(body) ||
         std::holds_alternative<CapSet>(body) || std::holds_alternative<GrantSet>(body);
}

std::string encode(const Entry &entry) {
  Writer writer(entry.version);
  writer.bytes = kMagic;
  writer(entry.version, entry.seq, entry.batch, entry.previous, entry.timeMs, static_cast<uint8_t>(entry.body.index()));
  std::visit([&](const auto &body) { writer(body); }, entry.body);
  return std::move(writer.bytes);
}

/// Makes the alternative of the given index, which is below their number.
template <size_t index = 0>
static Body makeBody(size_t kind) {
  if constexpr (index + 1 < std::variant_size_v<Body>) {
    if (kind != index) {
      return makeBody<index + 1>(kind);
    }
  }
  return Body(std::in_place_index<index>);
}

std::optional<Entry> decode(std::string_view bytes) {
  if (bytes.substr(0, kMagic.size()) != kMagic) {
    return std::nullopt;
  }
  bytes.remove_prefix(kMagic.size());
  Entry entry;
  entry.version = bytes.empty() ? 0 : static_cast<uint8_t>(bytes.front());
  if (entry.version < 1 || entry.version > kEntryVersion) {
    return std::nullopt;
  }
  Reader reader(bytes.substr(1), entry.version);
  uint8_t kind = 0;
  reader(entry.seq, entry.batch, entry.previous, entry.timeMs, kind);
  if (!reader.good || kind >= std::variant_size_v<Body>) {
    return std::nullopt;
  }
  entry.body = makeBody(kind);
  std::visit([&](auto &body) { reader(body); }, entry.body);
  return reader.done() ? std::optional(std::move(entry)) : std::nullopt;
}

} // namespace sojourn::owner::ledger
