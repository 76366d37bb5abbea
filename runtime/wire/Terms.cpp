// SPDX-License-Identifier: Apache-2.0
// Intervals in words.
#include "runtime/wire/Terms.h"

#include <cstdio>

namespace sojourn::wire {

std::string shortNumber(double number) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g", number);
  return text;
}

std::string Interval::expected() const {
  if (!openBelow && !openAbove) {
    return "a number from " + shortNumber(least) + " to " + shortNumber(most);
  }
  return std::string("a number ") + (openBelow ? "above " : "of at least ") + shortNumber(least) +
         (openAbove ? " and below " : " and at most ") + shortNumber(most);
}

} // namespace sojourn::wire
