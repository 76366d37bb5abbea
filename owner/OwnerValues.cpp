// SPDX-License-Identifier: Apache-2.0
// Requests about values with names, and the data owner's look at them.
#include "dialect/Bounds.h"
#include "owner/Description.h"
#include "owner/Error.h"
#include "owner/Owner.h"
#include "owner/OwnerState.h"
#include "owner/Reply.h"
#include "owner/Text.h"
#include "runtime/Limits.h"
#include "runtime/wire/Step.h"

#include "llvm/ADT/ScopeExit.h"

#include <set>

namespace sojourn::owner {

using llvm::Twine;

/// Strings of a message may share their bytes: without this a short message names gigabytes.
static llvm::Expected<std::string> shortText(const flatbuffers::String *text, const char *what) {
  const size_t size = text ? text->size() : 0;
  if (size > runtime::limits::kNameBytes) {
    return requestError(wire::ErrorCode_Malformed, Twine(what) + " has " + Twine(size) + " bytes, expected up to " +
                                                       Twine(runtime::limits::kNameBytes));
  }
  return text ? text->str() : std::string();
}

using Texts = flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>;

static llvm::Expected<std::vector<std::string>> shortTexts(const Texts *texts, size_t most, const char *what,
                                                           const char *all) {
  const size_t count = texts ? texts->size() : 0;
  if (count > most) {
    return requestError(wire::ErrorCode_Malformed,
                        "the request has " + Twine(count) + " " + all + ", expected up to " + Twine(most));
  }
  std::vector<std::string> found;
  for (size_t at = 0; at < count; ++at) {
    auto text = shortText(texts->Get(static_cast<flatbuffers::uoffset_t>(at)), what);
    if (!text) {
      return text.takeError();
    }
    found.push_back(std::move(*text));
  }
  return found;
}

/// Names in a request, at most: as many as an account may have.
static llvm::Expected<std::vector<std::string>> namesOf(const Texts *names, const Limits &limits) {
  return shortTexts(names, limits.namedValues, "a name", "names");
}

llvm::Expected<sojourn::wire::Message> OwnerState::nameValues(const wire::NameValues &request) {
  constexpr size_t kTags = 4 * Description::kTags; // each of them may be there several times
  const size_t count = request.values() ? request.values()->size() : 0;
  if (count > limits.namedValues) {
    return requestError(wire::ErrorCode_Limit, "the request names " + Twine(count) + " values, an account may have " +
                                                   Twine(limits.namedValues) + " with names");
  }
  std::vector<NamedValues::Entry> entries;
  for (size_t at = 0; at < count; ++at) {
    const wire::NameEntry &given = *request.values()->Get(static_cast<flatbuffers::uoffset_t>(at));
    auto name = shortText(given.name(), "a name");
    auto tags = name ? shortTexts(given.tags(), kTags, "a tag", "tags") : name.takeError();
    if (!tags) {
      return tags.takeError();
    }
    const size_t strides = given.strides() ? given.strides()->size() : 0;
    const size_t sizes = given.shape() ? given.shape()->size() : 0;
    if (std::max(strides, sizes) > bounds::kRank) {
      return requestError(wire::ErrorCode_Malformed, "value '" + printableName(*name) + "' has " +
                                                         Twine(std::max(strides, sizes)) +
                                                         " strides or sizes, expected up to " + Twine(bounds::kRank));
    }
    NamedValues::Entry entry{given.handle(), std::move(*name), std::move(*tags), {}, {}};
    if (strides > 0) {
      entry.strides.assign(given.strides()->begin(), given.strides()->end());
    }
    if (sizes > 0) {
      entry.shape.assign(given.shape()->begin(), given.shape()->end());
    }
    entries.push_back(std::move(entry));
  }
  auto session = SessionTurn::take(mutex, sessions, request.session());
  if (!session) {
    return session.takeError();
  }
  {
    std::lock_guard lock(mutex);
    if (llvm::Error error = sessions.name(***session, std::move(entries))) {
      return error;
    }
  }
  tidy();
  return doneReply({});
}

/// Of which tables a value was computed, as the message says it.
uint8_t OwnerState::readsOf(const LabelPtr &label) {
  constexpr uint8_t kNone = 0, kOpen = 1, kOthers = 2;
  if (!label) {
    return kOthers;
  }
  for (const Source &source : label->sources()) {
    auto policy = store->policy(source);
    if (!policy) { // it is looked up again where it counts
      llvm::consumeError(policy.takeError());
      return kOthers;
    }
    if (*policy != Policy::open) {
      return kOthers;
    }
  }
  return label->sources().empty() ? kNone : kOpen;
}

llvm::Expected<sojourn::wire::Message> OwnerState::listValues(const wire::ListValues &request, uint64_t connection) {
  auto tag = shortText(request.tag(), "a tag");
  if (!tag) {
    return tag.takeError();
  }
  std::vector<NamedValueInfo> values;
  std::vector<uint8_t> reads;
  std::string account;
  {
    std::lock_guard lock(mutex);
    auto session = sessions.find(request.session());
    if (!session) {
      return session.takeError();
    }
    account = (*session)->account;
    if (!account.empty()) { // an empty one means all
      values = sessions.names.list(account, *tag);
    }
    for (const NamedValueInfo &value : values) {
      reads.push_back(readsOf(value.label));
    }
  }
  auto reply = namedValuesReply(values, reads, limits.nameLeaseMs);
  return connection ? held(account, std::move(reply)) : llvm::Expected<sojourn::wire::Message>(std::move(reply));
}

/// Values are looked up, then adopted by the session's worker without the mutex, then entered: a release or a
/// commit meanwhile came after.
llvm::Expected<sojourn::wire::Message> OwnerState::takeValues(const wire::TakeValues &request) {
  auto names = namesOf(request.names(), limits);
  if (!names) {
    return names.takeError();
  }
  const std::vector<uint64_t> ids = sojourn::wire::numbersOf(request.as());
  auto turn = SessionTurn::take(mutex, sessions, request.session());
  if (!turn) {
    return turn.takeError();
  }
  Session &own = ***turn;
  if (llvm::Error error = NamedValues::checkAccount(own.account)) {
    return error;
  }
  if (own.group) {
    return requestError(wire::ErrorCode_Refused, "a session of a group of owners cannot take values by name: take them "
                                                 "in a session with their owner alone");
  }
  if (ids.size() != names->size() || std::set(ids.begin(), ids.end()).size() != ids.size()) {
    return requestError(wire::ErrorCode_Malformed, Twine(names->size()) + " values get " + Twine(ids.size()) +
                                                       " handles, expected as many, each of them once");
  }
  struct Taken {
    uint64_t id;
    std::shared_ptr<NamedValue> value;
    Handle handle;
  };
  std::vector<Taken> taken;
  std::vector<WorkerStub::Adopted> adopted;
  std::vector<NamedValueInfo> infos;
  std::vector<uint8_t> reads;
  size_t bytes = 0;
  uint64_t next = own.worker.newIds(ids.size());
  {
    std::lock_guard lock(mutex);
    size_t freed = 0;
    for (size_t at = 0; at < ids.size(); ++at) {
      auto found = sessions.names.find(own.account, (*names)[at]);
      if (!found) {
        return found.takeError();
      }
      const std::shared_ptr<NamedValue> &value = *found;
      infos.push_back(sessions.names.info(*value));
      reads.push_back(readsOf(value->label));
      if (auto known = own.handles.find(ids[at]); known != own.handles.end() && known->second.named == value) {
        continue; // the request came twice
      }
      if (own.hasHandle(ids[at])) {
        return requestError(wire::ErrorCode_Malformed,
                            "handle id " + Twine(ids[at]) + " is in use, expected one that this session does not have");
      }
      if (!value->label) {
        return requestError(wire::ErrorCode_Refused, "value '" + value->name + "' is of unknown origin, and stays");
      }
      Handle handle{{.type = value->type, .id = next++}, value->memory, value->label};
      handle.held = heldBytes(value->type, value->label);
      bytes += handle.held;
      freed += value->carrier || llvm::any_of(taken, [&](const Taken &other) { return other.value == value; })
                   ? 0
                   : value->held;
      adopted.push_back({handle.value, handle.memory});
      taken.push_back({ids[at], value, std::move(handle)});
    }
    if (own.handles.size() + taken.size() > limits.handlesPerSession) {
      return requestError(wire::ErrorCode_Limit, "this owner holds up to " + Twine(limits.handlesPerSession) +
                                                     " handles per session: delete tensors that are no longer needed");
    }
    if (llvm::Error error = sessions.holdings.checkKept(own.account, bytes, std::min(freed, bytes),
                                                        "the " + Twine(bytes) + " bytes of the values do not fit")) {
      return error;
    }
    sessions.hold(own, bytes);
  }
  llvm::scope_exit giveBack([&] {
    std::lock_guard lock(mutex);
    sessions.letGo(own, bytes);
  });
  if (!adopted.empty()) {
    const llvm::scope_exit rest([&] { own.worker.rest(); });
    llvm::Error error = Sessions::wake(own, nullptr);
    if (error = error ? std::move(error) : own.worker.adopt(adopted); error) {
      return error;
    }
  }
  auto reply = namedValuesReply(infos, reads, limits.nameLeaseMs);
  std::lock_guard lock(mutex);
  own.handles.reserve(own.handles.size() + taken.size());
  for (Taken &each : taken) {
    bytes -= each.handle.held; // it is the handle's from here on
    Handle &handle = own.handles.try_emplace(each.id, std::move(each.handle)).first->second;
    sessions.follow(own, each.id, handle, each.value);
  }
  giveBack.release();
  return reply;
}

llvm::Expected<sojourn::wire::Message> OwnerState::releaseNames(const wire::ReleaseNames &request) {
  auto names = namesOf(request.names(), limits);
  if (!names) {
    return names.takeError();
  }
  auto turn = SessionTurn::take(mutex, sessions, request.session());
  if (!turn) {
    return turn.takeError();
  }
  {
    std::lock_guard lock(mutex);
    const std::string &account = (**turn)->account;
    llvm::Error error = NamedValues::checkAccount(account);
    error = error ? std::move(error) : sessions.names.release(account, *names);
    if (error) {
      return error;
    }
  }
  tidy(); // the bytes are back when the client hears of it
  return doneReply({});
}

std::vector<NamedValueInfo> Owner::namedValues(const std::string &client) {
  std::lock_guard lock(state->mutex);
  return state->sessions.names.list(client, "");
}

llvm::Error Owner::releaseName(const std::string &client, const std::string &name) {
  {
    std::lock_guard lock(state->mutex);
    if (llvm::Error error = state->sessions.names.release(client, {name})) {
      return failure("of client '" + client + "' " + takeRequestError(std::move(error)).message);
    }
  }
  state->tidy();
  return llvm::Error::success();
}

} // namespace sojourn::owner
