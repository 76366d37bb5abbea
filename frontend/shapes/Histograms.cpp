// SPDX-License-Identifier: Apache-2.0
// Shape rules of ops that count by classes or bins. How many there are has to be given: where eager would look at the
// values for it, `histogramNeeds` says what to give. Ranges that are those of the values are found at the owner.
#include "frontend/shapes/Rules.h"

#include <cmath>

namespace sojourn::frontend {
namespace shapes {
namespace {

double realOf(const c10::IValue &value) { return value.toScalar().toDouble(); }

/// bincount(self, weights, minlength): one number per class below `minlength`.
void bincount(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0), &weights = tensorAt(args, 1);
  int64_t classes = intAt(args, 2).value_or(0);
  TORCH_CHECK(classes >= 0, "minlength should be >= 0");
  TORCH_CHECK(self.dim() == 1, "bincount only supports 1-d non-negative integral inputs.");
  TORCH_CHECK(!weights.defined() || weights.sizes() == self.sizes(),
              "weights should be 1-d and have the same length as input");
  if (!c10::isIntegralType(self.scalar_type(), /*includeBool=*/false)) {
    failDtype("bincount_cpu", self.scalar_type());
  }
  append(out, {classes});
}

void checkRange(const char *op, double low, double high) {
  TORCH_CHECK(std::isfinite(low) && std::isfinite(high), "torch.", op, ": range of [", low, ", ", high,
              "] is not finite");
  TORCH_CHECK(low <= high, "torch.", op, ": max must be larger than min");
}

void checkBins(int64_t bins) {
  TORCH_CHECK(bins > 0, "torch.histogram(): bins must be > 0, but got ", bins, " for dimension 0");
}

/// histc(self, bins, min, max): bins of equal width.
void histc(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0);
  requireFloating("histogram_cpu", self.scalar_type());
  checkBins(*intAt(args, 1));
  if (!args[2].isNone()) {
    checkRange("histc", realOf(args[2]), realOf(args[3]));
  }
  append(out, {*intAt(args, 1)});
}

/// histogram(self, bins, range, weight, density) and histogram(self, edges, weight, density).
void histogram(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0), &edges = tensorAt(args, 1);
  const Tensor &weight = tensorAt(args, edges.defined() ? 2 : 3);
  requireFloating("histogram_cpu", self.scalar_type());
  TORCH_CHECK(!weight.defined() || weight.sizes() == self.sizes(), "histogram: a weight of shape ", weight.sizes(),
              " for an input of shape ", self.sizes());
  TORCH_CHECK(!weight.defined() || weight.scalar_type() == self.scalar_type(),
              "torch.histogramdd: if weight tensor is provided, input tensor and weight tensor should have the same "
              "dtype, but got input(",
              self.scalar_type(), "), and weight(", weight.scalar_type(), ")");
  int64_t bins = 0;
  if (edges.defined()) {
    TORCH_CHECK(edges.dim() == 1 && edges.numel() > 1, "histogram: bins must be a vector of at least two edges, got ",
                edges.sizes());
    TORCH_CHECK(
        edges.scalar_type() == self.scalar_type(),
        "torch.histogramdd: input tensor and bins tensors should have the same dtype, but got input with dtype ",
        self.scalar_type(), " and bins for dimension 0 with dtype ", edges.scalar_type());
    bins = edges.numel() - 1;
  } else {
    bins = *intAt(args, 1);
    checkBins(bins);
    if (!args[2].isNone()) {
      auto range = args[2].toDoubleVector();
      TORCH_CHECK(range.size() == 2,
                  "torch.histogramdd: for a 1-dimensional histogram range should have 2 elements, but "
                  "got ",
                  range.size());
      checkRange("histogram", range[0], range[1]);
    }
  }
  append(out, {bins});
  append(out, {bins + 1});
}

/// [..., columns] of an input and what weighs its rows.
void checkColumns(const Tensor &self, size_t columns, const Tensor &weight) {
  TORCH_CHECK(self.dim() >= 2, "torch.histogramdd: input tensor should have at least 2 dimensions");
  TORCH_CHECK(static_cast<size_t>(self.size(-1)) == columns,
              "histogramdd: The size of bins must be equal to the innermost dimension of the input.");
  if (weight.defined()) {
    TORCH_CHECK(weight.sizes() == self.sizes().slice(0, self.dim() - 1),
                "torch.histogramdd: if weight tensor is provided it should have the same shape as the input tensor "
                "excluding its innermost dimension, but got input with shape ",
                self.sizes(), " and weight with shape ", weight.sizes());
    TORCH_CHECK(weight.scalar_type() == self.scalar_type(),
                "torch.histogramdd: if weight tensor is provided, input tensor and weight tensor should have the same "
                "dtype, but got input(",
                self.dtype(), "), and weight(", weight.dtype(), ")");
  }
  if (self.scalar_type() != at::kFloat && self.scalar_type() != at::kDouble) {
    failDtype("histogramdd", self.scalar_type());
  }
}

/// (self, bins, range, weight, density) of _histogramdd_bin_edges and _histogramdd_from_bin_cts.
Dims checkedCounts(Arguments args) {
  const Tensor &self = tensorAt(args, 0);
  Dims bins = dimsAt(args, 1);
  checkColumns(self, bins.size(), tensorAt(args, 3));
  for (size_t dim = 0; dim < bins.size(); ++dim) {
    TORCH_CHECK(bins[dim] > 0, "torch.histogram(): bins must be > 0, but got ", bins[dim], " for dimension ", dim);
  }
  if (args[2].isNone()) {
    return bins;
  }
  auto range = args[2].toDoubleVector();
  TORCH_CHECK(range.size() == 2 * bins.size(), "torch.histogramdd: for a ", bins.size(),
              "-dimensional histogram range should have ", 2 * bins.size(), " elements, but got ", range.size());
  for (size_t dim = 0; dim < bins.size(); ++dim) {
    const double low = range[2 * dim], high = range[2 * dim + 1];
    TORCH_CHECK(std::isfinite(low) && std::isfinite(high), "torch.histogramdd: dimension ", dim, "'s range [", low,
                ", ", high, "] is not finite");
    TORCH_CHECK(low <= high, "torch.histogramdd: min should not exceed max, but got min ", low, " max ", high,
                " for dimension ", dim);
  }
  return bins;
}

void binEdges(const ShapeRule &, Arguments args, Outputs &out) {
  for (int64_t bins : checkedCounts(args)) {
    append(out, {bins + 1});
  }
}

void fromBinCounts(const ShapeRule &, Arguments args, Outputs &out) { append(out, checkedCounts(args)); }

/// (self, bins, weight, density)
void fromBinTensors(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0);
  auto edges = listAt(args, 1);
  checkColumns(self, edges.size(), tensorAt(args, 2));
  Dims sizes;
  for (size_t dim = 0; dim < edges.size(); ++dim) {
    const Tensor &each = edges[dim].toTensor();
    TORCH_CHECK(each.scalar_type() == self.scalar_type(),
                "torch.histogramdd: input tensor and bins tensors should have the same dtype, but got input with "
                "dtype ",
                self.dtype(), " and bins for dimension ", dim, " with dtype ", each.dtype());
    TORCH_CHECK(each.dim() == 1, "torch.histogramdd: bins tensor should have one dimension, but got ", each.dim(),
                " dimensions in the bins tensor for dimension ", dim);
    TORCH_CHECK(each.numel() > 1, "torch.histogram(): bins must be > 0, but got ", each.numel() - 1, " for dimension ",
                dim);
    sizes.push_back(each.numel() - 1);
  }
  append(out, sizes);
}

const RuleEntry kRules[] = {
    {"bincount", bincount},
    {"histc", histc},
    {"histogram", histogram},
    {"_histogramdd_bin_edges", binEdges},
    {"_histogramdd_from_bin_cts", fromBinCounts},
    {"_histogramdd_from_bin_tensors", fromBinTensors},
};

} // namespace

c10::ArrayRef<RuleEntry> histogramRules() { return kRules; }

} // namespace shapes

const char *histogramNeeds(const c10::FunctionSchema &schema, Arguments args) {
  using namespace shapes;
  return baseName(schema) == "bincount" && intAt(args, 2).value_or(0) == 0
             ? "the number of classes depends on values; pass minlength= (classes at or above it are not counted)"
             : nullptr;
}

} // namespace sojourn::frontend
