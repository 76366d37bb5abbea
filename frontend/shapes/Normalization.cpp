// SPDX-License-Identifier: Apache-2.0
// Batch, layer, group and weight normalization with their backward ops.
#include "frontend/shapes/Rules.h"

namespace sojourn::frontend::shapes {

namespace {

void checkChannels(const Tensor &tensor, int64_t channels, const char *name) {
  TORCH_CHECK(!tensor.defined() || tensor.numel() == channels, name, " should contain ", channels, " elements not ",
              tensor.numel());
}

/// A tensor that is contiguous in some format keeps it, row-major first; others go by their strides.
at::MemoryFormat contiguousFormat(const Tensor &input) {
  for (at::MemoryFormat format :
       {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast3d, at::MemoryFormat::ChannelsLast}) {
    if (input.is_contiguous(format)) {
      return format;
    }
  }
  return input.suggest_memory_format();
}

/// batch_norm over (input, weight, bias, running_mean, running_var), training statistics or not.
void appendBatchNorm(const Tensor &input, const Tensor &weight, const Tensor &bias, const Tensor &mean,
                     const Tensor &variance, bool training, Outputs &out) {
  TORCH_CHECK(input.dim() >= 2, "Expected at least 2 dims, got ", input.dim());
  int64_t channels = input.sizes()[1];
  checkChannels(mean, channels, "running_mean");
  checkChannels(variance, channels, "running_var");
  checkChannels(weight, channels, "weight");
  checkChannels(bias, channels, "bias");
  TORCH_CHECK(training || (mean.defined() && variance.defined()), "running_mean and running_var must be defined in "
                                                                  "evaluation mode");
  append(out, input.sizes(), contiguousFormat(input));
  for (int i = 0; i < 2; ++i) {
    append(out, {training ? channels : 0});
  }
}

void batchNorm(const ShapeRule &, Arguments args, Outputs &out) {
  appendBatchNorm(tensorAt(args, 0), tensorAt(args, 1), tensorAt(args, 2), tensorAt(args, 3), tensorAt(args, 4),
                  args[5].toBool(), out);
}

void batchNormNoStats(const ShapeRule &, Arguments args, Outputs &out) {
  appendBatchNorm(tensorAt(args, 0), tensorAt(args, 1), tensorAt(args, 2), undefinedTensor(), undefinedTensor(),
                  args[3].toBool(), out);
}

void batchNormNoTraining(const ShapeRule &, Arguments args, Outputs &out) {
  appendBatchNorm(tensorAt(args, 0), tensorAt(args, 1), tensorAt(args, 2), tensorAt(args, 3), tensorAt(args, 4),
                  /*training=*/false, out);
}

void batchNormFunctional(const ShapeRule &op, Arguments args, Outputs &out) {
  batchNorm(op, args, out);
  for (size_t i = 3; i < 5; ++i) {
    appendLike(out, tensorAt(args, i));
  }
}

/// (input, weight, bias, running_mean, running_var, momentum, eps) -> (.., save_mean, save_invstd, reserve)
void batchNormWithUpdate(const ShapeRule &, Arguments args, Outputs &out) {
  appendBatchNorm(tensorAt(args, 0), tensorAt(args, 1), tensorAt(args, 2), tensorAt(args, 3), tensorAt(args, 4),
                  /*training=*/true, out);
  append(out, {0});
}

/// (grad_out, input, weight, running_mean, running_var, save_mean, save_invstd, train, eps, mask)
void batchNormBackward(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &grad = tensorAt(args, 0), &input = tensorAt(args, 1);
  at::MemoryFormat format = contiguousFormat(input);
  if (!grad.is_contiguous(format)) {
    format = input.suggest_memory_format();
  }
  if (maskAt(args, 9, 0)) {
    append(out, input.sizes(), format);
  } else {
    appendUndefined(out);
  }
  for (size_t bit = 1; bit < 3; ++bit) {
    if (maskAt(args, 9, bit)) {
      append(out, {input.sizes()[1]});
    } else {
      appendUndefined(out);
    }
  }
}

/// (input, normalized_shape, weight, bias, eps)
void layerNorm(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &input = tensorAt(args, 0), &weight = tensorAt(args, 2), &bias = tensorAt(args, 3);
  Dims normalized = dimsAt(args, 1);
  IntArrayRef shape(normalized);
  const int64_t rank = normalized.size();
  TORCH_CHECK(rank >= 1, "Expected normalized_shape to be at least 1-dimensional, i.e., ",
              "containing at least one element, but got normalized_shape = ", shape);
  TORCH_CHECK(!weight.defined() || weight.sizes() == shape,
              "Expected weight to be of same shape as normalized_shape, but got ", "weight of shape ", weight.sizes(),
              " and normalized_shape = ", shape);
  TORCH_CHECK(!bias.defined() || bias.sizes() == shape,
              "Expected bias to be of same shape as normalized_shape, but got ", "bias of shape ", bias.sizes(),
              " and normalized_shape = ", shape);
  if (input.dim() < rank || input.sizes().slice(input.dim() - rank) != shape) {
    std::ostringstream text;
    text << "Given normalized_shape=" << shape << ", expected input with shape [*";
    for (int64_t size : shape) {
      text << ", " << size;
    }
    text << "], but got input of size" << input.sizes();
    TORCH_CHECK(false, text.str());
  }
  append(out, input.sizes());
  Dims statistics(input.sizes().begin(), input.sizes().end());
  std::fill(statistics.end() - rank, statistics.end(), 1);
  append(out, statistics);
  append(out, statistics);
}

/// (grad_out, input, normalized_shape, mean, rstd, weight, bias, mask)
void layerNormBackward(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &input = tensorAt(args, 1);
  if (maskAt(args, 7, 0)) {
    append(out, input.sizes());
  } else {
    appendUndefined(out);
  }
  for (size_t bit = 1; bit < 3; ++bit) {
    const Tensor &parameter = tensorAt(args, 4 + bit);
    if (!maskAt(args, 7, bit)) {
      appendUndefined(out);
    } else if (parameter.defined()) {
      append(out, parameter.sizes());
    } else {
      append(out, dimsAt(args, 2));
    }
  }
}

/// Channels-last in, channels-last out; else contiguous.
at::MemoryFormat imageFormat(const Tensor &input) { return input.suggest_memory_format(); }

/// (input, weight, bias, N, C, HxW, group, eps)
void groupNorm(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &input = tensorAt(args, 0), &weight = tensorAt(args, 1), &bias = tensorAt(args, 2);
  int64_t batch = *intAt(args, 3), channels = *intAt(args, 4), groups = *intAt(args, 6);
  TORCH_CHECK(groups > 0, "Expected num groups to be greater than 0, got ", groups);
  TORCH_CHECK(channels % groups == 0, "Expected number of channels in input to be divisible by ",
              "num_groups, but got input of shape ", input.sizes(), " and ", "num_groups=", groups);
  TORCH_CHECK(!weight.defined() || (weight.dim() == 1 && weight.numel() == channels),
              "Expected weight to be a vector of size equal to the number of ",
              "channels in input, but got weight of shape ", weight.sizes(), " and input of shape ", input.sizes());
  TORCH_CHECK(!bias.defined() || (bias.dim() == 1 && bias.numel() == channels),
              "Expected bias to be a vector of size equal to the number of ",
              "channels in input, but got bias of shape ", bias.sizes(), " and input of shape ", input.sizes());
  append(out, input.sizes(), imageFormat(input));
  append(out, {batch, groups});
  append(out, {batch, groups});
}

/// (grad_out, input, mean, rstd, weight, N, C, HxW, group, mask)
void groupNormBackward(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &input = tensorAt(args, 1);
  if (maskAt(args, 9, 0)) {
    append(out, input.sizes(), imageFormat(input));
  } else {
    appendUndefined(out);
  }
  for (size_t bit = 1; bit < 3; ++bit) {
    if (maskAt(args, 9, bit)) {
      append(out, {*intAt(args, 6)});
    } else {
      appendUndefined(out);
    }
  }
}

/// _weight_norm_interface(v, g, dim) -> (w, norms)
void weightNorm(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &v = tensorAt(args, 0), &g = tensorAt(args, 1);
  append(out, v.sizes());
  append(out, g.sizes());
}

/// (grad_w, saved_v, saved_g, saved_norms, dim) -> (grad_v, grad_g)
void weightNormBackward(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &v = tensorAt(args, 1), &g = tensorAt(args, 2);
  append(out, v.sizes());
  append(out, g.sizes());
}

const RuleEntry kRules[] = {
    {"native_batch_norm", batchNorm},
    {"_native_batch_norm_legit", batchNorm},
    {"_native_batch_norm_legit.no_stats", batchNormNoStats},
    {"_native_batch_norm_legit_no_training", batchNormNoTraining},
    {"_native_batch_norm_legit_functional", batchNormFunctional},
    {"_batch_norm_with_update", batchNormWithUpdate},
    {"native_batch_norm_backward", batchNormBackward},
    {"batch_norm_backward", batchNormBackward},
    {"native_layer_norm", layerNorm},
    {"native_layer_norm_backward", layerNormBackward},
    {"native_group_norm", groupNorm},
    {"native_group_norm_backward", groupNormBackward},
    {"_weight_norm_interface", weightNorm},
    {"_weight_norm_interface_backward", weightNormBackward},
};

} // namespace

c10::ArrayRef<RuleEntry> normalizationRules() { return kRules; }

} // namespace sojourn::frontend::shapes
