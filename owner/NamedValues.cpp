// SPDX-License-Identifier: Apache-2.0
// Names of values: checks, leases, and whose bytes count (see NamedValues.h).
#include "owner/NamedValues.h"

#include "owner/Description.h"
#include "owner/RequestError.h"
#include "owner/Session.h"
#include "owner/Store.h"
#include "owner/Text.h"
#include "runtime/Limits.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringExtras.h"

#include <set>
#include <utility>

namespace sojourn::owner {

using llvm::Twine;

/// Names that an error lists.
static constexpr size_t kShownNames = 16;

/// Memory of the record of a value, its name and its tags, in bytes.
static size_t entryBytes(const NamedValues::Entry &entry) {
  constexpr size_t kRecord = 512, kText = 64;
  size_t bytes = kRecord + 2 * entry.name.size() + 8 * entry.strides.size();
  for (const std::string &tag : entry.tags) {
    bytes += kText + tag.size();
  }
  return bytes;
}

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

/// Brings names and tags to their form, too.
llvm::Error NamedValues::check(const Session &session, std::vector<Entry> &entries) {
  if (llvm::Error error = checkAccount(session.account)) {
    return error;
  }
  if (session.group) {
    return requestError(wire::ErrorCode_Refused, "a session of a group of owners cannot name values: name the value in "
                                                 "a session with its owner alone");
  }
  std::set<std::string> names;
  std::set<uint64_t> handles;
  for (Entry &entry : entries) {
    if (!Store::isName(entry.name)) {
      return requestError(wire::ErrorCode_Malformed,
                          "'" + printableName(entry.name) + "' is not a valid name for a value: expected 1 to " +
                              Twine(runtime::limits::kNameBytes) + " letters, digits, spaces and - _ . characters");
    }
    auto described = checkedDescription("", entry.tags);
    if (!described) {
      return requestError(wire::ErrorCode_Malformed,
                          "value '" + entry.name + "': " + llvm::toString(described.takeError()));
    }
    entry.tags = std::move(described->tags);
    auto handle = session.handles.find(entry.handle);
    if (handle == session.handles.end() || !handle->second.memory) {
      return requestError(wire::ErrorCode_Handle, "cannot name handle " + Twine(entry.handle) + " '" + entry.name +
                                                      "': this session has no such handle");
    }
    if (!names.insert(entry.name).second || !handles.insert(entry.handle).second) {
      return requestError(wire::ErrorCode_Malformed, "the request names two values '" + entry.name +
                                                         "', or one value twice; expected one name for each value");
    }
    const auto &named = handle->second.named;
    if (named && !named->isReleased && named->name != entry.name) {
      return requestError(wire::ErrorCode_Malformed, "this value has the name '" + named->name +
                                                         "' already, which follows it: name a copy '" + entry.name +
                                                         "', tensor.clone(), or release '" + named->name + "' first");
    }
    if (!handle->second.label) {
      return requestError(wire::ErrorCode_Refused, "a value of unknown origin cannot have a name");
    }
    if (!entry.strides.empty() && entry.strides.size() != handle->second.value.type.dims.size()) {
      return requestError(wire::ErrorCode_Malformed,
                          "value '" + entry.name + "' has " + Twine(handle->second.value.type.dims.size()) +
                              " dimensions, and the request gives " + Twine(entry.strides.size()) + " strides");
    }
  }
  return checkRoom(session, entries);
}

llvm::Error NamedValues::checkRoom(const Session &session, llvm::ArrayRef<Entry> entries) {
  auto found = byAccount.find(session.account);
  static const Names none;
  const Names &names = found == byAccount.end() ? none : found->second;
  size_t bytes = 0, freed = 0, more = 0;
  for (const Entry &entry : entries) {
    bytes += entryBytes(entry);
    auto known = names.find(entry.name);
    more += known == names.end() ? 1 : 0;
    if (known != names.end()) {
      const bool stays = session.handles.at(entry.handle).named == known->second;
      freed += known->second->entry + (stays || known->second->carrier ? 0 : known->second->held);
    }
  }
  if (more > 0 && names.size() + more > limits.namedValues) {
    return requestError(wire::ErrorCode_Limit, "you have " + Twine(names.size()) + " values with names, and " +
                                                   Twine(more) + " more pass the limit of " +
                                                   Twine(limits.namedValues) +
                                                   "; release some of them: owner.release(NAME)");
  }
  return holdings.checkKept(session.account, bytes, freed,
                            Twine(entries.size()) + (entries.size() == 1 ? " name does" : " names do") + " not fit");
}

llvm::Error NamedValues::name(Session &session, std::vector<Entry> entries) {
  expire(session.account);
  if (llvm::Error error = check(session, entries)) {
    return error;
  }
  if (entries.empty()) {
    return llvm::Error::success();
  }
  // All that may fail comes first.
  gone.reserve(gone.size() + entries.size());
  std::vector<std::shared_ptr<NamedValue>> values;
  for (Entry &entry : entries) {
    const Handle &handle = session.handles.at(entry.handle);
    auto value = std::make_shared<NamedValue>();
    value->account = session.account;
    value->name = entry.name;
    value->type = handle.value.type;
    value->memory = handle.memory;
    value->label = handle.label;
    value->entry = entryBytes(entry);
    value->strides = std::move(entry.strides);
    value->tags = std::move(entry.tags);
    value->namedMs = value->usedMs = environment.clockMs();
    values.push_back(std::move(value));
  }
  Names &names = byAccount[session.account];
  llvm::scope_exit undo([&] {
    std::erase_if(names, [](const auto &each) { return !each.second; });
    for (const Entry &entry : entries) {
      if (!session.handles.at(entry.handle).named) {
        session.named.erase(entry.handle);
      }
    }
    if (names.empty()) {
      byAccount.erase(session.account);
    }
  });
  for (const Entry &entry : entries) {
    names.try_emplace(entry.name);
    session.named.insert(entry.handle);
  }
  size_t bytes = 0;
  for (const auto &value : values) {
    bytes += value->entry;
  }
  holdings.add(session.account, bytes);
  undo.release();
  for (size_t at = 0; at < entries.size(); ++at) {
    std::shared_ptr<NamedValue> &place = names.find(entries[at].name)->second;
    Handle &handle = session.handles.at(entries[at].handle);
    if (place && handle.named == place) { // again: its tags may be others
      NamedValue &known = *place;
      holdings.remove(known.account, known.entry);
      known.entry = values[at]->entry;
      known.tags = std::move(values[at]->tags);
      known.strides = std::move(values[at]->strides);
      known.namedMs = known.usedMs = values[at]->namedMs;
      continue;
    }
    if (place) {
      letGo(*place);
    }
    if (handle.named) { // of a name that has gone
      leave(session, handle);
    }
    place = values[at];
    follow(session, entries[at].handle, handle, place);
    place->carrier = &handle;
  }
  return llvm::Error::success();
}

void NamedValues::follow(Session &session, uint64_t id, Handle &handle, const std::shared_ptr<NamedValue> &value) {
  session.named.insert(id); // first what may fail
  handle.named = value;
  ++value->followers;
  value->usedMs = environment.clockMs();
  if (!value->isReleased && !value->carrier && value->memory == handle.memory) { // the same bytes count once
    holdings.remove(value->account, value->held);
    value->held = 0;
    value->carrier = &handle;
  }
}

void NamedValues::leave(Session &session, Handle &handle) noexcept {
  const std::shared_ptr<NamedValue> value = std::move(handle.named);
  --value->followers;
  value->usedMs = environment.clockMs();
  if (value->carrier == &handle) { // its bytes go on counting for the account, no longer for the session
    value->carrier = nullptr;
    value->held = std::exchange(handle.held, 0);
    session.held -= value->held;
  }
}

void NamedValues::committed(const Handle &handle, const LabelPtr &label, DroppedValues &dropped) noexcept {
  // Without memory it is a state that a later step of the same run replaced.
  if (!handle.named || handle.named->isReleased || !handle.memory) {
    return;
  }
  NamedValue &value = *handle.named;
  if (value.carrier != &handle) {
    holdings.remove(value.account, value.carrier ? 0 : value.held);
    value.held = 0;
    value.carrier = &handle;
  }
  dropped.memory.push_back(std::exchange(value.memory, handle.memory));
  value.label = label;
  value.usedMs = environment.clockMs();
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
                          ". A name goes when it is released, when nobody has used its value for " +
                          Twine(limits.nameLeaseMs / 1000) + " seconds, and when the owner's server ends");
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
