// SPDX-License-Identifier: Apache-2.0
// Who writes to the ledger now, and which processes that hold reservations still live.
#ifndef SOJOURN_OWNER_LEDGER_LOCKS_H
#define SOJOURN_OWNER_LEDGER_LOCKS_H

#include "owner/ledger/Signing.h"
#include <cstdint>
#include <string>

namespace sojourn::owner::ledger {

/// Locks on bytes of one empty file, by open file description: the kernel gives them up when a
/// process dies, however it does. A child process made by fork keeps its parent's.
class Locks {
public:
  /// An empty path: a ledger in memory, where every lock is free.
  static Result<Locks> open(const std::string &path);
  Locks(Locks &&other) noexcept : path(std::move(other.path)), file(other.file) { other.file = -1; }
  Locks &operator=(Locks &&) = delete;
  ~Locks();

  /// One writer at a time, over all processes. Waits for at most `waitMs`.
  Status lockWriter(int waitMs);
  void unlockWriter();
  /// Says that `holder` lives, for as long as this object does.
  Status hold(uint64_t holder);
  /// Whether another object, of this or of another process, holds `holder`.
  Result<bool> lives(uint64_t holder);

private:
  Locks(std::string path, int file) : path(std::move(path)), file(file) {}
  Problem failed(const char *doing) const;
  const std::string path;
  int file;
};

} // namespace sojourn::owner::ledger

#endif // SOJOURN_OWNER_LEDGER_LOCKS_H
