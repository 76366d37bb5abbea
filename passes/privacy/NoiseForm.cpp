// SPDX-License-Identifier: Apache-2.0
// From IR to small linear functions (see NoiseForm.h).
#include "passes/privacy/NoiseForm.h"

#include "dialect/ContractionOps.h"
#include "dialect/ElementwiseOps.h"
#include "dialect/LayoutOps.h"
#include "dialect/OwnerOps.h"
#include "dialect/ReductionOps.h"
#include "dialect/UnaryOps.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/TypeSwitch.h"

#include <cmath>
#include <numeric>

using namespace mlir;

namespace sojourn {

/// A standard error is no reason to work long: ops of a form.
static constexpr size_t kNodesMost = 1024;
/// Of all forms of a program together, whose values a stranger may have asked for: places of elements (4 bytes each),
/// and ops looked at.
static constexpr size_t kPlacesMost = size_t{1} << 21, kVisitsMost = size_t{1} << 20;

static ArrayRef<int64_t> shapeOf(Value value) { return cast<RankedTensorType>(value.getType()).getShape(); }

static size_t numelOf(ArrayRef<int64_t> shape) {
  size_t count = 1;
  for (int64_t size : shape) {
    count *= static_cast<size_t>(size);
  }
  return count;
}

static SmallVector<int64_t> stridesOf(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size(), 1);
  for (size_t dim = shape.size(); dim-- > 1;) {
    strides[dim - 1] = strides[dim] * shape[dim];
  }
  return strides;
}

/// Calls visit(k, index) for each element of a shape in row-major order.
template <typename Visit>
static void eachIndex(ArrayRef<int64_t> shape, Visit visit) {
  SmallVector<int64_t> index(shape.size());
  for (size_t k = 0, count = numelOf(shape); k < count; ++k) {
    visit(k, ArrayRef(index));
    for (size_t dim = shape.size(); dim-- > 0;) {
      if (++index[dim] < shape[dim]) {
        break;
      }
      index[dim] = 0;
    }
  }
}

class NoiseForm::Builder {
public:
  Builder(Block &step, const rows::Analysis &analysis) : analysis(analysis) {
    for (NoiseOp noise : step.getOps<NoiseOp>()) {
      spread(noise);
    }
  }

  bool isNoised(Value value) const { return noised.contains(value); }

  /// Null where it is not linear.
  std::optional<NoiseForm> run(Value root) {
    numbers.clear();
    form.nodes.clear();
    SmallVector<Value> todo = {root};
    while (!todo.empty()) {
      if (++visits > kVisitsMost || places > kPlacesMost) {
        return std::nullopt;
      }
      Value value = todo.back();
      if (numbers.contains(value)) {
        todo.pop_back();
        continue;
      }
      Operation *op = value.getDefiningOp();
      bool isFollowed = op && !isa<NoiseOp>(op) && !isNumber(value) && canFollow(op);
      size_t waiting = todo.size();
      if (isFollowed) {
        llvm::copy_if(op->getOperands(), std::back_inserter(todo), [&](Value each) { return !numbers.contains(each); });
      }
      if (todo.size() > waiting) {
        continue;
      }
      todo.pop_back();
      if ((isNoised(value) && !isFollowed && !isa<NoiseOp>(op)) || form.nodes.size() >= kNodesMost) {
        return std::nullopt;
      }
      numbers[value] = static_cast<unsigned>(form.nodes.size());
      form.nodes.push_back(nodeOf(value, isFollowed));
      places += form.nodes.back().source.size();
    }
    return std::move(form);
  }

private:
  void spread(NoiseOp noise) {
    SmallVector<Value> todo(noise.getResults());
    while (!todo.empty()) {
      Value value = todo.pop_back_val();
      if (noised.insert(value).second) {
        for (Operation *user : value.getUsers()) {
          llvm::append_range(todo, user->getResults());
        }
      }
    }
  }

  static bool isSmall(Value value) { return numelOf(shapeOf(value)) <= kElementsMost; }

  bool isNumber(Value value) const {
    rows::Fact fact = analysis.factOf(value);
    return !isNoised(value) && fact.isPublic() && fact.range.isConstant() && isSmall(value);
  }

  /// What is clamped at 0. Its noise stands for that of the result, which is never further from what it would be
  /// without: the clamp moves two values no further apart.
  Value clampedOf(MaxOp max) const {
    Value value = max->getOperand(0), bound = max->getOperand(1);
    if (!isNoised(value)) {
      std::swap(value, bound);
    }
    bool isZero = isNumber(bound) && analysis.factOf(bound).range.low == 0;
    return isZero && shapeOf(value) == shapeOf(max.getResult()) ? value : Value();
  }

  bool canFollow(Operation *op) const {
    bool isReal = llvm::all_of(op->getOperands(), [](Value value) {
      return isa<IntegerType, FloatType>(getElementTypeOrSelf(value.getType()));
    });
    if (!isReal || op->getNumResults() != 1) {
      return false;
    }
    Value result = op->getResult(0);
    if (!isa<IntegerType, FloatType>(getElementTypeOrSelf(result.getType()))) {
      return false;
    }
    bool isElementwise = isa<NegOp, ConvertOp, AddOp, SubOp, MulOp, DivOp, RoundOp, ReshapeOp>(op);
    if (isa<RoundOp>(op) && isNoised(result)) { // a count: its noise is rounded with it
      return llvm::all_of(result.getUsers(), [](Operation *user) {
        return isa<ConvertOp>(user) && isa<IntegerType>(getElementTypeOrSelf(user->getResult(0).getType()));
      });
    }
    if (isa<ConvertOp>(op) && isNoised(result)) {
      bool truncates = isa<FloatType>(getElementTypeOrSelf(op->getOperand(0).getType())) &&
                       isa<IntegerType>(getElementTypeOrSelf(result.getType()));
      return !truncates || op->getOperand(0).getDefiningOp<RoundOp>();
    }
    if (auto max = dyn_cast<MaxOp>(op); max && isNoised(result)) {
      return static_cast<bool>(clampedOf(max));
    }
    if (isElementwise) {
      return isNoised(result) || isSmall(result);
    }
    return isa<BroadcastOp, TransposeOp, SliceOp, ReverseOp, ConcatOp, ReduceSumOp, DotOp>(op) && isSmall(result) &&
           llvm::all_of(op->getOperands(), [](Value operand) { return isSmall(operand); });
  }

  Node nodeOf(Value value, bool isFollowed) {
    Node node;
    node.numel = numelOf(shapeOf(value));
    if (isNumber(value)) {
      node.kind = Kind::Constant;
      node.number = analysis.factOf(value).range.low;
      return node;
    }
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      node.kind = Kind::Argument;
      node.argument = argument.getArgNumber();
      return node;
    }
    Operation *op = value.getDefiningOp();
    if (auto noise = dyn_cast<NoiseOp>(op)) {
      node.kind = Kind::Noise;
      node.number = std::ldexp(static_cast<double>(noise.getScale()), static_cast<int>(noise.getExponent())) *
                    (noise.getDistribution() == "laplace" ? std::sqrt(2.0) : 1);
      return node;
    }
    if (!isFollowed) {
      return node;
    }
    if (auto max = dyn_cast<MaxOp>(op)) {
      node.kind = Kind::Same;
      node.operands.push_back(numbers.at(clampedOf(max)));
      return node;
    }
    for (Value operand : op->getOperands()) {
      node.operands.push_back(numbers.at(operand));
    }
    TypeSwitch<Operation *>(op)
        .Case<NegOp>([&](auto) { node.kind = Kind::Negate; })
        .Case<AddOp>([&](auto) { node.kind = Kind::Add; })
        .Case<SubOp>([&](auto) { node.kind = Kind::Subtract; })
        .Case<MulOp>([&](auto) { node.kind = Kind::Multiply; })
        .Case<DivOp>([&](auto) { node.kind = Kind::Divide; })
        .Case<ReshapeOp>([&](auto) { node.kind = Kind::Same; })
        .Case<RoundOp>([&](auto) { node.kind = isNoised(value) ? Kind::Same : Kind::Public; })
        .Case<ConvertOp>([&](auto) {
          bool truncates = isa<IntegerType>(getElementTypeOrSelf(value.getType())) && !isNoised(value);
          node.kind = truncates ? Kind::Truncate : Kind::Same;
        })
        .Default([&](auto) { place(op, node); });
    return node;
  }

  /// Ops that move elements.
  static void place(Operation *op, Node &node) {
    ArrayRef<int64_t> shape = shapeOf(op->getResult(0));
    auto number = [&](ArrayRef<int64_t> index, ArrayRef<int64_t> strides) {
      return static_cast<uint32_t>(std::inner_product(index.begin(), index.end(), strides.begin(), int64_t{0}));
    };
    if (auto sum = dyn_cast<ReduceSumOp>(op)) {
      node.kind = Kind::Sum;
      ArrayRef<int64_t> from = shapeOf(sum.getX());
      SmallVector<int64_t> strides(from.size(), 0), kept = stridesOf(shape);
      size_t next = 0;
      for (size_t dim = 0; dim < from.size(); ++dim) {
        if (!llvm::is_contained(sum.getDims(), static_cast<int64_t>(dim))) {
          strides[dim] = kept[next++];
        }
      }
      eachIndex(from, [&](size_t, ArrayRef<int64_t> index) { node.source.push_back(number(index, strides)); });
      return;
    }
    if (auto dot = dyn_cast<DotOp>(op)) {
      return placeDot(dot, node);
    }
    if (auto concat = dyn_cast<ConcatOp>(op)) {
      node.kind = Kind::Join;
      auto dim = static_cast<size_t>(concat.getDim());
      SmallVector<int64_t> strides = stridesOf(shape);
      int64_t start = 0;
      for (Value part : concat.getInputs()) {
        eachIndex(shapeOf(part), [&](size_t, ArrayRef<int64_t> index) {
          node.source.push_back(number(index, strides) + static_cast<uint32_t>(start * strides[dim]));
        });
        start += shapeOf(part)[dim];
      }
      return;
    }
    node.kind = Kind::Map;
    ArrayRef<int64_t> from = shapeOf(op->getOperand(0));
    SmallVector<int64_t> of = stridesOf(from), strides(shape.size(), 0);
    int64_t first = 0;
    if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
      for (auto [dim, to] : llvm::enumerate(broadcast.getDims())) {
        strides[static_cast<size_t>(to)] = from[dim] == 1 ? 0 : of[dim];
      }
    } else if (auto transpose = dyn_cast<TransposeOp>(op)) {
      for (auto [to, dim] : llvm::enumerate(transpose.getPerm())) {
        strides[to] = of[static_cast<size_t>(dim)];
      }
    } else if (auto slice = dyn_cast<SliceOp>(op)) {
      for (size_t dim = 0; dim < from.size(); ++dim) {
        strides[dim] = shape[dim] > 1 ? of[dim] * slice.getStride()[dim] : 0; // else it may be any number
        first += of[dim] * slice.getStart()[dim];
      }
    } else {
      strides = of;
      for (int64_t dim : cast<ReverseOp>(op).getDims()) {
        auto at = static_cast<size_t>(dim);
        first += of[at] * (from[at] - 1);
        strides[at] = -of[at];
      }
    }
    eachIndex(shape, [&](size_t, ArrayRef<int64_t> index) {
      node.source.push_back(
          static_cast<uint32_t>(first + std::inner_product(index.begin(), index.end(), strides.begin(), int64_t{0})));
    });
  }

  /// One loop over batch, free and contracted dims of both.
  static void placeDot(DotOp dot, Node &node) {
    ArrayRef<int64_t> a = shapeOf(dot.getA()), b = shapeOf(dot.getB());
    SmallVector<int64_t> ofA = stridesOf(a), ofB = stridesOf(b), ofResult = stridesOf(shapeOf(dot.getResult()));
    SmallVector<int64_t> loop, inA, inB, inResult;
    auto add = [&](int64_t size, int64_t strideA, int64_t strideB, int64_t strideResult) {
      loop.push_back(size);
      inA.push_back(strideA);
      inB.push_back(strideB);
      inResult.push_back(strideResult);
    };
    size_t next = 0;
    for (auto [dimA, dimB] : llvm::zip(dot.getLhsBatch(), dot.getRhsBatch())) {
      auto k = static_cast<size_t>(dimA), l = static_cast<size_t>(dimB);
      add(a[k], ofA[k], ofB[l], ofResult[next++]);
    }
    auto isFree = [](size_t dim, ArrayRef<int64_t> batch, ArrayRef<int64_t> contract) {
      auto at = static_cast<int64_t>(dim);
      return !llvm::is_contained(batch, at) && !llvm::is_contained(contract, at);
    };
    for (size_t dim = 0; dim < a.size(); ++dim) {
      if (isFree(dim, dot.getLhsBatch(), dot.getLhsContract())) {
        add(a[dim], ofA[dim], 0, ofResult[next++]);
      }
    }
    for (size_t dim = 0; dim < b.size(); ++dim) {
      if (isFree(dim, dot.getRhsBatch(), dot.getRhsContract())) {
        add(b[dim], 0, ofB[dim], ofResult[next++]);
      }
    }
    for (auto [dimA, dimB] : llvm::zip(dot.getLhsContract(), dot.getRhsContract())) {
      auto k = static_cast<size_t>(dimA), l = static_cast<size_t>(dimB);
      add(a[k], ofA[k], ofB[l], 0);
    }
    if (numelOf(loop) > kEntriesMost) {
      return; // too much for what it is: not known
    }
    node.kind = Kind::Dot;
    eachIndex(loop, [&](size_t, ArrayRef<int64_t> index) {
      for (ArrayRef<int64_t> strides : {ArrayRef(inResult), ArrayRef(inA), ArrayRef(inB)}) {
        node.source.push_back(
            static_cast<uint32_t>(std::inner_product(index.begin(), index.end(), strides.begin(), int64_t{0})));
      }
    });
  }

  const rows::Analysis &analysis;
  llvm::DenseSet<Value> noised;
  llvm::DenseMap<Value, unsigned> numbers;
  NoiseForm form;
  size_t visits = 0, places = 0; ///< of all forms
};

std::vector<std::optional<NoiseForm>> NoiseForm::of(Block &step, ArrayRef<Value> values,
                                                    const rows::Analysis &analysis) {
  Builder builder(step, analysis);
  std::vector<std::optional<NoiseForm>> forms;
  for (Value value : values) {
    forms.push_back(value && builder.isNoised(value) ? builder.run(value) : std::nullopt);
  }
  return forms;
}

} // namespace sojourn
