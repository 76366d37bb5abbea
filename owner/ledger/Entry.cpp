// SPDX-License-Identifier: Apache-2.0
// Canonical bytes of entries.
#include "owner/ledger/Entry.h"

namespace sojourn::owner::ledger {

/// Before every entry, and its version.
static constexpr std::string_view kMagic = "SJLE";

const char *kindName(const Body &body) {
  static constexpr const char *kNames[] = {
      "client added",   "dataset linked",  "cap set",         "grant set",  "reserved",
      "started",        "sealed",          "delivered",       "void",       "burnt",
      "run opened",     "block started",   "block ended",     "run closed", "key changed",
      "client removed", "dataset renamed", "dataset removed", "overruns",   "overruns forgiven"};
  static_assert(std::size(kNames) == std::variant_size_v<Body>);
  return kNames[body.index()];
}

bool isOwners(const Body &body) {
  return std::holds_alternative<ClientAdded>(body) || std::holds_alternative<DatasetLinked>(body) ||
         std::holds_alternative<CapSet>(body) || std::holds_alternative<GrantSet>(body) ||
         std::holds_alternative<KeyChanged>(body) || std::holds_alternative<ClientRemoved>(body) ||
         std::holds_alternative<DatasetRenamed>(body) || std::holds_alternative<DatasetRemoved>(body) ||
         std::holds_alternative<OverrunsForgiven>(body);
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
