// SPDX-License-Identifier: Apache-2.0
// linalg_lstsq composed of factors. Eager looks at the rank for which results there are; here they are those of full
// rank.
#include "frontend/recording/Record.h"

#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
#include <torch/library.h>

namespace sojourn::frontend {

namespace {

enum class Driver : uint8_t { Gels, Gelsy, Gelss, Gelsd };

Driver driverOf(std::optional<std::string_view> name) {
  const std::string_view given = name.value_or("gelsy");
  const bool known = given == "gels" || given == "gelsy" || given == "gelss" || given == "gelsd";
  TORCH_CHECK(known, "torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss), got ",
              given);
  return given == "gels"    ? Driver::Gels
         : given == "gelsy" ? Driver::Gelsy
         : given == "gelss" ? Driver::Gelss
                            : Driver::Gelsd;
}

/// The share of the largest singular value below which LAPACK's driver takes one for 0.
double toleranceOf(const at::Tensor &a, std::optional<double> rcond, Driver driver) {
  const double unit = c10::toRealValueType(a.scalar_type()) == at::kDouble ? 0x1p-52 : 0x1p-23;
  const double given = rcond.value_or(unit * static_cast<double>(std::max(a.size(-2), a.size(-1))));
  switch (driver) {
  case Driver::Gelss: return given < 0 ? unit : given;
  case Driver::Gelsd: return given <= 0 ? unit : given;
  default: return std::max(given, 0.0);
  }
}

at::TensorOptions realOptions(const at::Tensor &x) { return x.options().dtype(c10::toRealValueType(x.scalar_type())); }

struct Solved {
  at::Tensor solution, rank, values;
};

/// Of full rank, by QR: of A, or of its transpose where that is the taller one.
Solved byQr(const at::Tensor &a, const at::Tensor &b) {
  at::Tensor none = at::empty({0}, realOptions(a));
  const bool tall = a.size(-2) >= a.size(-1);
  auto [q, r] = at::linalg_qr(tall ? a : a.mH(), "reduced");
  at::Tensor x = tall ? at::linalg_solve_triangular(r, at::matmul(q.mH(), b), /*upper=*/true)
                      : at::matmul(q, at::linalg_solve_triangular(r.mH(), b, /*upper=*/false));
  return {x, at::empty({0}, a.options().dtype(at::kLong)), none};
}

Solved bySvd(const at::Tensor &a, const at::Tensor &b, double tolerance) {
  auto [u, s, vt] = at::_linalg_svd(a, /*full_matrices=*/false, /*compute_uv=*/true);
  at::Tensor kept = s > s.narrow(-1, 0, 1) * tolerance;
  at::Tensor inverse = at::where(kept, s.reciprocal(), 0.0);
  at::Tensor x = at::matmul(vt.mH(), inverse.unsqueeze(-1) * at::matmul(u.mH(), b));
  return {x, kept.sum(-1), s};
}

/// In the memory that LAPACK leaves: columns with room for the taller one of solution and right-hand side.
at::Tensor laidOut(const at::Tensor &x, int64_t rows) {
  const int64_t count = x.size(-2);
  at::Tensor columns = x.mT().contiguous();
  if (rows > count) {
    columns = at::constant_pad_nd(columns, {0, rows - count}).narrow(-1, 0, count);
  }
  return columns.mT();
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> leastSquares(const at::Tensor &a, const at::Tensor &given,
                                                                        std::optional<double> rcond,
                                                                        std::optional<std::string_view> name) {
  TORCH_CHECK(a.dim() >= 2, "torch.linalg.lstsq: input must have at least 2 dimensions.");
  TORCH_CHECK(given.dim() >= 1, "torch.linalg.lstsq: other must have at least 1 dimension.");
  TORCH_CHECK(a.scalar_type() == given.scalar_type(),
              "torch.linalg.lstsq: Expected input and other to have the same dtype, but got input's dtype ",
              a.scalar_type(), " and other's dtype ", given.scalar_type());
  const at::ScalarType part = c10::toRealValueType(a.scalar_type());
  TORCH_CHECK(part == at::kFloat || part == at::kDouble,
              "This function doesn't handle types other than float and double, found ", a.scalar_type());
  const int64_t apart = a.dim() - given.dim();
  TORCH_CHECK(apart == 0 || apart == 1, "torch.linalg.lstsq: input.dim() must be greater or equal to other.dim() and "
                                        "(input.dim() - other.dim()) <= 1");
  const Driver driver = driverOf(name);
  const bool isVector = apart == 1 && given.sizes() == a.sizes().slice(0, static_cast<size_t>(a.dim()) - 1);
  at::Tensor b = isVector ? given.unsqueeze(-1) : given;
  TORCH_CHECK(b.dim() >= 2 && a.size(-2) == b.size(-2),
              "torch.linalg.lstsq: input.size(-2) should match other.size(-2)");
  const int64_t m = a.size(-2), n = a.size(-1);
  const auto front = static_cast<size_t>(a.dim()) - 2;
  // A matrix beside a batch of them is refused by eager, which reads its rows as a batch.
  const auto behind = apart != 0 && !isVector ? 1 : 2;
  at::DimVector batch =
      at::infer_size_dimvector(a.sizes().slice(0, front), b.sizes().slice(0, static_cast<size_t>(b.dim() - behind)));
  std::vector<int64_t> sizes(batch.begin(), batch.end());
  sizes.insert(sizes.end(), {n, b.size(-1)});

  Solved solved;
  const bool isEmpty = a.numel() == 0 || b.numel() == 0;
  if (isEmpty) {
    at::Tensor none = at::empty({0}, realOptions(a));
    at::IntArrayRef matrices = a.sizes().slice(0, front);
    std::vector<int64_t> values = matrices.vec();
    values.push_back(std::min(m, n));
    const bool hasValues = driver == Driver::Gelss || driver == Driver::Gelsd;
    at::TensorOptions integer = a.options().dtype(at::kLong);
    solved = {at::zeros(sizes, a.options()),
              driver == Driver::Gels ? at::empty({0}, integer) : at::zeros(matrices, integer),
              hasValues ? at::zeros(values, realOptions(a)) : none};
  } else {
    solved = driver == Driver::Gels ? byQr(a, b) : bySvd(a, b, toleranceOf(a, rcond, driver));
  }
  at::Tensor residuals = at::empty({0}, realOptions(a));
  if (m > n && driver != Driver::Gelsy) {
    at::Tensor miss = b - at::matmul(a, solved.solution);
    residuals = (miss.is_complex() ? at::real(miss * miss.conj()) : miss.square()).sum(-2);
  }
  if (driver == Driver::Gelsy) {
    solved.values = at::empty({0}, realOptions(a));
  }
  at::Tensor x = laidOut(solved.solution.expand(sizes), std::max(m, n));
  return {isVector ? x.squeeze(-1) : x, residuals, solved.rank, solved.values};
}

void put(const at::Tensor &out, const at::Tensor &value) {
  TORCH_CHECK(out.scalar_type() == value.scalar_type(), "torch.linalg.lstsq: Expected a result of dtype ",
              value.scalar_type(), ", but got an out= tensor of dtype ", out.scalar_type());
  if (out.sizes() != value.sizes()) {
    out.resize_(value.sizes());
  }
  out.copy_(value);
}

std::tuple<at::Tensor &, at::Tensor &, at::Tensor &, at::Tensor &>
leastSquaresOut(const at::Tensor &a, const at::Tensor &b, std::optional<double> rcond,
                std::optional<std::string_view> name, at::Tensor &solution, at::Tensor &residuals, at::Tensor &rank,
                at::Tensor &values) {
  auto [x, r, k, s] = leastSquares(a, b, rcond, name);
  put(solution, x);
  put(residuals, r);
  put(rank, k);
  put(values, s);
  return {solution, residuals, rank, values};
}

} // namespace

} // namespace sojourn::frontend

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  using namespace sojourn::frontend;
  library.impl("linalg_lstsq", leastSquares);
  library.impl("linalg_lstsq.out", leastSquaresOut);
}
