// SPDX-License-Identifier: Apache-2.0
// Texts that are safe to show, and numbers as people write them.
#ifndef SOJOURN_OWNER_TEXT_H
#define SOJOURN_OWNER_TEXT_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"

#include <string>

namespace sojourn::owner {

/// Text from outside made safe to show and to store: valid UTF-8, with '?' for characters that steer a terminal,
/// reorder text or are not seen; cut at `limit` bytes. A name is one line.
std::string printable(llvm::StringRef text, size_t limit);
std::string printableName(llvm::StringRef text);

/// Writes what `printable` makes of a text.
class PrintableStream : public llvm::raw_ostream {
public:
  explicit PrintableStream(llvm::raw_ostream &to) : to(to) {}
  ~PrintableStream() override;

private:
  void write_impl(const char *text, size_t size) override;
  uint64_t current_pos() const override { return written; }

  llvm::raw_ostream &to;
  std::string waiting;
  uint64_t written = 0;
};

/// A number in at most ten digits.
std::string numberText(double value);

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_TEXT_H
