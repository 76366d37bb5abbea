// SPDX-License-Identifier: Apache-2.0
// Layout ops: windows where possible, strided copies where values must move.
#include "runtime/Elements.h"

namespace sojourn::runtime {

void copyWindow(llvm::ArrayRef<int64_t> dims, char *target, llvm::ArrayRef<int64_t> targetStrides, const char *source,
                llvm::ArrayRef<int64_t> sourceStrides, int64_t width) {
  constexpr size_t kMaxRank = 32;
  int64_t sizes[kMaxRank + 1], to[kMaxRank + 1], from[kMaxRank + 1], at[kMaxRank + 1] = {};
  size_t rank = 0;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 0) {
      return;
    }
    if (dims[i] == 1) {
      continue;
    }
    if (rank > 0 && to[rank - 1] == targetStrides[i] * dims[i] && from[rank - 1] == sourceStrides[i] * dims[i]) {
      sizes[rank - 1] *= dims[i];
      to[rank - 1] = targetStrides[i];
      from[rank - 1] = sourceStrides[i];
    } else {
      sizes[rank] = dims[i];
      to[rank] = targetStrides[i];
      from[rank] = sourceStrides[i];
      ++rank;
    }
  }
  if (rank == 0) {
    std::memcpy(target, source, static_cast<size_t>(width));
    return;
  }
  const int64_t inner = sizes[rank - 1], toStep = to[rank - 1] * width, fromStep = from[rank - 1] * width;
  for (;;) {
    if (toStep == width && fromStep == width) {
      std::memcpy(target, source, static_cast<size_t>(inner * width));
    } else if (width == 4) {
      for (int64_t i = 0; i < inner; ++i) {
        std::memcpy(target + i * toStep, source + i * fromStep, 4);
      }
    } else if (width == 8) {
      for (int64_t i = 0; i < inner; ++i) {
        std::memcpy(target + i * toStep, source + i * fromStep, 8);
      }
    } else {
      for (int64_t i = 0; i < inner; ++i) {
        std::memcpy(target + i * toStep, source + i * fromStep, static_cast<size_t>(width));
      }
    }
    size_t i = rank - 1;
    for (;;) {
      if (i == 0) {
        return;
      }
      --i;
      target += to[i] * width;
      source += from[i] * width;
      if (++at[i] < sizes[i]) {
        break;
      }
      target -= at[i] * to[i] * width;
      source -= at[i] * from[i] * width;
      at[i] = 0;
    }
  }
}

namespace {

using Dims = llvm::SmallVector<int64_t, 4>;

void lowerReshape(Lowering &lowering, const GraphOp &op) { lowering.reshape(op); }

void lowerBroadcast(Lowering &lowering, const GraphOp &op) {
  ValueId operand = op.operands[0], result = op.results[0];
  const std::vector<int64_t> &dims = op.ints("dims");
  const Dims from = lowering.stridesOf(operand);
  Dims strides(lowering.type(result).rank(), 0);
  for (size_t k = 0; k < dims.size(); ++k) {
    bool grows = lowering.type(operand).dims[k] == 1;
    strides[static_cast<size_t>(dims[k])] = grows ? 0 : from[k];
  }
  lowering.alias(result, operand, lowering.offsetOf(operand), strides);
}

void lowerTranspose(Lowering &lowering, const GraphOp &op) {
  const Dims from = lowering.stridesOf(op.operands[0]);
  Dims strides;
  for (int64_t dim : op.ints("perm")) {
    strides.push_back(from[static_cast<size_t>(dim)]);
  }
  lowering.alias(op.results[0], op.operands[0], lowering.offsetOf(op.operands[0]), strides);
}

void lowerSlice(Lowering &lowering, const GraphOp &op) {
  const Dims from = lowering.stridesOf(op.operands[0]);
  const std::vector<int64_t> &start = op.ints("start"), &stride = op.ints("stride");
  Dims strides;
  int64_t offset = lowering.offsetOf(op.operands[0]);
  bool empty = lowering.type(op.results[0]).numel() == 0;
  for (size_t i = 0; i < from.size(); ++i) {
    offset += empty ? 0 : start[i] * from[i]; // an empty window may start past the end
    strides.push_back(from[i] * stride[i]);
  }
  lowering.alias(op.results[0], op.operands[0], offset, strides);
}

void lowerReverse(Lowering &lowering, const GraphOp &op) {
  Dims strides = lowering.stridesOf(op.operands[0]);
  const TensorType &type = lowering.type(op.operands[0]);
  int64_t offset = lowering.offsetOf(op.operands[0]);
  for (int64_t dim : op.ints("dims")) {
    size_t i = static_cast<size_t>(dim);
    offset += type.numel() == 0 ? 0 : (type.dims[i] - 1) * strides[i];
    strides[i] = -strides[i];
  }
  lowering.alias(op.results[0], op.operands[0], offset, strides);
}

void lowerUpdateSlice(Lowering &lowering, const GraphOp &op) {
  const TensorType &type = lowering.type(op.operands[0]), &update = lowering.type(op.operands[1]);
  Place x = lowering.dense(op.operands[0]);
  StridedView u = lowering.window(op.operands[1]);
  Place out = lowering.result(op.results[0]);
  if (u.slot != x.slot) {
    lowering.mayReuse(out, x);
  }
  Dims strides = denseStrides(type.dims);
  int64_t width = static_cast<int64_t>(byteWidth(type.element)), offset = 0;
  const std::vector<int64_t> &start = op.ints("start"), &stride = op.ints("stride");
  for (size_t i = 0; i < strides.size(); ++i) {
    offset += start[i] * strides[i];
    strides[i] *= stride[i];
  }
  size_t bytes = type.bytes();
  bool empty = update.numel() == 0;
  lowering.emit(op, makeKernel([=](SlotTable slots, int64_t, int64_t) {
                  char *target = out.in(slots);
                  if (target != x.in(slots)) {
                    std::memcpy(target, x.in(slots), bytes);
                  }
                  if (!empty) {
                    const char *source = static_cast<const char *>(slots[u.slot]) + u.offset * width;
                    copyWindow(u.dims, target + offset * width, strides, source, u.strides, width);
                  }
                }));
}

void lowerConcat(Lowering &lowering, const GraphOp &op) {
  const TensorType &type = lowering.type(op.results[0]);
  size_t dim = static_cast<size_t>(op.integer("dim"));
  std::vector<StridedView> parts;
  for (ValueId operand : op.operands) {
    parts.push_back(lowering.window(operand));
  }
  Place out = lowering.result(op.results[0]);
  Dims strides = denseStrides(type.dims);
  int64_t width = static_cast<int64_t>(byteWidth(type.element));
  lowering.emit(op, makeKernel([=, parts = std::move(parts)](SlotTable slots, int64_t, int64_t) {
                  int64_t at = 0;
                  for (const StridedView &part : parts) {
                    copyWindow(part.dims, out.in(slots) + at * strides[dim] * width, strides,
                               static_cast<const char *>(slots[part.slot]) + part.offset * width, part.strides, width);
                    at += part.dims[dim];
                  }
                }));
}

void lowerPad(Lowering &lowering, const GraphOp &op) {
  const TensorType &type = lowering.type(op.results[0]);
  StridedView x = lowering.window(op.operands[0]);
  Place value = lowering.dense(op.operands[1]);
  Place out = lowering.result(op.results[0]);
  const std::vector<int64_t> &low = op.ints("low"), &interior = op.ints("interior");
  Dims outStrides = denseStrides(type.dims), dims = x.dims, from = x.strides, to = outStrides;
  int64_t source = x.offset, target = 0;
  bool empty = type.numel() == 0;
  for (size_t i = 0; i < dims.size(); ++i) {
    // Element k lands at low + k * (interior + 1); those that land outside are cut away.
    int64_t step = interior[i] + 1;
    int64_t first = low[i] < 0 ? (-low[i] + step - 1) / step : 0;
    int64_t past = type.dims[i] - low[i] <= 0 ? 0 : (type.dims[i] - low[i] + step - 1) / step;
    int64_t end = std::min(dims[i], past);
    dims[i] = std::max<int64_t>(0, end - first);
    empty |= dims[i] == 0;
    source += first * from[i];
    target += (low[i] + first * step) * to[i];
    to[i] *= step;
  }
  int64_t width = static_cast<int64_t>(byteWidth(type.element)), numel = type.numel();
  VectorFn fill = vectorKernel(EOp::copy, type.element, 1);
  SlotId slot = x.slot;
  lowering.emit(op, makeKernel([=](SlotTable slots, int64_t, int64_t) {
                  fill(out.in(slots), value.in(slots), nullptr, nullptr, numel);
                  if (!empty) {
                    copyWindow(dims, out.in(slots) + target * width, to,
                               static_cast<const char *>(slots[slot]) + source * width, from, width);
                  }
                }));
}

} // namespace

void addLayoutKernels(llvm::StringMap<LowerFn> &table) {
  table["reshape"] = lowerReshape;
  table["broadcast"] = lowerBroadcast;
  table["transpose"] = lowerTranspose;
  table["slice"] = lowerSlice;
  table["reverse"] = lowerReverse;
  table["update_slice"] = lowerUpdateSlice;
  table["concat"] = lowerConcat;
  table["pad"] = lowerPad;
}

} // namespace sojourn::runtime
