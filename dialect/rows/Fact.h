// SPDX-License-Identifier: Apache-2.0
// What is known of a value of core form with respect to the rows of private tables: the lattice of the row analysis.
//
// Each fact is a predicate over pairs of runs. T and U are tables that differ in row r, c and d are coins that differ
// in one slot of one draw of the owner (another row, or none), and v(T, c) is the value of a run; arguments are equal,
// and NaN is one value. test/python/rules checks the predicates as they stand here; docs/proof.md proves the rules.
#ifndef SOJOURN_DIALECT_ROWS_FACT_H
#define SOJOURN_DIALECT_ROWS_FACT_H

#include "mlir/IR/Value.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace sojourn::rows {

/// Where the elements of a real tensor lie, in every admissible run of every kernel that its op allows (sums: in any
/// order of addition): low <= v <= high, infinities included where a bound is one, or NaN where `nan` says so. Bounds
/// are rounded outward; complex numbers have none.
struct Range {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool nan = true;
  /// Whole numbers only.
  bool whole = false;

  /// Finite and never NaN.
  bool isBounded() const;
  bool isConstant() const { return isBounded() && low == high; }
  /// The largest magnitude; infinite where it may be NaN.
  double magnitude() const;
  /// What lies in either.
  Range hull(const Range &other) const;
  /// What lies in both; this range where nothing does.
  Range meet(const Range &other) const;

  static Range of(double low, double high, bool whole = false) { return {low, high, false, whole}; }
  friend bool operator==(const Range &, const Range &) = default;
};

/// From the most to the least that may be done with a value.
enum class Kind : uint8_t {
  /// v(T, c) = v(U, c) = v(T, d), bit for bit. May leave, and be a seed, a start or a list of rows.
  Public,
  /// Each element belongs to a slot of a draw (Alignment). Between T and U only elements of slots that hold r differ;
  /// between c and d only those of slots whose coins differ. May be clipped and selected slot by slot.
  PerRow,
  /// v = L(cuts) with L linear: L(0) = 0, L(a x + b y) = a L(x) + b L(y), coefficients public. Noise goes here.
  Sum,
  /// v(T, c) = v(U, d) wherever the cuts are equal: public as soon as these are noised.
  Derived,
  /// Nothing. Stays, with the labels of all private tables of the step.
  Mixed
};

llvm::StringRef stringify(Kind kind);

/// Why a value is Mixed: the first op on the way to it that no rule covers.
struct Reason {
  mlir::Operation *op;
  std::string text;
  /// The operand that met the rows; may be null.
  mlir::Value operand;
};

/// Ascending numbers of cuts; interned, so that equal sets are one object.
using CutSet = std::vector<unsigned>;

/// A PerRow value with n slots: the element at position p of the row-major order belongs to slot
/// first + step * ((p / stride) mod n) of its draw. Reshaping changes nothing of it.
struct Alignment {
  unsigned draw = 0;
  int64_t slots = 0, stride = 0, first = 0, step = 1;
  /// Where the slots are a part that a public number says: it is added to `first`, clamped so that the part lies within
  /// the `among` slots, which are all of the draw.
  mlir::Value start;
  int64_t among = 0;

  /// Slot s at position s.
  static Alignment of(unsigned draw, int64_t slots) {
    Alignment alignment;
    alignment.draw = draw;
    alignment.slots = slots;
    alignment.stride = 1;
    return alignment;
  }
  /// Same draw, same slots, wherever they lie.
  bool sameSlots(const Alignment &other) const {
    return draw == other.draw && slots == other.slots && first == other.first && step == other.step &&
           start == other.start && among == other.among;
  }
  friend bool operator==(const Alignment &, const Alignment &) = default;
};

/// The slots of an alignment in a shape: dim `dim` is outer * slots * inner, in this order.
struct Place {
  int64_t dim, outer, inner;
  friend bool operator==(const Place &, const Place &) = default;
};

/// Nothing where the slots straddle dims.
std::optional<Place> placeOf(const Alignment &alignment, llvm::ArrayRef<int64_t> shape);

/// How far one row can move a Sum: norms of L(what one slot that holds a row adds to the cuts), all elements together,
/// in exact arithmetic, over all rows that the columns admit.
struct Influence {
  double l1 = std::numeric_limits<double>::infinity();
  double l2 = std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
};

/// Of row numbers, from the least to the most that is known. Neither speaks of a table's length.
enum class Distinct : uint8_t {
  No,     ///< a number may stand twice
  Rows,   ///< no row twice: entries at two places are equal only if they are negative
  Numbers ///< no number twice: entries at two places differ
};

struct Fact {
  Kind kind = Kind::Mixed;
  Range range;
  /// Of PerRow: where the elements of slots lie that hold a row of the draw's tables, if that is closer than `range`. A
  /// slot without a row reads zeros, and no sum that is released takes it up (`clipped_sum` selects it away).
  std::optional<Range> present;
  /// Of PerRow: at most so many elements of a slot that holds a row are not zero; nothing where all may be.
  std::optional<int64_t> nonzeros;
  /// Of Public: 0 everywhere by the ops alone (a constant that was moved about), or as the owner saw. A range is not
  /// enough: what is linear, and counts of what is not zero, rest on it.
  bool zero = false;
  /// Of Sum.
  Influence influence;
  /// Of row numbers; what is negative or past a table's end names no row of it.
  Distinct distinct = Distinct::No;
  /// Of PerRow.
  Alignment rows;
  /// Of Sum and Derived.
  const CutSet *cuts = nullptr;
  /// Of Mixed.
  const Reason *reason = nullptr;

  static Fact of(Kind kind) {
    Fact fact;
    fact.kind = kind;
    return fact;
  }
  static Fact publicValue() { return of(Kind::Public); }
  const Range &presentRange() const { return present ? *present : range; }
  bool isPublic() const { return kind == Kind::Public; }
  bool isPerRow() const { return kind == Kind::PerRow; }
  bool isMixed() const { return kind == Kind::Mixed; }
  bool isSum() const { return kind == Kind::Sum; }
  bool hasCuts() const { return kind == Kind::Sum || kind == Kind::Derived; }
  /// Public, and 0 everywhere.
  bool isZero() const { return kind == Kind::Public && zero; }
  /// Row numbers of which none names a row twice.
  bool namesRowsOnce() const { return distinct != Distinct::No; }
};

} // namespace sojourn::rows

#endif // SOJOURN_DIALECT_ROWS_FACT_H
