// SPDX-License-Identifier: Apache-2.0
// Polynomials in per-row values whose coefficients are the same for every row (see Centred.h).
#ifndef SOJOURN_PASSES_PRIVACY_POLYNOMIAL_H
#define SOJOURN_PASSES_PRIVACY_POLYNOMIAL_H

#include "dialect/rows/Support.h"
#include "passes/Emit.h"
#include "passes/privacy/Middle.h"

#include "llvm/ADT/DenseMap.h"

#include <map>
#include <optional>
#include <vector>

namespace sojourn {

/// Beyond these nothing is expanded.
inline constexpr size_t kDegree = 4, kTerms = 16;

/// A product of values that differ from row to row, by number and ascending, and a factor that does not: f64, of the
/// polynomial's shape without the dim of rows, or of rank 0. Nothing is 1.
struct Term {
  llvm::SmallVector<unsigned, 4> rows;
  mlir::Value factor;
};

/// A value of that shape, its rows along `dim`.
struct Polynomial {
  rows::Alignment rows;
  int64_t dim;
  llvm::SmallVector<Term, 4> terms;
};

/// One value in values that differ from row to row as they are, and around their middles (Middle.h), where that is
/// known.
struct Views {
  std::optional<Polynomial> plain, centred;
};

/// Dims without `dim`, those above it one lower.
inline llvm::SmallVector<int64_t> without(llvm::ArrayRef<int64_t> dims, int64_t dim) {
  llvm::SmallVector<int64_t> rest;
  for (int64_t each : dims) {
    if (each != dim) {
      rest.push_back(each - (each > dim ? 1 : 0));
    }
  }
  return rest;
}

/// A shape without that dim.
inline llvm::SmallVector<int64_t> shapeWithout(llvm::ArrayRef<int64_t> shape, int64_t dim) {
  llvm::SmallVector<int64_t> rest(shape);
  rest.erase(rest.begin() + dim);
  return rest;
}

/// Those slots, as whole dim `dim` of a shape.
inline rows::Alignment alignmentAt(const rows::Alignment &rows, llvm::ArrayRef<int64_t> shape, int64_t dim) {
  rows::Fact fact = rows::Fact::of(rows::Kind::PerRow);
  fact.rows = rows;
  return rows::perRowAt(fact, shape, {.dim = dim, .outer = 1, .inner = 1}).rows;
}

/// The polynomials of the values of a step, as far as they are followed. Ops are made where `emit` stands.
class Polynomials {
public:
  Polynomials(const rows::Analysis &analysis, Emit &emit) : analysis(analysis), emit(emit) {}

  /// Of what an op gives, from those of its operands; `plain` is nothing where it is none.
  Views viewsOf(mlir::Operation *op);
  void remember(mlir::Value value, Views views) { known.try_emplace(value, std::move(views)); }
  /// What is remembered of a value, or null.
  const Views *find(mlir::Value value) const {
    auto found = known.find(value);
    return found == known.end() ? nullptr : &found->second;
  }

  /// Where the rows of an operand lie, of whole batches.
  std::optional<std::pair<rows::Alignment, int64_t>> rowsOf(mlir::Value value);
  /// An operand as a polynomial whose rows lie there.
  std::optional<Polynomial> operandAt(mlir::Value value, const rows::Alignment &rows, int64_t dim, bool isCentred);
  /// Whether any value that it is made of is known around its middle.
  bool hasCentred(mlir::Value value);

  /// Two products that meet in a sum over rows; of a `reduce_sum` the second is empty.
  using Product = llvm::SmallVector<unsigned, 4>;
  using Products = llvm::SmallVector<std::pair<Product, Product>>;
  /// Centred values may stand for a polynomial where they need no other sums: of what is left of each term without one
  /// of its values there is a sum, too. That of nothing is n.
  bool needsNoOther(const Products &centred, const Products &plain) const;
  /// A product of the values that centred ones stand for.
  Product asPlain(Product product) const;

  mlir::Value value(unsigned number) const { return values[number]; }
  /// Of a centred value what it is made of, by number, middle and scale (see Middle.h), and the dim that they lack.
  struct Middle {
    unsigned base;
    mlir::Value value, scale;
    int64_t dim;
  };
  const Middle *middleOf(unsigned number) const {
    auto found = middles.find(number);
    return found == middles.end() ? nullptr : &found->second;
  }

  /// A product in which nothing is 1.
  mlir::Value times(mlir::Value a, mlir::Value b);
  /// The value over `shape`, its dims being `dims` of it; of rank 0 left alone unless there are none.
  mlir::Value spread(mlir::Value x, llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> dims);

private:
  unsigned numberOf(mlir::Value value);
  /// Of a value around its middle; nothing where that lowers no bound.
  std::optional<unsigned> centredNumber(unsigned number);
  mlir::Value withoutRows(mlir::Value value, int64_t dim);
  std::optional<Polynomial> polynomialOf(mlir::Operation *op, bool isCentred);
  std::optional<Polynomial> moved(mlir::Operation *op, bool isCentred);
  mlir::Value orOne(mlir::Value factor);
  Polynomial scaled(Polynomial x, mlir::Value factor);
  void add(Polynomial &to, const Term &term);
  static std::optional<Polynomial> bounded(Polynomial x);
  std::optional<Polynomial> sum(Polynomial a, const Polynomial &b);
  std::optional<Polynomial> product(const Polynomial &a, const Polynomial &b);

  const rows::Analysis &analysis;
  Emit &emit;
  ColumnBudget budget;
  llvm::DenseMap<mlir::Value, Views> known; ///< each has a plain one
  /// Values that differ from row to row, by number.
  llvm::DenseMap<mlir::Value, unsigned> numbers;
  std::vector<mlir::Value> values;
  llvm::DenseMap<unsigned, std::optional<unsigned>> centredNumbers;
  llvm::DenseMap<unsigned, Middle> middles;
  std::map<std::pair<mlir::Operation *, unsigned>, mlir::Value> movedTo;
};

} // namespace sojourn

#endif // SOJOURN_PASSES_PRIVACY_POLYNOMIAL_H
