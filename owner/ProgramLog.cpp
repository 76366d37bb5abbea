// SPDX-License-Identifier: Apache-2.0
// Counting runs cheaply without losing a program, and room for each account.
#include "owner/ProgramLog.h"

#include "owner/Peer.h"
#include "owner/ProgramArchive.h"
#include "owner/RequestError.h"

#include <algorithm>

namespace sojourn::owner {

using llvm::Twine;

/// How often the catalogue is asked whether entries have left the log: a look takes as long as a part of a small step.
static constexpr std::chrono::milliseconds kLook{100};

std::string ProgramLog::archiveFolder(const Environment &environment) {
  return environment.storeDirectory.empty() ? "" : environment.storeDirectory + "/programs";
}

Catalogue::LogSize ProgramLog::room(const std::string &account) const {
  const size_t part = account == kLocalClient ? 1 : account.empty() ? 20 : 10;
  return {limits.loggedPrograms / part, limits.loggedBytes / part};
}

/// Forgets what it knows of entries if some have left the log, whoever moved them.
llvm::Error ProgramLog::refresh() {
  auto now = catalogue.moves();
  if (!now) {
    return now.takeError();
  }
  lookAt = std::chrono::steady_clock::now() + kLook;
  if (*now == moves) {
    return llvm::Error::success();
  }
  if (llvm::Error error = flush()) {
    return error;
  }
  pending.clear();
  known.clear();
  moves = *now;
  return llvm::Error::success();
}

/// A part of a full room goes to an archive; returns how many programs. Others wait meanwhile, so the part is small: of
/// twice the bytes of `more`, where these are many.
llvm::Expected<size_t> ProgramLog::moveOldest(const std::string &account, const Catalogue::LogSize &more) {
  constexpr size_t kPrograms = 64, kBytes = size_t{4} << 20;
  const std::string folder = archiveFolder(environment);
  if (folder.empty()) {
    return 0;
  }
  auto path = ProgramArchive::next(folder, account, limits.archivedBytes);
  if (!path) {
    return path.takeError();
  }
  const Catalogue::LogSize all = room(account);
  auto moved = catalogue.archive(*path, &account,
                                 {std::max<size_t>(std::min(all.programs / 8, kPrograms), 1),
                                  std::max(std::min(all.bytes / 8 + 1, kBytes), 2 * more.bytes)});
  if (moved && environment.log) {
    environment.log((Twine(*moved) + " programs of " + account + " went to the archive '" + *path + "'").str());
  }
  return moved;
}

/// False if there is none; the log says why. A log of before, which holds far more than a room, shrinks by a part with
/// each new program, since others wait.
llvm::Expected<bool> ProgramLog::makeRoom(const std::string &account, const Catalogue::LogSize &more) {
  const Catalogue::LogSize all = room(account);
  auto used = catalogue.logSize(account);
  if (!used) {
    return used.takeError();
  }
  if (used->programs + more.programs <= all.programs && used->bytes + more.bytes <= all.bytes) {
    return true;
  }
  if (more.programs > all.programs || more.bytes > all.bytes) {
    return false;
  }
  if (llvm::Error error = flush()) {
    return error;
  }
  if (account.empty()) {
    // More than this one needs, so that not every program drops another.
    llvm::Error error = catalogue.dropOldest({std::min(all.programs - more.programs, all.programs - all.programs / 8),
                                              std::min(all.bytes - more.bytes, all.bytes - all.bytes / 8)});
    return error ? llvm::Expected<bool>(std::move(error)) : true;
  }
  constexpr int kParts = 8;
  auto moved = moveOldest(account, more);
  for (int part = 1; part < kParts && moved && *moved > 0; ++part) {
    used = catalogue.logSize(account);
    if (!used) {
      return used.takeError();
    }
    if (used->programs + more.programs <= all.programs && used->bytes + more.bytes <= all.bytes) {
      break;
    }
    moved = moveOldest(account, more);
  }
  if (moved && *moved > 0) {
    return true;
  }
  std::string reason = moved ? "" : llvm::toString(moved.takeError());
  if (!reason.empty() && environment.log) {
    environment.log("the log of programs has no room for " + account + ": " + reason);
  }
  return false;
}

static llvm::Error isFull(const std::string &account, const Catalogue::LogSize &used, const Catalogue::LogSize &all) {
  std::string share = (Twine(used.programs) + " programs with " + Twine(used.bytes) + " bytes of text, of " +
                       Twine(all.programs) + " programs and " + Twine(all.bytes) + " bytes")
                          .str();
  return requestError(wire::ErrorCode_Limit,
                      (account.empty() ? "the share of clients without an identity in the log of programs is full: "
                                       : "your share of the log of programs is full: ") +
                          share +
                          ", and a new program that cannot be logged does not run; programs that ran before still do. "
                          "Ask the data owner for: sojourn-owner programs --archive FILE");
}

/// What stands in the log is never refused: where there is no room, its new lines and terms are not kept, and a line
/// says so.
llvm::Error ProgramLog::enter(const ProgramRecord &record, const runtime::ProgramHash &digest) {
  const std::string account = Catalogue::accountOf(record.client);
  auto there = catalogue.logged(record, digest);
  if (!there) {
    return there.takeError();
  }
  if (there->program && there->text && there->report) {
    return catalogue.addRuns(record);
  }
  auto hasRoom = makeRoom(account, {there->program ? size_t{0} : 1, (there->text ? 0 : record.text.size()) +
                                                                        (there->report ? 0 : record.privacy.size())});
  if (!hasRoom) {
    return hasRoom.takeError();
  }
  there = catalogue.logged(record, digest); // its own entry may have gone to make the room
  if (!there) {
    return there.takeError();
  }
  ProgramRecord entry = record;
  runtime::ProgramHash lines = digest;
  if (!*hasRoom) {
    if (!there->program) {
      auto used = catalogue.logSize(account);
      return used ? isFull(account, *used, room(account)) : used.takeError();
    }
    if (!there->text) {
      entry.text = "// further lines were not kept: the share of the log was full\n";
      lines = {};
    }
    entry.privacy = there->report ? "" : "further terms were not kept: the share of the log was full";
  }
  llvm::Error error = entry.privacy.empty() ? llvm::Error::success() : catalogue.addReport(entry);
  error = error ? std::move(error) : catalogue.addRuns(entry); // the first text, or one where there is none
  if (error) {
    return error;
  }
  there = catalogue.logged(entry, lines);
  return !there ? there.takeError() : there->text ? llvm::Error::success() : catalogue.addText(entry, lines);
}

llvm::Error ProgramLog::add(const runtime::ProgramHash &hash, const std::string &client, const Plan &plan,
                            const std::string &report) {
  const Key key{hash, client};
  if (report != lastReport) { // steps of a run have one
    lastReport = report;
    lastDigest = report.empty() ? runtime::ProgramHash{} : runtime::hashProgram(report);
  }
  const runtime::ProgramHash reportDigest = lastDigest;
  auto isKnown = [&] {
    return pending.count(key) && known.count({key, plan.textDigest}) &&
           (report.empty() || known.count({key, reportDigest}));
  };
  // A run between a move and the next look is counted as one before the move.
  if (!isKnown() || std::chrono::steady_clock::now() >= lookAt) {
    if (llvm::Error error = refresh()) {
      return error;
    }
  }
  const int64_t now = environment.clockMs();
  if (!isKnown()) {
    if (llvm::Error error = enter({hash, client, plan.text, 1, plan.facts.ops, now, now, report}, plan.textDigest)) {
      return error;
    }
    const uint64_t before = moves;
    if (llvm::Error error = refresh()) {
      return error;
    }
    if (moves != before) {
      return llvm::Error::success(); // entries have gone, perhaps this one: the next run looks again
    }
    if (known.size() >= 2 * kProgramsPerSession) {
      known.clear(); // the catalogue knows
    }
    pending.try_emplace(key, 0);
    known.insert({key, plan.textDigest});
    if (!report.empty()) {
      known.insert({key, reportDigest});
    }
    return llvm::Error::success();
  }
  ++pending[key];
  pendingMs = now;
  return now - flushedMs >= kCountFlushMs ? flush() : llvm::Error::success();
}

llvm::Error ProgramLog::flush() {
  flushedMs = environment.clockMs();
  for (auto &[key, runs] : pending) {
    if (runs > 0) {
      if (llvm::Error error = catalogue.addRuns({key.first, key.second, "", runs, 0, pendingMs, pendingMs, ""})) {
        return error;
      }
      runs = 0;
    }
  }
  // Entries without runs only save a look at the catalogue.
  if (pending.size() > kProgramsPerSession) {
    pending.clear();
  }
  return llvm::Error::success();
}

} // namespace sojourn::owner
