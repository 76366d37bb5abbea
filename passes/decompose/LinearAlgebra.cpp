// SPDX-License-Identifier: Apache-2.0
// Linear algebra out of five factors (lu, triangular_solve, qr, eigh, svd; Cholesky's is in Linear.cpp). What has no
// solution gives infinities or NaN, as the factors do; nothing is checked, `info` says it.
#include "passes/decompose/Call.h"
#include "passes/Aten.h"
#include "dialect/ContractionOps.h"
#include "dialect/ElementwiseOps.h"
#include "dialect/LayoutOps.h"
#include "dialect/SourceOps.h"
#include "dialect/UnaryOps.h"

#include <cmath>
#include <limits>
#include <tuple>

using namespace mlir;

namespace sojourn::decompose {

namespace {

Shape batchOf(Term x) { return Shape(x.shape().drop_back(2)); }

/// Matrices as often as `batch` says.
Term repeated(Term x, Dims batch) {
  Shape shape(batch);
  shape.append({x.dim(-2), x.dim(-1)});
  return broadcastTo(x, shape);
}

/// A vector per matrix as often as `batch` says.
Term repeatedVector(Term x, Dims batch) {
  Shape shape(batch);
  shape.push_back(x.dim(-1));
  return broadcastTo(x, shape);
}

Term product(Term a, Term b) { return matmul(a, b, a.element()); }

Term identity(Term like, Dims batch, int64_t n) {
  Shape shape(batch);
  shape.append({n, n});
  auto rank = static_cast<int64_t>(shape.size());
  Type position = like.emitter->builder.getI64Type();
  Term isDiagonal = eq(iota(*like.emitter, shape, rank - 2, position), iota(*like.emitter, shape, rank - 1, position));
  return select(isDiagonal, constantLike(like, 1), 0.0);
}

/// [..., min(m, n)] of [..., m, n].
Term diagonal(Term x) {
  int64_t m = x.dim(-2), n = x.dim(-1), count = std::min(m, n);
  Shape flat(batchOf(x));
  auto dim = static_cast<int64_t>(flat.size());
  flat.push_back(m * n);
  return sliceDim(reshape(x, flat), dim, 0, count == 0 ? 0 : (count - 1) * (n + 1) + 1, n + 1);
}

/// Columns of x scaled by a vector per matrix.
Term scaledColumns(Term x, Term by) {
  return x * broadcastTo(unsqueeze(convert(by, x.element()), by.rank() - 1), x.shape());
}

/// The triangle of x above (or with) the diagonal, or below it; zeros elsewhere.
Term triangleOf(Term x, bool upper, bool withDiagonal) {
  Type position = x.emitter->builder.getI64Type();
  Term row = iota(*x.emitter, x.shape(), x.rank() - 2, position);
  Term column = iota(*x.emitter, x.shape(), x.rank() - 1, position);
  Term kept = upper ? (withDiagonal ? column >= row : column > row) : (withDiagonal ? column <= row : column < row);
  return select(kept, x, 0.0);
}

/// Row i is row rows[i] of x.
Term rowsTaken(Term x, Term rows) {
  return takeAlong(x, broadcastTo(unsqueeze(rows, rows.rank()), x.shape()), x.rank() - 2);
}

/// Row rows[i] is row i of x.
Term rowsPut(Term x, Term rows) {
  Term zeros = full(*x.emitter, x.shape(), 0, x.element());
  return putAlong(zeros, broadcastTo(unsqueeze(rows, rows.rank()), x.shape()), x, x.rank() - 2, "set");
}

/// Row numbers from pivots as ATen counts them, from 1: those of the factorisation that made them where it is here,
/// else one exchange after the other.
Term rowsOfPivots(Call &c, Term pivots, int64_t count) {
  Value value = pivots.value;
  auto narrowed = value.getDefiningOp<ConvertOp>();
  auto fromOne = narrowed ? narrowed.getX().getDefiningOp<AddOp>() : AddOp();
  if (auto made = fromOne ? fromOne.getA().getDefiningOp<LuOp>() : LuOp(); made && fromOne.getA() == made.getPivots()) {
    return {made.getPermutation(), &c.emitter};
  }
  constexpr int64_t kExchanges = 64;
  int64_t steps = pivots.dim(-1);
  if (steps > kExchanges) {
    refuse("gets " + Twine(steps) + " pivots from another step, expected at most " + Twine(kExchanges) +
           "; factor the matrix in the same step");
  }
  Shape shape(Dims(pivots.shape()).drop_back(1));
  auto dim = static_cast<int64_t>(shape.size());
  shape.push_back(count);
  Term place = iota(c.emitter, shape, dim, c.i64()), rows = place;
  Term from = convert(pivots, c.i64()) - 1.0;
  for (int64_t step = 0; step < steps; ++step) {
    Term other = sliceDim(from, dim, step, step + 1);
    Term mine = broadcastTo(sliceDim(rows, dim, step, step + 1), shape);
    Term theirs = broadcastTo(takeAlong(rows, other, dim), shape);
    rows =
        select(eq(place, static_cast<double>(step)), theirs, select(eq(place, broadcastTo(other, shape)), mine, rows));
  }
  return rows;
}

Term pivotsOf(Call &c, const Lu &f) { return convert(f.pivots + 1.0, c.emitter.builder.getI32Type()); }

/// x with a x = b (or a^T x = b) from the factors of a.
Term solved(Term factors, Term rows, Term b, bool turnedRound) {
  if (!turnedRound) {
    Term y = triangularSolve(factors, rowsTaken(b, rows), /*lower=*/true, /*unit=*/true);
    return triangularSolve(factors, y, /*lower=*/false, /*unit=*/false);
  }
  Term turned = transposeLast(factors);
  Term y = triangularSolve(turned, b, /*lower=*/true, /*unit=*/false);
  return rowsPut(triangularSolve(turned, y, /*lower=*/false, /*unit=*/true), rows);
}

/// Both with the batch dims of the result.
void align(Term &a, Term &b) {
  Shape batch = broadcastShapes(batchOf(a), batchOf(b));
  a = repeated(a, batch);
  b = repeated(b, batch);
}

void requirePivot(Call &c) {
  if (!c.boolean("pivot", true)) {
    refuse("factors without exchanging rows, expected pivot=True");
  }
}

Results ldlFactor(Call &c) {
  Ldl f = ldl(c.in("self"), c.boolean("hermitian"));
  return {f.factors, f.pivots, f.order};
}

Results ldlSolved(Call &c) {
  Term factors = c.in("LD"), b = c.in("B"), pivots = convert(c.in("pivots"), c.i64());
  Shape batch = broadcastShapes(batchOf(factors), batchOf(b));
  return ldlSolve(repeated(factors, batch), repeatedVector(pivots, batch), repeated(b, batch), c.boolean("hermitian"));
}

Results luFactor(Call &c) {
  requirePivot(c);
  Lu f = lu(c.in("A"));
  return {f.factors, pivotsOf(c, f), f.order};
}

/// The matrix with one 1 per column: P of A = P L U.
Term permutationOf(Term rows, Term like) {
  Shape shape(rows.shape());
  shape.push_back(rows.dim(-1));
  Term row = iota(*rows.emitter, shape, rows.rank() - 1, rows.element());
  return select(eq(row, broadcastTo(unsqueeze(rows, rows.rank() - 1), shape)), constantLike(like, 1), 0.0);
}

Term lowerOf(Term factors) {
  int64_t m = factors.dim(-2), k = std::min(m, factors.dim(-1)), rank = factors.rank();
  Term part = triangleOf(sliceDim(factors, rank - 1, 0, k), /*upper=*/false, /*withDiagonal=*/false);
  Type position = factors.emitter->builder.getI64Type();
  Term isDiagonal = eq(iota(*factors.emitter, part.shape(), rank - 2, position),
                       iota(*factors.emitter, part.shape(), rank - 1, position));
  return select(isDiagonal, 1.0, part);
}

Term upperOf(Term factors) {
  int64_t k = std::min(factors.dim(-2), factors.dim(-1));
  return triangleOf(sliceDim(factors, factors.rank() - 2, 0, k), /*upper=*/true, /*withDiagonal=*/true);
}

Results luMatrices(Call &c) {
  requirePivot(c);
  Lu f = lu(c.in("A"));
  return {permutationOf(f.rows, f.factors), lowerOf(f.factors), upperOf(f.factors)};
}

Results luUnpack(Call &c) {
  Term factors = c.in("LU_data");
  Term nothing = full(c.emitter, {0}, 0, factors.element());
  bool data = c.boolean("unpack_data", true), pivots = c.boolean("unpack_pivots", true);
  Term matrix = pivots ? permutationOf(rowsOfPivots(c, c.in("LU_pivots"), factors.dim(-2)), factors) : nothing;
  return {matrix, data ? lowerOf(factors) : nothing, data ? upperOf(factors) : nothing};
}

/// -1 for each exchange of rows.
Term signOfRows(const Lu &f) {
  Term isMoved = ne(f.pivots, iota(*f.pivots.emitter, f.pivots.shape(), f.pivots.rank() - 1, f.pivots.element()));
  Term moved = sum(toIndex(isMoved), {f.pivots.rank() - 1});
  return convert(convert(1.0 - rem(moved, constantLike(moved, 2)) * 2.0, realElement(f.factors.element())),
                 f.factors.element());
}

/// Of A, or of its transpose where ATen has that (kRowMajorAttr): of real matrices.
Lu factoredAsGiven(Call &c) {
  Term a = c.in("A");
  return lu(c.op->hasAttr(kRowMajorAttr) && !a.isComplex() ? transposeLast(a) : a);
}

Results determinant(Call &c) {
  Lu f = factoredAsGiven(c);
  Term pivots = diagonal(f.factors);
  return {prod(pivots, {pivots.rank() - 1}) * signOfRows(f), f.factors, pivotsOf(c, f)};
}

Results logDeterminant(Call &c) {
  Lu f = factoredAsGiven(c);
  Term pivots = diagonal(f.factors);
  int64_t last = pivots.rank() - 1;
  return {prod(direction(pivots), {last}) * signOfRows(f), sum(log(abs(pivots)), {last}), f.factors, pivotsOf(c, f)};
}

Results inverse(Call &c) {
  Term a = c.in("A");
  Lu f = lu(a);
  return {solved(f.factors, f.rows, identity(a, batchOf(a), a.dim(-1)), /*turnedRound=*/false), f.order};
}

Results solve(Call &c) {
  Term a = c.in("A"), b = c.in("B");
  // One vector, or one per matrix, as ATen tells them.
  bool isVector = b.rank() == 1 || (a.rank() - 1 == b.rank() && b.shape() == a.shape().drop_back(1));
  b = isVector ? unsqueeze(b, b.rank()) : b;
  bool left = c.boolean("left", true);
  Lu f = lu(a);
  b = left ? b : transposeLast(b);
  Term factors = f.factors;
  align(factors, b);
  Term x = solved(factors, repeatedVector(f.rows, batchOf(b)), b, /*turnedRound=*/!left);
  x = left ? x : transposeLast(x);
  return {reshape(x, c.shape()), f.factors, pivotsOf(c, f), f.order};
}

Results luSolve(Call &c) {
  Term factors = c.in("LU"), b = c.in("B");
  bool left = c.boolean("left", true), adjoint = c.boolean("adjoint");
  factors = adjoint ? conj(factors) : factors;
  Term rows = rowsOfPivots(c, c.in("pivots"), factors.dim(-2));
  b = left ? b : transposeLast(b);
  align(factors, b);
  Term x = solved(factors, repeatedVector(rows, batchOf(b)), b, adjoint == left);
  return left ? x : transposeLast(x);
}

Term substituted(Term a, Term b, bool upper, bool left, bool unit) {
  a = left ? a : transposeLast(a);
  b = left ? b : transposeLast(b);
  align(a, b);
  Term x = triangularSolve(a, b, /*lower=*/upper != left, unit);
  return left ? x : transposeLast(x);
}

Results solveTriangular(Call &c) {
  return substituted(c.in("self"), c.in("B"), c.boolean("upper"), c.boolean("left", true), c.boolean("unitriangular"));
}

Results triangularSolveOld(Call &c) {
  Term b = c.in("self"), a = c.in("A");
  bool upper = c.boolean("upper", true);
  Term turned = c.boolean("transpose") ? transposeLast(a) : a;
  Term x = substituted(turned, b, upper != c.boolean("transpose"), /*left=*/true, c.boolean("unitriangular"));
  return {x, repeated(a, batchOf(x))};
}

/// From the factor that A = L L^H, or U^H U, has.
Term choleskySolved(Term factor, Term b, bool upper) {
  Term lower = upper ? adjointOf(factor) : factor;
  align(lower, b);
  Term y = triangularSolve(lower, b, /*lower=*/true, /*unit=*/false);
  return triangularSolve(adjointOf(lower), y, /*lower=*/false, /*unit=*/false);
}

Results choleskySolve(Call &c) { return choleskySolved(c.in("input2"), c.in("self"), c.boolean("upper")); }

Results choleskyInverse(Call &c) {
  Term factor = c.in("self");
  return choleskySolved(factor, identity(factor, batchOf(factor), factor.dim(-1)), c.boolean("upper"));
}

Results qrFactors(Call &c) {
  Term a = c.in("A");
  StringRef mode = c.string("mode");
  if (mode != "reduced" && mode != "complete" && mode != "r") {
    refuse("has mode \"" + mode + "\", expected reduced, complete or r");
  }
  auto [q, r] = qr(a, mode == "complete");
  return {mode == "r" ? full(c.emitter, {0}, 0, a.element()) : q, r};
}

Results symmetricEigen(Call &c) {
  Term a = c.in("A");
  StringRef triangle = c.string("UPLO");
  bool upper = triangle.starts_with_insensitive("u");
  auto [values, vectors] = eigh(upper ? adjointOf(a) : a);
  return {values, c.boolean("compute_v", true) ? vectors : full(c.emitter, {0}, 0, a.element())};
}

Results singular(Call &c) {
  Term a = c.in("A");
  Svd f = svd(a, c.boolean("full_matrices"));
  if (!c.boolean("compute_uv", true)) {
    Term nothing = full(c.emitter, {0}, 0, a.element());
    return {nothing, f.s, nothing};
  }
  return {f.u, f.s, f.vt};
}

/// Through what is above the tolerance: an absolute one, or one relative to the largest.
Results pseudoInverse(Call &c) {
  Term a = c.in("self");
  double unit = realElement(a.element()).isF64() ? 0x1p-52 : 0x1p-23;
  int64_t m = a.dim(-2), n = a.dim(-1);
  if (m == 0 || n == 0) {
    return full(c.emitter, c.shape(), 0, a.element());
  }
  Term values, left, right;
  if (c.boolean("hermitian")) {
    std::tie(values, left) = eigh(a);
    right = left;
  } else {
    Svd f = svd(a, /*full=*/false);
    values = f.s;
    left = f.u;
    right = adjointOf(f.vt);
  }
  int64_t last = values.rank() - 1;
  Term size = abs(values), largest = amax(size, {last}, /*keep=*/true);
  auto tolerance = [&](StringRef name) {
    Term given = c.number(name, values.element());
    return !given || given.rank() == 0 ? given : unsqueeze(given, given.rank());
  };
  Term absolute = tolerance("atol"), relative = tolerance("rtol");
  // As ATen has it: the default relative tolerance counts where no absolute one above 0 is given.
  Term usual = constantLike(values, unit * static_cast<double>(std::max(m, n)));
  if (!relative) {
    relative =
        absolute ? select(absolute > 0.0, constantLike(absolute, 0), broadcastTo(usual, absolute.shape())) : usual;
  }
  Term limit = broadcastTo(relative, largest.shape()) * largest;
  if (absolute) {
    limit = max(limit, broadcastTo(absolute, limit.shape()));
  }
  Term isLarge = size > broadcastTo(limit, size.shape());
  Term inverted = select(isLarge, 1.0 / values, 0.0);
  return product(scaledColumns(right, inverted), adjointOf(left));
}

/// exp(x) = exp(x / 2^s)^(2^s), with Taylor's series where the norm is at most 1.
Results matrixExponential(Call &c) {
  Term x = c.wide("self");
  int64_t n = x.dim(-1), rank = x.rank();
  if (x.numel() == 0) {
    return x;
  }
  constexpr int kSquarings = 40, kTerms = 18;
  Term norm = amax(sum(abs(x), {rank - 2}), {rank - 2});
  Term steps = min(max(ceil(log(max(norm, 1.0)) * (1 / std::log(2.0))), 0.0), kSquarings + 1.0);
  auto everywhere = [&](Term one) {
    return broadcastTo(unsqueeze(unsqueeze(one, one.rank()), one.rank() + 1), x.shape());
  };
  Term scaled = x * convert(everywhere(pow(constantLike(steps, 0.5), steps)), x.element());
  Term one = identity(x, batchOf(x), n);
  Term y = one;
  for (int k = kTerms; k > 0; --k) {
    y = one + product(scaled, y) * (1.0 / k);
  }
  for (int k = 0; k < kSquarings; ++k) {
    y = select(everywhere(steps > static_cast<double>(k)), product(y, y), y);
  }
  // Larger norms than 2^40 have no digits left.
  return select(everywhere(steps > static_cast<double>(kSquarings)), std::numeric_limits<double>::quiet_NaN(), y);
}

} // namespace

void addLinearAlgebra(Table &t) {
  t.add({"linalg_ldl_factor_ex"}, ldlFactor);
  t.add({"linalg_ldl_solve"}, ldlSolved);
  t.add({"linalg_lu_factor_ex"}, luFactor);
  t.add({"linalg_lu"}, luMatrices);
  t.add({"lu_unpack"}, luUnpack);
  t.add({"linalg_lu_solve"}, luSolve);
  t.add({"_linalg_det"}, determinant);
  t.add({"_linalg_slogdet"}, logDeterminant);
  t.add({"linalg_inv_ex"}, inverse);
  t.add({"_linalg_solve_ex"}, solve);
  t.add({"linalg_solve_triangular"}, solveTriangular);
  t.add({"triangular_solve"}, triangularSolveOld);
  t.add({"cholesky_solve"}, choleskySolve);
  t.add({"cholesky_inverse"}, choleskyInverse);
  t.add({"linalg_qr"}, qrFactors);
  t.add({"_linalg_eigh"}, symmetricEigen);
  t.add({"_linalg_svd"}, singular);
  t.add({"linalg_pinv"}, pseudoInverse);
  t.add({"linalg_matrix_exp"}, matrixExponential);
}

} // namespace sojourn::decompose
