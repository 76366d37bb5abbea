// SPDX-License-Identifier: Apache-2.0
// Cleaning of texts from outside.
#include "owner/Text.h"

#include "runtime/Limits.h"

#include "llvm/Support/ConvertUTF.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <utility>

namespace sojourn::owner {

namespace {

/// The code point of a legal sequence.
uint32_t codePointOf(const llvm::UTF8 *at, unsigned size) {
  uint32_t point = size == 1 ? *at : *at & (0x7fu >> size);
  for (unsigned k = 1; k < size; ++k) {
    point = point << 6 | (at[k] & 0x3fu);
  }
  return point;
}

/// Characters that steer a terminal, reorder or break a line, or are not seen: C0 and C1, marks of direction (Unicode
/// Standard Annex 9), separators of lines, spaces of no width but the joiners that scripts and emoji need, tags.
bool isHidden(uint32_t point) {
  static constexpr std::pair<uint32_t, uint32_t> ranges[] = {
      {0x00, 0x1f},     {0x7f, 0x9f},     {0xad, 0xad},     {0x61c, 0x61c},   {0x180e, 0x180e}, {0x200b, 0x200b},
      {0x200e, 0x200f}, {0x2028, 0x202e}, {0x2060, 0x2069}, {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0xe0fff}};
  auto after = std::upper_bound(std::begin(ranges), std::end(ranges), point,
                                [](uint32_t found, const auto &range) { return found < range.first; });
  return after != std::begin(ranges) && point <= std::prev(after)->second;
}

} // namespace

std::string printable(llvm::StringRef text, size_t limit) {
  std::string result;
  auto *at = reinterpret_cast<const llvm::UTF8 *>(text.begin());
  auto *end = reinterpret_cast<const llvm::UTF8 *>(text.end());
  auto isPlain = [](llvm::UTF8 c) { return (c >= 0x20 && c < 0x7f) || c == '\n' || c == '\t'; };
  while (at != end) {
    // Nearly all of a program's text: copied run by run.
    if (const llvm::UTF8 *run = std::find_if_not(at, end, isPlain); run != at) {
      size_t most = limit - std::min(limit, result.size() + 3), count = static_cast<size_t>(run - at);
      result.append(reinterpret_cast<const char *>(at), std::min(count, most));
      if (count > most) {
        return result + "...";
      }
      at = run;
      continue;
    }
    unsigned size = llvm::getNumBytesForUTF8(*at);
    bool legal = size <= static_cast<size_t>(end - at) && llvm::isLegalUTF8Sequence(at, at + size);
    bool hidden = legal && isHidden(codePointOf(at, size));
    if (result.size() + (legal ? size : 1) + 3 > limit) {
      return result + "...";
    }
    if (!legal || hidden) {
      result += '?';
      at += legal ? size : 1;
    } else {
      result.append(reinterpret_cast<const char *>(at), size);
      at += size;
    }
  }
  return result;
}

std::string printableName(llvm::StringRef text) {
  std::string result = printable(text, runtime::limits::kNameBytes);
  std::replace_if(
      result.begin(), result.end(), [](char c) { return c == '\n' || c == '\t'; }, '?');
  return result;
}

void PrintableStream::write_impl(const char *text, size_t size) {
  waiting.append(text, size);
  // A character that a buffer has cut waits for its rest.
  size_t whole = waiting.size();
  for (size_t back = 1; back < 4 && back <= waiting.size(); ++back) {
    const auto lead = static_cast<llvm::UTF8>(waiting[waiting.size() - back]);
    if (lead >= 0xc0) {
      whole -= llvm::getNumBytesForUTF8(lead) > back ? back : 0;
      break;
    }
  }
  to << printable(llvm::StringRef(waiting).take_front(whole), whole * 4 + 8);
  to.flush();
  waiting.erase(0, whole);
  written += size;
}

PrintableStream::~PrintableStream() {
  flush();
  to << printable(waiting, waiting.size() + 8);
  to.flush();
}

std::string numberText(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.10g", value);
  return text;
}

} // namespace sojourn::owner
