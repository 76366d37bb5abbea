// SPDX-License-Identifier: Apache-2.0
// Canonical form beyond folds: splats stay rank 0 for as long as they can, and moving unit dims is a reshape.
#include "dialect/ElementwiseOps.h"
#include "dialect/LayoutOps.h"
#include "dialect/SourceOps.h"

using namespace mlir;
using namespace sojourn;

/// The rank-0 source of a broadcast; null for everything else.
static Value splatSource(Value value) {
  auto broadcast = value.getDefiningOp<BroadcastOp>();
  return broadcast && broadcast.getX().getType().getRank() == 0 ? Value(broadcast.getX()) : Value();
}

static Value splatTo(OpBuilder &builder, Location loc, Value scalar, Type type) {
  return BroadcastOp::create(builder, loc, type, scalar, ArrayRef<int64_t>());
}

namespace {
/// add(x, broadcast(s)) => add(x, s), and exp(broadcast(s)) => broadcast(exp(s)).
struct SplatOperands : public RewritePattern {
  SplatOperands(MLIRContext *context) : RewritePattern(MatchAnyOpTypeTag(), /*benefit=*/1, context) {}

  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    if (!op->hasTrait<Elementwise>()) {
      return failure();
    }
    auto type = cast<RankedTensorType>(op->getResult(0).getType());
    if (type.getRank() == 0) {
      return rewriter.notifyMatchFailure(op, "already rank 0");
    }
    SmallVector<Value> operands;
    bool found = false;
    bool shaped = false;
    for (Value operand : op->getOperands()) {
      Value source = splatSource(operand);
      found |= static_cast<bool>(source);
      operands.push_back(source ? source : operand);
      shaped |= cast<RankedTensorType>(operands.back().getType()).getRank() != 0;
    }
    if (!found) {
      return rewriter.notifyMatchFailure(op, "no operand is a broadcast of rank 0");
    }
    if (shaped) {
      rewriter.modifyOpInPlace(op, [&] { op->setOperands(operands); });
      return success();
    }
    Operation *scalar = op->clone();
    scalar->setOperands(operands);
    scalar->getResult(0).setType(RankedTensorType::get({}, type.getElementType()));
    rewriter.insert(scalar);
    rewriter.replaceOp(op, splatTo(rewriter, op->getLoc(), scalar->getResult(0), type));
    return success();
  }
};

/// reshape(broadcast(s)) => broadcast(s); so for transpose, slice and reverse.
template <typename OpType>
struct SplatLayout : public OpRewritePattern<OpType> {
  using OpRewritePattern<OpType>::OpRewritePattern;

  LogicalResult matchAndRewrite(OpType op, PatternRewriter &rewriter) const override {
    Value source = splatSource(op.getX());
    if (!source) {
      return rewriter.notifyMatchFailure(op, "operand is not a broadcast of rank 0");
    }
    if (op.getType().getRank() == 0) {
      rewriter.replaceOp(op, source);
    } else {
      rewriter.replaceOp(op, splatTo(rewriter, op.getLoc(), source, op.getType()));
    }
    return success();
  }
};

/// reshape(s) => broadcast(s) for rank-0 s, so that one op alone makes splats.
struct ReshapeOfScalar : public OpRewritePattern<ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(ReshapeOp op, PatternRewriter &rewriter) const override {
    if (op.getX().getType().getRank() != 0 || op.getType().getRank() == 0) {
      return rewriter.notifyMatchFailure(op, "operand is not rank 0");
    }
    rewriter.replaceOp(op, splatTo(rewriter, op.getLoc(), op.getX(), op.getType()));
    return success();
  }
};

/// broadcast that only adds dims of size 1 => reshape.
struct BroadcastOfUnits : public OpRewritePattern<BroadcastOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(BroadcastOp op, PatternRewriter &rewriter) const override {
    RankedTensorType x = op.getX().getType();
    if (x.getRank() == 0 || x.getNumElements() == 0 || x.getNumElements() != op.getType().getNumElements()) {
      return rewriter.notifyMatchFailure(op, "repeats elements, or makes a splat");
    }
    rewriter.replaceOpWithNewOp<ReshapeOp>(op, op.getType(), op.getX());
    return success();
  }
};

/// broadcast(reshape(x)) => broadcast(x) where the reshape only adds dims of size 1: the bias of a convolution, say.
struct BroadcastOfReshape : public OpRewritePattern<BroadcastOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(BroadcastOp op, PatternRewriter &rewriter) const override {
    auto reshape = op.getX().getDefiningOp<ReshapeOp>();
    if (!reshape) {
      return rewriter.notifyMatchFailure(op, "operand is not a reshape");
    }
    ArrayRef<int64_t> from = reshape.getX().getType().getShape();
    SmallVector<int64_t> dims;
    for (auto [dim, size] : llvm::enumerate(reshape.getType().getShape())) {
      if (dims.size() < from.size() && size == from[dims.size()] && size != 1) {
        dims.push_back(op.getDims()[dim]);
      } else if (size != 1) {
        return rewriter.notifyMatchFailure(op, "the reshape regroups elements");
      }
    }
    if (dims.size() != from.size()) {
      return rewriter.notifyMatchFailure(op, "the reshape removes dims");
    }
    rewriter.replaceOpWithNewOp<BroadcastOp>(op, op.getType(), reshape.getX(), dims);
    return success();
  }
};

/// transpose that only moves dims of size 1 => reshape.
struct TransposeOfUnits : public OpRewritePattern<TransposeOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(TransposeOp op, PatternRewriter &rewriter) const override {
    int64_t previous = -1;
    for (int64_t dim : op.getPerm()) {
      if (op.getX().getType().getDimSize(static_cast<unsigned>(dim)) == 1) {
        continue;
      }
      if (dim < previous) {
        return rewriter.notifyMatchFailure(op, "changes the order of elements");
      }
      previous = dim;
    }
    rewriter.replaceOpWithNewOp<ReshapeOp>(op, op.getType(), op.getX());
    return success();
  }
};

/// select(constant, a, b) => broadcast of the chosen side, where the fold cannot: it has rank 0.
struct SelectOfConstant : public OpRewritePattern<SelectOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(SelectOp op, PatternRewriter &rewriter) const override {
    auto constant = op.getPred().getDefiningOp<ConstantOp>();
    auto value = constant ? dyn_cast<IntegerAttr>(constant.getValue()) : IntegerAttr();
    if (!value) {
      return rewriter.notifyMatchFailure(op, "predicate is not a constant");
    }
    Value side = value.getValue().isZero() ? op.getB() : op.getA();
    if (side.getType() == op.getType()) {
      return rewriter.notifyMatchFailure(op, "left to the fold");
    }
    rewriter.replaceOp(op, splatTo(rewriter, op.getLoc(), side, op.getType()));
    return success();
  }
};
} // namespace

void SojournDialect::getCanonicalizationPatterns(RewritePatternSet &patterns) const {
  patterns.add<SplatOperands, SplatLayout<ReshapeOp>, SplatLayout<TransposeOp>, SplatLayout<SliceOp>,
               SplatLayout<ReverseOp>, ReshapeOfScalar, BroadcastOfUnits, BroadcastOfReshape, TransposeOfUnits,
               SelectOfConstant>(patterns.getContext());
}
