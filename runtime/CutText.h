// SPDX-License-Identifier: Apache-2.0
// Texts about what came from outside are cut while they are made, so that a long one is never held.
#ifndef SOJOURN_RUNTIME_CUTTEXT_H
#define SOJOURN_RUNTIME_CUTTEXT_H
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"
#include <string>

namespace sojourn::runtime {

/// The longest prefix of at most `limit` bytes that splits no UTF-8 character.
inline llvm::StringRef prefix(llvm::StringRef text, size_t limit) {
  if (text.size() <= limit) {
    return text;
  }
  while (limit > 0 && (static_cast<unsigned char>(text[limit]) & 0xc0) == 0x80) {
    --limit;
  }
  return text.take_front(limit);
}

/// Keeps the first bytes of what is printed and counts the rest.
class CutStream final : public llvm::raw_ostream {
public:
  explicit CutStream(size_t limit) : limit_(limit) {}
  ~CutStream() override { flush(); }

  /// Nothing printed from now on is kept.
  bool full() {
    flush();
    return printed_ > limit_;
  }

  /// At most `limit` bytes; ends in "..." where something was cut.
  std::string take() {
    flush();
    return printed_ <= limit_ ? text_ : prefix(text_, limit_ - std::min<size_t>(limit_, 3)).str() + "...";
  }

private:
  void write_impl(const char *data, size_t size) override {
    text_.append(data, std::min(size, limit_ - text_.size()));
    printed_ += size;
  }
  uint64_t current_pos() const override { return printed_; }

  size_t limit_;
  uint64_t printed_ = 0;
  std::string text_;
};

} // namespace sojourn::runtime

#endif // SOJOURN_RUNTIME_CUTTEXT_H
