// SPDX-License-Identifier: Apache-2.0
// Cleaning of texts from outside.
#include "owner/Text.h"

#include "runtime/Limits.h"

#include "llvm/Support/ConvertUTF.h"

#include <algorithm>
#include <cstdio>

namespace sojourn::owner {

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
    bool control = legal && size == 1;
    if (result.size() + (legal ? size : 1) + 3 > limit) {
      return result + "...";
    }
    if (!legal || control) {
      result += '?';
      ++at;
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

std::string numberText(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.10g", value);
  return text;
}

} // namespace sojourn::owner
