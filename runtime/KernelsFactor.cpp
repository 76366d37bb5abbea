// SPDX-License-Identifier: Apache-2.0
// Factors of matrices on the library: each matrix on its own, by one thread.
#include "runtime/Elements.h"
#include "runtime/Library.h"
#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <limits>
#include <numeric>

namespace sojourn::runtime {

namespace {

/// float of std::complex<float>; a real type itself.
template <typename T>
struct RealOf {
  using Type = T;
};
template <typename T>
struct RealOf<std::complex<T>> {
  using Type = T;
};
template <typename T>
using Real = typename RealOf<T>::Type;

/// NaN in each part.
template <typename T>
T notANumber() {
  constexpr Real<T> kNan = std::numeric_limits<Real<T>>::quiet_NaN();
  if constexpr (std::is_same_v<T, Real<T>>) {
    return kNan;
  } else {
    return {kNan, kNan};
  }
}

/// What the library leaves of a matrix without a factor differs; a NaN that it did not notice is on the diagonal.
template <typename T>
void settleCholesky(T *factor, int64_t *order, int64_t size) {
  for (int64_t k = 0; k < size && *order == 0; ++k) {
    *order = std::real(factor[k * size + k]) > 0 ? 0 : k + 1;
  }
  if (*order != 0) {
    std::fill_n(factor, size * size, notANumber<T>());
  }
}

/// Calls fn<T>() for float, double and the complex numbers of both.
template <typename Fn>
auto dispatchFactor(Lowering &lowering, Element element, Fn fn) {
  switch (element) {
  case Element::f32: return fn.template operator()<float>();
  case Element::f64: return fn.template operator()<double>();
  case Element::c64: return fn.template operator()<std::complex<float>>();
  case Element::c128: return fn.template operator()<std::complex<double>>();
  default: lowering.fail("no factors of element type " + std::string(elementName(element)));
  }
}

void lowerCholesky(Lowering &lowering, const GraphOp &op) {
  const TensorType &type = lowering.type(op.operands[0]);
  const int64_t size = type.dims.back(), count = lowering.type(op.results[1]).numel();
  WideInput x(lowering, op.operands[0]);
  WideOutput factor(lowering, op.results[0]);
  Place order = lowering.result(op.results[1]);
  Partition partition(count, size * size * size);
  lowering.libraryCalls(op, partition.rows);
  // The library's own factor, and what its blocks need.
  lowering.libraryMemory(3 * static_cast<size_t>(count * size * size) * byteWidth(x.element));
  const StridedView from = denseView(x.place(), x.element, {count, size, size});
  const StridedView to = denseView(factor.place(), x.element, {count, size, size});
  lowering.emit(op, dispatchFactor(lowering, x.element, [&]<typename T>() -> std::unique_ptr<Kernel> {
                  return makeKernel(
                      [=](SlotTable slots, int64_t lo, int64_t hi) {
                        const int64_t first = partition.begin(lo), past = partition.begin(hi);
                        MatrixView source(from, slots), target(to, slots);
                        source.narrow(0, first, past);
                        target.narrow(0, first, past);
                        libraryCholesky(target, source, order.in<int64_t>(slots) + first);
                        for (int64_t k = first; k < past; ++k) {
                          settleCholesky(factor.place().in<T>(slots) + k * size * size, order.in<int64_t>(slots) + k,
                                         size);
                        }
                      },
                      partition.rows);
                }));
}

/// Matrices of one operand or result, as views of single ones; of a vector per matrix as [n, 1].
struct Matrices {
  StridedView view;

  Matrices(Lowering &lowering, ValueId value, Place place, Element element, int64_t count, bool isVector = false) {
    const auto &dims = lowering.type(value).dims;
    const size_t rank = dims.size();
    view = isVector ? denseView(place, element, {count, dims[rank - 1], 1})
                    : denseView(place, element, {count, dims[rank - 2], dims[rank - 1]});
  }
  MatrixView at(int64_t matrix, SlotTable slots) const {
    MatrixView one(view, slots);
    one.narrow(0, matrix, matrix + 1);
    return one;
  }
  int64_t size() const { return view.dims[1] * view.dims[2]; }
  template <typename T>
  T *elements(int64_t matrix, SlotTable slots) const {
    return reinterpret_cast<T *>(MatrixView(view, slots).data) + matrix * size();
  }
  template <typename T>
  void spoil(int64_t matrix, SlotTable slots) const {
    std::fill_n(elements<T>(matrix, slots), size(), notANumber<T>());
  }
};

/// How many matrices an operand holds.
int64_t countOf(const TensorType &type) {
  int64_t count = 1;
  for (size_t i = 0; i + 2 < type.dims.size(); ++i) {
    count *= type.dims[i];
  }
  return count;
}

template <typename T>
bool isFinite(const T *from, int64_t count) {
  return std::all_of(from, from + count,
                     [](T x) { return std::isfinite(std::real(x)) && std::isfinite(std::imag(x)); });
}

/// Multiplies each entry; by 1 nothing changes, the signs of zeros neither.
template <typename T>
void multiply(T *vector, int64_t count, int64_t step, T factor) {
  for (int64_t i = 0; i < count && factor != T(1); ++i) {
    vector[i * step] *= factor;
  }
}

/// Turns a vector so that its entry of the largest magnitude is real and not negative; returns what it was multiplied
/// by. Entries a little smaller count as equal, so that rounding does not choose another one.
template <typename T>
T turn(T *vector, int64_t count, int64_t step) {
  Real<T> largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    largest = std::max(largest, std::abs(vector[i * step]));
  }
  for (int64_t i = 0; i < count && largest > 0; ++i) {
    T &entry = vector[i * step];
    if (const Real<T> size = std::abs(entry); size >= largest * (1 - Real<T>(0x1p-12))) {
      T factor;
      if constexpr (std::is_same_v<T, Real<T>>) {
        factor = entry < 0 ? T(-1) : T(1);
      } else {
        factor = std::imag(entry) == 0 ? T(std::real(entry) < 0 ? -1 : 1) : std::conj(entry) / size;
      }
      multiply(vector, count, step, factor);
      entry = size;
      return factor;
    }
  }
  return T(1);
}

/// Of a number of magnitude 1.
template <typename T>
T inverseOf(T factor) {
  if constexpr (std::is_same_v<T, Real<T>>) {
    return factor;
  } else {
    return std::conj(factor);
  }
}

/// Emits a kernel that works matrix by matrix; `body.operator()<T>(matrix, slots)`.
template <typename Body>
void eachMatrix(Lowering &lowering, const GraphOp &op, Element element, int64_t count, int64_t work, Body body) {
  constexpr int64_t kCall = 4096; // of the library, also for an empty matrix
  Partition partition(count, work + kCall);
  lowering.libraryCalls(op, partition.rows);
  lowering.emit(op, dispatchFactor(lowering, element, [&]<typename T>() -> std::unique_ptr<Kernel> {
                  return makeKernel(
                      [=](SlotTable slots, int64_t lo, int64_t hi) {
                        for (int64_t matrix = partition.begin(lo); matrix < partition.begin(hi); ++matrix) {
                          body.template operator()<T>(matrix, slots);
                        }
                      },
                      partition.rows);
                }));
}

/// Sizes up to which a call of the library takes longer than the arithmetic.
constexpr int64_t kSmallOrder = 16, kSmallSize = 256;

/// By substitution; for small matrices of real numbers.
template <typename T>
void solveTriangle(const MatrixView &out, const MatrixView &a, const MatrixView &b, bool lower, bool unit) {
  auto at = [](const MatrixView &matrix, int64_t row, int64_t column) -> T & {
    return reinterpret_cast<T *>(matrix.data)[row * matrix.strides[1] + column * matrix.strides[2]];
  };
  const int64_t order = b.dims[1], columns = b.dims[2];
  std::array<T, kSmallSize> solved; // by row
  for (int64_t step = 0; step < order; ++step) {
    const int64_t row = lower ? step : order - 1 - step;
    T *own = solved.data() + row * columns;
    for (int64_t column = 0; column < columns; ++column) {
      own[column] = at(b, row, column);
    }
    for (int64_t other = lower ? 0 : row + 1; other < (lower ? row : order); ++other) {
      const T factor = at(a, row, other);
      const T *known = solved.data() + other * columns;
      for (int64_t column = 0; column < columns; ++column) {
        own[column] -= factor * known[column];
      }
    }
    for (int64_t column = 0; column < columns && !unit; ++column) {
      own[column] /= at(a, row, row);
    }
  }
  for (int64_t row = 0; row < order; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      at(out, row, column) = solved[static_cast<size_t>(row * columns + column)];
    }
  }
}

void lowerTriangularSolve(Lowering &lowering, const GraphOp &op) {
  const TensorType type = lowering.type(op.operands[1]);
  const int64_t count = countOf(type);
  WideInput a(lowering, op.operands[0]), b(lowering, op.operands[1]);
  WideOutput out(lowering, op.results[0]);
  Matrices left(lowering, op.operands[0], a.place(), a.element, count);
  Matrices right(lowering, op.operands[1], b.place(), b.element, count);
  Matrices result(lowering, op.results[0], out.place(), out.element, count);
  const bool lower = (op.integer("lower") != 0), unit = (op.integer("unit") != 0);
  lowering.libraryMemory(2 * static_cast<size_t>(left.size() + right.size()) * byteWidth(a.element), count);
  eachMatrix(lowering, op, a.element, count, right.size() * left.view.dims[1],
             [=]<typename T>(int64_t matrix, SlotTable slots) {
               if constexpr (std::is_same_v<T, Real<T>>) {
                 if (right.view.dims[1] <= kSmallOrder && right.view.dims[1] * right.view.dims[2] <= kSmallSize) {
                   return solveTriangle<T>(result.at(matrix, slots), left.at(matrix, slots), right.at(matrix, slots),
                                           lower, unit);
                 }
               }
               libraryTriangularSolve(result.at(matrix, slots), left.at(matrix, slots), right.at(matrix, slots), lower,
                                      unit);
             });
}

void lowerLu(Lowering &lowering, const GraphOp &op) {
  const TensorType type = lowering.type(op.operands[0]);
  const int64_t count = countOf(type);
  WideInput x(lowering, op.operands[0]);
  WideOutput factors(lowering, op.results[0]);
  Place pivots = lowering.result(op.results[1]), rows = lowering.result(op.results[2]),
        order = lowering.result(op.results[3]);
  Matrices from(lowering, op.operands[0], x.place(), x.element, count);
  Matrices to(lowering, op.results[0], factors.place(), factors.element, count);
  const int64_t m = from.view.dims[1], n = from.view.dims[2], steps = std::min(m, n);
  lowering.libraryMemory(3 * static_cast<size_t>(from.size()) * byteWidth(x.element), count);
  eachMatrix(lowering, op, x.element, count, from.size() * steps, [=]<typename T>(int64_t matrix, SlotTable slots) {
    int64_t *exchanged = pivots.in<int64_t>(slots) + matrix * steps, *row = rows.in<int64_t>(slots) + matrix * m;
    libraryLu(to.at(matrix, slots), from.at(matrix, slots), exchanged, order.in<int64_t>(slots) + matrix);
    std::iota(row, row + m, int64_t{0});
    for (int64_t i = 0; i < steps; ++i) {
      exchanged[i] = std::clamp(exchanged[i], i, m - 1); // a NaN compares with nothing
      std::swap(row[i], row[exchanged[i]]);
    }
  });
}

void lowerQr(Lowering &lowering, const GraphOp &op) {
  const TensorType type = lowering.type(op.operands[0]);
  const int64_t count = countOf(type);
  WideInput x(lowering, op.operands[0]);
  WideOutput q(lowering, op.results[0]), r(lowering, op.results[1]);
  Matrices from(lowering, op.operands[0], x.place(), x.element, count);
  Matrices orthogonal(lowering, op.results[0], q.place(), q.element, count);
  Matrices triangular(lowering, op.results[1], r.place(), r.element, count);
  const bool full = (op.integer("full") != 0);
  lowering.libraryMemory(4 * static_cast<size_t>(from.size() + orthogonal.size()) * byteWidth(x.element), count);
  eachMatrix(lowering, op, x.element, count, 4 * from.size() * from.view.dims[2],
             [=]<typename T>(int64_t matrix, SlotTable slots) {
               libraryQr(orthogonal.at(matrix, slots), triangular.at(matrix, slots), from.at(matrix, slots), full);
             });
}

void lowerEigh(Lowering &lowering, const GraphOp &op) {
  const TensorType type = lowering.type(op.operands[0]);
  const int64_t count = countOf(type), n = type.dims.back();
  WideInput x(lowering, op.operands[0]);
  WideOutput values(lowering, op.results[0]), vectors(lowering, op.results[1]);
  Matrices from(lowering, op.operands[0], x.place(), x.element, count);
  Matrices found(lowering, op.results[0], values.place(), values.element, count, /*isVector=*/true);
  Matrices columns(lowering, op.results[1], vectors.place(), vectors.element, count);
  lowering.libraryMemory(8 * static_cast<size_t>(from.size()) * byteWidth(x.element), count);
  eachMatrix(lowering, op, x.element, count, 24 * from.size() * n, [=]<typename T>(int64_t matrix, SlotTable slots) {
    const T *entries = from.elements<T>(matrix, slots);
    bool good = true;
    for (int64_t i = 0; i < n; ++i) {
      good = good && isFinite(entries + i * n, i + 1); // the triangle that is read
    }
    if (!good || !libraryEigh(found.at(matrix, slots), columns.at(matrix, slots), from.at(matrix, slots))) {
      found.spoil<Real<T>>(matrix, slots);
      columns.spoil<T>(matrix, slots);
      return;
    }
    T *vector = columns.elements<T>(matrix, slots);
    for (int64_t j = 0; j < n; ++j) {
      turn(vector + j, n, n);
    }
  });
}

void lowerSvd(Lowering &lowering, const GraphOp &op) {
  const TensorType type = lowering.type(op.operands[0]);
  const int64_t count = countOf(type);
  WideInput x(lowering, op.operands[0]);
  WideOutput u(lowering, op.results[0]), s(lowering, op.results[1]), vt(lowering, op.results[2]);
  Matrices from(lowering, op.operands[0], x.place(), x.element, count);
  Matrices left(lowering, op.results[0], u.place(), u.element, count);
  Matrices found(lowering, op.results[1], s.place(), s.element, count, /*isVector=*/true);
  Matrices right(lowering, op.results[2], vt.place(), vt.element, count);
  const bool full = (op.integer("full") != 0);
  const int64_t m = from.view.dims[1], n = from.view.dims[2], least = std::min(m, n);
  const int64_t columns = left.view.dims[2], rows = right.view.dims[1];
  lowering.libraryMemory(8 * static_cast<size_t>(from.size() + left.size() + right.size()) * byteWidth(x.element),
                         count);
  eachMatrix(lowering, op, x.element, count, 32 * from.size() * least,
             [=]<typename T>(int64_t matrix, SlotTable slots) {
               if (!isFinite(from.elements<T>(matrix, slots), from.size()) ||
                   !librarySvd(left.at(matrix, slots), found.at(matrix, slots), right.at(matrix, slots),
                               from.at(matrix, slots), full)) {
                 left.spoil<T>(matrix, slots);
                 found.spoil<Real<T>>(matrix, slots);
                 right.spoil<T>(matrix, slots);
                 return;
               }
               T *of = left.elements<T>(matrix, slots), *to = right.elements<T>(matrix, slots);
               for (int64_t j = 0; j < columns; ++j) {
                 const T factor = turn(of + j, m, columns);
                 if (j < least) { // the product of both stays
                   multiply(to + j * n, n, 1, inverseOf(factor));
                 }
               }
               for (int64_t j = least; j < rows; ++j) {
                 turn(to + j * n, n, 1);
               }
             });
}

void lowerLdl(Lowering &lowering, const GraphOp &op) {
  const TensorType type = lowering.type(op.operands[0]);
  const int64_t count = countOf(type), n = type.dims.back();
  WideInput x(lowering, op.operands[0]);
  WideOutput factors(lowering, op.results[0]);
  Place pivots = lowering.result(op.results[1]), order = lowering.result(op.results[2]);
  Matrices from(lowering, op.operands[0], x.place(), x.element, count);
  Matrices to(lowering, op.results[0], factors.place(), factors.element, count);
  const bool hermitian = (op.integer("hermitian") != 0);
  lowering.libraryMemory(3 * static_cast<size_t>(from.size()) * byteWidth(x.element), count);
  eachMatrix(lowering, op, x.element, count, from.size() * n, [=]<typename T>(int64_t matrix, SlotTable slots) {
    libraryLdl(to.at(matrix, slots), from.at(matrix, slots), hermitian, pivots.in<int64_t>(slots) + matrix * n,
               order.in<int64_t>(slots) + matrix);
  });
}

/// Rows that are there, and blocks of two that say the same at both of their rows: the library walks over them from
/// either end, and trusts what it reads.
bool isPivoting(const int64_t *pivots, int64_t n) {
  for (int64_t k = 0; k < n; ++k) {
    const int64_t pivot = pivots[k];
    if (pivot == 0 || pivot > n || pivot < -n || (pivot < 0 && (k + 1 == n || pivots[k + 1] != pivot))) {
      return false;
    }
    k += pivot < 0 ? 1 : 0;
  }
  return true;
}

void lowerLdlSolve(Lowering &lowering, const GraphOp &op) {
  const TensorType type = lowering.type(op.operands[2]);
  const int64_t count = countOf(type), n = lowering.type(op.operands[0]).dims.back();
  WideInput a(lowering, op.operands[0]), b(lowering, op.operands[2]);
  Place pivots = lowering.dense(op.operands[1]);
  WideOutput out(lowering, op.results[0]);
  Matrices left(lowering, op.operands[0], a.place(), a.element, count);
  Matrices right(lowering, op.operands[2], b.place(), b.element, count);
  Matrices result(lowering, op.results[0], out.place(), out.element, count);
  const bool hermitian = (op.integer("hermitian") != 0);
  lowering.libraryMemory(2 * static_cast<size_t>(left.size() + right.size()) * byteWidth(a.element), count);
  eachMatrix(lowering, op, a.element, count, 2 * right.size() * n, [=]<typename T>(int64_t matrix, SlotTable slots) {
    const int64_t *mine = pivots.in<int64_t>(slots) + matrix * n;
    if (!isPivoting(mine, n)) {
      result.spoil<T>(matrix, slots);
      return;
    }
    libraryLdlSolve(result.at(matrix, slots), left.at(matrix, slots), hermitian, mine, right.at(matrix, slots));
  });
}

void lowerEig(Lowering &lowering, const GraphOp &op) {
  const TensorType type = lowering.type(op.operands[0]), vectorType = lowering.type(op.results[1]);
  const int64_t count = countOf(type), n = type.dims.back();
  Matrices from(lowering, op.operands[0], lowering.dense(op.operands[0]), type.element, count);
  Matrices values(lowering, op.results[0], lowering.result(op.results[0]), vectorType.element, count,
                  /*isVector=*/true);
  Matrices vectors(lowering, op.results[1], lowering.result(op.results[1]), vectorType.element, count);
  lowering.libraryMemory(8 * static_cast<size_t>(vectors.size()) * byteWidth(vectorType.element), count);
  eachMatrix(lowering, op, type.element, count, 64 * from.size() * n, [=]<typename T>(int64_t matrix, SlotTable slots) {
    using Number = std::complex<Real<T>>;
    Number *columns = vectors.elements<Number>(matrix, slots);
    if (isFinite(from.elements<T>(matrix, slots), from.size()) &&
        libraryEig(values.at(matrix, slots), vectors.at(matrix, slots), from.at(matrix, slots))) {
      for (int64_t j = 0; j < n; ++j) {
        turn(columns + j, n, n);
      }
      return;
    }
    vectors.spoil<Number>(matrix, slots);
    values.spoil<Number>(matrix, slots);
  });
}

} // namespace

const LowerFn kernels::lower_ldl = lowerLdl;
const LowerFn kernels::lower_ldl_solve = lowerLdlSolve;
const LowerFn kernels::lower_eig = lowerEig;
const LowerFn kernels::lower_cholesky = lowerCholesky;
const LowerFn kernels::lower_triangular_solve = lowerTriangularSolve;
const LowerFn kernels::lower_lu = lowerLu;
const LowerFn kernels::lower_qr = lowerQr;
const LowerFn kernels::lower_eigh = lowerEigh;
const LowerFn kernels::lower_svd = lowerSvd;

} // namespace sojourn::runtime
