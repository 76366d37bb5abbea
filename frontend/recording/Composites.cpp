// SPDX-License-Identifier: Apache-2.0
// Ops that ATen composes of others and reads values for on the way, composed without: they are recorded as what they
// consist of, and differentiate as that.
#include "frontend/Error.h"
#include "frontend/recording/Origin.h"
#include "frontend/recording/Slots.h"
#include "frontend/recording/Tensor.h"
#include "frontend/recording/StepSender.h"
#include "frontend/recording/Steps.h"

#include <ATen/ATen.h>
#include <ATen/ops/cross_entropy_loss_native.h>
#include <ATen/ops/max_pool1d_native.h>
#include <ATen/ops/one_hot_native.h>
#include <ATen/ops/tensor_split_native.h>
#include <torch/library.h>

namespace sojourn::frontend {

namespace {

void checkWeights(const at::Tensor &weights, const at::Tensor &x, const char *name) {
  TORCH_CHECK(weights.dim() <= 1, "cov(): expected ", name, " to have one or fewer dimensions but got ", name, " with ",
              weights.dim(), " dimensions");
  TORCH_CHECK(weights.numel() == x.size(1), "cov(): expected ", name,
              " to have the same numel as there are observations in the input but got ", weights.numel(),
              " != ", x.size(1));
}

/// Frequencies times weights, or undefined. That none is negative would be a question about values.
at::Tensor weightsOf(const at::Tensor &x, const at::Tensor &frequencies, const at::Tensor &weights) {
  if (frequencies.defined()) {
    checkWeights(frequencies, x, "fweights");
    TORCH_CHECK(at::isIntegralType(frequencies.scalar_type(), /*includeBool=*/false),
                "cov(): expected fweights to have integral dtype but got fweights with ", frequencies.scalar_type(),
                " dtype");
  }
  if (weights.defined()) {
    checkWeights(weights, x, "aweights");
    TORCH_CHECK(at::isFloatingType(weights.scalar_type()),
                "cov(): expected aweights to have floating point dtype but got aweights with ", weights.scalar_type(),
                " dtype");
  }
  return frequencies.defined() && weights.defined() ? frequencies * weights
         : frequencies.defined()                    ? frequencies
                                                    : weights;
}

/// [variables, variables]; of one variable a number, and no matrix product: its sums are then those that the mean has.
at::Tensor productsOfRows(const at::Tensor &a, const at::Tensor &b) {
  return a.size(0) == 1 ? (a * b.conj()).sum() : at::mm(a, b.t().conj());
}

/// x [variables, observations], or observations of one variable.
at::Tensor cov(const at::Tensor &self, int64_t correction, const std::optional<at::Tensor> &fweights,
               const std::optional<at::Tensor> &aweights) {
  TORCH_CHECK(self.dim() <= 2, "cov(): expected input to have two or fewer dimensions but got an input with ",
              self.dim(), " dimensions");
  TORCH_CHECK(self.scalar_type() != at::kBool, "cov(): bool dtype is not supported for input");
  at::Tensor x = self.dim() < 2 ? self.reshape({1, -1}) : self;
  at::Tensor importance = aweights.value_or(at::Tensor());
  at::Tensor weights = weightsOf(x, fweights.value_or(at::Tensor()), importance);
  if (!weights.defined()) {
    int64_t count = x.size(1);
    if (count <= correction) {
      TORCH_WARN("cov(): degrees of freedom is <= 0. Correction should be strictly less than the number of "
                 "observations.");
    }
    at::Tensor centred = x - (x.sum(1) / count).unsqueeze(1);
    return productsOfRows(centred, centred) / std::max<int64_t>(count - correction, 0);
  }
  at::Tensor total = weights.sum();
  at::Tensor freedom = total - correction;
  if (importance.defined() && correction != 0) {
    freedom = total - correction * (weights * importance).sum() / total;
  }
  at::Tensor centred = x - ((x * weights).sum(1) / total).unsqueeze(1);
  return productsOfRows(centred, centred * weights) / freedom.clamp_min(0);
}

/// ATen's looks at the memory of `out`.
at::Tensor &matmulOut(const at::Tensor &self, const at::Tensor &other, at::Tensor &out) {
  TORCH_CHECK(!at::GradMode::is_enabled() || !(self.requires_grad() || other.requires_grad() || out.requires_grad()),
              "matmul(): functions with out=... arguments don't support automatic differentiation, but one of the "
              "arguments requires grad.");
  at::Tensor result = at::matmul(self, other);
  TORCH_CHECK(out.scalar_type() == result.scalar_type(), "Expected out tensor to have dtype ", result.scalar_type(),
              ", but got ", out.scalar_type(), " instead");
  if (out.sizes() != result.sizes()) {
    out.resize_(result.sizes());
  }
  return out.copy_(result);
}

/// Without a number of classes it is that of the largest label.
at::Tensor oneHot(const at::Tensor &self, int64_t classes) {
  if (classes == -1 && self.scalar_type() == at::kLong && self.numel() > 0) {
    const auto ends = stepSender().readSizes(self, [](const at::Tensor &x) { return at::stack({x.max(), x.min()}); });
    if (!ends) {
      raise(ErrorKind::ValueNeeded, "aten::one_hot" + describeOrigin(captureOrigin()) +
                                        ": the number of classes depends on values; pass num_classes=");
    }
    TORCH_CHECK(ends->at(1) >= 0, "Class values must be non-negative.");
    classes = ends->front() + 1;
  }
  return at::native::one_hot(self, classes);
}

/// Eager takes the places of cuts from the CPU alone.
std::vector<at::Tensor> tensorSplit(const at::Tensor &self, const at::Tensor &cuts, int64_t dim) {
  if (!isRemote(cuts)) {
    return at::native::tensor_split(self, cuts, dim);
  }
  const auto places = stepSender().readSizes(cuts, [](const at::Tensor &x) { return x; });
  if (!places) {
    raise(ErrorKind::ValueNeeded, "aten::tensor_split" + describeOrigin(captureOrigin()) +
                                      ": the sizes of its parts depend on values; pass integers");
  }
  return at::native::tensor_split(self, at::tensor(*places, cuts.scalar_type()).reshape(cuts.sizes()), dim);
}

/// ATen's, whose checks come before what is recorded.
at::Tensor plainCrossEntropy(const at::Tensor &self, const at::Tensor &target, const std::optional<at::Tensor> &weight,
                             int64_t reduction, c10::SymInt ignored, double smoothing) {
  try {
    return at::native::cross_entropy_loss_symint(self, target, weight, reduction, std::move(ignored), smoothing);
  } catch (c10::Error &error) {
    hintAtSlots(error, {c10::IValue(self), c10::IValue(target)});
    throw;
  }
}

/// The mean of smoothed labels is one over the weights of the rows' classes, which ATen selects: how many they are
/// depends on values. Here ignored rows weigh nothing.
at::Tensor crossEntropy(const at::Tensor &self, const at::Tensor &target, const std::optional<at::Tensor> &weight,
                        int64_t reduction, c10::SymInt ignored, double smoothing) {
  const bool hasClasses = self.dim() > 0 && self.sizes() != target.sizes();
  if (!hasClasses || !weight || !weight->defined() || reduction != at::Reduction::Mean || !(smoothing > 0) ||
      smoothing > 1) {
    return plainCrossEntropy(self, target, weight, reduction, std::move(ignored), smoothing);
  }
  const int64_t dim = self.dim() == 1 ? 0 : 1;
  at::Tensor plain = plainCrossEntropy(self, target, weight, reduction, ignored, 0);
  std::vector<int64_t> alongClasses(static_cast<size_t>(self.dim()), 1);
  alongClasses[static_cast<size_t>(dim)] = weight->size(0);
  at::Tensor mask = target.eq(ignored.expect_int());
  at::Tensor rows = (at::log_softmax(self, dim) * weight->view(alongClasses)).sum(dim).masked_fill(mask, 0);
  at::Tensor weights = weight->gather(0, target.masked_fill(mask, 0).flatten()).masked_fill(mask.flatten(), 0);
  return plain * (1 - smoothing) - rows.sum() / weights.sum() * (smoothing / static_cast<double>(self.size(dim)));
}

/// Rows of a grid whose indices rise, found without their number being asked for.
at::Tensor combinations(const at::Tensor &self, int64_t count, bool withReplacement) {
  TORCH_CHECK(self.dim() == 1, "Expect a 1D vector, but got shape ", self.sizes());
  TORCH_CHECK(count >= 0, "Expect a non-negative number, but got ", count);
  if (count == 0) {
    return at::empty({0}, self.options());
  }
  const int64_t size = self.size(0), last = withReplacement ? size + count - 1 : size;
  int64_t rows = 1; // last over count
  for (int64_t i = 1; i <= count; ++i) {
    rows = rows * std::max<int64_t>(last - count + i, 0) / i;
  }
  if (count == 1) {
    return self.unsqueeze(1).clone();
  }
  if (rows == 0) {
    return self.narrow(0, 0, 0).unsqueeze(1).expand({0, count}).clone(at::MemoryFormat::Contiguous);
  }
  at::Tensor range = at::arange(size, self.options().dtype(at::kLong));
  at::Tensor rising;
  for (int64_t dim = 0; dim + 1 < count; ++dim) {
    std::vector<int64_t> mine(static_cast<size_t>(count), 1), next = mine;
    mine[static_cast<size_t>(dim)] = next[static_cast<size_t>(dim) + 1] = size;
    at::Tensor left = range.view(mine), right = range.view(next);
    at::Tensor pair = withReplacement ? left.le(right) : left.lt(right);
    rising = rising.defined() ? rising.logical_and(pair) : pair;
  }
  at::Tensor index = at::nonzero_static(rising, rows);
  return self.index_select(0, index.view({-1})).view({rows, count});
}

/// Eager has a kernel of its own where nothing differentiates: its result is no view of one with another dim, and is
/// contiguous.
at::Tensor maxPool1d(const at::Tensor &self, at::IntArrayRef size, at::IntArrayRef stride, at::IntArrayRef padding,
                     at::IntArrayRef dilation, bool ceil) {
  if ((at::GradMode::is_enabled() && self.requires_grad()) || self._fw_grad(/*level=*/0).defined()) {
    return at::native::max_pool1d(self, size, stride, padding, dilation, ceil);
  }
  at::AutoDispatchBelowADInplaceOrView plain;
  at::Tensor result = at::native::max_pool1d(self, size, stride, padding, dilation, ceil).contiguous();
  if (self.dim() == 2 && !result.is_inference()) {
    result.unsafeGetTensorImpl()->bump_version(); // eager takes a dim off in place
  }
  return result;
}

/// Whether all of these hold: a question about values.
bool holds(const char *op, const at::Tensor &conditions) {
  if (Steps::active()) {
    raise(ErrorKind::ValueNeeded, op + describeOrigin(captureOrigin()) +
                                      ": its result depends on values, which stay at the owner inside of a step; "
                                      "publish the comparison, or compare after the step");
  }
  return conditions.all().item().toBool();
}

bool equal(const at::Tensor &self, const at::Tensor &other) {
  TORCH_CHECK(self.scalar_type() == other.scalar_type(), "Expected all tensors to have the same dtype, got ",
              self.scalar_type(), " and ", other.scalar_type());
  return self.sizes() == other.sizes() && holds("aten::equal", self.eq(other));
}

/// The window is one of the storage, not of the tensor that is given.
at::Tensor asStridedCopy(const at::Tensor &self, at::IntArrayRef sizes, at::IntArrayRef strides,
                         std::optional<int64_t> offset) {
  return self.as_strided(sizes, strides, offset).clone(at::MemoryFormat::Contiguous);
}

at::Tensor asStridedScatter(const at::Tensor &self, const at::Tensor &source, at::IntArrayRef sizes,
                            at::IntArrayRef strides, std::optional<int64_t> offset) {
  for (int64_t dim = 0; dim < self.dim(); ++dim) {
    if (self.stride(dim) == 0 && self.size(dim) > 1) { // eager's copy is dense then
      at::Tensor dense = self.clone(at::MemoryFormat::Contiguous);
      return asStridedScatter(dense, source, sizes, strides, offset);
    }
  }
  const int64_t elements = c10::multiply_integers(remoteImpl(self)->remoteStorage()->sizes);
  at::Tensor whole = self.as_strided({elements}, {1}, 0).clone();
  at::Tensor window = whole.as_strided(sizes, strides, offset.value_or(self.storage_offset()));
  TORCH_CHECK(window.sizes() == source.sizes(),
              "expected src to have a size equal to the slice of self. src size = ", source.sizes(),
              ", slice size = ", window.sizes());
  window.copy_(source);
  return whole.as_strided(self.sizes(), self.strides(), self.storage_offset());
}

/// Zeros in the layout of `other`: what forward mode lays tangents of views into. Under vmap the first `batchDims` of
/// `self` come before it.
at::Tensor zerosLike(const at::Tensor &self, const at::Tensor &other, int64_t batchDims) {
  if (batchDims == 0) {
    return at::empty_strided(other.sizes(), other.strides(), self.options()).zero_();
  }
  int64_t reach = 1;
  for (int64_t dim = 0; dim < other.dim(); ++dim) {
    reach += std::max<int64_t>(other.size(dim) - 1, 0) * other.stride(dim);
  }
  at::IntArrayRef batch = self.sizes().slice(0, static_cast<size_t>(batchDims));
  at::DimVector whole(batch.begin(), batch.end()), sizes(whole), strides(whole.size());
  whole.push_back(reach);
  int64_t step = reach;
  for (size_t dim = strides.size(); dim-- > 0; step *= batch[dim]) {
    strides[dim] = step;
  }
  sizes.append(other.sizes().begin(), other.sizes().end());
  strides.append(other.strides().begin(), other.strides().end());
  return at::zeros(whole, self.options()).as_strided(sizes, strides);
}

bool allclose(const at::Tensor &self, const at::Tensor &other, double rtol, double atol, bool equalNan) {
  return holds("aten::allclose", at::isclose(self, other, rtol, atol, equalNan));
}

} // namespace

} // namespace sojourn::frontend

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, library) {
  using namespace sojourn::frontend;
  library.impl("combinations", combinations);
  library.impl("cov", cov);
  library.impl("cross_entropy_loss", crossEntropy);
  library.impl("matmul.out", matmulOut);
  library.impl("max_pool1d", maxPool1d);
  library.impl("one_hot", oneHot);
  library.impl("tensor_split.tensor_indices_or_sections", tensorSplit);
}

// Under inference_mode nothing arrives above.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  using namespace sojourn::frontend;
  library.impl("equal", equal);
  library.impl("allclose", allclose);
  library.impl("as_strided_copy", asStridedCopy);
  library.impl("as_strided_scatter", asStridedScatter);
  library.impl("_new_zeros_with_same_feature_meta", zerosLike);
  library.impl("combinations", combinations);
  library.impl("cov", cov);
  library.impl("cross_entropy_loss", crossEntropy);
  library.impl("matmul.out", matmulOut);
  library.impl("max_pool1d", maxPool1d);
  library.impl("one_hot", oneHot);
  library.impl("tensor_split.tensor_indices_or_sections", tensorSplit);
}
