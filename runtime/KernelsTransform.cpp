// SPDX-License-Identifier: Apache-2.0
// Complex numbers as pairs, and discrete Fourier transforms on the library.
#include "runtime/Elements.h"
#include "runtime/Library.h"

#include <algorithm>
#include <cstring>

namespace sojourn::runtime {

namespace {

/// parts and complex: the operand's dense bytes, under another type.
void lowerPairs(Lowering &lowering, const GraphOp &op) {
  Place from = lowering.dense(op.operands[0]), to = lowering.result(op.results[0]);
  const TensorType &type = lowering.type(op.operands[0]);
  const int64_t width = static_cast<int64_t>(byteWidth(type.element));
  Partition partition(type.numel(), 2);
  lowering.emit(op, makeKernel(
                        [=](SlotTable slots, int64_t lo, int64_t hi) {
                          const int64_t first = partition.begin(lo) * width, past = partition.begin(hi) * width;
                          std::memcpy(to.in(slots) + first, from.in(slots) + first, static_cast<size_t>(past - first));
                        },
                        partition.rows));
}

template <Fourier kind>
void lowerFourier(Lowering &lowering, const GraphOp &op) {
  const TensorType type = lowering.type(op.operands[0]), result = lowering.type(op.results[0]);
  const std::vector<int64_t> &dims = op.ints("dims");
  const StridedView from = denseView(lowering.dense(op.operands[0]), type.element, type.dims);
  const StridedView to = denseView(lowering.result(op.results[0]), result.element, result.dims);
  FourierOptions options{kind, dims, kind == Fourier::complexes && op.integer("inverse") != 0,
                         kind == Fourier::toReal ? op.integer("size") : 0};
  lowering.libraryMemory(3 * (type.bytes() + result.bytes()));
  if (result.numel() == 0) {
    return lowering.emit(op, makeKernel([](SlotTable, int64_t, int64_t) {}));
  }
  // Lines are independent: threads share the largest dim that is not transformed.
  size_t cut = type.rank();
  for (size_t dim = 0; dim < type.rank(); ++dim) {
    if (std::find(dims.begin(), dims.end(), static_cast<int64_t>(dim)) == dims.end() &&
        (cut == type.rank() || type.dims[dim] > type.dims[cut])) {
      cut = dim;
    }
  }
  if (cut == type.rank()) {
    lowering.libraryCalls(op, 1);
    return lowering.emit(op, makeKernel([=](SlotTable slots, int64_t, int64_t) {
                           libraryFourier(libraryView(to, slots), libraryView(from, slots), options);
                         }));
  }
  Partition partition(type.dims[cut], 16 * result.numel() / type.dims[cut]);
  lowering.libraryCalls(op, partition.rows);
  lowering.emit(op, makeKernel(
                        [=](SlotTable slots, int64_t lo, int64_t hi) {
                          const int64_t first = partition.begin(lo), past = partition.begin(hi);
                          libraryFourier(narrowed(libraryView(to, slots), cut, first, past),
                                         narrowed(libraryView(from, slots), cut, first, past), options);
                        },
                        partition.rows));
}

} // namespace

const LowerFn kernels::lower_parts = lowerPairs;
const LowerFn kernels::lower_complex = lowerPairs;
const LowerFn kernels::lower_fft_c2c = lowerFourier<Fourier::complexes>;
const LowerFn kernels::lower_fft_r2c = lowerFourier<Fourier::fromReal>;
const LowerFn kernels::lower_fft_c2r = lowerFourier<Fourier::toReal>;

} // namespace sojourn::runtime
