// SPDX-License-Identifier: Apache-2.0
// Parsing of dates and times.
#include "owner/Moment.h"

#include "llvm/ADT/StringExtras.h"

namespace sojourn::owner {

namespace {

constexpr int64_t kDay = 24 * 3600;

/// Takes `digits` digits, whose number lies in [least, most].
std::optional<int64_t> take(llvm::StringRef &text, size_t digits, int64_t least, int64_t most) {
  llvm::StringRef part = text.take_front(digits);
  int64_t number = 0;
  if (part.size() != digits || !llvm::all_of(part, llvm::isDigit) || part.getAsInteger(10, number) || number < least ||
      number > most) {
    return std::nullopt;
  }
  text = text.drop_front(digits);
  return number;
}

/// Days of a date of the Gregorian calendar since 1970-01-01; nothing where the month has no such day.
std::optional<int64_t> daysOf(int64_t year, int64_t month, int64_t day) {
  const bool isLeap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
  const int64_t length = month == 2                                              ? (isLeap ? 29 : 28)
                         : month == 4 || month == 6 || month == 9 || month == 11 ? 30
                                                                                 : 31;
  if (day > length) {
    return std::nullopt;
  }
  // Years begin in March, so that a leap day ends one.
  const int64_t shifted = month <= 2 ? year - 1 : year, fromMarch = (month + 9) % 12;
  const int64_t era = floorDivide(shifted, 400), inEra = shifted - era * 400;
  const int64_t inYear = (153 * fromMarch + 2) / 5 + day - 1;
  return era * 146'097 + inEra * 365 + inEra / 4 - inEra / 100 + inYear - 719'468;
}

/// "+02:00", "-0530" or "Z", in seconds; nothing for another text.
std::optional<int64_t> zoneOf(llvm::StringRef text) {
  if (text.empty() || text == "Z") {
    return 0;
  }
  const int64_t sign = text.front() == '-' ? -1 : 1;
  if (!text.consume_front("+") && !text.consume_front("-")) {
    return std::nullopt;
  }
  auto hours = take(text, 2, 0, 23);
  auto minutes = !text.consume_front(":") && text.empty() ? std::optional<int64_t>(0) : take(text, 2, 0, 59);
  return hours && minutes && text.empty() ? std::optional(sign * (*hours * 3600 + *minutes * 60)) : std::nullopt;
}

} // namespace

int64_t floorDivide(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

int64_t Moment::days() const { return floorDivide(seconds, kDay); }

std::optional<Moment> parseMoment(llvm::StringRef text) {
  auto year = take(text, 4, 1, 9999);
  auto month = year && text.consume_front("-") ? take(text, 2, 1, 12) : std::nullopt;
  auto day = month && text.consume_front("-") ? take(text, 2, 1, 31) : std::nullopt;
  auto days = day ? daysOf(*year, *month, *day) : std::nullopt;
  if (!days) {
    return std::nullopt;
  }
  Moment moment{*days * kDay, 0};
  if (text.empty()) {
    return moment;
  }
  if (!text.consume_front("T") && !text.consume_front(" ")) {
    return std::nullopt;
  }
  auto hours = take(text, 2, 0, 23);
  auto minutes = hours && text.consume_front(":") ? take(text, 2, 0, 59) : std::nullopt;
  if (!minutes) {
    return std::nullopt;
  }
  moment.seconds += *hours * 3600 + *minutes * 60;
  if (text.consume_front(":")) {
    auto seconds = take(text, 2, 0, 59);
    if (!seconds) {
      return std::nullopt;
    }
    moment.seconds += *seconds;
    if (text.consume_front(".")) {
      llvm::StringRef digits = text.take_while(llvm::isDigit);
      if (digits.empty()) {
        return std::nullopt;
      }
      text = text.drop_front(digits.size());
      llvm::StringRef kept = digits.take_front(6); // finer parts are cut
      static_cast<void>(kept.getAsInteger(10, moment.microseconds));
      for (size_t k = kept.size(); k < 6; ++k) {
        moment.microseconds *= 10;
      }
    }
  }
  auto zone = zoneOf(text);
  if (!zone) {
    return std::nullopt;
  }
  moment.seconds -= *zone;
  return moment;
}

} // namespace sojourn::owner
