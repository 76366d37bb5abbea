// SPDX-License-Identifier: Apache-2.0
// The walk of placement. What an op does with rows in parts is what the row analysis says of it, in which all rows are
// one draw: per row, it stays in parts; a sum over rows is a meeting; what mixes rows is refused.
#include "passes/parties/Placement.h"

#include "dialect/Bounds.h"
#include "dialect/CoreForm.h"
#include "dialect/ElementwiseOps.h"
#include "dialect/LayoutOps.h"
#include "dialect/RowOps.h"
#include "dialect/rows/Support.h"
#include "passes/parties/Slices.h"

using namespace mlir;
using namespace sojourn;
using namespace sojourn::parties;

/// Rows of one role as a value of it.
static Where alone(const Where &where) {
  return where.isParts() && where.segments->size() == 1 ? Where::at(where.segments->front().role) : where;
}

namespace sojourn::parties {

class PlacementWalk {
public:
  explicit PlacementWalk(func::FuncOp step) : step_(step) {}

  FailureOr<std::unique_ptr<Placement>> run() {
    auto count = step_->getParentOfType<ModuleOp>()->getAttrOfType<IntegerAttr>(kPartiesAttr);
    if (!count) {
      return step_.emitOpError() << "has no roles: the module lacks " << kPartiesAttr;
    }
    placement_->parties_ = static_cast<unsigned>(count.getInt());
    for (BlockArgument argument : step_.getArguments()) {
      placeArgument(argument);
    }
    for (Operation &op : step_.getBody().front().without_terminator()) {
      if (failed(place(op))) {
        return failure();
      }
      finish(op);
      if (placement_->exchanges_ > bounds::kExchanges) {
        return op.emitOpError() << "waits for more than " << bounds::kExchanges
                                << " exchanges between owners, one after another; split the step";
      }
    }
    if (failed(checkCommits())) {
      return failure();
    }
    placement_->exchanges_ += placement_->told_.empty() ? 0 : 1;
    return std::move(placement_);
  }

private:
  const Where &whereOf(Value value) const { return placement_->whereOf(value); }

  void placeArgument(BlockArgument argument) {
    const unsigned index = argument.getArgNumber();
    Where where;
    if (auto role = step_.getArgAttrOfType<IntegerAttr>(index, kPartyAttr)) {
      where = Where::at(static_cast<unsigned>(role.getInt()));
    } else if (auto parts = step_.getArgAttrOfType<PartsAttr>(index, kPartsAttr)) {
      Segments segments;
      for (auto [role, rows] : llvm::zip(parts.getRoles(), parts.getRows())) {
        segments.push_back({static_cast<unsigned>(role), rows});
      }
      where = inParts(argument, segments, parts.getStride());
    } else {
      analysis_.facts[argument] = rows::Fact::publicValue();
    }
    placement_->where_[argument] = where;
  }

  /// Without empty ones, and neighbours of one role as one.
  static Segments merged(const Segments &segments) {
    Segments joined;
    for (const Segment &segment : segments) {
      if (segment.rows > 0 && !joined.empty() && joined.back().role == segment.role) {
        joined.back().rows += segment.rows;
      } else if (segment.rows > 0) {
        joined.push_back(segment);
      }
    }
    return joined;
  }

  /// Parts, or one role where all rows are at one.
  Where inParts(Value value, const Segments &segments, int64_t stride) {
    Segments joined = merged(segments);
    if (joined.size() < 2) {
      return Where::at(joined.empty() ? segments.front().role : joined.front().role);
    }
    return {.kind = Where::Kind::Parts, .segments = intern(value, std::move(joined)), .stride = stride};
  }

  const Segments *intern(Value value, Segments segments) {
    const int64_t rows = rowsOf(segments);
    auto [entry, isNew] = placement_->segments_.insert(std::move(segments));
    const Segments *kept = &*entry;
    if (isNew) {
      interned_ += kept->size();
      draws_[kept] = analysis_.drawOf(value, rows);
    }
    return kept;
  }

  /// `isRead`: of rows that one role alone has of a batch, which stay rows.
  LogicalResult setParts(Operation &op, Value result, const Segments &segments, int64_t stride, bool isRead = false) {
    const Segments left = merged(segments);
    if (isRead && left.size() == 1 && rowsOf(left) > 1) {
      set(op, {.kind = Where::Kind::Parts, .segments = intern(result, left), .stride = stride});
      return success();
    }
    const Where where = inParts(result, segments, stride);
    if (where.isParts() && !placeOf(where, rows::shapeOf(result))) {
      return op.emitOpError() << "has rows of several roles beside a dim of size 0";
    }
    if (interned_ > kSegmentsInAll) {
      return op.emitOpError() << "has rows in other segments than the values before it, more than " << kSegmentsInAll
                              << " segments in all; join tensors alike, or split the step";
    }
    set(op, where);
    return success();
  }

  LogicalResult place(Operation &op) {
    std::optional<Where> parts;
    int64_t roles = 0;
    for (Value operand : op.getOperands()) {
      const Where &where = whereOf(operand);
      roles |= where.isAt() ? int64_t{1} << where.role : 0;
      parts = where.isParts() ? where : parts;
    }
    auto concat = dyn_cast<ConcatOp>(op);
    if (concat && (parts || llvm::popcount(static_cast<uint64_t>(roles)) > 1) && joinsRows(concat)) {
      return placeJoined(concat, /*isRead=*/parts && parts->segments->size() == 1);
    }
    if (parts && isa<SampleRowsOp, ReadRowsOp>(op)) {
      return refuseRows(op, *parts, "reads a table at row numbers that lie at several roles");
    }
    if (parts) {
      // The only role of the rows may use its own values beside them.
      return (roles & ~rolesOf(*parts->segments)) != 0 || (roles != 0 && parts->segments->size() > 1)
                 ? refuseRole(op, roles, *parts)
                 : placeRows(op, *parts);
    }
    if (llvm::popcount(static_cast<uint64_t>(roles)) > 1) {
      return placeMeeting(op, roles);
    }
    if (roles != 0) {
      const auto role = static_cast<unsigned>(llvm::countr_zero(static_cast<uint64_t>(roles)));
      if (isa<ReadRowsOp>(op)) {
        setRead(op, role);
      } else if (isSumGoingOn(op)) {
        meet(op, roles);
      } else {
        set(op, Where::at(role));
      }
      return success();
    }
    analysis_.visit(op); // which values are zero
    set(op, Where::all());
    return success();
  }

  void set(Operation &op, const Where &where) {
    for (Value result : op.getResults()) {
      placement_->where_[result] = where;
      if (!where.isAll()) {
        analysis_.facts.erase(result);
      } else if (!analysis_.facts.contains(result)) {
        analysis_.facts[result] = rows::Fact::publicValue();
      }
    }
  }

  /// Rows of a table are rows of all roles' batch, also where one role alone has some: sums over them are known to all.
  void setRead(Operation &op, unsigned role) {
    llvm::ArrayRef<int64_t> shape = rows::shapeOf(op.getResult(0));
    int64_t stride = 1;
    for (int64_t size : shape.drop_front()) {
      stride *= size;
    }
    if (shape.front() < 2 || stride == 0) { // a single row lies along no dim
      return set(op, Where::at(role));
    }
    set(op,
        {.kind = Where::Kind::Parts, .segments = intern(op.getResult(0), {{role, shape.front()}}), .stride = stride});
  }

  /// Of a + b + c: whether the op adds a value of one role to a sum of others'.
  bool isSumGoingOn(Operation &op) const {
    return isa<AddOp, SubOp>(op) && llvm::any_of(op.getOperands(), [&](Value operand) {
             Operation *made = operand.getDefiningOp();
             return made && isa<AddOp, SubOp>(made) && placement_->meetingOf(made) != 0;
           });
  }

  /// One value at one role and another at another.
  LogicalResult placeMeeting(Operation &op, int64_t roles) {
    if (!isa<AddOp, SubOp>(op)) {
      return op.emitOpError()
             << "combines values at " << listed(roles)
             << ": values of different owners meet in sums alone (a + b, a - b, torch.stack([a, b]).sum(0)"
                "); add first, or compute at one owner and publish";
    }
    meet(op, roles);
    return success();
  }

  LogicalResult refuseRole(Operation &op, int64_t roles, const Where &parts) {
    return op.emitOpError() << "combines rows at " << listed(rolesOf(*parts.segments)) << " with a value at "
                            << listed(roles)
                            << " alone: the other owners do not have it; compute the value on the rows of all owners";
  }

  void meet(Operation &op, int64_t roles) {
    placement_->meetings_[&op] = roles;
    set(op, Where::all());
  }

  /// Whether a value has rows along one dim; a single row may lie along any.
  static bool hasRows(const Where &where) { return where.isParts() && rowsOf(*where.segments) > 1; }

  /// Whether operands in parts are joined along their rows; operands at one role always are.
  bool joinsRows(ConcatOp op) {
    return llvm::all_of(op.getInputs(), [&](Value input) {
      const Where &where = whereOf(input);
      std::optional<rows::Place> place =
          hasRows(where) ? placeOf(where, rows::shapeOf(input)) : rows::Place{op.getDim(), 1, 1};
      return place && place->dim == op.getDim();
    });
  }

  /// `isRead`: of rows that are all at one role.
  LogicalResult placeJoined(ConcatOp op, bool isRead) {
    int64_t inner = 1, stride = 1;
    for (Value input : op.getInputs()) {
      if (hasRows(whereOf(input))) {
        inner = placeOf(whereOf(input), rows::shapeOf(input))->inner;
      }
    }
    for (int64_t size : rows::shapeOf(op.getResult()).drop_front(static_cast<size_t>(op.getDim()) + 1)) {
      stride *= size;
    }
    Segments segments;
    std::vector<unsigned> waiting; // operands known to all, before the first that is not
    std::vector<int64_t> waitingRows;
    for (auto [index, input] : llvm::enumerate(op.getInputs())) {
      const Where &where = whereOf(input);
      const int64_t size = rows::shapeOf(input)[static_cast<size_t>(op.getDim())];
      std::optional<rows::Place> place = hasRows(where) ? placeOf(where, rows::shapeOf(input)) : std::nullopt;
      if ((place && (place->outer != 1 || place->inner != inner)) || size % inner != 0) {
        return op.emitOpError() << "joins rows of different lengths along dim " << op.getDim()
                                << "; flatten after joining";
      }
      if (where.isAll() && segments.empty()) {
        waiting.push_back(static_cast<unsigned>(index));
        waitingRows.push_back(size / inner);
        continue;
      }
      const unsigned role = where.isAt()      ? where.role
                            : where.isParts() ? where.segments->front().role
                                              : segments.back().role;
      Segments own = hasRows(where) ? *where.segments : Segments{{role, size / inner}};
      if (where.isAll()) {
        placement_->adders_[{op, static_cast<unsigned>(index)}] = own.front().role;
      }
      for (auto [first, count] : llvm::zip(waiting, waitingRows)) {
        placement_->adders_[{op, first}] = own.front().role;
        segments.push_back({own.front().role, count});
      }
      waiting.clear();
      waitingRows.clear();
      llvm::append_range(segments, own);
    }
    if (const size_t count = merged(segments).size(); count > bounds::kSegments) {
      return op.emitOpError() << "joins rows in " << count << " segments of different roles, the limit is "
                              << bounds::kSegments << "; join the tensors of each owner first";
    }
    placement_->joins_.insert(op);
    return setParts(*op, op.getResult(), segments, stride * inner, isRead);
  }

  /// Operands in parts, the others known to all.
  LogicalResult placeRows(Operation &op, const Where &parts) {
    if (auto slice = dyn_cast<SliceOp>(op)) {
      if (std::optional<SlicedRows> sliced = sliceRows(slice, parts)) {
        return setParts(op, slice.getResult(), sliced->segments, sliced->stride, parts.segments->size() == 1);
      }
    }
    for (Value operand : op.getOperands()) {
      if (const Where &where = whereOf(operand); where.isParts() && where.segments != parts.segments) {
        return op.emitOpError() << "combines " << describe(where) << " with " << describe(parts)
                                << ": rows meet rows of the same role, in the same order; join both tensors alike";
      }
    }
    SmallVector<rows::Fact, 4> operands, results(op.getNumResults());
    for (Value operand : op.getOperands()) {
      rows::Fact fact = analysis_.factOf(operand);
      if (whereOf(operand).isAt()) { // at the role of the rows
        fact = rows::Fact::publicValue();
      }
      if (const Where &where = whereOf(operand); where.isParts()) {
        fact = rows::Fact::of(rows::Kind::PerRow);
        fact.rows = rows::Alignment::of(draws_[where.segments], rowsOf(*where.segments));
        fact.rows.stride = where.stride;
      }
      fact.range = {}; // nothing is placed by what elements are
      operands.push_back(std::move(fact));
    }
    auto rule = dyn_cast<RowRuleOp>(op);
    if (!rule) {
      return refuseRows(op, parts, "has no rule for rows");
    }
    rule.inferRows(operands, analysis_, results);
    const rows::Fact &fact = results.front(); // all results of an op are of one kind
    if (fact.isPerRow() && !fact.rows.start && fact.rows.first == 0 && fact.rows.step == 1 &&
        fact.rows.slots == rowsOf(*parts.segments)) {
      for (auto [result, known] : llvm::zip(op.getResults(), results)) {
        const Where where{.kind = Where::Kind::Parts, .segments = parts.segments, .stride = known.rows.stride};
        if (!placeOf(where, rows::shapeOf(result))) {
          return refuseRows(op, parts, "spreads rows over several dims");
        }
        placement_->where_[result] = where;
      }
      return success();
    }
    if (fact.isSum()) {
      meet(op, rolesOf(*parts.segments));
      return success();
    }
    return refuseRows(op, parts,
                      fact.isMixed() && fact.reason ? fact.reason->text : "takes some rows at a run-time position");
  }

  static LogicalResult refuseRows(Operation &op, const Where &parts, const Twine &reason) {
    return op.emitOpError() << reason << "; the rows lie at " << listed(rolesOf(*parts.segments))
                            << ", and owners can only add up sums over rows: compute per row, or from such sums";
  }

  void finish(Operation &op) {
    unsigned level = 0;
    for (Value operand : op.getOperands()) {
      level = std::max(level, ready_.lookup(operand));
    }
    placement_->levels_[&op] = level;
    const unsigned made = level + (placement_->meetingOf(&op) != 0 ? 1 : 0);
    for (Value result : op.getResults()) {
      ready_[result] = made;
    }
    placement_->exchanges_ = std::max(placement_->exchanges_, made);
  }

  LogicalResult checkCommits() {
    Operation *exit = step_.getBody().front().getTerminator();
    placement_->step_ = step_;
    for (auto [index, value] : llvm::enumerate(exit->getOperands())) {
      auto target = step_.getResultAttrOfType<IntegerAttr>(static_cast<unsigned>(index), kTargetAttr);
      if (!target) {
        continue;
      }
      const Where &state = whereOf(step_.getArgument(static_cast<unsigned>(target.getInt())));
      const Where found = alone(whereOf(value));
      if (found.isAt() && state.isAll()) {
        placement_->told_.push_back(static_cast<unsigned>(index));
      } else if (!(found == state) && !found.isAll()) { // a tensor that all know: each takes its rows
        Operation *made = value.getDefiningOp();
        return (made ? made : exit)->emitOpError() << "is " << describe(found) << " and written to a tensor that is "
                                                   << describe(state) << ", expected one place; write to a new tensor";
      }
    }
    return success();
  }

  func::FuncOp step_;
  std::unique_ptr<Placement> placement_{new Placement};
  rows::Analysis analysis_;
  llvm::DenseMap<const Segments *, unsigned> draws_;
  static constexpr size_t kSegmentsInAll = size_t{1} << 20; ///< a hostile program has no more memory than this
  size_t interned_ = 0;
  llvm::DenseMap<Value, unsigned> ready_; ///< the exchange after which a value is known
};

} // namespace sojourn::parties

const Segments *Placement::rowsSummed(Operation *op) const {
  for (Value operand : op->getOperands()) {
    if (const Where &where = whereOf(operand); meetingOf(op) != 0 && where.isParts()) {
      return where.segments;
    }
  }
  return nullptr;
}

Where Placement::whereOfResult(unsigned result) const {
  func::FuncOp step = step_;
  if (auto target = step.getResultAttrOfType<IntegerAttr>(result, kTargetAttr)) {
    return whereOf(step.getArgument(static_cast<unsigned>(target.getInt())));
  }
  return alone(whereOf(step.getBody().front().getTerminator()->getOperand(result)));
}

FailureOr<std::unique_ptr<Placement>> Placement::of(func::FuncOp step) { return PlacementWalk(step).run(); }
