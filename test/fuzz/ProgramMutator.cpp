// SPDX-License-Identifier: Apache-2.0
// Edits of core form (see ProgramMutator.h). What does not verify afterwards is taken back.
#include "test/fuzz/ProgramMutator.h"

#include "dialect/CoreForm.h"
#include "test/fuzz/Bytes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"

namespace sojourn::fuzz {

using namespace mlir;

namespace {

constexpr size_t kProgramsPerContext = 400;
constexpr size_t kTries = 6;

class Editor {
public:
  Editor(ModuleOp module, Dice &dice)
      : module(module), step(module.lookupSymbol<func::FuncOp>(kStepName)), dice(dice), builder(module.getContext()) {
    for (Operation &op : step.getBody().front()) {
      ops.push_back(&op);
    }
  }

  /// Whether anything was changed; it may not verify.
  bool edit(bool changesResults) {
    switch (dice.below(changesResults ? 7 : 6)) {
    case 0:
    case 1: return changeOperand();
    case 2:
    case 3: return changeAttribute();
    case 4: return renameOp();
    case 5: return insertOp();
    default: return changeResult();
    }
  }

private:
  /// A value of this type that stands before `op`.
  Value valueBefore(Operation *op, Type type) {
    SmallVector<Value> all;
    for (BlockArgument argument : step.getArguments()) {
      if (argument.getType() == type) {
        all.push_back(argument);
      }
    }
    for (Operation *other : ops) {
      if (other == op) {
        break;
      }
      for (Value result : other->getResults()) {
        if (result.getType() == type) {
          all.push_back(result);
        }
      }
    }
    return all.empty() ? Value() : all[dice.below(all.size())];
  }

  Operation *anyOp() { return ops[dice.below(ops.size())]; }

  bool changeOperand() {
    Operation *op = anyOp();
    if (op->getNumOperands() == 0) {
      return false;
    }
    OpOperand &operand = op->getOpOperand(static_cast<unsigned>(dice.below(op->getNumOperands())));
    Value other = valueBefore(op, operand.get().getType());
    if (!other || other == operand.get()) {
      return false;
    }
    operand.set(other);
    return true;
  }

  Attribute changed(Attribute attribute) {
    if (auto number = dyn_cast<IntegerAttr>(attribute)) {
      if (number.getType().isInteger(1)) {
        return builder.getBoolAttr(!number.getValue().getBoolValue());
      }
      APInt value = number.getValue();
      value = dice.chance(0.6)
                  ? value + APInt(value.getBitWidth(), static_cast<uint64_t>(dice.between(-2, 2)), true, true)
                  : APInt(value.getBitWidth(), static_cast<uint64_t>(edgeInteger(dice)), true, true);
      return IntegerAttr::get(number.getType(), value);
    }
    if (auto number = dyn_cast<FloatAttr>(attribute)) {
      return builder.getFloatAttr(number.getType(), edgeReal(dice));
    }
    if (auto list = dyn_cast<DenseI64ArrayAttr>(attribute)) {
      SmallVector<int64_t> values(list.asArrayRef());
      if (values.empty() || dice.chance(0.1)) {
        values.push_back(edgeInteger(dice));
      } else if (dice.chance(0.1)) {
        values.pop_back();
      } else if (values.size() > 1 && dice.chance(0.3)) {
        std::swap(values[dice.below(values.size())], values[dice.below(values.size())]);
      } else {
        int64_t &value = values[dice.below(values.size())];
        value = dice.chance(0.6) ? static_cast<int64_t>(static_cast<uint64_t>(value) + dice.word() % 5 - 2)
                                 : edgeInteger(dice);
      }
      return builder.getDenseI64ArrayAttr(values);
    }
    if (auto list = dyn_cast<DenseF64ArrayAttr>(attribute); list && !list.empty()) {
      SmallVector<double> values(list.asArrayRef());
      values[dice.below(values.size())] = edgeReal(dice);
      return builder.getDenseF64ArrayAttr(values);
    }
    if (isa<StringAttr>(attribute)) {
      return builder.getStringAttr(
          dice.of({"eq", "ne", "lt", "le", "gt", "ge", "set", "add", "mul", "max", "min", "a", "h", "none", "tanh"}));
    }
    return {};
  }

  bool changeAttribute() {
    Operation *op = anyOp();
    ArrayRef<NamedAttribute> attributes = op->getAttrs();
    if (attributes.empty()) {
      return false;
    }
    NamedAttribute one = attributes[dice.below(attributes.size())];
    Attribute other = changed(one.getValue());
    if (!other || other == one.getValue()) {
      return false;
    }
    op->setAttr(one.getName(), other);
    return true;
  }

  ArrayRef<RegisteredOperationName> names() {
    if (known.empty()) {
      for (RegisteredOperationName name : module.getContext()->getRegisteredOperations()) {
        if (name.getDialectNamespace() == "sojourn") {
          known.push_back(name);
        }
      }
    }
    return known;
  }

  Operation *make(Location location, RegisteredOperationName name, ValueRange operands, TypeRange results,
                  DictionaryAttr attributes) {
    OperationState state(location, name.getStringRef());
    state.addOperands(operands);
    state.addTypes(results);
    state.addAttributes(attributes.getValue());
    Operation *op = builder.create(state);
    if (failed(mlir::verify(op))) {
      op->erase();
      return nullptr;
    }
    return op;
  }

  bool renameOp() {
    Operation *op = anyOp();
    if (isa<func::ReturnOp>(op)) {
      return false;
    }
    builder.setInsertionPoint(op);
    for (size_t attempt = 0; attempt < 4 * kTries; ++attempt) {
      RegisteredOperationName name = names()[dice.below(names().size())];
      if (name == op->getName()) {
        continue;
      }
      Operation *other = make(op->getLoc(), name, op->getOperands(), op->getResultTypes(), op->getAttrDictionary());
      if (other) {
        op->replaceAllUsesWith(other);
        op->erase();
        return true;
      }
    }
    return false;
  }

  /// An op on values of one type, put in the place of one of their later uses.
  bool insertOp() {
    Operation *op = anyOp();
    if (op->getNumOperands() == 0) {
      return false;
    }
    OpOperand &operand = op->getOpOperand(static_cast<unsigned>(dice.below(op->getNumOperands())));
    Type type = operand.get().getType();
    if (!isa<RankedTensorType>(type)) {
      return false;
    }
    builder.setInsertionPoint(op);
    for (size_t attempt = 0; attempt < 4 * kTries; ++attempt) {
      SmallVector<Value> operands = {operand.get()};
      for (size_t more = dice.below(3); more > 0; --more) {
        operands.push_back(valueBefore(op, type));
      }
      if (llvm::is_contained(operands, Value())) {
        continue;
      }
      RegisteredOperationName name = names()[dice.below(names().size())];
      if (Operation *added = make(op->getLoc(), name, operands, type, builder.getDictionaryAttr({}))) {
        operand.set(added->getResult(0));
        return true;
      }
    }
    return false;
  }

  bool changeResult() {
    if (step.getNumResults() == 0) {
      return false;
    }
    auto result = static_cast<unsigned>(dice.below(step.getNumResults()));
    auto kind = dice.of({StepResult::Keep, StepResult::Publish});
    step.setResultAttr(result, kResultAttr, builder.getStringAttr(stringify(kind)));
    step.removeResultAttr(result, builder.getStringAttr(kTargetAttr));
    return true;
  }

  ModuleOp module;
  func::FuncOp step;
  Dice &dice;
  OpBuilder builder;
  SmallVector<Operation *> ops;
  SmallVector<RegisteredOperationName> known;
};

} // namespace

MLIRContext &sharedContext() {
  static std::unique_ptr<MLIRContext> context;
  static size_t uses = 0;
  if (uses++ % kProgramsPerContext == 0) {
    context = std::make_unique<MLIRContext>(MLIRContext::Threading::DISABLED);
    loadDialects(*context);
  }
  return *context;
}

std::optional<runtime::EncodedProgram> mutateProgram(std::string_view program, std::string_view debug,
                                                     bool changesResults, Dice &dice) {
  MLIRContext &context = sharedContext();
  ScopedDiagnosticHandler silent(&context, [](Diagnostic &) { return success(); });
  auto decoded = runtime::decodeProgram(context, program, debug);
  if (!decoded) {
    llvm::consumeError(decoded.takeError());
    return std::nullopt;
  }
  OwningOpRef<ModuleOp> module = std::move(*decoded);
  size_t edits = 1 + dice.below(3);
  for (size_t attempt = 0; edits > 0 && attempt < kTries * 3; ++attempt) {
    OwningOpRef<ModuleOp> next(cast<ModuleOp>(module.get()->clone()));
    if (Editor(*next, dice).edit(changesResults) && succeeded(mlir::verify(*next)) &&
        succeeded(verifyCoreForm(*next))) {
      module = std::move(next);
      --edits;
    }
  }
  auto encoded = runtime::encodeProgram(*module);
  if (!encoded) {
    llvm::consumeError(encoded.takeError());
    return std::nullopt;
  }
  return std::move(*encoded);
}

} // namespace sojourn::fuzz
