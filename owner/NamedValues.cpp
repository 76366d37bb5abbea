// SPDX-License-Identifier: Apache-2.0
// Names of values: their leases, and what goes (see NamedValues.h).
#include "owner/NamedValues.h"

#include "owner/RequestError.h"
#include "owner/Text.h"
#include "runtime/Limits.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/ScopeExit.h"

#include <utility>

namespace sojourn::owner {

using llvm::Twine;

/// Names that an error lists.
static constexpr size_t kShownNames = 16;

bool NamedValues::isOver(const NamedValue &value) const {
  return value.followers == 0 && value.usedMs < environment.clockMs() - limits.nameLeaseMs;
}

void NamedValues::letGo(NamedValue &value) {
  gone.push_back(value.memory); // first what may fail
  value.memory = nullptr;
  holdings.remove(value.account, value.entry + (value.carrier ? 0 : value.held));
  value.carrier = nullptr;
  value.held = value.entry = 0;
  value.isReleased = true;
}

void NamedValues::expire(const std::string &account) {
  auto names = byAccount.find(account);
  if (names == byAccount.end()) {
    return;
  }
  for (auto at = names->second.begin(); at != names->second.end();) {
    if (isOver(*at->second)) {
      letGo(*at->second);
      at = names->second.erase(at);
    } else {
      ++at;
    }
  }
  if (names->second.empty()) {
    byAccount.erase(names);
  }
}

NamedValues::Gone NamedValues::tidy() {
  for (const std::string &account : accounts()) {
    expire(account);
  }
  return std::exchange(gone, {});
}

std::vector<std::string> NamedValues::accounts() const {
  std::vector<std::string> all;
  for (const auto &[account, names] : byAccount) {
    all.push_back(account);
  }
  return all;
}

size_t NamedValues::count() const {
  size_t count = 0;
  for (const auto &[account, names] : byAccount) {
    count += names.size();
  }
  return count;
}

size_t NamedValues::count(const std::string &account) const {
  auto names = byAccount.find(account);
  return names == byAccount.end() ? 0 : names->second.size();
}

std::shared_ptr<const NamedValue> NamedValues::look(const std::string &account, const std::string &name) const {
  auto names = byAccount.find(account);
  if (names == byAccount.end()) {
    return nullptr;
  }
  auto found = names->second.find(name);
  return found == names->second.end() ? nullptr : found->second;
}

llvm::Error NamedValues::checkAccount(const std::string &account) {
  if (!account.empty()) {
    return llvm::Error::success();
  }
  return requestError(wire::ErrorCode_Refused,
                      "a client without an identity has no names for values, because another connection could not show "
                      "that they are its own: make an identity with 'sojourn keygen FILE', ask the data owner for "
                      "'sojourn-owner client add NAME --key FILE.pub', and connect with sojourn.connect(address, "
                      "identity=FILE)");
}

void NamedValues::enter(llvm::ArrayRef<std::shared_ptr<NamedValue>> values) {
  if (values.empty()) {
    return;
  }
  // All that may fail comes first.
  gone.reserve(gone.size() + values.size());
  Names &names = byAccount[values.front()->account];
  llvm::scope_exit undo([&] { std::erase_if(names, [](const auto &each) { return !each.second; }); });
  for (const auto &value : values) {
    names.try_emplace(value->name);
  }
  undo.release();
  for (const auto &value : values) {
    std::shared_ptr<NamedValue> &place = names.find(value->name)->second;
    if (place) {
      letGo(*place);
    }
    place = value;
  }
}

/// "7 days", "90 seconds".
static std::string timeOf(int64_t milliseconds) {
  const int64_t seconds = milliseconds / 1000, days = seconds / (24 * 3600);
  return days > 1 && seconds % (24 * 3600) == 0 ? std::to_string(days) + " days" : std::to_string(seconds) + " seconds";
}

llvm::Error NamedValues::unknown(const std::string &account, const std::string &name) const {
  std::string known;
  auto names = byAccount.find(account);
  size_t count = 0;
  for (auto at = names == byAccount.end() ? Names::const_iterator() : names->second.begin();
       names != byAccount.end() && at != names->second.end() && count < kShownNames; ++at, ++count) {
    known += (count ? ", '" : "'") + at->first + "'";
  }
  const size_t all = names == byAccount.end() ? 0 : names->second.size();
  return requestError(wire::ErrorCode_Handle,
                      "no value has the name '" + printableName(name) + "'; " +
                          (all == 0      ? "none has a name"
                           : all > count ? "names are " + known + " and " + std::to_string(all - count) + " more"
                                         : "names are " + known) +
                          ". A name goes when it is released, when its value has not been used for " +
                          timeOf(limits.nameLeaseMs) + ", and when the owner's server ends");
}

llvm::Expected<std::shared_ptr<NamedValue>> NamedValues::find(const std::string &account, const std::string &name) {
  expire(account);
  if (auto names = byAccount.find(account); names != byAccount.end()) {
    if (auto found = names->second.find(name); found != names->second.end()) {
      return found->second;
    }
  }
  return unknown(account, name);
}

NamedValueInfo NamedValues::info(const NamedValue &value) const {
  return {.account = value.account,
          .name = value.name,
          .tags = value.tags,
          .type = value.type,
          .strides = value.strides,
          .shape = value.shape,
          .namedMs = value.namedMs,
          .usedMs = value.followers ? environment.clockMs() : value.usedMs,
          .leaseMs = value.followers ? limits.nameLeaseMs : value.usedMs + limits.nameLeaseMs - environment.clockMs(),
          .followers = value.followers,
          .label = value.label};
}

std::vector<NamedValueInfo> NamedValues::list(const std::string &account, const std::string &tag) {
  for (const std::string &each : account.empty() ? accounts() : std::vector<std::string>{account}) {
    expire(each);
  }
  std::vector<NamedValueInfo> all;
  for (const auto &[owner, names] : byAccount) {
    for (const auto &[name, value] : names) {
      if ((account.empty() || owner == account) && (tag.empty() || llvm::is_contained(value->tags, tag))) {
        all.push_back(info(*value));
      }
    }
  }
  return all;
}

llvm::Error NamedValues::release(const std::string &account, const std::vector<std::string> &names) {
  for (const std::string &name : names) {
    if (auto found = find(account, name); !found) {
      return found.takeError();
    }
  }
  for (const std::string &name : names) {
    auto known = byAccount.find(account);
    auto found = known == byAccount.end() ? Names::iterator() : known->second.find(name);
    if (known != byAccount.end() && found != known->second.end()) { // else the request names it twice
      letGo(*found->second);
      known->second.erase(found);
      if (known->second.empty()) {
        byAccount.erase(known);
      }
    }
  }
  return llvm::Error::success();
}

void NamedValues::releaseAll(const std::string &account) {
  if (auto names = byAccount.find(account); names != byAccount.end()) {
    for (auto &[name, value] : names->second) {
      letGo(*value);
    }
    byAccount.erase(names);
  }
}

} // namespace sojourn::owner
