// SPDX-License-Identifier: Apache-2.0
// Discrete Fourier transforms and eigenvectors by the library, over views of bare memory.
#include "runtime/LibraryTensor.h"
#include <ATen/ops/_fft_c2c.h>
#include <ATen/ops/_fft_c2r.h>
#include <ATen/ops/_fft_r2c.h>
#include <ATen/ops/linalg_eig.h>

namespace sojourn::runtime {

void libraryFourier(const LibraryView &out, const LibraryView &x, const FourierOptions &options) {
  const at::Tensor &from = tensorOver(Role::first, x);
  at::Tensor made;
  constexpr int64_t kUnscaled = 0;
  switch (options.kind) {
  case Fourier::complexes: made = at::_fft_c2c(from, options.dims, kUnscaled, /*forward=*/!options.inverse); break;
  case Fourier::fromReal: made = at::_fft_r2c(from, options.dims, kUnscaled, /*onesided=*/true); break;
  case Fourier::toReal: made = at::_fft_c2r(from, options.dims, kUnscaled, options.size); break;
  }
  tensorOver(Role::out, out).copy_(made);
}

bool libraryEig(const MatrixView &values, const MatrixView &vectors, const MatrixView &x) {
  try {
    auto [found, columns] = at::linalg_eig(tensorOver(Role::first, x.element, x.data, x.dims, x.strides));
    tensorOver(Role::out, values.element, values.data, values.dims, values.strides).copy_(found.unsqueeze(-1));
    tensorOver(Role::out, vectors.element, vectors.data, vectors.dims, vectors.strides).copy_(columns);
    return true;
  } catch (const c10::LinAlgError &) {
    return false; // it did not converge
  }
}

} // namespace sojourn::runtime
