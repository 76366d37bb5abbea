// SPDX-License-Identifier: Apache-2.0
// Discrete Fourier transforms and eigenvectors by the library, over views of bare memory.
#include "runtime/LibraryTensor.h"
#include <ATen/ops/_fft_c2c.h>
#include <ATen/ops/_fft_c2r.h>
#include <ATen/ops/_fft_r2c.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/linalg_eig.h>
#include <algorithm>
#include <cmath>
#include <limits>
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

/// MKL 2024.2's dgeev writes beyond its workspace for doubles far from 1.
/// A matrix with such elements is brought to a largest element near 1, and elements below 2^-128 of it become 0, which
/// changes no digit that a backward stable method keeps. Returns the binary exponent taken out, 0 for any other matrix.
static int moderate(at::Tensor &matrix) {
  constexpr int kFar = 128;
  if (matrix.scalar_type() != at::kDouble) {
    return 0;
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
    return 0;
  }
  matrix = at::empty_like(dense);
  std::ranges::transform(elements, matrix.mutable_data_ptr<double>(), [&](double element) {
    return element == 0 || std::ilogb(element) < most - kFar ? 0.0 : std::scalbn(element, -most);
  });
  return most;
}

bool libraryEig(const MatrixView &values, const MatrixView &vectors, const MatrixView &x) {
  try {
    at::Tensor matrix = tensorOver(Role::first, x.element, x.data, x.dims, x.strides);
    const int exponent = moderate(matrix);
    auto [found, columns] = at::linalg_eig(matrix);
    if (exponent != 0) {
      auto *parts = reinterpret_cast<double *>(found.mutable_data_ptr<c10::complex<double>>());
      std::transform(parts, parts + 2 * found.numel(), parts, [&](double part) { return std::scalbn(part, exponent); });
    }
    tensorOver(Role::out, values.element, values.data, values.dims, values.strides).copy_(found.unsqueeze(-1));
    tensorOver(Role::out, vectors.element, vectors.data, vectors.dims, vectors.strides).copy_(columns);
    return true;
  } catch (const c10::LinAlgError &) {
    return false; // it did not converge
  }
}

} // namespace sojourn::runtime
