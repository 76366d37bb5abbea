// SPDX-License-Identifier: Apache-2.0
// Goal: texts from outside are cleaned the same way however they are cut into runs. Method: random bytes and limits
// against a loop over characters.
#include "owner/Text.h"

#include "llvm/Support/ConvertUTF.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace sojourn::owner {

namespace {

/// Escape, delete, C1's introducer of sequences, marks of direction, a line's separator, a space of no width, a tag.
const std::string kHidden[] = {"\x01",         "\x1b",         "\x7f",         "\xc2\x9b",     "\xe2\x80\x8e",
                               "\xe2\x80\xae", "\xe2\x81\xa6", "\xe2\x80\xa8", "\xe2\x80\x8b", "\xf3\xa0\x81\x81"};

std::string characterByCharacter(const std::string &text, size_t limit) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const auto *bytes = reinterpret_cast<const llvm::UTF8 *>(text.data()) + at;
    size_t size = llvm::getNumBytesForUTF8(*bytes);
    bool legal = size <= text.size() - at && llvm::isLegalUTF8Sequence(bytes, bytes + size);
    const std::string character = text.substr(at, legal ? size : 1);
    const bool isHidden = character != "\n" && character != "\t" && std::ranges::count(kHidden, character) > 0;
    const size_t taken = character.size();
    if (result.size() + taken + 3 > limit) {
      return result + "...";
    }
    result += legal && !isHidden ? character : "?";
    at += taken;
  }
  return result;
}

TEST(Text, IsCleanedRunByRunAsCharacterByCharacter) {
  uint64_t seed = std::random_device()();
  std::mt19937_64 dice(seed);
  // Plain characters, a joiner of emoji, half characters.
  std::vector<std::string> parts = {"plain ",       "x",    "\n",   "\t",  "\xc3\xa4", "\xe2\x82\xac",
                                    "\xe2\x80\x8d", "\xff", "\xc3", "\x80"};
  parts.insert(parts.end(), std::begin(kHidden), std::end(kHidden));
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (size_t count = dice() % 12; count > 0; --count) {
      text += parts[dice() % parts.size()];
    }
    for (size_t limit = 0; limit < text.size() + 6; ++limit) {
      ASSERT_EQ(printable(text, limit), characterByCharacter(text, limit)) << "seed " << seed << ", limit " << limit;
    }
  }
}

TEST(Text, AStreamCleansCharactersThatItsBufferCuts) {
  uint64_t seed = std::random_device()();
  std::mt19937_64 dice(seed);
  const std::string parts[] = {"plain \n",     "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x98\x80",
                               "\xe2\x80\xae", "\x1b[2J",  "\xff"};
  for (int round = 0; round < 200; ++round) {
    std::string text, shown;
    llvm::raw_string_ostream to(shown);
    {
      PrintableStream stream(to);
      stream.SetBufferSize(1 + dice() % 7);
      for (size_t count = dice() % 40; count > 0; --count) {
        const std::string &part = parts[dice() % std::size(parts)];
        text += part;
        stream << part;
      }
    }
    ASSERT_EQ(shown, printable(text, 4 * text.size() + 8)) << "seed " << seed;
  }
}

} // namespace

} // namespace sojourn::owner
