// SPDX-License-Identifier: Apache-2.0
// A file from outside, opened once for all that is read of it.
#ifndef SOJOURN_OWNER_SOURCEFILE_H
#define SOJOURN_OWNER_SOURCEFILE_H

#include "llvm/Support/Error.h"

#include <cstdint>
#include <string>
#include <utility>

namespace sojourn::owner {

/// Read by calls and never through a map, so that a file that becomes shorter gives an error and no signal.
class SourceFile {
public:
  /// Refuses at once whatever is no file (a folder, a FIFO, a socket, a device), and a link that another account has
  /// put there to a file that is not its own. `doing` begins the error: "cannot read".
  static llvm::Expected<SourceFile> open(const std::string &path, const std::string &doing = "cannot read");
  SourceFile(SourceFile &&other) noexcept
      : path(std::move(other.path)), file(std::exchange(other.file, -1)), bytes(other.bytes) {}
  SourceFile &operator=(SourceFile &&) = delete;
  ~SourceFile();

  /// When it was opened.
  int64_t size() const { return bytes; }
  /// Bytes from `offset`; fewer where the file ends.
  llvm::Expected<std::string> read(int64_t offset, int64_t count) const;
  /// Exactly `count` bytes; an error where the file ends before.
  llvm::Error readInto(char *out, int64_t offset, int64_t count) const;
  /// Opened once more, for the caller to close.
  llvm::Expected<int> descriptor() const;

private:
  SourceFile(std::string path, int file, int64_t bytes) : path(std::move(path)), file(file), bytes(bytes) {}
  std::string path;
  int file;
  int64_t bytes;
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_SOURCEFILE_H
