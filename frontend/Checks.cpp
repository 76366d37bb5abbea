// SPDX-License-Identifier: Apache-2.0
// Texts of refused numbers (see Checks.h).
#include "frontend/Checks.h"

#include "frontend/Raise.h"

#include <array>
#include <charconv>
#include <cstdio>

namespace sojourn::frontend {

namespace {

std::string shortly(double number) {
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%g", number);
  return text.data();
}

[[noreturn]] void refuse(const char *name, const std::string &expected, double found) {
  std::array<char, 32> text; // the shortest that reads back as this number
  auto end = std::to_chars(text.data(), text.data() + text.size(), found).ptr;
  raise(ErrorKind::Error,
        std::string(name) + " must be a number above 0" + expected + ", got " + std::string(text.data(), end));
}

} // namespace

// Written so that NaN is refused.

void requireEpsilon(double epsilon) {
  if (!(epsilon > 0 && epsilon <= wire::kEpsilonMost)) {
    refuse("epsilon", " and at most " + shortly(wire::kEpsilonMost), epsilon);
  }
}

void requireDelta(double delta) {
  if (!(delta > 0 && delta < wire::kDeltaMost)) {
    refuse("delta", " and below " + shortly(wire::kDeltaMost), delta);
  }
}

void requireDelta(double delta, double granted) {
  if (!(delta > 0 && delta <= granted)) {
    refuse("delta", " and at most " + shortly(granted) + ", that of the grant", delta);
  }
}

void requireWithin(const char *name, double number, wire::Range range) {
  if (!(number >= range.least && number <= range.most)) {
    refuse(name, ", from " + shortly(range.least) + " to " + shortly(range.most), number);
  }
}

} // namespace sojourn::frontend
