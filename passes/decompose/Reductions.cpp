// SPDX-License-Identifier: Apache-2.0
// Sums, means, extremes, variances, norms. Kept dimensions follow from the
// recorded result shape.
#include "passes/decompose/Call.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace sojourn::decompose {
namespace {

/// The argument in the element type of the result, as ATen casts before it
/// reduces.
Term summand(Call &c) { return convert(c.in("self"), c.element()); }

/// Gives a reduced term the recorded shape, which differs in kept dims only.
Term shaped(Call &c, Term x, size_t result = 0) { return reshape(x, c.shape(result)); }

int64_t countOf(Term x, Dims dims) {
  int64_t count = 1;
  for (int64_t dim : dims) {
    count *= x.dim(dim);
  }
  return count;
}

Results sums(Call &c) {
  Term x = summand(c);
  return shaped(c, sum(x, c.dims("dim", x)));
}

Results means(Call &c) {
  Term x = widen(summand(c));
  return shaped(c, mean(x, c.dims("dim", x)));
}

Results nansum(Call &c) {
  Term x = summand(c);
  return shaped(c, sum(select(isNan(x), 0.0, x), c.dims("dim", x)));
}

Results products(Call &c) {
  Term x = summand(c);
  return shaped(c, prod(x, c.dims("dim", x)));
}

Results truth(Call &c) {
  Term x = toBool(c.in("self"));
  Shape dims = c.dims("dim", x);
  return shaped(c, c.base == "any" ? sum(x, dims) : prod(x, dims));
}

Results extremes(Call &c) {
  bool largest = c.base == "amax";
  Term x = c.in("self");
  Shape dims = c.dims("dim", x);
  if (countOf(x, dims) == 0) {
    return c.fail("has no element to choose from");
  }
  return shaped(c, largest ? amax(x, dims) : amin(x, dims));
}

/// max and min: of two tensors, of everything, or along a dimension with
/// the index of the first.
Results maxmin(Call &c) {
  bool largest = c.base == "max";
  Term x = c.in("self");
  if (c.has("other")) {
    Term y = c.number("other", x.element());
    return largest ? max(x, y) : min(x, y);
  }
  Shape dims = c.dims("dim", x);
  if (countOf(x, dims) == 0) {
    return c.fail("has no element to choose from");
  }
  Term value = shaped(c, largest ? amax(x, dims) : amin(x, dims));
  if (c.resultCount() == 1) {
    return value;
  }
  if (x.rank() == 0) {
    return {value, full(c.emitter, {}, 0, c.i64())};
  }
  Term index = largest ? argmax(x, dims[0]) : argmin(x, dims[0]);
  return {value, shaped(c, index, 1)};
}

Results aminmax(Call &c) {
  Term x = c.in("self");
  Shape dims = c.dims("dim", x);
  return {shaped(c, amin(x, dims)), shaped(c, amax(x, dims), 1)};
}

Results arguments(Call &c) {
  Term x = c.in("self");
  int64_t dim = wrapDim(c.integer("dim"), x.rank());
  if (!c.has("dim")) {
    x = reshape(x, {x.numel()});
    dim = 0;
  }
  if (x.rank() == 0) {
    return full(c.emitter, c.shape(), 0, c.i64());
  }
  return shaped(c, c.base == "argmax" ? argmax(x, dim) : argmin(x, dim));
}

/// Variance (or its root) and mean over `dims`.
std::pair<Term, Term> moments(Call &c, bool root) {
  Term x = c.wide("self");
  Shape dims = c.dims("dim", x);
  double count = static_cast<double>(countOf(x, dims));
  Term center = mean(x, dims, /*keep=*/true);
  Term squares = centeredSquares(x, center, dims);
  Term divisor;
  if (c.has("unbiased")) {
    divisor = constantLike(squares, std::max(0.0, count - c.boolean("unbiased")));
  } else {
    Term correction = c.number("correction", squares.element(), 1);
    divisor = max(count - correction, 0.0);
  }
  Term variance = squares / divisor;
  return {root ? sqrt(variance) : variance, center};
}

Results norm(Call &c) {
  Term x = c.in("self");
  Type element = wideElement(c.element());
  Term magnitude = x.isComplex() ? convert(abs(x), element) : abs(convert(x, element));
  return shaped(c, normOver(c, magnitude, c.dims("dim", x), c.anyOf({"ord", "p"})));
}

Results logSumExp(Call &c) {
  Term x = c.wide("self");
  if (!x.isFloat() && !x.isComplex()) {
    x = convert(x, wideElement(c.element()));
  }
  Shape dims = c.dims("dim", x);
  if (countOf(x, dims) == 0) {
    return full(c.emitter, c.shape(), -kInfinity, x.element());
  }
  // An infinite maximum must not be subtracted: inf - inf is NaN.
  Term top = amax(real(x), dims, /*keep=*/true);
  top = convert(select(eq(abs(top), kInfinity), 0.0, top), x.element());
  Term total = sum(exp(x - top), dims, /*keep=*/true);
  return shaped(c, log(total) + top);
}

} // namespace

Term normOver(Call &c, Term magnitude, Dims dims, StringRef order) {
  Type element = magnitude.element();
  auto nonzero = [&] { return convert(ne(magnitude, 0.0), element); };
  if (!c.has(order) || c.isLiteral(order, 2)) {
    return sqrt(sum(square(magnitude), dims));
  }
  bool empty = countOf(magnitude, dims) == 0;
  if (auto p = c.literal(order)) {
    if (*p == 0) {
      return sum(nonzero(), dims);
    }
    if (*p == 1) {
      return sum(magnitude, dims);
    }
    if (std::abs(*p) == kInfinity) {
      return empty ? sum(magnitude, dims) : *p > 0 ? amax(magnitude, dims) : amin(magnitude, dims);
    }
  }
  // The order is a run-time value: one sum whose terms and root it chooses. A power of 1 is exact.
  Term p = c.number(order, element);
  Term isZero = eq(p, 0.0);
  Term total = sum(select(isZero, nonzero(), pow(magnitude, p)), dims);
  Term rooted = select(eq(p, 2.0), sqrt(total), pow(total, 1.0 / p));
  rooted = select(isZero, total, rooted);
  if (!empty) {
    rooted = select(eq(p, kInfinity), amax(magnitude, dims), rooted);
    rooted = select(eq(p, -kInfinity), amin(magnitude, dims), rooted);
  }
  return rooted;
}

void addReductions(Table &t) {
  t.add({"sum"}, sums);
  t.add({"mean"}, means);
  t.add({"nansum"}, nansum);
  t.add({"prod"}, products);
  t.add({"any", "all"}, truth);
  t.add({"amax", "amin"}, extremes);
  t.add({"max", "min"}, maxmin);
  t.add({"aminmax"}, aminmax);
  t.add({"argmax", "argmin"}, arguments);
  t.add({"var"}, [](Call &c) -> Results { return shaped(c, moments(c, false).first); });
  t.add({"std"}, [](Call &c) -> Results { return shaped(c, moments(c, true).first); });
  t.add({"var_mean", "std_mean"}, [](Call &c) -> Results {
    auto [spread, center] = moments(c, c.base == "std_mean");
    return {shaped(c, spread), shaped(c, center, 1)};
  });
  t.add({"norm", "linalg_vector_norm"}, norm);
  t.add({"logsumexp"}, logSumExp);
  t.add({"count_nonzero"}, [](Call &c) -> Results {
    Term x = toIndex(toBool(c.in("self")));
    return shaped(c, sum(x, c.dims("dim", x)));
  });
  t.add({"trace"}, [](Call &c) -> Results {
    Term x = summand(c);
    Term diagonal = eq(positions(x, 0), positions(x, 1));
    return sum(select(diagonal, x, 0.0), {0, 1});
  });
}

} // namespace sojourn::decompose
