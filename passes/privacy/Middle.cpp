// SPDX-License-Identifier: Apache-2.0
// Middles of ranges, and the sums that are taken around them (see Middle.h).
#include "passes/privacy/Middle.h"
#include "dialect/IndexOps.h"
#include "dialect/LayoutOps.h"
#include "dialect/ReductionOps.h"
#include "dialect/RowOps.h"
#include "dialect/UnaryOps.h"

#include "dialect/rows/Support.h"
#include "passes/privacy/Polynomial.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

#include <cmath>

using namespace mlir;
using namespace sojourn;
using rows::Fact;
using rows::Range;

/// A bound that is lower by less is not worth an op.
static constexpr double kGain = 1 - 0x1p-10;
/// Casts and transposes between a value and the columns that it is made of; and so many columns, of which each costs
/// ops.
static constexpr size_t kMovesMost = 8, kPartsMost = 256;
/// A narrower column has the noise of one that is so wide: nobody will tell the difference.
static constexpr double kScaleLeast = 0x1p-64;

namespace {

/// Columns of one range: a part of a concatenation, or one column of a read.
struct Part {
  Value value; ///< null for a column that is yet to be read alone
  StringAttr column;
  Range range;
};

double middleOf(const Range &range) { return range.low / 2 + range.high / 2; }

/// How far from its middle a value is.
double reachOf(const Range &range) {
  double middle = middleOf(range);
  return std::max(range.high - middle, middle - range.low);
}

/// Where the rows are a dim of their own.
std::optional<int64_t> rowDim(const Fact &fact, Value x) {
  std::optional<rows::Place> place = fact.isPerRow() ? rows::placeOf(fact.rows, Emit::shape(x)) : std::nullopt;
  return place && place->outer == 1 && place->inner == 1 ? std::optional(place->dim) : std::nullopt;
}

/// Whether each slot of the draw holds a row that everybody may count.
bool isCounted(const rows::Draw &draw, const rows::Analysis &analysis) {
  if (draw.sampled || !draw.read) {
    return false;
  }
  Range index = analysis.factOf(draw.read).range;
  return index.isBounded() && index.low >= 0;
}

/// The columns of a concatenation or of a read; nothing where an op is neither.
SmallVector<Part> partsOf(Operation *source, const rows::Analysis &analysis) {
  SmallVector<Part> parts;
  if (auto concat = dyn_cast_or_null<ConcatOp>(source)) {
    for (Value part : concat.getInputs()) {
      parts.push_back({part, {}, analysis.factOf(part).presentRange()});
    }
  } else if (auto read = dyn_cast_or_null<ReadRowsOp>(source)) {
    auto known = analysis.tables.find(read.getTable());
    TableType table = read.getTable().getType();
    for (Attribute name : read.getColumns()) {
      const auto *found = llvm::find(table.getNames(), cast<StringAttr>(name));
      auto index = static_cast<size_t>(found - table.getNames().begin());
      bool isKnown = known != analysis.tables.end() && index < known->second.columns.size();
      parts.push_back({{}, cast<StringAttr>(name), isKnown ? known->second.columns[index] : Range()});
    }
  }
  return parts;
}

/// Parts of different ranges, each around its own middle.
class PartsCentred {
public:
  PartsCentred(Value x, const rows::Analysis &analysis, Emit &emit, ColumnBudget &budget)
      : analysis(analysis), emit(emit), budget(budget), source(x) {
    while (moves.size() < kMovesMost) {
      Operation *op = source.getDefiningOp();
      bool isCast = isa_and_nonnull<ConvertOp>(op) && isa<FloatType>(Emit::element(source)) &&
                    isa<FloatType>(Emit::element(op->getOperand(0)));
      if (!isCast && !isa_and_nonnull<TransposeOp>(op)) {
        break;
      }
      moves.push_back(op);
      source = op->getOperand(0);
    }
    parts = partsOf(source.getDefiningOp(), analysis);
    if (parts.size() > std::min(kPartsMost, budget.left)) {
      parts.clear();
    }
  }

  /// What is left to move a sum by; infinite where that is not known.
  double reach() const {
    double most = parts.size() < 2 ? std::numeric_limits<double>::infinity() : 0;
    for (const Part &part : parts) {
      most = part.range.isBounded() ? std::max(most, reachOf(part.range)) : std::numeric_limits<double>::infinity();
    }
    return most;
  }
  /// Whether some part has less, and all are known.
  bool isUneven() const {
    double most = reach();
    return std::isfinite(most) &&
           llvm::any_of(parts, [&](const Part &part) { return reachOf(part.range) < most * kGain; });
  }

  std::optional<Centred> run(bool isScaled) {
    std::optional<int64_t> dim = rowDim(analysis.factOf(source), source);
    if (!dim) {
      return std::nullopt;
    }
    auto concat = source.getDefiningOp<ConcatOp>();
    int64_t along = concat ? static_cast<int64_t>(concat.getDim()) : 1;
    budget.left -= parts.size();
    SmallVector<Value> centred, middles, scales;
    double most = reach();
    for (const Part &part : parts) {
      Value value = part.value ? part.value : readAlone(part.column);
      for (Operation *move : llvm::reverse(moves)) { // as exact as the step's own casts
        value = isa<ConvertOp>(move) ? emit.convert(value, Emit::element(move->getResult(0))) : value;
      }
      double middle = middleOf(part.range), scale = reachOf(part.range) / most;
      scale = isScaled && scale >= kScaleLeast ? scale : 1;
      Value around = emit.add(emit.wide(value), emit.constant(-middle));
      centred.push_back(scale == 1 ? around : emit.mul(around, emit.constant(1 / scale)));
      SmallVector<int64_t> shape = shapeWithout(Emit::shape(value), *dim);
      middles.push_back(emit.broadcast(emit.constant(middle), shape, {}));
      scales.push_back(emit.broadcast(emit.constant(scale), shape, {}));
    }
    int64_t alongLeft = along - (along > *dim ? 1 : 0);
    Centred result{emit.concat(centred, along), emit.concat(middles, alongLeft),
                   isScaled ? emit.concat(scales, alongLeft) : Value()};
    for (Operation *move : llvm::reverse(moves)) {
      if (auto transpose = dyn_cast<TransposeOp>(move)) {
        SmallVector<int64_t> perm = without(transpose.getPerm(), *dim);
        result = {emit.transpose(result.centred, transpose.getPerm()), emit.transpose(result.middle, perm),
                  result.scale ? emit.transpose(result.scale, perm) : Value()};
        dim = llvm::find(transpose.getPerm(), *dim) - transpose.getPerm().begin();
      }
    }
    return result;
  }

private:
  Value readAlone(StringAttr column) {
    auto read = source.getDefiningOp<ReadRowsOp>();
    SmallVector<int64_t> shape(Emit::shape(source));
    shape[1] = 1;
    auto type = RankedTensorType::get(shape, Emit::element(source));
    return ReadRowsOp::create(emit.builder, emit.location, type, read.getTable(), read.getIndices(),
                              emit.builder.getArrayAttr({column}));
  }

  const rows::Analysis &analysis;
  Emit &emit;
  ColumnBudget &budget;
  Value source;
  SmallVector<Operation *> moves; ///< from the value to its source
  SmallVector<Part> parts;
};

} // namespace

std::optional<Centred> sojourn::centredAt(Value x, bool mayScale, const rows::Analysis &analysis, Emit &emit,
                                          ColumnBudget &budget) {
  const Fact fact = analysis.factOf(x);
  Range range = fact.presentRange();
  if (!range.isBounded() || !rowDim(fact, x) || !isCounted(analysis.draws()[fact.rows.draw], analysis)) {
    return std::nullopt;
  }
  int64_t elements = Emit::numel(Emit::shape(x)) / fact.rows.slots;
  if (fact.nonzeros && *fact.nonzeros < elements) { // a histogram: to move it by less where it is 0 is to move it more
    return std::nullopt;
  }
  PartsCentred parts(x, analysis, emit, budget);
  double together = reachOf(range);
  if (together == 0) { // the same in every row: no noise is as small as what one moves then
    return std::nullopt;
  }
  bool isScaled = mayScale && parts.isUneven();
  if (!isScaled && std::min(together, parts.reach()) > range.magnitude() * kGain) {
    return std::nullopt;
  }
  if (isScaled || parts.reach() < together * kGain) {
    return parts.run(isScaled);
  }
  return Centred{emit.add(emit.wide(x), emit.constant(-middleOf(range))), emit.constant(middleOf(range)), {}};
}

namespace {

/// The sums behind one noise point, made again in f64.
class PointCentred {
public:
  PointCentred(const NoisePoint &point, const rows::Analysis &analysis, ColumnBudget &budget)
      : point(point), analysis(analysis), budget(budget), builder(point.value.getDefiningOp()),
        emit(builder, point.value.getLoc()) {}

  /// Adds the ops that it takes the place of, first ones first; whether there are any.
  bool run(SmallVectorImpl<Operation *> &replaced) {
    SmallVector<std::pair<ReduceSumOp, std::optional<Centred>>> cuts;
    for (unsigned cut : point.cuts) {
      auto sum = dyn_cast<ReduceSumOp>(analysis.cuts()[cut].op);
      if (!sum || !isa<FloatType, IntegerType>(Emit::element(sum.getX()))) {
        return false;
      }
      cuts.push_back({sum, std::nullopt});
    }
    // A scale is made good after the noise, which is that of the cut then.
    bool isCut = cuts.size() == 1 && cuts[0].first.getResult() == point.value && cuts[0].first.getDims().size() == 1;
    for (auto &[sum, x] : cuts) {
      x = centredAt(sum.getX(), /*mayScale=*/isCut, analysis, emit, budget);
    }
    if (llvm::none_of(cuts, [](const auto &each) { return each.second.has_value(); })) {
      return false;
    }
    for (const auto &[sum, x] : cuts) {
      addCut(sum, x);
    }
    llvm::SetVector<Operation *> chain = chainOf(point, analysis);
    for (Operation *op : chain) {
      if (!sums.contains(op->getResult(0))) {
        cloneInto(sums, op);
        cloneInto(terms, op);
      }
    }
    Value scale = isCut ? cuts[0].second->scale : Value(), sum = sums.lookup(point.value);
    Value total = emit.add(scale ? emit.mul(sum, scale) : sum, terms.lookup(point.value));
    Type element = Emit::element(point.value);
    if (analysis.factOf(point.value).range.low >= 0) { // which the sum around the middle shows no more
      total = emit.max(total, emit.constant(0));
    }
    total = emit.convert(isa<IntegerType>(element) ? emit.round(total) : total, element);
    Value(point.value).replaceAllUsesWith(total);
    llvm::append_range(replaced, chain);
    return true;
  }

private:
  void addCut(ReduceSumOp sum, const std::optional<Centred> &x) {
    ArrayRef<int64_t> shape = Emit::shape(sum.getResult());
    sums.map(sum.getResult(), emit.sum(x ? x->centred : emit.wide(sum.getX()), sum.getDims()));
    const Fact fact = analysis.factOf(sum.getX());
    Value middle = x ? x->middle : emit.constant(0);
    auto count = static_cast<double>(fact.rows.slots);
    if (Emit::shape(middle).empty()) {
      count = static_cast<double>(Emit::numel(Emit::shape(sum.getX())) / Emit::numel(shape));
    } else {
      middle = emit.sum(middle, without(sum.getDims(), *rowDim(fact, sum.getX())));
    }
    Value term = emit.mul(middle, emit.constant(count));
    terms.map(sum.getResult(), Emit::shape(term) == shape ? term : emit.broadcast(term, shape, {}));
  }

  /// An op between cuts and point, which moves, adds or negates, in f64.
  void cloneInto(IRMapping &mapping, Operation *op) {
    if (isa<ConvertOp>(op)) {
      mapping.map(op->getResult(0), mapping.lookupOrDefault(op->getOperand(0)));
      return;
    }
    Operation *copy = builder.clone(*op);
    for (auto [k, operand] : llvm::enumerate(op->getOperands())) {
      bool isIndex = isa<PutOp>(op) && k == 1;
      Value x = mapping.lookupOrDefault(operand);
      copy->setOperand(static_cast<unsigned>(k), isIndex ? x : emit.wide(x));
    }
    copy->moveBefore(&*builder.getInsertionPoint());
    copy->getResult(0).setType(cast<RankedTensorType>(copy->getResult(0).getType()).clone(builder.getF64Type()));
    mapping.map(op->getResult(0), copy->getResult(0));
  }

  const NoisePoint &point;
  const rows::Analysis &analysis;
  ColumnBudget &budget;
  OpBuilder builder;
  Emit emit;
  /// Per value of the chain the sum of centred values, and the public term that it is less by.
  IRMapping sums, terms;
};

} // namespace

bool sojourn::centrePoints(ArrayRef<NoisePoint> points, const rows::Analysis &analysis) {
  SmallVector<Operation *> replaced; // erased last: facts are found by address
  ColumnBudget budget;
  for (const NoisePoint &point : points) {
    PointCentred(point, analysis, budget).run(replaced);
  }
  for (Operation *op : llvm::reverse(replaced)) {
    if (op->use_empty()) {
      op->erase();
    }
  }
  return !replaced.empty();
}
