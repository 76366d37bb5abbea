// SPDX-License-Identifier: Apache-2.0
// Reductions, scans, sorts and softmax.
#include "frontend/shapes/Iterator.h"
#include "frontend/shapes/Structured.h"

#include <ATen/ExpandUtils.h>
#include <ATen/WrapDimUtilsMulti.h>
#include <ATen/ops/_log_softmax_backward_data_meta.h>
#include <ATen/ops/_log_softmax_meta.h>
#include <ATen/ops/_softmax_backward_data_meta.h>
#include <ATen/ops/_softmax_meta.h>
#include <ATen/ops/all_meta.h>
#include <ATen/ops/amax_meta.h>
#include <ATen/ops/amin_meta.h>
#include <ATen/ops/aminmax_meta.h>
#include <ATen/ops/any_meta.h>
#include <ATen/ops/argmax_meta.h>
#include <ATen/ops/argmin_meta.h>
#include <ATen/ops/cumprod_meta.h>
#include <ATen/ops/cumsum_meta.h>
#include <ATen/ops/linalg_vector_norm_meta.h>
#include <ATen/ops/max_meta.h>
#include <ATen/ops/mean_meta.h>
#include <ATen/ops/min_meta.h>
#include <ATen/ops/norm_meta.h>
#include <ATen/ops/prod_meta.h>
#include <ATen/ops/renorm_meta.h>
#include <ATen/ops/sort_meta.h>
#include <ATen/ops/sum_meta.h>
#include <ATen/ops/topk_meta.h>

namespace sojourn::frontend::shapes {

namespace {

/// Sizes after reducing `dims` (all of them when empty).
Dims reducedSizes(const Tensor &self, IntArrayRef dims, bool keepDim) {
  auto mask = at::dim_list_to_bitset(dims, self.dim());
  if (dims.empty()) {
    mask.set();
  }
  Dims sizes;
  for (int64_t dim = 0; dim < self.dim(); ++dim) {
    if (!mask[dim]) {
      sizes.push_back(self.size(dim));
    } else if (keepDim) {
      sizes.push_back(1);
    }
  }
  return sizes;
}

Dims withoutDim(const Tensor &self, int64_t dim, bool keepDim) {
  Dims sizes(self.sizes().begin(), self.sizes().end());
  if (!sizes.empty()) {
    if (keepDim) {
      sizes[dim] = 1;
    } else {
      sizes.erase(sizes.begin() + dim);
    }
  }
  return sizes;
}

void requireNonEmptyDim(const Tensor &self, int64_t dim, const char *name) {
  if (self.dim() == 0) {
    TORCH_CHECK_INDEX(dim == 0 || dim == -1, name, ": Expected reduction dim -1 or 0 for scalar but got ", dim);
  } else {
    TORCH_CHECK_INDEX(self.size(dim) != 0, name, ": Expected reduction dim ", dim, " to have non-zero size.");
  }
}

/// sum(self, dtype)
void sumAll(const ShapeRule &, Arguments args, Outputs &out) { append(out, {}); }

void meanAll(const ShapeRule &, Arguments args, Outputs &out) {
  ScalarType given = tensorAt(args, 0).scalar_type();
  ScalarType type = dtypeAt(args, 1).value_or(given);
  TORCH_CHECK(c10::isFloatingType(type) || c10::isComplexType(type), "mean(): could not infer output dtype. ",
              dtypeAt(args, 1) ? "Optional dtype" : "Input dtype",
              " must be either a floating point or complex dtype. ", "Got: ", type);
  append(out, {});
}

/// max(self), min(self), median(self)
void extremeAll(const ShapeRule &op, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0);
  TORCH_CHECK(self.numel() > 0, baseName(op),
              "(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the "
              "'dim' argument.");
  append(out, {});
}

void medianAll(const ShapeRule &, Arguments args, Outputs &out) { append(out, {}); }

/// median.dim, mode, kthvalue: (values, indices); `first` is the position of dim.
template <size_t First>
void valuesAndIndices(const ShapeRule &op, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0);
  int64_t dim = at::maybe_wrap_dim(args[First].toInt(), self.dim());
  requireNonEmptyDim(self, dim, (std::string(baseName(op)) + "()").c_str());
  Dims sizes = withoutDim(self, dim, boolAt(args, First + 1));
  append(out, sizes);
  append(out, sizes);
}

void kthValue(const ShapeRule &op, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0);
  int64_t k = args[1].toInt();
  int64_t dim = at::maybe_wrap_dim(args[2].toInt(), self.dim());
  TORCH_CHECK(k >= 1 && k <= (self.dim() > 0 ? self.size(dim) : 1),
              "kthvalue(): selected number k out of range for dimension ", dim);
  valuesAndIndices<2>(op, args, out);
}

/// var, std (correction): one output; var_mean, std_mean: two.
template <size_t Count>
void variance(const ShapeRule &op, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0);
  std::string_view name = baseName(op);
  TORCH_CHECK(c10::isFloatingType(self.scalar_type()) || c10::isComplexType(self.scalar_type()),
              Count == 2 ? name : std::string_view("std and var"), " only support floating point and complex dtypes");
  Dims sizes = reducedSizes(self, dimsAt(args, 1), boolAt(args, 3));
  for (size_t i = 0; i < Count; ++i) {
    append(out, sizes);
  }
}

void logSumExp(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0);
  append(out, reducedSizes(self, dimsAt(args, 1), boolAt(args, 2)));
}

void countNonzero(const ShapeRule &, Arguments args, Outputs &out) {
  append(out, reducedSizes(tensorAt(args, 0), dimsAt(args, 1), false));
}

void nanSum(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0);
  append(out, reducedSizes(self, dimsAt(args, 1), boolAt(args, 2)));
}

/// cummax, cummin: (values, indices)
void cumulativeExtreme(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0);
  at::maybe_wrap_dim(args[1].toInt(), self.dim());
  append(out, self.sizes());
  append(out, self.sizes());
}

void logCumSumExp(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0);
  at::maybe_wrap_dim(args[1].toInt(), self.dim());
  appendLike(out, self);
}

/// norm.Scalar(self, p)
void normAll(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0);
  ScalarType type = self.scalar_type();
  TORCH_CHECK(c10::isFloatingType(type) || c10::isComplexType(type),
              "norm(): input dtype should be either floating point or complex. Got ", type, " instead.");
  append(out, {});
}

/// norm.ScalarOpt_dtype(self, p, *, dtype)
void normAllDtype(const ShapeRule &, Arguments args, Outputs &out) { append(out, {}); }

void sortPlain(const ShapeRule &op, Arguments args, Outputs &out) {
  const c10::IValue reordered[] = {args[0], c10::IValue(false), args[1], args[2]};
  structured<at::meta::structured_sort_stable>(op, reordered, out);
}

void safeSoftmax(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0);
  at::maybe_wrap_dim(args[1].toInt(), self.dim());
  append(out, self.sizes());
}

void trace(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0);
  TORCH_CHECK(self.dim() == 2, "trace: expected a matrix, but got tensor with dim ", self.dim());
  append(out, {});
}

/// dist(self, other, p): a norm of a difference.
void distance(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0), &other = tensorAt(args, 1);
  at::infer_size_dimvector(self.sizes(), other.sizes());
  append(out, {});
}

const RuleEntry kRules[] = {
    {"sum.", sumAll},
    {"sum.dim_IntList", structured<at::meta::structured_sum_dim_IntList>},
    {"mean.", meanAll},
    {"mean.dim", structured<at::meta::structured_mean_dim>},
    {"prod.", sumAll},
    {"prod.dim_int", structured<at::meta::structured_prod_dim_int>},
    {"nansum", nanSum},
    {"any.", structured<at::meta::structured_any>},
    {"any.dim", structured<at::meta::structured_any_dim>},
    {"any.dims", structured<at::meta::structured_any_dims>},
    {"all.", structured<at::meta::structured_all>},
    {"all.dim", structured<at::meta::structured_all_dim>},
    {"all.dims", structured<at::meta::structured_all_dims>},
    {"amax", structured<at::meta::structured_amax>},
    {"amin", structured<at::meta::structured_amin>},
    {"aminmax", structured<at::meta::structured_aminmax>},
    {"argmax", structured<at::meta::structured_argmax>},
    {"argmin", structured<at::meta::structured_argmin>},
    {"max.", extremeAll},
    {"max.dim", structured<at::meta::structured_max_dim>},
    {"min.", extremeAll},
    {"min.dim", structured<at::meta::structured_min_dim>},
    {"median.", medianAll},
    {"median.dim", valuesAndIndices<1>},
    {"nanmedian.", medianAll},
    {"nanmedian.dim", valuesAndIndices<1>},
    {"mode", valuesAndIndices<1>},
    {"kthvalue", kthValue},
    {"var.correction", variance<1>},
    {"std.correction", variance<1>},
    {"var_mean.correction", variance<2>},
    {"std_mean.correction", variance<2>},
    {"logsumexp", logSumExp},
    {"count_nonzero", countNonzero},
    {"linalg_vector_norm", structured<at::meta::structured_linalg_vector_norm>},
    {"norm.Scalar", normAll},
    {"norm.ScalarOpt_dtype", normAllDtype},
    {"norm.ScalarOpt_dim", structured<at::meta::structured_norm_ScalarOpt_dim>},
    {"norm.ScalarOpt_dim_dtype", structured<at::meta::structured_norm_ScalarOpt_dim_dtype>},
    {"renorm", structured<at::meta::structured_renorm>},
    {"dist", distance},
    {"trace", trace},
    {"cumsum", structured<at::meta::structured_cumsum>},
    {"cumprod", structured<at::meta::structured_cumprod>},
    {"cummax", cumulativeExtreme},
    {"cummin", cumulativeExtreme},
    {"logcumsumexp", logCumSumExp},
    {"_logcumsumexp", logCumSumExp},
    {"sort.", sortPlain},
    {"sort.stable", structured<at::meta::structured_sort_stable>},
    {"topk", structured<at::meta::structured_topk>},
    {"_softmax", structured<at::meta::structured__softmax>},
    {"_softmax_backward_data", structured<at::meta::structured__softmax_backward_data>},
    {"_log_softmax", structured<at::meta::structured__log_softmax>},
    {"_log_softmax_backward_data", structured<at::meta::structured__log_softmax_backward_data>},
    {"_safe_softmax", safeSoftmax},
};

} // namespace

c10::ArrayRef<RuleEntry> reductionRules() { return kRules; }

} // namespace sojourn::frontend::shapes
