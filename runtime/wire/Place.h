// SPDX-License-Identifier: Apache-2.0
// Where values of a group of owners lie, for those who know neither torch nor MLIR.
#ifndef SOJOURN_RUNTIME_WIRE_PLACE_H
#define SOJOURN_RUNTIME_WIRE_PLACE_H

#include <compare>
#include <cstdint>
#include <vector>

namespace sojourn::wire {

/// As parties::Where (passes/parties/Where.h): each member has the value, one has it, or each has the rows of its
/// segments.
struct Place {
  enum class Kind : uint8_t { All, At, Parts };
  struct Segment {
    uint32_t role = 0;
    int64_t rows = 0;
    friend auto operator<=>(const Segment &, const Segment &) = default;
  };
  Kind kind = Kind::All;
  uint32_t role = 0;             ///< of At
  std::vector<Segment> segments; ///< of Parts: the rows in order, of two members at least
  int64_t stride = 0;            ///< of Parts: elements from a row to the next

  bool isAt(uint32_t member) const { return kind != Kind::At || role == member; }
  friend auto operator<=>(const Place &, const Place &) = default;
};

/// A published result of a joint program: its place, and its sizes as a whole.
struct PublishedPlace {
  Place place;
  std::vector<int64_t> dims;
};

/// Of a joint program's results, in their order.
struct ResultPlaces {
  std::vector<Place> kept;
  std::vector<PublishedPlace> published;
};

} // namespace sojourn::wire

#endif // SOJOURN_RUNTIME_WIRE_PLACE_H
