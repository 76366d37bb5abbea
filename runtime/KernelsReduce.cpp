// SPDX-License-Identifier: Apache-2.0
// Reductions: float sums and extremes on ATen, everything else in one plain loop.
#include "runtime/Elements.h"
#include "runtime/LibraryTensor.h"
#include <ATen/ops/amax.h>
#include <ATen/ops/amax_cpu_dispatch.h>
#include <ATen/ops/amin.h>
#include <ATen/ops/amin_cpu_dispatch.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/sum_cpu_dispatch.h>

namespace sojourn::runtime {

namespace {

enum class Reduction { sum, product, largest, smallest };

/// acc(result) = op(acc, x) over all elements in row-major order; result strides are 0 in reduced dims.
template <Reduction kind, typename T>
void reduceAll(T *out, int64_t outCount, const T *x, llvm::ArrayRef<int64_t> dims, llvm::ArrayRef<int64_t> outStrides,
               int64_t numel) {
  constexpr bool ordered = kind == Reduction::largest || kind == Reduction::smallest;
  if constexpr (!ordered) {
    std::fill(out, out + outCount, kind == Reduction::sum ? T(0) : T(1));
  }
  int64_t at[32] = {}, to = 0, reducedBefore = 0;
  for (int64_t k = 0; k < numel; ++k) {
    if constexpr (kind == Reduction::sum) {
      out[to] = wrapAdd(out[to], x[k]);
    } else if constexpr (kind == Reduction::product) {
      out[to] = wrapMul(out[to], x[k]);
    } else {
      // The first element of a result: every reduced dim is at 0.
      out[to] = reducedBefore == 0 ? x[k] : kind == Reduction::largest ? nanMax(out[to], x[k]) : nanMin(out[to], x[k]);
    }
    for (size_t d = dims.size(); d-- > 0;) {
      bool reduced = outStrides[d] == 0 && dims[d] != 1;
      to += outStrides[d];
      reducedBefore += reduced ? 1 : 0;
      if (++at[d] < dims[d]) {
        break;
      }
      to -= at[d] * outStrides[d];
      reducedBefore -= reduced ? at[d] : 0;
      at[d] = 0;
    }
  }
}

template <Reduction kind>
void lowerPlain(Lowering &lowering, const GraphOp &op) {
  const TensorType type = lowering.type(op.operands[0]);
  WideInput x(lowering, op.operands[0]);
  WideOutput out(lowering, op.results[0]);
  llvm::SmallVector<int64_t, 4> outStrides(type.rank(), 0), kept = denseStrides(lowering.type(op.results[0]).dims);
  const std::vector<int64_t> &reduced = op.ints("dims");
  size_t next = 0;
  for (size_t d = 0; d < type.rank(); ++d) {
    if (!llvm::is_contained(reduced, static_cast<int64_t>(d))) {
      // A kept dim of size 1 has nowhere to go; its stride would only confuse.
      outStrides[d] = type.dims[d] == 1 ? 0 : kept[next];
      ++next;
    }
  }
  int64_t numel = type.numel(), outCount = lowering.type(op.results[0]).numel();
  auto dims = type.dims;
  auto build = [&]<typename T>() -> std::unique_ptr<Kernel> {
    return makeKernel([=](SlotTable slots, int64_t, int64_t) {
      reduceAll<kind>(static_cast<T *>(out.begin(slots)), outCount, static_cast<const T *>(x.read(slots)), dims,
                      outStrides, numel);
      out.finish(slots);
    });
  };
  if constexpr (kind == Reduction::sum || kind == Reduction::product) {
    lowering.emit(op, dispatchNumber(lowering, x.element, build));
  } else {
    lowering.emit(op, dispatchWide(lowering, x.element, build));
  }
}

template <Reduction kind>
void lowerReduce(Lowering &lowering, const GraphOp &op) {
  const std::vector<int64_t> &dims = op.ints("dims");
  const TensorType &type = lowering.type(op.operands[0]);
  if (dims.empty()) {
    // Nothing is reduced; ATen would take an empty list as all dims.
    lowering.alias(op.results[0], op.operands[0], lowering.offsetOf(op.operands[0]),
                   lowering.stridesOf(op.operands[0]));
    return;
  }
  Element element = wideOf(type.element);
  bool library = kind != Reduction::product && (isFloat(element) || (isComplex(element) && kind == Reduction::sum));
  if (!library || (kind != Reduction::sum && lowering.type(op.results[0]).numel() == 0)) {
    lowerPlain<kind>(lowering, op);
    return;
  }
  LibraryTensors &tensors = lowering.library();
  VectorFn widen = nullptr, narrow = nullptr;
  Place source, wide, target, wideTarget;
  at::Tensor x, y;
  if (element == type.element) {
    StridedView view = lowering.window(op.operands[0]);
    if (llvm::any_of(view.strides, [](int64_t stride) { return stride < 0; })) {
      x = libraryTensor(tensors, lowering.dense(op.operands[0]), element, type.dims);
    } else {
      x = libraryTensor(tensors, view);
    }
    target = lowering.result(op.results[0]);
    y = libraryTensor(tensors, target, element, lowering.type(op.results[0]).dims);
  } else {
    source = lowering.dense(op.operands[0]);
    wide = lowering.scratch(static_cast<size_t>(type.numel()) * byteWidth(element));
    target = lowering.result(op.results[0]);
    wideTarget = lowering.scratch(static_cast<size_t>(lowering.type(op.results[0]).numel()) * byteWidth(element));
    widen = conversion(type.element, element).first;
    narrow = conversion(element, type.element).first;
    x = libraryTensor(tensors, wide, element, type.dims);
    y = libraryTensor(tensors, wideTarget, element, lowering.type(op.results[0]).dims);
  }
  int64_t numel = type.numel(), outCount = lowering.type(op.results[0]).numel();
  lowering.emit(op, makeKernel([=, dims = std::vector<int64_t>(dims)](SlotTable slots, int64_t, int64_t) mutable {
                  if (widen != nullptr) {
                    widen(wide.in(slots), source.in(slots), nullptr, nullptr, numel);
                  }
                  if constexpr (kind == Reduction::sum) {
                    at::cpu::sum_out(y, x, dims, /*keepdim=*/false, y.scalar_type());
                  } else if constexpr (kind == Reduction::largest) {
                    at::cpu::amax_out(y, x, dims, /*keepdim=*/false);
                  } else if constexpr (kind == Reduction::smallest) {
                    at::cpu::amin_out(y, x, dims, /*keepdim=*/false);
                  }
                  if (narrow != nullptr) {
                    narrow(target.in(slots), wideTarget.in(slots), nullptr, nullptr, outCount);
                  }
                }));
}

} // namespace

void addReduceKernels(llvm::StringMap<LowerFn> &table) {
  table["reduce_sum"] = lowerReduce<Reduction::sum>;
  table["reduce_prod"] = lowerReduce<Reduction::product>;
  table["reduce_max"] = lowerReduce<Reduction::largest>;
  table["reduce_min"] = lowerReduce<Reduction::smallest>;
}

} // namespace sojourn::runtime
