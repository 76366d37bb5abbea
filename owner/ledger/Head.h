// SPDX-License-Identifier: Apache-2.0
// The head of the chain in a small file elsewhere: it only goes forward, so that an older copy of
// the ledger is noticed.
#ifndef SOJOURN_OWNER_LEDGER_HEAD_H
#define SOJOURN_OWNER_LEDGER_HEAD_H

#include "owner/ledger/Signing.h"
#include <cstdint>
#include <functional>
#include <string>

namespace sojourn::owner::ledger {

/// The last entry of the chain; zeros for an empty ledger.
struct HeadValue {
  uint64_t seq = 0;
  Hash hash{};
  friend bool operator==(const HeadValue &, const HeadValue &) = default;
};

/// Told before each change to the head's file: "write", "sync" or "make", with the place. For tests.
using DiskHook = std::function<void(const char *operation, const std::string &path, int64_t offset, size_t size)>;

/// Two slots that are written in turn, each with its digest: a write cut short harms the older one
/// of them only. Callers hold the ledger's lock.
class HeadFile {
public:
  /// Makes no file yet.
  HeadFile(std::string path, DiskHook hook) : path(std::move(path)), hook(std::move(hook)) {}
  ~HeadFile();
  HeadFile(const HeadFile &) = delete;
  HeadFile &operator=(const HeadFile &) = delete;

  /// The newer of the good slots; zeros if there is no file or nothing was ever written to it.
  Result<HeadValue> read();
  /// Durable when it returns.
  Status write(const HeadValue &value);

private:
  Status openFile(bool make);
  Problem failed(const std::string &doing) const;

  const std::string path;
  const DiskHook hook;
  int file = -1;
  unsigned newer = 1; ///< slot of the value that was read last
};

} // namespace sojourn::owner::ledger

#endif // SOJOURN_OWNER_LEDGER_HEAD_H
