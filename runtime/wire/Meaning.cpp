// SPDX-License-Identifier: Apache-2.0
// Meanings of columns: their checks, and their texts for people.
#include "runtime/wire/Meaning.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <numeric>
#include <string_view>
#include <tuple>

namespace sojourn {

namespace {

/// Categories that are listed for people.
constexpr size_t kShown = 12;

/// The length of the UTF-8 character at `at`; 0 if there is none.
size_t characterAt(const std::string &text, size_t at) {
  auto byte = [&](size_t index) { return index < text.size() ? static_cast<unsigned char>(text[index]) : 0u; };
  const unsigned first = byte(at), second = byte(at + 1);
  auto follows = [&](size_t count) {
    for (size_t k = 1; k <= count; ++k) {
      if ((byte(at + k) & 0xc0u) != 0x80) {
        return false;
      }
    }
    return true;
  };
  if (first < 0x80) {
    return 1;
  }
  if (first >= 0xc2 && first < 0xe0) {
    return follows(1) ? 2 : 0;
  }
  if (first >= 0xe0 && first < 0xf0) { // neither overlong nor a surrogate
    return follows(2) && !(first == 0xe0 && second < 0xa0) && !(first == 0xed && second >= 0xa0) ? 3 : 0;
  }
  if (first >= 0xf0 && first < 0xf5) { // neither overlong nor beyond U+10FFFF
    return follows(3) && !(first == 0xf0 && second < 0x90) && !(first == 0xf4 && second >= 0x90) ? 4 : 0;
  }
  return 0;
}

/// The first position whose entry stands before it, too; else the size. By sorting, for a list from outside may be
/// chosen so that all its entries have one hash.
template <class T>
size_t firstRepeated(const std::vector<T> &list) {
  std::vector<size_t> order(list.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return std::tie(list[a], a) < std::tie(list[b], b); });
  size_t first = list.size();
  for (size_t at = 1; at < order.size(); ++at) {
    first = list[order[at - 1]] == list[order[at]] ? std::min(first, order[at]) : first;
  }
  return first;
}

std::string numberText(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.15g", value);
  return text;
}

} // namespace

bool isUtf8(const std::string &text) {
  for (size_t at = 0; at < text.size();) {
    const size_t length = characterAt(text, at);
    if (length == 0) {
      return false;
    }
    at += length;
  }
  return true;
}

const char *unitText(Unit unit) {
  switch (unit) {
  case Unit::Days: return "days since 1970-01-01";
  case Unit::Time: return "seconds since 1970-01-01";
  case Unit::Seconds: return "seconds";
  default: return "";
  }
}

Unit unitOfNumber(uint8_t number) {
  return number <= static_cast<uint8_t>(Unit::Seconds) ? static_cast<Unit>(number) : Unit::None;
}

std::string Meaning::category(size_t code) const {
  if (code >= texts.size()) {
    return code < numbers.size() ? std::to_string(numbers[code]) : "";
  }
  const std::string &text = texts[code];
  std::string shown;
  for (size_t at = 0; at < text.size();) {
    const size_t length = std::max<size_t>(characterAt(text, at), 1);
    const auto first = static_cast<unsigned char>(text[at]);
    const bool isControl =
        length == 1 ? first < 0x20 || first >= 0x7f : first == 0xc2 && static_cast<unsigned char>(text[at + 1]) < 0xa0;
    shown += isControl ? "?" : text.substr(at, length);
    at += length;
  }
  return shown;
}

std::string textOf(const Meaning &meaning) {
  std::string text = unitText(meaning.unit);
  const size_t count = meaning.categories();
  for (size_t code = 0; code < std::min(count, kShown); ++code) {
    text += (text.empty() ? "" : ", ") + std::to_string(code) + " " + meaning.category(code);
  }
  if (count > kShown) {
    text += ", and " + std::to_string(count - kShown) + " more";
  }
  if (meaning.fill) {
    const double fill = *meaning.fill;
    const bool isCode = fill >= 0 && fill < static_cast<double>(count);
    text += (text.empty() ? "" : "; ") + ("missing entries are " + numberText(fill)) +
            (isCode ? " " + meaning.category(static_cast<size_t>(fill)) : "");
  }
  return text;
}

std::string problemOf(const Meaning &meaning) {
  const size_t count = meaning.categories();
  if (!meaning.texts.empty() && !meaning.numbers.empty()) {
    return "has texts and whole numbers as categories, expected one kind";
  }
  if (count > kCategories) {
    return "has " + std::to_string(count) + " categories, the limit is " + std::to_string(kCategories) +
           "; group the rare ones, or leave the column out";
  }
  for (size_t code = 0; code < meaning.texts.size(); ++code) {
    const std::string &text = meaning.texts[code];
    const std::string which = "has a category, number " + std::to_string(code) + " (counting from 0), ";
    if (text.size() > kCategoryBytes) {
      return which + "of " + std::to_string(text.size()) + " bytes, the limit is " + std::to_string(kCategoryBytes) +
             "; shorten it";
    }
    if (!isUtf8(text)) {
      return which + "that is no UTF-8 text; save it as UTF-8";
    }
  }
  std::vector<std::string_view> views(meaning.texts.begin(), meaning.texts.end());
  const size_t repeated = meaning.texts.empty() ? firstRepeated(meaning.numbers) : firstRepeated(views);
  if (repeated < count) {
    return "has category number " + std::to_string(repeated) + " (counting from 0) twice; name each category once";
  }
  if (meaning.fill && !std::isfinite(*meaning.fill)) {
    return "has a fill that is not finite; declare a number";
  }
  if (meaning.fill && count > 0 &&
      (*meaning.fill != std::floor(*meaning.fill) || *meaning.fill < 0 ||
       *meaning.fill >= static_cast<double>(count))) {
    return "has a fill of " + numberText(*meaning.fill) + ", expected one of its categories or a code from 0 to " +
           std::to_string(count - 1);
  }
  return {};
}

size_t categoryBytes(const Meaning &meaning) {
  size_t bytes = meaning.numbers.size() * sizeof(int64_t);
  for (const std::string &text : meaning.texts) {
    bytes += text.size();
  }
  return bytes;
}

} // namespace sojourn
