// SPDX-License-Identifier: Apache-2.0
// Elementwise steps on ATen: tensors prepared per worker and per block length, pointed at each block.
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
  struct Prepared {
    int64_t count;
    at::Tensor out, a, b;
  };

  /// `parts`: a complex number is computed as its two real ones.
  LibraryStep(StepFn fn, Element in, Element out, unsigned splats, int64_t block, int64_t numel, unsigned workers,
              bool parts)
      : fn_(fn) {
    if (parts) {
      in = out = in == Element::c64 ? Element::f32 : Element::f64;
    }
    int64_t tail = numel % block;
    for (unsigned worker = 0; worker < workers; ++worker) {
      for (int64_t count : {block, tail}) {
        llvm::SmallVector<int64_t, 2> line = {count}, splat;
        if (parts) {
          line.push_back(2);
          splat.push_back(2);
        }
        Prepared prepared;
        prepared.count = count;
        prepared.out = looseTensor(out, line);
        // A splat is rank 0 beside a line; operands are never all splats (runtime/Chain.cpp).
        prepared.a = (splats & 1) != 0 ? looseTensor(in, splat) : looseTensor(in, line);
        prepared.b = (splats & 2) != 0 ? looseTensor(in, splat) : looseTensor(in, line);
        prepared_.push_back(std::move(prepared));
      }
    }
  }

  void run(void *out, const void *a, const void *b, int64_t, int64_t n, unsigned worker) override {
    Prepared &prepared = prepared_[2 * worker + (prepared_[2 * worker].count == n ? 0 : 1)];
    point(prepared.out, out);
    point(prepared.a, const_cast<void *>(a));
    point(prepared.b, const_cast<void *>(b));
    fn_(prepared.out, prepared.a, prepared.b);
  }

private:
  StepFn fn_;
  std::vector<Prepared> prepared_;
};

} // namespace

std::shared_ptr<BlockStep> makeLibraryStep(EOp op, Element in, Element out, unsigned splats, int64_t block,
                                           int64_t numel, unsigned workers) {
  StepFn fn = stepOf(op);
  if (fn == nullptr) {
    return nullptr;
  }
  // ATen multiplies the second operand by 1 first, and 1 times an infinite complex number is NaN.
  bool parts = isComplex(in) && (op == EOp::add || op == EOp::sub);
  return std::make_shared<LibraryStep>(fn, in, out, splats, block, numel, workers, parts);
}

} // namespace sojourn::runtime
