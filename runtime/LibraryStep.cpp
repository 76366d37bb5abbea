// SPDX-License-Identifier: Apache-2.0
// Elementwise steps on ATen: a call per block, on the thread's own tensors.
#include "runtime/Chain.h"
#include "runtime/LibraryTensor.h"
#include <ATen/Functions.h>

namespace sojourn::runtime {

namespace {

using StepFn = void (*)(at::Tensor &out, const at::Tensor &a, const at::Tensor &b);

StepFn stepOf(EOp op) {
  switch (op) {
  case EOp::exp: return [](at::Tensor &out, const at::Tensor &a, const at::Tensor &) { at::exp_out(out, a); };
  case EOp::expm1: return [](at::Tensor &out, const at::Tensor &a, const at::Tensor &) { at::expm1_out(out, a); };
  case EOp::log: return [](at::Tensor &out, const at::Tensor &a, const at::Tensor &) { at::log_out(out, a); };
  case EOp::log1p: return [](at::Tensor &out, const at::Tensor &a, const at::Tensor &) { at::log1p_out(out, a); };
  case EOp::sin: return [](at::Tensor &out, const at::Tensor &a, const at::Tensor &) { at::sin_out(out, a); };
  case EOp::cos: return [](at::Tensor &out, const at::Tensor &a, const at::Tensor &) { at::cos_out(out, a); };
  case EOp::tanh: return [](at::Tensor &out, const at::Tensor &a, const at::Tensor &) { at::tanh_out(out, a); };
  case EOp::logistic: return [](at::Tensor &out, const at::Tensor &a, const at::Tensor &) { at::sigmoid_out(out, a); };
  case EOp::erf: return [](at::Tensor &out, const at::Tensor &a, const at::Tensor &) { at::erf_out(out, a); };
  case EOp::erfc: return [](at::Tensor &out, const at::Tensor &a, const at::Tensor &) { at::erfc_out(out, a); };
  case EOp::erfinv: return [](at::Tensor &out, const at::Tensor &a, const at::Tensor &) { at::erfinv_out(out, a); };
  case EOp::lgamma: return [](at::Tensor &out, const at::Tensor &a, const at::Tensor &) { at::lgamma_out(out, a); };
  case EOp::digamma: return [](at::Tensor &out, const at::Tensor &a, const at::Tensor &) { at::digamma_out(out, a); };
  case EOp::sqrt: return [](at::Tensor &out, const at::Tensor &a, const at::Tensor &) { at::sqrt_out(out, a); };
  case EOp::neg: return [](at::Tensor &out, const at::Tensor &a, const at::Tensor &) { at::neg_out(out, a); };
  case EOp::convert: return [](at::Tensor &out, const at::Tensor &a, const at::Tensor &) { out.copy_(a); };
  case EOp::pow: return [](at::Tensor &out, const at::Tensor &a, const at::Tensor &b) { at::pow_out(out, a, b); };
  case EOp::atan2: return [](at::Tensor &out, const at::Tensor &a, const at::Tensor &b) { at::atan2_out(out, a, b); };
  case EOp::add: return [](at::Tensor &out, const at::Tensor &a, const at::Tensor &b) { at::add_out(out, a, b); };
  case EOp::sub: return [](at::Tensor &out, const at::Tensor &a, const at::Tensor &b) { at::sub_out(out, a, b); };
  case EOp::mul: return [](at::Tensor &out, const at::Tensor &a, const at::Tensor &b) { at::mul_out(out, a, b); };
  case EOp::div: return [](at::Tensor &out, const at::Tensor &a, const at::Tensor &b) { at::div_out(out, a, b); };
  case EOp::eq: return [](at::Tensor &out, const at::Tensor &a, const at::Tensor &b) { at::eq_out(out, a, b); };
  case EOp::ne: return [](at::Tensor &out, const at::Tensor &a, const at::Tensor &b) { at::ne_out(out, a, b); };
  default: return nullptr;
  }
}

class LibraryStep final : public BlockStep {
public:
  /// `parts`: a complex number is computed as its two real ones.
  LibraryStep(StepFn fn, Element in, Element out, unsigned splats, bool parts)
      : fn_(fn), in_(in), out_(out), splats_(splats), parts_(parts) {
    if (parts) {
      in_ = out_ = in == Element::c64 ? Element::f32 : Element::f64;
    }
  }

  void run(void *out, const void *a, const void *b, int64_t, int64_t n, unsigned) const override {
    const at::Tensor &first = operand(Role::first, a, n, (splats_ & 1) != 0);
    const at::Tensor &second = operand(Role::second, b, n, (splats_ & 2) != 0);
    at::Tensor &result = tensorOver(Role::out, out_, out, line(n), lineStrides());
    fn_(result, first, second);
  }

private:
  llvm::SmallVector<int64_t, 2> line(int64_t n) const {
    return parts_ ? llvm::SmallVector<int64_t, 2>{n, 2} : llvm::SmallVector<int64_t, 2>{n};
  }
  llvm::ArrayRef<int64_t> lineStrides() const {
    static constexpr int64_t strides[2] = {2, 1};
    return parts_ ? llvm::ArrayRef<int64_t>(strides) : llvm::ArrayRef<int64_t>(strides + 1, 1);
  }
  /// A splat is rank 0 beside a line; operands are never all splats (runtime/Chain.cpp).
  const at::Tensor &operand(Role role, const void *data, int64_t n, bool splat) const {
    static constexpr int64_t two = 2, one = 1;
    if (splat) {
      return parts_ ? tensorOver(role, in_, data, two, one) : tensorOver(role, in_, data, {}, {});
    }
    return tensorOver(role, in_, data, line(n), lineStrides());
  }

  StepFn fn_;
  Element in_, out_;
  unsigned splats_;
  bool parts_;
};

} // namespace

std::shared_ptr<BlockStep> makeLibraryStep(EOp op, Element in, Element out, unsigned splats) {
  StepFn fn = stepOf(op);
  if (fn == nullptr) {
    return nullptr;
  }
  // ATen multiplies the second operand by 1 first, and 1 times an infinite complex number is NaN.
  bool parts = isComplex(in) && (op == EOp::add || op == EOp::sub);
  return std::make_shared<LibraryStep>(fn, in, out, splats, parts);
}

} // namespace sojourn::runtime
