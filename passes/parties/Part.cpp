// SPDX-License-Identifier: Apache-2.0
// Ops are written exchange by exchange: first those that wait for none, then the first exchange, then those that wait
// for it, and so on.
#include "passes/parties/Part.h"

#include "dialect/CoreForm.h"
#include "dialect/ElementwiseOps.h"
#include "dialect/LayoutOps.h"
#include "dialect/OwnerOps.h"
#include "dialect/RowOps.h"
#include "dialect/SourceOps.h"
#include "dialect/UnaryOps.h"
#include "dialect/rows/Support.h"
#include "passes/parties/Cut.h"
#include "passes/parties/Slices.h"

#include "mlir/IR/IRMapping.h"

#include <map>
#include <tuple>

using namespace mlir;
using namespace sojourn;
using namespace sojourn::parties;

namespace {

struct Counter : OpBuilder::Listener {
  size_t ops = 0;
  void notifyOperationInserted(Operation *, OpBuilder::InsertPoint) override { ++ops; }
};

class Parting {
public:
  Parting(ModuleOp joint, const Placement &placement, unsigned role, Sums sums)
      : joint_(joint), step_(joint.lookupSymbol<func::FuncOp>(kStepName)), placement_(placement), role_(role),
        sums_(sums), builder_(joint.getContext()) {}

  FailureOr<RolePart> run() {
    builder_.setListener(&counter_);
    part_.module = ModuleOp::create(joint_.getLoc());
    (*part_.module)->setDiscardableAttrs(joint_->getDiscardableAttrDictionary());
    (*part_.module)->setAttr(kRoleAttr, builder_.getI64IntegerAttr(role_));
    builder_.setInsertionPointToEnd(part_.module->getBody());
    own_ = func::FuncOp::create(builder_, step_.getLoc(), kStepName, builder_.getFunctionType({}, {}));
    own_.addEntryBlock();
    builder_.setInsertionPointToEnd(&own_.getBody().front());
    addArguments();
    std::vector<std::vector<Operation *>> levels(placement_.exchanges() + 1);
    for (Operation &op : step_.getBody().front().without_terminator()) {
      levels[placement_.levelOf(&op)].push_back(&op);
    }
    for (const std::vector<Operation *> &level : levels) {
      std::vector<Operation *> meetings;
      for (Operation *op : level) {
        if (placement_.meetingOf(op) != 0) {
          meetings.push_back(op);
        } else if (hasRole(placement_.whereOf(op->getResult(0)))) {
          write(op);
        }
        if (counter_.ops > kPartOpsMost) {
          return op->emitOpError() << "is cut into more than " << kPartOpsMost << " ops, with those before it, at role "
                                   << role_ << "; join the tensors of each owner first, so that fewer segments of rows "
                                   << "lie one after another";
        }
      }
      exchange(meetings);
    }
    tell();
    addResults();
    dropUnused();
    return std::move(part_);
  }

private:
  bool hasRole(const Where &where) const { return !where.isAt() || where.role == role_; }

  Type ownType(Value value) const {
    const Where &where = placement_.whereOf(value);
    if (!where.isParts()) {
      return value.getType();
    }
    auto type = cast<RankedTensorType>(value.getType());
    return cutType(type, *placeOf(where, type.getShape()), *where.segments, role_);
  }

  void addArguments() {
    SmallVector<Type> types;
    SmallVector<DictionaryAttr> attributes;
    for (BlockArgument argument : step_.getArguments()) {
      const unsigned index = argument.getArgNumber();
      if (!hasRole(placement_.whereOf(argument))) {
        continue;
      }
      states_[index] = static_cast<unsigned>(types.size());
      types.push_back(ownType(argument));
      SmallVector<NamedAttribute> kept;
      for (NamedAttribute attribute : step_.getArgAttrDict(index)) {
        if (attribute.getName() != kPartyAttr && attribute.getName() != kPartsAttr) {
          kept.push_back(attribute);
        }
      }
      attributes.push_back(builder_.getDictionaryAttr(kept));
      values_.map(argument, own_.getBody().front().addArgument(types.back(), argument.getLoc()));
      part_.arguments.push_back(index);
    }
    own_.setType(builder_.getFunctionType(types, {}));
    own_.setAllArgAttrs(attributes);
  }

  void addResults() {
    Operation *exit = step_.getBody().front().getTerminator();
    SmallVector<Value> values;
    SmallVector<DictionaryAttr> attributes;
    for (auto [number, value] : llvm::enumerate(exit->getOperands())) {
      const auto index = static_cast<unsigned>(number);
      if (!hasRole(placement_.whereOfResult(index))) {
        continue;
      }
      NamedAttrList kept(step_.getResultAttrDict(index));
      if (auto target = step_.getResultAttrOfType<IntegerAttr>(index, kTargetAttr)) {
        kept.set(kTargetAttr, builder_.getI64IntegerAttr(states_.lookup(static_cast<unsigned>(target.getInt()))));
      }
      auto told = told_.find(index);
      Value own = told == told_.end() ? values_.lookup(value) : told->second;
      const Where where = placement_.whereOfResult(index);
      if (where.isParts() && placement_.whereOf(value).isAll()) { // written to rows in parts
        const rows::Place place = *placeOf(where, rows::shapeOf(value));
        own = cutKnown(builder_, exit->getLoc(), own, place, *where.segments, role_);
      }
      values.push_back(own);
      attributes.push_back(kept.getDictionary(builder_.getContext()));
      part_.results.push_back(index);
    }
    func::ReturnOp::create(builder_, exit->getLoc(), values);
    own_.setType(builder_.getFunctionType(own_.getArgumentTypes(), ValueRange(values).getTypes()));
    own_.setAllResultAttrs(attributes);
  }

  /// The op on what the role has of its operands.
  void write(Operation *op) {
    const bool hasRows =
        llvm::any_of(op->getOperands(), [&](Value operand) { return placement_.whereOf(operand).isParts(); });
    const Where &made = placement_.whereOf(op->getResult(0));
    if (isa<ReadRowsOp>(op) && made.isParts() && rowsAt(*made.segments, role_) == 0) {
      values_.map(op->getResult(0), zeros(op->getLoc(), cast<RankedTensorType>(ownType(op->getResult(0)))));
    } else if (placement_.isJoin(op)) {
      writeJoin(cast<ConcatOp>(op));
    } else if (auto slice = dyn_cast<SliceOp>(op); slice && hasRows) {
      writeSlice(slice);
    } else if (hasRows) {
      writeRows(op);
    } else {
      builder_.clone(*op, values_);
    }
  }

  void writeJoin(ConcatOp op) {
    SmallVector<Value> own;
    for (auto [number, input] : llvm::enumerate(op.getInputs())) {
      const auto index = static_cast<unsigned>(number);
      const Where &where = placement_.whereOf(input);
      const bool hasRows = !where.isParts() || rowsAt(*where.segments, role_) > 0;
      if (where.isAll() ? placement_.adderOf(op, index) == role_ : hasRole(where) && hasRows) {
        own.push_back(values_.lookup(input));
      }
    }
    if (own.empty()) { // no rows at this role
      own.push_back(zeros(op.getLoc(), cast<RankedTensorType>(ownType(op.getResult()))));
    }
    values_.map(op.getResult(), joined(builder_, op.getLoc(), own, op.getDim()));
  }

  void writeSlice(SliceOp op) {
    const Where &where = placement_.whereOf(op.getX());
    const std::optional<SlicedRows> left = sliceRows(op, where);
    const rows::Place place = *placeOf(where, rows::shapeOf(op.getX()));
    const auto dim = static_cast<size_t>(place.dim);
    SmallVector<int64_t> start(op.getStart()), limit(op.getLimit()), stride(op.getStride());
    Value x = values_.lookup(op.getX());
    auto take = [&](int64_t from, int64_t to) -> Value {
      start[dim] = from;
      limit[dim] = to;
      return sliced(builder_, op.getLoc(), x, start, limit, stride);
    };
    const int64_t size = rows::shapeOf(x)[dim];
    if (left->taken.empty()) { // all rows, or the same element of each
      values_.map(op.getResult(), take(std::min(start[dim], size), size));
      return;
    }
    SmallVector<Value> own;
    for (const SlicedSegment &segment : left->taken) {
      if (segment.role == role_ && segment.rows > 0) {
        const int64_t first = segment.before + segment.first, last = first + (segment.rows - 1) * segment.step;
        own.push_back(take(first * place.inner, (last + 1) * place.inner));
      }
    }
    if (own.empty()) {
      own.push_back(take(0, 0));
    }
    values_.map(op.getResult(), joined(builder_, op.getLoc(), own, place.dim));
  }

  void writeRows(Operation *op) {
    SmallVector<Value> operands;
    const Segments &segments = *segmentsOf(op);
    if (rowsAt(segments, role_) == 0 && placement_.whereOf(op->getResult(0)).isParts()) {
      // Kernels need not know what an op on no rows gives.
      for (Value result : op->getResults()) {
        values_.map(result, zeros(op->getLoc(), cast<RankedTensorType>(ownType(result))));
      }
      return;
    }
    for (OpOperand &operand : op->getOpOperands()) {
      Value value = values_.lookup(operand.get());
      if (placement_.whereOf(operand.get()).isAll()) {
        if (std::optional<rows::Place> place = placeOfKnown(op, operand.getOperandNumber(), placement_)) {
          Value &cut = cuts_[{value.getAsOpaquePointer(), place->dim, place->outer, place->inner, &segments}];
          cut = cut ? cut : cutKnown(builder_, op->getLoc(), value, *place, segments, role_);
          value = cut;
        }
      }
      operands.push_back(value);
    }
    Operation *own = builder_.clone(*op);
    own->setOperands(operands);
    for (auto [result, joint] : llvm::zip(own->getResults(), op->getResults())) {
      result.setType(ownType(joint));
      values_.map(joint, result);
    }
    if (auto dynamic = dyn_cast<DynamicSliceOp>(own)) {
      setSizes(dynamic);
    }
  }

  /// A dim that is taken as a whole may be among those of a slice at a run-time position.
  void setSizes(DynamicSliceOp op) {
    SmallVector<int64_t> sizes;
    for (int64_t dim : op.getDims()) {
      sizes.push_back(rows::shapeOf(op.getResult())[static_cast<size_t>(dim)]);
    }
    op.setSizes(sizes);
  }

  const Segments *segmentsOf(Operation *op) const {
    for (Value operand : op->getOperands()) {
      if (const Where &where = placement_.whereOf(operand); where.isParts()) {
        return where.segments;
      }
    }
    return nullptr;
  }

  /// The role's term of a meeting; zeros, which are not read, where it has none.
  Value termOf(Operation *op) {
    auto type = cast<RankedTensorType>(op->getResult(0).getType());
    if ((placement_.meetingOf(op) >> role_ & 1) == 0) {
      return zeros(op->getLoc(), type);
    }
    if (segmentsOf(op)) {
      writeRows(op);
      return values_.lookup(op->getResult(0));
    }
    // a + b + c: to a sum that all know.
    const Where &left = placement_.whereOf(op->getOperand(0)), &right = placement_.whereOf(op->getOperand(1));
    if (left.isAll() || right.isAll()) {
      return builder_.clone(*op, values_)->getResult(0);
    }
    // a + b or a - b of two roles.
    const bool isFirst = hasRole(placement_.whereOf(op->getOperand(0)));
    Value value = values_.lookup(op->getOperand(isFirst ? 0 : 1));
    if (!isFirst && isa<SubOp>(op)) {
      value = NegOp::create(builder_, op->getLoc(), value.getType(), value);
    }
    if (value.getType() != type) { // one number beside a tensor
      value = BroadcastOp::create(builder_, op->getLoc(), type, value, builder_.getDenseI64ArrayAttr({}));
    }
    return value;
  }

  void exchange(ArrayRef<Operation *> meetings) {
    if (meetings.empty()) {
      return;
    }
    SmallVector<Value> terms;
    SmallVector<int64_t> from;
    SmallVector<int64_t> masked;
    SmallVector<Location> locations;
    for (Operation *op : meetings) {
      const int64_t roles = placement_.meetingOf(op);
      Value term = termOf(op);
      if (isMasked(op)) {
        const GridTerm grid = gridTermOf(op, term, roles);
        term = grid.words;
        if (grid.lost) {
          terms.push_back(grid.lost);
        }
      }
      terms.push_back(term);
      masked.resize(terms.size(), isMasked(op) ? 1 : 0);
      from.resize(terms.size(), roles);
      locations.push_back(op->getLoc());
    }
    const auto marks = llvm::is_contained(masked, 1) ? builder_.getDenseI64ArrayAttr(masked) : DenseI64ArrayAttr();
    auto sum = AcrossSumOp::create(builder_, builder_.getFusedLoc(locations), terms, from, marks);
    size_t next = 0;
    for (Operation *op : meetings) {
      auto type = cast<RankedTensorType>(op->getResult(0).getType());
      GridTerm grid{sum.getResult(next++), {}};
      if (isMasked(op) && isa<FloatType>(type.getElementType())) {
        grid = {sum.getResult(next++), grid.words};
      }
      values_.map(op->getResult(0), isMasked(op) ? fromGrid(builder_, op->getLoc(), grid, type) : grid.words);
    }
  }

  /// Zeros, which are not read, where the role has no term.
  GridTerm gridTermOf(Operation *op, Value term, int64_t roles) {
    if (roles >> role_ & 1) {
      return toGrid(builder_, op->getLoc(), term, roles);
    }
    Type word = builder_.getI64Type();
    auto type = cast<RankedTensorType>(term.getType());
    return {zeros(op->getLoc(), type.clone(word)),
            isa<FloatType>(type.getElementType()) ? zeros(op->getLoc(), RankedTensorType::get({}, word)) : Value()};
  }

  bool isMasked(Operation *op) const { return sums_ == Sums::Masked && isMaskable(placement_, op); }

  /// Values of one role that are written to tensors of all, in the last exchange.
  void tell() {
    Operation *exit = step_.getBody().front().getTerminator();
    SmallVector<Value> terms;
    SmallVector<int64_t> from;
    for (unsigned result : placement_.told()) {
      Value value = exit->getOperand(result);
      const Where &where = placement_.whereOf(value);
      const unsigned role = where.isParts() ? where.segments->front().role : where.role;
      auto type = cast<RankedTensorType>(value.getType());
      auto numberType = type.getElementType().isInteger(1) ? type.clone(builder_.getI64Type()) : type;
      Value term = role == role_ ? values_.lookup(value) : zeros(exit->getLoc(), numberType);
      if (term.getType() != numberType) { // sums are of numbers
        term = ConvertOp::create(builder_, exit->getLoc(), numberType, term);
      }
      terms.push_back(term);
      from.push_back(int64_t{1} << role);
    }
    if (terms.empty()) {
      return;
    }
    auto sum = AcrossSumOp::create(builder_, exit->getLoc(), terms, from, DenseI64ArrayAttr());
    for (auto [result, value] : llvm::zip(placement_.told(), sum.getResults())) {
      Type resultType = exit->getOperand(result).getType();
      told_[result] = value.getType() == resultType
                          ? Value(value)
                          : ConvertOp::create(builder_, exit->getLoc(), resultType, value).getResult();
    }
  }

  Value zeros(Location location, RankedTensorType type) {
    Type element = type.getElementType();
    auto complexType = dyn_cast<ComplexType>(element);
    Type realType = complexType ? complexType.getElementType() : element;
    RankedTensorType numberType = RankedTensorType::get({}, realType);
    Value zero = ConstantOp::create(builder_, location, numberType, cast<TypedAttr>(builder_.getZeroAttr(realType)));
    if (complexType) {
      zero = ConvertOp::create(builder_, location, numberType.clone(element), zero);
    }
    return type.getRank() == 0
               ? zero
               : BroadcastOp::create(builder_, location, type, zero, builder_.getDenseI64ArrayAttr({})).getResult();
  }

  void dropUnused() {
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(own_.getBody().front()))) {
      if (op.use_empty() && !isa<AcrossSumOp, func::ReturnOp>(op)) {
        op.erase();
      }
    }
  }

  ModuleOp joint_;
  func::FuncOp step_, own_;
  const Placement &placement_;
  unsigned role_;
  Sums sums_;
  OpBuilder builder_;
  RolePart part_;
  IRMapping values_;
  Counter counter_;
  /// A role's rows of tensors that all know, by tensor, place and segments.
  std::map<std::tuple<const void *, int64_t, int64_t, int64_t, const Segments *>, Value> cuts_;
  llvm::DenseMap<unsigned, Value> told_;      ///< by result
  llvm::DenseMap<unsigned, unsigned> states_; ///< arguments of the joint step to the role's
};

} // namespace

FailureOr<RolePart> parties::partOf(ModuleOp joint, const Placement &placement, unsigned role, Sums sums) {
  return Parting(joint, placement, role, sums).run();
}
