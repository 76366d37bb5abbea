// SPDX-License-Identifier: Apache-2.0
// Steps that took longer than their time: what each may have told a client about rows is counted until the owner
// forgives it.
#include "owner/ledger/Transaction.h"

#include <algorithm>
#include <limits>

namespace sojourn::owner::ledger {

const std::string &Books::nameNow(const std::string &dataset) const {
  auto now = formerNames.find(dataset);
  return now == formerNames.end() ? dataset : now->second;
}

Status Books::enter(const Entry &, const Overruns &body) {
  // A client or dataset may have been removed, and a grant taken away, since the step began: what it told counts
  // anyway.
  if (!clients.contains(body.client) && !removedClients.contains(body.client)) {
    return problem(Code::unknownClient, "no client is named '" + body.client + "'; the data owner adds it with: " +
                                            "sojourn-owner client add " + body.client + " --key FILE");
  }
  if (!datasets.contains(body.dataset)) {
    return problem(Code::unknownDataset, "no private dataset is named '" + body.dataset + "'");
  }
  if (body.bits == 0) {
    return problem(Code::badRequest, "overruns of 0 bits; expected 1 bit or more");
  }
  uint64_t &count = overruns[{body.client, body.dataset}];
  count += std::min(body.bits, std::numeric_limits<uint64_t>::max() - count);
  return {};
}

Status Books::enter(const Entry &, const OverrunsForgiven &body) {
  if (!clients.contains(body.client)) {
    return problem(Code::unknownClient,
                   "no client is named '" + body.client + "'; 'sojourn-owner client list' lists them");
  }
  if (Status status = checkPresent(body.dataset)) {
    return status;
  }
  if (!datasets.contains(body.dataset)) {
    return problem(Code::unknownDataset, "no private dataset is named '" + body.dataset + "'");
  }
  if (overruns.erase({body.client, body.dataset}) == 0) {
    return problem(Code::badRequest, "client '" + body.client + "' has no overruns on dataset '" + body.dataset +
                                         "'; 'sojourn-owner budget show' lists all overruns");
  }
  return {};
}

void Books::moveOverruns(const std::string &from, const std::string &to) {
  for (auto at = overruns.begin(); at != overruns.end();) {
    auto next = std::next(at);
    if (at->first.second == from) {
      auto moved = overruns.extract(at);
      moved.key().second = to;
      overruns.insert(std::move(moved));
    }
    at = next;
  }
}

Status Ledger::addOverruns(const std::string &client, const std::string &dataset, uint64_t bits) {
  if (Status status = checkCharge(options, "", {}, {})) {
    return status;
  }
  Transaction transaction(*this);
  if (Status status = transaction.begin()) {
    return status;
  }
  if (Status status = transaction.append(Overruns{client, books.nameNow(dataset), bits})) {
    return status;
  }
  return transaction.commit();
}

Result<uint64_t> Ledger::overruns(const std::string &client, const std::string &dataset) {
  if (Status status = elsewhere()) {
    return *status;
  }
  std::lock_guard guard(mutex);
  if (Status status = broken ? broken : catchUp()) {
    return *status;
  }
  auto found = books.overruns.find({client, books.nameNow(dataset)});
  return found == books.overruns.end() ? uint64_t{0} : found->second;
}

Status Ledger::forgiveOverruns(const std::string &client, const std::string &dataset) {
  return change(OverrunsForgiven{client, dataset});
}

Result<std::vector<OverrunsLine>> Ledger::overrunsLines() {
  if (Status status = elsewhere()) {
    return *status;
  }
  std::lock_guard guard(mutex);
  if (Status status = broken ? broken : catchUp()) {
    return *status;
  }
  std::vector<OverrunsLine> lines;
  for (const auto &[names, bits] : books.overruns) {
    lines.push_back({names.first, names.second, bits});
  }
  return lines;
}

} // namespace sojourn::owner::ledger
