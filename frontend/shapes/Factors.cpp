// SPDX-License-Identifier: Apache-2.0
// Factors of matrices and what is solved with them: ATen's own shape functions where it has them.
#include "frontend/shapes/Iterator.h"
#include "frontend/shapes/Structured.h"

#include <ATen/ExpandUtils.h>
#include <ATen/native/LinearAlgebraUtils.h>
#include <ATen/ops/_linalg_det_meta.h>
#include <ATen/ops/_linalg_eigh_meta.h>
#include <ATen/ops/_linalg_slogdet_meta.h>
#include <ATen/ops/_linalg_solve_ex_meta.h>
#include <ATen/ops/_linalg_svd_meta.h>
#include <ATen/ops/linalg_cholesky_ex_meta.h>
#include <ATen/ops/linalg_inv_ex_meta.h>
#include <ATen/ops/linalg_ldl_factor_ex_meta.h>
#include <ATen/ops/linalg_ldl_solve_meta.h>
#include <ATen/ops/linalg_lu_factor_ex_meta.h>
#include <ATen/ops/linalg_lu_meta.h>
#include <ATen/ops/linalg_lu_solve_meta.h>
#include <ATen/ops/linalg_qr_meta.h>
#include <ATen/ops/lu_unpack_meta.h>
#include <ATen/ops/triangular_solve_meta.h>

namespace sojourn::frontend::shapes {

namespace {

void requireMatrices(const Tensor &x, const char *op, bool isSquare, bool takesHalves = false) {
  TORCH_CHECK(x.dim() >= 2, op, ": The input tensor A must have at least 2 dimensions.");
  TORCH_CHECK(!isSquare || x.size(-1) == x.size(-2), op, ": A must be batches of square matrices, but they are ",
              x.size(-2), " by ", x.size(-1), " matrices");
  const ScalarType part = c10::toRealValueType(x.scalar_type());
  TORCH_CHECK(part == c10::kFloat || part == c10::kDouble ||
                  (takesHalves && c10::isReducedFloatingType(x.scalar_type())),
              op, ": Expected a floating point or complex tensor as input. Got ", x.scalar_type());
}

/// Column by column, as LAPACK leaves matrices.
void appendColumns(Outputs &out, IntArrayRef sizes) {
  Dims strides = contiguousStrides(sizes);
  const size_t rank = sizes.size();
  strides[rank - 2] = 1;
  strides[rank - 1] = std::max<int64_t>(sizes[rank - 2], 1);
  appendStrided(out, sizes, strides);
}

Dims broadcastMatrices(const Tensor &a, const Tensor &b) {
  at::DimVector batch = at::infer_size_dimvector(a.sizes().slice(0, a.dim() - 2), b.sizes().slice(0, b.dim() - 2));
  Dims sizes(batch.begin(), batch.end());
  sizes.append({b.size(-2), b.size(-1)});
  return sizes;
}

/// linalg_solve_triangular(A, B, upper, left, unitriangular)
void solveTriangular(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &a = tensorAt(args, 0), &b = tensorAt(args, 1);
  const bool left = boolAt(args, 3, true);
  requireMatrices(a, "linalg.solve_triangular", /*isSquare=*/true);
  requireMatrices(b, "linalg.solve_triangular", /*isSquare=*/false);
  TORCH_CHECK(a.scalar_type() == b.scalar_type(),
              "linalg.solve_triangular: Expected A and B to have the same dtype, "
              "but found A of type ",
              a.scalar_type(), " and B of type ", b.scalar_type(), " instead");
  TORCH_CHECK(left ? a.size(-2) == b.size(-2) : a.size(-1) == b.size(-1),
              "linalg.solve_triangular: Incompatible shapes of A and B for the equation ", left ? "AX = B" : "XA = B",
              " (", a.size(-2), "x", a.size(-1), " and ", b.size(-2), "x", b.size(-1), ")");
  appendColumns(out, broadcastMatrices(a, b));
}

void choleskySolve(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &b = tensorAt(args, 0), &factor = tensorAt(args, 1);
  TORCH_CHECK(b.dim() >= 2, "b should have at least 2 dimensions, but has ", b.dim(), " dimensions instead");
  TORCH_CHECK(factor.dim() >= 2, "u should have at least 2 dimensions, but has ", factor.dim(), " dimensions instead");
  requireMatrices(factor, "cholesky_solve", /*isSquare=*/true);
  TORCH_CHECK(factor.size(-1) == b.size(-2), "Incompatible matrix sizes for cholesky_solve: each A matrix is ",
              factor.size(-1), " by ", factor.size(-1), " but each b matrix is ", b.size(-2), " by ", b.size(-1));
  appendColumns(out, broadcastMatrices(factor, b));
}

void squareColumns(const ShapeRule &op, Arguments args, Outputs &out) {
  const Tensor &x = tensorAt(args, 0);
  requireMatrices(x, std::string(baseName(op)).c_str(), /*isSquare=*/true);
  appendColumns(out, x.sizes());
}

/// linalg_matrix_exp(self), which is no work of LAPACK's.
void matrixExponential(const ShapeRule &op, Arguments args, Outputs &out) {
  const Tensor &x = tensorAt(args, 0);
  requireMatrices(x, std::string(baseName(op)).c_str(), /*isSquare=*/true, /*takesHalves=*/true);
  append(out, x.sizes());
}

void pseudoInverse(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &x = tensorAt(args, 0);
  requireMatrices(x, "linalg.pinv", /*isSquare=*/boolAt(args, 3));
  Dims sizes(x.sizes().begin(), x.sizes().end());
  std::swap(sizes[sizes.size() - 1], sizes[sizes.size() - 2]);
  append(out, sizes);
}

void requireFloats(const Tensor &x, const char *kernel) {
  const ScalarType part = c10::toRealValueType(x.scalar_type());
  if (part != c10::kFloat && part != c10::kDouble) {
    failDtype(kernel, x.scalar_type());
  }
}

IntArrayRef batchSizes(const Tensor &x, int64_t last) { return x.sizes().slice(0, x.dim() - last); }

/// geqrf(self) -> (a, tau)
void geqrf(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &x = tensorAt(args, 0);
  TORCH_CHECK(x.dim() >= 2, "torch.geqrf: input must have at least 2 dimensions.");
  requireFloats(x, "geqrf_cpu");
  appendColumns(out, x.sizes());
  Dims tau(batchSizes(x, 2).begin(), batchSizes(x, 2).end());
  tau.push_back(std::min(x.size(-2), x.size(-1)));
  append(out, tau);
}

/// linalg_householder_product(input, tau)
void householderProduct(const ShapeRule &, Arguments args, Outputs &out) {
  constexpr const char *op = "torch.linalg.householder_product: ";
  const Tensor &x = tensorAt(args, 0), &tau = tensorAt(args, 1);
  TORCH_CHECK(x.dim() >= 2, op, "input must have at least 2 dimensions.");
  TORCH_CHECK(x.size(-2) >= x.size(-1), op, "input.shape[-2] must be greater than or equal to input.shape[-1]");
  TORCH_CHECK(tau.dim() >= 1 && x.size(-1) >= tau.size(-1), op,
              "input.shape[-1] must be greater than or equal to tau.shape[-1]");
  TORCH_CHECK(x.dim() - tau.dim() == 1, op,
              "Expected tau to have one dimension less than input, but got tau.ndim equal to ", tau.dim(),
              " and input.ndim is equal to ", x.dim());
  TORCH_CHECK(batchSizes(tau, 1) == batchSizes(x, 2), op,
              "Expected batch dimensions of tau to be equal to input.shape[:-2], but got ", batchSizes(tau, 1));
  TORCH_CHECK(tau.scalar_type() == x.scalar_type(), op, "tau dtype ", tau.scalar_type(), " does not match input dtype ",
              x.scalar_type());
  requireFloats(x, "orgqr_cpu");
  appendColumns(out, x.sizes());
}

/// ormqr(self, input2 = tau, input3 = other, left, transpose)
void ormqr(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &x = tensorAt(args, 0), &tau = tensorAt(args, 1), &other = tensorAt(args, 2);
  const bool left = boolAt(args, 3, true);
  TORCH_CHECK(x.dim() >= 2, "torch.ormqr: input must have at least 2 dimensions.");
  TORCH_CHECK(other.dim() >= 2, "torch.ormqr: other must have at least 2 dimensions.");
  const char *side = left ? "other.shape[-2]" : "other.shape[-1]";
  const int64_t order = other.size(left ? -2 : -1);
  TORCH_CHECK(tau.dim() >= 1 && order >= tau.size(-1), "torch.ormqr: ", side,
              " must be greater than or equal to tau.shape[-1]");
  TORCH_CHECK(order == x.size(-2), "torch.ormqr: ", side, " must be equal to input.shape[-2]");
  TORCH_CHECK(tau.size(-1) <= x.size(-1), "torch.ormqr: tau.shape[-1] must be less than or equal to input.shape[-1]");
  TORCH_CHECK(tau.size(-1) == std::min(x.size(-2), x.size(-1)),
              "torch.ormqr: tau.shape[-1] must be equal to min(other.shape[-2], input.shape[-1])");
  TORCH_CHECK(x.dim() - tau.dim() == 1,
              "torch.ormqr: Expected tau to have one dimension less than input, but got "
              "tau.ndim equal to ",
              tau.dim(), " and input.ndim is equal to ", x.dim());
  TORCH_CHECK(x.dim() == other.dim(),
              "torch.ormqr: Expected other to have the same number of dimensions as input, "
              "but got other.ndim equal to ",
              other.dim(), " and input.ndim is equal to ", x.dim());
  TORCH_CHECK(batchSizes(tau, 1) == batchSizes(x, 2),
              "torch.ormqr: Expected batch dimensions of tau to be equal to "
              "input.shape[:-2], but got ",
              batchSizes(tau, 1));
  TORCH_CHECK(batchSizes(other, 2) == batchSizes(x, 2),
              "torch.ormqr: Expected batch dimensions of other to be equal "
              "to input.shape[:-2], but got ",
              batchSizes(other, 2));
  TORCH_CHECK(tau.scalar_type() == x.scalar_type(),
              "torch.ormqr: Expected input and tau to have the same dtype, but "
              "input has dtype",
              x.scalar_type(), " and tau has dtype ", tau.scalar_type());
  TORCH_CHECK(other.scalar_type() == x.scalar_type(),
              "torch.ormqr: Expected input and other to have the same dtype, "
              "but input has dtype",
              x.scalar_type(), " and other has dtype ", other.scalar_type());
  requireFloats(x, "ormqr_cpu");
  appendColumns(out, other.sizes());
}

const RuleEntry kRules[] = {
    {"geqrf", geqrf},
    {"linalg_householder_product", householderProduct},
    {"ormqr", ormqr},
    {"linalg_cholesky_ex", structured<at::meta::structured_linalg_cholesky_ex>},
    {"linalg_lu_factor_ex", structured<at::meta::structured_linalg_lu_factor_ex>},
    {"linalg_lu", structured<at::meta::structured_linalg_lu>},
    {"lu_unpack", structured<at::meta::structured_lu_unpack>},
    {"linalg_lu_solve", structured<at::meta::structured_linalg_lu_solve>},
    {"_linalg_det", structured<at::meta::structured__linalg_det>},
    {"_linalg_slogdet", structured<at::meta::structured__linalg_slogdet>},
    {"linalg_inv_ex", structured<at::meta::structured_linalg_inv_ex>},
    {"_linalg_solve_ex", structured<at::meta::structured__linalg_solve_ex>},
    {"triangular_solve", structured<at::meta::structured_triangular_solve>},
    {"linalg_ldl_factor_ex", structured<at::meta::structured_linalg_ldl_factor_ex>},
    {"linalg_ldl_solve", structured<at::meta::structured_linalg_ldl_solve>},
    {"linalg_qr", structured<at::meta::structured_linalg_qr>},
    {"_linalg_eigh", structured<at::meta::structured__linalg_eigh>},
    {"_linalg_svd", structured<at::meta::structured__linalg_svd>},
    {"linalg_solve_triangular", solveTriangular},
    {"cholesky_solve", choleskySolve},
    {"cholesky_inverse", squareColumns},
    {"cholesky", squareColumns},
    {"linalg_pinv", pseudoInverse},
    {"linalg_matrix_exp", matrixExponential},
};

} // namespace

c10::ArrayRef<RuleEntry> factorRules() { return kRules; }

} // namespace sojourn::frontend::shapes
