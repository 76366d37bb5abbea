// SPDX-License-Identifier: Apache-2.0
// Sessions and values with names: which handle follows which value, and which of both counts the bytes.
#include "owner/Session.h"

#include "owner/Description.h"
#include "owner/RequestError.h"
#include "owner/Store.h"
#include "owner/Text.h"
#include "runtime/Limits.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/ScopeExit.h"

#include <set>
#include <utility>

namespace sojourn::owner {

using llvm::Twine;
using Entry = NamedValues::Entry;

/// Memory of the record of a value, its name and its tags, in bytes.
static size_t entryBytes(const Entry &entry) {
  constexpr size_t kRecord = 512, kText = 64;
  size_t bytes = kRecord + 2 * entry.name.size() + 8 * (entry.strides.size() + entry.shape.size());
  for (const std::string &tag : entry.tags) {
    bytes += kText + tag.size();
  }
  return bytes;
}

/// Of these sizes; -1 where there are none such.
static int64_t elementsOf(llvm::ArrayRef<int64_t> sizes) {
  int64_t count = 1;
  for (int64_t size : sizes) {
    if (size < 0 || __builtin_mul_overflow(count, size, &count)) {
      return -1;
    }
  }
  return count;
}

/// One value and its name; brings tags to their form.
static llvm::Error checkEntry(const Session &session, Entry &entry) {
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
  auto found = session.handles.find(entry.handle);
  if (found == session.handles.end() || !found->second.memory) {
    return requestError(wire::ErrorCode_Handle, "cannot name handle " + Twine(entry.handle) + " '" + entry.name +
                                                    "': this session has no such handle");
  }
  const Handle &handle = found->second;
  if (handle.named && !handle.named->isReleased && handle.named->name != entry.name) {
    return requestError(wire::ErrorCode_Malformed, "this value has the name '" + handle.named->name +
                                                       "' already, which follows it: name a copy '" + entry.name +
                                                       "', tensor.clone(), or release '" + handle.named->name +
                                                       "' first");
  }
  if (!handle.label) {
    return requestError(wire::ErrorCode_Refused, "a value of unknown origin cannot have a name");
  }
  if (!entry.strides.empty() && entry.strides.size() != handle.value.type.dims.size()) {
    return requestError(wire::ErrorCode_Malformed,
                        "value '" + entry.name + "' has " + Twine(handle.value.type.dims.size()) +
                            " dimensions, and the request gives " + Twine(entry.strides.size()) + " strides");
  }
  const int64_t count = elementsOf(handle.value.type.dims);
  if (!entry.shape.empty() && elementsOf(entry.shape) != count) {
    return requestError(wire::ErrorCode_Malformed, "value '" + entry.name + "' has " + Twine(count) +
                                                       " elements, and the shape in the request has others");
  }
  return llvm::Error::success();
}

llvm::Error Sessions::checkNames(const Session &session, std::vector<Entry> &entries) const {
  if (llvm::Error error = NamedValues::checkAccount(session.account)) {
    return error;
  }
  if (session.group) {
    return requestError(wire::ErrorCode_Refused, "a session of a group of owners cannot name values: name the value in "
                                                 "a session with its owner alone");
  }
  std::set<std::string> labels;
  std::set<uint64_t> handles;
  size_t bytes = 0, freed = 0, more = 0;
  for (Entry &entry : entries) {
    if (llvm::Error error = checkEntry(session, entry)) {
      return error;
    }
    if (!labels.insert(entry.name).second || !handles.insert(entry.handle).second) {
      return requestError(wire::ErrorCode_Malformed, "the request names two values '" + entry.name +
                                                         "', or one value twice; expected one name for each value");
    }
    bytes += entryBytes(entry);
    if (const auto known = names.look(session.account, entry.name)) {
      const bool stays = session.handles.at(entry.handle).named == known;
      freed += known->entry + (stays || known->carrier ? 0 : known->held);
    } else {
      ++more;
    }
  }
  if (const size_t own = names.count(session.account); more > 0 && own + more > limits.namedValues) {
    return requestError(wire::ErrorCode_Limit, "you have " + Twine(own) + " values with names, and " + Twine(more) +
                                                   " more pass the limit of " + Twine(limits.namedValues) +
                                                   "; release some of them: owner.release(NAME)");
  }
  return holdings.checkKept(session.account, bytes, freed,
                            Twine(entries.size()) + (entries.size() == 1 ? " name does" : " names do") + " not fit");
}

llvm::Error Sessions::name(Session &session, std::vector<Entry> entries) {
  names.expire(session.account);
  if (llvm::Error error = checkNames(session, entries)) {
    return error;
  }
  // All that may fail comes first.
  std::vector<std::shared_ptr<NamedValue>> values, entered;
  size_t bytes = 0;
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
    value->shape = std::move(entry.shape);
    value->tags = std::move(entry.tags);
    value->namedMs = value->usedMs = environment.clockMs();
    bytes += value->entry;
    if (!handle.named || handle.named->isReleased) {
      entered.push_back(value);
    }
    values.push_back(std::move(value));
    session.named.insert(entry.handle);
  }
  holdings.add(session.account, bytes);
  llvm::scope_exit giveBack([&] { holdings.remove(session.account, bytes); });
  names.enter(entered);
  giveBack.release();
  for (size_t at = 0; at < entries.size(); ++at) {
    Handle &handle = session.handles.at(entries[at].handle);
    if (handle.named && !handle.named->isReleased) { // the same name again: its tags may be others
      NamedValue &known = *handle.named;
      holdings.remove(known.account, std::exchange(known.entry, values[at]->entry));
      known.tags = std::move(values[at]->tags);
      known.strides = std::move(values[at]->strides);
      known.shape = std::move(values[at]->shape);
      known.namedMs = known.usedMs = values[at]->namedMs;
      continue;
    }
    if (handle.named) { // of a name that has gone
      leaveName(session, handle);
    }
    ++values[at]->followers;
    values[at]->carrier = &handle;
    handle.named = std::move(values[at]);
  }
  return llvm::Error::success();
}

void Sessions::follow(Session &session, uint64_t id, Handle &handle, const std::shared_ptr<NamedValue> &value) {
  session.named.insert(id); // first what may fail
  handle.named = value;
  ++value->followers;
  value->usedMs = environment.clockMs();
  if (!value->isReleased && !value->carrier && value->memory == handle.memory) { // the same bytes count once
    holdings.remove(value->account, std::exchange(value->held, 0));
    value->carrier = &handle;
  }
}

void Sessions::leaveName(Session &session, Handle &handle) noexcept {
  const std::shared_ptr<NamedValue> value = std::exchange(handle.named, nullptr);
  --value->followers;
  value->usedMs = environment.clockMs();
  if (value->carrier == &handle) { // its bytes go on counting for the account, no longer for the session
    value->carrier = nullptr;
    value->held = std::exchange(handle.held, 0);
    session.held -= value->held;
  }
}

void Sessions::leaveNames(Session &session) noexcept {
  for (uint64_t id : session.named) {
    if (auto found = session.handles.find(id); found != session.handles.end() && found->second.named) {
      leaveName(session, found->second);
    }
  }
}

void Sessions::committed(Session &session, const Handle &handle, const LabelPtr &label) noexcept {
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
  session.dropped.memory.push_back(std::exchange(value.memory, handle.memory));
  value.label = label;
  value.usedMs = environment.clockMs();
}

} // namespace sojourn::owner
