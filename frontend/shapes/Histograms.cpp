// SPDX-License-Identifier: Apache-2.0
// Shape rules of ops that count by classes or bins. How many there are has to be given: where eager would look at the
// values for it, `histogramNeeds` says what to give.
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
  checkRange("histc", realOf(args[2]), realOf(args[3]));
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
    auto range = args[2].toDoubleVector();
    TORCH_CHECK(range.size() == 2,
                "torch.histogramdd: for a 1-dimensional histogram range should have 2 elements, but "
                "got ",
                range.size());
    checkRange("histogram", range[0], range[1]);
  }
  append(out, {bins});
  append(out, {bins + 1});
}

const RuleEntry kRules[] = {{"bincount", bincount}, {"histc", histc}, {"histogram", histogram}};

} // namespace

c10::ArrayRef<RuleEntry> histogramRules() { return kRules; }

} // namespace shapes

const char *histogramNeeds(const c10::FunctionSchema &schema, Arguments args) {
  using namespace shapes;
  if (baseName(schema) == "bincount") {
    return intAt(args, 2).value_or(0) == 0
               ? "how many classes there are depends on values; pass minlength= (classes from there on are not counted)"
               : nullptr;
  }
  if (baseName(schema) == "histc") {
    return realOf(args[2]) == realOf(args[3])
               ? "its range is that of the values where min equals max; pass min= and max="
               : nullptr;
  }
  return !tensorAt(args, 1).defined() && args[2].isNone()
             ? "its range is that of the values; pass range=(low, high), or the edges as a tensor"
             : nullptr;
}

} // namespace sojourn::frontend
