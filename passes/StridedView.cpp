// SPDX-License-Identifier: Apache-2.0
// Factorises strides over a storage. The storage is a number line of elements; a cut at stride C splits it into blocks
// of C. Walking from the outermost dim of the window to the innermost, the cuts of the storage's own dims are kept
// where they can be (a dim that stands for rows stays a dim), and others are made where the window needs them.
#include "passes/StridedView.h"
#include "dialect/Box.h"
#include "dialect/CapturedOps.h"
#include "dialect/ElementwiseOps.h"
#include "dialect/IndexOps.h"
#include "dialect/LayoutOps.h"
#include "dialect/SourceOps.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVectorExtras.h"

#include <numeric>

using namespace mlir;
using namespace sojourn;

bool sojourn::isExpanded(RefType window) {
  for (auto [size, stride] : llvm::zip(window.getShape(), window.getStrides())) {
    if (stride == 0 && size > 1) {
      return true;
    }
  }
  return false;
}

bool sojourn::isSameLayout(RefType a, RefType b) {
  if (a.getShape() != b.getShape() || a.getElementType() != b.getElementType()) {
    return false;
  }
  if (a.getNumElements() == 0) {
    return true;
  }
  if (a.getOffset() != b.getOffset()) {
    return false;
  }
  for (auto [size, left, right] : llvm::zip(a.getShape(), a.getStrides(), b.getStrides())) {
    if (size > 1 && left != right) {
      return false;
    }
  }
  return true;
}

namespace {
/// Builds a plan from the outside in. `block` is the number of elements in which everything that is still to be
/// placed lies, `offset` where it starts there.
class Planner {
public:
  Planner(ArrayRef<int64_t> storage, int64_t offset) : offset(offset) {
    for (int64_t size : storage) {
      block *= size;
    }
    int64_t cut = block;
    for (int64_t size : storage) {
      cut /= size;
      cuts.push_back(cut);
    }
    cuts.push_back(1);
  }

  /// Splits blocks off at the storage's own cuts as long as what is to be placed, `span` elements from first to
  /// last, stays inside one of them.
  void enterBlocks(int64_t span) {
    for (int64_t cut : cuts) {
      if (cut < block && block % cut == 0 && offset % cut + span <= cut) {
        emit(cut, /*count=*/1, /*step=*/1);
      }
    }
  }

  /// Places one dim; `inner` is the span of the dims inside it. False when there is no way.
  bool place(int64_t size, int64_t stride, int64_t inner) {
    int64_t cut = findCut(stride, inner);
    if (cut == 0) {
      // Blocks of `stride` elements would do but do not divide the present block: cut the surplus off first.
      int64_t length = size * stride;
      if (inner > stride || length > block) {
        return false;
      }
      int64_t first = std::min(offset, block - length);
      if (offset - first + inner > stride) {
        return false;
      }
      current.shape.push_back(block);
      current.start.push_back(first);
      current.limit.push_back(first + length);
      current.stride.push_back(1);
      restart(length);
      offset -= first;
      cut = stride;
    }
    emit(cut, size, stride / cut);
    return true;
  }

  WindowPlan finish(WindowPlan plan) {
    stages.push_back(std::move(current));
    plan.stages = std::move(stages);
    return plan;
  }

private:
  int64_t findCut(int64_t stride, int64_t inner) const {
    auto fits = [&](int64_t cut) {
      return cut <= block && block % cut == 0 && stride % cut == 0 && offset % cut + inner <= cut;
    };
    for (int64_t cut : cuts) {
      if (fits(cut)) {
        return cut;
      }
    }
    int64_t common = std::gcd(stride, block);
    return fits(common) ? common : 0;
  }

  /// Adds the dim that counts blocks of `cut` elements inside the present block, of which `count` are taken.
  void emit(int64_t cut, int64_t count, int64_t step) {
    int64_t start = offset / cut;
    current.shape.push_back(block / cut);
    current.start.push_back(start);
    current.limit.push_back(start + (count - 1) * step + 1);
    current.stride.push_back(step);
    block = cut;
    offset %= cut;
  }

  /// Ends the stage: what was placed keeps its dims, the rest is one block of `length` elements.
  void restart(int64_t length) {
    WindowPlan::Stage next;
    for (size_t i = 0; i + 1 < current.shape.size(); ++i) {
      int64_t size = (current.limit[i] - current.start[i] + current.stride[i] - 1) / current.stride[i];
      next.shape.push_back(size);
      next.start.push_back(0);
      next.limit.push_back(size);
      next.stride.push_back(1);
    }
    stages.push_back(std::move(current));
    current = std::move(next);
    block = length;
    cuts = {1};
  }

  SmallVector<WindowPlan::Stage, 2> stages;
  WindowPlan::Stage current;
  SmallVector<int64_t> cuts;
  int64_t block = 1;
  int64_t offset;
};
} // namespace

std::optional<WindowPlan> sojourn::planWindow(ArrayRef<int64_t> storage, RefType window) {
  WindowPlan plan;
  for (auto [dim, size] : llvm::enumerate(window.getShape())) {
    if (size > 1 && window.getStrides()[dim] > 0) {
      plan.kept.push_back(static_cast<int64_t>(dim));
    }
  }
  SmallVector<int64_t> order(plan.kept);
  llvm::stable_sort(order, [&](int64_t a, int64_t b) { return window.getStrides()[a] > window.getStrides()[b]; });
  for (int64_t dim : plan.kept) {
    plan.perm.push_back(llvm::find(order, dim) - order.begin());
  }
  // spans[k]: elements from the first to the last that the dims from order[k] on reach.
  SmallVector<int64_t> spans(order.size() + 1, 1);
  for (size_t k = order.size(); k-- > 0;) {
    spans[k] = spans[k + 1] + (window.getShape()[order[k]] - 1) * window.getStrides()[order[k]];
  }
  Planner planner(storage, window.getOffset());
  for (auto [k, dim] : llvm::enumerate(order)) {
    planner.enterBlocks(spans[k]);
    if (!planner.place(window.getShape()[dim], window.getStrides()[dim], spans[k + 1])) {
      return std::nullopt;
    }
    plan.dense.push_back(window.getShape()[dim]);
  }
  planner.enterBlocks(1);
  return planner.finish(std::move(plan));
}

static RankedTensorType tensorType(Value x) { return cast<RankedTensorType>(x.getType()); }

Value sojourn::reshapeTo(OpBuilder &builder, Location loc, Value x, ArrayRef<int64_t> shape) {
  if (tensorType(x).getShape() == shape) {
    return x;
  }
  return ReshapeOp::create(builder, loc, RankedTensorType::get(shape, tensorType(x).getElementType()), x);
}

Value sojourn::transposeBy(OpBuilder &builder, Location loc, Value x, ArrayRef<int64_t> perm) {
  bool identity =
      llvm::all_of(llvm::enumerate(perm), [](auto item) { return static_cast<int64_t>(item.index()) == item.value(); });
  if (identity) {
    return x;
  }
  RankedTensorType type = tensorType(x);
  SmallVector<int64_t> shape = llvm::map_to_vector(perm, [&](int64_t from) { return type.getDimSize(from); });
  return TransposeOp::create(builder, loc, type.clone(shape), x, perm);
}

/// Dims of a root in the order of its storage, outermost first.
static SmallVector<int64_t> storageOrder(RefType root) {
  SmallVector<int64_t> order(root.getShape().size());
  std::iota(order.begin(), order.end(), 0);
  llvm::stable_sort(order, [&](int64_t a, int64_t b) { return root.getStrides()[a] > root.getStrides()[b]; });
  return order;
}

static SmallVector<int64_t> inverse(ArrayRef<int64_t> perm) {
  SmallVector<int64_t> result(perm.size());
  for (auto [i, p] : llvm::enumerate(perm)) {
    result[p] = static_cast<int64_t>(i);
  }
  return result;
}

static SmallVector<int64_t> gather(ArrayRef<int64_t> values, ArrayRef<int64_t> indices) {
  return llvm::map_to_vector(indices, [&](int64_t i) { return values[i]; });
}

SmallVector<int64_t> WindowPlan::Stage::sliced() const {
  SmallVector<int64_t> sizes;
  for (auto [from, to, step] : llvm::zip(start, limit, stride)) {
    sizes.push_back((to - from + step - 1) / step);
  }
  return sizes;
}

static bool isWhole(const WindowPlan::Stage &stage) {
  for (auto [size, start, limit, stride] : llvm::zip(stage.shape, stage.start, stage.limit, stage.stride)) {
    if (start != 0 || limit != size || stride != 1) {
      return false;
    }
  }
  return true;
}

/// Position in the storage of every element of the window, as i64.
static Value storagePositions(OpBuilder &builder, Location loc, RefType window) {
  auto type = RankedTensorType::get(window.getShape(), builder.getI64Type());
  auto constant = [&](int64_t value) -> Value {
    return ConstantOp::create(builder, loc, RankedTensorType::get({}, builder.getI64Type()),
                              builder.getI64IntegerAttr(value));
  };
  Value sum;
  for (auto [dim, stride] : llvm::enumerate(window.getStrides())) {
    if (window.getShape()[dim] <= 1 || stride == 0) {
      continue;
    }
    Value part = IotaOp::create(builder, loc, type, static_cast<int64_t>(dim));
    if (stride != 1) {
      part = MulOp::create(builder, loc, type, part, constant(stride));
    }
    sum = sum ? Value(AddOp::create(builder, loc, type, sum, part)) : part;
  }
  if (!sum) {
    return BroadcastOp::create(builder, loc, type, constant(window.getOffset()), ArrayRef<int64_t>());
  }
  return window.getOffset() == 0 ? sum : Value(AddOp::create(builder, loc, type, sum, constant(window.getOffset())));
}

static Value sliceStage(OpBuilder &builder, Location loc, Value x, const WindowPlan::Stage &stage) {
  return isWhole(stage) ? x
                        : SliceOp::create(builder, loc, tensorType(x).clone(stage.sliced()), x, stage.start,
                                          stage.limit, stage.stride)
                              .getResult();
}

/// What each stage slices, on the way from the storage to the window.
static SmallVector<Value> runStages(OpBuilder &builder, Location loc, Value storage, const WindowPlan &plan) {
  SmallVector<Value> before;
  for (auto [i, stage] : llvm::enumerate(plan.stages)) {
    if (i > 0) {
      storage = sliceStage(builder, loc, storage, plan.stages[i - 1]);
    }
    storage = reshapeTo(builder, loc, storage, stage.shape);
    before.push_back(storage);
  }
  return before;
}

Value sojourn::readWindow(OpBuilder &builder, Location loc, Value storage, RefType root, RefType window) {
  if (isSameLayout(root, window)) {
    return storage;
  }
  auto type = window.getTensorType();
  if (window.getNumElements() == 0) {
    // Nothing to read: an empty slice of the storage is the plainest empty tensor.
    Value flat = reshapeTo(builder, loc, storage, {root.getNumElements()});
    Value none = SliceOp::create(builder, loc, tensorType(flat).clone(ArrayRef<int64_t>{0}), flat, ArrayRef<int64_t>{0},
                                 ArrayRef<int64_t>{0}, ArrayRef<int64_t>{1});
    return reshapeTo(builder, loc, none, window.getShape());
  }
  SmallVector<int64_t> order = storageOrder(root);
  storage = transposeBy(builder, loc, storage, order);
  std::optional<WindowPlan> plan = planWindow(gather(root.getShape(), order), window);
  if (!plan) {
    Value flat = reshapeTo(builder, loc, storage, {root.getNumElements()});
    return TakeOp::create(builder, loc, type, flat, storagePositions(builder, loc, window), /*dim=*/int64_t(0));
  }
  Value x = sliceStage(builder, loc, runStages(builder, loc, storage, *plan).back(), plan->stages.back());
  x = reshapeTo(builder, loc, x, plan->dense);
  x = transposeBy(builder, loc, x, plan->perm);
  if (isExpanded(window)) {
    return BroadcastOp::create(builder, loc, type, x, plan->kept);
  }
  return reshapeTo(builder, loc, x, window.getShape());
}

Value sojourn::writeWindow(OpBuilder &builder, Location loc, Value storage, RefType root, RefType window,
                           Value update) {
  if (isSameLayout(root, window)) {
    return update;
  }
  if (window.getNumElements() == 0) {
    return storage;
  }
  SmallVector<int64_t> order = storageOrder(root);
  SmallVector<int64_t> dims = gather(root.getShape(), order);
  storage = transposeBy(builder, loc, storage, order);
  Value x;
  if (std::optional<WindowPlan> plan = planWindow(dims, window)) {
    x = reshapeTo(builder, loc, update, gather(window.getShape(), plan->kept));
    x = transposeBy(builder, loc, x, inverse(plan->perm));
    SmallVector<Value> before = runStages(builder, loc, storage, *plan);
    for (size_t i = plan->stages.size(); i-- > 0;) {
      const WindowPlan::Stage &stage = plan->stages[i];
      x = reshapeTo(builder, loc, x, stage.sliced());
      if (!isWhole(stage)) {
        x = UpdateSliceOp::create(builder, loc, before[i].getType(), before[i], x, stage.start, stage.stride);
      }
    }
  } else {
    Value flat = reshapeTo(builder, loc, storage, {root.getNumElements()});
    x = PutOp::create(builder, loc, flat.getType(), flat, storagePositions(builder, loc, window), update,
                      /*dim=*/int64_t(0), "set");
  }
  x = reshapeTo(builder, loc, x, dims);
  return transposeBy(builder, loc, x, inverse(order));
}

namespace {
/// The part of a storage within which a moved window lies still: what it reaches over along the dims that it is moved
/// along, all of the others.
struct Slab {
  RefType root, window;
  SmallVector<int64_t> sizes; ///< along the dims that move
};
} // namespace

static Slab slabOf(MovedViewOp op) {
  RefType type = op.getResult().getType();
  std::optional<Box> box = boxOf(op.getShape(), type.getShape(), type.getStrides(), type.getOffset());
  Slab slab;
  SmallVector<int64_t> shape(op.getShape()), strides;
  for (int64_t dim : op.getDims()) {
    shape[dim] = box->spans[dim];
    slab.sizes.push_back(box->spans[dim]);
  }
  slab.root = RefType::get(shape, type.getElementType());
  ArrayRef<int64_t> places = slab.root.getStrides();
  for (auto [dim, step] : llvm::zip(box->dims, box->steps)) {
    strides.push_back(dim < 0 ? 0 : step * places[dim]);
  }
  int64_t offset = 0;
  for (auto [start, place] : llvm::zip(box->starts, places)) {
    offset += start * place;
  }
  slab.window = RefType::get(type.getShape(), type.getElementType(), strides, offset);
  return slab;
}

/// The storage as the dims that the window is told in.
static Value asSeen(OpBuilder &builder, Location loc, Value storage, RefType root, MovedViewOp op) {
  return reshapeTo(builder, loc, transposeBy(builder, loc, storage, storageOrder(root)), op.getShape());
}

Value sojourn::readMoved(OpBuilder &builder, Location loc, Value storage, RefType root, MovedViewOp op) {
  Slab slab = slabOf(op);
  Value seen = asSeen(builder, loc, storage, root, op);
  Value part =
      DynamicSliceOp::create(builder, loc, slab.root.getTensorType(), seen, op.getPlaces(), op.getDims(), slab.sizes);
  return readWindow(builder, loc, part, slab.root, slab.window);
}

Value sojourn::writeMoved(OpBuilder &builder, Location loc, Value storage, RefType root, MovedViewOp op, Value update) {
  Slab slab = slabOf(op);
  Value seen = asSeen(builder, loc, storage, root, op);
  if (!isSameLayout(slab.root, slab.window)) {
    Value part =
        DynamicSliceOp::create(builder, loc, slab.root.getTensorType(), seen, op.getPlaces(), op.getDims(), slab.sizes);
    update = writeWindow(builder, loc, part, slab.root, slab.window, update);
  }
  Value written =
      DynamicUpdateSliceOp::create(builder, loc, seen.getType(), seen, update, op.getPlaces(), op.getDims());
  SmallVector<int64_t> order = storageOrder(root);
  written = reshapeTo(builder, loc, written, gather(root.getShape(), order));
  return transposeBy(builder, loc, written, inverse(order));
}
