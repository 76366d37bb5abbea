// SPDX-License-Identifier: Apache-2.0
// Complex numbers, discrete Fourier transforms and eigenvectors. What takes numbers of any kind (sums, products, exp)
// is with its family.
#include "passes/decompose/Call.h"

#include <cmath>

namespace sojourn::decompose {
namespace {

Results conjugate(Call &c) { return conj(c.in("self")); }

Results ofParts(Call &c) { return complex(c.in("real"), c.in("imag")); }

Results polar(Call &c) {
  Term size = c.in("abs"), angle = c.in("angle");
  return complex(size * cos(angle), size * sin(angle));
}

Results angle(Call &c) {
  Term x = c.in("self");
  if (x.isComplex()) {
    return atan2(imag(x), real(x));
  }
  x = widen(convert(x, c.element()));
  return select(isNan(x), x, convert(x < 0.0, x.element()) * M_PI);
}

Results sgn(Call &c) { return direction(c.in("self")); }

Results asReal(Call &c) { return parts(c.in("self")); }
Results asComplex(Call &c) { return fromParts(c.in("self")); }

/// x times what `normalization` says of a transform of so many points: 0 nothing, 1 by their root, 2 by their number.
Term normalized(Call &c, Term x, double points) {
  const int64_t by = c.integer("normalization");
  const double factor = by == 1 ? 1 / std::sqrt(points) : by == 2 ? 1 / points : 1;
  return factor == 1 ? x : x * constantLike(x, factor);
}

double pointsOf(Term x, Dims dims) {
  double points = 1;
  for (int64_t dim : dims) {
    points *= static_cast<double>(x.dim(dim));
  }
  return points;
}

/// In the order that the call gives, which says which dim is halved.
Shape transformDims(Call &c, Term x) {
  Shape dims = c.ints("dim");
  for (int64_t &dim : dims) {
    dim = wrapDim(dim, x.rank());
  }
  return dims;
}

Results complexTransform(Call &c) {
  Term x = c.in("self");
  const Shape dims = transformDims(c, x);
  if (dims.empty()) {
    return x;
  }
  return normalized(c, fftC2c(x, dims, !c.boolean("forward")), pointsOf(x, dims));
}

Results realTransform(Call &c) {
  Term x = c.in("self");
  const Shape dims = transformDims(c, x);
  Term y = c.boolean("onesided") ? fftR2c(x, dims) : fftC2c(complex(x, imag(x)), dims, /*inverse=*/false);
  return normalized(c, y, pointsOf(x, dims));
}

Results transformToReal(Call &c) {
  Term x = c.in("self");
  const Shape dims = transformDims(c, x);
  const int64_t size = c.integer("last_dim_size"), entries = size / 2 + 1;
  Term used = sliceDim(x, dims.back(), 0, std::min(entries, x.dim(dims.back())));
  if (used.dim(dims.back()) < entries) {
    Shape low(x.rank(), 0), high(x.rank(), 0), interior(x.rank(), 0);
    high[static_cast<size_t>(dims.back())] = entries - used.dim(dims.back());
    used = pad(used, constantLike(x, 0), low, high, interior);
  }
  Term y = fftC2r(used, dims, size);
  return normalized(c, y, pointsOf(y, dims));
}

Results eigenvectors(Call &c) {
  auto [values, vectors] = eig(c.in("self"));
  return {values, vectors};
}

Results eigenvalues(Call &c) { return eig(c.in("self")).first; }

} // namespace

void addComplex(Table &t) {
  t.add({"conj_physical", "_conj_physical"}, conjugate);
  t.add({"complex"}, ofParts);
  t.add({"polar"}, polar);
  t.add({"angle"}, angle);
  t.add({"sgn"}, sgn);
  t.add({"view_as_real_copy"}, asReal);
  t.add({"view_as_complex_copy"}, asComplex);
  t.add({"_fft_c2c"}, complexTransform);
  t.add({"_fft_r2c"}, realTransform);
  t.add({"_fft_c2r"}, transformToReal);
  t.add({"linalg_eig"}, eigenvectors);
  t.add({"_linalg_eigvals", "linalg_eigvals"}, eigenvalues);
}

} // namespace sojourn::decompose
