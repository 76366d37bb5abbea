// SPDX-License-Identifier: Apache-2.0
// Gradients whose formulas in ATen read a value or a mask's size, written without either.
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

namespace sojourn::frontend {

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

template <at::Tensor (*op)(const at::Tensor &)>
at::Tensor select(const at::Tensor &self) {
  return Selected::apply(self, op);
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
  at::Tensor anyZero = x.eq(0).any(dim, /*keepdim=*/true);
  return at::where(anyZero, grad * (before * after), grad * result / x);
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
    at::Tensor self = saved[0], result = saved[1].to(self.scalar_type()), grad = grads[0].to(self.scalar_type());
    if (self.dim() == 0) {
      return {grad, {}, {}, {}};
    }
    if (context->saved_data["dim"].isNone()) {
      return {productGradient(grad, self.reshape(-1), result, 0).view(self.sizes()), {}, {}, {}};
    }
    int64_t dim = context->saved_data["dim"].toInt();
    if (!context->saved_data["keepdim"].toBool()) {
      grad = grad.unsqueeze(dim);
      result = result.unsqueeze(dim);
    }
    return {productGradient(grad, self, result, dim), {}, {}, {}};
  }
};

at::Tensor prod(const at::Tensor &self, std::optional<at::ScalarType> dtype) {
  return Product::apply(self, std::nullopt, false, dtype);
}

at::Tensor prodDim(const at::Tensor &self, int64_t dim, bool keepdim, std::optional<at::ScalarType> dtype) {
  return Product::apply(self, dim, keepdim, dtype);
}

/// masked_fill with a value that is itself a tensor.
class MaskedFill : public torch::autograd::Function<MaskedFill> {
public:
  static at::Tensor forward(AutogradContext *context, const at::Tensor &self, const at::Tensor &mask,
                            const at::Tensor &value) {
    at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({mask});
    context->saved_data["shape"] = self.sizes();
    context->saved_data["dtype"] = value.scalar_type();
    return self.masked_fill(mask, value);
  }
  static variable_list backward(AutogradContext *context, variable_list grads) {
    at::Tensor mask = context->get_saved_variables()[0];
    const at::Tensor &grad = grads[0];
    at::Tensor ofSelf = grad.masked_fill(mask, 0).sum_to_size(context->saved_data["shape"].toIntVector());
    at::Tensor ofValue;
    if (context->needs_input_grad(2)) {
      ofValue = at::where(mask, grad, 0).sum().to(context->saved_data["dtype"].toScalarType());
    }
    return {ofSelf, {}, ofValue};
  }
};

at::Tensor maskedFill(const at::Tensor &self, const at::Tensor &mask, const at::Tensor &value) {
  return MaskedFill::apply(self, mask, value);
}

} // namespace

} // namespace sojourn::frontend

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, library) {
  using namespace sojourn::frontend;
  library.impl("max", select<at::max>);
  library.impl("min", select<at::min>);
  library.impl("median", select<at::median>);
  library.impl("nanmedian", select<at::nanmedian>);
  library.impl("prod", prod);
  library.impl("prod.dim_int", prodDim);
  library.impl("masked_fill.Tensor", maskedFill);
}
