// SPDX-License-Identifier: Apache-2.0
// Counting runs cheaply without losing a program.
#include "owner/ProgramLog.h"

#include "owner/RequestError.h"
#include "owner/Limits.h"

namespace sojourn::owner {

llvm::Error ProgramLog::makeRoom(size_t bytes) {
  if (!size) {
    auto measured = catalogue.logSize();
    if (!measured) {
      return measured.takeError();
    }
    size = *measured;
  }
  return size->programs < kLoggedPrograms && size->textBytes + bytes <= kLoggedProgramBytes
             ? llvm::Error::success()
             : requestError(wire::ErrorCode_Limit, "the log of programs is full, and a program that cannot be logged "
                                                   "does not run; the data owner must archive the catalogue");
}

llvm::Error ProgramLog::addReport(const runtime::ProgramHash &hash, const std::string &client,
                                  const std::string &report) {
  if (report.empty() || reported.count({{hash, client}, report})) {
    return llvm::Error::success();
  }
  if (llvm::Error error = makeRoom(report.size())) {
    return error;
  }
  int64_t now = environment.clockMs();
  auto fresh = catalogue.addReport({hash, client, "", 0, 0, now, now, report});
  if (!fresh) {
    return fresh.takeError();
  }
  size->textBytes += *fresh ? report.size() : 0;
  if (reported.size() >= kProgramsPerSession) {
    reported.clear(); // the catalogue knows
  }
  reported.insert({{hash, client}, report});
  return llvm::Error::success();
}

llvm::Error ProgramLog::add(const runtime::ProgramHash &hash, const std::string &client, const Plan &plan,
                            const std::string &report) {
  if (llvm::Error error = addReport(hash, client, report)) {
    return error;
  }
  int64_t now = environment.clockMs();
  auto found = pending.find({hash, client});
  if (found == pending.end()) {
    if (llvm::Error error = makeRoom(plan.text.size())) {
      return error;
    }
    ProgramRecord record{hash, client, plan.text, 1, plan.ops, now, now, ""};
    if (llvm::Error error = catalogue.addRuns(record)) {
      return error;
    }
    pending[{hash, client}] = 0;
    ++size->programs;
    size->textBytes += plan.text.size();
    return llvm::Error::success();
  }
  ++found->second;
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
