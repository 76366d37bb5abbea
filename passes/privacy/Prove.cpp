// SPDX-License-Identifier: Apache-2.0
// The gate: a rewritten step is analysed from scratch, and what it costs follows from this proof (see Privacy.h).
#include "passes/Passes.h"
#include "dialect/OwnerOps.h"
#include "passes/privacy/Privacy.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>
#include <limits>

namespace sojourn {
#define GEN_PASS_DEF_MAKEPRIVATE
#include "passes/Passes.h.inc"
} // namespace sojourn

using namespace mlir;
using namespace sojourn;

static LogicalResult checkResults(func::FuncOp step, const RowInputs &inputs, const rows::Analysis &analysis,
                                  PrivacyPlan &plan) {
  Operation *terminator = step.getBody().front().getTerminator();
  plan.released.clear();
  for (OpOperand &operand : terminator->getOpOperands()) {
    rows::Fact fact = analysis.factOf(operand.get());
    plan.released.push_back(fact.isPublic());
    auto kind = step.getResultAttrOfType<StringAttr>(operand.getOperandNumber(), kResultAttr);
    if (fact.isPublic() || (kind && kind.getValue() == stringify(StepResult::Keep))) {
      continue;
    }
    auto target = step.getResultAttrOfType<IntegerAttr>(operand.getOperandNumber(), kTargetAttr);
    if (target && !inputs.isPublic(static_cast<size_t>(target.getInt()))) {
      continue; // a state that holds private values already
    }
    Operation *op = fact.reason ? fact.reason->op : operand.get().getDefiningOp();
    return (op ? op : step.getOperation())->emitError()
           << "result #" << operand.getOperandNumber() << " would leave without noise: it is " << describe(fact);
  }
  return success();
}

LogicalResult sojourn::provePrivacy(func::FuncOp step, const RowInputs &inputs, rows::Analysis &analysis,
                                    PrivacyPlan &plan) {
  analyseRows(step, inputs, analysis);
  if (failed(checkResults(step, inputs, analysis, plan))) {
    return failure();
  }
  plan.draws.clear();
  for (const rows::Draw &draw : analysis.draws()) {
    plan.draws.push_back({.isSampled = draw.sampled,
                          .slots = draw.slots,
                          .expected = draw.sampled ? draw.expected : draw.slots,
                          .rows = draw.sampled ? draw.population : draw.slots,
                          .tables = draw.tables,
                          .sites = {}});
  }
  for (const rows::Release &release : analysis.releases()) {
    auto noise = cast<NoiseOp>(release.noise);
    auto number = noise->getAttrOfType<IntegerAttr>(kSiteAttr);
    if (!number || number.getInt() < 0 || static_cast<size_t>(number.getInt()) >= plan.sites.size()) {
      return noise.emitError() << "is a release that nobody planned";
    }
    auto index = static_cast<size_t>(number.getInt());
    ReleaseSite &site = plan.sites[index];
    site.sensitivity = release.sensitivity;
    site.coordinates = release.coordinates;
    site.exponent = noise.getExponent();
    site.scale = noise.getScale();
    site.isLaplace = noise.getDistribution() == "laplace";
    double ratio = release.sensitivity / static_cast<double>(site.scale);
    site.cost = (site.isLaplace ? ratio : ratio * ratio / 2) * (1 + 0x1p-40);
    if (!site.isLaplace) {
      // A later release of the draw may be chosen by this one. The noise is then taken for what is made of continuous
      // noise of 8 units^2 less variance (owner/PrivatePlan.cpp).
      double variance = static_cast<double>(site.scale) * static_cast<double>(site.scale);
      site.cost *= variance > 16 ? 1 + 16 / variance : std::numeric_limits<double>::infinity();
    }
    plan.draws[release.draw].sites.push_back(index);
  }
  if (analysis.releases().size() != plan.sites.size()) {
    return step.emitError() << analysis.releases().size() << " releases are proved, " << plan.sites.size()
                            << " were planned";
  }
  Block &body = step.getBody().front();
  auto published = llvm::to_vector(body.getTerminator()->getOperands()); // of the others nobody asks for an error
  for (auto [number, value] : llvm::enumerate(published)) {
    auto kind = step.getResultAttrOfType<StringAttr>(static_cast<unsigned>(number), kResultAttr);
    value = kind && kind.getValue() == stringify(StepResult::Publish) ? value : Value();
  }
  plan.forms = NoiseForm::of(body, published, analysis);
  return success();
}

FailureOr<PrivacyPlan> sojourn::makePrivate(ModuleOp module, const RowInputs &inputs, const PrivacyOptions &options) {
  auto step = module.lookupSymbol<func::FuncOp>(kStepName);
  FailureOr<PrivacyPlan> plan = rewriteForPrivacy(step, inputs, options);
  if (failed(plan)) {
    return failure();
  }
  rows::Analysis analysis;
  if (failed(verify(module)) || failed(provePrivacy(step, inputs, analysis, *plan)) ||
      failed(lowerPrivacy(step, analysis, *plan))) {
    return failure();
  }
  PassManager tidy(module.getContext());
  tidy.addPass(createCanonicalizerPass());
  tidy.addPass(createCSEPass());
  if (failed(tidy.run(module)) || failed(verifyCoreFormWithCoins(module))) {
    return failure();
  }
  return plan;
}

namespace {
struct MakePrivate : sojourn::impl::MakePrivateBase<MakePrivate> {
  using MakePrivateBase::MakePrivateBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto step = module.lookupSymbol<func::FuncOp>(kStepName);
    if (failed(verifyCoreForm(module))) {
      return signalPassFailure();
    }
    RowInputs inputs = RowInputs::ofStep(step);
    if (failed(parseBounds(step, bounds, inputs))) {
      return signalPassFailure();
    }
    PrivacyOptions chosen;
    chosen.noiseMultiplier = noiseMultiplier;
    chosen.clip = clip;
    chosen.perLayer = perLayer;
    chosen.lossIsMean = !lossIsSum;
    chosen.metricBound = metricBound;
    FailureOr<PrivacyPlan> plan = PrivacyPlan();
    if (stopAfter == "rewrite") {
      plan = rewriteForPrivacy(step, inputs, chosen);
      rows::Analysis analysis;
      if (failed(plan) || failed(provePrivacy(step, inputs, analysis, *plan))) {
        return signalPassFailure();
      }
    } else {
      plan = makePrivate(module, inputs, chosen);
      if (failed(plan)) {
        return signalPassFailure();
      }
    }
    report(step, *plan);
    if (coinsAsUploads && failed(moveCoins(step))) {
      return signalPassFailure();
    }
  }

  static void report(func::FuncOp step, const PrivacyPlan &plan) {
    for (const std::string &note : plan.notes) {
      step.emitRemark() << note;
    }
    for (auto [number, draw] : llvm::enumerate(plan.draws)) {
      InFlightDiagnostic remark = step.emitRemark() << "draw " << number << ": ";
      if (draw.isSampled) {
        remark << draw.expected << " of " << draw.rows << " rows expected in " << draw.slots << " slots";
      } else {
        remark << draw.slots << " rows";
      }
      remark << ", " << draw.sites.size() << " releases";
    }
    for (const ReleaseSite &site : plan.sites) {
      emitRemark(site.location) << site.what << ": bound " << llvm::formatv("{0:f8}", site.bound).str() << ", "
                                << site.coordinates << " numbers, sensitivity "
                                << llvm::formatv("{0:f2}", site.sensitivity).str() << " and noise " << site.scale
                                << " in units of 2^" << site.exponent << ", " << (site.isLaplace ? "epsilon " : "rho ")
                                << llvm::formatv("{0:f6}", site.cost).str();
    }
  }

  /// For owners that know no coins: coins become the last uploads.
  static LogicalResult moveCoins(func::FuncOp step) {
    unsigned uploads = 0;
    for (unsigned k = 0; k < step.getNumArguments(); ++k) {
      auto kind = step.getArgAttrOfType<StringAttr>(k, kKindAttr);
      uploads += kind.getValue() == stringify(StepArg::State) || kind.getValue() == stringify(StepArg::Upload);
    }
    Builder builder(step.getContext());
    auto kind =
        builder.getDictionaryAttr(builder.getNamedAttr(kKindAttr, builder.getStringAttr(stringify(StepArg::Upload))));
    for (unsigned k = uploads; k < step.getNumArguments(); ++k) {
      auto text = step.getArgAttrOfType<StringAttr>(k, kKindAttr);
      if (text.getValue() != stringify(StepArg::Coin)) {
        continue;
      }
      BlockArgument coin = step.getArgument(k);
      if (failed(step.insertArgument(uploads, coin.getType(), kind, coin.getLoc()))) {
        return failure();
      }
      coin.replaceAllUsesWith(step.getArgument(uploads));
      if (failed(step.eraseArgument(k + 1))) {
        return failure();
      }
      ++uploads;
    }
    return success();
  }
};
} // namespace
