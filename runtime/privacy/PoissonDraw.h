// SPDX-License-Identifier: Apache-2.0
// Which rows of a table are in a batch, and in which slots: every row independently with one probability, in a random
// slot, by secret coins.
#ifndef SOJOURN_RUNTIME_PRIVACY_POISSONDRAW_H
#define SOJOURN_RUNTIME_PRIVACY_POISSONDRAW_H

#include "runtime/privacy/Coins.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>

namespace sojourn::privacy {

struct CountTable;

/// Limits of a plan.
inline constexpr int64_t kDrawRowsMax = int64_t{1} << 40;
inline constexpr int64_t kDrawCapacityMax = int64_t{1} << 26;

/// A plan of draws from `rows` rows into `capacity` slots. The rows of one draw are those of independent coins of
/// probability q = k / 2^64, and their slots a uniform injection, up to errorMass() in total variation: the count is
/// drawn from the binomial distribution by inversion, then that many distinct rows and slots. Beyond capacity the count
/// is cut, which drops rows uniformly; the mass of that is overflowMass(). The slots of the other rows have one law
/// whether a row is drawn or not, so what is summed over a draw may depend on slots. Immutable and thread-safe; copies
/// are cheap.
class PoissonDraw {
public:
  /// q is expected / rows rounded down to a multiple of 2^-64; exactly 1 where expected >= rows. An error's
  /// text unless rows is in [1, 2^40], expected in [1, capacity] and capacity in [1, 2^26]. Binomial tables come from a
  /// cache; where it has none, about 5 us per standard deviation.
  static std::variant<PoissonDraw, std::string> plan(int64_t rows, int64_t expected, int64_t capacity);

  int64_t rows() const { return rowCount; }
  int64_t capacity() const { return slotCount; }
  /// q, rounded up to a double: what accounting uses.
  double probability() const;
  /// At least P[Binomial(rows, q) > capacity]; 0 where capacity >= rows. Per draw, charged by the caller.
  double overflowMass() const;
  /// Most total variation between a draw and independent coins, cut at capacity and in slots of a uniform injection; 0
  /// for q = 1. Per draw, charged by the caller. The proof is in PoissonDraw.cpp.
  double errorMass() const;

  /// Draw number `index` of an execution: distinct row numbers in random slots, -1 in the others. For q = 1 the rows
  /// are in order, from the first slot on. Stops the process unless `slots` has `capacity` entries. Work and memory
  /// depend on rows and capacity; the count changes nothing, and row numbers only what a hash table with a secret key
  /// collides in.
  void draw(const Coins &coins, uint32_t index, std::span<int64_t> slots) const;

private:
  PoissonDraw(int64_t rows, int64_t capacity, std::shared_ptr<const CountTable> counts)
      : rowCount(rows), slotCount(capacity), counts(std::move(counts)) {}

  int64_t rowCount;
  int64_t slotCount;
  /// Null for q = 1.
  std::shared_ptr<const CountTable> counts;
};

} // namespace sojourn::privacy

#endif // SOJOURN_RUNTIME_PRIVACY_POISSONDRAW_H
