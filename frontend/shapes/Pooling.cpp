// SPDX-License-Identifier: Apache-2.0
// Pooling and resampling of images.
#include "frontend/shapes/Structured.h"

#include <ATen/native/FractionalMaxPooling.h>
#include <ATen/native/GridSamplerUtils.h>
#include <ATen/native/Pool.h>
#include <ATen/ops/_upsample_bicubic2d_aa_backward_meta.h>
#include <ATen/ops/_upsample_bicubic2d_aa_meta.h>
#include <ATen/ops/_upsample_bilinear2d_aa_backward_meta.h>
#include <ATen/ops/_upsample_bilinear2d_aa_meta.h>
#include <ATen/ops/_upsample_lanczos2d_aa_backward_meta.h>
#include <ATen/ops/_upsample_lanczos2d_aa_meta.h>
#include <ATen/ops/_upsample_nearest_exact1d_backward_meta.h>
#include <ATen/ops/_upsample_nearest_exact1d_meta.h>
#include <ATen/ops/_upsample_nearest_exact2d_backward_meta.h>
#include <ATen/ops/_upsample_nearest_exact2d_meta.h>
#include <ATen/ops/_upsample_nearest_exact3d_backward_meta.h>
#include <ATen/ops/_upsample_nearest_exact3d_meta.h>
#include <ATen/ops/adaptive_max_pool2d_backward_meta.h>
#include <ATen/ops/adaptive_max_pool2d_meta.h>
#include <ATen/ops/adaptive_max_pool3d_backward_meta.h>
#include <ATen/ops/adaptive_max_pool3d_meta.h>
#include <ATen/ops/avg_pool2d_backward_meta.h>
#include <ATen/ops/avg_pool2d_meta.h>
#include <ATen/ops/avg_pool3d_backward_meta.h>
#include <ATen/ops/avg_pool3d_meta.h>
#include <ATen/ops/fractional_max_pool2d_backward_meta.h>
#include <ATen/ops/fractional_max_pool2d_meta.h>
#include <ATen/ops/fractional_max_pool3d_meta.h>
#include <ATen/ops/max_pool2d_with_indices_backward_meta.h>
#include <ATen/ops/max_pool2d_with_indices_meta.h>
#include <ATen/ops/upsample_bicubic2d_backward_meta.h>
#include <ATen/ops/upsample_bicubic2d_meta.h>
#include <ATen/ops/upsample_bilinear2d_backward_meta.h>
#include <ATen/ops/upsample_bilinear2d_meta.h>
#include <ATen/ops/upsample_linear1d_backward_meta.h>
#include <ATen/ops/upsample_linear1d_meta.h>
#include <ATen/ops/upsample_nearest1d_backward_meta.h>
#include <ATen/ops/upsample_nearest1d_meta.h>
#include <ATen/ops/upsample_nearest2d_backward_meta.h>
#include <ATen/ops/upsample_nearest2d_meta.h>
#include <ATen/ops/upsample_nearest3d_backward_meta.h>
#include <ATen/ops/upsample_nearest3d_meta.h>
#include <ATen/ops/upsample_trilinear3d_backward_meta.h>
#include <ATen/ops/upsample_trilinear3d_meta.h>

namespace sojourn::frontend::shapes {

namespace {

/// _adaptive_avg_pool2d / 3d: the last `Rank` dims become output_size.
template <int64_t Rank>
void adaptiveAverage(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0);
  Dims target = dimsAt(args, 1);
  TORCH_CHECK(target.size() == Rank, "adaptive_avg_pool", Rank, "d: output_size must be ", Rank);
  TORCH_CHECK(self.dim() == Rank + 1 || self.dim() == Rank + 2, "adaptive_avg_pool", Rank, "d(): Expected ", Rank + 1,
              "D or ", Rank + 2, "D tensor, but got ", self.sizes());
  for (int64_t i = 1; i <= Rank; ++i) {
    TORCH_CHECK(self.size(-i) > 0, "adaptive_avg_pool", Rank,
                "d(): Expected input to have non-zero size for non-batch dimensions, but input has sizes ",
                self.sizes(), " with dimension ", self.dim() - i, " being empty");
  }
  Dims sizes(self.sizes().begin(), self.sizes().end());
  std::copy(target.begin(), target.end(), sizes.end() - Rank);
  append(out, sizes, Rank == 2 ? self.suggest_memory_format() : at::MemoryFormat::Contiguous);
}

/// (grad_output, self): the gradient looks like self.
template <int64_t Rank>
void adaptiveAverageBackward(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 1);
  append(out, self.sizes(), Rank == 2 ? self.suggest_memory_format() : at::MemoryFormat::Contiguous);
}

int64_t pick(const Dims &dims, size_t index) { return dims.size() == 1 ? dims[0] : dims[index]; }

/// (self, kernel_size, stride, padding, dilation, ceil_mode) -> (values, indices)
void maxPool3d(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0);
  Dims kernel = dimsAt(args, 1), stride = dimsAt(args, 2), padding = dimsAt(args, 3), dilation = dimsAt(args, 4);
  TORCH_CHECK(kernel.size() == 1 || kernel.size() == 3,
              "max_pool3d: kernel_size must either be a single int, or a tuple of three ints");
  TORCH_CHECK(stride.empty() || stride.size() == 1 || stride.size() == 3,
              "max_pool3d: stride must either be omitted, a single int, or a tuple of three ints");
  TORCH_CHECK(self.dim() == 4 || self.dim() == 5, "non-empty 4D or 5D (batch mode) tensor expected for input");
  if (stride.empty()) {
    stride = kernel;
  }
  Dims sizes(self.sizes().begin(), self.sizes().end()), input, output;
  const int64_t lead = self.dim() - 3;
  for (size_t i = 0; i < 3; ++i) {
    input.push_back(sizes[lead + i]);
    sizes[lead + i] = at::native::pooling_output_shape<int64_t>(sizes[lead + i], pick(kernel, i), pick(padding, i),
                                                                pick(stride, i), pick(dilation, i), args[5].toBool());
  }
  at::native::pool3d_shape_check(self, self.size(lead - 1), pick(kernel, 0), pick(kernel, 1), pick(kernel, 2),
                                 pick(stride, 0), pick(stride, 1), pick(stride, 2), pick(padding, 0), pick(padding, 1),
                                 pick(padding, 2), pick(dilation, 0), pick(dilation, 1), pick(dilation, 2), input[0],
                                 input[1], input[2], sizes[lead], sizes[lead + 1], sizes[lead + 2],
                                 "max_pool3d_with_indices_out_cpu_template()");
  at::MemoryFormat format = self.dim() == 5 ? self.suggest_memory_format() : at::MemoryFormat::Contiguous;
  append(out, sizes, format);
  append(out, sizes, format);
}

/// The gradient of an image op: argument 1's sizes in its memory format.
void likeImage(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 1);
  append(out, self.sizes(), self.suggest_memory_format());
}

/// max_unpool2d(self, indices, output_size), max_unpool3d(..., stride, padding). Where indices point to is not known.
template <int64_t Rank>
void maxUnpool(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0), &indices = tensorAt(args, 1);
  Dims target = dimsAt(args, 2);
  const char *elements = Rank == 2 ? "two elements (height, width)" : "three elements (depth, height, width)";
  const auto count = static_cast<size_t>(Rank);
  TORCH_CHECK(indices.scalar_type() == at::kLong,
              "elements in indices should be type int64 but got: ", indices.scalar_type());
  TORCH_CHECK(target.size() == count, "There should be exactly ", elements, " in output_size, but got ", target.size(),
              " elements.");
  TORCH_CHECK(self.dim() == Rank + 1 || self.dim() == Rank + 2, "Input to max_unpooling", Rank, "d should be a ",
              Rank + 1, "d or ", Rank + 2, "d Tensor, but got a tensor with ", self.dim(), " dimensions.");
  if (Rank == 3) {
    Dims stride = dimsAt(args, 3), padding = dimsAt(args, 4);
    TORCH_CHECK(stride.size() == count, "There should be exactly ", elements, " in stride, but got: ", stride.size(),
                " elements.");
    TORCH_CHECK(padding.size() == count, "There should be exactly ", elements, " in padding, but got: ", padding.size(),
                " elements.");
    TORCH_CHECK(std::all_of(stride.begin(), stride.end(), [](int64_t step) { return step > 0; }),
                "strides should be greater than zero, but got stride: ", IntArrayRef(stride));
  }
  TORCH_CHECK(self.sizes() == indices.sizes(), "Expected shape of indices to be same as that of the input tensor (",
              self.sizes(), ") but got indices tensor with shape: ", indices.sizes());
  for (int64_t dim = self.dim() - Rank - 1; dim < self.dim(); ++dim) {
    TORCH_CHECK(self.size(dim) > 0, "max_unpooling", Rank,
                "d_forward_out_cpu(): ", "Expected input to have non-zero size for non-batch dimensions, but got ",
                self.sizes(), " with dimension ", dim, " being empty.");
  }
  TORCH_CHECK(std::all_of(target.begin(), target.end(), [](int64_t size) { return size >= 0; }), "max_unpooling", Rank,
              "d(): output_size must contain non-negative spatial dimensions, but got output_size=(",
              c10::Join(", ", target), ")");
  if (!c10::isFloatingType(self.scalar_type())) {
    failDtype(Rank == 2 ? "max_unpool2d" : "max_unpool3d", self.scalar_type());
  }
  Dims sizes(self.sizes().begin(), self.sizes().end());
  std::copy(target.begin(), target.end(), sizes.end() - Rank);
  append(out, sizes, Rank == 2 ? self.suggest_memory_format() : at::MemoryFormat::Contiguous);
}

/// (self, kernel_size, output_size, random_samples) -> (values, indices)
template <class Meta, int64_t Rank>
void fractionalMaxPool(const ShapeRule &rule, Arguments args, Outputs &out) {
  structured<Meta>(rule, args, out);
  const Tensor &self = tensorAt(args, 0);
  at::native::fractional_max_pool_check_shape<Rank>(self, tensorAt(args, 3));
  if (!c10::isFloatingType(self.scalar_type())) {
    failDtype(Rank == 2 ? "fractional_max_pool2d_out_frame" : "fractional_max_pool3d_out_frame", self.scalar_type());
  }
}

/// (grad_output, self, kernel_size, output_size, indices)
void fractionalMaxPool3dBackward(const ShapeRule &, Arguments args, Outputs &out) {
  static constexpr const char *kNames[] = {"time", "height", "width"};
  const Tensor &gradient = tensorAt(args, 0), &self = tensorAt(args, 1);
  Dims target = dimsAt(args, 3);
  for (int64_t i = 0; i < 3; ++i) {
    TORCH_CHECK(target.at(i) == gradient.size(self.dim() - 3 + i), "fractional_max_pool3d_backward_out(): gradOutput ",
                kNames[i], " unexpected");
  }
  append(out, self.sizes());
}

/// Antialiased resampling knows bytes and the two wide floats; its gradient the latter.
template <class Meta>
void smoothUpsample(const ShapeRule &rule, Arguments args, Outputs &out) {
  structured<Meta>(rule, args, out);
  ScalarType type = tensorAt(args, 0).scalar_type();
  bool backward = baseName(rule).find("backward") != std::string_view::npos;
  if (type != at::kFloat && type != at::kDouble && (backward || type != at::kByte)) {
    // "_upsample_x_backward" -> "upsample_x_backward_cpu"
    failDtype(backward ? (std::string(baseName(rule).substr(1)) + "_cpu").c_str() : "compute_index_ranges_weights",
              type);
  }
}

void checkGrid(const Tensor &input, const Tensor &grid, int64_t mode, bool volume) {
  at::native::check_grid_sampler_common(input, grid);
  if (volume) {
    at::native::check_grid_sampler_3d(input, grid, mode);
  } else {
    at::native::check_grid_sampler_2d(input, grid);
  }
}

/// grid_sampler_2d / 3d(input [N, C, ...], grid [N, ..., rank], ...)
template <bool Volume>
void gridSample(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &input = tensorAt(args, 0), &grid = tensorAt(args, 1);
  checkGrid(input, grid, intAt(args, 2).value_or(0), Volume);
  Dims sizes{input.size(0), input.size(1)};
  for (int64_t dim = 1; dim + 1 < grid.dim(); ++dim) {
    sizes.push_back(grid.size(dim));
  }
  append(out, sizes);
}

/// (grad_output, input, grid, mode, padding, align, mask[2])
template <bool Volume>
void gridSampleBackward(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &input = tensorAt(args, 1), &grid = tensorAt(args, 2);
  checkGrid(input, grid, intAt(args, 3).value_or(0), Volume);
  if (maskAt(args, 6, 0)) {
    append(out, input.sizes());
  } else {
    appendUndefined(out);
  }
  append(out, grid.sizes());
}

const RuleEntry kRules[] = {
    {"avg_pool2d", structured<at::meta::structured_avg_pool2d>},
    {"avg_pool2d_backward", structured<at::meta::structured_avg_pool2d_backward>},
    {"avg_pool3d", structured<at::meta::structured_avg_pool3d>},
    {"avg_pool3d_backward", structured<at::meta::structured_avg_pool3d_backward>},
    {"max_pool2d_with_indices", structured<at::meta::structured_max_pool2d_with_indices>},
    {"max_pool2d_with_indices_backward", structured<at::meta::structured_max_pool2d_with_indices_backward>},
    {"max_pool3d_with_indices", maxPool3d},
    {"max_pool3d_with_indices_backward", likeImage},
    {"_adaptive_avg_pool2d", adaptiveAverage<2>},
    {"_adaptive_avg_pool2d_backward", adaptiveAverageBackward<2>},
    {"_adaptive_avg_pool3d", adaptiveAverage<3>},
    {"_adaptive_avg_pool3d_backward", adaptiveAverageBackward<3>},
    {"adaptive_max_pool2d", structured<at::meta::structured_adaptive_max_pool2d>},
    {"adaptive_max_pool2d_backward", structured<at::meta::structured_adaptive_max_pool2d_backward>},
    {"adaptive_max_pool3d", structured<at::meta::structured_adaptive_max_pool3d>},
    {"adaptive_max_pool3d_backward", structured<at::meta::structured_adaptive_max_pool3d_backward>},
    {"upsample_nearest1d.", structured<at::meta::structured_upsample_nearest1d>},
    {"upsample_nearest1d_backward.", structured<at::meta::structured_upsample_nearest1d_backward>},
    {"upsample_nearest2d.", structured<at::meta::structured_upsample_nearest2d>},
    {"upsample_nearest2d_backward.", structured<at::meta::structured_upsample_nearest2d_backward>},
    {"upsample_nearest3d.", structured<at::meta::structured_upsample_nearest3d>},
    {"upsample_nearest3d_backward.", structured<at::meta::structured_upsample_nearest3d_backward>},
    {"_upsample_nearest_exact1d.", structured<at::meta::structured__upsample_nearest_exact1d>},
    {"_upsample_nearest_exact1d_backward.", structured<at::meta::structured__upsample_nearest_exact1d_backward>},
    {"_upsample_nearest_exact2d.", structured<at::meta::structured__upsample_nearest_exact2d>},
    {"_upsample_nearest_exact2d_backward.", structured<at::meta::structured__upsample_nearest_exact2d_backward>},
    {"_upsample_nearest_exact3d.", structured<at::meta::structured__upsample_nearest_exact3d>},
    {"_upsample_nearest_exact3d_backward.", structured<at::meta::structured__upsample_nearest_exact3d_backward>},
    {"upsample_linear1d.", structured<at::meta::structured_upsample_linear1d>},
    {"upsample_linear1d_backward.", structured<at::meta::structured_upsample_linear1d_backward>},
    {"upsample_bilinear2d.", structured<at::meta::structured_upsample_bilinear2d>},
    {"upsample_bilinear2d_backward.", structured<at::meta::structured_upsample_bilinear2d_backward>},
    {"upsample_bicubic2d.", structured<at::meta::structured_upsample_bicubic2d>},
    {"upsample_bicubic2d_backward.", structured<at::meta::structured_upsample_bicubic2d_backward>},
    {"upsample_trilinear3d.", structured<at::meta::structured_upsample_trilinear3d>},
    {"upsample_trilinear3d_backward.", structured<at::meta::structured_upsample_trilinear3d_backward>},
    {"_upsample_bilinear2d_aa.", smoothUpsample<at::meta::structured__upsample_bilinear2d_aa>},
    {"_upsample_bilinear2d_aa_backward.", smoothUpsample<at::meta::structured__upsample_bilinear2d_aa_backward>},
    {"_upsample_bicubic2d_aa.", smoothUpsample<at::meta::structured__upsample_bicubic2d_aa>},
    {"_upsample_bicubic2d_aa_backward.", smoothUpsample<at::meta::structured__upsample_bicubic2d_aa_backward>},
    {"_upsample_lanczos2d_aa.", smoothUpsample<at::meta::structured__upsample_lanczos2d_aa>},
    {"_upsample_lanczos2d_aa_backward.", smoothUpsample<at::meta::structured__upsample_lanczos2d_aa_backward>},
    {"max_unpool2d", maxUnpool<2>},
    {"max_unpool3d", maxUnpool<3>},
    {"fractional_max_pool2d", fractionalMaxPool<at::meta::structured_fractional_max_pool2d, 2>},
    {"fractional_max_pool2d_backward", structured<at::meta::structured_fractional_max_pool2d_backward>},
    {"fractional_max_pool3d", fractionalMaxPool<at::meta::structured_fractional_max_pool3d, 3>},
    {"fractional_max_pool3d_backward", fractionalMaxPool3dBackward},
    {"grid_sampler_2d", gridSample<false>},
    {"grid_sampler_3d", gridSample<true>},
    {"grid_sampler_2d_backward", gridSampleBackward<false>},
    {"grid_sampler_3d_backward", gridSampleBackward<true>},
};

} // namespace

c10::ArrayRef<RuleEntry> poolingRules() { return kRules; }

} // namespace sojourn::frontend::shapes
