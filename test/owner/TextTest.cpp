// SPDX-License-Identifier: Apache-2.0
// Goal: texts from outside are cleaned the same way however they are cut into runs. Method: random bytes and limits
// against a loop over characters.
#include "owner/Text.h"

#include "llvm/Support/ConvertUTF.h"

#include <gtest/gtest.h>

#include <random>

namespace sojourn::owner {

namespace {

std::string characterByCharacter(const std::string &text, size_t limit) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const auto *bytes = reinterpret_cast<const llvm::UTF8 *>(text.data()) + at;
    size_t size = llvm::getNumBytesForUTF8(*bytes);
    bool legal = size <= text.size() - at && llvm::isLegalUTF8Sequence(bytes, bytes + size);
    bool control = legal && size == 1 && (*bytes < 0x20 || *bytes == 0x7f) && *bytes != '\n' && *bytes != '\t';
    size_t taken = legal && !control ? size : 1;
    if (result.size() + taken + 3 > limit) {
      return result + "...";
    }
    result += legal && !control ? text.substr(at, taken) : "?";
    at += taken;
  }
  return result;
}

TEST(Text, IsCleanedRunByRunAsCharacterByCharacter) {
  uint64_t seed = std::random_device()();
  std::mt19937_64 dice(seed);
  const std::string parts[] = {"plain ",       "x",    "\n",   "\t",  "\x01", "\x7f", "\xc3\xa4",
                               "\xe2\x82\xac", "\xff", "\xc3", "\x80"};
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (size_t count = dice() % 12; count > 0; --count) {
      text += parts[dice() % std::size(parts)];
    }
    for (size_t limit = 0; limit < text.size() + 6; ++limit) {
      ASSERT_EQ(printable(text, limit), characterByCharacter(text, limit)) << "seed " << seed << ", limit " << limit;
    }
  }
}

} // namespace

} // namespace sojourn::owner
