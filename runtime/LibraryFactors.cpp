// SPDX-License-Identifier: Apache-2.0
// Factors of matrices by the library, over views of bare memory.
#include "runtime/LibraryTensor.h"
#include <ATen/ops/_linalg_eigh.h>
#include <ATen/ops/_linalg_svd.h>
#include <ATen/ops/linalg_cholesky_ex_cpu_dispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linalg_ldl_factor_ex.h>
#include <ATen/ops/linalg_ldl_solve.h>
#include <ATen/ops/linalg_lu_factor_ex.h>
#include <ATen/ops/linalg_qr.h>
#include <ATen/ops/linalg_solve_triangular.h>

namespace sojourn::runtime {

static at::Tensor &over(Role role, const MatrixView &view) {
  return tensorOver(role, view.element, view.data, view.dims, view.strides);
}

void libraryCholesky(const MatrixView &out, const MatrixView &x, int64_t *orders) {
  const at::Tensor &matrices = tensorOver(Role::first, x.element, x.data, x.dims, x.strides);
  auto [factors, found] = at::cpu::linalg_cholesky_ex(matrices, /*upper=*/false, /*check_errors=*/false);
  tensorOver(Role::out, out.element, out.data, out.dims, out.strides).copy_(factors);
  std::copy_n(found.const_data_ptr<int32_t>(), found.numel(), orders);
}

void libraryTriangularSolve(const MatrixView &out, const MatrixView &a, const MatrixView &b, bool lower, bool unit) {
  over(Role::out, out)
      .copy_(at::linalg_solve_triangular(over(Role::first, a), over(Role::second, b), /*upper=*/!lower, /*left=*/true,
                                         /*unitriangular=*/unit));
}

void libraryLu(const MatrixView &factors, const MatrixView &x, int64_t *pivots, int64_t *orders) {
  auto [packed, exchanged, found] = at::linalg_lu_factor_ex(over(Role::first, x), /*pivot=*/true,
                                                            /*check_errors=*/false);
  over(Role::out, factors).copy_(packed);
  const at::Tensor dense = exchanged.contiguous();
  const int32_t *from = dense.const_data_ptr<int32_t>();
  std::transform(from, from + dense.numel(), pivots, [](int32_t pivot) { return pivot - 1; });
  std::copy_n(found.contiguous().const_data_ptr<int32_t>(), found.numel(), orders);
}

void libraryLdl(const MatrixView &factors, const MatrixView &x, bool hermitian, int64_t *pivots, int64_t *order) {
  auto [packed, exchanged, found] = at::linalg_ldl_factor_ex(over(Role::first, x), hermitian, /*check_errors=*/false);
  over(Role::out, factors).copy_(packed);
  const at::Tensor dense = exchanged.contiguous();
  std::copy_n(dense.const_data_ptr<int32_t>(), dense.numel(), pivots);
  std::copy_n(found.contiguous().const_data_ptr<int32_t>(), found.numel(), order);
}

void libraryLdlSolve(const MatrixView &out, const MatrixView &factors, bool hermitian, const int64_t *pivots,
                     const MatrixView &b) {
  at::Tensor exchanged = at::empty({1, factors.dims[1]}, at::kInt);
  std::transform(pivots, pivots + factors.dims[1], exchanged.mutable_data_ptr<int32_t>(),
                 [](int64_t pivot) { return static_cast<int32_t>(pivot); });
  over(Role::out, out)
      .copy_(at::linalg_ldl_solve(over(Role::first, factors), exchanged, over(Role::second, b), hermitian));
}

void libraryQr(const MatrixView &q, const MatrixView &r, const MatrixView &x, bool full) {
  auto [orthogonal, triangular] = at::linalg_qr(over(Role::first, x), full ? "complete" : "reduced");
  over(Role::out, q).copy_(orthogonal);
  over(Role::out, r).copy_(triangular);
}

bool libraryEigh(const MatrixView &values, const MatrixView &vectors, const MatrixView &x) {
  try {
    auto [found, columns] = at::_linalg_eigh(over(Role::first, x), "L", /*compute_v=*/true);
    over(Role::out, values).copy_(found.unsqueeze(-1));
    over(Role::out, vectors).copy_(columns);
    return true;
  } catch (const c10::LinAlgError &) {
    return false; // it did not converge
  }
}

bool librarySvd(const MatrixView &u, const MatrixView &s, const MatrixView &vt, const MatrixView &x, bool full) {
  try {
    auto [left, values, right] = at::_linalg_svd(over(Role::first, x), full, /*compute_uv=*/true, std::nullopt);
    over(Role::out, u).copy_(left);
    over(Role::out, s).copy_(values.unsqueeze(-1));
    over(Role::out, vt).copy_(right);
    return true;
  } catch (const c10::LinAlgError &) {
    return false;
  }
}

} // namespace sojourn::runtime
