// SPDX-License-Identifier: Apache-2.0
// Discrete Fourier transforms and eigenvectors by the library, over views of bare memory.
#include "runtime/LibraryTensor.h"
#include <ATen/ops/_fft_c2c.h>
#include <ATen/ops/_fft_c2r.h>
#include <ATen/ops/_fft_r2c.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/linalg_eig.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/arange.h>
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <span>

namespace sojourn::runtime {

void libraryFourier(const LibraryView &out, const LibraryView &x, const FourierOptions &options) {
  at::Tensor from = tensorOver(Role::first, x), made;
  constexpr int64_t kUnscaled = 0;
  // The library refuses many dims at once; transforms of some after others are the same.
  if (constexpr size_t kDims = 6; options.dims.size() > kDims) {
    const bool isComplex = options.kind == Fourier::complexes;
    const at::IntArrayRef dims(options.dims), last = dims.slice(dims.size() - 1),
                                              others = dims.slice(0, dims.size() - 1);
    if (options.kind == Fourier::fromReal) {
      from = at::_fft_r2c(from, last, kUnscaled, /*onesided=*/true);
    }
    const at::IntArrayRef whole = isComplex ? dims : others;
    for (size_t first = 0; first < whole.size(); first += kDims) {
      from = at::_fft_c2c(from, whole.slice(first, std::min(kDims, whole.size() - first)), kUnscaled,
                          isComplex ? !options.inverse : options.kind == Fourier::fromReal);
    }
    if (options.kind == Fourier::toReal) {
      from = at::_fft_c2r(from, last, kUnscaled, options.size);
    }
    tensorOver(Role::out, out).copy_(from);
    return;
  }
  switch (options.kind) {
  case Fourier::complexes: made = at::_fft_c2c(from, options.dims, kUnscaled, /*forward=*/!options.inverse); break;
  case Fourier::fromReal: made = at::_fft_r2c(from, options.dims, kUnscaled, /*onesided=*/true); break;
  case Fourier::toReal: made = at::_fft_c2r(from, options.dims, kUnscaled, options.size); break;
  }
  tensorOver(Role::out, out).copy_(made);
}

/// How a matrix was brought to moderate magnitudes.
struct Moderated {
  int exponent = 0;    ///< taken out, of 2
  bool isWide = false; ///< whether its magnitudes differ by more than 2^128
};

/// MKL 2024.2's dgeev writes beyond its workspace for doubles far from 1.
/// A matrix with such elements is brought to a largest element near 1, and elements below 2^-128 of it become 0, which
/// changes no digit that a backward stable method keeps. Nothing for any other matrix.
static std::optional<Moderated> moderate(at::Tensor &matrix) {
  constexpr int kFar = 128;
  if (matrix.scalar_type() != at::kDouble) {
    return std::nullopt;
  }
  int least = std::numeric_limits<int>::max(), most = std::numeric_limits<int>::min();
  at::Tensor dense = matrix.contiguous();
  std::span<const double> elements(dense.const_data_ptr<double>(), static_cast<size_t>(dense.numel()));
  for (double element : elements) {
    if (element != 0) {
      least = std::min(least, std::ilogb(element));
      most = std::max(most, std::ilogb(element));
    }
  }
  if (least > most || (most - least <= kFar && std::abs(most) <= kFar)) {
    return std::nullopt;
  }
  matrix = at::empty_like(dense);
  std::ranges::transform(elements, matrix.mutable_data_ptr<double>(), [&](double element) {
    return element == 0 || std::ilogb(element) < most - kFar ? 0.0 : std::scalbn(element, -most);
  });
  return Moderated{most, most - least > kFar};
}

/// A reflection, dense and the same for every matrix of this size. dgeev scales rows and columns to equal norms first,
/// which loses all digits of some vectors where magnitudes differ widely; reflected from both sides, they do not.
static at::Tensor reflectionFor(const at::Tensor &matrix) {
  at::Tensor normal = at::arange(1, matrix.size(-1) + 1, matrix.options()).cos_();
  normal.div_(at::linalg_vector_norm(normal));
  return at::eye(matrix.size(-1), matrix.options()).sub_(at::outer(normal, normal), 2);
}

bool libraryEig(const MatrixView &values, const MatrixView &vectors, const MatrixView &x) {
  try {
    at::Tensor matrix = tensorOver(Role::first, x.element, x.data, x.dims, x.strides);
    const std::optional<Moderated> moderated = moderate(matrix);
    at::Tensor reflection;
    if (moderated && moderated->isWide) {
      reflection = reflectionFor(matrix);
      matrix = at::matmul(at::matmul(reflection, matrix), reflection);
    }
    auto [found, columns] = at::linalg_eig(matrix);
    if (reflection.defined()) {
      columns = at::matmul(reflection.to(columns.scalar_type()), columns);
    }
    if (moderated) {
      auto *parts = reinterpret_cast<double *>(found.mutable_data_ptr<c10::complex<double>>());
      std::transform(parts, parts + 2 * found.numel(), parts,
                     [&](double part) { return std::scalbn(part, moderated->exponent); });
    }
    tensorOver(Role::out, values.element, values.data, values.dims, values.strides).copy_(found.unsqueeze(-1));
    tensorOver(Role::out, vectors.element, vectors.data, vectors.dims, vectors.strides).copy_(columns);
    return true;
  } catch (const c10::LinAlgError &) {
    return false; // it did not converge
  }
}

} // namespace sojourn::runtime
