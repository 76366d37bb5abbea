// SPDX-License-Identifier: Apache-2.0
// Gradients whose formulas in ATen read a value or a mask's size, written without either.
#include "frontend/recording/Autograd.h"

#include <ATen/WrapDimUtils.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/functorch/DynamicLayer.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/input_metadata.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/library.h>

namespace sojourn::frontend {

bool needsOps(const at::Tensor &tensor) {
  return at::functorch::maybeCurrentDynamicLayer().has_value() || tensor._fw_grad(/*level=*/0).defined();
}

void renewAccumulator(const at::Tensor &tensor) {
  namespace autograd = torch::autograd;
  const auto accumulator = autograd::impl::try_get_grad_accumulator(tensor);
  if (!accumulator) {
    return;
  }
  const autograd::InputMetadata &known = accumulator->input_metadata(0);
  if (!known.is_same_shape(tensor) || known.dtype() != tensor.dtype()) {
    autograd::impl::set_grad_accumulator(tensor,
                                         c10::weak_intrusive_ptr<autograd::Node>(c10::intrusive_ptr<autograd::Node>()));
  }
}

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// max, min, median, nanmedian of all elements: those equal to the result share its gradient.
class Selected : public torch::autograd::Function<Selected> {
public:
  using Op = at::Tensor (*)(const at::Tensor &);
  static at::Tensor forward(AutogradContext *context, const at::Tensor &self, Op op) {
    at::AutoDispatchBelowADInplaceOrView below;
    at::Tensor result = op(self);
    context->save_for_backward({self, result});
    return result;
  }
  static variable_list backward(AutogradContext *context, variable_list grads) {
    variable_list saved = context->get_saved_variables();
    const at::Tensor &self = saved[0], &result = saved[1];
    at::Tensor mask = self.eq(result).logical_or(self.isnan().logical_and(result.isnan()));
    return {at::where(mask, grads[0] / mask.sum(), 0), {}};
  }
};

at::Tensor amax(const at::Tensor &self) { return at::amax(self); }
at::Tensor amin(const at::Tensor &self) { return at::amin(self); }
at::Tensor medianOfFlat(const at::Tensor &self) { return std::get<0>(at::median(self.reshape(-1), 0)); }
at::Tensor nanmedianOfFlat(const at::Tensor &self) { return std::get<0>(at::nanmedian(self.reshape(-1), 0)); }

template <Selected::Op op, Selected::Op ofOps>
at::Tensor select(const at::Tensor &self) {
  return needsOps(self) && self.numel() > 0 ? ofOps(self) : Selected::apply(self, op);
}

/// The gradient of a product along `dim` (which `result` keeps): ATen's quotient where no factor is
/// zero; else the product of the factors before times that of those after.
at::Tensor productGradient(const at::Tensor &grad, const at::Tensor &x, const at::Tensor &result, int64_t dim) {
  int64_t size = x.size(dim);
  if (size == 0) {
    return at::zeros_like(x);
  }
  at::Tensor one = at::ones_like(x.narrow(dim, 0, 1));
  at::Tensor before = at::cat({one, x.narrow(dim, 0, size - 1)}, dim).cumprod(dim);
  at::Tensor after = at::cat({one, x.flip({dim}).narrow(dim, 0, size - 1)}, dim).cumprod(dim).flip({dim});
  at::Tensor zero = x.eq(0);
  return grad * at::where(zero.any(dim, /*keepdim=*/true), before * after, result / at::where(zero, 1, x)).conj();
}

/// prod over all elements, or along a dim.
class Product : public torch::autograd::Function<Product> {
public:
  static at::Tensor forward(AutogradContext *context, const at::Tensor &self, std::optional<int64_t> dim, bool keepdim,
                            std::optional<at::ScalarType> dtype) {
    at::AutoDispatchBelowADInplaceOrView below;
    at::Tensor result = dim ? at::prod(self, *dim, keepdim, dtype) : at::prod(self, dtype);
    context->save_for_backward({self, result});
    context->saved_data["dim"] = dim;
    context->saved_data["keepdim"] = keepdim;
    return result;
  }
  static variable_list backward(AutogradContext *context, variable_list grads) {
    variable_list saved = context->get_saved_variables();
    // In the result's type: `dtype` may be wider than the input's.
    at::Tensor grad = grads[0], result = saved[1], x = saved[0].to(grad.scalar_type());
    at::Tensor ofSelf = grad;
    if (x.dim() > 0 && context->saved_data["dim"].isNone()) {
      ofSelf = productGradient(grad, x.reshape(-1), result, 0).view(x.sizes());
    } else if (x.dim() > 0) {
      int64_t dim = context->saved_data["dim"].toInt();
      bool keepdim = context->saved_data["keepdim"].toBool();
      ofSelf = productGradient(keepdim ? grad : grad.unsqueeze(dim), x, keepdim ? result : result.unsqueeze(dim), dim);
    }
    return {ofSelf.to(saved[0].scalar_type()), {}, {}, {}};
  }
};

/// Products of halves, until one is left: ops alone, for modes that take no C++ Function.
at::Tensor productOfOps(const at::Tensor &self, int64_t dim, bool keepdim) {
  at::Tensor x = self;
  if (x.dim() == 0) {
    return x.clone();
  }
  if (x.size(dim) == 0) {
    return x.sum(dim, keepdim) + 1;
  }
  while (x.size(dim) > 1) {
    const int64_t half = x.size(dim) / 2;
    at::Tensor product = x.narrow(dim, 0, half) * x.narrow(dim, half, half);
    x = x.size(dim) % 2 == 0 ? product : at::cat({product, x.narrow(dim, 2 * half, 1)}, dim);
  }
  return keepdim ? x : x.squeeze(dim);
}

at::Tensor prod(const at::Tensor &self, std::optional<at::ScalarType> dtype) {
  if (needsOps(self)) {
    return productOfOps((dtype ? self.to(*dtype) : self).reshape(-1), 0, false);
  }
  return Product::apply(self, std::nullopt, false, dtype);
}

at::Tensor prodDim(const at::Tensor &self, int64_t dim, bool keepdim, std::optional<at::ScalarType> dtype) {
  if (needsOps(self)) {
    return productOfOps(dtype ? self.to(*dtype) : self, dim, keepdim);
  }
  return Product::apply(self, dim, keepdim, dtype);
}

/// Elements `distance` further along `dim`, with `fill` where there are none; of a negative distance those before.
at::Tensor moved(const at::Tensor &x, int64_t dim, int64_t distance, double fill) {
  const int64_t size = x.size(dim), count = std::abs(distance);
  at::Tensor kept = x.narrow(dim, distance > 0 ? count : 0, size - count);
  at::Tensor edge = at::full_like(x.narrow(dim, 0, count), fill);
  return distance > 0 ? at::cat({kept, edge}, dim) : at::cat({edge, kept}, dim);
}

/// Running products, twice as many factors in each round: ops alone.
at::Tensor runningProductOfOps(const at::Tensor &x, int64_t dim) {
  at::Tensor product = x.dim() == 0 ? x.clone() : x;
  for (int64_t count = 1; x.dim() > 0 && count < x.size(dim); count *= 2) {
    product = product * moved(product, dim, -count, 1);
  }
  return product;
}

/// The gradient by x[i] is what stands before x[i], multiplied, times the sum over k >= i of grad[k] x[i + 1] ... x[k]:
/// nothing is divided, so it differentiates again, wherever zeros are. In each round sums are of twice as many terms.
at::Tensor runningProductGradientOfOps(const at::Tensor &grad, const at::Tensor &x, int64_t dim) {
  at::Tensor before = at::cumprod(moved(x, dim, -1, 1), dim), factors = moved(x, dim, 1, 1), sums = grad;
  for (int64_t count = 1; count < x.size(dim); count *= 2) {
    sums = sums + factors * moved(sums, dim, count, 0);
    factors = factors * moved(factors, dim, count, 1);
  }
  return before * sums;
}

/// The same by ATen's quotient, in one pass. Behind the first zero nothing depends on a factor but on that zero, by the
/// products without it.
at::Tensor runningProductGradient(const at::Tensor &grad, const at::Tensor &x, const at::Tensor &result, int64_t dim) {
  auto sumBehind = [&](const at::Tensor &terms) { return terms.flip({dim}).cumsum(dim).flip({dim}); };
  at::Tensor isZero = x.eq(0), zeros = isZero.cumsum(dim);
  at::Tensor isFirst = isZero.logical_and(zeros.eq(1));
  at::Tensor without = at::where(isFirst, 1, x).cumprod(dim);
  // Masked before they are added up: behind a zero there may be infinities.
  at::Tensor before = sumBehind(at::where(zeros.eq(0), grad * result, 0));
  at::Tensor behind = sumBehind(at::where(zeros.eq(1), grad * without, 0));
  return at::where(zeros.eq(0), before / at::where(isZero, 1, x), at::where(isFirst, behind, 0));
}

class RunningProduct : public torch::autograd::Function<RunningProduct> {
public:
  static at::Tensor forward(AutogradContext *context, const at::Tensor &self, int64_t dim,
                            std::optional<at::ScalarType> dtype) {
    at::AutoDispatchBelowADInplaceOrView below;
    at::Tensor result = at::cumprod(self, dim, dtype);
    context->save_for_backward({self, result});
    context->saved_data["dim"] = at::maybe_wrap_dim(dim, self.dim());
    return result;
  }
  static variable_list backward(AutogradContext *context, variable_list grads) {
    variable_list saved = context->get_saved_variables();
    // In the type of what was given, as ATen's formula.
    at::Tensor x = saved[0].conj(), grad = grads[0].to(x.scalar_type()), ofSelf = grad;
    const int64_t dim = context->saved_data["dim"].toInt();
    if (x.dim() > 0 && x.numel() > 0) {
      ofSelf = at::GradMode::is_enabled() ? runningProductGradientOfOps(grad, x, dim)
                                          : runningProductGradient(grad, x, saved[1].to(x.scalar_type()).conj(), dim);
    }
    return {ofSelf, {}, {}};
  }
};

at::Tensor runningProduct(const at::Tensor &self, int64_t dim, std::optional<at::ScalarType> dtype) {
  if (needsOps(self)) {
    const bool counts = at::isIntegralType(self.scalar_type(), /*includeBool=*/true);
    at::Tensor x = dtype ? self.to(*dtype) : counts ? self.to(at::kLong) : self;
    return runningProductOfOps(x, at::maybe_wrap_dim(dim, self.dim()));
  }
  return RunningProduct::apply(self, dim, dtype);
}

at::Tensor &runningProductInPlace(at::Tensor &self, int64_t dim, std::optional<at::ScalarType> dtype) {
  TORCH_CHECK(!dtype || *dtype == self.scalar_type(), "Bad in-place call: input tensor dtype ", self.scalar_type(),
              " and output tensor dtype ", *dtype, " should match");
  return self.copy_(runningProduct(self.clone(), dim, self.scalar_type()));
}

/// masked_fill with a value that is itself a tensor: what it is made of differentiates in every mode.
at::Tensor maskedFill(const at::Tensor &self, const at::Tensor &mask, const at::Tensor &value) {
  TORCH_CHECK(value.dim() == 0, "masked_fill only supports a 0-dimensional value tensor, but got tensor with ",
              value.dim(), " dimension(s).");
  TORCH_CHECK(mask.scalar_type() == at::kBool, "masked_fill only supports boolean masks, but got mask with dtype ",
              mask.scalar_type());
  return at::where(mask, value.to(self.scalar_type()), self);
}

at::Tensor &maskedFillInPlace(at::Tensor &self, const at::Tensor &mask, const at::Tensor &value) {
  return self.copy_(maskedFill(self, mask, value));
}

/// index_fill with a value that is itself a tensor: ATen's gradient of it asks which indices are there twice.
at::Tensor indexFill(const at::Tensor &self, int64_t dim, const at::Tensor &index, const at::Tensor &value) {
  TORCH_CHECK(value.dim() == 0, "index_fill_ only supports a 0-dimensional value tensor, but got tensor with ",
              value.dim(), " dimension(s).");
  const int64_t wrapped = at::maybe_wrap_dim(dim, self.dim());
  at::Tensor mask;
  {
    at::AutoDispatchBelowADInplaceOrView below;
    mask = at::zeros(self.sizes(), self.options().dtype(at::kBool)).index_fill(wrapped, index, true);
  }
  return at::where(mask, value.to(self.scalar_type()), self);
}

at::Tensor &indexFillInPlace(at::Tensor &self, int64_t dim, const at::Tensor &index, const at::Tensor &value) {
  return self.copy_(indexFill(self, dim, index, value));
}

} // namespace

} // namespace sojourn::frontend

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, library) {
  using namespace sojourn::frontend;
  library.impl("max", select<at::max, amax>);
  library.impl("min", select<at::min, amin>);
  library.impl("median", select<at::median, medianOfFlat>);
  library.impl("nanmedian", select<at::nanmedian, nanmedianOfFlat>);
  library.impl("prod", prod);
  library.impl("prod.dim_int", prodDim);
  library.impl("cumprod", runningProduct);
  library.impl("cumprod_", runningProductInPlace);
  library.impl("index_fill.int_Tensor", indexFill);
  library.impl("index_fill_.int_Tensor", indexFillInPlace);
  library.impl("masked_fill.Tensor", maskedFill);
  library.impl("masked_fill_.Tensor", maskedFillInPlace);
}
