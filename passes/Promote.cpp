// SPDX-License-Identifier: Apache-2.0
// sojourn-promote: walks the calls once; the rules are in PromotionRules.cpp, what promotes where in
// PromotionTable.cpp.
#include "passes/Aten.h"
#include "passes/Passes.h"
#include "passes/PromotionRules.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace sojourn {
#define GEN_PASS_DEF_PROMOTE
#include "passes/Passes.h.inc"
} // namespace sojourn

using namespace mlir;
using namespace sojourn;

namespace {

/// Types that one call computes in and returns, under one default dtype.
struct Decision {
  Type compute, result;
};

class Promoter {
public:
  Promoter(ModuleOp module, PromotionRules rules) : rules(rules), builder(module.getContext()) {}
  LogicalResult run(func::FuncOp function);

private:
  LogicalResult visit(AtenOp op);
  void collect(AtenOp op, Attribute arg, SmallVectorImpl<PromotionOperand> &operands);
  SmallVector<PromotionOperand> promoting(AtenOp op, const PromotionRow &row);
  Decision decide(AtenOp op, const PromotionRow &row, ArrayRef<PromotionOperand> operands, Type defaultFloat);
  LogicalResult choose(AtenOp op, const PromotionRow &row, bool stored, Decision &decision);
  Value convertTo(Value value, Type element);
  void rewrite(AtenOp op, const PromotionRow &row, const Decision &decision);

  PromotionRules rules;
  OpBuilder builder;
  /// Values that were `!sojourn.scalar`.
  DenseSet<Value> numbers;
  DenseMap<std::pair<Value, Type>, Value> converted;
};

} // namespace

static Type elementOf(Type type) {
  if (auto scalar = dyn_cast<ScalarType>(type)) {
    return scalar.getElementType();
  }
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor ? tensor.getElementType() : Type();
}

void Promoter::collect(AtenOp op, Attribute arg, SmallVectorImpl<PromotionOperand> &operands) {
  if (Value value = operandOf(op, arg)) {
    auto tensor = dyn_cast<RankedTensorType>(value.getType());
    if (!tensor) {
      return; // A seed or a table promotes nothing; the decomposition says what it expected.
    }
    auto kind = numbers.contains(value) ? PromotionOperand::Number
                : tensor.getRank() == 0 ? PromotionOperand::ZeroDim
                                        : PromotionOperand::Tensor;
    operands.push_back({tensor.getElementType(), kind});
  } else if (auto list = dyn_cast<ArrayAttr>(arg)) {
    for (Attribute element : list) {
      collect(op, element, operands);
    }
  } else if (auto literal = dyn_cast<TypedAttr>(arg); literal && isa<IntegerAttr, FloatAttr>(arg)) {
    operands.push_back({literal.getType(), PromotionOperand::Number});
  }
}

SmallVector<PromotionOperand> Promoter::promoting(AtenOp op, const PromotionRow &row) {
  SmallVector<PromotionOperand> operands;
  for (StringRef name : llvm::split(row.operands, ',')) {
    if (Attribute arg = op.getArg(name)) {
      collect(op, arg, operands);
    }
  }
  return operands;
}

/// The dtype that the call was given; null when it was not.
static Type dtypeArgument(AtenOp op) {
  auto dtype = dyn_cast_or_null<TypeAttr>(op.getArg("dtype"));
  return dtype ? dtype.getValue() : Type();
}

Decision Promoter::decide(AtenOp op, const PromotionRow &row, ArrayRef<PromotionOperand> operands, Type defaultFloat) {
  Type boolean = builder.getI1Type();
  switch (row.computes) {
  case Computes::Truth:
    // any and all of bytes are bytes in torch.
    if (operands.size() == 1 && operands.front().element.isUnsignedInteger(8) && !op.getBaseName().starts_with("l")) {
      return {boolean, rules == PromotionRules::Torch ? operands.front().element : boolean};
    }
    return {boolean, boolean};
  case Computes::Sum: {
    Type type = dtypeArgument(op);
    type = type ? type : sumResult(rules, operands.front().element);
    return {type, type};
  }
  case Computes::Dtype: {
    Type type = dtypeArgument(op);
    type = type ? type : operands.front().element;
    if (auto toFloat = dyn_cast_or_null<BoolAttr>(op.getArg("half_to_float")); toFloat && toFloat.getValue()) {
      type = builder.getF32Type();
    }
    return {type, type};
  }
  case Computes::Self: {
    Value self = op.getArgOperand("self");
    Type type = self ? elementOf(self.getType()) : Type();
    return {type, type};
  }
  case Computes::IntoSelf:
  case Computes::IntoTarget: {
    Value place = op.getArgOperand(row.computes == Computes::IntoSelf ? "self" : "target");
    return {resultType(rules, operands, defaultFloat), place ? elementOf(place.getType()) : Type()};
  }
  case Computes::Common:
  case Computes::CommonFloat:
  case Computes::Predicate: break;
  }
  Type type = resultType(rules, operands, defaultFloat);
  Attribute rounding = op.getArg("rounding_mode");
  bool division = row.base == "div" || row.base == "true_divide";
  if (row.computes == Computes::CommonFloat && !(rounding && !isa<UnitAttr>(rounding))) {
    type = floatResult(rules, type, division, defaultFloat);
  }
  return {type, row.computes == Computes::Predicate ? boolean : type};
}

/// Picks the default dtype under which the recorded result is what the rules give: the recorder saw the process's
/// default, the module does not repeat it. A stored result has its operand's type and so proves nothing.
LogicalResult Promoter::choose(AtenOp op, const PromotionRow &row, bool stored, Decision &decision) {
  SmallVector<PromotionOperand> operands = promoting(op, row);
  if (operands.empty()) {
    return op.emitError() << "has no argument among " << row.operands << " that could promote";
  }
  if (row.computes == Computes::Truth &&
      llvm::any_of(operands, [](const PromotionOperand &operand) { return isa<ComplexType>(operand.element); })) {
    return op.emitError() << "takes the truth of complex numbers, which is not supported yet; compare with 0 instead";
  }
  Type recorded = elementOf(op->getResult(0).getType());
  // An `out` tensor gives a reduction its dtype, when the call does not.
  if (stored && row.computes == Computes::Sum && op.getOverload().contains("out") && !dtypeArgument(op)) {
    decision = {recorded, recorded};
    return success();
  }
  decision = decide(op, row, operands, builder.getF32Type());
  if (!decision.compute || !decision.result || !isCoreElement(decision.compute) || !isCoreElement(decision.result)) {
    return op.emitError() << "computes in " << decision.compute << ", which is not an element of core form";
  }
  if (stored || decision.result == recorded) {
    return success();
  }
  Type expected = decision.result;
  if (rules == PromotionRules::Torch) {
    for (Type other : {Type(builder.getF64Type()), Type(builder.getF16Type()), Type(builder.getBF16Type())}) {
      decision = decide(op, row, operands, other);
      if (decision.result == recorded) {
        return success();
      }
    }
  }
  return op.emitError() << "has a recorded result of " << recorded << ", expected " << expected << " by "
                        << (rules == PromotionRules::Torch ? "torch" : "numpy") << "'s promotion rules";
}

Value Promoter::convertTo(Value value, Type element) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type || type.getElementType() == element) {
    return value;
  }
  Value &known = converted[{value, element}];
  if (!known) {
    // Right behind the definition, where it serves every later use.
    OpBuilder::InsertionGuard guard(builder);
    Location loc = builder.getInsertionPoint()->getLoc();
    builder.setInsertionPointAfterValue(value);
    known = ConvertOp::create(builder, loc, type.clone(element), value);
  }
  return known;
}

void Promoter::rewrite(AtenOp op, const PromotionRow &row, const Decision &decision) {
  SmallVector<StringRef> taking(llvm::split(row.operands, ','));
  AtenBuilder call(builder, op.getLoc(), op.getName().drop_front(StringRef("aten.").size()));
  for (auto [nameAttr, arg] : llvm::zip(op.getNames(), op.getArgs())) {
    StringRef name = cast<StringAttr>(nameAttr).getValue();
    bool takes = llvm::is_contained(taking, name) || name == "self" || (row.base == "lerp" && name == "weight");
    // A whole number in a tensor's place (`3 // x`) is one; decompositions read `self` as a tensor.
    if (name == "self" && isa<IntegerAttr>(arg) && row.operands.contains("self")) {
      auto literal = cast<IntegerAttr>(arg);
      Value number = ConstantOp::create(builder, op.getLoc(), RankedTensorType::get({}, literal.getType()), literal);
      call.arg(name, convertTo(number, decision.compute));
      continue;
    }
    // Masks and positions keep their type; every number has the type that the call computes in.
    call.arg(name, op, arg, [&](Value value) {
      return takes || numbers.contains(value) ? convertTo(value, decision.compute) : value;
    });
  }
  auto recordedType = cast<RankedTensorType>(op->getResult(0).getType());
  SmallVector<Type> types(op->getResultTypes());
  bool truth = row.computes == Computes::Truth || row.computes == Computes::Predicate;
  types[0] = recordedType.clone(truth ? builder.getI1Type() : decision.result);
  AtenOp fresh = call.build(types);
  SmallVector<Value> results(fresh->getResults());
  if (types[0] != recordedType) {
    results[0] = ConvertOp::create(builder, op.getLoc(), recordedType, results[0]);
  }
  op->replaceAllUsesWith(results);
  op->erase();
}

LogicalResult Promoter::visit(AtenOp op) {
  builder.setInsertionPoint(op);
  auto mutated = op->getAttrOfType<DenseI64ArrayAttr>(kMutatedAttr);
  op->removeAttr(kMutatedAttr);
  const PromotionRow *row = findPromotionRow(op.getBaseName());
  if (!row || op->getNumResults() == 0 || !isa<RankedTensorType>(op->getResult(0).getType())) {
    return success();
  }
  bool stored = mutated && llvm::is_contained(mutated.asArrayRef(), 0);
  Decision decision;
  if (failed(choose(op, *row, stored, decision))) {
    return failure();
  }
  rewrite(op, *row, decision);
  return success();
}

LogicalResult Promoter::run(func::FuncOp function) {
  for (BlockArgument argument : function.getArguments()) {
    if (auto scalar = dyn_cast<ScalarType>(argument.getType())) {
      argument.setType(RankedTensorType::get({}, scalar.getElementType()));
      numbers.insert(argument);
    }
  }
  function.setFunctionType(builder.getFunctionType(function.getBody().getArgumentTypes(), function.getResultTypes()));
  for (Operation &op : llvm::make_early_inc_range(function.getBody().front())) {
    if (auto aten = dyn_cast<AtenOp>(op); aten && failed(visit(aten))) {
      return failure();
    }
  }
  return success();
}

namespace {
struct Promote : sojourn::impl::PromoteBase<Promote> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto text = module->getAttrOfType<StringAttr>(kPromotionAttr);
    PromotionRules rules = text && text.getValue() == "numpy" ? PromotionRules::Numpy : PromotionRules::Torch;
    for (auto function : module.getOps<func::FuncOp>()) {
      for (auto op : function.getOps<AtenOp>()) {
        if (!op.getMutates().empty() || llvm::any_of(op->getOperandTypes(), llvm::IsaPred<RefType>)) {
          op.emitError() << "works on storages, expected functional form; run sojourn-functionalize first";
          return signalPassFailure();
        }
      }
      if (failed(Promoter(module, rules).run(function))) {
        return signalPassFailure();
      }
    }
    setPhase(module, "promoted");
  }
};
} // namespace
