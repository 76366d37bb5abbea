// SPDX-License-Identifier: Apache-2.0
// The first check of a step (see Access.h).
#include "owner/Access.h"

#include "owner/Peer.h"
#include "owner/Text.h"
#include "runtime/Limits.h"

#include <set>
#include <vector>

namespace sojourn::owner {

using llvm::Twine;

llvm::Error noAccess(const std::string &account, const std::string &dataset, const std::string &what) {
  std::string name = printableName(dataset);
  // Whoever reads it may paste it: a name that no table can have is no part of a command.
  const bool isName = Store::isName(dataset), hasSpace = name.find(' ') != std::string::npos;
  std::string command = "sojourn-owner access " + (!isName ? "TABLE" : hasSpace ? "'" + name + "'" : name) + " --add ";
  return requestError(
      wire::ErrorCode_Refused,
      account.empty()
          ? "a client without an identity has no access to table '" + name + "'" + what +
                "; connect with sojourn.connect(address, identity=FILE), using an identity that the data owner knows, "
                "and ask the data owner for: " +
                command + "CLIENT"
          : "client '" + account + "' has no access to table '" + name + "'" + what +
                "; ask the data owner for: " + command + account);
}

/// Those behind the states that a step binds.
static std::set<Source> sourcesOf(const StepPart &part, const Session &session, bool &hasUnknown) {
  std::set<const Label *> labels;
  std::set<Source> sources;
  for (size_t at = 0; at < length(part.states); ++at) {
    auto found = session.handles.find(part.states->Get(static_cast<flatbuffers::uoffset_t>(at)));
    // A handle that is not there is refused when it is bound; a value without a label never leaves.
    const Label *label = found == session.handles.end() ? nullptr : found->second.label.get();
    hasUnknown |= found != session.handles.end() && !label;
    if (label && labels.insert(label).second) {
      sources.insert(label->sources().begin(), label->sources().end());
    }
  }
  return sources;
}

/// A run of the session on this dataset that has paid for more steps, else the one that the step belongs to; or null.
static const RunAccount *runOf(const wire::Step &request, const Session &session, const std::string &line) {
  const uint64_t number = request.spending() ? request.spending()->run() : 0;
  const RunAccount *own = nullptr;
  for (const auto &[key, account] : session.runs) {
    if (!account || !account->run || key.second.find(line) == std::string::npos) {
      continue;
    }
    if (account->run->ahead() > 0) {
      return account.get();
    }
    own = key.first == number ? account.get() : own;
  }
  return own;
}

/// Strings of a message may share their bytes: without this a short message names gigabytes.
static llvm::Error checkTables(const StepPart &part) {
  if (length(part.tables) > runtime::limits::kTables) {
    return requestError(wire::ErrorCode_Malformed, "the step binds " + Twine(length(part.tables)) +
                                                       " tables, a program has up to " +
                                                       Twine(runtime::limits::kTables));
  }
  for (size_t at = 0; at < length(part.tables); ++at) {
    const auto *table = part.tables->Get(static_cast<flatbuffers::uoffset_t>(at));
    for (const flatbuffers::String *text : {table->name(), table->version()}) {
      if (text && text->size() > runtime::limits::kNameBytes) {
        return requestError(wire::ErrorCode_Malformed, "table " + Twine(at) + " has a name or version of " +
                                                           Twine(text->size()) + " bytes, expected up to " +
                                                           Twine(runtime::limits::kNameBytes));
      }
    }
  }
  return llvm::Error::success();
}

llvm::Expected<PrivateReach> checkAccess(OwnerBooks &books, const StepMachine &machine, const wire::Step &request,
                                         const StepPart &part, const Session &session) {
  if (llvm::Error error = checkTables(part)) {
    return error;
  }
  PrivateReach reach;
  const std::string &account = session.account;
  if (account == kLocalClient || session.group) { // tables of a joint step are those of all members: StepRun looks
    return reach;
  }
  std::vector<std::pair<std::string, std::string>> tables; // names and versions, each once
  for (size_t at = 0; at < length(part.tables); ++at) {
    const auto *table = part.tables->Get(static_cast<flatbuffers::uoffset_t>(at));
    std::pair named(table->name() ? table->name()->str() : "", table->version() ? table->version()->str() : "");
    if (tables.empty() || tables.back() != named) {
      tables.push_back(std::move(named));
    }
  }
  llvm::sort(tables);
  tables.erase(llvm::unique(tables), tables.end());
  std::vector<std::string> charged;
  std::set<Source> sources = sourcesOf(part, session, reach.isPrivate);
  const signing::PublicKey &own = books.store->owner();
  reach.isPrivate |= llvm::any_of(sources, [&](const Source &source) { return source.owner != own; });
  if (reach.isPrivate) {
    reach.tables.assign(session.reached.begin(), session.reached.end());
  }
  if (tables.empty() && sources.empty() && !reach.isPrivate) {
    return reach;
  }
  {
    std::lock_guard lock(books.mutex);
    auto check = [&](const std::string &name, const std::string &version, const char *what) -> llvm::Error {
      auto hasAccess = books.store->hasAccess(name, account);
      if (!hasAccess || *hasAccess) {
        return hasAccess.takeError();
      }
      auto became = books.store->whatBecame(name, version, account);
      if (!became || !became->empty()) {
        return became ? requestError(wire::ErrorCode_Dataset, *became) : became.takeError();
      }
      return noAccess(account, name, what);
    };
    for (const auto &[name, version] : tables) {
      if (llvm::Error error = check(name, version, "")) {
        return error;
      }
      auto found = books.store->find(name);
      if (!found) {
        return unreadableTable(books, machine.environment, account, found.takeError());
      }
      auto policy = *found ? books.store->policy((*found)->source()) : Policy::privateOnly;
      if (!policy) {
        return policy.takeError();
      }
      if (*policy != Policy::open) {
        charged.push_back(name);
      }
    }
    for (const Source &source : sources) {
      auto policy =
          source.owner == own ? books.store->policy(source) : Policy::open; // another owner's access is its own
      if (!policy) {
        return policy.takeError();
      }
      if (*policy == Policy::open) {
        continue;
      }
      auto place = books.store->catalogue().place(source.version);
      if (!place) {
        return place.takeError();
      }
      if (*place && (*place)->isRemoved) {
        auto became = books.store->whatBecame(source.name, source.version, account);
        return became ? requestError(wire::ErrorCode_Dataset, *became) : became.takeError();
      }
      const std::string &name = *place ? (*place)->name : source.name;
      if (llvm::Error error = check(name, source.version, ", from which a value that this step uses was computed")) {
        return error;
      }
      reach.tables.push_back(name);
    }
  }
  charged.erase(llvm::unique(charged), charged.end()); // of one name there may be two versions
  for (const std::string &name : charged) {
    const RunAccount *run = runOf(request, session, books.store->ownerText() + ' ' + name + '\n');
    if (llvm::Error error = books.accounts->checkLeft(account, name, run)) {
      return error;
    }
  }
  llvm::append_range(reach.tables, charged);
  llvm::sort(reach.tables);
  reach.tables.erase(llvm::unique(reach.tables), reach.tables.end());
  for (const std::string &name : reach.tables) {
    if (llvm::Error error = books.accounts->checkOverruns(account, name, machine.limits.overrunBits)) {
      return error;
    }
  }
  reach.isPrivate |= !reach.tables.empty();
  return reach;
}

} // namespace sojourn::owner
