// SPDX-License-Identifier: Apache-2.0
// Opening, replay, recovery and the way of an entry to the disk.
#include "owner/ledger/Transaction.h"

#include <algorithm>
#include <cstring>
#include <sodium.h>
#include <type_traits>

namespace sojourn::owner::ledger {

static constexpr std::string_view kSigned = "sojourn ledger entry";

/// Whether what an entry charges is for datasets of this owner alone, where it says whose they are.
static bool isOf(const PublicKey &owner, const Entry &entry) {
  if (entry.version < kOwnersSince) {
    return true;
  }
  auto isItsOwn = [&](const auto &body) {
    if constexpr (requires { body.items; }) {
      return std::ranges::all_of(body.items, [&](const Item &item) { return item.owner == owner; });
    }
    return true;
  };
  return std::visit(isItsOwn, entry.body);
}

Ledger::Transaction::~Transaction() {
  if (begun) {
    ledger.database->rollback();
    ledger.stale = ledger.stale || appended != 0;
  }
  if (locked) {
    ledger.locks.unlockWriter();
  }
}

Status Ledger::Transaction::begin() {
  if (Status status = ledger.elsewhere()) {
    return status;
  }
  guard.lock();
  if (ledger.broken) {
    return ledger.broken;
  }
  if (Status status = ledger.locks.lockWriter(ledger.options.busyMs)) {
    return status;
  }
  locked = true;
  if (Status status = ledger.database->begin()) {
    return status;
  }
  begun = true;
  if (Status status = ledger.catchUp()) {
    return status;
  }
  if (Status status = ledger.checkHead()) {
    return status;
  }
  batch = ledger.books.seq + 1;
  now = ledger.options.clockMs();
  return {};
}

Status Ledger::Transaction::append(Body body) {
  Books &books = ledger.books;
  Entry entry{books.seq + 1, batch, books.hash, now, std::move(body)};
  Row row{entry.seq, encode(entry), {}, {}};
  row.hash = hashOf(row.bytes);
  if (ledger.options.key && isOwners(entry.body)) {
    Signature signature = ledger.options.key->sign(kSigned, row.bytes);
    row.signature.assign(signature.begin(), signature.end());
  }
  if (Status status = books.apply(entry, row.hash)) {
    return status;
  }
  ++appended;
  return ledger.database->insert(row);
}

template <typename Opened>
Result<uint64_t> Ledger::Transaction::open(Opened body) {
  if (Status status = ledger.books.complete(body.client, body.relation, body.items)) {
    return *status;
  }
  if constexpr (std::is_same_v<Opened, RunOpened>) {
    if (Status status = body.whole ? Status() : ledger.books.hasRoom(body)) {
      return *status;
    }
  }
  if (Status status = append(std::move(body))) {
    return *status;
  }
  uint64_t number = ledger.books.seq;
  if (Status status = commit()) {
    return *status;
  }
  return number;
}

template Result<uint64_t> Ledger::Transaction::open(Reserved body);
template Result<uint64_t> Ledger::Transaction::open(RunOpened body);

Status Ledger::Transaction::purge() {
  ledger.purgedMs = now;
  purged = true;
  return ledger.database->purgeSealed(now - ledger.options.keepSealedMs);
}

Status Ledger::Transaction::commit() {
  if (appended == 0 && !purged) {
    return {};
  }
  if (Status status = ledger.database->commit()) {
    return status;
  }
  begun = false;
  return ledger.head && appended != 0 ? ledger.head->write({ledger.books.seq, ledger.books.hash}) : Status();
}

Ledger::Ledger(LedgerOptions given, Locks locks, std::unique_ptr<Database> database)
    : options(std::move(given)), locks(std::move(locks)), database(std::move(database)), books(options.admits) {
  if (options.path != ":memory:") {
    head.emplace(options.headPath, options.hook);
  }
  randombytes_buf(&holder, sizeof(holder));
  holder >>= 2; // an offset into the lock's file
}

/// The parent goes on using what a fork has of it: closing the database would put an end to its log.
Ledger::~Ledger() {
  if (process.isElsewhere()) {
    static_cast<void>(database.release());
  }
}

Status Ledger::elsewhere() const {
  return process.isElsewhere()
             ? problem(Code::badRequest,
                       "this ledger was " + process.text() + ". Both would make the same charges: open the ledger here")
             : Status();
}

Result<std::unique_ptr<Ledger>> Ledger::open(LedgerOptions options) {
  if (sodium_init() < 0) {
    return problem(Code::disk, "libsodium could not be initialised");
  }
  bool inMemory = options.path == ":memory:";
  if (!options.clockMs || (options.serves && !options.admits) || (!inMemory && options.headPath.empty())) {
    return problem(Code::badRequest, "a ledger needs a clock, a filter to charge by and, in a file, a separate head");
  }
  options.keepSealedMs = std::max(options.keepSealedMs, kKeepSealedMs);
  auto locks = Locks::open(inMemory ? "" : options.path + ".lock");
  if (!locks) {
    return locks.problem();
  }
  if (Status status = locks->lockWriter(options.busyMs)) {
    return *status;
  }
  auto database = Database::open(options.path, options.busyMs);
  locks->unlockWriter();
  if (!database) {
    return database.problem();
  }
  std::unique_ptr<Ledger> ledger(new Ledger(std::move(options), std::move(*locks), std::move(*database)));
  Transaction transaction(*ledger);
  if (Status status = transaction.begin()) {
    return *status;
  }
  if (ledger->options.serves) {
    Status status = ledger->locks.hold(ledger->holder);
    if (!status) {
      status = ledger->recover(transaction);
    }
    if (!status) {
      status = transaction.commit();
    }
    if (status) {
      return *status;
    }
  }
  return Result<std::unique_ptr<Ledger>>(std::move(ledger));
}

Status Ledger::replay(Books &into, bool decided) {
  return database->readAfter(into.seq, [&](const Row &row) -> Status {
    auto damaged = [&](const std::string &text) {
      return problem(Code::damaged, "the ledger '" + options.path + "' is damaged at entry " + std::to_string(row.seq) +
                                        ": " + text + "; nothing is released until its newest copy is restored");
    };
    std::optional<Entry> entry = decode(row.bytes);
    if (!entry || entry->seq != row.seq) {
      return damaged("its bytes are not a valid entry");
    }
    if (hashOf(row.bytes) != row.hash) {
      return damaged("its bytes do not match its hash");
    }
    if (options.key && isOwners(entry->body)) {
      Signature signature{};
      if (row.signature.size() == signature.size()) {
        std::memcpy(signature.data(), row.signature.data(), signature.size());
      }
      if (!isSigned(options.key->publicKey(), kSigned, row.bytes, signature)) {
        return damaged("it grants budget and is not signed by this owner's key");
      }
    }
    if (options.key && !isOf(options.key->publicKey(), *entry)) {
      return damaged("it charges for a dataset of another owner");
    }
    // A filter of other orders decided about the first version.
    if (Status status = into.apply(*entry, row.hash, decided || entry->version < kOrdersSince)) {
      return damaged(status->text);
    }
    return {};
  });
}

Status Ledger::catchUp() {
  const auto version = database->version();
  if (!stale && version && version == readVersion) {
    return {};
  }
  if (stale) {
    books = Books(options.admits);
    stale = false;
  }
  Status status = replay(books, /*decided=*/true);
  if (status && status->code == Code::damaged) {
    broken = status;
  }
  readVersion = status ? std::nullopt : version; // of before the read: what was written meanwhile is read again
  return status;
}

Status Ledger::checkHead() {
  if (!head) {
    return {};
  }
  auto known = head->read();
  if (!known) {
    return known.problem();
  }
  HeadValue last{books.seq, books.hash};
  if (*known == last) {
    return {};
  }
  std::string places = "the ledger '" + options.path + "' ends at entry " + std::to_string(last.seq) + ", its head '" +
                       options.headPath + "' knows of entry " + std::to_string(known->seq);
  if (known->seq > last.seq) {
    return problem(Code::olderFile,
                   "an older ledger file: " + places +
                       "; charges would be forgotten, so nothing is released until the newest copy is restored");
  }
  // A crash between a commit and its head leaves the ledger ahead by that one transaction.
  if (*known != HeadValue{books.seqBeforeBatch, books.hashBeforeBatch}) {
    return problem(Code::damaged,
                   "the ledger and its head do not match: " + places + "; restore the newest copies of both");
  }
  return head->write(last);
}

bool Ledger::isDead(uint64_t other) {
  if (other == holder && options.serves) {
    return false;
  }
  auto lives = locks.lives(other);
  return lives && !*lives; // where the system does not tell, nothing is taken from anyone
}

Status Ledger::endDead(Transaction &transaction, uint64_t id) {
  static constexpr const char *kWhy = "its process ended";
  if (auto publish = books.publishes.find(id); publish != books.publishes.end()) {
    return publish->second.state == State::reserved ? transaction.append(Voided{id, kWhy})
                                                    : transaction.append(Burnt{id, kWhy});
  }
  // References stay good: no run is added meanwhile.
  const RunState &run = books.runs.at(id);
  if (run.block != 0) {
    if (Status status = transaction.append(BlockEnded{run.block, run.blockSteps, /*burnt=*/true})) {
      return status;
    }
  }
  return transaction.append(RunClosed{id, run.used});
}

Status Ledger::recover(Transaction &transaction) {
  auto live = books.live;
  for (auto [id, of] : live) {
    if (isDead(of)) {
      if (Status status = endDead(transaction, id)) {
        return status;
      }
    }
  }
  return transaction.purge();
}

} // namespace sojourn::owner::ledger
