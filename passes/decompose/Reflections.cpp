// SPDX-License-Identifier: Apache-2.0
// Householder's reflections as LAPACK packs them: vectors below the diagonal, each with a 1 on it, and their factors
// tau. A product of k of them is 1 - V T V^H with T = (1 + D(tau) S)^-1 D(tau), S what is above the diagonal of V^H V:
// one triangular solve, which also holds where a tau is 0.
#include "passes/decompose/Call.h"

using namespace mlir;

namespace sojourn::decompose {

namespace {

/// iota along one of the last two dimensions of matrices [..., rows, columns] like x's.
Term places(Term x, int64_t dim) {
  return iota(*x.emitter, x.shape(), x.rank() + dim, x.emitter->builder.getI64Type());
}

/// [..., m, k]: ones on the diagonal, zeros above it, x below.
Term vectorsOf(Term x, int64_t count) {
  Term v = sliceDim(x, x.rank() - 1, 0, count);
  Term row = places(v, -2), column = places(v, -1);
  return select(row > column, v, select(eq(row, column), constantLike(v, 1), 0.0));
}

/// T of V [..., m, k] and tau [..., k].
Term factorOf(Term v, Term tau) {
  Term gram = matmul(adjointOf(v), v, v.element());
  Term scales = broadcastTo(unsqueeze(tau, tau.rank()), gram.shape());
  Term row = places(gram, -2), column = places(gram, -1);
  Term above = select(column > row, gram * scales, 0.0), diagonal = select(eq(row, column), scales, 0.0);
  return triangularSolve(above, diagonal, /*lower=*/false, /*unit=*/true);
}

/// Q c, or Q^H c.
Term reflected(Term v, Term tau, Term c, bool adjoint) {
  if (c.numel() == 0 || v.numel() == 0) {
    return c;
  }
  Term factor = factorOf(v, tau);
  factor = adjoint ? adjointOf(factor) : factor;
  Term part = matmul(adjointOf(v), c, c.element());
  return c - matmul(v, matmul(factor, part, c.element()), c.element());
}

Results householderProduct(Call &c) {
  Term x = c.in("input"), tau = c.in("tau");
  Term one = select(eq(places(x, -2), places(x, -1)), constantLike(x, 1), 0.0);
  return reflected(vectorsOf(x, tau.dim(-1)), tau, one, /*adjoint=*/false);
}

Results ormqr(Call &c) {
  Term tau = c.in("input2"), other = c.in("input3");
  Term v = vectorsOf(c.in("self"), tau.dim(-1));
  bool left = c.boolean("left", true), adjoint = c.boolean("transpose");
  Term y = reflected(v, tau, left ? other : adjointOf(other), adjoint == left);
  return left ? y : adjointOf(y);
}

/// One reflection 1 - tau (1, v) (1, v)^H, whose adjoint turns (alpha, below) into (beta, 0).
struct Reflection {
  Term beta, tau, v;
};

/// beta = -sign(re alpha) norm, tau = (beta - alpha) / beta, v = below / (alpha - beta); tau = 0 where there is nothing
/// to turn: nothing below, and no imaginary part.
Reflection reflectionOf(Term alpha, Term below, int64_t row) {
  Term re = real(alpha), size = abs(alpha);
  const bool isLast = below.dim(row) == 0;
  Term largest = isLast ? full(*re.emitter, re.shape(), 0, re.element()) : amax(abs(below), {row}, /*keep=*/true);
  Term isNothing = eq(largest, 0.0);
  isNothing = alpha.isComplex() ? isNothing & eq(imag(alpha), 0.0) : isNothing;
  // Scaled, so that no square overflows or vanishes.
  Term scale = max(largest, size);
  scale = select(eq(scale, 0.0), 1.0, scale);
  Term squares = square(size / scale);
  if (!isLast) {
    squares = sum(squaredMagnitude(below / convert(scale, below.element())), {row}, /*keep=*/true) + squares;
  }
  Term norm = scale * sqrt(squares);
  Term beta = convert(select(isNothing, re, select(re < 0.0, norm, -norm)), alpha.element());
  Term tau = select(isNothing, 0.0, (beta - alpha) / beta);
  Term v = isLast ? below : select(broadcastTo(isNothing, below.shape()), 0.0, below / (alpha - beta));
  return {beta, tau, v};
}

/// Column after column.
Results geqrf(Call &c) {
  Term a = c.in("self");
  int64_t m = a.dim(-2), n = a.dim(-1), row = a.rank() - 2, column = a.rank() - 1;
  int64_t count = std::min(m, n);
  constexpr int64_t kReflections = 256;
  if (count > kReflections) {
    refuse("factors matrices of " + Twine(m) + " by " + Twine(n) + ", expected at most " + Twine(kReflections) +
           " reflections; use torch.linalg.qr");
  }
  Shape scalars(a.shape().drop_back(1));
  scalars[row] = 1;
  SmallVector<Term> taus;
  if (a.numel() == 0) {
    return {a, full(c.emitter, c.shape(1), 0, a.element())};
  }
  for (int64_t j = 0; j < count; ++j) {
    if (j + 1 == m && !a.isComplex()) { // a real number alone stays as it is
      taus.push_back(full(c.emitter, scalars, 0, a.element()));
      break;
    }
    Term x = sliceDim(a, column, j, j + 1);
    auto [beta, tau, v] = reflectionOf(sliceDim(x, row, j, j + 1), sliceDim(x, row, j + 1, m), row);
    taus.push_back(reshape(tau, scalars));
    // What is written: beta and the vector; to the right the reflected columns.
    Shape at(a.rank(), 0), stride(a.rank(), 1);
    at[row] = j;
    at[column] = j;
    Term packed = concat({beta, v}, row);
    if (j + 1 == n) {
      a = updateSlice(a, packed, at, stride);
      break;
    }
    Term rest = sliceDim(sliceDim(a, row, j, m), column, j + 1, n);
    Term whole = concat({full(c.emitter, beta.shape(), 1, a.element()), v}, row);
    Term along = sum(rest * conj(whole), {row}, /*keep=*/true);
    a = updateSlice(a, concat({packed, rest - whole * (along * conj(tau))}, column), at, stride);
  }
  return {a, concat(taus, static_cast<int64_t>(scalars.size()) - 1)};
}

} // namespace

void addReflections(Table &t) {
  t.add({"geqrf"}, geqrf);
  t.add({"linalg_householder_product"}, householderProduct);
  t.add({"ormqr"}, ormqr);
}

} // namespace sojourn::decompose
