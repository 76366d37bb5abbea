// SPDX-License-Identifier: Apache-2.0
// The gate: a rewritten step is analysed from scratch, and what it costs follows from this proof (see Privacy.h).
#include "dialect/CoreForm.h"
#include "dialect/LayoutOps.h"
#include "dialect/OwnerOps.h"
#include "dialect/SourceOps.h"
#include "passes/Passes.h"
#include "passes/privacy/Privacy.h"
#include "passes/privacy/SecondReading.h"
#include "passes/privacy/Taint.h"

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

/// Puts its number in place of each value that depends on rows and can be one number only. False where there is none.
static bool replaceConstants(const rows::Analysis &analysis) {
  bool isChanged = false;
  for (auto [value, number] : analysis.constants) {
    if (value.use_empty()) {
      continue;
    }
    isChanged = true;
    auto type = cast<RankedTensorType>(value.getType());
    OpBuilder builder(value.getContext());
    builder.setInsertionPointAfterValue(value);
    TypedAttr attribute = isa<FloatType>(type.getElementType())
                              ? TypedAttr(builder.getFloatAttr(type.getElementType(), number))
                              : builder.getIntegerAttr(type.getElementType(), static_cast<int64_t>(number));
    Value constant =
        ConstantOp::create(builder, value.getLoc(), RankedTensorType::get({}, type.getElementType()), attribute);
    if (type.getRank() != 0) {
      constant = BroadcastOp::create(builder, value.getLoc(), type, constant, ArrayRef<int64_t>());
    }
    value.replaceAllUsesWith(constant);
  }
  return isChanged;
}

/// Tables of a draw; nothing where none was read at it.
static ResultTables tablesOf(const rows::Draw &draw) {
  return draw.tables.empty() ? ResultTables() : ResultTables(draw.tables);
}

/// What a result that may not leave holds: rows of its draw, or of the draws whose sums it was computed from.
static ResultTables tablesOf(const rows::Fact &fact, const rows::Analysis &analysis) {
  if (fact.isPerRow()) {
    return tablesOf(analysis.draws()[fact.rows.draw]);
  }
  if (!fact.hasCuts() || fact.cuts->empty()) {
    return std::nullopt;
  }
  std::vector<unsigned> all;
  for (unsigned cut : *fact.cuts) {
    ResultTables tables = tablesOf(analysis.draws()[analysis.cuts()[cut].draw]);
    if (!tables) {
      return std::nullopt;
    }
    all.insert(all.end(), tables->begin(), tables->end());
  }
  llvm::sort(all);
  all.erase(llvm::unique(all), all.end());
  return all;
}

/// Labels of results. What has no draw of its own has every private table's.
static void setTables(func::FuncOp step, const RowInputs &inputs, const rows::Analysis &analysis, PrivacyPlan &plan) {
  std::vector<unsigned> all;
  for (BlockArgument argument : step.getArguments()) {
    unsigned number = argument.getArgNumber();
    bool isOpen = number < inputs.arguments.size() && !inputs.arguments[number].table.isPrivate;
    if (isa<TableType>(argument.getType()) && !isOpen) {
      all.push_back(number);
    }
  }
  plan.tables.clear();
  for (Value value : step.getBody().front().getTerminator()->getOperands()) {
    rows::Fact fact = analysis.factOf(value);
    ResultTables tables = fact.isPublic() ? std::vector<unsigned>() : tablesOf(fact, analysis);
    plan.tables.push_back(tables ? std::move(tables) : ResultTables(all));
  }
  plan.tainted = taintedResults(step, inputs);
}

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
  for (int round = 0; round < 4 && replaceConstants(analysis); ++round) { // one may hide the next
    analysis = rows::Analysis();
    analyseRows(step, inputs, analysis);
  }
  if (failed(checkResults(step, inputs, analysis, plan))) {
    return failure();
  }
  FailureOr<SecondReading> second = readAgain(step, inputs, analysis);
  if (failed(second)) {
    return failure();
  }
  plan.secondReading = std::move(*second);
  setTables(step, inputs, analysis, plan);
  for (auto [number, isTainted] : llvm::enumerate(plan.tainted)) {
    if (isTainted && plan.released[number]) {
      return step.emitError() << "result #" << number
                              << " counts as public, but rows or the owner's draw reach it without noise; this is a "
                                 "defect of the row analysis, please report it";
    }
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
      return noise.emitError() << "is an unplanned release";
    }
    auto index = static_cast<size_t>(number.getInt());
    ReleaseSite &site = plan.sites[index];
    site.tables = analysis.draws()[release.draw].tables;
    if (site.tables.empty()) {
      return release.sum->emitError()
             << "this sum is released with noise over a draw of rows at which no private table is read, so there is no "
                "budget to charge; if a table was opened after the step was recorded, record the step again";
    }
    site.sensitivity = release.sensitivity;
    site.coordinates = release.coordinates;
    site.exponent = noise.getExponent();
    site.scale = noise.getScale();
    site.isLaplace = noise.getDistribution() == "laplace";
    double ratio = release.sensitivity / static_cast<double>(site.scale);
    site.cost = (site.isLaplace ? ratio : ratio * ratio / 2) * (1 + 0x1p-40);
    if (!site.isLaplace) {
      // A later release of the draw may be chosen by this one. The noise is then taken for what is made of continuous
      // noise of 8 units^2 less variance (owner/worker/Prove.cpp).
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
  auto goesOn = [&] { return success(!options.isStopped || !options.isStopped()); };
  FailureOr<PrivacyPlan> plan = rewriteForPrivacy(step, inputs, options);
  if (failed(plan) || failed(goesOn())) {
    return failure();
  }
  rows::Analysis analysis;
  if (failed(verify(module)) || failed(provePrivacy(step, inputs, analysis, *plan)) || failed(goesOn()) ||
      failed(lowerPrivacy(step, inputs, analysis, *plan)) || failed(goesOn())) {
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
    if (failed(parseBounds(step, bounds, inputs)) || failed(setRows(step, tableRows, inputs))) {
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
      emitRemark(step.getLoc()) << note;
    }
    InFlightDiagnostic slots = emitRemark(step.getLoc());
    slots << "slots: " << plan.secondReading.agreed << " values have two equal readings";
    for (const auto &[op, count] : plan.secondReading.unread) {
      slots << "; " << count << " have one, after '" << op << "'";
    }
    slots.report();
    for (auto [number, draw] : llvm::enumerate(plan.draws)) {
      InFlightDiagnostic remark = emitRemark(step.getLoc()) << "draw " << number << ": ";
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

  /// For owners that know no coins: they become the last uploads, and lists of rows are taken to name each row once.
  static LogicalResult moveCoins(func::FuncOp step) {
    for (FirstRowsOp rows : llvm::make_early_inc_range(step.getOps<FirstRowsOp>())) {
      rows.replaceAllUsesWith(rows.getRows());
      rows.erase();
    }
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
