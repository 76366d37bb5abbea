// SPDX-License-Identifier: Apache-2.0
// Where the noise goes: points are grouped by draw and by what they feed; NoiseGroup.h makes each group releasable.
#include "dialect/Base.h"
#include "dialect/CoreForm.h"
#include "passes/privacy/Centred.h"
#include "passes/privacy/Middle.h"
#include "passes/privacy/NoiseGroup.h"
#include "passes/privacy/Privacy.h"
#include "passes/privacy/ReadColumns.h"

#include "mlir/Analysis/TopologicalSortUtils.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

#include <optional>

using namespace mlir;
using namespace sojourn;

namespace {

/// What a point's value reaches.
struct Reach {
  /// States that are committed, by argument number; results that are published, and that are kept.
  llvm::SmallSetVector<unsigned, 4> states, published, kept;
  /// Whether the program says of any that it is trained.
  bool trains = false;
};

class Rewrite {
public:
  Rewrite(func::FuncOp step, const RowInputs &inputs, const PrivacyOptions &options)
      : step(step), inputs(inputs), options(options) {}

  FailureOr<PrivacyPlan> run() {
    readSlicedColumns(step, inputs);
    for (size_t round = 0;; ++round) {
      size_t analysed = round * body().getOperations().size();
      if (round == kRoundsMost || analysed > kAnalysedMost) {
        return step.emitError() << "the step updates its weights " << round
                                << " times, one update after the other, "
                                   "too many to analyse; split it";
      }
      if (options.isStopped && options.isStopped()) {
        return failure(); // the caller sees the stop, and needs no error
      }
      analyse();
      if (points.size() * step.getNumResults() > kPairsMost) {
        return step.emitError() << "the step is too large to be made private: it has " << points.size()
                                << " sums over rows and " << step.getNumResults() << " results; split it";
      }
      bool isLast = !groupFirst();
      LogicalResult grouped = !isLast ? success() : failed(refuseMixed()) ? failure() : group();
      if (isLast && succeeded(grouped) && work <= kWorkMost && centrePoints(unboundedMetrics(), *analysis)) {
        analyse();
        grouped = group();
      }
      if (work > kWorkMost) {
        return step.emitError() << "the step is too large to be made private: too many sums over rows reach too many "
                                   "results; split it";
      }
      if (failed(grouped)) {
        return failure();
      }
      for (const NoiseGroup &group : groups) {
        if (failed(noise.insert(group, *analysis))) {
          return failure();
        }
      }
      if (!sortTopologically(&body())) {
        return step.emitError() << "the step's noise feeds its own sums";
      }
      if (isLast) {
        break;
      }
    }
    noise.settle();
    return std::move(plan);
  }

private:
  Block &body() { return step.getBody().front(); }
  Operation *terminator() { return body().getTerminator(); }

  std::optional<StepResult> kindOf(unsigned result) {
    auto text = step.getResultAttrOfType<StringAttr>(result, kResultAttr);
    return text ? parseStepResult(text.getValue()) : std::nullopt;
  }
  /// A state that holds private values stays what it is: committing to it is keeping.
  std::optional<StepResult> leavingKind(unsigned result) {
    std::optional<StepResult> kind = kindOf(result);
    bool staysPrivate = kind == StepResult::Commit && !inputs.isPublic(targetOf(result));
    return staysPrivate ? StepResult::Keep : kind;
  }
  unsigned targetOf(unsigned result) {
    return static_cast<unsigned>(step.getResultAttrOfType<IntegerAttr>(result, kTargetAttr).getInt());
  }

  /// The cheapest change of a model, loss or statistic that makes such an op provable, in most programs that have it.
  static StringRef wayOut(StringRef reason, bool trains) {
    if (!trains && reason.contains("meet a value that was summed")) {
      return "; publish that sum first and use its value, or sum before dividing (a.sum() / b.sum()); a model that "
             "normalizes over its batch needs eval()";
    }
    static constexpr std::pair<StringLiteral, StringLiteral> kWays[] = {
        {"meet a value that was summed", "; compute each row without the others: use GroupNorm, LayerNorm or frozen "
                                         "statistics (eval()) instead of batch normalization; a gradient meets rows "
                                         "again only through the parameters that it updates"},
        {"each row meets other rows", "; a loss that compares rows with each other cannot be trained privately"},
        {"is taken over rows", "; sums, means and histograms over rows have useful bounds, their extrema have none"},
        {"runs along rows", "; sums, means and histograms over rows have useful bounds, their order has none"},
        {"were not drawn at the owner", "; take batches of the table, or all of its rows"},
        {"concatenates batches of rows", "; use each batch in a separate step"},
    };
    auto found = llvm::find_if(kWays, [&](const auto &way) { return reason.contains(way.first); });
    return found == std::end(kWays) ? StringRef() : StringRef(found->second);
  }

  bool stepTrains() {
    return llvm::any_of(llvm::seq(0u, terminator()->getNumOperands()), [&](unsigned result) {
      return kindOf(result) == StepResult::Commit || step.getResultAttr(result, kTrainedAttr);
    });
  }

  /// Results that no noise can make releasable.
  LogicalResult refuseMixed() {
    for (OpOperand &operand : terminator()->getOpOperands()) {
      std::optional<StepResult> kind = leavingKind(operand.getOperandNumber());
      const rows::Fact fact = analysis->factOf(operand.get());
      bool isKept = kind == StepResult::Keep && !(fact.isMixed() && isTrained(operand.getOperandNumber()));
      if (isKept || fact.isPublic() || fact.hasCuts()) {
        continue;
      }
      StringRef verb = kind == StepResult::Publish ? "published" : kind == StepResult::Commit ? "committed" : "trained";
      if (fact.isPerRow()) {
        return operand.get().getDefiningOp()->emitError()
               << "a value per row of private data is " << verb << "; reduce it over the rows first (mean, sum)";
      }
      Operation *op = fact.reason ? fact.reason->op : step.getOperation();
      InFlightDiagnostic error = op->emitError();
      error << "noise cannot make this " << verb << " value private: '" << op->getName().stripDialect() << "' "
            << (fact.reason ? fact.reason->text : std::string("was not analysed"))
            << (fact.reason ? wayOut(fact.reason->text, stepTrains()) : StringRef());
      if (fact.reason && fact.reason->operand) {
        error.attachNote(fact.reason->operand.getLoc())
            << "this value is " << describe(analysis->factOf(fact.reason->operand));
      }
      if (Operation *maker = operand.get().getDefiningOp()) {
        error.attachNote(maker->getLoc()) << verb << " here";
      }
      return error;
    }
    return success();
  }

  /// Of the step as it is now. A divisor that can be taken out stays exact, so that comes first.
  void analyse() {
    centredSums(step, inputs, plan.notes);
    noise.addSlotDivisors(publicDivisors(step, inputs, plan.notes));
    analysis.emplace();
    analyseRows(step, inputs, *analysis);
    points = findNoisePoints(step, *analysis);
    groups.clear();
    meetsRows_.clear();
    isUpdate_.clear();
    feedsRows_.clear();
  }

  /// Who reaches whom is asked once per point and result, each over the whole program at worst: what a hostile program
  /// can make of that is bounded, and then nothing that was found may be used.
  bool spendWork() { return ++work <= kWorkMost; }

  Reach reachOf(Value value) {
    Reach reach;
    llvm::DenseSet<Value> seen;
    SmallVector<Value> todo = {value};
    while (!todo.empty() && spendWork()) {
      for (OpOperand &use : todo.pop_back_val().getUses()) {
        if (use.getOwner() == terminator()) {
          std::optional<StepResult> kind = leavingKind(use.getOperandNumber());
          reach.trains |= step.getResultAttr(use.getOperandNumber(), kTrainedAttr) != nullptr;
          if (kind == StepResult::Commit) {
            reach.states.insert(targetOf(use.getOperandNumber()));
          } else if (kind == StepResult::Publish) {
            reach.published.insert(use.getOperandNumber());
          } else if (kindOf(use.getOperandNumber()) == StepResult::Keep) {
            reach.kept.insert(use.getOperandNumber());
          }
          continue;
        }
        for (Value result : use.getOwner()->getResults()) {
          if (seen.insert(result).second) {
            todo.push_back(result);
          }
        }
      }
    }
    return reach;
  }

  /// Whether a state takes part in what is computed per row: a parameter of the model.
  bool meetsRows(unsigned argument) {
    auto [entry, isNew] = meetsRows_.try_emplace(argument, false);
    if (!isNew) {
      return entry->second;
    }
    bool found = false;
    llvm::DenseSet<Value> seen;
    SmallVector<Value> todo = {step.getArgument(argument)};
    while (!todo.empty() && !found && spendWork()) {
      for (Operation *user : todo.pop_back_val().getUsers()) {
        for (Value result : user->getResults()) {
          found |= analysis->factOf(result).isPerRow();
          if (analysis->factOf(result).isPublic() && seen.insert(result).second) {
            todo.push_back(result);
          }
        }
      }
    }
    return meetsRows_[argument] = found;
  }

  /// Whether a value is the next one of a parameter: of the type of an argument that meets rows, and computed from it
  /// other than through rows.
  bool isUpdate(Value value) {
    auto [entry, isNew] = isUpdate_.try_emplace(value, false);
    if (!isNew) {
      return entry->second;
    }
    Type type = value.getType();
    bool found = false;
    llvm::DenseSet<Value> seen;
    SmallVector<Value> todo = {value};
    while (!todo.empty() && !found && spendWork()) {
      Value at = todo.pop_back_val();
      if (auto argument = dyn_cast<BlockArgument>(at)) {
        found |= argument.getType() == type && meetsRows(argument.getArgNumber());
      } else if (!analysis->factOf(at).isPerRow()) {
        for (Value operand : at.getDefiningOp()->getOperands()) {
          if (seen.insert(operand).second) {
            todo.push_back(operand);
          }
        }
      }
    }
    return isUpdate_[value] = found;
  }
  /// Likewise of a kept result, as in a step that brings its parameters along; or the program says so.
  bool isTrained(unsigned result) {
    return step.getResultAttr(result, kTrainedAttr) || isUpdate(terminator()->getOperand(result));
  }

  /// Whether a sum, or what was computed from it, meets rows as the next value of a parameter: later updates of the
  /// step depend on it. It may have been moved or cast on the way (transposed, in half precision).
  bool feedsRows(Value value) {
    auto [entry, isNew] = feedsRows_.try_emplace(value, false);
    if (!isNew) {
      return entry->second;
    }
    bool found = false;
    llvm::DenseSet<Value> seen;
    SmallVector<Value> todo = {value};
    while (!todo.empty() && !found && spendWork()) {
      Value at = todo.pop_back_val();
      for (Operation *user : at.getUsers()) {
        for (Value result : user->getResults()) {
          rows::Fact fact = analysis->factOf(result);
          if (fact.hasCuts() && seen.insert(result).second) {
            todo.push_back(result);
          }
          bool meets = fact.isMixed() && fact.reason->op == user && fact.reason->operand == at;
          found |= meets && comesFromUpdate(at);
        }
      }
    }
    return feedsRows_[value] = found;
  }
  bool comesFromUpdate(Value value) {
    llvm::DenseSet<Value> seen;
    SmallVector<Value> todo = {value};
    while (!todo.empty() && spendWork()) {
      Value at = todo.pop_back_val();
      if (isUpdate(at)) {
        return true;
      }
      for (Value operand : at.getDefiningOp()->getOperands()) {
        if (analysis->factOf(operand).hasCuts() && seen.insert(operand).second) {
          todo.push_back(operand);
        }
      }
    }
    return false;
  }

  /// Whether a sum is part of the next value of a parameter without having met rows again.
  bool updatesDirectly(Value value) {
    llvm::DenseSet<Value> seen;
    SmallVector<Value> todo = {value};
    while (!todo.empty() && spendWork()) {
      Value at = todo.pop_back_val();
      if (isUpdate(at)) {
        return true;
      }
      for (OpOperand &use : at.getUses()) {
        unsigned number = use.getOperandNumber();
        if (use.getOwner() == terminator()) {
          bool isState = leavingKind(number) == StepResult::Commit && meetsRows(targetOf(number));
          if (isState || (kindOf(number) != StepResult::Publish && isTrained(number))) {
            return true;
          }
          continue;
        }
        for (Value result : use.getOwner()->getResults()) {
          if (analysis->factOf(result).hasCuts() && seen.insert(result).second) {
            todo.push_back(result);
          }
        }
      }
    }
    return false;
  }

  /// A step may update its weights more than once, each time with gradients at what the last update gave. The first
  /// gradients get their noise alone: what follows is then a function of released values, and is analysed anew.
  bool groupFirst() {
    if (llvm::none_of(points, [&](const NoisePoint &point) { return feedsRows(point.value); })) {
      return false;
    }
    llvm::MapVector<unsigned, NoiseGroup> gradients;
    for (NoisePoint &point : points) {
      if (feedsRows(point.value) || updatesDirectly(point.value)) {
        NoiseGroup &group = gradients[analysis->cuts()[point.cuts.front()].draw];
        group.draw = analysis->cuts()[point.cuts.front()].draw;
        group.points.push_back(std::move(point));
      }
    }
    for (auto &[draw, group] : gradients) {
      groups.push_back(std::move(group));
    }
    return true;
  }

  LogicalResult group() {
    llvm::MapVector<unsigned, NoiseGroup> gradients;
    llvm::MapVector<std::pair<unsigned, unsigned>, NoiseGroup> metrics;
    for (NoisePoint &point : points) {
      unsigned draw = analysis->cuts()[point.cuts.front()].draw;
      Reach reach = reachOf(point.value);
      if (reach.trains || llvm::any_of(reach.states, [&](unsigned state) { return meetsRows(state); }) ||
          llvm::any_of(reach.kept, [&](unsigned result) { return isTrained(result); })) {
        NoiseGroup &group = gradients[draw];
        group.draw = draw;
        group.points.push_back(std::move(point));
      } else if (!reach.states.empty()) {
        return point.value.getDefiningOp()->emitError()
               << "a sum over private rows is kept without noise in a tensor that the model does not train; publish "
                  "the sum inside the step, and add up the published values";
      } else if (!reach.published.empty()) {
        // What feeds several results is released with the first.
        NoiseGroup &group = metrics[{draw, reach.published.front()}];
        group.draw = draw;
        group.result = reach.published.front();
        group.points.push_back(std::move(point));
      }
    }
    for (auto &[draw, group] : gradients) {
      groups.push_back(std::move(group));
    }
    // Sums of one result are of any size beside each other (how many, and of what): each has noise of its own size.
    for (auto &[key, group] : metrics) {
      for (NoisePoint &point : group.points) {
        groups.push_back({.draw = group.draw,
                          .points = {std::move(point)},
                          .result = group.result,
                          .parts = static_cast<unsigned>(group.points.size())});
      }
    }
    return success();
  }

  /// What ranges bound. With bound= a scientist says what of a row counts, and of what she wrote.
  std::vector<NoisePoint> unboundedMetrics() const {
    std::vector<NoisePoint> found;
    for (const NoiseGroup &group : groups) {
      auto known = group.result ? options.publishes.find(*group.result) : options.publishes.end();
      if (group.result && (known == options.publishes.end() || !known->second.bound)) {
        llvm::append_range(found, group.points);
      }
    }
    return found;
  }

  /// Each round analyses the whole step.
  static constexpr size_t kWorkMost = size_t{1} << 24, kRoundsMost = 64, kAnalysedMost = size_t{1} << 19;
  /// Sums times results: known before any of the work.
  static constexpr size_t kPairsMost = size_t{1} << 23;
  size_t work = 0;
  func::FuncOp step;
  const RowInputs &inputs;
  const PrivacyOptions &options;
  std::optional<rows::Analysis> analysis;
  std::vector<NoisePoint> points;
  std::vector<NoiseGroup> groups;
  llvm::DenseMap<unsigned, bool> meetsRows_;
  llvm::DenseMap<Value, bool> isUpdate_, feedsRows_;
  PrivacyPlan plan;
  GroupNoise noise{step, options, plan};
};

} // namespace

FailureOr<PrivacyPlan> sojourn::rewriteForPrivacy(func::FuncOp step, const RowInputs &inputs,
                                                  const PrivacyOptions &options) {
  return Rewrite(step, inputs, options).run();
}
