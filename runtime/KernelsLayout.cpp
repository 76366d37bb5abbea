// SPDX-License-Identifier: Apache-2.0
// Layout ops: windows where possible, strided copies where values must move.
#include "dialect/Bounds.h"
#include "runtime/Elements.h"

namespace sojourn::runtime {

/// One element, `count` times.
static void fill(char *target, const char *source, int64_t width, int64_t count) {
  constexpr int64_t kOnce = 4096; // bytes of a copy: they stay in the first cache
  std::memcpy(target, source, static_cast<size_t>(width));
  for (int64_t done = width, all = width * count; done < all;) {
    int64_t part = std::min({done, all - done, kOnce});
    std::memcpy(target + done, target, static_cast<size_t>(part));
    done += part;
  }
}

void copyWindow(llvm::ArrayRef<int64_t> dims, char *target, llvm::ArrayRef<int64_t> targetStrides, const char *source,
                llvm::ArrayRef<int64_t> sourceStrides, int64_t width) {
  constexpr size_t kMaxRank = 2 * bounds::kRank; // a sliding window has dims of its own
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
  // The longer of the last two loops inside, where what it walks over stays in the first cache: a broadcast may end in
  // lines of two elements.
  constexpr int64_t kShort = 8, kNear = 16384;
  const bool isLine = to[rank - 1] == 1 && from[rank - 1] == 1;
  if (rank > 1 && !isLine && sizes[rank - 1] <= kShort && sizes[rank - 2] > sizes[rank - 1] &&
      sizes[rank - 2] * sizes[rank - 1] * width <= kNear) {
    std::swap(sizes[rank - 1], sizes[rank - 2]);
    std::swap(to[rank - 1], to[rank - 2]);
    std::swap(from[rank - 1], from[rank - 2]);
  }
  const int64_t inner = sizes[rank - 1], toStep = to[rank - 1] * width, fromStep = from[rank - 1] * width;
  for (;;) {
    if (toStep == width && fromStep == width) {
      std::memcpy(target, source, static_cast<size_t>(inner * width));
    } else if (toStep == width && fromStep == 0) {
      fill(target, source, width, inner);
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

WindowCopy::WindowCopy(llvm::ArrayRef<int64_t> dims, llvm::ArrayRef<int64_t> targetStrides,
                       llvm::ArrayRef<int64_t> sourceStrides, int64_t width)
    : dims_(dims.begin(), dims.end()), to_(targetStrides.begin(), targetStrides.end()),
      from_(sourceStrides.begin(), sourceStrides.end()), width_(width) {
  int64_t numel = 1;
  for (int64_t dim : dims_) {
    numel *= dim;
  }
  while (cut_ + 1 < dims_.size() && dims_[cut_] == 1) {
    ++cut_;
  }
  int64_t items = dims_.empty() ? 1 : dims_[cut_];
  partition = Partition(items, items == 0 ? 0 : numel / items);
}

void WindowCopy::run(char *target, const char *source, int64_t lo, int64_t hi) const {
  if (dims_.empty()) {
    std::memcpy(target, source, static_cast<size_t>(width_));
    return;
  }
  int64_t first = partition.begin(lo);
  llvm::SmallVector<int64_t, 4> dims = dims_;
  dims[cut_] = partition.begin(hi) - first;
  copyWindow(dims, target + first * to_[cut_] * width_, to_, source + first * from_[cut_] * width_, from_, width_);
}

void emitZeros(Lowering &lowering, const GraphOp &op) {
  Place out = lowering.result(op.results[0]);
  size_t bytes = lowering.type(op.results[0]).bytes();
  lowering.emit(op, makeKernel([=](SlotTable slots, int64_t, int64_t) { std::memset(out.in(slots), 0, bytes); }));
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
    // The stride of a single element may be any number.
    const bool isStep = lowering.type(op.results[0]).dims[i] > 1;
    strides.push_back(isStep ? from[i] * stride[i] : from[i]);
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
  const TensorType &type = lowering.type(op.operands[0]);
  Place x = lowering.dense(op.operands[0]);
  StridedView u = lowering.window(op.operands[1]);
  Place out = lowering.result(op.results[0]);
  if (u.slot != x.slot) {
    lowering.mayReuse(out, x);
  }
  Dims strides = denseStrides(type.dims);
  int64_t width = static_cast<int64_t>(byteWidth(type.element)), offset = 0;
  const std::vector<int64_t> &start = op.ints("start"), &stride = op.ints("stride");
  // The stride of a single element may be any number.
  const auto isStep = [&](size_t dim) { return lowering.type(op.operands[1]).dims[dim] > 1; };
  for (size_t i = 0; i < strides.size(); ++i) {
    offset += start[i] * strides[i];
    strides[i] *= isStep(i) ? stride[i] : 1;
  }
  // Workers share the result along its first dim of more than one element: theirs is one piece of memory.
  size_t cut = 0;
  while (cut + 1 < type.dims.size() && type.dims[cut] == 1) {
    ++cut;
  }
  int64_t size = type.rank() == 0 ? 1 : type.dims[cut], line = size == 0 ? 0 : type.numel() / size * width;
  int64_t first = type.rank() == 0 ? 0 : start[cut], step = type.rank() == 0 || !isStep(cut) ? 1 : stride[cut];
  Partition partition(size, line / width);
  lowering.emit(
      op, makeKernel(
              [=](SlotTable slots, int64_t lo, int64_t hi) {
                int64_t from = partition.begin(lo), to = partition.begin(hi);
                char *target = out.in(slots);
                if (target != x.in(slots)) {
                  std::memcpy(target + from * line, x.in(slots) + from * line, static_cast<size_t>((to - from) * line));
                }
                // Entries of the update that land at [from, to).
                int64_t begin = std::max<int64_t>(0, (from - first + step - 1) / step), end = begin;
                Dims dims = u.dims;
                if (dims.empty()) {
                  end = 1;
                } else {
                  end = std::min(dims[cut], to <= first ? 0 : (to - first + step - 1) / step);
                  dims[cut] = std::max<int64_t>(0, end - begin);
                }
                if (end > begin) {
                  int64_t skipped = dims.empty() ? 0 : begin;
                  const char *source = static_cast<const char *>(slots[u.slot]) + u.offset * width;
                  copyWindow(dims, target + (offset + (dims.empty() ? 0 : skipped * strides[cut])) * width, strides,
                             source + (dims.empty() ? 0 : skipped * u.strides[cut]) * width, u.strides, width);
                }
              },
              partition.rows));
}

/// Bytes that starts of the run move a part by: each clamped, so that the part stays inside.
struct MovedStarts {
  struct Start {
    Place number;
    int64_t most, step; ///< the last start, and bytes per place
  };
  llvm::SmallVector<Start, 2> starts;

  /// `first`: the operand that is the first start; `strides` in elements of `whole`.
  MovedStarts(Lowering &lowering, const GraphOp &op, size_t first, const TensorType &whole, const TensorType &part,
              llvm::ArrayRef<int64_t> strides) {
    const std::vector<int64_t> &dims = op.ints("dims");
    for (size_t k = 0; k < dims.size(); ++k) {
      size_t dim = static_cast<size_t>(dims[k]);
      starts.push_back({lowering.dense(op.operands[first + k]), whole.dims[dim] - part.dims[dim],
                        strides[dim] * static_cast<int64_t>(byteWidth(whole.element))});
    }
  }
  int64_t bytes(SlotTable slots) const {
    int64_t bytes = 0;
    for (const Start &start : starts) {
      bytes += std::clamp<int64_t>(*start.number.in<int64_t>(slots), 0, start.most) * start.step;
    }
    return bytes;
  }
};

void lowerDynamicSlice(Lowering &lowering, const GraphOp &op) {
  const TensorType &type = lowering.type(op.results[0]);
  StridedView x = lowering.window(op.operands[0]);
  MovedStarts moved(lowering, op, 1, lowering.type(op.operands[0]), type, x.strides);
  Place out = lowering.result(op.results[0]);
  int64_t width = static_cast<int64_t>(byteWidth(type.element)), offset = x.offset * width;
  WindowCopy copy(type.dims, denseStrides(type.dims), x.strides, width);
  SlotId slot = x.slot;
  lowering.emit(op, makeKernel(
                        [=](SlotTable slots, int64_t lo, int64_t hi) {
                          const char *source = static_cast<const char *>(slots[slot]) + offset + moved.bytes(slots);
                          copy.run(out.in(slots), source, lo, hi);
                        },
                        copy.partition.rows));
}

void lowerDynamicUpdateSlice(Lowering &lowering, const GraphOp &op) {
  const TensorType &type = lowering.type(op.operands[0]);
  Place x = lowering.dense(op.operands[0]);
  StridedView u = lowering.window(op.operands[1]);
  Dims strides = denseStrides(type.dims);
  MovedStarts moved(lowering, op, 2, type, lowering.type(op.operands[1]), strides);
  Place out = lowering.result(op.results[0]);
  if (u.slot != x.slot) {
    lowering.mayReuse(out, x);
  }
  int64_t width = static_cast<int64_t>(byteWidth(type.element)), numel = type.numel();
  Partition all(numel, 1);
  lowering.emitPart(op, makeKernel(
                            [=](SlotTable slots, int64_t lo, int64_t hi) {
                              char *target = out.in(slots);
                              int64_t from = all.begin(lo) * width, to = all.begin(hi) * width;
                              if (target != x.in(slots)) {
                                std::memcpy(target + from, x.in(slots) + from, static_cast<size_t>(to - from));
                              }
                            },
                            all.rows));
  WindowCopy copy(u.dims, strides, u.strides, width);
  SlotId slot = u.slot;
  int64_t offset = u.offset * width;
  lowering.emit(op, makeKernel(
                        [=](SlotTable slots, int64_t lo, int64_t hi) {
                          const char *source = static_cast<const char *>(slots[slot]) + offset;
                          copy.run(out.in(slots) + moved.bytes(slots), source, lo, hi);
                        },
                        copy.partition.rows));
}

void lowerConcat(Lowering &lowering, const GraphOp &op) {
  const TensorType &type = lowering.type(op.results[0]);
  size_t dim = static_cast<size_t>(op.integer("dim"));
  Dims strides = denseStrides(type.dims);
  int64_t width = static_cast<int64_t>(byteWidth(type.element));
  struct Part {
    WindowCopy copy;
    SlotId slot;
    int64_t from, to; ///< bytes into the operand's slot and into the result
    int64_t row;      ///< the first one of this part
  };
  std::vector<Part> parts;
  int64_t at = 0, rows = 0;
  for (ValueId operand : op.operands) {
    StridedView view = lowering.window(operand);
    Part part{WindowCopy(view.dims, strides, view.strides, width), view.slot, view.offset * width,
              at * strides[dim] * width, rows};
    at += view.dims[dim];
    rows += part.copy.partition.rows;
    parts.push_back(std::move(part));
  }
  // Many small parts are not worth threads.
  bool whole = Partition(type.numel(), 1).rows == 1;
  Place out = lowering.result(op.results[0]);
  lowering.emit(op, makeKernel(
                        [=, parts = std::move(parts)](SlotTable slots, int64_t lo, int64_t hi) {
                          int64_t past = whole ? rows : hi;
                          for (const Part &part : parts) {
                            int64_t first = std::max(lo, part.row),
                                    end = std::min(past, part.row + part.copy.partition.rows);
                            if (first < end) {
                              part.copy.run(out.in(slots) + part.to, static_cast<char *>(slots[part.slot]) + part.from,
                                            first - part.row, end - part.row);
                            }
                          }
                        },
                        whole ? 1 : rows));
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
  Partition all(numel, 1);
  auto fillRows = [=](SlotTable slots, int64_t lo, int64_t hi) {
    fill(out.in(slots) + all.begin(lo) * width, value.in(slots), nullptr, nullptr, all.begin(hi) - all.begin(lo));
  };
  if (empty) {
    lowering.emit(op, makeKernel(fillRows, all.rows));
    return;
  }
  lowering.emitPart(op, makeKernel(fillRows, all.rows));
  WindowCopy copy(dims, to, from, width);
  lowering.emit(op, makeKernel(
                        [=](SlotTable slots, int64_t lo, int64_t hi) {
                          copy.run(out.in(slots) + target * width,
                                   static_cast<const char *>(slots[slot]) + source * width, lo, hi);
                        },
                        copy.partition.rows));
}

} // namespace

const LowerFn kernels::lower_reshape = lowerReshape;
const LowerFn kernels::lower_broadcast = lowerBroadcast;
const LowerFn kernels::lower_transpose = lowerTranspose;
const LowerFn kernels::lower_slice = lowerSlice;
const LowerFn kernels::lower_reverse = lowerReverse;
const LowerFn kernels::lower_update_slice = lowerUpdateSlice;
const LowerFn kernels::lower_dynamic_slice = lowerDynamicSlice;
const LowerFn kernels::lower_dynamic_update_slice = lowerDynamicUpdateSlice;
const LowerFn kernels::lower_concat = lowerConcat;
const LowerFn kernels::lower_pad = lowerPad;

} // namespace sojourn::runtime
