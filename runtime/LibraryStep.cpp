// SPDX-License-Identifier: Apache-2.0
// Elementwise steps on ATen: a call per block, on the thread's own tensors.
#include "runtime/Chain.h"
#include "runtime/LibraryTensor.h"
#include <ATen/Functions.h>
#include <cstddef>

namespace sojourn::runtime {

namespace {

using StepFn = void (*)(at::Tensor &out, const at::Tensor &a, const at::Tensor &b);

template <unsigned arity, typename Call>
StepFn stepOf(Call) {
  return [](at::Tensor &out, const at::Tensor &a, const at::Tensor &b) {
    if constexpr (arity == 1) {
      Call()(out, a);
    } else {
      Call()(out, a, b);
    }
  };
}
/// One that computes a line itself. A class: a lambda would turn into a bare function.
struct Line {
  StepFn step;
};
template <unsigned arity>
StepFn stepOf(Line line) {
  return line.step;
}
template <unsigned arity>
StepFn stepOf(std::nullptr_t) {
  return nullptr;
}

#define SOJOURN_CALL(stem) [](at::Tensor &out, const auto &...operands) { at::stem##_out(out, operands...); }
#define SOJOURN_LINE(name)                                                                                             \
  Line { special::name }
#define SOJOURN_COPY [](at::Tensor &out, const at::Tensor &a) { out.copy_(a); }

StepFn stepOf(EOp op) {
  static const StepFn steps[] = {
#define SOJOURN_ELEMENTWISE(name, op, arity, kernel, library, libm) stepOf<arity>(library),
#include "runtime/Elementwise.def"
  };
  return steps[static_cast<unsigned>(op)];
}

#undef SOJOURN_CALL
#undef SOJOURN_LINE
#undef SOJOURN_COPY

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
