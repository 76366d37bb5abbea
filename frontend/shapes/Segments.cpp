// SPDX-License-Identifier: Apache-2.0
// Shape rules of runs along a dimension, of pairs of rows, and of parts of numbers.
#include "frontend/shapes/Iterator.h"

namespace sojourn::frontend::shapes {

namespace {

/// segment_reduce(data, reduce, lengths, indices, offsets, axis, unsafe, initial). Whether lengths add up is a question
/// about values: positions beyond them are in no segment.
void segmentReduce(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &data = tensorAt(args, 0), &lengths = tensorAt(args, 2), &offsets = tensorAt(args, 4);
  const std::string_view reduce = args[1].toStringView();
  const bool isExtreme = reduce == "max" || reduce == "min" || reduce == "amax" || reduce == "amin";
  TORCH_CHECK(isExtreme || reduce == "sum" || reduce == "prod" || reduce == "mean",
              "reduce argument must be either sum, prod, mean, amax or amin, got ", reduce);
  TORCH_CHECK(!tensorAt(args, 3).defined(), "segment_reduce(): indices based reduction is not supported yet.");
  TORCH_CHECK(lengths.defined() || offsets.defined(), "segment_reduce(): Either lengths or offsets must be defined.");
  const int64_t axis = at::maybe_wrap_dim(intAt(args, 5).value_or(0), data.dim());
  const Tensor &runs = lengths.defined() ? lengths : offsets;
  const char *name = lengths.defined() ? "lengths" : "offsets";
  TORCH_CHECK(axis == runs.dim() - 1, "segment_reduce(): Expected axis to be the last dimension of ", name, " but got ",
              axis, ".");
  const IntArrayRef wanted = data.sizes().slice(0, axis), found = runs.sizes().slice(0, axis);
  TORCH_CHECK(found == wanted, "segment_reduce(): Expected the dimensions of ", name,
              " before axis to be those of data, ", wanted, ", but got ", found);
  requireFloating("_segment_reduce_cpu", data.scalar_type());
  if (runs.scalar_type() != at::kLong && runs.scalar_type() != at::kInt) {
    failDtype(lengths.defined() ? "_segment_reduce_lengths_cpu_kernel1" : "_segment_reduce_offsets_cpu_kernel1",
              runs.scalar_type());
  }
  TORCH_CHECK(lengths.defined() || offsets.size(axis) > 0, "segment_reduce(): Expected at least one offset");
  Dims sizes(data.sizes().begin(), data.sizes().end());
  sizes[axis] = runs.size(axis) - (lengths.defined() ? 0 : 1);
  append(out, sizes);
}

/// (grad, output, data, ...)
void segmentReduceBackward(const ShapeRule &, Arguments args, Outputs &out) { append(out, tensorAt(args, 2).sizes()); }

/// _pdist_forward(self, p): one distance per pair of rows.
void pairDistances(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &x = tensorAt(args, 0);
  TORCH_CHECK(x.is_contiguous(), "_pdist_forward requires contiguous input");
  if (x.scalar_type() != at::kFloat && x.scalar_type() != at::kDouble) {
    failDtype("pdist", x.scalar_type());
  }
  const int64_t rows = x.size(0);
  append(out, {rows <= 1 ? 0 : rows * (rows - 1) / 2});
}

/// (grad, self, p, pdist)
void pairDistancesBackward(const ShapeRule &, Arguments args, Outputs &out) { append(out, tensorAt(args, 1).sizes()); }

/// frexp(self) -> (mantissa, exponent)
void mantissaAndExponent(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &x = tensorAt(args, 0);
  TORCH_CHECK(at::isFloatingType(x.scalar_type()), "torch.frexp() only supports floating-point dtypes");
  appendIterated(out, {&x});
  appendIterated(out, {&x});
}

const RuleEntry kRules[] = {
    {"segment_reduce", segmentReduce}, {"_segment_reduce_backward", segmentReduceBackward},
    {"_pdist_forward", pairDistances}, {"_pdist_backward", pairDistancesBackward},
    {"frexp", mantissaAndExponent},
};

} // namespace

c10::ArrayRef<RuleEntry> segmentRules() { return kRules; }

} // namespace sojourn::frontend::shapes
