// SPDX-License-Identifier: Apache-2.0
#include "passes/parties/Stages.h"

#include "dialect/CoreForm.h"
#include "dialect/OwnerOps.h"
#include "dialect/SourceOps.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace sojourn;
using namespace sojourn::parties;

namespace {

class Cutting {
public:
  explicit Cutting(ModuleOp part)
      : part_(part), step_(part.lookupSymbol<func::FuncOp>(kStepName)), builder_(part.getContext()),
        role_(static_cast<unsigned>(part->getAttrOfType<IntegerAttr>(kRoleAttr).getInt())) {}

  Stages run() {
    for (BlockArgument argument : step_.getArguments()) {
      numbers_[argument] = cut_.values++;
    }
    std::vector<std::vector<Operation *>> ops(1);
    for (Operation &op : step_.getBody().front().without_terminator()) {
      if (auto sum = dyn_cast<AcrossSumOp>(op)) {
        exchanges_.push_back(sum);
        ops.emplace_back();
      }
      stageOf_[&op] = ops.size() - (isa<AcrossSumOp>(op) ? 2 : 1);
      if (!isa<AcrossSumOp, ConstantOp>(op)) {
        ops.back().push_back(&op);
      }
    }
    findLastUses(ops.size());
    for (std::vector<Operation *> &stage : ops) {
      llvm::erase_if(stage, [&](Operation *op) {
        return llvm::none_of(op->getResults(), [&](Value result) { return lastUse_.contains(result); });
      });
    }
    for (size_t stage = 0; stage < ops.size(); ++stage) {
      write(stage, ops[stage]);
    }
    for (Value value : step_.getBody().front().getTerminator()->getOperands()) {
      cut_.results.push_back(numbers_.lookup(value));
    }
    return std::move(cut_);
  }

private:
  /// Per value the last stage that takes it; results of the part are needed after all.
  void findLastUses(size_t stages) {
    for (Operation &op : step_.getBody().front()) {
      auto sum = dyn_cast<AcrossSumOp>(op);
      // Terms are sent once the stage before the exchange has run.
      const size_t stage = isa<func::ReturnOp>(op) ? stages : stageOf_.lookup(&op) + (sum ? 1 : 0);
      for (OpOperand &operand : op.getOpOperands()) {
        if (!sum || hasTerm(sum, operand.getOperandNumber())) {
          size_t &last = lastUse_[operand.get()];
          last = std::max(last, stage);
        }
      }
    }
    lastOf_.resize(stages + 1);
    for (BlockArgument argument : step_.getArguments()) {
      lastUse_.try_emplace(argument, 0); // unused arguments end with the first stage
    }
    for (AcrossSumOp sum : exchanges_) {
      for (Value result : sum.getResults()) {
        lastUse_.try_emplace(result, stageOf_.lookup(sum) + 1);
      }
    }
    for (auto [value, last] : lastUse_) {
      lastOf_[last].push_back(value);
    }
  }

  static bool isConstant(Value value) { return value.getDefiningOp<ConstantOp>() != nullptr; }
  bool hasTerm(AcrossSumOp sum, size_t index) const { return sum.getFrom()[index] >> role_ & 1; }

  void write(size_t number, ArrayRef<Operation *> ops) {
    cut_.stages.emplace_back();
    Stage &stage = cut_.stages.back();
    stage.module = ModuleOp::create(part_.getLoc());
    for (StringLiteral name : {kPromotionAttr, kPhaseAttr}) {
      if (Attribute attribute = part_->getAttr(name)) {
        (*stage.module)->setAttr(name, attribute);
      }
    }
    builder_.setInsertionPointToEnd(stage.module->getBody());
    own_ = func::FuncOp::create(builder_, step_.getLoc(), kStepName, builder_.getFunctionType({}, {}));
    own_.addEntryBlock();
    builder_.setInsertionPointToEnd(&own_.getBody().front());
    values_.clear();
    addArguments(stage, number, ops);
    for (Operation *op : ops) {
      useConstants(op->getOperands());
      builder_.clone(*op, values_);
    }
    addResults(stage, number, ops);
    if (number < exchanges_.size()) {
      addExchange(stage, exchanges_[number]);
    }
    for (Value value : lastOf_[number]) {
      if (auto known = numbers_.find(value); known != numbers_.end()) {
        stage.last.push_back(known->second);
      }
    }
    llvm::sort(stage.last);
  }

  struct Argument {
    StepArg kind = StepArg::State;
    unsigned number = 0;
    Value value;
  };

  void addArguments(Stage &stage, size_t number, ArrayRef<Operation *> ops) {
    llvm::SetVector<Value> taken;
    auto take = [&](Value value) {
      Operation *made = value.getDefiningOp();
      const bool isOwn = made && !isa<AcrossSumOp>(made) && stageOf_.lookup(made) == number;
      if (!isOwn && !isConstant(value)) {
        taken.insert(value);
      }
    };
    for (Operation *op : ops) {
      llvm::for_each(op->getOperands(), take);
    }
    SmallVector<Argument> arguments;
    for (Value value : taken) {
      arguments.push_back({kindOf(value), numbers_.lookup(value), value});
    }
    llvm::stable_sort(arguments, [](const Argument &a, const Argument &b) { return a.kind < b.kind; });
    SmallVector<Type> types;
    SmallVector<DictionaryAttr> attributes;
    for (const Argument &argument : arguments) {
      types.push_back(argument.value.getType());
      values_.map(argument.value, own_.getBody().front().addArgument(types.back(), step_.getLoc()));
      attributes.push_back(builder_.getDictionaryAttr(
          builder_.getNamedAttr(kKindAttr, builder_.getStringAttr(stringify(argument.kind)))));
      stage.arguments.push_back(argument.number);
    }
    own_.setType(builder_.getFunctionType(types, {}));
    own_.setAllArgAttrs(attributes);
  }

  StepArg kindOf(Value value) {
    auto argument = dyn_cast<BlockArgument>(value);
    return argument ? *parseStepArg(step_.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kKindAttr).getValue())
                    : StepArg::State;
  }

  void useConstants(ValueRange operands) {
    for (Value operand : operands) {
      if (isConstant(operand) && !values_.contains(operand)) {
        builder_.clone(*operand.getDefiningOp(), values_);
      }
    }
  }

  void addResults(Stage &stage, size_t number, ArrayRef<Operation *> ops) {
    SmallVector<Value> results;
    auto keep = [&](Value value) {
      if (lastUse_.lookup(value) > number && !numbers_.contains(value)) {
        numbers_[value] = cut_.values++;
        results.push_back(values_.lookup(value));
        stage.results.push_back(numbers_.lookup(value));
      }
    };
    for (Operation *op : ops) {
      llvm::for_each(op->getResults(), keep);
    }
    // A constant that is a result of the part is one of the last stage.
    if (number == exchanges_.size()) {
      for (Value value : step_.getBody().front().getTerminator()->getOperands()) {
        if (isConstant(value)) {
          useConstants(value);
          keep(value);
        }
      }
    }
    func::ReturnOp::create(builder_, step_.getLoc(), results);
    own_.setType(builder_.getFunctionType(own_.getArgumentTypes(), ValueRange(results).getTypes()));
    SmallVector<DictionaryAttr> attributes(
        results.size(), builder_.getDictionaryAttr(
                            builder_.getNamedAttr(kResultAttr, builder_.getStringAttr(stringify(StepResult::Keep)))));
    own_.setAllResultAttrs(attributes);
  }

  void addExchange(Stage &stage, AcrossSumOp sum) {
    for (auto [index, result] : llvm::enumerate(sum.getResults())) {
      numbers_[result] = cut_.values++;
      stage.sums.push_back({.type = cast<RankedTensorType>(result.getType()),

                            .term = hasTerm(sum, index) ? numbers_.lookup(sum.getTerms()[index]) : 0,
                            .number = numbers_.lookup(result)});
    }
  }

  ModuleOp part_;
  func::FuncOp step_, own_;
  OpBuilder builder_;
  unsigned role_;
  Stages cut_;
  std::vector<AcrossSumOp> exchanges_;
  llvm::DenseMap<Operation *, size_t> stageOf_;
  llvm::DenseMap<Value, size_t> lastUse_;
  std::vector<std::vector<Value>> lastOf_; ///< the same by stage; behind the last one those of results
  llvm::DenseMap<Value, unsigned> numbers_;
  IRMapping values_;
};

} // namespace

Stages parties::stagesOf(ModuleOp part) { return Cutting(part).run(); }
