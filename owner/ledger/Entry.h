// SPDX-License-Identifier: Apache-2.0
// The entries of the ledger, their canonical bytes and their chain of hashes.
//
// Kinds are numbered by their place in Body: new ones are appended, none is ever moved or removed.
// A change to an entry's fields is a new kind, one to charges or items, which many kinds hold, a new version of all.
#ifndef SOJOURN_OWNER_LEDGER_ENTRY_H
#define SOJOURN_OWNER_LEDGER_ENTRY_H

#include "owner/ledger/Signing.h"
#include "runtime/privacy/Charge.h"
#include "runtime/signing/Release.h"

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace sojourn::owner::ledger {

/// Names are at most this long, in bytes, and never empty.
inline constexpr size_t kNameBytesMost = 256;

/// What a release costs the people of one dataset; of a run, what each step costs.
struct Item {
  std::string dataset, version;
  /// Filled in by the ledger.
  std::string population;
  privacy::Charge charge;
  /// Whose dataset it is: equal names at two owners are two datasets. A ledger charges for its own owner's alone. Zeros
  /// in entries before kOwnersSince, which did not say, and where a ledger has no key.
  PublicKey owner{};
  static void fields(auto &archive, auto &item) {
    archive(item.dataset, item.version);
    if (archive.version >= kOwnersSince) {
      archive(item.owner);
    }
    archive(item.population, item.charge);
  }
  friend bool operator==(const Item &, const Item &) = default;
};

/// Also one that was removed and comes back, to what it spent.
struct ClientAdded {
  std::string client;
  /// Ed25519, 32 bytes; empty for the embedded owner's only client.
  std::string publicKey;
  static void fields(auto &archive, auto &body) { archive(body.client, body.publicKey); }
};
/// Likewise.
struct DatasetLinked {
  std::string dataset, population;
  Relation relation = Relation::nullOne;
  static void fields(auto &archive, auto &body) { archive(body.dataset, body.population, body.relation); }
};
struct CapSet {
  std::string population;
  Grant grant;
  static void fields(auto &archive, auto &body) { archive(body.population, body.grant.epsilon, body.grant.delta); }
};
struct GrantSet {
  std::string client, dataset;
  Grant grant;
  static void fields(auto &archive, auto &body) {
    archive(body.client, body.dataset, body.grant.epsilon, body.grant.delta);
  }
};
/// A single release is paid for; its id is the entry's number.
struct Reserved {
  std::string client, key, what;
  Hash moduleHash{};
  Relation relation = Relation::nullOne;
  std::vector<Item> items;
  std::vector<Site> sites;
  /// The process that runs it: once it is gone, nothing of it goes on.
  uint64_t holder = 0;
  static void fields(auto &archive, auto &body) {
    archive(body.client, body.key, body.what, body.moduleHash, body.relation, body.items, body.sites, body.holder);
  }
};
/// Rows may be read and coins drawn from here on.
struct Started {
  uint64_t id = 0;
  static void fields(auto &archive, auto &body) { archive(body.id); }
};
/// The noised bytes are durable; they may leave from here on.
struct Sealed {
  uint64_t id = 0, size = 0;
  Hash digest{};
  static void fields(auto &archive, auto &body) { archive(body.id, body.size, body.digest); }
};
struct Delivered {
  uint64_t id = 0;
  static void fields(auto &archive, auto &body) { archive(body.id); }
};
/// Given up before it started: the charge is returned.
struct Voided {
  uint64_t id = 0;
  std::string why;
  static void fields(auto &archive, auto &body) { archive(body.id, body.why); }
};
/// Started and never sealed: the charge stands.
struct Burnt {
  uint64_t id = 0;
  std::string why;
  static void fields(auto &archive, auto &body) { archive(body.id, body.why); }
};
/// A run of training steps; its id is the entry's number.
struct RunOpened {
  std::string client, what;
  Hash moduleHash{};
  Relation relation = Relation::nullOne;
  std::vector<Item> items; ///< per step
  std::vector<Site> sites;
  uint64_t steps = 0; ///< the plan; 0: none declared
  bool whole = false; ///< all steps are paid for here, and blocks are free
  uint64_t holder = 0;
  static void fields(auto &archive, auto &body) {
    archive(body.client, body.what, body.moduleHash, body.relation, body.items, body.sites, body.steps, body.whole,
            body.holder);
  }
};
/// Steps of a run, reserved and started at once; its id is the entry's number.
struct BlockStarted {
  uint64_t run = 0, steps = 0;
  std::vector<privacy::Charge> charges; ///< per step, one for each item of the run
  static void fields(auto &archive, auto &body) { archive(body.run, body.steps, body.charges); }
};
/// The steps that were not used are returned; of a burnt block none is.
struct BlockEnded {
  uint64_t block = 0, used = 0;
  bool burnt = false;
  static void fields(auto &archive, auto &body) { archive(body.block, body.used, body.burnt); }
};
struct RunClosed {
  uint64_t run = 0, used = 0;
  static void fields(auto &archive, auto &body) { archive(body.run, body.used); }
};

/// Another key of a client, in place of the last one.
struct KeyChanged {
  std::string client, publicKey;
  static void fields(auto &archive, auto &body) { archive(body.client, body.publicKey); }
};
/// The client is served no longer, and has no grant; what it spent stays.
struct ClientRemoved {
  std::string client;
  static void fields(auto &archive, auto &body) { archive(body.client); }
};
/// The dataset's accounts go on under another name.
struct DatasetRenamed {
  std::string dataset, name;
  static void fields(auto &archive, auto &body) { archive(body.dataset, body.name); }
};
/// There is no such table any more; its accounts stay.
struct DatasetRemoved {
  std::string dataset;
  static void fields(auto &archive, auto &body) { archive(body.dataset); }
};

/// Steps of a client on a dataset took longer than their time, which may have told it so many bits about rows.
struct Overruns {
  std::string client, dataset;
  uint64_t bits = 0;
  static void fields(auto &archive, auto &body) { archive(body.client, body.dataset, body.bits); }
};
/// Their count begins at zero again.
struct OverrunsForgiven {
  std::string client, dataset;
  static void fields(auto &archive, auto &body) { archive(body.client, body.dataset); }
};

using Body = std::variant<ClientAdded, DatasetLinked, CapSet, GrantSet, Reserved, Started, Sealed, Delivered, Voided,
                          Burnt, RunOpened, BlockStarted, BlockEnded, RunClosed, KeyChanged, ClientRemoved,
                          DatasetRenamed, DatasetRemoved, Overruns, OverrunsForgiven>;

/// "reserved", "block ended" and so on.
const char *kindName(const Body &body);
/// Who may be served and with how much: the entries that the owner signs.
bool isOwners(const Body &body);

struct Entry {
  /// Consecutive from 1.
  uint64_t seq = 0;
  /// The first number of the transaction that wrote it.
  uint64_t batch = 0;
  /// Hash of the entry before it; zeros before the first.
  Hash previous{};
  /// Since the epoch.
  int64_t timeMs = 0;
  Body body;
  /// Of its bytes.
  uint8_t version = kEntryVersion;
};

/// In the entry's version; its hash is `hashOf` of these bytes.
std::string encode(const Entry &entry);
/// Nothing if the bytes are not exactly an entry's, of any version.
std::optional<Entry> decode(std::string_view bytes);

} // namespace sojourn::owner::ledger

#endif // SOJOURN_OWNER_LEDGER_ENTRY_H
