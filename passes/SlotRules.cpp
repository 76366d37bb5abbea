// SPDX-License-Identifier: Apache-2.0
// Rules of ops of the second reading: each moves one dim, a product outer x slots x inner.
#include "passes/SlotRules.h"

#include "dialect/Base.h"
#include "dialect/Dialect.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace sojourn;

namespace {

using Kind = SlotReading::Kind;
int64_t listSize(const SlotPlace &place) { return cast<RankedTensorType>(place.root.getType()).getNumElements(); }

SlotPlace summed(SlotPlace place) { return place.slots = 0, place; }

/// Slots at, at + stride, ... of those of the place. Slots from a dynamic start stay together: where it is clamped
/// depends on how many they are.
Found part(SlotPlace place, int64_t at, int64_t stride, int64_t count) {
  if (at == 0 && count == place.slots) {
    return place;
  }
  place.first += place.step * at;
  place.step = count == 1 ? 1 : place.step * stride;
  place.slots = count;
  return place.start ? std::nullopt : Found(place);
}

/// Elements start, start + stride, ... of the dim of the slots.
Found sliced(SlotPlace place, int64_t start, int64_t count, int64_t stride) {
  int64_t block = place.slots * place.inner, last = start + (count - 1) * stride;
  stride = count == 1 ? 1 : stride;
  if (stride == 1 && start % block == 0 && count % block == 0) {
    place.outer = count / block;
    return place;
  }
  if (stride == place.inner && start < stride && count == place.outer * place.slots) { // one element of each row
    place.inner = 1;
    return place;
  }
  if (start / block != last / block) {
    return std::nullopt;
  }
  int64_t slot = start % block / place.inner, lastSlot = last % block / place.inner, inner = place.inner;
  place.outer = 1;
  if (slot == lastSlot) {
    place.inner = count;
    return part(place, slot, 1, 1);
  }
  if (stride % inner == 0) { // one element of some rows
    place.inner = 1;
    return part(place, slot, stride / inner, count);
  }
  return stride == 1 && start % inner == 0 && count % inner == 0 ? part(place, slot, 1, count / inner) : std::nullopt;
}

/// The dim of the slots with `low` elements of no row before it, `high` behind it and `gap` between neighbours: as
/// wider rows, or among the slots that a slice left out. Both may be true, for elements of no row may count as any
/// slot's.
SmallVector<SlotPlace, 2> widened(const SlotPlace &place, int64_t low, int64_t gap, int64_t high) {
  if (low == 0 && gap == 0 && high == 0) {
    return {place};
  }
  SmallVector<SlotPlace, 2> found;
  if (low >= 0 && high >= 0 && low + high == gap) {
    found.push_back(place);
    found.back().inner *= gap + 1;
  }
  int64_t size = listSize(place), step = place.slots == 1 ? 1 : place.step / (gap + 1), inner = place.inner;
  bool divides = place.slots == 1 ? inner == 1 : place.step % (gap + 1) == 0 && (gap == 0 || inner == 1);
  if (divides && !place.start && place.outer == 1 && low % inner == 0 && high % inner == 0 &&
      std::abs(low / inner) <= size / std::abs(step)) {
    SlotPlace among = place;
    among.first -= step * (low / inner);
    among.slots += (place.slots - 1) * gap + low / inner + high / inner;
    among.step = among.slots == 1 ? 1 : step;
    int64_t last = among.first + among.step * (among.slots - 1);
    if (among.slots > 0 && among.first >= 0 && among.first < size && last >= 0 && last < size) {
      found.push_back(among);
    }
  }
  return found;
}

/// Row-major, the elements are (what is before the slots) x slots x (what is behind them): new dims may split the first
/// and the last of these; where they split the slots, these lie in no dim.
Found reshaped(SlotPlace place, ArrayRef<int64_t> from, ArrayRef<int64_t> to) {
  int64_t before = place.outer, elements = 1;
  for (auto [dim, size] : llvm::enumerate(from)) {
    before *= static_cast<int64_t>(dim) < place.dim ? size : 1;
    elements *= size;
  }
  place.dim = -1;
  place.outer = before;
  place.inner = elements / (before * place.slots);
  for (auto [dim, size] : llvm::enumerate(to)) {
    if (before > 1 ? before % size == 0 : size == 1 && place.slots > 1) {
      before /= size;
      continue;
    }
    if (size % (before * place.slots) == 0) {
      place.dim = static_cast<int64_t>(dim);
      place.outer = before;
      place.inner = size / (before * place.slots);
    }
    break;
  }
  return place;
}

/// Rules of one op whose operands have slots, none of them of rank 0, or come from no row.
struct Rules {
  const DenseMap<Value, SlotReading> &readings;

  /// The place of a value; null for one of no row.
  const SlotPlace *at(Value value) const {
    auto found = readings.find(value);
    return found != readings.end() && found->second.kind == Kind::Slots ? &found->second.place : nullptr;
  }

  /// The one place of all that have slots, where its dim is below `end`.
  Found agreed(ValueRange values, int64_t end = INT64_MAX) const {
    const SlotPlace *shared = nullptr;
    for (Value value : values) {
      const SlotPlace *place = at(value);
      if (place && (place->dim >= end || (shared && !samePlace(*place, *shared)))) {
        return std::nullopt;
      }
      shared = shared ? shared : place;
    }
    return shared ? Found(*shared) : std::nullopt;
  }

  /// The first operand's place where no other operand has slots.
  const SlotPlace *first(Operation *op) const {
    bool alone = llvm::none_of(op->getOperands().drop_front(), [&](Value value) { return at(value) != nullptr; });
    return alone ? at(op->getOperand(0)) : nullptr;
  }

  /// Mixes elements along dims.
  Found along(Value x, ArrayRef<int64_t> dims) const {
    return llvm::is_contained(dims, at(x)->dim) ? std::nullopt : Found(*at(x));
  }

  Found reduced(Value x, ArrayRef<int64_t> dims, bool sums = false) const {
    const SlotPlace &place = *at(x);
    if (llvm::is_contained(dims, place.dim)) {
      return sums ? Found(summed(place)) : std::nullopt;
    }
    return moved(place, place.dim - llvm::count_if(dims, [&](int64_t dim) { return dim < place.dim; }));
  }

  Found dot(DotOp op) const {
    int64_t batch = static_cast<int64_t>(op.getLhsBatch().size());
    int64_t freeOfA = rankOf(op.getA()) - batch - static_cast<int64_t>(op.getLhsContract().size());
    // Dim of the result, or -1 - k for the k-th dim that is contracted.
    auto where = [](int64_t dim, ArrayRef<int64_t> batches, ArrayRef<int64_t> contracts, int64_t result) -> int64_t {
      if (llvm::is_contained(batches, dim)) {
        return llvm::find(batches, dim) - batches.begin();
      }
      if (llvm::is_contained(contracts, dim)) {
        return -1 - (llvm::find(contracts, dim) - contracts.begin());
      }
      for (int64_t other = 0; other < dim; ++other) {
        result += !llvm::is_contained(batches, other) && !llvm::is_contained(contracts, other);
      }
      return result;
    };
    const SlotPlace *a = at(op.getA()), *b = at(op.getB());
    int64_t ofA = a ? where(a->dim, op.getLhsBatch(), op.getLhsContract(), batch) : 0;
    int64_t ofB = b ? where(b->dim, op.getRhsBatch(), op.getRhsContract(), batch + freeOfA) : ofA;
    SlotPlace place = a ? moved(*a, ofA) : moved(*b, ofB);
    if (a && !samePlace(place, moved(b ? *b : *a, ofB))) {
      return std::nullopt;
    }
    return place.dim < 0 ? summed(place) : place;
  }

  Found updateSlice(UpdateSliceOp op) const {
    const SlotPlace *x = at(op.getX()), *u = at(op.getU());
    if (!u) {
      return *x;
    }
    int64_t size = shapeOf(op.getU())[u->dim], low = op.getStart()[u->dim];
    int64_t gap = size == 1 ? 0 : op.getStride()[u->dim] - 1;
    int64_t high = shapeOf(op.getX())[u->dim] - low - size - (size - 1) * gap;
    SmallVector<SlotPlace, 2> places = widened(*u, low, gap, high);
    auto found = llvm::find_if(places, [&](const SlotPlace &place) { return !x || samePlace(*x, place); });
    return found == places.end() ? std::nullopt : Found(*found);
  }

  Found pad(PadOp op) const {
    int64_t dim = at(op.getX()) ? at(op.getX())->dim : 0;
    if (!first(op)) {
      return std::nullopt;
    }
    int64_t gap = shapeOf(op.getX())[dim] == 1 ? 0 : op.getInterior()[dim];
    SmallVector<SlotPlace, 2> places = widened(*first(op), op.getLow()[dim], gap, op.getHigh()[dim]);
    return places.empty() ? std::nullopt : Found(places.front());
  }

  Found dynamicSlice(DynamicSliceOp op) const {
    if (!first(op)) {
      return std::nullopt;
    }
    SlotPlace place = *first(op);
    int64_t k = llvm::find(op.getDims(), place.dim) - op.getDims().begin();
    if (k == static_cast<int64_t>(op.getDims().size()) || op.getSizes()[k] == shapeOf(op.getX())[place.dim]) {
      return place;
    }
    bool canSay = isWhole(place) && place.outer == 1 && place.inner == 1;
    place.slots = op.getSizes()[k];
    place.start = outside(op.getStarts()[k]);
    return canSay ? Found(place) : std::nullopt;
  }

  Found dynamicUpdateSlice(DynamicUpdateSliceOp op) const {
    const SlotPlace *x = at(op.getX()), *u = at(op.getU());
    if (!u || llvm::any_of(op.getStarts(), [&](Value start) { return at(start) != nullptr; })) {
      return first(op) ? Found(*x) : std::nullopt;
    }
    int64_t k = llvm::find(op.getDims(), u->dim) - op.getDims().begin(), size = shapeOf(op.getX())[u->dim];
    if (k == static_cast<int64_t>(op.getDims().size()) || size == shapeOf(op.getU())[u->dim]) {
      return agreed({op.getX(), op.getU()});
    }
    // Back to where dynamic_slice took it from.
    SlotPlace whole = *u;
    whole.slots = size;
    whole.start = Value();
    bool fits = u->start && u->start == outside(op.getStarts()[k]) && isWhole(whole) && u->outer == 1 && u->inner == 1;
    return fits && (!x || samePlace(*x, whole)) ? Found(whole) : std::nullopt;
  }

  Found take(TakeOp op) const {
    const SlotPlace *x = at(op.getX()), *i = at(op.getI());
    int64_t dim = op.getDim();
    if (x && (i || x->dim == dim)) {
      return std::nullopt;
    }
    return !x ? moved(*i, dim + i->dim) : moved(*x, x->dim < dim ? x->dim : x->dim + rankOf(op.getI()) - 1);
  }

  Found put(PutOp op) const {
    const SlotPlace *x = at(op.getX()), *i = at(op.getI()), *u = at(op.getU());
    int64_t dim = op.getDim(), rank = rankOf(op.getI());
    if (!i && !u) {
      return *x;
    }
    SlotPlace place = u ? *u : moved(*i, dim + i->dim);
    if (!i && (place.dim < dim || place.dim >= dim + rank)) {
      place.dim -= place.dim < dim ? 0 : rank - 1;
      return !x || samePlace(*x, place) ? Found(place) : std::nullopt;
    }
    bool isSum = !x && op.getKind() == "add" && (!i || samePlace(place, moved(*i, dim + i->dim)));
    return isSum ? Found(summed(place)) : std::nullopt;
  }

  Found putAlong(PutAlongOp op) const {
    Found written = agreed({op.getI(), op.getU()});
    if (!written || written->dim != static_cast<int64_t>(op.getDim())) {
      bool isRead = written || (!at(op.getI()) && !at(op.getU()));
      return isRead ? agreed(op->getOperands()) : std::nullopt;
    }
    return !at(op.getX()) && op.getKind() == "add" ? Found(summed(*written)) : std::nullopt;
  }

  Found of(Operation *op) const {
    if (op->hasTrait<Elementwise>()) {
      return agreed(op->getOperands());
    }
    return TypeSwitch<Operation *, Found>(op)
        .Case([&](ReduceSumOp o) { return reduced(o.getX(), o.getDims(), true); })
        .Case<ReduceProdOp, ReduceMaxOp, ReduceMinOp>([&](auto o) { return reduced(o.getX(), o.getDims()); })
        .Case<ArgMaxOp, ArgMinOp>([&](auto o) { return reduced(o.getX(), {static_cast<int64_t>(o.getDim())}); })
        .Case<CumSumOp, CumProdOp, CumMaxOp, CumMinOp, CumLogSumExpOp, SortOp, TopKOp>(
            [&](auto o) { return along(o.getX(), {static_cast<int64_t>(o.getDim())}); })
        .Case<FftC2cOp, FftR2cOp, FftC2rOp>([&](auto o) { return along(o.getX(), o.getDims()); })
        .Case<CholeskyOp, LuOp, QrOp, EighOp, SvdOp, LdlOp, EigOp, TriangularSolveOp, LdlSolveOp>(
            [&](auto o) { return agreed(o->getOperands(), rankOf(o->getOperand(0)) - 2); })
        .Case<PoolSumOp, PoolMaxOp>([&](auto o) { return agreed(o->getOperands(), 2); })
        .Case([&](PartsOp o) { return agreed(o->getOperands()); })
        .Case([&](ComplexOp o) { return agreed(o->getOperands(), rankOf(o.getX()) - 1); })
        .Case<ConvOp, ConvGradInputOp>([&](auto o) { return first(o) ? agreed(o->getOperand(0), 1) : std::nullopt; })
        .Case([&](ConvGradWeightOp o) {
          Found found = agreed(o->getOperands(), 1);
          return found ? Found(summed(*found)) : std::nullopt;
        })
        .Case([&](DotOp o) { return dot(o); })
        .Case([&](BroadcastOp o) { return moved(*at(o.getX()), o.getDims()[at(o.getX())->dim]); })
        .Case([&](ReshapeOp o) { return reshaped(*at(o.getX()), shapeOf(o.getX()), shapeOf(o.getResult())); })
        .Case([&](TransposeOp o) {
          return moved(*at(o.getX()), llvm::find(o.getPerm(), at(o.getX())->dim) - o.getPerm().begin());
        })
        .Case([&](SliceOp o) {
          int64_t dim = at(o.getX())->dim;
          return sliced(*at(o.getX()), o.getStart()[dim], shapeOf(o.getResult())[dim], o.getStride()[dim]);
        })
        .Case([&](ReverseOp o) {
          SlotPlace place = *at(o.getX());
          if (llvm::is_contained(o.getDims(), place.dim) && place.slots > 1) {
            place.first += place.step * (place.slots - 1);
            place.step = -place.step;
          }
          return place;
        })
        .Case([&](UpdateSliceOp o) { return updateSlice(o); })
        .Case([&](DynamicSliceOp o) { return dynamicSlice(o); })
        .Case([&](DynamicUpdateSliceOp o) { return dynamicUpdateSlice(o); })
        .Case([&](ConcatOp o) {
          Found found = agreed(o.getInputs());
          return found && found->dim == static_cast<int64_t>(o.getDim()) ? std::nullopt : found;
        })
        .Case([&](PadOp o) { return pad(o); })
        .Case([&](TakeOp o) { return take(o); })
        .Case([&](TakeAlongOp o) {
          const SlotPlace *x = at(o.getX());
          return x && x->dim == static_cast<int64_t>(o.getDim()) ? std::nullopt : agreed(o->getOperands());
        })
        .Case([&](PutOp o) { return put(o); })
        .Case([&](PutAlongOp o) { return putAlong(o); })
        .Case([&](SampleRowsOp o) { return first(o) ? Found(*first(o)) : std::nullopt; })
        .Default(std::nullopt);
  }
};

} // namespace

bool sojourn::samePlace(const SlotPlace &a, const SlotPlace &b) {
  if (a.root != b.root || a.slots != b.slots || a.first != b.first || a.start != b.start) {
    return false;
  }
  return a.slots == 1 || (a.dim == b.dim && a.outer == b.outer && a.inner == b.inner && a.step == b.step);
}

bool sojourn::isWhole(const SlotPlace &place) {
  return place.slots == listSize(place) && place.first == 0 && place.step == 1 && !place.start;
}

Value sojourn::outside(Value value) {
  while (auto argument = dyn_cast_if_present<BlockArgument>(value)) {
    auto sum = dyn_cast<ClippedSumOp>(argument.getOwner()->getParentOp());
    if (!sum) {
      break;
    }
    value = sum.getInputs()[argument.getArgNumber()];
  }
  return value;
}

Found sojourn::placeAfter(Operation *op, const DenseMap<Value, SlotReading> &readings) {
  return Rules{readings}.of(op);
}
