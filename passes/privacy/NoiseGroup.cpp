// SPDX-License-Identifier: Apache-2.0
// How one group of noise points becomes a clipped sum with noise (see NoiseGroup.h).
#include "passes/privacy/NoiseGroup.h"

#include "dialect/CoreForm.h"
#include "dialect/ElementwiseOps.h"
#include "dialect/LayoutOps.h"
#include "dialect/OwnerOps.h"
#include "dialect/RowOps.h"
#include "dialect/SourceOps.h"
#include "dialect/UnaryOps.h"
#include "dialect/rows/Rounding.h"
#include "dialect/rows/Support.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>
#include <utility>

using namespace mlir;
using namespace sojourn;

PrivacyOptions::Publish GroupNoise::publishOf(const NoiseGroup &group) const {
  auto known = group.result ? options.publishes.find(*group.result) : options.publishes.end();
  return known == options.publishes.end() ? PrivacyOptions::Publish() : known->second;
}

/// By what a published result is the point's value times: through casts and products with constants.
std::optional<double> GroupNoise::factorTo(Value point, unsigned result) {
  double factor = 1;
  Value value = body().getTerminator()->getOperand(result);
  while (value != point) {
    Operation *op = value.getDefiningOp();
    if (!op) {
      return std::nullopt;
    }
    unsigned next = 0;
    if (isa<MulOp, DivOp>(op)) {
      auto constantAt = [&](unsigned k) {
        rows::Range range = analysis->factOf(op->getOperand(k)).range;
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

/// Slots of a draw, and the rows expected in them; all of a public list.
static std::pair<double, double> sizesOf(const rows::Draw &draw) {
  auto slots = static_cast<double>(draw.slots);
  return {slots, draw.sampled ? static_cast<double>(draw.expected) : slots};
}

/// Means over the slots of a draw stand for means over the rows that are expected.
void GroupNoise::scaleMeans(const NoiseGroup &group) {
  auto [slots, expected] = sizesOf(drawOf(group));
  if (slots == expected) {
    return;
  }
  for (const NoisePoint &point : group.points) {
    for (Operation *mean : slotMeans.of(point.value, drawOf(group).slots, *analysis)) {
      slotMeans.scale(mean, slots / expected);
    }
  }
}

/// Of a step that releases one thing.
static double stepRho(const PrivacyOptions &options) {
  return 1 / (2 * options.noiseMultiplier * options.noiseMultiplier);
}

GroupNoise::Treatment GroupNoise::treat(const NoiseGroup &group) {
  return group.result ? treatMetric(group) : treatGradient(group);
}

GroupNoise::Treatment GroupNoise::treatGradient(const NoiseGroup &group) {
  auto [slots, expected] = sizesOf(drawOf(group));
  Treatment treatment;
  double bound = options.lossIsMean ? options.clip / slots : options.clip;
  if (options.perLayer) {
    treatment.clip = "per_layer";
    double each = bound / std::sqrt(static_cast<double>(group.points.size()));
    treatment.bounds.assign(group.points.size(), each);
  } else {
    treatment.bounds = {bound};
  }
  treatment.scale = options.lossIsMean ? slots / expected : 1;
  treatment.rho = stepRho(options) * (1 - options.metricShare);
  return treatment;
}

/// Whether rows meet a public argument on the way to a value of which only the type is known: an uploaded tensor, or
/// weights.
bool GroupNoise::meetsUnknownNumbers(Value value) const {
  llvm::DenseSet<Value> seen = {value};
  SmallVector<Value> todo = {value};
  while (!todo.empty()) {
    Value at = todo.pop_back_val();
    rows::Range range = analysis->factOf(at).range;
    if (Operation *op = at.getDefiningOp(); op && !isa<ReadRowsOp>(op)) {
      llvm::copy_if(op->getOperands(), std::back_inserter(todo), [&](Value each) { return seen.insert(each).second; });
    } else if (!op && isa<RankedTensorType>(at.getType()) && range == rows::rangeOfType(at.getType()) &&
               !(range.magnitude() < 0x1p16)) { // a mask, or bytes
      return true;
    }
  }
  return false;
}

GroupNoise::Treatment GroupNoise::treatMetric(const NoiseGroup &group) {
  auto [slots, expected] = sizesOf(drawOf(group));
  Treatment treatment;
  PrivacyOptions::Publish publish = publishOf(group);
  Value point = group.points.front().value; // of metrics there is one
  double unit = 1; // of the sum in that of the result; of a mean in that of what it is a mean of
  if (std::optional<double> factor = factorTo(point, *group.result)) {
    bool isMean = !slotMeans.of(point, drawOf(group).slots, *analysis).empty();
    // What is divided by the expected rows in the script itself is a mean, too, and needs no correction.
    bool isExpected = !isMean && std::abs(*factor) * expected <= 1 + 1e-6;
    unit = 1 / (std::abs(*factor) * (isMean ? slots : isExpected ? expected : 1));
  }
  double asked = publish.bound.value_or(options.metricBound) * unit;
  treatment.laplaceEpsilon = publish.laplaceEpsilon;
  treatment.norm = publish.laplaceEpsilon ? 1 : 2;
  rows::Influence influence = analysis->factOf(point).influence;
  double proved = (treatment.norm == 1 ? influence.l1 : influence.l2) * (1 + 0x1p-30);
  // Clipping bounds the Euclidean norm, which costs a sum of magnitudes the root of their number.
  auto numbers = static_cast<double>(*checkedNumel(rows::shapeOf(point)));
  double clipped = asked * (treatment.norm == 1 ? std::sqrt(numbers) : 1);
  if (std::isfinite(proved) && proved > 0 && (!publish.bound || proved <= clipped)) {
    treatment.clip = "none";
    treatment.bounds = {proved};
  } else {
    treatment.bounds = {asked};
    treatment.norm = 2;
    if (!publish.bound && !drawOf(group).sampled) { // of a batch's loss the default is what is meant
      plan.notes.push_back(llvm::formatv(
          "the contribution of one row to a published value ({0}) is clamped to {1}, the default: "
          "{2}, and publish() got no bound=",
          group.firstOp().getName().stripDialect(), options.metricBound,
          meetsUnknownNumbers(point) ? "its range depends on numbers of the script that the proof does not know"
                                     : "the bounds of the columns give it no range"));
    }
  }
  treatment.rho = publish.rho.value_or(stepRho(options) * options.metricShare);
  return treatment;
}

/// Binary exponent of what a row adds to a group. Grids of noise reach up to 2^900; in between is room for large noise
/// multipliers and for prices that are shared. For the least see rows::kBoundLeast.
static constexpr int kBoundMost = 820, kBoundLeast = -400;
static_assert(rows::kBoundLeast == 0x1p-400);

double GroupNoise::boundOf(const Treatment &treatment) {
  double bound = 0;
  for (double each : treatment.bounds) {
    bound = std::hypot(bound, each);
  }
  return bound;
}

/// The grid and the noise on it: sigma / 2^exponent is at least 2^20, and the noise pays for the rounding, too.
/// False where a tiny price asks for more noise than the op takes (dialect/Owner.cpp).
bool GroupNoise::chooseNoise(const Treatment &treatment, double slack, ReleaseSite &site) {
  auto coordinates = static_cast<double>(site.coordinates);
  double bound = site.bound = boundOf(treatment);
  if (treatment.laplaceEpsilon && treatment.norm == 2) { // as rows::noise proves it
    bound *= std::sqrt(coordinates);
  }
  double ratio = treatment.laplaceEpsilon ? 1 / *treatment.laplaceEpsilon : 1 / std::sqrt(2 * treatment.rho);
  const double exponent = std::floor(std::log2(bound * ratio)) - 20;
  if (!(std::abs(exponent) <= 900)) {
    return false;
  }
  site.exponent = static_cast<int64_t>(exponent);
  double units = bound * (1 + 0x1p-40) * (1 + slack) / std::ldexp(1.0, static_cast<int>(site.exponent));
  double rounding = treatment.laplaceEpsilon ? coordinates : std::sqrt(coordinates);
  const double scale = std::ceil((units + rounding) * (1 + 0x1p-30) * ratio);
  if (!(scale <= 0x1p52)) {
    return false;
  }
  site.scale = static_cast<int64_t>(scale);
  return true;
}

ClippedSumOp GroupNoise::insertSum(const NoiseGroup &group, const Treatment &treatment, ArrayRef<Type> types) {
  Location location = group.points.front().value.getLoc();
  llvm::SetVector<Operation *> chain = chainOf(group.points, *analysis);
  llvm::SetVector<Value> operands;
  for (Operation *op : chain) {
    for (Value operand : op->getOperands()) {
      if (!chain.contains(operand.getDefiningOp())) {
        operands.insert(operand);
      }
    }
  }
  builder.setInsertionPoint(body().getTerminator());
  const rows::Draw &draw = drawOf(group);
  Value slots = draw.read ? draw.read : draw.index; // a row may have gone where another order was laid over the draw's
  auto sum = ClippedSumOp::create(builder, location, types, slots, operands.getArrayRef(), treatment.clip,
                                  treatment.bounds, treatment.norm);
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
  builder.setInsertionPoint(body().getTerminator());
  return sum;
}

LogicalResult GroupNoise::insert(const NoiseGroup &group, const rows::Analysis &now) {
  analysis = &now;
  Treatment treatment = treat(group);
  if (group.result) {
    scaleMeans(group);
  }
  Location location = group.points.front().value.getLoc();
  SmallVector<Type> sumTypes;
  int64_t coordinates = 0;
  for (const NoisePoint &point : group.points) {
    auto type = cast<RankedTensorType>(point.value.getType());
    if (!isa<FloatType, IntegerType>(type.getElementType())) {
      return point.value.getDefiningOp()->emitError() << "a sum of complex numbers over private rows has no noise; "
                                                         "publish its real and imaginary parts";
    }
    sumTypes.push_back(type.clone(builder.getF64Type()));
    coordinates += *checkedNumel(type.getShape());
  }
  bool isBounded = llvm::all_of(treatment.bounds, [](double bound) { return std::isnormal(bound) && bound > 0; });
  bool hasPrice = treatment.laplaceEpsilon || std::isnormal(treatment.rho);
  if (!isBounded || !hasPrice) {
    return group.firstOp().emitError() << (isBounded
                                               ? "a published value has no share of the step's price; "
                                                 "give metric_share, or publish it with epsilon="
                                               : "the factors of this value give no bound for the contribution of "
                                                 "one row; publish it without them");
  }
  double exponent = std::log2(boundOf(treatment));
  if (!(exponent >= kBoundLeast && exponent <= kBoundMost)) {
    return group.firstOp().emitError()
           << "the contribution of one row to this value is bounded by 2^" << llvm::formatv("{0:f0}", exponent)
           << ", expected a bound from 2^" << kBoundLeast << " to 2^" << kBoundMost << ", the range of the noise; "
           << (group.result ? "declare other bounds of the columns, publish with a bound= nearer to 1, or "
                              "rescale the rows before the sum"
                            : "give a clip= nearer to 1");
  }
  ClippedSumOp sum = insertSum(group, treatment, sumTypes);

  ReleaseSite site{.what = group.result ? "published result " + std::to_string(*group.result)
                                        : "gradient of " + std::to_string(group.points.size()) + " tensors",
                   .op = group.firstOp().getName().stripDialect().str(),
                   .isBeside = publishOf(group).rho || publishOf(group).laplaceEpsilon,
                   .isLaplace = treatment.laplaceEpsilon.has_value(),
                   .result = group.result,
                   .location = location};
  site.coordinates = coordinates;
  double slack = rows::accumulationOf(sum).slack;
  if (!chooseNoise(treatment, slack, site)) {
    return group.firstOp().emitError() << "the price of the " << site.what
                                       << " is too small: its noise is more than can be drawn; give a larger "
                                          "epsilon or metric_share, or publish fewer numbers at once";
  }

  size_t firstCoin = plan.coins.size();
  SmallVector<Value> coins;
  for (Type type : sumTypes) {
    auto tensor = cast<RankedTensorType>(type);
    coins.push_back(addCoin(tensor.clone(builder.getI64Type()), location));
    if (!coins.back()) {
      return step.emitError() << "cannot add an argument for noise";
    }
    plan.coins.push_back({.kind = site.isLaplace ? CoinSpec::Kind::Laplace : CoinSpec::Kind::Gaussian,
                          .shape = tensor.getShape().vec(),
                          .scale = site.scale,
                          .site = plan.sites.size()});
  }
  auto noise = NoiseOp::create(builder, location, sumTypes, sum.getSums(), coins,
                               site.isLaplace ? "laplace" : "gaussian", site.exponent, site.scale);
  noise->setAttr(kSiteAttr, builder.getI64IntegerAttr(static_cast<int64_t>(plan.sites.size())));
  replacePoints(group, treatment, noise);
  all.push_back({.draw = drawOf(group).index,
                 .isGradient = !group.result,
                 .isBeside = site.isBeside,
                 .price = publishOf(group).price,
                 .part = 1.0 / group.parts,
                 .treatment = std::move(treatment),
                 .slack = slack,
                 .noise = noise,
                 .site = plan.sites.size(),
                 .firstCoin = firstCoin});
  plan.sites.push_back(std::move(site));
  return success();
}

void GroupNoise::settle() {
  llvm::DenseMap<Value, int> gradients;
  llvm::DenseMap<Value, double> metrics;
  llvm::DenseMap<std::pair<Value, unsigned>, double> priced; // how many results of a draw one price pays for
  for (const Inserted &each : all) {
    gradients[each.draw] += each.isGradient;
    metrics[each.draw] += !each.isGradient && !each.isBeside ? each.part : 0;
    priced[{each.draw, each.price}] += each.isBeside ? each.part : 0;
  }
  for (Inserted &each : all) {
    each.treatment.rho /= each.isBeside     ? priced[{each.draw, each.price}]
                          : each.isGradient ? gradients[each.draw]
                                            : metrics[each.draw];
    each.treatment.rho *= each.part;
    if (each.treatment.laplaceEpsilon) {
      *each.treatment.laplaceEpsilon *= each.part / priced[{each.draw, each.price}];
    }
    ReleaseSite &site = plan.sites[each.site];
    chooseNoise(each.treatment, each.slack, site);
    each.noise.setExponent(site.exponent);
    each.noise.setScale(site.scale);
    for (size_t k = 0; k < each.noise.getCoins().size(); ++k) {
      plan.coins[each.firstCoin + k].scale = site.scale;
    }
  }
}

/// Whether a sum is known to be at least 0, so that its root must exist with noise, too, and nothing else says so.
bool GroupNoise::isNeverNegative(Value point) {
  auto saysSo = [&](Operation *user) {
    auto isZero = [&](Value value) {
      rows::Range range = analysis->factOf(value).range;
      return range.isConstant() && range.low == 0;
    };
    return isa<MaxOp>(user) && llvm::any_of(user->getOperands(), isZero);
  };
  rows::Range range = analysis->factOf(point).range;
  return range.low >= 0 && !llvm::all_of(point.getUsers(), saysSo);
}

void GroupNoise::replacePoints(const NoiseGroup &group, const Treatment &treatment, NoiseOp noise) {
  Location location = noise.getLoc();
  for (auto [point, noised] : llvm::zip(group.points, noise.getResults())) {
    auto type = cast<RankedTensorType>(point.value.getType());
    Value value = noised;
    if (treatment.scale != 1) {
      Value factor = ConstantOp::create(builder, location, RankedTensorType::get({}, builder.getF64Type()),
                                        builder.getF64FloatAttr(treatment.scale));
      value = MulOp::create(builder, location, value.getType(), value, factor);
    }
    if (group.result && isNeverNegative(point.value)) {
      Value zero = ConstantOp::create(builder, location, RankedTensorType::get({}, builder.getF64Type()),
                                      builder.getF64FloatAttr(0));
      value = MaxOp::create(builder, location, value.getType(), value, zero);
    }
    if (isa<IntegerType>(type.getElementType())) {
      value = RoundOp::create(builder, location, value.getType(), value);
    }
    if (value.getType() != type) {
      value = ConvertOp::create(builder, location, type, value);
    }
    Value(point.value).replaceAllUsesWith(value);
  }
}

/// The new argument; null where the function takes none.
Value GroupNoise::addCoin(Type type, Location location) {
  unsigned number = step.getNumArguments();
  auto kind =
      builder.getDictionaryAttr(builder.getNamedAttr(kKindAttr, builder.getStringAttr(stringify(StepArg::Coin))));
  return succeeded(step.insertArgument(number, type, kind, location)) ? step.getArgument(number) : Value();
}
