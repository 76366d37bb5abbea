// SPDX-License-Identifier: Apache-2.0
// Ops that move elements without computing: concatenation, repetition, padding, shuffles, triangles.
#include "frontend/shapes/Structured.h"

#include <ATen/TensorUtils.h>
#include <ATen/WrapDimUtilsMulti.h>
#include <ATen/native/TypeProperties.h>
#include <ATen/ops/cat_meta.h>
#include <ATen/ops/reflection_pad1d_backward_meta.h>
#include <ATen/ops/reflection_pad1d_meta.h>
#include <ATen/ops/reflection_pad3d_backward_meta.h>
#include <ATen/ops/reflection_pad3d_meta.h>
#include <ATen/ops/replication_pad1d_backward_meta.h>
#include <ATen/ops/replication_pad1d_meta.h>
#include <ATen/ops/replication_pad2d_meta.h>
#include <ATen/ops/replication_pad3d_meta.h>
#include <ATen/ops/tril_meta.h>
#include <ATen/ops/triu_meta.h>

namespace sojourn::frontend::shapes {

namespace {

/// Eager stacks by concatenating: along an existing dim, then a view; as a new last dim of unsqueezed
/// tensors. Concatenation keeps channels-last, which is visible in the strides.
Dims stackStrides(c10::ArrayRef<c10::IValue> tensors, int64_t dim, const Dims &sizes) {
  const Tensor &first = tensors[0].toTensor();
  const bool last = dim == first.dim();
  Dims joined(first.sizes().begin(), first.sizes().end());
  if (last) {
    joined.push_back(tensors.size());
  } else {
    joined[dim] *= static_cast<int64_t>(tensors.size());
  }
  bool channelsLast = joined.size() == 4, channelsLast3d = joined.size() == 5;
  for (const c10::IValue &value : tensors) {
    const Tensor &tensor = value.toTensor();
    Dims shape(tensor.sizes().begin(), tensor.sizes().end()), strides(tensor.strides().begin(), tensor.strides().end());
    if (last) {
      shape.push_back(1);
      strides.push_back(1);
    }
    channelsLast = channelsLast && c10::is_channels_last_strides_2d(IntArrayRef(shape), IntArrayRef(strides));
    channelsLast3d = channelsLast3d && c10::is_channels_last_strides_3d(IntArrayRef(shape), IntArrayRef(strides));
  }
  if (!channelsLast && !channelsLast3d) {
    return contiguousStrides(sizes);
  }
  Dims strides =
      formatStrides(joined, channelsLast ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::ChannelsLast3d);
  if (last) {
    return strides;
  }
  std::optional<at::DimVector> split =
      at::detail::computeStride(joined, strides, at::DimVector(sizes.begin(), sizes.end()));
  return split ? Dims(split->begin(), split->end()) : contiguousStrides(sizes);
}

void stack(const ShapeRule &, Arguments args, Outputs &out) {
  c10::ArrayRef<c10::IValue> tensors = listAt(args, 0);
  TORCH_CHECK(!tensors.empty(), "stack expects a non-empty TensorList");
  const Tensor &first = tensors[0].toTensor();
  int64_t dim = at::maybe_wrap_dim(args[1].toInt(), first.dim() + 1);
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor &tensor = tensors[i].toTensor();
    TORCH_CHECK(tensor.sizes() == first.sizes(), "stack expects each tensor to be equal size, but got ", first.sizes(),
                " at entry 0 and ", tensor.sizes(), " at entry ", i);
  }
  Dims sizes(first.sizes().begin(), first.sizes().end());
  sizes.insert(sizes.begin() + dim, static_cast<int64_t>(tensors.size()));
  append(out, sizes);
  out.back().strides = stackStrides(tensors, dim, sizes);
}

void repeat(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0);
  Dims sizes = dimsAt(args, 1);
  TORCH_CHECK(static_cast<int64_t>(sizes.size()) >= self.dim(),
              "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor");
  const size_t lead = sizes.size() - self.dim();
  for (size_t i = 0; i < sizes.size(); ++i) {
    TORCH_CHECK(sizes[i] >= 0, "Trying to create tensor with negative dimension ", sizes[i], ": ", IntArrayRef(sizes));
    if (i >= lead) {
      sizes[i] *= self.sizes()[i - lead];
    }
  }
  append(out, sizes);
}

void roll(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0);
  Dims shifts = dimsAt(args, 1), dims = dimsAt(args, 2);
  TORCH_CHECK(!shifts.empty(), "`shifts` required");
  if (dims.empty()) {
    TORCH_CHECK(shifts.size() == 1, "shifts and dimensions must align. shifts: ", shifts.size(), ", dims:0");
  } else {
    TORCH_CHECK(shifts.size() == dims.size(), "shifts and dimensions must align. shifts: ", shifts.size(),
                ", dims:", dims.size());
  }
  for (int64_t dim : dims) {
    at::maybe_wrap_dim(dim, self.dim(), /*wrap_scalar=*/false);
  }
  if (self.numel() == 0 && !dims.empty()) {
    appendLike(out, self);
  } else {
    append(out, self.sizes());
  }
}

void flip(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0);
  Dims dims = dimsAt(args, 1);
  at::dim_list_to_bitset(IntArrayRef(dims), self.dim());
  appendLike(out, self);
}

/// rot90(self, k, dims)
void rotate(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0);
  Dims dims = dimsAt(args, 2);
  TORCH_CHECK(dims.size() == 2, "expected total rotation dims == 2, but got dims = ", dims.size());
  TORCH_CHECK(self.dim() >= 2, "expected total dims >= 2, but got total dims = ", self.dim());
  int64_t left = at::maybe_wrap_dim(dims[0], self.dim()), right = at::maybe_wrap_dim(dims[1], self.dim());
  TORCH_CHECK(left != right, "expected rotation dims to be different, but got dim0 = ", dims[0],
              " and dim1 = ", dims[1]);
  OutputMeta &meta = appendLike(out, self);
  if (args[1].toInt() % 2 != 0) {
    std::swap(meta.sizes[left], meta.sizes[right]);
    std::swap(meta.strides[left], meta.strides[right]);
  }
}

void constantPad(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0);
  Dims pad = dimsAt(args, 1);
  TORCH_CHECK(pad.size() % 2 == 0, "Length of pad must be even but instead it equals ", pad.size());
  const int64_t count = pad.size() / 2;
  TORCH_CHECK(self.dim() >= count,
              "Length of pad should be no more than twice the number of dimensions of the input. Pad length is ",
              pad.size(), "while the input has ", self.dim(), "dimensions.");
  Dims sizes(self.sizes().begin(), self.sizes().end());
  bool shrinks = true;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t dim = self.dim() - 1 - i, low = pad[2 * i], high = pad[2 * i + 1];
    sizes[dim] += low + high;
    shrinks = shrinks && low <= 0 && high <= 0;
  }
  for (int64_t i = 0; i < count; ++i) {
    const int64_t dim = self.dim() - 1 - i, low = pad[2 * i], high = pad[2 * i + 1];
    TORCH_CHECK(!shrinks || sizes[dim] >= 0, "narrow(): length must be non-negative.");
    TORCH_CHECK(sizes[dim] >= 0, "The input size ", self.sizes()[dim], ", plus negative padding ", low, " and ", high,
                " resulted in a negative output size, which is invalid. Check dimension ", dim, " of your input.");
  }
  if (shrinks) {
    // A clone of a narrowed view.
    appendStrided(out, sizes, preservedStrides(sizes, self.strides()));
    return;
  }
  append(out, sizes, self.suggest_memory_format());
}

/// reflection and replication padding of the last `Rank` dims, where eager has no structured kernel.
template <int64_t Rank>
void mirrorPad(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0);
  Dims pad = dimsAt(args, 1);
  TORCH_CHECK(static_cast<int64_t>(pad.size()) == 2 * Rank, "padding size is expected to be ", 2 * Rank);
  TORCH_CHECK(self.dim() == Rank + 1 || self.dim() == Rank + 2, "Expected ", Rank + 1, "D or ", Rank + 2,
              "D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, but got: ",
              self.sizes());
  Dims sizes(self.sizes().begin(), self.sizes().end());
  for (int64_t i = 0; i < Rank; ++i) {
    const int64_t dim = self.dim() - 1 - i, size = sizes[dim];
    TORCH_CHECK(pad[2 * i] < size && pad[2 * i + 1] < size, "Argument #", 4 + 2 * i,
                ": Padding size should be less than the corresponding input dimension, but got: padding (", pad[2 * i],
                ", ", pad[2 * i + 1], ") at dimension ", dim, " of input ", self.sizes());
    sizes[dim] += pad[2 * i] + pad[2 * i + 1];
  }
  append(out, sizes, self.dim() == Rank + 2 && Rank == 2 ? self.suggest_memory_format() : at::MemoryFormat::Contiguous);
}

/// What a structured meta says, in the layout of `self`, which eager's kernels on the CPU give it.
template <class Meta>
void padAsLaidOut(const ShapeRule &op, Arguments args, Outputs &out) {
  structured<Meta>(op, args, out);
  out.back().strides = formatStrides(out.back().sizes, tensorAt(args, 0).suggest_memory_format());
}

/// (grad_output, self, padding): zeros_like(self)
void padBackward(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 1);
  append(out, self.sizes(), self.dim() == 4 ? self.suggest_memory_format() : at::MemoryFormat::Contiguous);
}

void pixelShuffle(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0);
  int64_t factor = args[1].toInt();
  TORCH_CHECK(self.dim() >= 3, "pixel_shuffle expects input to have at least 3 dimensions, but got input with ",
              self.dim(), " dimension(s)");
  TORCH_CHECK(factor > 0, "pixel_shuffle expects a positive upscale_factor, but got ", factor);
  int64_t channels = self.size(-3), square = factor * factor;
  TORCH_CHECK(
      channels % square == 0,
      "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, but "
      "input.size(-3)=",
      channels, " is not divisible by ", square);
  Dims sizes(self.sizes().begin(), self.sizes().end());
  sizes[self.dim() - 3] /= square;
  sizes[self.dim() - 2] *= factor;
  sizes[self.dim() - 1] *= factor;
  append(out, sizes, self.suggest_memory_format());
}

void pixelUnshuffle(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0);
  int64_t factor = args[1].toInt();
  TORCH_CHECK(self.dim() >= 3, "pixel_unshuffle expects input to have at least 3 dimensions, but got input with ",
              self.dim(), " dimension(s)");
  TORCH_CHECK(factor > 0, "pixel_unshuffle expects a positive downscale_factor, but got ", factor);
  Dims sizes(self.sizes().begin(), self.sizes().end());
  for (int64_t dim : {self.dim() - 2, self.dim() - 1}) {
    TORCH_CHECK(sizes[dim] % factor == 0, "pixel_unshuffle expects ", dim == self.dim() - 2 ? "height" : "width",
                " to be divisible by downscale_factor, but input.size(", dim - self.dim(), ")=", sizes[dim],
                " is not divisible by ", factor);
    sizes[dim] /= factor;
  }
  sizes[self.dim() - 3] *= factor * factor;
  append(out, sizes, self.suggest_memory_format());
}

void channelShuffle(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0);
  int64_t groups = *intAt(args, 1);
  TORCH_CHECK(self.dim() > 2, "channel_shuffle expects input with > 2 dims, but got input with sizes ", self.sizes());
  TORCH_CHECK(groups > 0, "Number of groups to divide channels in must be positive.", " Value of groups:", groups);
  TORCH_CHECK(self.size(1) % groups == 0, "Number of channels must be divisible by groups. Got ", self.size(1),
              " channels and ", groups, " groups.");
  append(out, self.sizes(), self.suggest_memory_format());
}

/// diag_embed(self, offset, dim1, dim2)
void diagonalEmbed(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0);
  int64_t offset = args[1].toInt(), rank = self.dim() + 1;
  int64_t first = at::maybe_wrap_dim(args[2].toInt(), rank), second = at::maybe_wrap_dim(args[3].toInt(), rank);
  TORCH_CHECK(first != second, "diagonal dimensions cannot be identical ", args[2].toInt(), ", ", args[3].toInt());
  int64_t length = std::abs(offset) + self.size(-1);
  Dims sizes(self.sizes().begin(), self.sizes().end() - 1);
  sizes.insert(sizes.begin() + std::min(first, second), length);
  sizes.insert(sizes.begin() + std::max(first, second), length);
  append(out, sizes);
}

void blockDiagonal(const ShapeRule &, Arguments args, Outputs &out) {
  Dims sizes{0, 0};
  for (const c10::IValue &value : listAt(args, 0)) {
    const Tensor &tensor = value.toTensor();
    TORCH_CHECK(tensor.dim() <= 2, "torch.block_diag: Input tensors must have 2 or fewer dimensions. Input has ",
                tensor.dim(), " dimensions");
    sizes[0] += tensor.dim() == 2 ? tensor.size(0) : 1;
    sizes[1] += tensor.dim() == 0 ? 1 : tensor.size(-1);
  }
  append(out, sizes);
}

const RuleEntry kRules[] = {
    {"cat.", structured<at::meta::structured_cat>},
    {"stack", stack},
    {"_stack", stack},
    {"repeat", repeat},
    {"roll", roll},
    {"flip", flip},
    {"rot90", rotate},
    {"tril", structured<at::meta::structured_tril>},
    {"triu", structured<at::meta::structured_triu>},
    {"diag_embed", diagonalEmbed},
    {"block_diag", blockDiagonal},
    {"constant_pad_nd", constantPad},
    {"reflection_pad1d", structured<at::meta::structured_reflection_pad1d>},
    {"reflection_pad1d_backward", structured<at::meta::structured_reflection_pad1d_backward>},
    {"reflection_pad2d", mirrorPad<2>},
    {"reflection_pad2d_backward", padBackward},
    {"reflection_pad3d", padAsLaidOut<at::meta::structured_reflection_pad3d>},
    {"reflection_pad3d_backward", structured<at::meta::structured_reflection_pad3d_backward>},
    {"replication_pad1d", structured<at::meta::structured_replication_pad1d>},
    {"replication_pad1d_backward", structured<at::meta::structured_replication_pad1d_backward>},
    {"replication_pad2d", padAsLaidOut<at::meta::structured_replication_pad2d>},
    {"replication_pad2d_backward", padBackward},
    {"replication_pad3d", padAsLaidOut<at::meta::structured_replication_pad3d>},
    {"replication_pad3d_backward", padBackward},
    {"pixel_shuffle", pixelShuffle},
    {"pixel_unshuffle", pixelUnshuffle},
    {"channel_shuffle", channelShuffle},
};

} // namespace

c10::ArrayRef<RuleEntry> arrangementRules() { return kRules; }

} // namespace sojourn::frontend::shapes
