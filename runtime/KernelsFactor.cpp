// SPDX-License-Identifier: Apache-2.0
// Factors of matrices on the library: each matrix on its own, by one thread.
#include "runtime/Elements.h"
#include "runtime/Library.h"
#include <limits>

namespace sojourn::runtime {

namespace {

/// What the library leaves of a matrix without a factor differs; a NaN that it did not notice is on the diagonal.
template <typename T>
void settleCholesky(T *factor, int64_t *order, int64_t size) {
  for (int64_t k = 0; k < size && *order == 0; ++k) {
    *order = factor[k * size + k] > 0 ? 0 : k + 1;
  }
  if (*order != 0) {
    std::fill_n(factor, size * size, std::numeric_limits<T>::quiet_NaN());
  }
}

void lowerCholesky(Lowering &lowering, const GraphOp &op) {
  const TensorType &type = lowering.type(op.operands[0]);
  const int64_t size = type.dims.back(), count = lowering.type(op.results[1]).numel();
  WideInput x(lowering, op.operands[0]);
  WideOutput factor(lowering, op.results[0]);
  Place order = lowering.result(op.results[1]);
  Partition partition(count, size * size * size);
  // The library's own factor, and what its blocks need.
  lowering.libraryMemory(3 * static_cast<size_t>(count * size * size) * byteWidth(x.element));
  const StridedView from = denseView(x.place(), x.element, {count, size, size});
  const StridedView to = denseView(factor.place(), x.element, {count, size, size});
  lowering.emit(op, dispatchWide(lowering, x.element, [&]<typename T>() -> std::unique_ptr<Kernel> {
                  return makeKernel(
                      [=](SlotTable slots, int64_t lo, int64_t hi) {
                        const int64_t first = partition.begin(lo), past = partition.begin(hi);
                        MatrixView source(from, slots), target(to, slots);
                        source.narrow(0, first, past);
                        target.narrow(0, first, past);
                        libraryCholesky(target, source, order.in<int64_t>(slots) + first);
                        for (int64_t k = first; k < past; ++k) {
                          settleCholesky(factor.place().in<T>(slots) + k * size * size, order.in<int64_t>(slots) + k,
                                         size);
                        }
                      },
                      partition.rows);
                }));
}

} // namespace

const LowerFn kernels::lower_cholesky = lowerCholesky;

} // namespace sojourn::runtime
