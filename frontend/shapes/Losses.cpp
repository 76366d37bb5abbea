// SPDX-License-Identifier: Apache-2.0
// Loss functions: elementwise results (reduction none) or rank 0.
#include "frontend/shapes/Iterator.h"
#include "frontend/shapes/Structured.h"

#include <ATen/ExpandUtils.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/nll_loss_backward_meta.h>
#include <ATen/ops/nll_loss_forward_meta.h>

namespace sojourn::frontend::shapes {

namespace {

void requireFloats(const char *kernel, ScalarType type) {
  if (!c10::isFloatingType(type)) {
    failDtype(kernel, type);
  }
}

/// A result that is allocated as another type than what is computed.
void requireCast(ScalarType computed, ScalarType to) {
  TORCH_CHECK(c10::canCast(computed, to), "result type ", computed, " can't be cast to the desired output type ", to);
}

/// What eager's iterators demand that promote nothing.
void requireSameTypes(const Tensor &self, const Tensor &target) {
  TORCH_CHECK(self.scalar_type() == target.scalar_type(), "Found dtype ", target.scalar_type(), " but expected ",
              self.scalar_type());
}

/// loss(self, target, reduction at `Reduction`, ...)
template <size_t Reduction>
void pointwiseLoss(const ShapeRule &op, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0), &target = tensorAt(args, 1);
  const std::string_view base = baseName(op);
  const ScalarType computed = op.computed(args);
  if (base == "soft_margin_loss") {
    TORCH_CHECK(
        self.scalar_type() != at::kBool,
        "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use "
        "the `~` or `logical_not()` operator instead.");
    requireCast(c10::isFloatingType(computed) ? computed : at::kFloat, self.scalar_type());
  } else {
    requireFloats(base == "mse_loss" ? "mse_cpu" : base == "huber_loss" ? "huber_cpu" : "smooth_l1_cpu", computed);
  }
  if (base == "huber_loss") {
    requireCast(computed, self.scalar_type());
  }
  OutputMeta &meta = appendIterated(out, {&self, &target});
  if (args[Reduction].toInt() != at::Reduction::None) {
    meta.sizes.clear();
    meta.strides.clear();
  }
}

void huberLoss(const ShapeRule &op, Arguments args, Outputs &out) {
  TORCH_CHECK(args[3].toDouble() > 0, "huber_loss does not support non-positive values for delta.");
  pointwiseLoss<2>(op, args, out);
  // The loss is allocated like self.
  if (IntArrayRef(out.back().sizes) == tensorAt(args, 0).sizes()) {
    out.back().strides = preservedStrides(tensorAt(args, 0));
  }
}

/// (grad_output, self, target, ...): zeros like self.
void contiguousGradient(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 1);
  append(out, self.sizes());
}
/// huber_loss_backward(grad_output, self, target, ...)
void huberGradient(const ShapeRule &op, Arguments args, Outputs &out) {
  requireSameTypes(tensorAt(args, 1), tensorAt(args, 2));
  contiguousGradient(op, args, out);
}
/// soft_margin_loss_backward(grad_output, self, target, ...)
void softMarginGradient(const ShapeRule &, Arguments args, Outputs &out) {
  TORCH_CHECK(tensorAt(args, 2).scalar_type() != at::kBool,
              "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use "
              "the `~` or `logical_not()` operator instead.");
  appendLike(out, tensorAt(args, 1));
}
/// binary_cross_entropy_backward(grad_output, self, target, ...)
void preservedGradient(const ShapeRule &, Arguments args, Outputs &out) {
  requireSameTypes(tensorAt(args, 1), tensorAt(args, 2));
  const Tensor &self = tensorAt(args, 1);
  appendLike(out, self);
}

/// binary_cross_entropy(self, target, weight, reduction)
void binaryCrossEntropy(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0);
  requireSameTypes(self, tensorAt(args, 1));
  requireFloats("binary_cross_entropy", self.scalar_type());
  if (args[3].toInt() == at::Reduction::None) {
    appendLike(out, self);
  } else {
    append(out, {});
  }
}

/// binary_cross_entropy_with_logits(self, target, weight, pos_weight, reduction)
void binaryCrossEntropyWithLogits(const ShapeRule &, Arguments args, Outputs &out) {
  // Computed in place of 1 - target.
  const Tensor &self = tensorAt(args, 0), &target = tensorAt(args, 1);
  requireFloats("log_sigmoid_cpu", self.scalar_type());
  TORCH_CHECK(target.scalar_type() != at::kBool,
              "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` "
              "operator instead.");
  requireCast(self.scalar_type(), target.scalar_type());
  OutputMeta &meta = appendIterated(out, {&target});
  if (self.sizes() != target.sizes()) {
    at::DimVector merged = at::infer_size_dimvector(self.sizes(), target.sizes());
    TORCH_CHECK(IntArrayRef(merged) == target.sizes(), "output with shape ", target.sizes(),
                " doesn't match the broadcast shape ", IntArrayRef(merged));
  }
  if (args[4].toInt() != at::Reduction::None) {
    meta.sizes.clear();
    meta.strides.clear();
  }
}

void checkTarget(const Tensor &target) {
  TORCH_CHECK(target.scalar_type() == at::kLong || target.scalar_type() == at::kByte,
              "expected scalar type Long but found ", target.scalar_type());
}

void checkWeight(const Tensor &self, const Tensor &weight) {
  TORCH_CHECK(!weight.defined() || weight.scalar_type() == self.scalar_type(), "expected scalar type ",
              self.scalar_type(), " but found ", weight.scalar_type());
}

void nllLoss(const ShapeRule &op, Arguments args, Outputs &out) {
  structured<at::meta::structured_nll_loss_forward>(op, args, out);
  checkTarget(tensorAt(args, 1));
  checkWeight(tensorAt(args, 0), tensorAt(args, 2));
}

void checkImageTarget(const Tensor &self, const Tensor &target, const Tensor &weight) {
  checkTarget(target);
  TORCH_CHECK(target.dim() == 3, "only batches of spatial targets supported (3D tensors)",
              " but got targets of size: : ", target.sizes());
  TORCH_CHECK(self.dim() == 4, "only batches of spatial inputs supported (4D tensors), ",
              "but got input of size: ", self.sizes());
  TORCH_CHECK(!weight.defined() || weight.numel() == self.size(1),
              "weight tensor should be defined either for all or no classes");
  TORCH_CHECK(self.size(0) == target.size(0) && self.size(2) == target.size(1) && self.size(3) == target.size(2),
              "size mismatch (got input: ", self.sizes(), " , target: ", target.sizes());
}

/// (self [N, C, H, W], target [N, H, W], weight, reduction, ignore_index) -> (loss, total_weight)
void nllLoss2d(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0), &target = tensorAt(args, 1);
  checkImageTarget(self, target, tensorAt(args, 2));
  if (args[3].toInt() == at::Reduction::None) {
    append(out, {self.size(0), self.size(2), self.size(3)});
  } else {
    append(out, {});
  }
  append(out, {});
}

void nllLoss2dBackward(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 1);
  checkImageTarget(self, tensorAt(args, 2), tensorAt(args, 3));
  appendLike(out, self);
}

/// multi_margin_loss(self, target, p, margin, weight, reduction)
void multiMarginLoss(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0), &target = tensorAt(args, 1), &weight = tensorAt(args, 4);
  TORCH_CHECK(target.scalar_type() == at::kLong, "expected scalar type Long but found ",
              c10::toString(target.scalar_type()));
  const double power = args[2].toScalar().toDouble();
  TORCH_CHECK(power == 1 || power == 2, "only p == 1 and p == 2 supported, found ", power);
  const int64_t classes = self.dim() == 0 ? 1 : self.size(-1), rows = self.dim() <= 1 ? 1 : self.size(0);
  TORCH_CHECK(self.dim() <= 2 && classes != 0,
              "Expected non-empty vector or matrix with optional 0-dim batch size, but got: ", self.sizes());
  TORCH_CHECK(target.dim() <= 1 && target.numel() == rows,
              "multi_margin_loss: target tensor should be 1-D with size equal to the number of input samples (batch "
              "size). Expected target size [",
              rows, "], but got ", target.sizes(), ". Input has shape ", self.sizes());
  TORCH_CHECK(!weight.defined() || (weight.dim() <= 1 && weight.numel() == classes),
              "inconsistent weight size, expected ", classes, " but got ", weight.sizes());
  checkWeight(self, weight);
  if (args[5].toInt() == at::Reduction::None && target.dim() > 0) {
    append(out, {self.dim() <= 1 ? 1 : self.size(0)});
  } else {
    append(out, {});
  }
}

/// multilabel_margin_loss_forward(self, target, reduction) -> (loss, is_target)
void multilabelMarginLoss(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0), &target = tensorAt(args, 1);
  TORCH_CHECK(target.scalar_type() == at::kLong, "expected scalar type Long but found ", target.scalar_type());
  TORCH_CHECK(self.dim() <= 2 && (self.dim() == 0 || self.sizes().back() != 0),
              "Expected non-empty vector or matrix with optional 0-dim batch size, but got: ", self.sizes());
  TORCH_CHECK(self.dim() == 2 ? target.sizes() == self.sizes() : target.dim() <= 1 && target.numel() == self.numel(),
              "inconsistent target size: ", target.sizes(), " for input of size: ", self.sizes());
  if (args[2].toInt() == at::Reduction::None && target.dim() > 1) {
    append(out, {self.size(0)});
  } else {
    append(out, {});
  }
  append(out, target.sizes());
}

/// _ctc_loss(log_probs [T, N, C], targets, input_lengths, target_lengths, blank, zero_infinity) -> (loss [N],
/// log_alpha)
void ctcLoss(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &probs = tensorAt(args, 0), &targets = tensorAt(args, 1);
  TORCH_CHECK_NOT_IMPLEMENTED(args[2].isIntList(), "ctc_loss with lengths at the owner is not supported: their values "
                                                   "determine the program; pass lists, or tensors on the CPU");
  const Dims inputs = dimsAt(args, 2), lengths = dimsAt(args, 3);
  TORCH_CHECK(probs.dim() == 3, "ctc_loss: expected log_probs of 3 dims, got ", probs.sizes());
  TORCH_CHECK(probs.scalar_type() == c10::kFloat || probs.scalar_type() == c10::kDouble,
              "\"ctc_loss_cpu\" not implemented for '", probs.scalar_type(), "'");
  TORCH_CHECK(targets.scalar_type() == c10::kLong || targets.scalar_type() == c10::kInt,
              "targets must be long or int, got ", targets.scalar_type());
  const int64_t steps = probs.size(0), count = probs.size(1), classes = probs.size(2), blank = *intAt(args, 4);
  TORCH_CHECK(blank >= 0 && blank < classes, "blank must be in label range");
  TORCH_CHECK(static_cast<int64_t>(inputs.size()) == count, "input_lengths must be of size batch_size");
  TORCH_CHECK(static_cast<int64_t>(lengths.size()) == count, "target_lengths must be of size batch_size");
  int64_t longest = 0, all = 0;
  for (size_t b = 0; b < lengths.size(); ++b) {
    TORCH_CHECK(lengths[b] >= 0, "Expected target_lengths to have value at least 0, but got value ", lengths[b],
                " (while checking arguments for ctc_loss_cpu)");
    TORCH_CHECK(inputs[b] >= 0, "Expected input_lengths to have value at least 0, but got value ", inputs[b],
                " (while checking arguments for ctc_loss_cpu)");
    TORCH_CHECK(inputs[b] <= steps, "Expected input_lengths to have value at most ", steps, ", but got value ",
                inputs[b], " (while checking arguments for ctc_loss_cpu)");
    longest = std::max(longest, lengths[b]);
    all += lengths[b];
  }
  if (targets.dim() == 1) {
    TORCH_CHECK(targets.size(0) == all, "Expected tensor to have size ", all, " at dimension 0, but got size ",
                targets.size(0), " for argument #2 'targets' (while checking arguments for ctc_loss_cpu)");
  } else {
    TORCH_CHECK(targets.dim() == 2 && targets.size(0) == count, "Expected tensor to have size ", count,
                " at dimension 0, but got ", targets.sizes(), " for argument #2 'targets'");
    TORCH_CHECK(targets.size(1) >= longest, "Expected tensor to have size at least ", longest,
                " at dimension 1, but got size ", targets.size(1),
                " for argument #2 'targets' (while checking arguments for ctc_loss_cpu)");
  }
  append(out, {count});
  append(out, {count, steps, 2 * longest + 1});
}

const RuleEntry kRules[] = {
    {"_ctc_loss", ctcLoss},
    {"_ctc_loss_backward", contiguousGradient},
    {"mse_loss", pointwiseLoss<2>},
    {"mse_loss_backward", contiguousGradient},
    {"smooth_l1_loss", pointwiseLoss<2>},
    {"smooth_l1_loss_backward", contiguousGradient},
    {"huber_loss", huberLoss},
    {"huber_loss_backward", huberGradient},
    {"soft_margin_loss", pointwiseLoss<2>},
    {"soft_margin_loss_backward", softMarginGradient},
    {"binary_cross_entropy", binaryCrossEntropy},
    {"binary_cross_entropy_backward", preservedGradient},
    {"binary_cross_entropy_with_logits", binaryCrossEntropyWithLogits},
    {"nll_loss_forward", nllLoss},
    {"nll_loss_backward", structured<at::meta::structured_nll_loss_backward>},
    {"nll_loss2d_forward", nllLoss2d},
    {"nll_loss2d_backward", nllLoss2dBackward},
    {"multi_margin_loss", multiMarginLoss},
    {"multi_margin_loss_backward", contiguousGradient},
    {"multilabel_margin_loss_forward", multilabelMarginLoss},
    {"multilabel_margin_loss_backward", contiguousGradient},
};

} // namespace

c10::ArrayRef<RuleEntry> lossRules() { return kRules; }

} // namespace sojourn::frontend::shapes
