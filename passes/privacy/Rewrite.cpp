// SPDX-License-Identifier: Apache-2.0
// Where the noise goes: points are grouped by draw and by what they feed; NoiseGroup.h makes each group releasable.
#include "passes/privacy/Centred.h"
#include "passes/privacy/NoiseGroup.h"
#include "passes/privacy/Privacy.h"

#include "mlir/Analysis/TopologicalSortUtils.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace sojourn;

namespace {

/// What a point's value reaches.
struct Reach {
  /// States that are committed, by argument number; results that are published, and that are kept.
  llvm::SmallSetVector<unsigned, 4> states, published, kept;
};

class Rewrite {
public:
  Rewrite(func::FuncOp step, const RowInputs &inputs, const PrivacyOptions &options)
      : step(step), inputs(inputs), options(options) {}

  FailureOr<PrivacyPlan> run() {
    centredSums(step, inputs, plan.notes); // first: a divisor that can be taken out stays exact
    publicDivisors(step, inputs, plan.notes);
    analyseRows(step, inputs, analysis);
    points = findNoisePoints(step, analysis);
    LogicalResult grouped = failed(refuseMixed()) ? failure() : group();
    if (work > kWorkMost) {
      return step.emitError() << "the step is too large to be made private: too many sums over rows reach too many "
                                 "results; split it";
    }
    if (failed(grouped)) {
      return failure();
    }
    for (const rows::Draw &draw : analysis.draws()) {
      bool isPublicList = !draw.sampled;
      plan.draws.push_back({.isSampled = draw.sampled,
                            .slots = draw.slots,
                            .expected = isPublicList ? draw.slots : draw.expected,
                            .rows = isPublicList ? draw.slots : draw.population,
                            .tables = draw.tables,
                            .sites = {}});
    }
    for (const NoiseGroup &group : groups) {
      if (failed(noise.insert(group))) {
        return failure();
      }
    }
    if (!sortTopologically(&step.getBody().front())) {
      return step.emitError() << "the step's noise feeds what it is made of";
    }
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
  static StringRef wayOut(StringRef reason) {
    static constexpr std::pair<StringLiteral, StringLiteral> kWays[] = {
        {"meet a value that was summed", "; each row has to be computed without the others: GroupNorm, LayerNorm or "
                                         "frozen statistics (eval()) in place "
                                         "of batch normalization, one update of the weights per step"},
        {"each row meets other rows", "; a loss that compares rows with each other cannot be trained privately"},
        {"is taken over rows", "; sums, means and histograms over rows have useful bounds, their extrema have none"},
        {"runs along rows", "; sums, means and histograms over rows have useful bounds, their order has none"},
        {"were not drawn at the owner", "; take batches of the table, or all of its rows"},
        {"puts batches of rows one after another", "; use each batch in a step of its own"},
    };
    auto found = llvm::find_if(kWays, [&](const auto &way) { return reason.contains(way.first); });
    return found == std::end(kWays) ? StringRef() : StringRef(found->second);
  }

  /// Results that no noise can make releasable.
  LogicalResult refuseMixed() {
    for (OpOperand &operand : terminator()->getOpOperands()) {
      std::optional<StepResult> kind = leavingKind(operand.getOperandNumber());
      const rows::Fact fact = analysis.factOf(operand.get());
      bool isKept = kind == StepResult::Keep && !(fact.isMixed() && isUpdate(operand.getOperandNumber()));
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
      error << "no noise can make private what is " << verb << ": " << op->getName().stripDialect() << " "
            << (fact.reason ? fact.reason->text : std::string("was not analysed"))
            << (fact.reason ? wayOut(fact.reason->text) : StringRef());
      if (fact.reason && fact.reason->operand) {
        error.attachNote(fact.reason->operand.getLoc())
            << "this value is " << describe(analysis.factOf(fact.reason->operand));
      }
      if (Operation *maker = operand.get().getDefiningOp()) {
        error.attachNote(maker->getLoc()) << verb << " here";
      }
      return error;
    }
    return success();
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
          found |= analysis.factOf(result).isPerRow();
          if (analysis.factOf(result).isPublic() && seen.insert(result).second) {
            todo.push_back(result);
          }
        }
      }
    }
    return meetsRows_[argument] = found;
  }

  /// Whether a kept result is the next value of a parameter, as in a step that brings the parameters along: of the type
  /// of an argument that meets rows, and computed from it other than through rows.
  bool isUpdate(unsigned result) {
    auto [entry, isNew] = isUpdate_.try_emplace(result, false);
    if (!isNew) {
      return entry->second;
    }
    Value value = terminator()->getOperand(result);
    Type type = value.getType();
    bool found = false;
    llvm::DenseSet<Value> seen;
    SmallVector<Value> todo = {value};
    while (!todo.empty() && !found && spendWork()) {
      Value at = todo.pop_back_val();
      if (auto argument = dyn_cast<BlockArgument>(at)) {
        found |= argument.getType() == type && meetsRows(argument.getArgNumber());
      } else if (!analysis.factOf(at).isPerRow()) {
        for (Value operand : at.getDefiningOp()->getOperands()) {
          if (seen.insert(operand).second) {
            todo.push_back(operand);
          }
        }
      }
    }
    return isUpdate_[result] = found;
  }

  LogicalResult group() {
    llvm::MapVector<unsigned, NoiseGroup> gradients;
    llvm::MapVector<std::pair<unsigned, unsigned>, NoiseGroup> metrics;
    for (NoisePoint &point : points) {
      unsigned draw = analysis.cuts()[point.cuts.front()].draw;
      Reach reach = reachOf(point.value);
      if (llvm::any_of(reach.states, [&](unsigned state) { return meetsRows(state); }) ||
          llvm::any_of(reach.kept, [&](unsigned result) { return isUpdate(result); })) {
        NoiseGroup &group = gradients[draw];
        group.draw = draw;
        group.points.push_back(std::move(point));
      } else if (!reach.states.empty()) {
        return point.value.getDefiningOp()->emitError()
               << "a sum over private rows is kept in a tensor that the model does not train, where it would stay "
                  "without noise; publish it inside of the step, and add up what was published";
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
    llvm::DenseMap<unsigned, int> metricsOfDraw;
    for (auto &[key, group] : metrics) {
      metricsOfDraw[group.draw] += !noise.isBeside(group);
    }
    for (auto &[key, group] : metrics) {
      group.sharers = std::max(1, metricsOfDraw[group.draw]);
      groups.push_back(std::move(group));
    }
    return success();
  }

  static constexpr size_t kWorkMost = size_t{1} << 26;
  size_t work = 0;
  func::FuncOp step;
  const RowInputs &inputs;
  const PrivacyOptions &options;
  rows::Analysis analysis;
  std::vector<NoisePoint> points;
  std::vector<NoiseGroup> groups;
  llvm::DenseMap<unsigned, bool> meetsRows_, isUpdate_;
  PrivacyPlan plan;
  GroupNoise noise{step, analysis, options, plan};
};

} // namespace

FailureOr<PrivacyPlan> sojourn::rewriteForPrivacy(func::FuncOp step, const RowInputs &inputs,
                                                  const PrivacyOptions &options) {
  return Rewrite(step, inputs, options).run();
}
