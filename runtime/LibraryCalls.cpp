// SPDX-License-Identifier: Apache-2.0
// Products, reductions and convolutions of the library, over views of bare memory.
#include "runtime/LibraryTensor.h"
#include <ATen/Context.h>
#include <ATen/ops/_slow_conv2d_backward.h>
#include <ATen/ops/_slow_conv2d_forward_cpu_dispatch.h>
#include <ATen/ops/amax_cpu_dispatch.h>
#include <ATen/ops/amin_cpu_dispatch.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/bmm_cpu_dispatch.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/im2col.h>
#include <ATen/ops/mm_cpu_dispatch.h>
#include <ATen/ops/sum_cpu_dispatch.h>
#include <algorithm>
#include <numeric>

namespace sojourn::runtime {

void libraryProduct(const MatrixView &out, const MatrixView &a, const MatrixView &b) {
  const size_t batched = out.dims[0] == 1 ? 0 : 1;
  auto tensorOf = [&](Role role, const MatrixView &view) -> at::Tensor & {
    llvm::ArrayRef<int64_t> dims(view.dims), strides(view.strides);
    return tensorOver(role, view.element, view.data, dims.take_back(2 + batched), strides.take_back(2 + batched));
  };
  at::Tensor &result = tensorOf(Role::out, out);
  const at::Tensor &left = tensorOf(Role::first, a), &right = tensorOf(Role::second, b);
  if (!batched) {
    at::cpu::mm_out(result, left, right);
  } else {
    at::cpu::bmm_out(result, left, right);
  }
}

bool libraryKeepsFloat32() {
  at::Float32Precision precision =
      at::globalContext().float32Precision(at::Float32Backend::MKLDNN, at::Float32Op::MATMUL);
  return precision != at::Float32Precision::BF16 && precision != at::Float32Precision::TF32;
}

void libraryReduce(Reduction kind, const LibraryView &out, const LibraryView &x, llvm::ArrayRef<int64_t> dims) {
  at::Tensor &result = tensorOver(Role::out, out);
  const at::Tensor &operand = tensorOver(Role::first, x);
  at::IntArrayRef reduced(dims.data(), dims.size());
  switch (kind) {
  case Reduction::sum: at::cpu::sum_out(result, operand, reduced, /*keepdim=*/false, result.scalar_type()); return;
  case Reduction::largest: at::cpu::amax_out(result, operand, reduced, /*keepdim=*/false); return;
  case Reduction::smallest: at::cpu::amin_out(result, operand, reduced, /*keepdim=*/false); return;
  case Reduction::product: return; // own loops
  }
}

// --- Convolutions ---------------------------------------------------------------------------------

namespace {

/// No convolution has more spatial dims.
constexpr int64_t kNoOutputPadding[3] = {0, 0, 0};

at::IntArrayRef noOutputPadding(const ConvOptions &options) { return {kNoOutputPadding, options.stride.size()}; }

/// Whether a product with the images' windows, laid out as columns, beats the library's blocked loops, which take 4 to
/// 16 channels at a time. Weights [o, c, h, w]; `taps`: the largest window, h * w, where it does.
bool prefersColumns(const LibraryView &weight, const ConvOptions &options, int64_t taps) {
  return weight.dims.size() == 4 && weight.dims[1] <= kColumnChannels && weight.dims[2] * weight.dims[3] <= taps &&
         llvm::all_of(options.dilation, [](int64_t dilation) { return dilation == 1; }) &&
         (weight.element == Element::f32 || weight.element == Element::f64);
}

/// Measured with up to 3 channels: 1 to 5 times faster with windows up to 3 x 3, slower with 5 x 5.
constexpr int64_t kForwardTaps = 9;

/// So many images go through one call: the library lays out the columns of them all.
int64_t imagesAtOnce(const LibraryView &images, const LibraryView &weight, const LibraryView &results) {
  const int64_t bytes = columnBytes(images.element, images.dims, weight.dims, results.dims);
  return bytes == 0 ? images.dims[0] : std::clamp<int64_t>(kColumnBytes / bytes, 1, images.dims[0]);
}

/// Calls fn(first, past) for each such group of images; false where one call takes them all.
template <typename Fn>
bool groupsOfImages(int64_t images, int64_t most, Fn fn) {
  for (int64_t first = 0; most < images && first < images; first += most) {
    fn(first, std::min(images, first + most));
  }
  return most < images;
}

/// Height and width of the windows.
std::array<int64_t, 2> windowOf(const LibraryView &weight) { return {weight.dims[2], weight.dims[3]}; }

} // namespace

int64_t columnBytes(Element element, llvm::ArrayRef<int64_t> images, llvm::ArrayRef<int64_t> weight,
                    llvm::ArrayRef<int64_t> results) {
  constexpr double kSmallImage = 20'480; // of a single one the library takes no blocked loops
  auto product = [](llvm::ArrayRef<int64_t> sizes) {
    return std::accumulate(sizes.begin(), sizes.end(), 1.0,
                           [](double all, int64_t size) { return all * double(size); });
  };
  const double taps = product(weight.drop_front(2));
  const bool hasColumns = element == Element::f64 || (images[0] == 1 && product(images) <= kSmallImage) ||
                          (weight[1] <= kColumnChannels && taps <= kColumnTaps);
  const double bytes = double(byteWidth(element)) * double(weight[1]) * taps * product(results.drop_front(2));
  return hasColumns ? static_cast<int64_t>(std::min(bytes, 0x1p62)) : 0;
}

void libraryConvolve(const LibraryView &out, const LibraryView &x, const LibraryView &w, const ConvOptions &options) {
  if (groupsOfImages(x.dims[0], imagesAtOnce(x, w, out), [&](int64_t first, int64_t past) {
        libraryConvolve(narrowed(out, 0, first, past), narrowed(x, 0, first, past), w, options);
      })) {
    return;
  }
  // Columns are multiplied straight into the result, which has to be one piece for that.
  if (options.groups == 1 && prefersColumns(w, options, kForwardTaps) && isDense(out.dims, out.strides)) {
    at::cpu::_slow_conv2d_forward_out(tensorOver(Role::out, out), tensorOver(Role::first, x),
                                      tensorOver(Role::second, w), windowOf(w), std::nullopt, options.stride,
                                      options.padding);
    return;
  }
  tensorOver(Role::out, out)
      .copy_(at::convolution(tensorOver(Role::first, x), tensorOver(Role::second, w), std::nullopt, options.stride,
                             options.padding, options.dilation, /*transposed=*/false, noOutputPadding(options),
                             options.groups));
}

// The backward kernels take the tensor whose gradient is asked for as well, for its shape alone: the
// result's own memory serves, unwritten.

void libraryConvolveGradInput(const LibraryView &out, const LibraryView &gradient, const LibraryView &w,
                              const ConvOptions &options) {
  if (groupsOfImages(out.dims[0], imagesAtOnce(out, w, gradient), [&](int64_t first, int64_t past) {
        libraryConvolveGradInput(narrowed(out, 0, first, past), narrowed(gradient, 0, first, past), w, options);
      })) {
    return;
  }
  at::Tensor &result = tensorOver(Role::out, out);
  if (options.groups == 1 && prefersColumns(w, options, kColumnTaps)) {
    result.copy_(
        std::get<0>(at::_slow_conv2d_backward(tensorOver(Role::first, gradient), result, tensorOver(Role::second, w),
                                              windowOf(w), options.stride, options.padding, {true, false, false})));
    return;
  }
  result.copy_(std::get<0>(
      at::convolution_backward(tensorOver(Role::first, gradient), result, tensorOver(Role::second, w),
                               at::OptionalIntArrayRef(), options.stride, options.padding, options.dilation,
                               /*transposed=*/false, noOutputPadding(options), options.groups, {true, false, false})));
}

void libraryConvolveGradWeight(const LibraryView &out, const LibraryView &x, const LibraryView &gradient,
                               const ConvOptions &options) {
  // The groups' gradients are added in order.
  at::Tensor part;
  LibraryView to = out;
  if (groupsOfImages(x.dims[0], imagesAtOnce(x, out, gradient), [&](int64_t first, int64_t past) {
        libraryConvolveGradWeight(to, narrowed(x, 0, first, past), narrowed(gradient, 0, first, past), options);
        if (first != 0) {
          tensorOver(Role::out, out).add_(part);
          return;
        }
        at::Tensor &whole = tensorOver(Role::out, out);
        part = at::empty(whole.sizes(), whole.options());
        to.data = part.mutable_data_ptr();
        to.strides.assign(part.strides().begin(), part.strides().end());
      })) {
    return;
  }
  at::Tensor &result = tensorOver(Role::out, out);
  if (const int64_t groups = options.groups;
      groups > 1 && x.dims[0] == 1 && prefersColumns(out, options, kForwardTaps)) {
    // One small product per group.
    auto images = tensorOver(Role::first, x).reshape({groups, out.dims[1], x.dims[2], x.dims[3]});
    auto columns = at::im2col(images, windowOf(out), options.dilation, options.padding, options.stride);
    auto by = tensorOver(Role::second, gradient).reshape({groups, out.dims[0] / groups, columns.size(2)});
    result.copy_(at::bmm(by, columns.transpose(1, 2)).view(result.sizes()));
    return;
  }
  result.copy_(std::get<1>(at::convolution_backward(tensorOver(Role::second, gradient), tensorOver(Role::first, x),
                                                    result, at::OptionalIntArrayRef(), options.stride, options.padding,
                                                    options.dilation, /*transposed=*/false, noOutputPadding(options),
                                                    options.groups, {false, true, false})));
}

} // namespace sojourn::runtime
