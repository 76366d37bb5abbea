// SPDX-License-Identifier: Apache-2.0
// Matrix products: own ones of f32, whose right side is laid out once for all products that take it, and the library's.
// Operands are read as they lie where that is possible; else a chain copies them first. A product is cut into tiles, or
// groups of small products, by its shape alone.
#include "runtime/Elements.h"
#include "runtime/Library.h"
#include <bit>
#include <cmath>
#include <optional>

namespace sojourn::runtime {

namespace {

/// Dims of one role, and what they are as one dim, if one stride walks them.
struct Group {
  int64_t size = 1, stride = 0;
  bool isLine = true;
};

Group groupOf(const StridedView &view, llvm::ArrayRef<int64_t> which) {
  Group group;
  for (int64_t index : which) {
    size_t d = static_cast<size_t>(index);
    if (view.dims[d] == 1) {
      continue;
    }
    if (group.size != 1 && group.stride != view.strides[d] * view.dims[d]) {
      group.isLine = false;
    }
    group.size *= view.dims[d];
    group.stride = view.strides[d];
  }
  group.isLine &= group.stride >= 0;
  return group;
}

std::vector<int64_t> freeDims(unsigned rank, llvm::ArrayRef<int64_t> batch, llvm::ArrayRef<int64_t> contract) {
  std::vector<int64_t> dims;
  for (int64_t d = 0; d < static_cast<int64_t>(rank); ++d) {
    if (!llvm::is_contained(batch, d) && !llvm::is_contained(contract, d)) {
      dims.push_back(d);
    }
  }
  return dims;
}

/// One side of a product as [batch, rows, columns].
StridedView sideOf(Lowering &lowering, ValueId value, llvm::ArrayRef<int64_t> batch, llvm::ArrayRef<int64_t> rows,
                   llvm::ArrayRef<int64_t> columns, Element element) {
  if (lowering.type(value).element == element) {
    StridedView view;
    view.dims = lowering.type(value).dims;
    view.strides = lowering.stridesOf(value);
    Group b = groupOf(view, batch), r = groupOf(view, rows), c = groupOf(view, columns);
    bool unitColumn = (c.stride == 1 || c.size == 1) && (r.size == 1 || r.stride >= std::max<int64_t>(1, c.size));
    bool unitRow = (r.stride == 1 || r.size == 1) && (c.size == 1 || c.stride >= std::max<int64_t>(1, r.size));
    if (b.isLine && r.isLine && c.isLine && (unitColumn || unitRow)) {
      // A dim of one element has no stride of its own; give it the one that BLAS expects.
      int64_t columnStride = c.size != 1 ? c.stride : unitRow && r.size != 1 ? r.size : 1;
      int64_t rowStride = r.size != 1              ? r.stride
                          : unitRow && !unitColumn ? 1
                                                   : std::max<int64_t>(c.size, 1) * columnStride;
      view = lowering.window(value);
      view.dims = {b.size, r.size, c.size};
      view.strides = {b.stride, rowStride, columnStride};
      return view;
    }
  }
  std::vector<int64_t> perm;
  int64_t sizes[3] = {1, 1, 1};
  llvm::ArrayRef<int64_t> groups[3] = {batch, rows, columns};
  for (size_t k = 0; k < 3; ++k) {
    for (int64_t d : groups[k]) {
      perm.push_back(d);
      sizes[k] *= lowering.type(value).dims[static_cast<size_t>(d)];
    }
  }
  return denseView(lowering.denseAs(lowering.permuted(value, perm), element), element, sizes);
}

/// How a product is cut: groups of whole matrices where they are small, tiles of each where large.
struct Tiling {
  Partition batches;
  int64_t batchCount, rows, columns, rowTiles = 1, columnTiles = 1;

  Tiling(int64_t batchCount, int64_t rows, int64_t inner, int64_t columns)
      : batchCount(batchCount), rows(rows), columns(columns) {
    double work = 2.0 * static_cast<double>(rows) * static_cast<double>(inner) * static_cast<double>(columns);
    if (batchCount > 1 && work < kTileWork * 8) {
      batches = Partition(batchCount, static_cast<int64_t>(work / kTileWork * Partition::kRowWork));
      return;
    }
    batches = Partition(batchCount, int64_t{1} << 40, batchCount);
    auto tiles = static_cast<int64_t>(std::min(work / kTileWork, 64.0));
    // Rows of the result lie together: a cut between them costs the library less than one through them.
    bool byRows = rows >= columns || (rows >= kTileSide / 2 && tilesOf(rows, tiles) >= tilesOf(columns, tiles));
    int64_t &first = byRows ? rowTiles : columnTiles, &second = byRows ? columnTiles : rowTiles;
    first = tilesOf(byRows ? rows : columns, tiles);
    second = std::min(rows, columns) >= 4 * kTileSide ? tilesOf(byRows ? columns : rows, tiles / first) : 1;
    enlarge(first, byRows ? rows : columns, work / kTileWorkMost / static_cast<double>(second));
    enlarge(second, byRows ? columns : rows, work / kTileWorkMost / static_cast<double>(first));
  }
  int64_t count() const { return batches.rows * rowTiles * columnTiles; }

private:
  // Work that is worth a thread; below this side a tile pays too much for packing the other operand.
  static constexpr double kTileWork = 2e6;
  static constexpr int64_t kTileSide = 256;
  // No tile has more if its sides have 64 elements: a run ends between two.
  static constexpr double kTileWorkMost = 4e9;
  static constexpr int64_t kTileSideLeast = 64;

  static void enlarge(int64_t &tiles, int64_t size, double wanted) {
    const double most = std::min(static_cast<double>(size / kTileSideLeast), std::ceil(wanted));
    if (most > static_cast<double>(tiles)) {
      tiles = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(most)));
      tiles = tiles * kTileSideLeast > size ? tiles / 2 : tiles;
    }
  }
  /// A power of two, so that tiles fall evenly on two, four or eight threads.
  static int64_t tilesOf(int64_t size, int64_t wanted) {
    int64_t most = size >= 4 * kTileSide ? size / (2 * kTileSide) : size >= 64 ? 2 : 1;
    int64_t tiles = std::clamp<int64_t>(std::min(most, wanted), 1, 16);
    return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(tiles)));
  }
};

// --- Own products ---------------------------------------------------------------------------------

/// A side of an own product: matrices whose dims each have one stride, at offsets of their own.
struct Side {
  StridedView view; ///< of the batch dims
  int64_t rowPitch = 0, columnPitch = 0;

  const float *matrix(SlotTable slots, int64_t batch) const {
    int64_t at = view.offset;
    for (size_t d = view.dims.size(); d-- > 0; batch /= view.dims[d]) {
      at += batch % view.dims[d] * view.strides[d];
    }
    return static_cast<const float *>(slots[view.slot]) + at;
  }
};

Side ownSideOf(Lowering &lowering, ValueId value, llvm::ArrayRef<int64_t> batch, llvm::ArrayRef<int64_t> rows,
               llvm::ArrayRef<int64_t> columns) {
  Side side;
  StridedView view;
  view.dims = lowering.type(value).dims;
  view.strides = lowering.stridesOf(value);
  Group r = groupOf(view, rows), c = groupOf(view, columns);
  bool isNear = r.stride == 1 || c.stride == 1 || r.size == 1 || c.size == 1;
  if (lowering.type(value).element == Element::f32 && r.isLine && c.isLine && isNear) {
    side.view = lowering.window(value);
    view.dims.clear();
    view.strides.clear();
    for (int64_t d : batch) {
      view.dims.push_back(side.view.dims[static_cast<size_t>(d)]);
      view.strides.push_back(side.view.strides[static_cast<size_t>(d)]);
    }
    side.view.dims = view.dims;
    side.view.strides = view.strides;
    side.rowPitch = r.stride;
    side.columnPitch = c.stride;
    return side;
  }
  StridedView copy = sideOf(lowering, value, batch, rows, columns, Element::f32);
  side.rowPitch = copy.strides[1];
  side.columnPitch = copy.strides[2];
  side.view = copy;
  side.view.dims = {copy.dims[0]};
  side.view.strides = {copy.strides[0]};
  return side;
}

int64_t stripsOf(int64_t columns) { return (columns + kStrip - 1) / kStrip; }

struct ProductShape {
  int64_t batches = 1, rows = 1, inner = 1, columns = 1;
};

/// Where laying the right side out pays, and most columns of its strips are used.
bool ownsProduct(Element element, const ProductShape &shape) {
  constexpr int64_t kRowsLeast = 8;
  return productKernels(element).product != nullptr && shape.rows >= kRowsLeast &&
         5 * shape.columns >= 3 * stripsOf(shape.columns) * kStrip;
}

/// The right side in strips, [batch, strip, inner, kStrip]: made for the first product that asks.
Place packedSide(Lowering &lowering, const GraphOp &op, const ProductShape &shape, llvm::ArrayRef<int64_t> batch,
                 llvm::ArrayRef<int64_t> contract, llvm::ArrayRef<int64_t> free) {
  std::vector<int64_t> key = {op.operands[1], static_cast<int64_t>(batch.size())};
  key.insert(key.end(), batch.begin(), batch.end());
  key.insert(key.end(), contract.begin(), contract.end());
  const int64_t strips = stripsOf(shape.columns), stripElements = shape.inner * kStrip;
  bool isNew = false;
  const size_t bytes = static_cast<size_t>(shape.batches * strips * stripElements) * sizeof(float);
  Place place = lowering.shared(key, bytes, isNew);
  if (!isNew) {
    return place;
  }
  Side side = ownSideOf(lowering, op.operands[1], batch, contract, free);
  Partition partition(shape.batches * strips, stripElements);
  PackFn pack = productKernels(Element::f32).pack;
  auto kernel = [=](SlotTable slots, int64_t lo, int64_t hi) {
    for (int64_t item = partition.begin(lo); item < partition.begin(hi);) {
      int64_t from = item % strips, past = std::min(strips, from + partition.begin(hi) - item);
      pack(place.in<float>(slots) + item * stripElements,
           side.matrix(slots, item / strips) + from * kStrip * side.columnPitch, side.rowPitch, side.columnPitch,
           shape.inner, std::min(shape.columns, past * kStrip) - from * kStrip);
      item += past - from;
    }
  };
  lowering.emitFor(op, "right side", makeKernel(kernel, partition.rows), lowering.type(op.operands[1]).bytes() + bytes);
  return place;
}

void emitOwn(Lowering &lowering, const GraphOp &op, const ProductShape &shape, const Side &a, Place packed, Place out,
             std::optional<Place> addend) {
  Tiling tiling(shape.batches, shape.rows, shape.inner, shape.columns);
  const int64_t strips = stripsOf(shape.columns);
  tiling.columnTiles = std::min(tiling.columnTiles, strips);
  ProductFn product = productKernels(Element::f32).product;
  auto kernel = [=](SlotTable slots, int64_t lo, int64_t hi) {
    for (int64_t tile = lo; tile < hi; ++tile) {
      int64_t group = tile / (tiling.rowTiles * tiling.columnTiles);
      int64_t row = tile / tiling.columnTiles % tiling.rowTiles, column = tile % tiling.columnTiles;
      int64_t first = shape.rows * row / tiling.rowTiles, past = shape.rows * (row + 1) / tiling.rowTiles;
      int64_t strip = strips * column / tiling.columnTiles, pastStrip = strips * (column + 1) / tiling.columnTiles;
      for (int64_t batch = tiling.batches.begin(group); batch < tiling.batches.begin(group + 1); ++batch) {
        const int64_t at = (batch * shape.rows + first) * shape.columns + strip * kStrip;
        product(out.in<float>(slots) + at, shape.columns, a.matrix(slots, batch) + first * a.rowPitch, a.rowPitch,
                a.columnPitch, packed.in<float>(slots) + (batch * strips + strip) * shape.inner * kStrip, shape.inner,
                past - first, std::min(shape.columns, pastStrip * kStrip) - strip * kStrip,
                addend ? addend->in<float>(slots) + at : nullptr);
      }
    }
  };
  lowering.libraryCalls(op, tiling.count());
  lowering.emit(op, makeKernel(kernel, tiling.count()));
}

// --- Lowering -------------------------------------------------------------------------------------

/// What a dot multiplies: its dims by their roles, and the sizes of these.
struct Dot {
  const std::vector<int64_t> &lhsBatch, &rhsBatch, &lhsContract, &rhsContract;
  std::vector<int64_t> lhsFree, rhsFree;
  Element element;
  ProductShape shape;

  Dot(const Lowering &lowering, const GraphOp &op)
      : lhsBatch(op.ints("lhs_batch")), rhsBatch(op.ints("rhs_batch")), lhsContract(op.ints("lhs_contract")),
        rhsContract(op.ints("rhs_contract")) {
    const TensorType &a = lowering.type(op.operands[0]), &b = lowering.type(op.operands[1]);
    lhsFree = freeDims(a.rank(), lhsBatch, lhsContract);
    rhsFree = freeDims(b.rank(), rhsBatch, rhsContract);
    element = wideOf(a.element);
    auto size = [](const TensorType &type, llvm::ArrayRef<int64_t> dims) {
      int64_t count = 1;
      for (int64_t d : dims) {
        count *= type.dims[static_cast<size_t>(d)];
      }
      return count;
    };
    shape = {size(a, lhsBatch), size(a, lhsFree), size(a, lhsContract), size(b, rhsFree)};
  }
  bool isEmpty() const { return shape.batches * shape.rows * shape.columns == 0 || shape.inner == 0; }
  bool isOwn() const { return !isEmpty() && ownsProduct(element, shape); }
};

/// `result`: the dot's, or that of a sum of it and `addend`.
void lowerOwn(Lowering &lowering, const GraphOp &dot, ValueId result, const Dot &roles, std::optional<ValueId> addend) {
  Place packed = packedSide(lowering, dot, roles.shape, roles.rhsBatch, roles.rhsContract, roles.rhsFree);
  Side left = ownSideOf(lowering, dot.operands[0], roles.lhsBatch, roles.lhsFree, roles.lhsContract);
  std::optional<Place> more;
  if (addend) {
    more = lowering.dense(*addend);
  }
  Place out = lowering.resultAs(result, roles.element);
  if (more) {
    lowering.mayReuse(out, *more);
  }
  emitOwn(lowering, dot, roles.shape, left, packed, out, more);
}

void lowerDot(Lowering &lowering, const GraphOp &op) {
  Dot roles(lowering, op);
  if (roles.isEmpty()) {
    emitZeros(lowering, op);
    return;
  }
  if (roles.isOwn()) {
    lowerOwn(lowering, op, op.results[0], roles, std::nullopt);
    return;
  }
  const auto &[lhsBatch, rhsBatch, lhsContract, rhsContract, lhsFree, rhsFree, element, shape] = roles;
  const auto [batches, rows, inner, columns] = shape;
  StridedView a = sideOf(lowering, op.operands[0], lhsBatch, lhsFree, lhsContract, element);
  StridedView b = sideOf(lowering, op.operands[1], rhsBatch, rhsContract, rhsFree, element);
  StridedView c = denseView(lowering.resultAs(op.results[0], element), element, {batches, rows, columns});
  Tiling tiling(batches, rows, inner, columns);
  auto kernel = [=](SlotTable slots, int64_t lo, int64_t hi) {
    for (int64_t tile = lo; tile < hi; ++tile) {
      MatrixView left(a, slots), right(b, slots), out(c, slots);
      int64_t group = tile / (tiling.rowTiles * tiling.columnTiles);
      int64_t row = tile / tiling.columnTiles % tiling.rowTiles, column = tile % tiling.columnTiles;
      for (MatrixView *view : {&left, &right, &out}) {
        view->narrow(0, tiling.batches.begin(group), tiling.batches.begin(group + 1));
      }
      for (MatrixView *view : {&left, &out}) {
        view->narrow(1, rows * row / tiling.rowTiles, rows * (row + 1) / tiling.rowTiles);
      }
      for (MatrixView *view : {&right, &out}) {
        view->narrow(2, columns * column / tiling.columnTiles, columns * (column + 1) / tiling.columnTiles);
      }
      libraryProduct(out, left, right);
    }
  };
  lowering.libraryCalls(op, tiling.count());
  lowering.emit(op, makeKernel(kernel, tiling.count()));
}

} // namespace

bool addsInProduct(const Lowering &lowering, const GraphOp &dot) {
  Dot roles(lowering, dot);
  return lowering.type(dot.results[0]).element == Element::f32 && roles.isOwn() && roles.shape.inner <= kProductDepth;
}

void lowerProductSum(Lowering &lowering, const GraphOp &dot, const GraphOp &sum) {
  ValueId addend = sum.operands[sum.operands[0] == dot.results[0] ? 1 : 0];
  lowerOwn(lowering, dot, sum.results[0], Dot(lowering, dot), addend);
}

const LowerFn kernels::lower_dot = lowerDot;

} // namespace sojourn::runtime
