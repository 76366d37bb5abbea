// SPDX-License-Identifier: Apache-2.0
// Complex numbers from parts, discrete Fourier transforms, eigenvectors.
#include "frontend/shapes/Iterator.h"
#include "frontend/shapes/Rules.h"

#include <ATen/Context.h>

#include <algorithm>
#include <numeric>

namespace sojourn::frontend::shapes {

namespace {

/// complex(real, imag), polar(abs, angle)
void ofParts(const ShapeRule &op, Arguments args, Outputs &out) {
  const Tensor &a = tensorAt(args, 0), &b = tensorAt(args, 1);
  const auto isGood = [](const Tensor &x) {
    return x.scalar_type() == c10::kFloat || x.scalar_type() == c10::kDouble || x.scalar_type() == c10::kHalf;
  };
  TORCH_CHECK(isGood(a) && isGood(b), "Expected both inputs to be Half, Float or Double tensors but got ",
              a.scalar_type(), " and ", b.scalar_type());
  TORCH_CHECK(a.scalar_type() == b.scalar_type(), "Expected object of scalar type ", a.scalar_type(),
              " but got scalar type ", b.scalar_type(), " for second argument");
  TORCH_CHECK_NOT_IMPLEMENTED(a.scalar_type() != c10::kHalf, c10::str(op.schema().name()),
                              ": complex numbers of halves are not supported on device owner; use float()");
  appendIterated(out, {&a, &b});
}

/// Strides of what is transformed along `dims`, in that order: those behind all others, which keep the order that the
/// operand's strides have them in.
Dims transformedStrides(IntArrayRef from, IntArrayRef sizes, IntArrayRef dims) {
  const auto rank = static_cast<int64_t>(from.size());
  std::vector<int64_t> order(static_cast<size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  auto end = std::partition(order.begin(), order.end(),
                            [&](int64_t d) { return std::find(dims.begin(), dims.end(), d) == dims.end(); });
  std::sort(order.begin(), end, [&](int64_t a, int64_t b) { return from[a] > from[b]; });
  std::copy(dims.begin(), dims.end(), end);
  Dims strides(static_cast<size_t>(rank), 1);
  int64_t step = 1;
  for (size_t k = order.size(); k-- > 0;) {
    const auto dim = static_cast<size_t>(order[k]);
    strides[dim] = step;
    step *= k < static_cast<size_t>(end - order.begin()) ? sizes[dim] : std::max<int64_t>(sizes[dim], 1);
  }
  return strides;
}

/// Dims by falling strides, but for the last ones.
Dims sortedDims(const Tensor &x, IntArrayRef dims, size_t kept) {
  Dims sorted(dims.begin(), dims.end());
  std::sort(sorted.begin(), sorted.end() - static_cast<std::ptrdiff_t>(kept),
            [&](int64_t a, int64_t b) { return x.stride(a) > x.stride(b); });
  return sorted;
}

void appendTransformed(Outputs &out, IntArrayRef from, IntArrayRef sizes, IntArrayRef dims) {
  // The library that torch's other builds have leaves row-major results.
  if (at::hasMKL()) {
    appendStrided(out, sizes, transformedStrides(from, sizes, dims));
  } else {
    append(out, sizes);
  }
}

Dims transformDims(const char *op, const Tensor &x, Arguments args) {
  Dims dims = dimsAt(args, 1);
  for (int64_t &dim : dims) {
    dim = at::maybe_wrap_dim(dim, x.dim());
    TORCH_CHECK(x.size(dim) >= 1, "Invalid number of data points (", x.size(dim), ") specified");
  }
  const ScalarType type = c10::toRealValueType(x.scalar_type());
  if (type != c10::kFloat && type != c10::kDouble) {
    TORCH_CHECK(false, op, ": Unsupported dtype ", x.scalar_type());
  }
  return dims;
}

/// _fft_c2c(self, dim, normalization, forward)
void complexTransform(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &x = tensorAt(args, 0);
  const Dims dims = transformDims("_fft_c2c", x, args);
  TORCH_CHECK(x.is_complex(), "Expected self.is_complex() to be true, but got false.");
  if (dims.empty()) {
    appendLike(out, x);
    return;
  }
  appendTransformed(out, x.strides(), x.sizes(), sortedDims(x, dims, /*kept=*/0));
}

/// _fft_r2c(self, dim, normalization, onesided)
void realTransform(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &x = tensorAt(args, 0);
  const Dims dims = transformDims("_fft_r2c", x, args);
  TORCH_CHECK(x.is_floating_point(), "Expected self.is_floating_point() to be true, but got false.");
  Dims sizes(x.sizes().begin(), x.sizes().end());
  if (boolAt(args, 3)) {
    sizes[static_cast<size_t>(dims.back())] = sizes[static_cast<size_t>(dims.back())] / 2 + 1;
  }
  appendTransformed(out, x.strides(), sizes, sortedDims(x, dims, /*kept=*/1));
}

/// _fft_c2r(self, dim, normalization, last_dim_size)
void transformToReal(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &x = tensorAt(args, 0);
  const Dims dims = transformDims("_fft_c2r", x, args);
  TORCH_CHECK(x.is_complex(), "Expected self.is_complex() to be true, but got false.");
  const int64_t last = dims.back(), size = *intAt(args, 3);
  TORCH_CHECK(size >= 1, "Invalid number of data points (", size, ") specified");
  Dims sizes(x.sizes().begin(), x.sizes().end());
  sizes[static_cast<size_t>(last)] = size;
  if (dims.size() == 1 || !at::hasMKL()) {
    appendTransformed(out, x.strides(), sizes, dims);
    return;
  }
  // The other dims are transformed first, and their result has an order of its own.
  const Dims others(dims.begin(), dims.end() - 1);
  const Dims between = transformedStrides(x.strides(), x.sizes(), sortedDims(x, others, /*kept=*/0));
  appendTransformed(out, between, sizes, {last});
}

/// linalg_eig(self), _linalg_eigvals(self)
void eigenvectors(const ShapeRule &op, Arguments args, Outputs &out) {
  const Tensor &x = tensorAt(args, 0);
  const char *name = baseName(op) == "linalg_eig" ? "linalg.eig" : "linalg.eigvals";
  TORCH_CHECK(x.dim() >= 2, name, ": The input tensor A must have at least 2 dimensions.");
  TORCH_CHECK(x.size(-1) == x.size(-2), name, ": A must be batches of square matrices, but they are ", x.size(-2),
              " by ", x.size(-1), " matrices");
  const ScalarType part = c10::toRealValueType(x.scalar_type());
  TORCH_CHECK(part == c10::kFloat || part == c10::kDouble, name,
              ": Expected a floating point or complex tensor as "
              "input. Got ",
              x.scalar_type());
  append(out, x.sizes().slice(0, x.dim() - 1));
  if (baseName(op) == "linalg_eig") {
    Dims strides = contiguousStrides(x.sizes());
    std::swap(strides[strides.size() - 1], strides[strides.size() - 2]);
    strides[strides.size() - 1] = std::max<int64_t>(x.size(-2), 1);
    strides[strides.size() - 2] = 1;
    appendStrided(out, x.sizes(), strides);
  }
}

const RuleEntry kRules[] = {
    {"complex", ofParts},
    {"polar", ofParts},
    {"_fft_c2c", complexTransform},
    {"_fft_r2c", realTransform},
    {"_fft_c2r", transformToReal},
    {"linalg_eig", eigenvectors},
    {"_linalg_eigvals", eigenvectors},
    {"linalg_eigvals", eigenvectors}, // into `out`
};

} // namespace

c10::ArrayRef<RuleEntry> complexRules() { return kRules; }

} // namespace sojourn::frontend::shapes
