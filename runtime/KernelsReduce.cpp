// SPDX-License-Identifier: Apache-2.0
// Reductions: float sums and larger extremes on the library, everything else in plain loops. Results are
// shared out among workers; where there are too few of them, the operand is, and its parts are
// combined in order.
#include "runtime/Elements.h"
#include "runtime/Library.h"
#include "runtime/Stop.h"
#include <bit>

namespace sojourn::runtime {

namespace {

bool isReduced(const std::vector<int64_t> &dims, size_t d) { return llvm::is_contained(dims, static_cast<int64_t>(d)); }

// --- Plain loops ----------------------------------------------------------------------------------

template <Reduction kind, typename T>
T step(T acc, T x) {
  if constexpr (kind == Reduction::sum) {
    return wrapAdd(acc, x);
  } else if constexpr (kind == Reduction::product) {
    return wrapMul(acc, x);
  } else if constexpr (kind == Reduction::largest) {
    return nanMax(acc, x);
  } else {
    return nanMin(acc, x);
  }
}

/// Sizes and strides of the operand's kept and reduced dims, in order.
struct Reduced {
  llvm::SmallVector<int64_t, 4> kept, keptStrides, reduced, reducedStrides;
  int64_t line = 1, lineStride = 0; ///< the last kept dim
  int64_t outer = 1;                ///< results before it
  int64_t count = 1;                ///< elements that go into one result

  Reduced(const TensorType &type, const std::vector<int64_t> &dims) {
    auto strides = denseStrides(type.dims);
    for (size_t d = 0; d < type.rank(); ++d) {
      if (isReduced(dims, d)) {
        reduced.push_back(type.dims[d]);
        reducedStrides.push_back(strides[d]);
        count *= type.dims[d];
      } else {
        kept.push_back(type.dims[d]);
        keptStrides.push_back(strides[d]);
      }
    }
    if (!kept.empty()) {
      line = kept.pop_back_val();
      lineStride = keptStrides.pop_back_val();
    }
    for (int64_t size : kept) {
      outer *= size;
    }
  }
};

/// Results are made in tiles along their last dim, of at most so many, each element in row-major order
/// of what it reduces.
constexpr int64_t kTile = 64;

template <Reduction kind, typename T>
void reduceTile(T *out, const T *x, const Reduced &shape, int64_t width) {
  constexpr bool ordered = kind == Reduction::largest || kind == Reduction::smallest;
  T acc[kTile];
  std::fill(acc, acc + width, kind == Reduction::product ? T(1) : T(0));
  int64_t at[32] = {}, offset = 0;
  const int64_t look = (int64_t{1} << 20) / width;
  for (int64_t k = 0; k < shape.count; ++k) {
    if (k % look == look - 1) {
      checkStop();
    }
    const T *line = x + offset;
    if (ordered && k == 0) {
      for (int64_t j = 0; j < width; ++j) {
        acc[j] = line[j * shape.lineStride];
      }
    } else {
      for (int64_t j = 0; j < width; ++j) {
        acc[j] = step<kind>(acc[j], line[j * shape.lineStride]);
      }
    }
    for (size_t d = shape.reduced.size(); d-- > 0;) {
      offset += shape.reducedStrides[d];
      if (++at[d] < shape.reduced[d]) {
        break;
      }
      offset -= at[d] * shape.reducedStrides[d];
      at[d] = 0;
    }
  }
  std::copy(acc, acc + width, out);
}

template <Reduction kind, typename T>
T reduceRange(const T *x, int64_t count) {
  T acc = x[0];
  for (int64_t k = 1; k < count; ++k) {
    acc = step<kind>(acc, x[k]);
  }
  return acc;
}

/// To one number: each worker reduces a range, and the ranges' numbers are combined in order.
template <Reduction kind, typename T>
void emitToOne(Lowering &lowering, const GraphOp &op, WideInput x, WideOutput out, const Partition &ranges) {
  Place parts = lowering.scratch(sizeof(T) * static_cast<size_t>(ranges.rows));
  lowering.emitPart(op, makeKernel(
                            [=](SlotTable slots, int64_t lo, int64_t hi) {
                              const T *source = static_cast<const T *>(x.read(slots));
                              for (int64_t row = lo; row < hi; ++row) {
                                int64_t from = ranges.begin(row);
                                parts.in<T>(slots)[row] =
                                    reduceRange<kind>(source + from, ranges.begin(row + 1) - from);
                              }
                            },
                            ranges.rows));
  lowering.emit(op, makeKernel([=](SlotTable slots, int64_t, int64_t) {
                  *static_cast<T *>(out.begin(slots)) = reduceRange<kind>(parts.in<T>(slots), ranges.rows);
                }));
}

template <Reduction kind>
void lowerPlain(Lowering &lowering, const GraphOp &op) {
  WideInput x(lowering, op.operands[0]);
  WideOutput out(lowering, op.results[0]);
  Reduced shape(lowering.type(op.operands[0]), op.ints("dims"));
  Partition ranges(shape.count, 1);
  if (lowering.type(op.results[0]).numel() == 1 && ranges.rows > 1) {
    auto emit = [&]<typename T>() { emitToOne<kind, T>(lowering, op, x, out, ranges); };
    if constexpr (kind == Reduction::sum || kind == Reduction::product) {
      dispatchNumber(lowering, x.element, emit);
    } else {
      dispatchWide(lowering, x.element, emit);
    }
    return;
  }
  // Narrow ones where a short line is all that can be shared out.
  int64_t wanted =
      (Partition(lowering.type(op.operands[0]).numel(), 1).rows + shape.outer - 1) / std::max<int64_t>(shape.outer, 1);
  int64_t tile = std::clamp<int64_t>(shape.line / std::max<int64_t>(wanted, 1), 8, kTile);
  int64_t tiles = (shape.line + tile - 1) / tile;
  Partition partition(shape.outer * tiles, std::min(shape.line, tile) * std::max<int64_t>(shape.count, 1));
  auto build = [&]<typename T>() -> std::unique_ptr<Kernel> {
    return makeKernel(
        [=](SlotTable slots, int64_t lo, int64_t hi) {
          const T *source = static_cast<const T *>(x.read(slots));
          T *target = static_cast<T *>(out.begin(slots));
          for (int64_t item = partition.begin(lo); item < partition.begin(hi); ++item) {
            int64_t outer = item / tiles, first = item % tiles * tile, offset = first * shape.lineStride;
            int64_t rest = outer;
            for (size_t d = shape.kept.size(); d-- > 0; rest /= shape.kept[d]) {
              offset += rest % shape.kept[d] * shape.keptStrides[d];
            }
            reduceTile<kind>(target + outer * shape.line + first, source + offset, shape,
                             std::min(tile, shape.line - first));
          }
        },
        partition.rows);
  };
  if constexpr (kind == Reduction::sum || kind == Reduction::product) {
    lowering.emit(op, dispatchNumber(lowering, x.element, build));
  } else {
    lowering.emit(op, dispatchWide(lowering, x.element, build));
  }
}

// --- On the library -------------------------------------------------------------------------------

/// Elements of the operand that are worth a thread, and the fewest neighbours that one call gets.
constexpr int64_t kPieceElements = 16384, kNeighbours = 128;

/// Elements of an operand for which preparing a library call costs more than the plain loop.
constexpr int64_t kPlainElements = 2048;

/// The dim along which the operand is cut, and into how many pieces.
struct Cut {
  size_t dim = 0;
  int64_t pieces = 1;
};

/// The best cut along a kept dim (`reduced` false) or a reduced one; the outermost of equals.
Cut cutOf(const StridedView &view, const std::vector<int64_t> &dims, bool reduced, int64_t wanted) {
  Cut best;
  for (size_t d = 0; d < view.dims.size(); ++d) {
    int64_t unit = view.strides[d] == 1 ? kNeighbours : 1;
    int64_t pieces = std::min(view.dims[d] / unit, wanted);
    if (isReduced(dims, d) == reduced && pieces > best.pieces) {
      best = {d, pieces};
    }
  }
  best.pieces = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(best.pieces)));
  return best;
}

struct LibraryReduction {
  Reduction kind;
  StridedView x, out;
  std::vector<int64_t> dims;

  /// Each piece is a part of the result.
  std::unique_ptr<Kernel> byResults(const Cut &cut) const {
    size_t outDim = cut.dim;
    for (int64_t dim : dims) {
      outDim -= static_cast<size_t>(dim) < cut.dim ? 1 : 0;
    }
    Partition pieces(x.dims.empty() ? 1 : x.dims[cut.dim], int64_t{1} << 40, cut.pieces);
    return makeKernel(
        [*this, pieces, cut, outDim](SlotTable slots, int64_t lo, int64_t hi) {
          if (pieces.rows == 1) {
            libraryReduce(kind, libraryView(out, slots), libraryView(x, slots), dims);
            return;
          }
          eachRow(pieces, lo, hi, [&](int64_t first, int64_t past) {
            libraryReduce(kind, narrowed(libraryView(out, slots), outDim, first, past),
                          narrowed(libraryView(x, slots), cut.dim, first, past), dims);
          });
        },
        pieces.rows);
  }

  /// Each piece is reduced to a line of `parts`, [pieces, result...].
  std::unique_ptr<Kernel> toParts(const Cut &cut, const StridedView &parts) const {
    Partition pieces(x.dims[cut.dim], int64_t{1} << 40, cut.pieces);
    return makeKernel(
        [*this, pieces, cut, parts](SlotTable slots, int64_t lo, int64_t hi) {
          for (int64_t row = lo; row < hi; ++row) {
            LibraryView line = narrowed(libraryView(parts, slots), 0, row, row + 1);
            line.dims.erase(line.dims.begin());
            line.strides.erase(line.strides.begin());
            libraryReduce(kind, line,
                          narrowed(libraryView(x, slots), cut.dim, pieces.begin(row), pieces.begin(row + 1)), dims);
          }
        },
        pieces.rows);
  }
};

void lowerOnLibrary(Lowering &lowering, const GraphOp &op, Reduction kind) {
  const TensorType &type = lowering.type(op.operands[0]), &result = lowering.type(op.results[0]);
  Element element = wideOf(type.element);
  LibraryReduction reduction{kind, {}, {}, op.ints("dims")};
  bool inPlace = element == type.element &&
                 llvm::none_of(lowering.stridesOf(op.operands[0]), [](int64_t stride) { return stride < 0; });
  reduction.x = inPlace ? lowering.window(op.operands[0])
                        : denseView(lowering.denseAs(op.operands[0], element), element, type.dims);
  reduction.out = denseView(lowering.resultAs(op.results[0], element), element, result.dims);

  int64_t wanted = std::min<int64_t>(type.numel() / kPieceElements, 64);
  Cut byResults = cutOf(reduction.x, reduction.dims, /*reduced=*/false, wanted);
  Cut toParts = cutOf(reduction.x, reduction.dims, /*reduced=*/true, wanted);
  bool partsAreSmall = toParts.pieces * result.numel() * 4 <= type.numel();
  if (byResults.pieces >= 4 || toParts.pieces <= byResults.pieces || !partsAreSmall) {
    lowering.emit(op, reduction.byResults(byResults));
    return;
  }
  llvm::SmallVector<int64_t, 4> dims = {toParts.pieces};
  dims.append(result.dims.begin(), result.dims.end());
  size_t bytes = static_cast<size_t>(toParts.pieces * result.numel()) * byteWidth(element);
  StridedView parts = denseView(lowering.scratch(bytes), element, dims);
  lowering.emitPart(op, reduction.toParts(toParts, parts));
  lowering.emit(op, makeKernel([kind, parts, out = reduction.out](SlotTable slots, int64_t, int64_t) {
                  constexpr int64_t kPieces = 0; // the dim of the parts
                  libraryReduce(kind, libraryView(out, slots), libraryView(parts, slots), kPieces);
                }));
}

/// The sum of x * x along the last dims, without the product in memory.
void lowerSquares(Lowering &lowering, const GraphOp &op, ValueId root) {
  Place x = lowering.dense(root), out = lowering.result(op.results[0]);
  const TensorType &type = lowering.type(op.results[0]);
  int64_t rows = type.numel(), length = lowering.type(root).numel() / std::max<int64_t>(rows, 1);
  int64_t width = static_cast<int64_t>(byteWidth(type.element));
  RowsFn squares = reduceRowsKernel(RowOp::squares, type.element);
  Partition partition(rows, length);
  lowering.emit(op, makeKernel(
                        [=](SlotTable slots, int64_t lo, int64_t hi) {
                          int64_t first = partition.begin(lo), past = partition.begin(hi);
                          squares(out.in(slots) + first * width, x.in(slots) + first * length * width, past - first,
                                  length);
                        },
                        partition.rows));
}

template <Reduction kind>
void lowerReduce(Lowering &lowering, const GraphOp &op) {
  if constexpr (kind != Reduction::product) {
    ValueId root = kind == Reduction::sum ? lowering.rootOf(op.operands[0]) : Lowering::kNoValue;
    RowOp rows = root != Lowering::kNoValue   ? RowOp::squares
                 : kind == Reduction::sum     ? RowOp::sum
                 : kind == Reduction::largest ? RowOp::largest
                                              : RowOp::smallest;
    if (auto rest = lowering.reduceRows(op, rows, root != Lowering::kNoValue ? root : op.operands[0])) {
      if (!rest->dims.empty()) {
        GraphOp remaining = op;
        remaining.operands[0] = rest->value;
        remaining.attrs = {{"dims", rest->dims}};
        lowerReduce<kind>(lowering, remaining);
      }
      return;
    }
    if (root != Lowering::kNoValue) {
      lowerSquares(lowering, op, root);
      return;
    }
  }
  const TensorType &type = lowering.type(op.operands[0]);
  if (op.ints("dims").empty()) {
    // Nothing is reduced; the library would take an empty list as all dims.
    lowering.alias(op.results[0], op.operands[0], lowering.offsetOf(op.operands[0]),
                   lowering.stridesOf(op.operands[0]));
    return;
  }
  Element element = wideOf(type.element);
  bool library = kind != Reduction::product && (isFloat(element) || (isComplex(element) && kind == Reduction::sum));
  // Which loop adds up changes a sum's bits. Of an extreme it may only choose among equals: zeros, NaNs.
  library = library && (kind == Reduction::sum || type.numel() > kPlainElements);
  if (!library || (kind != Reduction::sum && lowering.type(op.results[0]).numel() == 0)) {
    lowerPlain<kind>(lowering, op);
  } else {
    lowerOnLibrary(lowering, op, kind);
  }
}

} // namespace

const LowerFn kernels::lower_reduce_sum = lowerReduce<Reduction::sum>;
const LowerFn kernels::lower_reduce_prod = lowerReduce<Reduction::product>;
const LowerFn kernels::lower_reduce_max = lowerReduce<Reduction::largest>;
const LowerFn kernels::lower_reduce_min = lowerReduce<Reduction::smallest>;

} // namespace sojourn::runtime
