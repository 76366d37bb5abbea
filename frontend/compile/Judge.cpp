// SPDX-License-Identifier: Apache-2.0
// The owner's passes at the client (see Judge.h).
#include "frontend/compile/Judge.h"

#include "dialect/Base.h"
#include "dialect/CoreForm.h"
#include "passes/privacy/Inputs.h"
#include "passes/privacy/Privacy.h"
#include "runtime/Extent.h"
#include "runtime/Program.h"
#include "runtime/terms/Charges.h"
#include "runtime/terms/Options.h"

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

/// The tables behind the values at a line of the step; all of them if none is found there. Other tables of the step,
/// pending from earlier lines, are not why it is refused.
std::vector<DatasetInfo> tablesAt(mlir::func::FuncOp step, const std::string &location,
                                  const std::vector<DatasetInfo> &tables) {
  std::vector<mlir::Operation *> waiting;
  step.walk([&](mlir::Operation *op) {
    if (!location.empty() && runtime::describeLocation(op->getLoc()) == location) {
      waiting.push_back(op);
    }
  });
  std::set<mlir::Operation *> seen;
  std::set<unsigned> arguments;
  while (!waiting.empty()) {
    mlir::Operation *op = waiting.back();
    waiting.pop_back();
    if (op == step.getOperation() || !seen.insert(op).second) {
      continue;
    }
    waiting.push_back(op->getParentOp());
    op->walk([&](mlir::Operation *inner) {
      for (mlir::Value operand : inner->getOperands()) {
        if (mlir::Operation *maker = operand.getDefiningOp()) {
          waiting.push_back(maker);
        } else if (auto argument = mlir::cast<mlir::BlockArgument>(operand); argument.getOwner()->isEntryBlock()) {
          arguments.insert(argument.getArgNumber());
        }
      }
    });
  }
  std::vector<DatasetInfo> found;
  size_t next = 0;
  for (auto [index, type] : llvm::enumerate(step.getArgumentTypes())) {
    if (mlir::isa<TableType>(type) && next < tables.size()) {
      if (arguments.contains(static_cast<unsigned>(index))) {
        found.push_back(tables[next]);
      }
      ++next;
    }
  }
  return namesOf(found).empty() ? tables : found;
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

/// The terms of a step where the owner would take them; else it says why.
std::optional<PrivacyOptions> optionsOf(const std::vector<DatasetInfo> &tables, const wire::Spending &spending,
                                        const std::vector<std::optional<unsigned>> &published, double delta) {
  auto asked = terms::termsOf(spending, defaultsOf(tables));
  if (!asked) {
    return std::nullopt;
  }
  terms::StepTerms step = *asked;
  const wire::ReleaseTerms *before = nullptr;
  for (const wire::ReleaseTerms &each : spending.releases) {
    auto release = terms::releaseOf(each, before, delta > 0 ? std::optional(delta) : std::nullopt);
    if (!release) { // a release that no grant pays for is proved all the same
      release = terms::releaseOf(each, before, std::nullopt);
    }
    if (!release) {
      return std::nullopt;
    }
    step.releases.push_back(*release);
    before = &each;
  }
  return terms::optionsOf(step, published);
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
  std::optional<PrivacyOptions> options = optionsOf(tables, message.spending, published, delta);
  if (!options) {
    return judgement;
  }
  auto plan = rewriteForPrivacy(step, inputs, *options);
  rows::Analysis analysis;
  if (mlir::failed(plan) || mlir::failed(provePrivacy(step, inputs, analysis, *plan))) {
    judgement.refusal = refusal.text() + " (" + namesOf(tablesAt(step, refusal.location(), tables)) + ")" +
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
    double parts = terms::partsOf(rho, options->noiseMultiplier);
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

terms::Defaults defaultsOf(const std::vector<DatasetInfo> &tables) {
  std::optional<terms::Defaults> defaults;
  for (const DatasetInfo &table : tables) {
    if (table.policy != "open") {
      defaults = defaults ? terms::mostCareful(*defaults, table.defaults) : table.defaults;
    }
  }
  return defaults.value_or(terms::Defaults());
}

static terms::DrawRate rateOf(const Judgement::Draw &draw) {
  auto rate = terms::rateOf({draw.isSampled, draw.rows, draw.expected, draw.slots});
  return rate ? *rate : terms::DrawRate(); // the owner says why there is none
}

DrawTerms termsOf(const Judgement::Draw &draw, double noiseMultiplier) {
  terms::DrawRate rate = rateOf(draw);
  return {rate.rate, terms::rhoOf(draw.parts, noiseMultiplier), rate.failures()};
}

privacy::Charge chargeOf(const Judgement::Draw &draw, double noiseMultiplier) {
  return terms::stepCharge(rateOf(draw), terms::rhoOf(draw.parts, noiseMultiplier));
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
