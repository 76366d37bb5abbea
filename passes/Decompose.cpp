// SPDX-License-Identifier: Apache-2.0
// sojourn-decompose: every functional ATen call becomes core ops, by one table lookup per call and in one walk.
#include "passes/Passes.h"
#include "dialect/CapturedOps.h"

#include "passes/Aten.h"
#include "passes/Lowered.h"
#include "passes/decompose/Call.h"

namespace sojourn {
#define GEN_PASS_DEF_DECOMPOSE
#include "passes/Passes.h.inc"
} // namespace sojourn

using namespace mlir;
using namespace sojourn;
using namespace sojourn::decompose;

static const Table &decompositions() {
  static const Table table = [] {
    Table t;
    for (auto *add : {addElementwise,  addComparisons,
                      addMath,         addSpecial,
                      addBits,         addComplex,
                      addActivations,  addActivationGradients,
                      addReductions,   addOrder,
                      addSoftmax,      addNormalization,
                      addLosses,       addCtc,
                      addLinear,       addLinearAlgebra,
                      addReflections,  addConvolution,
                      addPooling,      addResampling,
                      addIndexing,     addScatter,
                      addSegments,     addLayout,
                      addPadding,      addFactories,
                      addRandom,       addRecurrent,
                      addEmbedding,    addDistances,
                      addGridSampling, addHistograms,
                      addCopies,       addRecurrentNetworks}) {
      add(t);
    }
    return t;
  }();
  return table;
}

bool sojourn::isLowered(std::string_view base) {
  const std::string name = functionalBase(base);
  // Those of lists become several, or those of optimizers steps, before.
  const StringRef start = name;
  return start.starts_with("_foreach_") || start.starts_with("_fused_") || decompositions().lookup(name) != nullptr;
}

/// Replaces one call; the error, if any, is reported at the call.
static LogicalResult rewrite(AtenOp op) {
  auto isUntyped = [](Type type) { return isUnresolved(getElementTypeOrSelf(type)); };
  if (llvm::any_of(op->getOperandTypes(), isUntyped) || llvm::any_of(op->getResultTypes(), isUntyped)) {
    return op.emitOpError() << "has operands or results of unresolved type, expected promoted form; run "
                               "sojourn-promote first";
  }
  std::string base = functionalBase(op.getBaseName());
  Decomposition decomposition = decompositions().lookup(base);
  if (!decomposition) {
    return op.emitOpError() << "'" << op.getName() << "' has no decomposition into core ops";
  }
  OpBuilder builder(op);
  Emitter emitter{builder, op.getLoc()};
  Call call(op, emitter, base);
  Results results = call.decompose(decomposition);
  if (!results) {
    return op.emitOpError() << "'" << op.getName() << "' " << call.reason;
  }
  for (auto [result, term] : llvm::zip(op->getResults(), results.terms)) {
    if (term) {
      result.replaceAllUsesWith(term.value);
    }
  }
  op.erase();
  return success();
}

namespace {

struct Decompose : sojourn::impl::DecomposeBase<Decompose> {
  void runOnOperation() override {
    SmallVector<AtenOp> calls;
    getOperation()->walk([&](AtenOp op) { calls.push_back(op); });
    for (AtenOp op : calls) {
      if (failed(rewrite(op))) {
        return signalPassFailure();
      }
    }
    setPhase(getOperation(), "decomposed");
  }
};

} // namespace
