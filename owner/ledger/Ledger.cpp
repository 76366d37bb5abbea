// SPDX-License-Identifier: Apache-2.0
// The owner's entries, and single releases.
#include "owner/ledger/Transaction.h"

namespace sojourn::owner::ledger {

/// How often a server forgets sealed bytes whose time is over.
static constexpr int64_t kPurgeMs = 60 * 60 * 1000;

Status checkCharge(const LedgerOptions &options, const std::string &what, const std::vector<Item> &items,
                   const std::vector<Site> &sites) {
  if (!options.serves) {
    return problem(Code::badRequest, "the ledger was opened for administration; only a serving owner charges");
  }
  bool good = what.size() <= kTextBytesMost && items.size() <= kListMost && sites.size() <= kListMost;
  for (const Item &item : items) {
    good = good && item.version.size() <= kNameBytesMost;
    if (options.key && item.owner != options.key->publicKey()) {
      return problem(Code::badRequest, "dataset '" + item.dataset + "' belongs to owner " + shortKeyText(item.owner) +
                                           "..., but this ledger belongs to owner " +
                                           shortKeyText(options.key->publicKey()) +
                                           "...; each owner charges only its own tables");
    }
  }
  for (const Site &site : sites) {
    good = good && site.what.size() <= kTextBytesMost;
  }
  return good ? Status()
              : problem(Code::badRequest, "a charge has at most " + std::to_string(kListMost) +
                                              " datasets and noise sites, texts of " + std::to_string(kTextBytesMost) +
                                              " bytes and versions of " + std::to_string(kNameBytesMost));
}

Status Ledger::change(const Body &body) {
  Transaction transaction(*this);
  if (Status status = transaction.begin()) {
    return status;
  }
  if (Status status = transaction.append(body)) {
    return status;
  }
  return transaction.commit();
}

Status Ledger::setCap(const std::string &dataset, const Grant &cap) {
  Transaction transaction(*this);
  if (Status status = transaction.begin()) {
    return status;
  }
  auto found = books.datasets.find(dataset);
  if (found == books.datasets.end()) {
    return problem(Code::unknownDataset, "no private dataset is named '" + dataset + "'");
  }
  if (Status status = transaction.append(CapSet{found->second, cap})) {
    return status;
  }
  return transaction.commit();
}

Status Ledger::setGrant(const std::string &client, const std::string &dataset, const Grant &grant) {
  return change(GrantSet{client, dataset, grant});
}

Result<std::optional<SealedBytes>> Ledger::lookUp(Transaction &transaction, const std::string &client,
                                                  const std::string &key, const Hash &moduleHash) {
  auto found = books.keys.find({client, key});
  if (found == books.keys.end()) {
    return std::optional<SealedBytes>();
  }
  uint64_t id = found->second;
  // The map's nodes stay where they are while entries are added.
  const Publish &publish = books.publishes.at(id);
  if (publish.moduleHash != moduleHash) {
    return problem(Code::keyReused, "idempotency key '" + key + "' belongs to publish " + std::to_string(id) +
                                        ", another request; choose a new key");
  }
  if ((publish.state == State::reserved || publish.state == State::started) && isDead(publish.holder)) {
    if (Status status = endDead(transaction, id)) {
      return *status;
    }
  }
  switch (publish.state) {
  case State::voided: return std::optional<SealedBytes>();
  case State::reserved:
  case State::started:
    return problem(Code::inFlight, "publish " + std::to_string(id) + " of this key is running; retry later");
  case State::burnt:
    return problem(Code::burnt, "burnt: publish " + std::to_string(id) +
                                    " started and was never sealed; its charge remains, and a new key pays again");
  case State::sealed:
  case State::delivered: break;
  }
  auto answer = sealedAnswer(id);
  return answer ? Result<std::optional<SealedBytes>>(std::optional(std::move(*answer)))
                : Result<std::optional<SealedBytes>>(answer.problem());
}

Result<SealedBytes> Ledger::sealedAnswer(uint64_t id) {
  const Publish &publish = books.publishes.at(id);
  Problem expired = problem(Code::expired, "expired: the bytes of publish " + std::to_string(id) + " were kept for " +
                                               std::to_string(options.keepSealedMs / (24 * 60 * 60 * 1000)) +
                                               " days; they are not computed again under this key");
  if (options.clockMs() - publish.sealedMs > options.keepSealedMs) {
    return expired;
  }
  auto bytes = database->readSealed(id);
  if (!bytes) {
    return bytes.problem();
  }
  if (!*bytes) {
    return expired;
  }
  if (hashOf(**bytes) != publish.digest) {
    return problem(Code::damaged, "the sealed bytes of publish " + std::to_string(id) + " are damaged");
  }
  auto row = database->read(id);
  if (!row) {
    return row.problem();
  }
  std::optional<Entry> entry = *row ? decode((*row)->bytes) : std::nullopt;
  auto *request = entry ? std::get_if<Reserved>(&entry->body) : nullptr;
  if (!request) {
    return problem(Code::damaged, "entry " + std::to_string(id) + " of the ledger is damaged");
  }
  return SealedBytes{id,
                     publish.seq,
                     publish.hash,
                     publish.digest,
                     publish.sealedMs,
                     publish.state == State::delivered,
                     std::move(**bytes),
                     std::move(*request)};
}

ReserveAnswer Ledger::reserve(const ReserveRequest &request) {
  if (Status status = checkCharge(options, request.what, request.items, request.sites)) {
    return *status;
  }
  Transaction transaction(*this);
  if (Status status = transaction.begin()) {
    return *status;
  }
  auto earlier = lookUp(transaction, request.client, request.key, request.moduleHash);
  if (!earlier || *earlier) {
    if (Status status = transaction.commit()) {
      return *status;
    }
    return earlier ? ReserveAnswer(std::move(**earlier)) : ReserveAnswer(earlier.problem());
  }
  auto id = transaction.open(Reserved{request.client, request.key, request.what, request.moduleHash, request.relation,
                                      request.items, request.sites, holder});
  if (!id) {
    return id.problem();
  }
  return Ticket{*id};
}

Result<std::optional<SealedBytes>> Ledger::retry(const std::string &client, const std::string &key,
                                                 const Hash &moduleHash) {
  Transaction transaction(*this);
  if (Status status = transaction.begin()) {
    return *status;
  }
  auto earlier = lookUp(transaction, client, key, moduleHash);
  Status status = transaction.commit();
  return status ? Result<std::optional<SealedBytes>>(*status) : earlier;
}

Status Ledger::advance(Ticket ticket, const Body &body) {
  Transaction transaction(*this);
  if (Status status = transaction.begin()) {
    return status;
  }
  auto found = books.publishes.find(ticket.id);
  if (found != books.publishes.end() && found->second.holder != holder) {
    return problem(Code::badRequest, "publish " + std::to_string(ticket.id) + " belongs to another process");
  }
  if (Status status = transaction.append(body)) {
    return status;
  }
  return transaction.commit();
}

Status Ledger::start(Ticket ticket) { return advance(ticket, Started{ticket.id}); }
Status Ledger::cancel(Ticket ticket, const std::string &why) {
  return advance(ticket, Voided{ticket.id, why.substr(0, kTextBytesMost)});
}
Status Ledger::burn(Ticket ticket, const std::string &why) {
  return advance(ticket, Burnt{ticket.id, why.substr(0, kTextBytesMost)});
}

Result<SealedBytes> Ledger::seal(Ticket ticket, std::string bytes) {
  if (bytes.size() > kSealedBytesMost) {
    return problem(Code::badRequest, "a result of " + std::to_string(bytes.size()) +
                                         " bytes is too large to seal; the limit is " +
                                         std::to_string(kSealedBytesMost) + "; publish it in parts");
  }
  Sealed body{ticket.id, bytes.size(), hashOf(bytes)};
  Transaction transaction(*this);
  if (Status status = transaction.begin()) {
    return *status;
  }
  auto found = books.publishes.find(ticket.id);
  if (found != books.publishes.end() && found->second.holder != holder) {
    return problem(Code::badRequest, "publish " + std::to_string(ticket.id) + " belongs to another process");
  }
  Status status = transaction.append(body);
  if (!status) {
    status = database->insertSealed(ticket.id, transaction.timeMs(), bytes);
  }
  if (!status && transaction.timeMs() - purgedMs > kPurgeMs) {
    status = transaction.purge();
  }
  if (!status) {
    status = transaction.commit();
  }
  if (status) {
    return *status;
  }
  const Publish &publish = books.publishes.at(ticket.id);
  return SealedBytes{ticket.id,        publish.seq, publish.hash,     publish.digest,
                     publish.sealedMs, false,       std::move(bytes), {}};
}

Status Ledger::deliver(Ticket ticket) {
  Transaction transaction(*this);
  if (Status status = transaction.begin()) {
    return status;
  }
  auto found = books.publishes.find(ticket.id);
  if (found != books.publishes.end() && found->second.state == State::delivered) {
    return {};
  }
  if (Status status = transaction.append(Delivered{ticket.id})) {
    return status;
  }
  return transaction.commit();
}

} // namespace sojourn::owner::ledger
