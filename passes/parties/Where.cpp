// SPDX-License-Identifier: Apache-2.0
#include "passes/parties/Where.h"

#include "dialect/Bounds.h"

#include "llvm/ADT/StringExtras.h"

using namespace llvm;
using namespace sojourn;
using namespace sojourn::parties;

int64_t parties::rowsOf(const Segments &segments) {
  int64_t rows = 0;
  for (const Segment &segment : segments) {
    rows += segment.rows;
  }
  return rows;
}

int64_t parties::rowsAt(const Segments &segments, unsigned role) {
  int64_t rows = 0;
  for (const Segment &segment : segments) {
    rows += segment.role == role ? segment.rows : 0;
  }
  return rows;
}

int64_t parties::rolesOf(const Segments &segments) {
  int64_t roles = 0;
  for (const Segment &segment : segments) {
    roles |= int64_t{1} << segment.role;
  }
  return roles;
}

std::string parties::describe(const Where &where) {
  switch (where.kind) {
  case Where::Kind::All: return "known to all";
  case Where::Kind::At: return "at role " + std::to_string(where.role);
  case Where::Kind::Parts: break;
  }
  std::string text;
  for (const Segment &segment : *where.segments) {
    text += (text.empty() ? "parts: " : ", ") + std::to_string(segment.rows) + (text.empty() ? " rows" : "") +
            " at role " + std::to_string(segment.role);
  }
  return text + "; stride " + std::to_string(where.stride);
}

std::optional<rows::Place> parties::placeOf(const Where &where, ArrayRef<int64_t> shape) {
  rows::Alignment alignment = rows::Alignment::of(0, rowsOf(*where.segments));
  alignment.stride = where.stride;
  return rows::placeOf(alignment, shape);
}

std::string parties::listed(int64_t roles) {
  std::vector<std::string> numbers;
  for (unsigned role = 0; role < bounds::kPartiesMost; ++role) {
    if (roles >> role & 1) {
      numbers.push_back(std::to_string(role));
    }
  }
  std::string last = numbers.back();
  numbers.pop_back();
  return numbers.empty() ? "role " + last : "roles " + llvm::join(numbers, ", ") + " and " + last;
}
