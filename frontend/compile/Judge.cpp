// SPDX-License-Identifier: Apache-2.0
// The owner's passes at the client (see Judge.h).
#include "frontend/compile/Judge.h"

#include "dialect/Base.h"
#include "passes/privacy/Inputs.h"
#include "passes/privacy/Privacy.h"
#include "runtime/Extent.h"
#include "runtime/Program.h"
#include "runtime/privacy/Plan.h"
#include "runtime/privacy/PoissonDraw.h"
#include "runtime/privacy/Rdp.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/bit.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <set>

namespace sojourn::frontend {

namespace {

TableFacts factsOf(const DatasetInfo &table) {
  TableFacts facts;
  facts.isPrivate = table.policy != "open";
  facts.rows = table.rows;
  for (const ColumnInfo &column : table.columns) {
    facts.columns[column.name] = column.bounds;
  }
  return facts;
}

std::string namesOf(const std::vector<DatasetInfo> &tables) {
  std::string names;
  for (const DatasetInfo &table : tables) {
    bool isNew = table.policy != "open" && names.find("'" + table.name + "'") == std::string::npos;
    names += !isNew ? "" : (names.empty() ? "private dataset '" : ", '") + table.name + "'";
  }
  return names;
}

/// Number of a result among those that are published.
std::vector<std::optional<unsigned>> publishedOf(mlir::func::FuncOp step) {
  std::vector<std::optional<unsigned>> numbers;
  unsigned next = 0;
  for (unsigned result = 0; result < step.getNumResults(); ++result) {
    auto kind = step.getResultAttrOfType<mlir::StringAttr>(result, kResultAttr);
    bool isPublished = kind && kind.getValue() == stringify(StepResult::Publish);
    numbers.push_back(isPublished ? std::optional(next++) : std::nullopt);
  }
  return numbers;
}

PrivacyOptions optionsOf(const std::vector<DatasetInfo> &tables, const wire::Spending &spending,
                         const std::vector<std::optional<unsigned>> &published, double delta) {
  PrivacyOptions options;
  StepDefaults defaults = defaultsOf(tables);
  options.metricBound = defaults.metricBound;
  options.noiseMultiplier = spending.noiseMultiplier != 0 ? spending.noiseMultiplier : defaults.noiseMultiplier;
  options.clip = spending.clip != 0 ? spending.clip : defaults.clip;
  options.metricShare = spending.metricShare >= 0 ? spending.metricShare : options.metricShare;
  options.perLayer = spending.perLayer;
  options.lossIsMean = !spending.lossIsSum;
  unsigned prices = 0;
  for (unsigned result = 0; result < published.size(); ++result) {
    if (!published[result] || *published[result] >= spending.releases.size()) {
      continue;
    }
    const wire::ReleaseTerms &asked = spending.releases[*published[result]];
    PrivacyOptions::Publish &publish = options.publishes[result];
    prices += !asked.continues;
    publish.price = prices;
    if (asked.bound > 0) {
      publish.bound = asked.bound;
    }
    if (asked.epsilon > 0) {
      privacy::Grant grant{asked.epsilon, delta > 0 ? delta : asked.delta};
      auto price = asked.delta > 0 ? privacy::gaussianRhoFor(grant) : privacy::pureEpsilonFor(grant);
      // Without a price the owner says why; until then any stands for it.
      (asked.delta > 0 ? publish.rho : publish.laplaceEpsilon) = price ? *price : asked.epsilon;
    }
  }
  return options;
}

/// Rows are written to a tensor at the owner: it may hold rows already, and then stays what it is.
void keepBuffers(mlir::func::FuncOp step, RowInputs &inputs) {
  rows::Analysis analysis;
  analyseRows(step, inputs, analysis);
  for (mlir::OpOperand &operand : step.getBody().front().getTerminator()->getOpOperands()) {
    auto target = step.getResultAttrOfType<mlir::IntegerAttr>(operand.getOperandNumber(), kTargetAttr);
    if (target && analysis.factOf(operand.get()).isPerRow()) {
      inputs.arguments[static_cast<size_t>(target.getInt())].isPublic = false;
    }
  }
}

/// What the owner may know of the small tensors of a step: of those in the message their extents, of its own ones
/// nothing here, and a guess stands for them. Whether there are such.
bool setExtents(mlir::func::FuncOp step, const wire::Step &message, RowInputs &inputs) {
  std::set<int64_t> written;
  for (unsigned result = 0; result < step.getNumResults(); ++result) {
    if (auto target = step.getResultAttrOfType<mlir::IntegerAttr>(result, kTargetAttr)) {
      written.insert(target.getInt());
    }
  }
  bool isGuess = false;
  size_t upload = 0;
  for (unsigned index = 0; index < step.getNumArguments(); ++index) {
    auto kind = step.getArgAttrOfType<mlir::StringAttr>(index, kKindAttr);
    bool isUpload = kind && kind.getValue() == stringify(StepArg::Upload);
    upload += isUpload ? 1 : 0;
    if (!kind || !inputs.arguments[index].isPublic) {
      continue;
    }
    if (isUpload && upload <= message.uploads.size()) {
      const wire::TensorView &tensor = message.uploads[upload - 1];
      auto extent = tensor.element < runtime::kElementCount
                        ? runtime::extentOf(static_cast<runtime::Element>(tensor.element), tensor.data)
                        : std::nullopt;
      if (extent) {
        extent = samplesRows(step) ? runtime::roundedOut(*extent) : *extent;
        setExtent(step, index, extent->low, extent->high, inputs);
      }
    } else if (kind.getValue() == stringify(StepArg::State) && !written.contains(index)) {
      isGuess = true;
      setExtent(step, index, 1, 2, inputs);
    }
  }
  return isGuess;
}

/// The numbers that the message itself holds: slots and uploads.
std::function<std::optional<std::vector<double>>(unsigned)> numbersOf(mlir::func::FuncOp step,
                                                                      const wire::Step &message) {
  std::map<unsigned, std::vector<double>> known;
  size_t slot = 0, upload = 0;
  for (unsigned index = 0; index < step.getNumArguments(); ++index) {
    auto kind = step.getArgAttrOfType<mlir::StringAttr>(index, kKindAttr);
    llvm::StringRef text = kind ? kind.getValue() : llvm::StringRef();
    if (text == stringify(StepArg::Slot) && slot < message.slots.size()) {
      uint64_t word = message.slots[slot++];
      bool isFloat = mlir::isa<mlir::FloatType>(mlir::getElementTypeOrSelf(step.getArgumentTypes()[index]));
      known[index] = {isFloat ? llvm::bit_cast<double>(word) : static_cast<double>(static_cast<int64_t>(word))};
    } else if (text == stringify(StepArg::Upload) && upload < message.uploads.size()) {
      const wire::TensorView &tensor = message.uploads[upload++];
      if (tensor.element < runtime::kElementCount) {
        if (auto numbers = runtime::numbersOf(static_cast<runtime::Element>(tensor.element), tensor.data)) {
          known[index] = std::move(*numbers);
        }
      }
    }
  }
  return [known = std::move(known)](unsigned index) {
    auto found = known.find(index);
    return found == known.end() ? std::nullopt : std::optional(found->second);
  };
}

/// `looks`: at what small tensors hold.
Judgement judge(const wire::Step &message, const std::vector<DatasetInfo> &tables, double delta, bool looks) {
  Judgement judgement;
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  auto module = runtime::decodeProgram(context, message.program, message.debug);
  if (!module) {
    llvm::consumeError(module.takeError()); // the owner says why
    return judgement;
  }
  auto step = (*module)->lookupSymbol<mlir::func::FuncOp>(kStepName);
  std::vector<TableFacts> facts;
  for (const DatasetInfo &table : tables) {
    facts.push_back(factsOf(table));
  }
  std::vector<const TableFacts *> byArgument;
  size_t next = 0;
  for (mlir::Type type : step.getArgumentTypes()) {
    bool isTable = mlir::isa<TableType>(type) && next < facts.size();
    byArgument.push_back(isTable ? &facts[next++] : nullptr);
  }
  auto published = publishedOf(step);
  FirstError refusal(context, &runtime::describeLocation);
  RowInputs inputs = inputsOf(
      step, [](unsigned) { return true; }, [&](unsigned index) { return byArgument[index]; });
  setSlots(step, message.slots, inputs);
  keepBuffers(step, inputs);
  bool isGuess = looks && setExtents(step, message, inputs);
  PrivacyOptions options = optionsOf(tables, message.spending, published, delta);
  auto plan = rewriteForPrivacy(step, inputs, options);
  rows::Analysis analysis;
  if (mlir::failed(plan) || mlir::failed(provePrivacy(step, inputs, analysis, *plan))) {
    judgement.refusal = refusal.text() + " (" + namesOf(tables) + ")" +
                        (refusal.location().empty() ? "" : " [" + refusal.location() + "]");
    return judgement;
  }
  judgement.notes = plan->notes;
  std::vector<std::optional<unsigned>> numbers;
  unsigned count = 0;
  for (mlir::Type type : step.getArgumentTypes()) {
    numbers.push_back(mlir::isa<TableType>(type) ? std::optional(count++) : std::nullopt);
  }
  for (const DrawUse &draw : plan->draws) {
    // By what the message asks: without a grant a price may not have been found.
    auto isBeside = [&](size_t number) {
      const ReleaseSite &site = plan->sites[number];
      std::optional<unsigned> which = site.result ? published[*site.result] : std::nullopt;
      return which && *which < message.spending.releases.size() && message.spending.releases[*which].epsilon > 0;
    };
    if (llvm::all_of(draw.sites, isBeside)) {
      continue;
    }
    double rho = 0;
    for (size_t number : draw.sites) {
      rho += isBeside(number) || plan->sites[number].isLaplace ? 0 : plan->sites[number].cost;
    }
    double parts = std::max(1.0, rho * 2 * options.noiseMultiplier * options.noiseMultiplier);
    judgement.draws.push_back({draw.isSampled, draw.rows, draw.expected, draw.slots, parts, {}});
    for (unsigned argument : draw.tables) {
      if (argument < numbers.size() && numbers[argument]) {
        judgement.draws.back().tables.push_back(*numbers[argument]);
      }
    }
  }
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  auto held = numbersOf(step, message);
  auto errorOf = [&](unsigned result) {
    auto found = plan->forms[result] && !isGuess ? plan->forms[result]->deviations(held) : std::nullopt;
    return found ? *llvm::max_element(*found) : kUnknown;
  };
  for (const ReleaseSite &site : plan->sites) {
    if (site.result && published[*site.result]) {
      judgement.releases.push_back({.published = *published[*site.result],
                                    .error = errorOf(*site.result),
                                    .numbers = site.coordinates,
                                    .isLaplace = site.isLaplace});
    }
  }
  return judgement;
}

} // namespace

StepDefaults defaultsOf(const std::vector<DatasetInfo> &tables) {
  StepDefaults defaults;
  bool isFirst = true;
  for (const DatasetInfo &table : tables) {
    if (table.policy == "open") {
      continue;
    }
    defaults =
        isFirst ? StepDefaults{table.noiseMultiplier, table.clip, table.metricBound}
                : StepDefaults{std::max(defaults.noiseMultiplier, table.noiseMultiplier),
                               std::min(defaults.clip, table.clip), std::min(defaults.metricBound, table.metricBound)};
    isFirst = false;
  }
  return defaults;
}

DrawTerms termsOf(const Judgement::Draw &draw, double noiseMultiplier) {
  double rate = 1, failures = 0x1p-70; // what samplers are off by: owner/PrivatePlan.cpp charges the same
  if (draw.isSampled) {
    auto sampled = privacy::PoissonDraw::plan(draw.rows, draw.expected, draw.slots);
    if (const auto *poisson = std::get_if<privacy::PoissonDraw>(&sampled)) { // else the owner says why
      rate = poisson->probability();
      failures += poisson->overflowMass();
    }
  }
  return {rate, draw.parts / (2 * noiseMultiplier * noiseMultiplier), failures};
}

privacy::Charge chargeOf(const Judgement::Draw &draw, double noiseMultiplier) {
  DrawTerms terms = termsOf(draw, noiseMultiplier);
  return privacy::sampledGaussian(terms.rate, terms.rho) + privacy::failure(terms.failures);
}

Judgement judgePrivate(const wire::Step &message, const std::vector<DatasetInfo> &tables, double delta) {
  Judgement judgement = judge(message, tables, delta, /*looks=*/false);
  if (judgement.refusal.empty()) {
    return judgement;
  }
  Judgement again = judge(message, tables, delta, /*looks=*/true); // as the owner does then
  return again.refusal.empty() ? again : judgement;
}

} // namespace sojourn::frontend
