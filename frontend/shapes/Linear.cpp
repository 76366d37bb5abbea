// SPDX-License-Identifier: Apache-2.0
// Matrix and vector products; factors of matrices.
#include "frontend/shapes/Iterator.h"
#include "frontend/shapes/Structured.h"

#include <ATen/ExpandUtils.h>
#include <ATen/ops/_addmm_activation_meta.h>
#include <ATen/ops/addmm_meta.h>
#include <ATen/ops/addmv_meta.h>
#include <ATen/ops/linalg_cross_meta.h>
#include <ATen/ops/mm_meta.h>

namespace sojourn::frontend::shapes {

namespace {

void mm(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0), &other = tensorAt(args, 1);
  TORCH_CHECK(self.dim() == 2, "self must be a matrix");
  TORCH_CHECK(other.dim() == 2, "mat2 must be a matrix");
  TORCH_CHECK(self.sizes()[1] == other.sizes()[0], "mat1 and mat2 shapes cannot be multiplied (", self.sizes()[0], "x",
              self.sizes()[1], " and ", other.sizes()[0], "x", other.sizes()[1], ")");
  TORCH_CHECK(self.scalar_type() == other.scalar_type(),
              "expected m1 and m2 to have the same dtype, but got: ", self.dtype(), " != ", other.dtype());
  append(out, {self.sizes()[0], other.sizes()[1]});
}

void addmm(const ShapeRule &op, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0), &left = tensorAt(args, 1), &right = tensorAt(args, 2);
  if (left.dim() != 2 || right.dim() != 2 || left.sizes()[1] != right.sizes()[0] ||
      left.scalar_type() != right.scalar_type()) {
    structured<at::meta::structured_addmm>(op, args, out); // knows the error texts
  }
  const int64_t rows = left.sizes()[0], columns = right.sizes()[1];
  append(out, {rows, columns});
  if (self.dim() != 1 || self.sizes()[0] != columns) {
    at::inferExpandGeometry_dimvector(self.sizes(), self.strides(), out.back().sizes);
  }
  TORCH_CHECK(self.scalar_type() == left.scalar_type(), "self and mat2 must have the same dtype, but got ",
              self.dtype(), " and ", left.dtype());
}

void checkBatches(const Tensor &left, const Tensor &right) {
  TORCH_CHECK(left.dim() == 3, "batch1 must be a 3D tensor");
  TORCH_CHECK(right.dim() == 3, "batch2 must be a 3D tensor");
  int64_t batch = left.sizes()[0], inner = left.sizes()[2];
  TORCH_CHECK(right.sizes()[0] == batch && right.sizes()[1] == inner,
              "Expected size for first two dimensions of batch2 tensor to be: [", batch, ", ", inner, "] but got: [",
              right.sizes()[0], ", ", right.sizes()[1], "].");
  TORCH_CHECK(left.scalar_type() == right.scalar_type(), "expected scalar type ", left.scalar_type(), " but found ",
              right.scalar_type());
}

void bmm(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &left = tensorAt(args, 0), &right = tensorAt(args, 1);
  checkBatches(left, right);
  append(out, {left.sizes()[0], left.sizes()[1], right.sizes()[2]});
}

void baddbmm(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0), &left = tensorAt(args, 1), &right = tensorAt(args, 2);
  TORCH_CHECK(self.scalar_type() == left.scalar_type(), "Input dtypes must be the same, got: input ",
              self.scalar_type(), ", batch1: ", left.scalar_type(), ", batch2: ", right.scalar_type());
  checkBatches(left, right);
  OutputMeta &meta = append(out, {left.sizes()[0], left.sizes()[1], right.sizes()[2]});
  at::inferExpandGeometry_dimvector(self.sizes(), self.strides(), meta.sizes);
}

void addbmm(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0), &left = tensorAt(args, 1), &right = tensorAt(args, 2);
  checkBatches(left, right);
  OutputMeta &meta = append(out, {left.sizes()[1], right.sizes()[2]});
  at::inferExpandGeometry_dimvector(self.sizes(), self.strides(), meta.sizes);
}

void mv(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0), &vector = tensorAt(args, 1);
  TORCH_CHECK(self.dim() == 2 && vector.dim() == 1, "vector + matrix @ vector expected, got 1, ", self.dim(), ", ",
              vector.dim());
  TORCH_CHECK(self.sizes()[1] == vector.sizes()[0], "size mismatch, got input (", self.sizes()[0], "), mat (",
              self.sizes()[0], "x", self.sizes()[1], "), vec (", vector.sizes()[0], ")");
  append(out, {self.sizes()[0]});
}

void dot(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0), &other = tensorAt(args, 1);
  TORCH_CHECK(self.dim() == 1 && other.dim() == 1, "1D tensors expected, but got ", self.dim(), "D and ", other.dim(),
              "D tensors");
  TORCH_CHECK(self.scalar_type() == other.scalar_type(), "dot : expected both vectors to have same dtype, but found ",
              self.scalar_type(), " and ", other.scalar_type());
  TORCH_CHECK(self.numel() == other.numel(), "inconsistent tensor size, expected tensor [", self.numel(), "] and src [",
              other.numel(), "] to have the same number of elements, but got ", self.numel(), " and ", other.numel(),
              " elements respectively");
  append(out, {});
}

void addr(const ShapeRule &op, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0), &rows = tensorAt(args, 1), &columns = tensorAt(args, 2);
  TORCH_CHECK(rows.dim() == 1, "addr: Expected 1-D argument vec1, but got ", rows.dim(), "-D");
  TORCH_CHECK(columns.dim() == 1, "addr: Expected 1-D argument vec2, but got ", columns.dim(), "-D");
  const ScalarType type = op.result(args);
  for (auto [position, name] : {std::pair<size_t, const char *>(3, "beta"), {4, "alpha"}}) {
    const at::Scalar factor = args[position].toScalar();
    TORCH_CHECK(!factor.isBoolean() || type == at::kBool, "Boolean ", name, " only supported for Boolean results.");
    TORCH_CHECK(c10::isFloatingType(type) || c10::isComplexType(type) || factor.isIntegral(/*includeBool=*/true),
                "For integral input tensors, argument ", name, " must not be a floating point number.");
  }
  Dims sizes{rows.sizes()[0], columns.sizes()[0]};
  auto expanded = at::inferExpandGeometry_dimvector(self.sizes(), self.strides(), sizes);
  append(out, sizes);
  const Dims rowSizes{sizes[0], 1}, rowStrides{rows.strides()[0], 1};
  const Operand operands[] = {
      {expanded.sizes, expanded.strides}, {rowSizes, rowStrides}, {columns.sizes(), columns.strides()}};
  out.back().strides = permutedStrides(operands, sizes);
}

/// sum over `sumdim` of the product of three tensors, each with its missing dims unsqueezed.
void trilinear(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &first = tensorAt(args, 0);
  const int64_t rank = first.dim() + static_cast<int64_t>(dimsAt(args, 3).size());
  Dims sizes(rank, 1);
  for (size_t operand = 0; operand < 3; ++operand) {
    const Tensor &tensor = tensorAt(args, operand);
    Dims missing = dimsAt(args, 3 + operand);
    int64_t next = 0;
    for (int64_t dim = 0; dim < rank; ++dim) {
      if (std::find(missing.begin(), missing.end(), dim) == missing.end()) {
        int64_t size = tensor.size(next++);
        sizes[dim] = size != 1 ? size : sizes[dim];
      }
    }
  }
  Dims result, summed = dimsAt(args, 6);
  for (int64_t dim = 0; dim < rank; ++dim) {
    if (std::find(summed.begin(), summed.end(), dim) == summed.end()) {
      result.push_back(sizes[dim]);
    }
  }
  append(out, result);
}

/// _cdist_forward(x1 [..., P, M], x2 [..., R, M], ...): [..., P, R]
void pairwiseDistance(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &first = tensorAt(args, 0), &second = tensorAt(args, 1);
  TORCH_CHECK(first.dim() >= 2, "cdist only supports at least 2D tensors, X1 got: ", first.dim(), "D");
  TORCH_CHECK(second.dim() >= 2, "cdist only supports at least 2D tensors, X2 got: ", second.dim(), "D");
  TORCH_CHECK(first.size(-1) == second.size(-1), "X1 and X2 must have the same number of columns. X1: ", first.size(-1),
              " X2: ", second.size(-1));
  at::DimVector sizes =
      at::infer_size_dimvector(first.sizes().slice(0, first.dim() - 2), second.sizes().slice(0, second.dim() - 2));
  sizes.push_back(first.size(-2));
  sizes.push_back(second.size(-2));
  append(out, sizes);
}

/// _cdist_backward(grad, x1, x2, p, cdist): the gradient of x1, batch dims broadcast.
void pairwiseDistanceBackward(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &first = tensorAt(args, 1), &second = tensorAt(args, 2);
  if (first.numel() == 0 || second.numel() == 0) {
    append(out, first.sizes());
    return;
  }
  at::DimVector sizes =
      at::infer_size_dimvector(first.sizes().slice(0, first.dim() - 2), second.sizes().slice(0, second.dim() - 2));
  sizes.push_back(first.size(-2));
  sizes.push_back(first.size(-1));
  append(out, sizes);
}

const RuleEntry kRules[] = {
    {"mm", mm},
    {"addmm", addmm},
    {"_addmm_activation", structured<at::meta::structured__addmm_activation>},
    {"bmm", bmm},
    {"baddbmm", baddbmm},
    {"addbmm", addbmm},
    {"mv", mv},
    {"addmv", structured<at::meta::structured_addmv>},
    {"dot", dot},
    {"vdot", dot},
    {"addr", addr},
    {"_trilinear", trilinear},
    {"linalg_cross", structured<at::meta::structured_linalg_cross>},
    {"_cdist_forward", pairwiseDistance},
    {"_cdist_backward", pairwiseDistanceBackward},
};

} // namespace

c10::ArrayRef<RuleEntry> linearRules() { return kRules; }

} // namespace sojourn::frontend::shapes
