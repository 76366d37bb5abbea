// SPDX-License-Identifier: Apache-2.0
// take, put and their element-wise forms; rows of tables. Every index is checked: out of range reads
// give 0, out of range writes are dropped.
#include "runtime/Elements.h"
#include "runtime/Stop.h"

namespace sojourn::runtime {

namespace {

/// Indices of one row between two looks at the flag.
constexpr int64_t kLookEvery = int64_t{1} << 20;

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

/// Of single elements, positions [lo, hi) of the result.
using GatherFn = void (*)(char *out, const char *x, const int64_t *positions, int64_t count, int64_t size, int64_t lo,
                          int64_t hi);

template <typename T>
void gather(char *out, const char *x, const int64_t *positions, int64_t count, int64_t size, int64_t lo, int64_t hi) {
  T *target = reinterpret_cast<T *>(out);
  for (int64_t item = lo; item < hi;) {
    const int64_t outer = item / count, first = outer * count, past = std::min(hi, first + count);
    const T *line = reinterpret_cast<const T *>(x) + outer * size;
    for (; item < past; ++item) {
      const int64_t at = positions[item - first];
      target[item] = at >= 0 && at < size ? line[at] : T(0);
    }
  }
}

GatherFn gatherFor(int64_t inner, size_t bytes, Element indices) {
  if (inner != 1 || indices != Element::i64) {
    return nullptr;
  }
  switch (bytes) {
  case 1: return gather<uint8_t>;
  case 2: return gather<uint16_t>;
  case 4: return gather<uint32_t>;
  case 8: return gather<uint64_t>;
  default: return nullptr;
  }
}

void lowerTake(Lowering &lowering, const GraphOp &op) {
  const TensorType &type = lowering.type(op.operands[0]);
  Split split(type.dims, op.integer("dim"));
  int64_t count = lowering.type(op.operands[1]).numel();
  Place x = lowering.dense(op.operands[0]), i = lowering.dense(op.operands[1]);
  Place out = lowering.result(op.results[0]);
  IndexFn index = indexReader(lowering, lowering.type(op.operands[1]).element);
  int64_t line = split.inner * static_cast<int64_t>(byteWidth(type.element));
  Partition partition(split.outer * count, split.inner);
  const GatherFn single = gatherFor(split.inner, byteWidth(type.element), lowering.type(op.operands[1]).element);
  lowering.emit(op, makeKernel(
                        [=](SlotTable slots, int64_t lo, int64_t hi) {
                          const char *positions = i.in(slots);
                          if (single != nullptr) {
                            single(out.in(slots), x.in(slots), reinterpret_cast<const int64_t *>(positions), count,
                                   split.size, partition.begin(lo), partition.begin(hi));
                            return;
                          }
                          for (int64_t item = partition.begin(lo), past = partition.begin(hi); item < past; ++item) {
                            int64_t outer = item / count, at = index(positions, item % count);
                            char *target = out.in(slots) + item * line;
                            if (at >= 0 && at < split.size) {
                              std::memcpy(target, x.in(slots) + (outer * split.size + at) * line,
                                          static_cast<size_t>(line));
                            } else {
                              std::memset(target, 0, static_cast<size_t>(line));
                            }
                          }
                        },
                        partition.rows));
}

/// Walks positions [lo, hi) of dims in row-major order; `visit(k, base)` gets the offset, in elements
/// of strides, of position k with `dim` set to 0.
template <typename Visit>
void walkAlong(llvm::ArrayRef<int64_t> dims, llvm::ArrayRef<int64_t> strides, size_t dim, int64_t lo, int64_t hi,
               Visit visit) {
  int64_t at[32] = {}, base = 0, rest = lo;
  for (size_t d = dims.size(); d-- > 0 && lo < hi; rest /= dims[d]) {
    at[d] = rest % dims[d];
    base += d == dim ? 0 : at[d] * strides[d];
  }
  for (int64_t k = lo; k < hi; ++k) {
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
  size_t width = byteWidth(type.element);
  auto dims = indices.dims;
  Partition partition(indices.numel(), /*work=*/2);
  lowering.emit(op, makeKernel(
                        [=](SlotTable slots, int64_t lo, int64_t hi) {
                          const char *source = x.in(slots), *positions = i.in(slots);
                          char *target = out.in(slots);
                          walkAlong(dims, strides, dim, partition.begin(lo), partition.begin(hi),
                                    [&](int64_t k, int64_t base) {
                                      int64_t at = index(positions, k);
                                      if (at >= 0 && at < size) {
                                        std::memcpy(target + static_cast<size_t>(k) * width,
                                                    source + static_cast<size_t>(base + at * step) * width, width);
                                      } else {
                                        std::memset(target + static_cast<size_t>(k) * width, 0, width);
                                      }
                                    });
                        },
                        partition.rows));
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

/// x, u and the result for a write: bits for set, wide types else (halves accumulate in f32). x may be
/// one element for all.
struct Target {
  std::optional<WideInput> wideX, wideU;
  std::optional<WideOutput> wideOut;
  Place x, u, out;
  bool wide, splat = false;
  int64_t width;

  Target(Lowering &lowering, const GraphOp &op) : wide(op.string("kind") != "set") {
    const TensorType &type = lowering.type(op.operands[0]);
    Element element = wide ? wideOf(type.element) : type.element;
    width = static_cast<int64_t>(byteWidth(element));
    if (element == type.element && type.numel() > 1 &&
        llvm::all_of(lowering.stridesOf(op.operands[0]), [](int64_t stride) { return stride == 0; })) {
      StridedView view = lowering.window(op.operands[0]);
      splat = llvm::all_of(view.strides, [](int64_t stride) { return stride == 0; });
      x = {view.slot, view.offset * width};
    }
    if (splat) {
      u = lowering.denseAs(op.operands[2], element);
      out = lowering.resultAs(op.results[0], element);
    } else if (wide) {
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
  const char *source(SlotTable slots) const {
    return wideX ? static_cast<const char *>(wideX->read(slots)) : x.in(slots);
  }
  char *target(SlotTable slots) const { return wideOut ? static_cast<char *>(wideOut->begin(slots)) : out.in(slots); }
  const char *update(SlotTable slots) const {
    return wideU ? static_cast<const char *>(wideU->read(slots)) : u.in(slots);
  }
  /// x into the result, over a part of it that starts at element `offset`.
  void copy(char *to, const char *from, llvm::ArrayRef<int64_t> dims, llvm::ArrayRef<int64_t> strides,
            int64_t offset) const {
    if (splat) {
      copyWindow(dims, to + offset * width, strides, from, llvm::SmallVector<int64_t, 4>(dims.size(), 0), width);
    } else if (to != from) {
      copyWindow(dims, to + offset * width, strides, from + offset * width, strides, width);
    }
  }
};

/// Ranges of targets along the indexed dim, whose workers each look at all indices: only as many as
/// the lines are long enough to pay for that.
int64_t rangesOf(int64_t size, int64_t inner, int64_t wanted) {
  return std::clamp<int64_t>(std::min({size, wanted, std::max<int64_t>(inner, 2)}), 1, 64);
}

/// Walks `count` positions of dims in row-major order; visit(base, k) gets the offset under strides
/// with `dim` at 0, and the offset under all of otherStrides.
template <typename Visit>
void walkBoth(llvm::ArrayRef<int64_t> dims, llvm::ArrayRef<int64_t> strides, llvm::ArrayRef<int64_t> otherStrides,
              size_t dim, int64_t count, Visit visit) {
  int64_t at[32] = {}, base = 0, other = 0;
  for (int64_t k = 0; k < count; ++k) {
    visit(base, other);
    for (size_t d = dims.size(); d-- > 0;) {
      int64_t step = d == dim ? 0 : strides[d];
      base += step;
      other += otherStrides[d];
      if (++at[d] < dims[d]) {
        break;
      }
      base -= at[d] * step;
      other -= at[d] * otherStrides[d];
      at[d] = 0;
    }
  }
}

/// Workers share the targets, never the indices: the order in which updates meet one target stays, and nothing is
/// sorted. Ranges that one worker has side by side it serves in one walk over the indices.
void lowerPut(Lowering &lowering, const GraphOp &op) {
  const TensorType &type = lowering.type(op.operands[0]);
  Split split(type.dims, op.integer("dim"));
  int64_t count = lowering.type(op.operands[1]).numel();
  Place i = lowering.dense(op.operands[1]);
  Target target(lowering, op);
  IndexFn index = indexReader(lowering, lowering.type(op.operands[1]).element);
  const Element element = target.wide ? wideOf(type.element) : type.element;
  CombineFn fn = combiner(lowering, op.string("kind"), element);
  const bool isSum = op.string("kind") == "add" && !isComplex(element);
  VectorFn add = isSum ? vectorKernel(EOp::add, element, 0) : nullptr;
  int64_t work = (split.size + count) * split.inner;
  int64_t wanted =
      Partition(split.outer * std::max<int64_t>(split.size, 1), work / std::max<int64_t>(split.size, 1)).rows;
  int64_t ranges =
      split.outer >= wanted ? 1 : rangesOf(split.size, split.inner, wanted / std::max<int64_t>(split.outer, 1));
  Partition partition(split.outer * ranges, work / ranges);
  lowering.emit(op, makeKernel(
                        [=](SlotTable slots, int64_t lo, int64_t hi) {
                          const char *positions = i.in(slots);
                          int64_t line = split.inner * target.width;
                          for (int64_t item = partition.begin(lo), past = partition.begin(hi); item < past;) {
                            int64_t outer = item / ranges, range = item % ranges;
                            int64_t pastRange = std::min(ranges, range + past - item);
                            int64_t first = split.size * range / ranges, end = split.size * pastRange / ranges;
                            item += pastRange - range;
                            char *x = target.target(slots) + outer * split.size * line;
                            target.copy(target.target(slots), target.source(slots), {(end - first) * split.inner}, {1},
                                        (outer * split.size + first) * split.inner);
                            const char *u = target.update(slots) + outer * count * line;
                            for (int64_t k = 0; k < count; ++k, u += line) {
                              if (k % kLookEvery == kLookEvery - 1) {
                                checkStop();
                              }
                              int64_t at = index(positions, k);
                              if (at < first || at >= end) {
                                continue;
                              }
                              char *to = x + at * line;
                              if (add != nullptr) {
                                add(to, to, u, nullptr, split.inner);
                              } else {
                                fn(to, u, split.inner);
                              }
                            }
                          }
                        },
                        partition.rows));
}

/// u[k] combined into x[at[k]] along a line, where low <= at[k] < high.
using AlongFn = void (*)(char *x, const char *u, const int64_t *at, int64_t count, int64_t low, int64_t high);

template <typename Op, typename T>
void combineAlong(char *x, const char *u, const int64_t *at, int64_t count, int64_t low, int64_t high) {
  T *target = reinterpret_cast<T *>(x);
  const T *source = reinterpret_cast<const T *>(u);
  for (int64_t k = 0; k < count; ++k) {
    if (at[k] >= low && at[k] < high) {
      target[at[k]] = Op::run(target[at[k]], source[k]);
    }
  }
}

/// null: element by element.
AlongFn alongLine(const std::string &kind, Element element) {
  if (kind == "set") {
    return byteWidth(element) == 4   ? combineAlong<Set, uint32_t>
           : byteWidth(element) == 8 ? combineAlong<Set, uint64_t>
                                     : AlongFn(nullptr);
  }
  if (kind == "add") {
    return element == Element::f32   ? combineAlong<Add, float>
           : element == Element::f64 ? combineAlong<Add, double>
                                     : AlongFn(nullptr);
  }
  return nullptr;
}

/// The dim along which workers share the targets of a put_along: the largest of the others, or the
/// indexed one, whose ranges each look at all indices.
size_t cutOf(const TensorType &type, size_t dim) {
  size_t cut = dim;
  for (size_t d = 0; d < type.rank(); ++d) {
    if (d != dim && type.dims[d] > 1 && (cut == dim || type.dims[d] > type.dims[cut])) {
      cut = d;
    }
  }
  return cut;
}

void lowerPutAlong(Lowering &lowering, const GraphOp &op) {
  const TensorType &type = lowering.type(op.operands[0]), &indices = lowering.type(op.operands[1]);
  size_t dim = static_cast<size_t>(op.integer("dim"));
  Place i = lowering.dense(op.operands[1]);
  Target target(lowering, op);
  IndexFn index = indexReader(lowering, indices.element);
  CombineFn fn = combiner(lowering, op.string("kind"), target.wide ? wideOf(type.element) : type.element);
  AlongFn along = dim + 1 == type.rank() && indices.element == Element::i64
                      ? alongLine(op.string("kind"), target.wide ? wideOf(type.element) : type.element)
                      : nullptr;
  // A number is a line of one.
  llvm::SmallVector<int64_t, 4> dims = indices.dims, whole = type.dims;
  if (type.rank() == 0) {
    dims = whole = {1};
    dim = 0;
  }
  auto strides = denseStrides(whole), indexStrides = denseStrides(dims);
  TensorType line{type.element, whole};
  size_t cut = cutOf(line, dim);
  int64_t numel = type.numel() + indices.numel(), size = whole[cut];
  Partition partition(size, size == 0 ? 0 : numel / size, cut == dim ? rangesOf(size, 1, 64) : 64);
  lowering.emit(op, makeKernel(
                        [=](SlotTable slots, int64_t lo, int64_t hi) {
                          const char *positions = i.in(slots), *u = target.update(slots), *from = target.source(slots);
                          char *x = target.target(slots);
                          int64_t first = partition.begin(lo), past = partition.begin(hi);
                          llvm::SmallVector<int64_t, 4> slab = whole;
                          slab[cut] = past - first;
                          target.copy(x, from, slab, strides, first * strides[cut]);
                          // Positions of the indices whose targets may lie in the slab.
                          llvm::SmallVector<int64_t, 4> part = dims;
                          int64_t skippedIndices = 0;
                          const int64_t width = target.width, step = strides[dim];
                          if (cut != dim) {
                            part[cut] = std::max<int64_t>(0, std::min(past, dims[cut]) - first);
                            skippedIndices = first * indexStrides[cut];
                            x += first * strides[cut] * width;
                          }
                          const int64_t low = cut == dim ? first : 0, high = cut == dim ? past : whole[dim];
                          int64_t count = 1;
                          for (int64_t each : part) {
                            count *= each;
                          }
                          if (along != nullptr) {
                            const int64_t length = part.pop_back_val();
                            walkBoth(part, strides, indexStrides, dim, length == 0 ? 0 : count / length,
                                     [=](int64_t base, int64_t k) {
                                       k += skippedIndices;
                                       along(x + base * width, u + k * width,
                                             reinterpret_cast<const int64_t *>(positions) + k, length, low, high);
                                     });
                            return;
                          }
                          walkBoth(part, strides, indexStrides, dim, count, [=](int64_t base, int64_t k) {
                            k += skippedIndices;
                            int64_t at = index(positions, k);
                            if (at >= low && at < high) {
                              fn(x + (base + at * step) * width, u + k * width, 1);
                            }
                          });
                        },
                        partition.rows));
}

void lowerReadRows(Lowering &lowering, const GraphOp &op) {
  SlotId table = lowering.tableSlot(op.operands[0]);
  Place indices = lowering.dense(op.operands[1]);
  Place out = lowering.result(op.results[0]);
  std::vector<std::string> columns = op.strings("columns");
  int64_t count = lowering.type(op.operands[1]).numel();
  const TensorType &type = lowering.type(op.results[0]);
  Element element = type.element;
  int64_t row = count == 0 ? 0 : type.numel() / count;
  int64_t rowBytes = row * static_cast<int64_t>(byteWidth(element));
  Partition partition(count, row);
  lowering.emit(op, makeKernel(
                        [=, columns = std::move(columns)](SlotTable slots, int64_t lo, int64_t hi) {
                          int64_t first = partition.begin(lo);
                          auto rows = static_cast<size_t>(partition.begin(hi) - first);
                          static_cast<const RowSource *>(slots[table])
                              ->readRows(columns, {indices.in<int64_t>(slots) + first, rows}, element,
                                         out.in(slots) + first * rowBytes);
                        },
                        partition.rows));
}

} // namespace

const LowerFn kernels::lower_take = lowerTake;
const LowerFn kernels::lower_take_along = lowerTakeAlong;
const LowerFn kernels::lower_put = lowerPut;
const LowerFn kernels::lower_put_along = lowerPutAlong;
const LowerFn kernels::lower_read_rows = lowerReadRows;

} // namespace sojourn::runtime
