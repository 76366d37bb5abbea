// SPDX-License-Identifier: Apache-2.0
// sojourn-promote: walks the calls once. What promotes where, and what is returned, are dialect/elements' to say.
#include "dialect/CapturedOps.h"
#include "dialect/CoreForm.h"
#include "dialect/ElementTypes.h"
#include "dialect/ElementwiseOps.h"
#include "dialect/SourceOps.h"
#include "dialect/UnaryOps.h"
#include "dialect/elements/TypeRule.h"
#include "passes/Aten.h"
#include "passes/Passes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace sojourn {
#define GEN_PASS_DEF_PROMOTE
#include "passes/Passes.h.inc"
} // namespace sojourn

using namespace mlir;
using namespace sojourn;

namespace {

/// A call whose operands have known types, as its rule sees it.
class ModuleCall final : public TypedCall {
public:
  ModuleCall(AtenOp op, const TypeRule &rule, const DenseSet<Value> &numbers) : op(op), rule(rule), numbers(numbers) {}

  void collect(unsigned argument, CommonType &common) const override {
    if (Attribute attribute = at(argument)) {
      collect(attribute, common);
    }
  }
  std::optional<Element> typeOf(unsigned argument) const override { return typeOf(at(argument)); }
  bool isTrue(unsigned argument) const override {
    Attribute attribute = at(argument);
    auto flag = dyn_cast_or_null<BoolAttr>(attribute);
    return flag ? flag.getValue() : attribute && !isa<UnitAttr>(attribute);
  }
  bool isEmpty(unsigned argument) const override {
    Value value = operandOf(op, at(argument));
    auto tensor = value ? dyn_cast<RankedTensorType>(value.getType()) : RankedTensorType();
    return tensor && tensor.getNumElements() == 0;
  }
  std::optional<Element> first() const override {
    for (auto [name, argument] : llvm::zip(op.getNames(), op.getArgs())) {
      if (cast<StringAttr>(name).getValue() == "seed") {
        continue;
      }
      if (Value value = firstTensor(argument)) {
        return elementOf(cast<RankedTensorType>(value.getType()).getElementType());
      }
    }
    return std::nullopt;
  }

private:
  Attribute at(unsigned argument) const { return op.getArg(rule.arguments()[argument]); }

  /// Of an argument, or of a list; a number is none.
  Value firstTensor(Attribute argument) const {
    if (auto list = dyn_cast_or_null<ArrayAttr>(argument)) {
      for (Attribute element : list) {
        if (Value value = firstTensor(element)) {
          return value;
        }
      }
      return {};
    }
    Value value = operandOf(op, argument);
    return value && isa<RankedTensorType>(value.getType()) && !numbers.contains(value) ? value : Value();
  }

  std::optional<Element> typeOf(Attribute argument) const {
    if (auto dtype = dyn_cast_or_null<TypeAttr>(argument)) {
      return elementOf(dtype.getValue());
    }
    Value value = firstTensor(argument);
    return value ? elementOf(cast<RankedTensorType>(value.getType()).getElementType()) : std::nullopt;
  }

  void collect(Attribute argument, CommonType &common) const {
    if (Value value = operandOf(op, argument)) {
      auto tensor = dyn_cast<RankedTensorType>(value.getType());
      std::optional<Element> element = tensor ? elementOf(tensor.getElementType()) : std::nullopt;
      if (element) { // A seed or a table promotes nothing; the decomposition says what it expected.
        common.add(*element, numbers.contains(value) ? OperandKind::Number
                             : tensor.getRank() == 0 ? OperandKind::ZeroDim
                                                     : OperandKind::Tensor);
      }
    } else if (auto list = dyn_cast<ArrayAttr>(argument)) {
      for (Attribute element : list) {
        collect(element, common);
      }
    } else if (isa<DenseElementsAttr>(argument)) { // a complex number
      common.add(Element::c128, OperandKind::Number);
    } else if (auto literal = dyn_cast<TypedAttr>(argument); literal && isa<IntegerAttr, FloatAttr>(argument)) {
      if (std::optional<Element> element = elementOf(literal.getType())) {
        common.add(*element, OperandKind::Number);
      }
    }
  }

  mutable AtenOp op; // accessors of ops are not const
  const TypeRule &rule;
  const DenseSet<Value> &numbers;
};

class Promoter {
public:
  Promoter(ModuleOp module, const TypeContext &context) : context(context), builder(module.getContext()) {}
  LogicalResult run(func::FuncOp function);

private:
  LogicalResult visit(Operation &op);
  LogicalResult visitCall(AtenOp op);
  LogicalResult resolveStored(AtenOp op, ArrayRef<int64_t> stored);
  LogicalResult checkResult(AtenOp op, unsigned index, std::optional<Element> given, PromotionRules by);
  Value convertTo(Value value, Type element);
  void rewrite(AtenOp op, const TypeRule &rule, Element compute, Element result);

  TypeContext context;
  OpBuilder builder;
  /// Values that were `!sojourn.scalar`.
  DenseSet<Value> numbers;
  DenseMap<std::pair<Value, Type>, Value> converted;
};

} // namespace

static PromotionRules rulesOf(StringAttr name) {
  return name.getValue() == StringRef(nameOf(PromotionRules::Numpy)) ? PromotionRules::Numpy : PromotionRules::Torch;
}

static bool isUnresolvedTensor(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && isUnresolved(tensor.getElementType());
}

static void resolve(Value value, Type element) {
  value.setType(cast<RankedTensorType>(value.getType()).clone(element));
}

/// Results that replace the contents of an operand have its type.
LogicalResult Promoter::resolveStored(AtenOp op, ArrayRef<int64_t> stored) {
  SmallVector<Value> places; // in the order of the schema, as functionalization appended the results
  for (StringRef name : {"self", "running_mean", "running_var", "noise"}) {
    if (Value place = op.getArgOperand(name)) {
      places.push_back(place);
    }
  }
  for (auto [i, index] : llvm::enumerate(stored)) {
    Value result = op->getResult(static_cast<unsigned>(index));
    if (!isUnresolvedTensor(result.getType())) {
      continue;
    }
    if (i >= places.size()) {
      return op.emitError() << "writes result #" << index
                            << " to a tensor of unresolved type that it does not read; give that tensor its type";
    }
    resolve(result, cast<RankedTensorType>(places[i].getType()).getElementType());
  }
  return success();
}

/// The recorded type of a fresh result is what the rules give; one that is unresolved gets it.
LogicalResult Promoter::checkResult(AtenOp op, unsigned index, std::optional<Element> given, PromotionRules by) {
  Value result = op->getResult(index);
  auto tensor = dyn_cast<RankedTensorType>(result.getType());
  if (!tensor) {
    return success(); // An undefined output.
  }
  StringRef rules = nameOf(by);
  if (!given) {
    return op.emitError() << "has a recorded result of " << tensor.getElementType() << ", but " << rules
                          << "'s promotion rules give an element outside core form";
  }
  Type expected = typeOf(op.getContext(), *given);
  if (isUnresolvedTensor(tensor)) {
    resolve(result, expected);
  } else if (tensor.getElementType() != expected) {
    return op.emitError() << "has a recorded result of " << tensor.getElementType() << ", expected " << expected
                          << " by " << rules << "'s promotion rules";
  }
  return success();
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
    auto complex = dyn_cast<ComplexType>(type.getElementType());
    if (complex && element.isInteger(1)) { // its truth; it has no real value
      auto realType = RankedTensorType::get({}, complex.getElementType());
      Type truthType = type.clone(element), splatType = realType.clone(complex);
      Value zero = ConstantOp::create(builder, loc, realType, builder.getFloatAttr(complex.getElementType(), 0));
      zero = ConvertOp::create(builder, loc, splatType, zero);
      known = CompareOp::create(builder, loc, truthType, value, zero, "ne");
    } else {
      known = ConvertOp::create(builder, loc, type.clone(element), value);
    }
  }
  return known;
}

/// Arguments that say where, not what: they take no part in arithmetic.
static bool isPlace(StringRef argument) {
  return llvm::is_contained({"start", "end", "index", "shifts", "diagonal"}, argument);
}

void Promoter::rewrite(AtenOp op, const TypeRule &rule, Element compute, Element result) {
  Type computeType = typeOf(op.getContext(), compute);
  // Factors of halves are not rounded to halves before they are multiplied by.
  bool isHalf = computeType.isF16() || computeType.isBF16();
  Type numberType = isHalf ? Float32Type::get(op.getContext()) : computeType;
  StringRef tensorWeight = op.getBaseName() == "lerp" ? "weight" : "";
  // ATen's kernels read a factor of halves in f32, too, but no summand.
  bool hasFactor = isHalf && llvm::is_contained({"mul", "div", "true_divide", "floor_divide"}, op.getBaseName());
  AtenBuilder call(builder, op.getLoc(), op.getName().drop_front(StringRef("aten.").size()));
  for (auto [nameAttr, arg] : llvm::zip(op.getNames(), op.getArgs())) {
    StringRef name = cast<StringAttr>(nameAttr).getValue();
    bool isPromoted = llvm::any_of(rule.promoted(), [&](StringRef promoted) { return promoted == name; });
    bool takes = isPromoted || name == "self" || name == tensorWeight;
    // A whole number in a tensor's place (`3 // x`) is one; decompositions read `self` as a tensor.
    if (name == "self" && isa<IntegerAttr>(arg) && isPromoted) {
      auto literal = cast<IntegerAttr>(arg);
      auto type = RankedTensorType::get({}, literal.getType());
      Value number = ConstantOp::create(builder, op.getLoc(), type, literal);
      call.arg(name, convertTo(number, computeType));
      continue;
    }
    // Masks and positions keep their type; every number has the type that the call computes in, wide where it takes no
    // part in promotion.
    call.arg(name, op, arg, [&](Value value) {
      bool isNumber = numbers.contains(value) && !isPlace(name);
      if (isNumber && ((!isPromoted && name != "self") || hasFactor)) {
        return convertTo(value, numberType);
      }
      return takes || isNumber ? convertTo(value, computeType) : value;
    });
  }
  auto recordedType = cast<RankedTensorType>(op->getResult(0).getType());
  SmallVector<Type> types(op->getResultTypes());
  types[0] = recordedType.clone(rule.takesTruth() ? computeType : typeOf(op.getContext(), result));
  AtenOp fresh = call.build(types);
  SmallVector<Value> results(fresh->getResults());
  if (types[0] != recordedType) {
    results[0] = ConvertOp::create(builder, op.getLoc(), recordedType, results[0]);
  }
  op->replaceAllUsesWith(results);
  op->erase();
}

LogicalResult Promoter::visitCall(AtenOp op) {
  builder.setInsertionPoint(op);
  auto mutated = op->getAttrOfType<DenseI64ArrayAttr>(kMutatedAttr);
  op->removeAttr(kMutatedAttr);
  TypeContext here = context;
  if (auto rules = op->getAttrOfType<StringAttr>(kPromotionAttr)) {
    here.rules = rulesOf(rules);
    op->removeAttr(kPromotionAttr);
  }
  if (auto type = op->getAttrOfType<TypeAttr>(kDefaultFloatAttr)) {
    here.defaultFloat = *elementOf(type.getValue());
    op->removeAttr(kDefaultFloatAttr);
  }
  ArrayRef<int64_t> stored = mutated ? mutated.asArrayRef() : ArrayRef<int64_t>();
  if (failed(resolveStored(op, stored))) {
    return failure();
  }
  const TypeRule &rule = TypeRule::of(op.getBaseName());
  ModuleCall call(op, rule, numbers);
  std::optional<Element> computed = rule.computed(call, here);
  for (unsigned i = 0; i < op->getNumResults(); ++i) {
    if (!llvm::is_contained(stored, i) &&
        failed(checkResult(op, i, rule.result(i, computed, call, here), here.rules))) {
      return failure();
    }
  }
  if (!rule.promotes() || op->getNumResults() == 0 || !isa<RankedTensorType>(op->getResult(0).getType())) {
    return success();
  }
  if (llvm::none_of(rule.promoted(), [&](StringRef name) { return op.getArg(name) != nullptr; })) {
    return op.emitError() << "has no argument among " << llvm::join(rule.promoted(), ",") << " that could promote";
  }
  bool isStored = llvm::is_contained(stored, 0);
  // An `out` tensor gives a reduction its dtype, when the call does not.
  if (isStored && rule.accumulates() && op.getOverload().contains("out") &&
      !isa_and_nonnull<TypeAttr>(op.getArg("dtype"))) {
    computed = elementOf(cast<RankedTensorType>(op->getResult(0).getType()).getElementType());
    rewrite(op, rule, *computed, *computed);
    return success();
  }
  std::optional<Element> result = rule.result(0, computed, call, here);
  if (!computed || !result) {
    return op.emitError() << "computes in an element type outside core form";
  }
  rewrite(op, rule, *computed, *result);
  return success();
}

LogicalResult Promoter::visit(Operation &op) {
  if (auto aten = dyn_cast<AtenOp>(op)) {
    return visitCall(aten);
  }
  // Windows on values and writes into them hold what their first operand holds.
  for (Value result : op.getResults()) {
    if (!isUnresolvedTensor(result.getType())) {
      continue;
    }
    auto from = op.getNumOperands() > 0 ? dyn_cast<RankedTensorType>(op.getOperand(0).getType()) : RankedTensorType();
    if (!from) {
      return op.emitError()
             << "has a result of unresolved type and no operand to infer it from; only calls are resolved";
    }
    resolve(result, from.getElementType());
  }
  return success();
}

LogicalResult Promoter::run(func::FuncOp function) {
  for (BlockArgument argument : function.getArguments()) {
    if (auto scalar = dyn_cast<ScalarType>(argument.getType())) {
      argument.setType(RankedTensorType::get({}, scalar.getElementType()));
      numbers.insert(argument);
    } else if (isUnresolvedTensor(argument.getType())) {
      return function.emitError() << "argument #" << argument.getArgNumber() << " has type " << argument.getType()
                                  << ", expected an element type; only results of calls are resolved";
    }
  }
  for (Operation &op : llvm::make_early_inc_range(function.getBody().front())) {
    if (failed(visit(op))) {
      return failure();
    }
  }
  Operation *end = function.getBody().front().getTerminator();
  function.setFunctionType(builder.getFunctionType(function.getBody().getArgumentTypes(), end->getOperandTypes()));
  return success();
}

namespace {
struct Promote : sojourn::impl::PromoteBase<Promote> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    TypeContext context;
    auto text = module->getAttrOfType<StringAttr>(kPromotionAttr);
    if (text && rulesOf(text) == PromotionRules::Numpy) {
      context = kNumpyTypes;
    }
    if (auto type = module->getAttrOfType<TypeAttr>(kDefaultFloatAttr)) {
      context.defaultFloat = *elementOf(type.getValue());
    }
    for (auto function : module.getOps<func::FuncOp>()) {
      if (failed(expectOneBlock(function))) {
        return signalPassFailure();
      }
      for (auto op : function.getOps<AtenOp>()) {
        if (!op.getMutates().empty() || llvm::any_of(op->getOperandTypes(), llvm::IsaPred<RefType>)) {
          op.emitError() << "works on storages, expected functional form; run sojourn-functionalize first";
          return signalPassFailure();
        }
      }
      if (failed(Promoter(module, context).run(function))) {
        return signalPassFailure();
      }
    }
    module->removeAttr(kDefaultFloatAttr);
    setPhase(module, "promoted");
  }
};
} // namespace
