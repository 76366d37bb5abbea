// SPDX-License-Identifier: Apache-2.0
// Maximum pooling whose positions only its own gradient reads, line by line: a position is then kept as a code, the
// number of its element within its window.
#include "runtime/Elements.h"
#include "runtime/PoolWindows.h"
#include "runtime/VectorKernels.h"

namespace sojourn::runtime {

namespace {

/// A window with no element, which does not occur: no element has this code.
constexpr int32_t kNoElement = -1;

MaxLineKernels kernelsFor(const Windows &windows, Element element) {
  constexpr int64_t kTaps = 64;
  // One stride is built in; that along a dim of one window says nothing.
  bool isEven = windows.stride[1] == windows.stride[2] || windows.out[1] == 1;
  bool hasLines = isEven && windows.isFlat() && windows.taps() <= kTaps && !windows.overlapMuch();
  return hasLines ? maxLineKernels(element, windows.stride[2]) : MaxLineKernels{nullptr, nullptr};
}

Place codesOf(Lowering &lowering, const GraphOp &pool) {
  bool isNew = false;
  return lowering.shared({pool.results[1], /*of no product*/ -1},
                         static_cast<size_t>(lowering.type(pool.results[1]).numel()) * sizeof(int32_t), isNew);
}

/// A window at the border, which has fewer elements. In a lane of vectors, where a choice needs no branch.
void maxAtBorder(const Windows &windows, const float *plane, int64_t o1, int64_t o2, float &value, int32_t &code) {
  typedef float Reals __attribute__((vector_size(16)));
  typedef int32_t Codes __attribute__((vector_size(16)));
  int64_t first[2], past[2];
  windows.range(1, o1, first[0], past[0]);
  windows.range(2, o2, first[1], past[1]);
  Reals best = {};
  Codes taken = Codes{} + kNoElement;
  for (int64_t a = first[0]; a < past[0]; ++a) {
    const float *x = plane + (o1 * windows.stride[1] - windows.padding[1] + a) * windows.in[2] +
                     o2 * windows.stride[2] - windows.padding[2];
    for (int64_t b = first[1]; b < past[1]; ++b) {
      const Reals element = {x[b]};
      const Codes isBetter = (taken == kNoElement) | (element > best) | (element != element);
      best = isBetter ? element : best;
      taken = isBetter ? Codes{static_cast<int32_t>(a * windows.size[2] + b)} : taken;
    }
  }
  value = best[0];
  code = taken[0];
}

} // namespace

bool codesPositions(const Lowering &lowering, const GraphOp &pool) {
  return kernelsFor(Windows(lowering, pool), lowering.type(pool.operands[0]).element).forward != nullptr;
}

void lowerCodedPoolMax(Lowering &lowering, const GraphOp &op) {
  Windows windows(lowering, op);
  MaxLineFn line = kernelsFor(windows, Element::f32).forward;
  Place x = lowering.dense(op.operands[0]), codes = codesOf(lowering, op), out = lowering.result(op.results[0]);
  lowering.leaveOut(op.results[1]);
  Partition partition = windows.partition(/*shared=*/false);
  int64_t from, to;
  windows.inside(from, to);
  auto kernel = [=](SlotTable slots, int64_t lo, int64_t hi) {
    const float *source = x.in<float>(slots), *end = source + windows.planes * windows.inPlane();
    const int64_t width = windows.out[2];
    for (int64_t number = partition.begin(lo), past = partition.begin(hi); number < past; ++number) {
      const float *plane = source + number / windows.out[1] * windows.inPlane();
      const int64_t o1 = number % windows.out[1];
      float *target = out.in<float>(slots) + number * width;
      int32_t *code = codes.in<int32_t>(slots) + number * width;
      int64_t first, pastRow;
      windows.range(1, o1, first, pastRow);
      if (from < to) {
        const float *window = plane + (o1 * windows.stride[1] - windows.padding[1] + first) * windows.in[2] +
                              from * windows.stride[2] - windows.padding[2];
        line(target + from, code + from, window, windows.in[2], pastRow - first, windows.size[2],
             first * windows.size[2], to - from, end - window);
      }
      for (int64_t o2 = 0; o2 < from; ++o2) {
        maxAtBorder(windows, plane, o1, o2, target[o2], code[o2]);
      }
      for (int64_t o2 = to; o2 < width; ++o2) {
        maxAtBorder(windows, plane, o1, o2, target[o2], code[o2]);
      }
    }
  };
  lowering.emit(op, makeKernel(kernel, partition.rows));
}

void lowerPoolMaxGradient(Lowering &lowering, const GraphOp &op, const GraphOp &pool) {
  Windows windows(lowering, pool);
  MaxGradientFn rows = kernelsFor(windows, Element::f32).gradient;
  Place codes = codesOf(lowering, pool), gradient = lowering.dense(op.operands[2]),
        out = lowering.result(op.results[0]);
  const PoolShape shape = {windows.in[1],   windows.in[2],   windows.out[1],     windows.out[2],
                           windows.size[1], windows.size[2], windows.padding[1], windows.padding[2]};
  Partition partition(windows.planes * shape.height, shape.width * std::max<int64_t>(1, windows.taps() / 2));
  auto kernel = [=](SlotTable slots, int64_t lo, int64_t hi) {
    rows(out.in<float>(slots), gradient.in<float>(slots), codes.in<int32_t>(slots), shape, partition.begin(lo),
         partition.begin(hi));
  };
  lowering.emit(op, makeKernel(kernel, partition.rows));
}

} // namespace sojourn::runtime
