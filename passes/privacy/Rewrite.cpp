// SPDX-License-Identifier: Apache-2.0
// Where the noise goes: points are grouped by draw and by what they feed, and each group becomes a clipped sum with
// noise (see Privacy.h).
#include "passes/privacy/Privacy.h"

#include "dialect/rows/Rounding.h"
#include "dialect/rows/Support.h"
#include "passes/privacy/Centred.h"

#include "mlir/Analysis/TopologicalSortUtils.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

#include <cmath>

using namespace mlir;
using namespace sojourn;

namespace {

/// What a point's value reaches.
struct Reach {
  /// States that are committed, by argument number; results that are published, and that are kept.
  llvm::SmallSetVector<unsigned, 4> states, published, kept;
};

struct Group {
  unsigned draw;
  std::vector<NoisePoint> points;
  /// Of metrics: the published result.
  std::optional<unsigned> result;
};

class Rewrite {
public:
  Rewrite(func::FuncOp step, const RowInputs &inputs, const PrivacyOptions &options)
      : step(step), inputs(inputs), options(options), builder(step.getContext()) {}

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
    for (Group &group : groups) {
      if (failed(insert(group))) {
        return failure();
      }
    }
    plan.sites = std::move(sites);
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
    llvm::MapVector<unsigned, Group> gradients;
    llvm::MapVector<std::pair<unsigned, unsigned>, Group> metrics;
    for (NoisePoint &point : points) {
      unsigned draw = analysis.cuts()[point.cuts.front()].draw;
      Reach reach = reachOf(point.value);
      if (llvm::any_of(reach.states, [&](unsigned state) { return meetsRows(state); }) ||
          llvm::any_of(reach.kept, [&](unsigned result) { return isUpdate(result); })) {
        Group &group = gradients[draw];
        group.draw = draw;
        group.points.push_back(std::move(point));
      } else if (!reach.states.empty()) {
        return point.value.getDefiningOp()->emitError()
               << "a sum over private rows is kept in a tensor that the model does not train, where it would stay "
                  "without noise; publish it inside of the step, and add up what was published";
      } else if (!reach.published.empty()) {
        // What feeds several results is released with the first.
        Group &group = metrics[{draw, reach.published.front()}];
        group.draw = draw;
        group.result = reach.published.front();
        group.points.push_back(std::move(point));
      }
    }
    for (auto &[draw, group] : gradients) {
      groups.push_back(std::move(group));
    }
    for (auto &[key, group] : metrics) {
      metricsOfDraw[group.draw] += !publishOf(group).rho && !publishOf(group).laplaceEpsilon;
      groups.push_back(std::move(group));
    }
    return success();
  }

  PrivacyOptions::Publish publishOf(const Group &group) const {
    auto known = group.result ? options.publishes.find(*group.result) : options.publishes.end();
    return known == options.publishes.end() ? PrivacyOptions::Publish() : known->second;
  }

  /// Ops between the cuts of a group and its points, in program order, cuts included.
  llvm::SetVector<Operation *> chainOf(const Group &group) {
    llvm::DenseSet<Operation *> inside;
    SmallVector<Value> todo;
    llvm::DenseSet<Operation *> cuts;
    for (const NoisePoint &point : group.points) {
      todo.push_back(point.value);
      for (unsigned cut : point.cuts) {
        cuts.insert(analysis.cuts()[cut].op);
      }
    }
    while (!todo.empty()) {
      Operation *op = todo.pop_back_val().getDefiningOp();
      if (!op || !inside.insert(op).second || cuts.contains(op)) {
        continue;
      }
      for (Value operand : op->getOperands()) {
        if (analysis.factOf(operand).isSum()) {
          todo.push_back(operand);
        }
      }
    }
    llvm::SetVector<Operation *> ordered;
    for (Operation &op : body()) {
      if (inside.contains(&op)) {
        ordered.insert(&op);
      }
    }
    return ordered;
  }

  /// By what a published result is the point's value times: through casts and products with constants.
  std::optional<double> factorTo(Value point, unsigned result) {
    double factor = 1;
    Value value = terminator()->getOperand(result);
    while (value != point) {
      Operation *op = value.getDefiningOp();
      if (!op) {
        return std::nullopt;
      }
      unsigned next = 0;
      if (isa<MulOp, DivOp>(op)) {
        auto constantAt = [&](unsigned k) {
          rows::Range range = analysis.factOf(op->getOperand(k)).range;
          return range.isConstant() && range.low != 0 ? std::optional(range.low) : std::nullopt;
        };
        next = constantAt(1) ? 0 : 1;
        std::optional<double> constant = constantAt(1 - next);
        if (!constant || (isa<DivOp>(op) && next == 1)) {
          return std::nullopt;
        }
        factor = isa<MulOp>(op) ? factor * *constant : factor / *constant;
      } else if (!isa<ReshapeOp, ConvertOp>(op)) {
        return std::nullopt;
      }
      value = op->getOperand(next);
    }
    return factor;
  }

  /// How a group is clipped and what becomes of it after the noise.
  struct Treatment {
    std::string clip = "flat";
    std::vector<double> bounds;
    int64_t norm = 2;
    double scale = 1;
    /// What the published result is times the noised value, where that is all it is.
    std::optional<double> factor;
    double rho = 0;
    std::optional<double> laplaceEpsilon;
  };

  Treatment treat(const Group &group) {
    const DrawUse &draw = plan.draws[group.draw];
    double slots = static_cast<double>(draw.slots), expected = static_cast<double>(draw.expected);
    double stepRho = 1 / (2 * options.noiseMultiplier * options.noiseMultiplier);
    Treatment treatment;
    if (!group.result) {
      double bound = options.lossIsMean ? options.clip / slots : options.clip;
      if (options.perLayer) {
        treatment.clip = "per_layer";
        double each = bound / std::sqrt(static_cast<double>(group.points.size()));
        treatment.bounds.assign(group.points.size(), each);
      } else {
        treatment.bounds = {bound};
      }
      treatment.scale = options.lossIsMean ? slots / expected : 1;
      treatment.rho = stepRho * (1 - options.metricShare);
      return treatment;
    }
    PrivacyOptions::Publish publish = publishOf(group);
    double factor = 1;
    if (group.points.size() == 1) {
      if (std::optional<double> found = factorTo(group.points[0].value, *group.result)) {
        treatment.factor = factor = std::abs(*found);
      }
    }
    // A mean over the slots stands for one over the rows that are expected.
    bool isMean = factor * slots <= 1 + 1e-6;
    treatment.scale = isMean ? slots / expected : 1;
    double unit = isMean ? 1 / (factor * slots) : 1 / factor;
    double asked = publish.bound.value_or(options.metricBound) * unit;
    double l1 = 0, l2 = 0;
    for (const NoisePoint &point : group.points) {
      rows::Influence influence = analysis.factOf(point.value).influence;
      l1 += influence.l1;
      l2 = std::hypot(l2, influence.l2);
    }
    treatment.laplaceEpsilon = publish.laplaceEpsilon;
    treatment.norm = publish.laplaceEpsilon ? 1 : 2;
    double proved = (treatment.norm == 1 ? l1 : l2) * (1 + 0x1p-30);
    // Clipping bounds the Euclidean norm, which costs a sum of magnitudes the root of their number.
    double numbers = 0;
    for (const NoisePoint &point : group.points) {
      numbers += static_cast<double>(*checkedNumel(cast<RankedTensorType>(point.value.getType()).getShape()));
    }
    double clipped = asked * (treatment.norm == 1 ? std::sqrt(numbers) : 1);
    if (std::isfinite(proved) && proved > 0 && (!publish.bound || proved <= clipped)) {
      treatment.clip = "none";
      treatment.bounds = {proved};
    } else {
      treatment.bounds = {asked};
      treatment.norm = 2;
    }
    treatment.rho = publish.rho.value_or(stepRho * options.metricShare / std::max(1, metricsOfDraw[group.draw]));
    return treatment;
  }

  /// The grid and the noise on it: sigma / 2^exponent is at least 2^20, and the noise pays for the rounding, too.
  static void chooseNoise(const Treatment &treatment, double slack, int64_t coordinates, ReleaseSite &site) {
    double bound = 0;
    for (double each : treatment.bounds) {
      bound = std::hypot(bound, each);
    }
    site.bound = bound;
    if (treatment.laplaceEpsilon && treatment.norm == 2) { // as rows::noise proves it
      bound *= std::sqrt(static_cast<double>(coordinates));
    }
    double ratio = treatment.laplaceEpsilon ? 1 / *treatment.laplaceEpsilon : 1 / std::sqrt(2 * treatment.rho);
    site.exponent = static_cast<int64_t>(std::floor(std::log2(bound * ratio))) - 20;
    double units = bound * (1 + 0x1p-40) * (1 + slack) / std::ldexp(1.0, static_cast<int>(site.exponent));
    double rounding =
        treatment.laplaceEpsilon ? static_cast<double>(coordinates) : std::sqrt(static_cast<double>(coordinates));
    site.scale = static_cast<int64_t>(std::ceil((units + rounding) * (1 + 0x1p-30) * ratio));
  }

  static Operation &point(const Group &group) { return *group.points.front().value.getDefiningOp(); }

  LogicalResult insert(Group &group) {
    Treatment treatment = treat(group);
    Location location = group.points.front().value.getLoc();
    llvm::SetVector<Operation *> chain = chainOf(group);
    llvm::SetVector<Value> operands;
    for (Operation *op : chain) {
      for (Value operand : op->getOperands()) {
        if (!chain.contains(operand.getDefiningOp())) {
          operands.insert(operand);
        }
      }
    }
    SmallVector<Type> sumTypes, pointTypes;
    int64_t coordinates = 0;
    for (const NoisePoint &point : group.points) {
      auto type = cast<RankedTensorType>(point.value.getType());
      if (!isa<FloatType, IntegerType>(type.getElementType())) {
        return point.value.getDefiningOp()->emitError() << "a sum of complex numbers over private rows has no noise; "
                                                           "publish its real and imaginary parts";
      }
      pointTypes.push_back(type);
      sumTypes.push_back(type.clone(builder.getF64Type()));
      coordinates += *checkedNumel(type.getShape());
    }
    bool isBounded = llvm::all_of(treatment.bounds, [](double bound) { return std::isnormal(bound) && bound > 0; });
    bool hasPrice = treatment.laplaceEpsilon || std::isnormal(treatment.rho);
    if (!isBounded || !hasPrice) {
      return point(group).emitError() << (isBounded ? "a value is published that has no part of the step's price; "
                                                      "give metric_share, or publish it with epsilon="
                                                    : "no bound of what a row adds follows from the factors of this "
                                                      "value; publish it without them");
    }
    builder.setInsertionPoint(terminator());
    auto sum = ClippedSumOp::create(builder, location, sumTypes, analysis.draws()[group.draw].index,
                                    operands.getArrayRef(), treatment.clip, treatment.bounds, treatment.norm);
    Block *inner = builder.createBlock(&sum.getBody());
    IRMapping mapping;
    for (Value operand : operands) {
      mapping.map(operand, inner->addArgument(operand.getType(), operand.getLoc()));
    }
    for (Operation *op : chain) {
      builder.clone(*op, mapping);
    }
    SmallVector<Value> yields;
    for (const NoisePoint &point : group.points) {
      yields.push_back(mapping.lookup(point.value));
    }
    YieldOp::create(builder, location, yields);

    ReleaseSite site{.what = group.result ? "published result " + std::to_string(*group.result)
                                          : "gradient of " + std::to_string(group.points.size()) + " tensors",
                     .op = group.points.front().value.getDefiningOp()->getName().stripDialect().str(),
                     .isBeside = publishOf(group).rho || publishOf(group).laplaceEpsilon,
                     .isLaplace = treatment.laplaceEpsilon.has_value(),
                     .result = group.result,
                     .error = std::nullopt,
                     .location = location};
    site.coordinates = coordinates;
    chooseNoise(treatment, rows::accumulationOf(sum).slack, coordinates, site);
    if (treatment.factor) {
      double deviation = site.isLaplace ? std::sqrt(2.0) : 1;
      site.error = *treatment.factor * treatment.scale * deviation * static_cast<double>(site.scale) *
                   std::ldexp(1.0, static_cast<int>(site.exponent));
    }

    SmallVector<Value> coins;
    SmallVector<Type> noisedTypes;
    for (Type type : sumTypes) {
      auto tensor = cast<RankedTensorType>(type);
      coins.push_back(addCoin(tensor.clone(builder.getI64Type()), location));
      if (!coins.back()) {
        return step.emitError() << "cannot take an argument for noise";
      }
      plan.coins.push_back({.kind = site.isLaplace ? CoinSpec::Kind::Laplace : CoinSpec::Kind::Gaussian,
                            .shape = tensor.getShape().vec(),
                            .scale = site.scale});
      noisedTypes.push_back(type);
    }
    builder.setInsertionPoint(terminator());
    auto noise = NoiseOp::create(builder, location, noisedTypes, sum.getSums(), coins,
                                 site.isLaplace ? "laplace" : "gaussian", site.exponent, site.scale);
    for (auto [point, noised, type] : llvm::zip(group.points, noise.getResults(), pointTypes)) {
      Value value = noised;
      if (treatment.scale != 1) {
        Value factor = ConstantOp::create(builder, location, RankedTensorType::get({}, builder.getF64Type()),
                                          builder.getF64FloatAttr(treatment.scale));
        value = MulOp::create(builder, location, value.getType(), value, factor);
      }
      if (isa<IntegerType>(cast<RankedTensorType>(type).getElementType())) {
        value = RoundOp::create(builder, location, value.getType(), value);
      }
      if (value.getType() != type) {
        value = ConvertOp::create(builder, location, type, value);
      }
      point.value.replaceAllUsesWith(value);
    }
    noise->setAttr(kSiteAttr, builder.getI64IntegerAttr(static_cast<int64_t>(sites.size())));
    sites.push_back(std::move(site));
    return success();
  }

  /// The new argument; null where the function takes none.
  Value addCoin(Type type, Location location) {
    unsigned number = step.getNumArguments();
    auto kind =
        builder.getDictionaryAttr(builder.getNamedAttr(kKindAttr, builder.getStringAttr(stringify(StepArg::Coin))));
    return succeeded(step.insertArgument(number, type, kind, location)) ? step.getArgument(number) : Value();
  }

  static constexpr size_t kWorkMost = size_t{1} << 26;
  size_t work = 0;
  func::FuncOp step;
  const RowInputs &inputs;
  const PrivacyOptions &options;
  OpBuilder builder;
  rows::Analysis analysis;
  std::vector<NoisePoint> points;
  std::vector<Group> groups;
  std::vector<ReleaseSite> sites;
  llvm::DenseMap<unsigned, int> metricsOfDraw;
  llvm::DenseMap<unsigned, bool> meetsRows_, isUpdate_;
  PrivacyPlan plan;
};

} // namespace

FailureOr<PrivacyPlan> sojourn::rewriteForPrivacy(func::FuncOp step, const RowInputs &inputs,
                                                  const PrivacyOptions &options) {
  return Rewrite(step, inputs, options).run();
}
