// SPDX-License-Identifier: Apache-2.0
// Factors and transforms by plain loops, in double: memory is read and written as the library does it. What iterates
// until it converges (eigenvectors, singular values) never does here.
#include "runtime/Library.h"
#include <algorithm>
#include <cmath>
#include <complex>
#include <vector>

namespace sojourn::runtime {

namespace {

using Number = std::complex<double>;

Number get(const MatrixView &x, int64_t batch, int64_t i, int64_t j) {
  const int64_t at = batch * x.strides[0] + i * x.strides[1] + j * x.strides[2];
  switch (x.element) {
  case Element::f32: return reinterpret_cast<const float *>(x.data)[at];
  case Element::f64: return reinterpret_cast<const double *>(x.data)[at];
  case Element::c64: return Number(reinterpret_cast<const std::complex<float> *>(x.data)[at]);
  default: return reinterpret_cast<const Number *>(x.data)[at];
  }
}

void set(const MatrixView &x, int64_t batch, int64_t i, int64_t j, Number value) {
  const int64_t at = batch * x.strides[0] + i * x.strides[1] + j * x.strides[2];
  switch (x.element) {
  case Element::f32: reinterpret_cast<float *>(x.data)[at] = static_cast<float>(value.real()); return;
  case Element::f64: reinterpret_cast<double *>(x.data)[at] = value.real(); return;
  case Element::c64: reinterpret_cast<std::complex<float> *>(x.data)[at] = std::complex<float>(value); return;
  default: reinterpret_cast<Number *>(x.data)[at] = value;
  }
}

/// One matrix, row by row.
struct Matrix {
  int64_t rows, columns;
  std::vector<Number> entries;

  Matrix(int64_t rows, int64_t columns) : rows(rows), columns(columns), entries(static_cast<size_t>(rows * columns)) {}
  Matrix(const MatrixView &x, int64_t batch) : Matrix(x.dims[1], x.dims[2]) {
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        (*this)(i, j) = get(x, batch, i, j);
      }
    }
  }
  Number &operator()(int64_t i, int64_t j) { return entries[static_cast<size_t>(i * columns + j)]; }
  void store(const MatrixView &to, int64_t batch) {
    for (int64_t i = 0; i < to.dims[1]; ++i) {
      for (int64_t j = 0; j < to.dims[2]; ++j) {
        set(to, batch, i, j, (*this)(i, j));
      }
    }
  }
};

/// Row by row, from the end that the triangle is short at.
void substitute(Matrix &a, Matrix &x, bool lower, bool unit) {
  for (int64_t step = 0; step < a.rows; ++step) {
    const int64_t i = lower ? step : a.rows - 1 - step;
    for (int64_t j = 0; j < x.columns; ++j) {
      for (int64_t k = lower ? 0 : i + 1; k < (lower ? i : a.rows); ++k) {
        x(i, j) -= a(i, k) * x(k, j);
      }
      x(i, j) = unit ? x(i, j) : x(i, j) / a(i, i);
    }
  }
}

/// What LAPACK compares pivots by.
double sizeOf(Number x) { return std::abs(x.real()) + std::abs(x.imag()); }

} // namespace

void libraryCholesky(const MatrixView &out, const MatrixView &x, int64_t *orders) {
  const int64_t size = out.dims[1];
  for (int64_t batch = 0; batch < out.dims[0]; ++batch) {
    Matrix from(x, batch), l(size, size);
    orders[batch] = 0;
    for (int64_t j = 0; j < size && orders[batch] == 0; ++j) {
      for (int64_t i = j; i < size; ++i) {
        Number rest = i == j ? from(i, j).real() : from(i, j);
        for (int64_t k = 0; k < j; ++k) {
          rest -= l(i, k) * std::conj(l(j, k));
        }
        l(i, j) = i == j ? std::sqrt(rest.real()) : rest / l(j, j);
      }
      orders[batch] = l(j, j).real() > 0 ? 0 : j + 1;
    }
    l.store(out, batch);
  }
}

void libraryTriangularSolve(const MatrixView &out, const MatrixView &a, const MatrixView &b, bool lower, bool unit) {
  for (int64_t batch = 0; batch < out.dims[0]; ++batch) {
    Matrix left(a, batch), x(b, batch);
    substitute(left, x, lower, unit);
    x.store(out, batch);
  }
}

void libraryLu(const MatrixView &factors, const MatrixView &x, int64_t *pivots, int64_t *orders) {
  const int64_t steps = std::min(x.dims[1], x.dims[2]);
  for (int64_t batch = 0; batch < x.dims[0]; ++batch) {
    Matrix a(x, batch);
    orders[batch] = 0;
    for (int64_t k = 0; k < steps; ++k) {
      int64_t pivot = k;
      for (int64_t i = k + 1; i < a.rows; ++i) {
        pivot = sizeOf(a(i, k)) > sizeOf(a(pivot, k)) ? i : pivot;
      }
      pivots[batch * steps + k] = pivot;
      for (int64_t j = 0; j < a.columns; ++j) {
        std::swap(a(k, j), a(pivot, j));
      }
      orders[batch] = a(k, k) == 0.0 && orders[batch] == 0 ? k + 1 : orders[batch];
      for (int64_t i = k + 1; i < a.rows; ++i) {
        a(i, k) = a(k, k) == 0.0 ? a(i, k) : a(i, k) / a(k, k);
        for (int64_t j = k + 1; j < a.columns; ++j) {
          a(i, j) -= a(i, k) * a(k, j);
        }
      }
    }
    a.store(factors, batch);
  }
}

void libraryQr(const MatrixView &q, const MatrixView &r, const MatrixView &x, bool) {
  for (int64_t batch = 0; batch < x.dims[0]; ++batch) {
    Matrix upper(x, batch), turned(x.dims[1], x.dims[1]);
    for (int64_t i = 0; i < turned.rows; ++i) {
      turned(i, i) = 1;
    }
    // Rotations of two rows each, which turn an entry below the diagonal into 0.
    for (int64_t j = 0; j < upper.columns; ++j) {
      for (int64_t i = upper.rows - 1; i > j; --i) {
        const double size = std::hypot(std::abs(upper(i - 1, j)), std::abs(upper(i, j)));
        if (size == 0) {
          continue;
        }
        const Number c = upper(i - 1, j) / size, s = upper(i, j) / size;
        for (int64_t k = 0; k < upper.columns; ++k) {
          const Number above = upper(i - 1, k), below = upper(i, k);
          upper(i - 1, k) = std::conj(c) * above + std::conj(s) * below;
          upper(i, k) = c * below - s * above;
        }
        for (int64_t k = 0; k < turned.rows; ++k) {
          const Number left = turned(k, i - 1), right = turned(k, i);
          turned(k, i - 1) = c * left + s * right;
          turned(k, i) = std::conj(c) * right - std::conj(s) * left;
        }
      }
    }
    turned.store(q, batch);
    upper.store(r, batch);
  }
}

void libraryLdl(const MatrixView &factors, const MatrixView &x, bool hermitian, int64_t *pivots, int64_t *order) {
  Matrix a(x, 0);
  *order = 0;
  for (int64_t k = 0; k < a.rows; ++k) {
    pivots[k] = k + 1; // nothing is exchanged
    *order = a(k, k) == 0.0 && *order == 0 ? k + 1 : *order;
    for (int64_t i = k + 1; i < a.rows; ++i) {
      const Number ratio = a(i, k) / a(k, k);
      for (int64_t j = k + 1; j <= i; ++j) {
        a(i, j) -= ratio * (hermitian ? std::conj(a(j, k)) : a(j, k));
      }
    }
    for (int64_t i = k + 1; i < a.rows; ++i) {
      a(i, k) /= a(k, k);
      a(k, i) = 0;
    }
  }
  a.store(factors, 0);
}

void libraryLdlSolve(const MatrixView &out, const MatrixView &factors, bool hermitian, const int64_t *,
                     const MatrixView &b) {
  Matrix a(factors, 0), answer(b, 0), turned(a.rows, a.rows);
  substitute(a, answer, /*lower=*/true, /*unit=*/true);
  for (int64_t i = 0; i < a.rows; ++i) {
    for (int64_t j = 0; j < answer.columns; ++j) {
      answer(i, j) /= a(i, i);
    }
    for (int64_t j = 0; j < a.rows; ++j) {
      turned(i, j) = hermitian ? std::conj(a(j, i)) : a(j, i);
    }
  }
  substitute(turned, answer, /*lower=*/false, /*unit=*/true);
  answer.store(out, 0);
}

bool libraryEigh(const MatrixView &, const MatrixView &, const MatrixView &) { return false; }
bool librarySvd(const MatrixView &, const MatrixView &, const MatrixView &, const MatrixView &, bool) { return false; }
bool libraryEig(const MatrixView &, const MatrixView &, const MatrixView &) { return false; }

namespace {

using Index = llvm::SmallVector<int64_t, 6>;

int64_t offsetOf(const LibraryView &view, const Index &index) {
  int64_t offset = 0;
  for (size_t dim = 0; dim < index.size(); ++dim) {
    offset += index[dim] * view.strides[dim];
  }
  return offset;
}

Number read(const LibraryView &x, const Index &index) {
  const int64_t at = offsetOf(x, index);
  switch (x.element) {
  case Element::f32: return static_cast<const float *>(x.data)[at];
  case Element::f64: return static_cast<const double *>(x.data)[at];
  case Element::c64: return Number(static_cast<const std::complex<float> *>(x.data)[at]);
  default: return static_cast<const Number *>(x.data)[at];
  }
}

void write(const LibraryView &x, const Index &index, Number value) {
  const int64_t at = offsetOf(x, index);
  switch (x.element) {
  case Element::f32: static_cast<float *>(x.data)[at] = static_cast<float>(value.real()); return;
  case Element::f64: static_cast<double *>(x.data)[at] = value.real(); return;
  case Element::c64: static_cast<std::complex<float> *>(x.data)[at] = std::complex<float>(value); return;
  default: static_cast<Number *>(x.data)[at] = value;
  }
}

/// The next index below `dims`, the last dim fastest; false after the last.
bool advance(Index &index, llvm::ArrayRef<int64_t> dims) {
  for (size_t dim = dims.size(); dim-- > 0;) {
    if (++index[dim] < dims[dim]) {
      return true;
    }
    index[dim] = 0;
  }
  return false;
}

} // namespace

void libraryFourier(const LibraryView &out, const LibraryView &x, const FourierOptions &options) {
  const auto halved = static_cast<size_t>(options.dims.back());
  const double sign = options.kind == Fourier::toReal || options.inverse ? 1 : -1;
  // Each result is a sum over all that is transformed.
  Index to(out.dims.size(), 0);
  do {
    Index from(to), sizes(x.dims.begin(), x.dims.end());
    for (size_t dim = 0; dim < sizes.size(); ++dim) {
      if (std::find(options.dims.begin(), options.dims.end(), static_cast<int64_t>(dim)) == options.dims.end()) {
        sizes[dim] = 1;
      } else {
        from[dim] = 0;
      }
    }
    const Index base(from);
    Index step(sizes.size(), 0);
    Number sum = 0;
    do {
      double turn = 0;
      for (int64_t dim : options.dims) {
        const auto d = static_cast<size_t>(dim);
        const int64_t size = options.kind == Fourier::toReal && d == halved ? options.size : x.dims[d];
        turn += static_cast<double>(to[d] * step[d]) / static_cast<double>(size);
      }
      for (size_t dim = 0; dim < from.size(); ++dim) {
        from[dim] = base[dim] + step[dim];
      }
      const Number term = read(x, from) * std::polar(1.0, sign * 2 * M_PI * turn);
      // The entries that are not there are the conjugates of those that are.
      const bool isTwice = options.kind == Fourier::toReal && step[halved] > 0 && 2 * step[halved] != options.size;
      sum += isTwice ? Number(2 * term.real()) : term;
    } while (advance(step, sizes));
    write(out, to, sum);
  } while (advance(to, out.dims));
}

} // namespace sojourn::runtime
