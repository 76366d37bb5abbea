// SPDX-License-Identifier: Apache-2.0
// Polynomials in per-row values whose coefficients are the same for every row (see Centred.h).
#ifndef SOJOURN_PASSES_PRIVACY_POLYNOMIAL_H
#define SOJOURN_PASSES_PRIVACY_POLYNOMIAL_H

#include "dialect/rows/Support.h"

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

} // namespace sojourn

#endif // SOJOURN_PASSES_PRIVACY_POLYNOMIAL_H
