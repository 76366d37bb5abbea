// SPDX-License-Identifier: Apache-2.0
// sojourn-optimize: the dialect's own folds and canonicalization, plus what needs two ops of a program at once:
// transposes that a dot product takes over, and slices that meet an update.
#include "passes/Passes.h"
#include "dialect/ContractionOps.h"
#include "dialect/LayoutOps.h"
#include "dialect/RowOps.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/OperationSupport.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVectorExtras.h"

#include <numeric>
#include <vector>

namespace sojourn {
#define GEN_PASS_DEF_OPTIMIZE
#include "passes/Passes.h.inc"
} // namespace sojourn

using namespace mlir;
using namespace sojourn;

namespace {

/// dot(transpose(a), b) => dot(a, b) with other dims, as long as the free dims stay in order.
struct DotOfTranspose : OpRewritePattern<DotOp> {
  using OpRewritePattern::OpRewritePattern;

  static bool absorb(Value &operand, SmallVector<int64_t> &batch, SmallVector<int64_t> &contract) {
    auto transpose = operand.getDefiningOp<TransposeOp>();
    if (!transpose) {
      return false;
    }
    ArrayRef<int64_t> perm = transpose.getPerm();
    int64_t last = -1;
    for (auto [dim, source] : llvm::enumerate(perm)) {
      if (llvm::is_contained(batch, static_cast<int64_t>(dim)) ||
          llvm::is_contained(contract, static_cast<int64_t>(dim))) {
        continue;
      }
      if (source < last) {
        return false;
      }
      last = source;
    }
    auto map = [&](int64_t dim) { return perm[dim]; };
    batch = llvm::map_to_vector(batch, map);
    contract = llvm::map_to_vector(contract, map);
    operand = transpose.getX();
    return true;
  }

  LogicalResult matchAndRewrite(DotOp op, PatternRewriter &rewriter) const override {
    Value a = op.getA(), b = op.getB();
    SmallVector<int64_t> lhsBatch(op.getLhsBatch()), rhsBatch(op.getRhsBatch());
    SmallVector<int64_t> lhsContract(op.getLhsContract()), rhsContract(op.getRhsContract());
    bool left = absorb(a, lhsBatch, lhsContract), right = absorb(b, rhsBatch, rhsContract);
    if (!left && !right) {
      return rewriter.notifyMatchFailure(op, "no operand is a transpose that keeps the free dims in order");
    }
    rewriter.replaceOpWithNewOp<DotOp>(op, op.getType(), a, b, lhsBatch, rhsBatch, lhsContract, rhsContract);
    return success();
  }
};

/// transpose(dot(a, b)) => dot(b, a) where it swaps the free dims of both sides.
struct TransposeOfDot : OpRewritePattern<TransposeOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(TransposeOp op, PatternRewriter &rewriter) const override {
    auto dot = op.getX().getDefiningOp<DotOp>();
    if (!dot || !dot->hasOneUse()) {
      return rewriter.notifyMatchFailure(op, "not the only use of a dot");
    }
    auto rank = [](Value x) { return cast<RankedTensorType>(x.getType()).getRank(); };
    int64_t batch = static_cast<int64_t>(dot.getLhsBatch().size());
    int64_t contract = static_cast<int64_t>(dot.getLhsContract().size());
    int64_t left = rank(dot.getA()) - batch - contract, right = rank(dot.getB()) - batch - contract;
    for (auto [i, dim] : llvm::enumerate(op.getPerm())) {
      int64_t position = static_cast<int64_t>(i);
      int64_t expected = position < batch ? position : position < batch + right ? position + left : position - right;
      if (dim != expected) {
        return rewriter.notifyMatchFailure(op, "permutes more than the two groups of free dims");
      }
    }
    rewriter.replaceOpWithNewOp<DotOp>(op, op.getType(), dot.getB(), dot.getA(), dot.getRhsBatch(), dot.getLhsBatch(),
                                       dot.getRhsContract(), dot.getLhsContract());
    return success();
  }
};

/// Whether two arithmetic progressions of positions have none in common, as far as bounds and remainders tell.
bool areDisjoint(int64_t startA, int64_t countA, int64_t strideA, int64_t startB, int64_t countB, int64_t strideB) {
  if (startA + (countA - 1) * strideA < startB || startB + (countB - 1) * strideB < startA) {
    return true;
  }
  int64_t common = std::gcd(strideA, strideB);
  return countA > 1 && countB > 1 && (startA - startB) % common != 0;
}

/// slice(update_slice(x, u)) => u where the places are the same, slice(x) where they are disjoint.
struct SliceOfUpdate : OpRewritePattern<SliceOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(SliceOp op, PatternRewriter &rewriter) const override {
    auto update = op.getX().getDefiningOp<UpdateSliceOp>();
    if (!update || op.getType().getNumElements() == 0) {
      return rewriter.notifyMatchFailure(op, "not a slice of an update");
    }
    RankedTensorType written = update.getU().getType();
    if (written == op.getType() && op.getStart() == update.getStart() && op.getStride() == update.getStride()) {
      rewriter.replaceOp(op, update.getU());
      return success();
    }
    for (int64_t i = 0; i < written.getRank(); ++i) {
      if (areDisjoint(op.getStart()[i], op.getType().getDimSize(i), op.getStride()[i], update.getStart()[i],
                      written.getDimSize(i), update.getStride()[i])) {
        rewriter.replaceOpWithNewOp<SliceOp>(op, op.getType(), update.getX(), op.getStart(), op.getLimit(),
                                             op.getStride());
        return success();
      }
    }
    return rewriter.notifyMatchFailure(op, "reads some written and some other elements");
  }
};

/// update_slice(update_slice(x, u), v) => update_slice(x, v) at the same places.
struct UpdateOfUpdate : OpRewritePattern<UpdateSliceOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(UpdateSliceOp op, PatternRewriter &rewriter) const override {
    auto inner = op.getX().getDefiningOp<UpdateSliceOp>();
    if (!inner || inner.getU().getType() != op.getU().getType() || inner.getStart() != op.getStart() ||
        inner.getStride() != op.getStride()) {
      return rewriter.notifyMatchFailure(op, "the operand is no update of the same places");
    }
    rewriter.modifyOpInPlace(op, [&] { op.getXMutable().assign(inner.getX()); });
    return success();
  }
};

/// dynamic_slice(dynamic_update_slice(x, u)) => u, and an update of an update => the later one, at the same places.
struct DynamicSliceOfUpdate : OpRewritePattern<DynamicSliceOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(DynamicSliceOp op, PatternRewriter &rewriter) const override {
    auto update = op.getX().getDefiningOp<DynamicUpdateSliceOp>();
    if (!update || update.getU().getType() != op.getType() || update.getDims() != op.getDims() ||
        update.getStarts() != op.getStarts()) {
      return rewriter.notifyMatchFailure(op, "not what an update has written");
    }
    rewriter.replaceOp(op, update.getU());
    return success();
  }
};

struct DynamicUpdateOfUpdate : OpRewritePattern<DynamicUpdateSliceOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(DynamicUpdateSliceOp op, PatternRewriter &rewriter) const override {
    auto inner = op.getX().getDefiningOp<DynamicUpdateSliceOp>();
    if (!inner || inner.getU().getType() != op.getU().getType() || inner.getDims() != op.getDims() ||
        inner.getStarts() != op.getStarts()) {
      return rewriter.notifyMatchFailure(op, "the operand is no update of the same places");
    }
    rewriter.modifyOpInPlace(op, [&] { op.getXMutable().assign(inner.getX()); });
    return success();
  }
};

/// Replaces each op without effects by the first equal one of its block, and drops ops without use. MLIR's own pass
/// says the same of any region; a straight line needs no scopes and no dominance, and hashes each op once.
bool mergeEqualOps(RewriterBase &rewriter, Block &block) {
  struct Entry {
    llvm::hash_code hash = 0;
    Operation *op = nullptr;
  };
  std::vector<Entry> table(llvm::PowerOf2Ceil(2 * block.getOperations().size() + 1));
  size_t mask = table.size() - 1;
  SmallVector<Operation *> gone;
  for (Operation &op : block) {
    if (op.hasTrait<OpTrait::IsTerminator>() || op.getNumRegions() > 0) {
      continue;
    }
    if (isOpTriviallyDead(&op)) {
      gone.push_back(&op);
      continue;
    }
    if (!isMemoryEffectFree(&op)) {
      continue;
    }
    llvm::hash_code hash =
        OperationEquivalence::computeHash(&op, OperationEquivalence::directHashValue,
                                          OperationEquivalence::ignoreHashValue, OperationEquivalence::IgnoreLocations);
    size_t at = static_cast<size_t>(hash) & mask;
    while (table[at].op && (table[at].hash != hash || !OperationEquivalence::isEquivalentTo(
                                                          &op, table[at].op, OperationEquivalence::IgnoreLocations))) {
      at = (at + 1) & mask;
    }
    if (Operation *first = table[at].op) {
      if (isa<UnknownLoc>(first->getLoc())) {
        first->setLoc(op.getLoc());
      }
      rewriter.replaceAllUsesWith(op.getResults(), first->getResults());
      gone.push_back(&op);
    } else {
      table[at] = {hash, &op};
    }
  }
  for (Operation *op : gone) {
    rewriter.eraseOp(op);
  }
  return !gone.empty();
}

struct Optimize : sojourn::impl::OptimizeBase<Optimize> {
  LogicalResult initialize(MLIRContext *context) override {
    RewritePatternSet collected(context);
    for (Dialect *dialect : context->getLoadedDialects()) {
      dialect->getCanonicalizationPatterns(collected);
    }
    for (RegisteredOperationName name : context->getRegisteredOperations()) {
      name.getCanonicalizationPatterns(collected, context);
    }
    collected.add<DotOfTranspose, TransposeOfDot, SliceOfUpdate, UpdateOfUpdate, DynamicSliceOfUpdate,
                  DynamicUpdateOfUpdate>(context);
    patterns = FrozenRewritePatternSet(std::move(collected));
    return success();
  }

  static constexpr llvm::StringLiteral kDrawAttr = "sojourn.draw";

  /// Two draws of an owner are two, however equal they are written: each has coins of its own. While equal ops are
  /// merged, draws are numbered.
  void numberDraws() {
    int64_t number = 0;
    getOperation().walk([&](SampleRowsOp draw) {
      if (draw.getExpected()) {
        draw->setAttr(kDrawAttr, IntegerAttr::get(IntegerType::get(&getContext(), 64), number++));
      }
    });
  }
  void forgetNumbers() {
    getOperation().walk([&](SampleRowsOp draw) { draw->removeDiscardableAttr(kDrawAttr); });
  }

  void runOnOperation() override {
    numberDraws();
    optimize();
    forgetNumbers();
  }

  bool mergeEqualOps() {
    IRRewriter rewriter(&getContext());
    bool changed = false;
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      for (Block &block : function.getBody()) {
        changed |= ::mergeEqualOps(rewriter, block);
      }
    }
    return changed;
  }

  void optimize() {
    // Equal ops first: patterns that want a single use then see the real number of uses. Folding may make new ones.
    for (int round = 0; round < 2; ++round) {
      bool merged = mergeEqualOps();
      if (round > 0 && !merged) {
        return; // The patterns have come to their end before, and nothing is new.
      }
      GreedyRewriteConfig config;
      config.setUseTopDownTraversal(true);
      // There is one block, and ops without use go while they are visited.
      config.setRegionSimplificationLevel(GreedySimplifyRegionLevel::Disabled);
      bool changed = false;
      if (failed(applyPatternsGreedily(getOperation(), patterns, config, &changed))) {
        getOperation().emitError() << "canonicalization did not converge";
        signalPassFailure();
        return;
      }
      if (!changed) {
        return;
      }
    }
    mergeEqualOps();
  }

  FrozenRewritePatternSet patterns;
};

} // namespace
