// SPDX-License-Identifier: Apache-2.0
// Texts of refused numbers (see Checks.h).
#include "frontend/Checks.h"

#include "frontend/Raise.h"

#include <array>
#include <charconv>
#include <string>

namespace sojourn::frontend {

void require(const char *name, double number, const wire::Interval &interval, const char *why) {
  if (!interval.admits(number)) {
    std::array<char, 32> text; // the shortest that reads back as this number
    auto end = std::to_chars(text.data(), text.data() + text.size(), number).ptr;
    raise(ErrorKind::Error,
          std::string(name) + " must be " + interval.expected() + why + ", got " + std::string(text.data(), end));
  }
}

} // namespace sojourn::frontend
