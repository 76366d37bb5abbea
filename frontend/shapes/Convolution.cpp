// SPDX-License-Identifier: Apache-2.0
// Convolutions of any rank, forward and backward, and their im2col forms.
#include "frontend/shapes/Rules.h"

#include <sstream>

namespace sojourn::frontend::shapes {

namespace {

/// Channels-last as soon as input or weight suggests it, as eager's backends choose.
at::MemoryFormat layoutOf(const Tensor &input, const Tensor &weight) {
  at::MemoryFormat left = input.suggest_memory_format(), right = weight.suggest_memory_format();
  for (at::MemoryFormat format : {at::MemoryFormat::ChannelsLast, at::MemoryFormat::ChannelsLast3d}) {
    if (left == format || right == format) {
      return format;
    }
  }
  return at::MemoryFormat::Contiguous;
}

/// A spatial list of one element counts for every dimension.
Dims spatial(Arguments args, size_t position, size_t count, const char *name) {
  Dims dims = dimsAt(args, position);
  if (dims.size() == 1) {
    int64_t value = dims[0];
    dims.assign(count, value);
  }
  TORCH_CHECK(dims.size() == count, "expected ", name, " to be a single integer value or a list of ", count,
              " values to match the convolution dimensions, but got ", name, "=", IntArrayRef(dims));
  return dims;
}

struct Parameters {
  Dims stride, padding, dilation, outputPadding;
  bool transposed = false;
  int64_t groups = 1;
};

std::string joined(const Dims &dims) {
  std::ostringstream text;
  for (size_t i = 0; i < dims.size(); ++i) {
    text << (i ? " x " : "") << dims[i];
  }
  return text.str();
}

void checkForward(const Tensor &input, const Tensor &weight, const Tensor &bias, const Parameters &p) {
  auto any = [](const Dims &dims, auto test) { return std::any_of(dims.begin(), dims.end(), test); };
  TORCH_CHECK(!any(p.padding, [](int64_t v) { return v < 0; }), "negative padding is not supported");
  TORCH_CHECK(!any(p.outputPadding, [](int64_t v) { return v < 0; }), "negative output_padding is not supported");
  TORCH_CHECK(!any(p.stride, [](int64_t v) { return v <= 0; }), "non-positive stride is not supported");
  TORCH_CHECK(!any(p.dilation, [](int64_t v) { return v <= 0; }), "dilation should be greater than zero");
  IntArrayRef w = weight.sizes();
  TORCH_CHECK(weight.dim() == input.dim(), "Expected ", weight.dim(), "-dimensional input for ", weight.dim(),
              "-dimensional weight ", w, ", but got ", input.dim(), "-dimensional input of size ", input.sizes(),
              " instead");
  TORCH_CHECK(w[0] >= p.groups, "Given groups=", p.groups, ", expected weight to be at least ", p.groups,
              " at dimension 0, but got weight of size ", w, " instead");
  TORCH_CHECK(w[0] % p.groups == 0, "Given groups=", p.groups, ", expected weight to be divisible by ", p.groups,
              " at dimension 0, but got weight of size [", w, "] instead");
  if (p.transposed) {
    TORCH_CHECK(input.sizes()[1] == w[0], "Given transposed=", p.transposed, ", weight of size ", w, ", expected input",
                input.sizes(), " to have ", w[0], " channels, but got ", input.sizes()[1], " channels instead");
    TORCH_CHECK(!bias.defined() || (bias.dim() == 1 && bias.sizes()[0] == w[1] * p.groups),
                "Given transposed=", p.transposed, ", weight of size ", w, ", expected bias to be 1-dimensional with ",
                w[1] * p.groups, " elements", ", but got bias of size ", bias.sizes(), " instead");
    return;
  }
  TORCH_CHECK(input.sizes()[1] == w[1] * p.groups, "Given groups=", p.groups, ", weight of size ", w,
              ", expected input", input.sizes(), " to have ", w[1] * p.groups, " channels, but got ", input.sizes()[1],
              " channels instead");
  TORCH_CHECK(!bias.defined() || (bias.dim() == 1 && bias.sizes()[0] == w[0]), "Given weight of size ", w,
              ", expected bias to be 1-dimensional with ", w[0], " elements", ", but got bias of size ", bias.sizes(),
              " instead");
  Dims padded, kernel;
  bool fits = true;
  for (int64_t dim = 2; dim < input.dim(); ++dim) {
    padded.push_back(input.sizes()[dim] + 2 * p.padding[dim - 2]);
    kernel.push_back(p.dilation[dim - 2] * (w[dim] - 1) + 1);
    fits = fits && padded.back() >= kernel.back();
  }
  TORCH_CHECK(fits, "Calculated padded input size per channel: (", joined(padded), "). ", "Kernel size: (",
              joined(kernel), "). Kernel size can't be greater than actual input size");
}

void convolution(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &input = tensorAt(args, 0), &weight = tensorAt(args, 1), &bias = tensorAt(args, 2);
  const size_t count = std::max<int64_t>(weight.dim() - 2, 0);
  TORCH_CHECK(count > 0, "weight should have at least three dimensions");
  Parameters p;
  p.stride = spatial(args, 3, count, "stride");
  p.padding = spatial(args, 4, count, "padding");
  p.dilation = spatial(args, 5, count, "dilation");
  p.transposed = args[6].toBool();
  p.outputPadding = spatial(args, 7, count, "output_padding");
  p.groups = *intAt(args, 8);
  TORCH_CHECK(p.groups > 0, "non-positive groups is not supported");
  checkForward(input, weight, bias, p);
  TORCH_CHECK(input.scalar_type() == weight.scalar_type(), "Input type (", input.toString(), ") and weight type (",
              weight.toString(), ") should be the same");
  TORCH_CHECK(!bias.defined() || input.scalar_type() == bias.scalar_type(), "Input type (", input.toString(),
              ") and bias type (", bias.toString(), ") should be the same");
  Dims sizes{input.sizes()[0], p.transposed ? weight.sizes()[1] * p.groups : weight.sizes()[0]};
  for (size_t i = 0; i < count; ++i) {
    int64_t kernel = p.dilation[i] * (weight.sizes()[i + 2] - 1) + 1;
    int64_t size = input.sizes()[i + 2];
    sizes.push_back(p.transposed ? (size - 1) * p.stride[i] - 2 * p.padding[i] + kernel + p.outputPadding[i]
                                 : (size + 2 * p.padding[i] - kernel) / p.stride[i] + 1);
  }
  append(out, sizes, layoutOf(input, weight));
}

/// (grad_output, input, weight, bias_sizes?, ..., output_mask at 10)
void convolutionBackward(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &grad = tensorAt(args, 0), &input = tensorAt(args, 1), &weight = tensorAt(args, 2);
  const size_t mask = args.size() > 10 && args[10].isList() ? 10 : 9;
  at::MemoryFormat format = layoutOf(input, weight);
  if (maskAt(args, mask, 0)) {
    append(out, input.sizes(), format);
  } else {
    appendUndefined(out);
  }
  if (maskAt(args, mask, 1)) {
    append(out, weight.sizes(), format);
  } else {
    appendUndefined(out);
  }
  if (maskAt(args, mask, 2)) {
    append(out, {grad.sizes()[1]});
  } else {
    appendUndefined(out);
  }
}

int64_t slidingBlocks(int64_t size, int64_t kernel, int64_t dilation, int64_t padding, int64_t stride) {
  return (size + 2 * padding - (dilation * (kernel - 1) + 1)) / stride + 1;
}

/// im2col(self, kernel, dilation, padding, stride): [N, C * prod(kernel), blocks]
void im2col(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0);
  Dims kernel = dimsAt(args, 1), dilation = dimsAt(args, 2), padding = dimsAt(args, 3), stride = dimsAt(args, 4);
  TORCH_CHECK(
      self.dim() == 3 || self.dim() == 4,
      "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, "
      "but got: ",
      self.sizes());
  const int64_t lead = self.dim() - 3;
  int64_t blocks = 1;
  Dims counts;
  for (size_t i = 0; i < 2; ++i) {
    counts.push_back(slidingBlocks(self.sizes()[lead + 1 + i], kernel[i], dilation[i], padding[i], stride[i]));
    blocks *= counts.back();
  }
  TORCH_CHECK(counts[0] >= 1 && counts[1] >= 1, "Given input with spatial size (", self.sizes()[lead + 1], ", ",
              self.sizes()[lead + 2], "), kernel_size=(", kernel[0], ", ", kernel[1], "), dilation=(", dilation[0],
              ", ", dilation[1], "), padding=(", padding[0], ", ", padding[1],
              "), calculated shape of the array of sliding blocks as (", counts[0], ", ", counts[1],
              "), but its components must be at least one.");
  Dims sizes{self.sizes()[lead] * kernel[0] * kernel[1], blocks};
  if (lead) {
    sizes.insert(sizes.begin(), self.sizes()[0]);
  }
  append(out, sizes);
}

/// col2im(self, output_size, kernel, dilation, padding, stride)
void col2im(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0);
  Dims target = dimsAt(args, 1), kernel = dimsAt(args, 2), dilation = dimsAt(args, 3), padding = dimsAt(args, 4),
       stride = dimsAt(args, 5);
  TORCH_CHECK(self.dim() == 2 || self.dim() == 3,
              "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions for "
              "input, but got: ",
              self.sizes());
  const int64_t lead = self.dim() - 2;
  const int64_t window = kernel[0] * kernel[1], columns = self.sizes()[lead];
  TORCH_CHECK(
      columns % window == 0,
      "Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got input.size(1)=",
      columns, " and kernel_size=(", kernel[0], ", ", kernel[1], ").");
  int64_t blocks = 1;
  for (size_t i = 0; i < 2; ++i) {
    blocks *= slidingBlocks(target[i], kernel[i], dilation[i], padding[i], stride[i]);
  }
  TORCH_CHECK(self.sizes()[lead + 1] == blocks, "Given output_size=(", target[0], ", ", target[1], "), kernel_size=(",
              kernel[0], ", ", kernel[1], "), dilation=(", dilation[0], ", ", dilation[1], "), padding=(", padding[0],
              ", ", padding[1], "), stride=(", stride[0], ", ", stride[1],
              "), expected size of input's dimension 2 to match the "
              "calculated number of sliding blocks ",
              blocks, ", but got input.size(2)=", self.sizes()[lead + 1], ".");
  Dims sizes{columns / window, target[0], target[1]};
  if (lead) {
    sizes.insert(sizes.begin(), self.sizes()[0]);
  }
  append(out, sizes);
}

const RuleEntry kRules[] = {
    {"convolution", convolution},
    {"convolution_overrideable", convolution},
    {"convolution_backward", convolutionBackward},
    {"convolution_backward_overrideable", convolutionBackward},
    {"im2col", im2col},
    {"col2im", col2im},
};

} // namespace

c10::ArrayRef<RuleEntry> convolutionRules() { return kRules; }

} // namespace sojourn::frontend::shapes
