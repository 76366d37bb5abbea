// SPDX-License-Identifier: Apache-2.0
// take, put and their element-wise forms; rows of tables. Every index is checked: out of range reads
// give 0, out of range writes are dropped.
#include "runtime/Elements.h"

namespace sojourn::runtime {

namespace {

/// Reads index number k of any integer type.
using IndexFn = int64_t (*)(const char *data, int64_t k);

template <typename T>
int64_t readIndex(const char *data, int64_t k) {
  return static_cast<int64_t>(reinterpret_cast<const T *>(data)[k]);
}

IndexFn indexReader(Lowering &lowering, Element element) {
  switch (element) {
  case Element::u8: return readIndex<uint8_t>;
  case Element::i8: return readIndex<int8_t>;
  case Element::i16: return readIndex<int16_t>;
  case Element::i32: return readIndex<int32_t>;
  case Element::i64: return readIndex<int64_t>;
  default: lowering.fail("indices are not integers");
  }
}

void lowerTake(Lowering &lowering, const GraphOp &op) {
  const TensorType &type = lowering.type(op.operands[0]);
  Split split(type.dims, op.integer("dim"));
  int64_t count = lowering.type(op.operands[1]).numel();
  Place x = lowering.dense(op.operands[0]), i = lowering.dense(op.operands[1]);
  Place out = lowering.result(op.results[0]);
  IndexFn index = indexReader(lowering, lowering.type(op.operands[1]).element);
  size_t line = static_cast<size_t>(split.inner) * byteWidth(type.element);
  lowering.emit(op, makeKernel([=](SlotTable slots, int64_t, int64_t) {
                  char *target = out.in(slots);
                  for (int64_t outer = 0; outer < split.outer; ++outer) {
                    const char *source = x.in(slots) + static_cast<size_t>(outer * split.size) * line;
                    for (int64_t k = 0; k < count; ++k, target += line) {
                      int64_t at = index(i.in(slots), k);
                      if (at >= 0 && at < split.size) {
                        std::memcpy(target, source + static_cast<size_t>(at) * line, line);
                      } else {
                        std::memset(target, 0, line);
                      }
                    }
                  }
                }));
}

/// Walks all positions of `i` in row-major order; `visit(k, base, index)` gets the offset in x of
/// the position with `dim` set to 0.
template <typename Visit>
void walkAlong(llvm::ArrayRef<int64_t> dims, llvm::ArrayRef<int64_t> strides, size_t dim, int64_t numel, Visit visit) {
  int64_t at[32] = {}, base = 0;
  for (int64_t k = 0; k < numel; ++k) {
    visit(k, base);
    for (size_t d = dims.size(); d-- > 0;) {
      int64_t step = d == dim ? 0 : strides[d];
      base += step;
      if (++at[d] < dims[d]) {
        break;
      }
      base -= at[d] * step;
      at[d] = 0;
    }
  }
}

void lowerTakeAlong(Lowering &lowering, const GraphOp &op) {
  const TensorType &type = lowering.type(op.operands[0]), &indices = lowering.type(op.operands[1]);
  size_t dim = static_cast<size_t>(op.integer("dim"));
  Place x = lowering.dense(op.operands[0]), i = lowering.dense(op.operands[1]);
  Place out = lowering.result(op.results[0]);
  IndexFn index = indexReader(lowering, indices.element);
  auto strides = denseStrides(type.dims);
  int64_t size = type.rank() == 0 ? 1 : type.dims[dim], step = type.rank() == 0 ? 0 : strides[dim];
  int64_t numel = indices.numel();
  size_t width = byteWidth(type.element);
  auto dims = indices.dims;
  lowering.emit(op, makeKernel([=](SlotTable slots, int64_t, int64_t) {
                  const char *source = x.in(slots);
                  char *target = out.in(slots);
                  walkAlong(dims, strides, dim, numel, [&](int64_t k, int64_t base) {
                    int64_t at = index(i.in(slots), k);
                    if (at >= 0 && at < size) {
                      std::memcpy(target + static_cast<size_t>(k) * width,
                                  source + static_cast<size_t>(base + at * step) * width, width);
                    } else {
                      std::memset(target + static_cast<size_t>(k) * width, 0, width);
                    }
                  });
                }));
}

// --- Writes ---------------------------------------------------------------------------------------

struct Set {
  template <typename T>
  static T run(T, T u) {
    return u;
  }
};
struct Add {
  template <typename T>
  static T run(T x, T u) {
    return wrapAdd(x, u);
  }
};
struct Mul {
  template <typename T>
  static T run(T x, T u) {
    return wrapMul(x, u);
  }
};
struct Max {
  template <typename T>
  static T run(T x, T u) {
    return nanMax(x, u);
  }
};
struct Min {
  template <typename T>
  static T run(T x, T u) {
    return nanMin(x, u);
  }
};

/// A run of `count` elements of u combined into x; types are wide ones, or bits for set.
using CombineFn = void (*)(char *x, const char *u, int64_t count);

template <typename Op, typename T>
void combine(char *x, const char *u, int64_t count) {
  T *target = reinterpret_cast<T *>(x);
  const T *source = reinterpret_cast<const T *>(u);
  for (int64_t k = 0; k < count; ++k) {
    target[k] = Op::run(target[k], source[k]);
  }
}

template <size_t width>
void assign(char *x, const char *u, int64_t count) {
  std::memcpy(x, u, static_cast<size_t>(count) * width);
}

CombineFn combiner(Lowering &lowering, const std::string &kind, Element element) {
  if (kind == "set") {
    switch (byteWidth(element)) {
    case 1: return assign<1>;
    case 2: return assign<2>;
    case 4: return assign<4>;
    case 8: return assign<8>;
    default: return assign<16>;
    }
  }
  if (kind == "add") {
    return dispatchNumber(lowering, element, []<typename T>() -> CombineFn { return combine<Add, T>; });
  }
  if (kind == "mul") {
    return dispatchNumber(lowering, element, []<typename T>() -> CombineFn { return combine<Mul, T>; });
  }
  if (kind == "max") {
    return dispatchWide(lowering, element, []<typename T>() -> CombineFn { return combine<Max, T>; });
  }
  if (kind == "min") {
    return dispatchWide(lowering, element, []<typename T>() -> CombineFn { return combine<Min, T>; });
  }
  lowering.fail("unknown kind '" + kind + "'");
}

/// x, u and the result for a write: bits for set, wide types else (halves accumulate in f32).
struct Target {
  std::optional<WideInput> wideX, wideU;
  std::optional<WideOutput> wideOut;
  Place x, u, out;
  bool wide;
  size_t bytes;
  int64_t width;

  Target(Lowering &lowering, const GraphOp &op) : wide(op.string("kind") != "set") {
    const TensorType &type = lowering.type(op.operands[0]);
    Element element = wide ? wideOf(type.element) : type.element;
    width = static_cast<int64_t>(byteWidth(element));
    bytes = static_cast<size_t>(type.numel() * width);
    if (wide) {
      wideX.emplace(lowering, op.operands[0]);
      wideU.emplace(lowering, op.operands[2]);
      wideOut.emplace(lowering, op.results[0]);
      if (wideX->isDirect()) {
        lowering.mayReuse(wideOut->place(), wideX->place());
      }
    } else {
      x = lowering.dense(op.operands[0]);
      u = lowering.dense(op.operands[2]);
      out = lowering.result(op.results[0]);
      lowering.mayReuse(out, x);
    }
  }
  char *begin(SlotTable slots) const {
    const void *source = wide ? wideX->read(slots) : x.in(slots);
    char *target = wide ? static_cast<char *>(wideOut->begin(slots)) : out.in(slots);
    if (target != source) {
      std::memcpy(target, source, bytes);
    }
    return target;
  }
  const char *update(SlotTable slots) const {
    return wide ? static_cast<const char *>(wideU->read(slots)) : u.in(slots);
  }
  void finish(SlotTable slots) const {
    if (wide) {
      wideOut->finish(slots);
    }
  }
};

void lowerPut(Lowering &lowering, const GraphOp &op) {
  const TensorType &type = lowering.type(op.operands[0]);
  Split split(type.dims, op.integer("dim"));
  int64_t count = lowering.type(op.operands[1]).numel();
  Place i = lowering.dense(op.operands[1]);
  Target target(lowering, op);
  IndexFn index = indexReader(lowering, lowering.type(op.operands[1]).element);
  CombineFn fn = combiner(lowering, op.string("kind"), target.wide ? wideOf(type.element) : type.element);
  lowering.emit(op, makeKernel([=](SlotTable slots, int64_t, int64_t) {
                  char *x = target.begin(slots);
                  const char *u = target.update(slots);
                  int64_t line = split.inner * target.width;
                  for (int64_t outer = 0; outer < split.outer; ++outer, x += split.size * line) {
                    for (int64_t k = 0; k < count; ++k, u += line) {
                      int64_t at = index(i.in(slots), k);
                      if (at >= 0 && at < split.size) {
                        fn(x + at * line, u, split.inner);
                      }
                    }
                  }
                  target.finish(slots);
                }));
}

void lowerPutAlong(Lowering &lowering, const GraphOp &op) {
  const TensorType &type = lowering.type(op.operands[0]), &indices = lowering.type(op.operands[1]);
  size_t dim = static_cast<size_t>(op.integer("dim"));
  Place i = lowering.dense(op.operands[1]);
  Target target(lowering, op);
  IndexFn index = indexReader(lowering, indices.element);
  CombineFn fn = combiner(lowering, op.string("kind"), target.wide ? wideOf(type.element) : type.element);
  auto strides = denseStrides(type.dims);
  int64_t size = type.rank() == 0 ? 1 : type.dims[dim], step = type.rank() == 0 ? 0 : strides[dim];
  int64_t numel = indices.numel();
  auto dims = indices.dims;
  lowering.emit(op, makeKernel([=](SlotTable slots, int64_t, int64_t) {
                  char *x = target.begin(slots);
                  const char *u = target.update(slots);
                  walkAlong(dims, strides, dim, numel, [&](int64_t k, int64_t base) {
                    int64_t at = index(i.in(slots), k);
                    if (at >= 0 && at < size) {
                      fn(x + (base + at * step) * target.width, u + k * target.width, 1);
                    }
                  });
                  target.finish(slots);
                }));
}

void lowerReadRows(Lowering &lowering, const GraphOp &op) {
  SlotId table = lowering.tableSlot(op.operands[0]);
  Place indices = lowering.dense(op.operands[1]);
  Place out = lowering.result(op.results[0]);
  std::vector<std::string> columns = op.strings("columns");
  size_t count = static_cast<size_t>(lowering.type(op.operands[1]).numel());
  Element element = lowering.type(op.results[0]).element;
  lowering.emit(op, makeKernel([=, columns = std::move(columns)](SlotTable slots, int64_t, int64_t) {
                  static_cast<const RowSource *>(slots[table])
                      ->readRows(columns, {indices.in<int64_t>(slots), count}, element, out.in(slots));
                }));
}

} // namespace

void addIndexKernels(llvm::StringMap<LowerFn> &table) {
  table["take"] = lowerTake;
  table["take_along"] = lowerTakeAlong;
  table["put"] = lowerPut;
  table["put_along"] = lowerPutAlong;
  table["read_rows"] = lowerReadRows;
}

} // namespace sojourn::runtime
