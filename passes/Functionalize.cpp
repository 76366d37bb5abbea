// SPDX-License-Identifier: Apache-2.0
// sojourn-functionalize: a trace has no control flow and its alias facts are exact, so one walk in program order that
// keeps the current value of every storage is enough; nothing is searched.
#include "dialect/Bounds.h"
#include "dialect/Box.h"
#include "dialect/CapturedOps.h"
#include "dialect/CoreForm.h"
#include "dialect/UnaryOps.h"
#include "passes/Aten.h"
#include "passes/ExpandForeach.h"
#include "passes/Passes.h"
#include "passes/StridedView.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVectorExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/TypeSwitch.h"

namespace sojourn {
#define GEN_PASS_DEF_FUNCTIONALIZE
#include "passes/Passes.h.inc"
} // namespace sojourn

using namespace mlir;
using namespace sojourn;

namespace {

/// One storage: its value so far, in the shape of its root. A write makes a new version.
struct Storage {
  RefType type;
  Value value;
  int64_t version = 0;
};

class Functionalizer {
public:
  explicit Functionalizer(func::FuncOp function) : function(function), builder(function.getContext()) {}
  LogicalResult run();

private:
  /// What a ref stands for. `type` is kept here because the type of an argument changes as soon as it is seen. `moved`:
  /// its place is said by numbers of the run.
  struct Window {
    size_t storage;
    RefType type;
    MovedViewOp moved;
  };

  LogicalResult addStorage(Operation *op, Value ref, RefType type, Value contents);
  LogicalResult visit(Operation &op);
  LogicalResult visitView(ViewOp op);
  LogicalResult visitMovedView(MovedViewOp op);
  LogicalResult visitAten(AtenOp op);
  LogicalResult visitForeach(AtenOp op);
  bool writesSharedStorage(AtenOp op);
  LogicalResult visitReturn(func::ReturnOp op);
  Value read(Value ref, Location loc);
  LogicalResult write(Operation *op, Value ref, Value update);
  void keepArguments(AtenOp op, SmallVectorImpl<Attribute> &args, SmallVectorImpl<Attribute> &names,
                     SmallVectorImpl<Value> &inputs);

  func::FuncOp function;
  OpBuilder builder;
  SmallVector<Storage> storages;
  DenseMap<Value, Window> windows;
  /// Contents of a ref at a version of its storage.
  DenseMap<Value, std::pair<int64_t, Value>> reads;
  SmallVector<Operation *> replaced;
};

} // namespace

LogicalResult Functionalizer::addStorage(Operation *op, Value ref, RefType type, Value contents) {
  if (!type.isDenseRoot()) {
    return op->emitError() << "a storage of layout " << type << " is not supported yet, expected dense strides at "
                           << "offset 0; call contiguous() first";
  }
  windows[ref] = {storages.size(), type, {}};
  storages.push_back({type, contents});
  return success();
}

Value Functionalizer::read(Value ref, Location loc) {
  Window window = windows.lookup(ref);
  Storage &storage = storages[window.storage];
  auto [version, cached] = reads.lookup(ref);
  if (cached && version == storage.version) {
    return cached;
  }
  Value value = window.moved ? readMoved(builder, loc, storage.value, storage.type, window.moved)
                             : readTyped(builder, loc, storage.value, storage.type, window.type);
  reads[ref] = {storage.version, value};
  return value;
}

LogicalResult Functionalizer::write(Operation *op, Value ref, Value update) {
  Window window = windows.lookup(ref);
  Storage &storage = storages[window.storage];
  if (llvm::is_contained(window.type.getShape(), 0)) {
    return success(); // nothing is written, whatever the strides are
  }
  if (isExpanded(window.type)) {
    return op->emitError() << "writes through " << window.type
                           << ", in which several elements share one position; clone() "
                           << "the expanded tensor before writing to it";
  }
  RefType type = window.type;
  if (storage.type.getElementType().isInteger(1) && !type.getElementType().isInteger(1)) {
    return op->emitError() << "writes " << type.getElementType() << " to a storage of booleans, which holds only true "
                           << "and false; clone() the view before writing to it";
  }
  if (window.moved) {
    storage.value = writeMoved(builder, op->getLoc(), storage.value, storage.type, window.moved, update);
    ++storage.version;
    return success();
  }
  storage.value = writeTyped(builder, op->getLoc(), storage.value, storage.type, type, update);
  ++storage.version;
  if (type.getElementType() != storage.type.getElementType()) {
    return success();
  }
  // What was written is what a read through the same ref gives, unless places overlap and the last one wins.
  if (isSameLayout(storage.type, type) || type.getNumElements() == 0 ||
      planWindow({storage.type.getNumElements()}, type)) {
    reads[ref] = {storage.version, update};
  }
  return success();
}

LogicalResult Functionalizer::visitView(ViewOp op) {
  Value source = op->getOperand(0), result = op->getResult(0);
  auto found = windows.find(source);
  if (found == windows.end()) {
    return op.emitError() << "is a view of a value that is not a storage of this function";
  }
  Window window{found->second.storage, cast<RefType>(result.getType()), {}};
  RefType root = storages[window.storage].type;
  Type from = root.getElementType(), to = window.type.getElementType();
  std::optional<WidthRatio> ratio = widthRatio(from, to);
  if (!ratio) {
    return op.emitError() << "a view of " << from << " as " << to << " is not supported, expected numbers or "
                          << "booleans; convert it by to()";
  }
  std::optional<int64_t> extent = window.type.getExtent();
  if (!extent || *extent > root.getNumElements() * ratio->parts / ratio->numbers) {
    return op.emitError() << "view " << window.type << " reaches beyond the " << root.getNumElements()
                          << " elements of its storage";
  }
  windows[result] = window;
  replaced.push_back(op);
  return success();
}

LogicalResult Functionalizer::visitMovedView(MovedViewOp op) {
  auto found = windows.find(op.getSource());
  if (found == windows.end()) {
    return op.emitError() << "is a view of a value that is not a storage of this function";
  }
  RefType root = storages[found->second.storage].type;
  if (checkedNumel(op.getShape(), bounds::kViewElements) != root.getNumElements() ||
      root.getElementType() != op.getResult().getType().getElementType()) {
    return op.emitError() << "views a storage of type " << root << " as [" << op.getShape()
                          << "], expected the root of that storage";
  }
  windows[op.getResult()] = {found->second.storage, op.getResult().getType(), op};
  replaced.push_back(op);
  return success();
}

/// Arguments that an operator without a trailing underscore updates in place; whatever else such an operator writes
/// is an `out` argument, which its functional form does not have.
static bool isUpdatedInput(StringRef argument) {
  return llvm::StringSwitch<bool>(argument)
      .Cases({"self", "running_mean", "running_var", "noise"}, true)
      .Default(false);
}

void Functionalizer::keepArguments(AtenOp op, SmallVectorImpl<Attribute> &args, SmallVectorImpl<Attribute> &names,
                                   SmallVectorImpl<Value> &inputs) {
  bool inPlace = isInPlaceName(op.getBaseName());
  SmallVector<int64_t> position(op.getInputs().size(), -1);
  auto keep = [&](Attribute element) -> Attribute {
    auto reference = dyn_cast<OperandAttr>(element);
    if (!reference) {
      return element;
    }
    int64_t &slot = position[reference.getIndex()];
    if (slot < 0) {
      slot = static_cast<int64_t>(inputs.size());
      Value operand = op.getInputs()[reference.getIndex()];
      inputs.push_back(windows.contains(operand) ? read(operand, op.getLoc()) : operand);
    }
    return OperandAttr::get(op.getContext(), slot);
  };
  for (auto [name, arg] : llvm::zip(op.getNames(), op.getArgs())) {
    auto reference = dyn_cast<OperandAttr>(arg);
    bool written = reference && llvm::is_contained(op.getMutates(), reference.getIndex());
    if (written && !inPlace && !isUpdatedInput(cast<StringAttr>(name).getValue())) {
      continue;
    }
    auto list = dyn_cast<ArrayAttr>(arg);
    args.push_back(list ? builder.getArrayAttr(llvm::map_to_vector(list, keep)) : keep(arg));
    names.push_back(name);
  }
}

/// Whether a storage that the call writes is behind more than one of its operands.
bool Functionalizer::writesSharedStorage(AtenOp op) {
  DenseMap<size_t, unsigned> uses;
  for (Value operand : op.getInputs()) {
    if (auto found = windows.find(operand); found != windows.end()) {
      ++uses[found->second.storage];
    }
  }
  return llvm::any_of(op.getMutates(), [&](int64_t index) {
    auto found = windows.find(op.getInputs()[index]);
    return found != windows.end() && uses.lookup(found->second.storage) > 1;
  });
}

/// A list call that writes works element by element; where storages are shared, an element sees earlier writes.
LogicalResult Functionalizer::visitForeach(AtenOp op) {
  auto self = dyn_cast_or_null<ArrayAttr>(op.getArg("self"));
  FailureOr<SmallVector<AtenOp>> elements = expandForeach(builder, op, self ? self.size() : 0, /*inPlace=*/true);
  if (failed(elements)) {
    return failure();
  }
  for (AtenOp element : *elements) {
    builder.setInsertionPoint(element);
    if (failed(visitAten(element))) {
      return failure();
    }
  }
  replaced.push_back(op);
  return success();
}

LogicalResult Functionalizer::visitAten(AtenOp op) {
  if (!op.getMutates().empty() && writesSharedStorage(op)) {
    if (op.getBaseName().starts_with("_foreach_")) {
      return visitForeach(op);
    }
    for (auto [i, index] : llvm::enumerate(op.getMutates())) {
      Window one = windows.lookup(op.getInputs()[index]);
      for (int64_t other : op.getMutates().drop_front(i + 1)) {
        Window two = windows.lookup(op.getInputs()[other]);
        if (one.storage == two.storage && (one.moved || two.moved)) {
          return op.emitError()
                 << "writes to two windows of one tensor, which may overlap, depending on numbers of the run";
        }
        if (one.storage == two.storage && isSameLayout(one.type, two.type) && one.type.getNumElements() > 0) {
          return op.emitError() << "writes one tensor twice in a call, as operands " << index << " and " << other
                                << "; pass it once";
        }
      }
    }
  }
  SmallVector<Attribute> args, names;
  SmallVector<Value> inputs;
  keepArguments(op, args, names, inputs);

  auto valueType = [&](Value value) -> Type {
    auto found = windows.find(value);
    auto ref = found == windows.end() ? dyn_cast<RefType>(value.getType()) : found->second.type;
    return ref ? Type(ref.getTensorType()) : value.getType();
  };
  SmallVector<Type> types(llvm::map_range(op->getResults(), valueType));
  size_t fresh = types.size();
  SmallVector<int64_t> mutatedResults;
  for (int64_t index : op.getMutates()) {
    mutatedResults.push_back(static_cast<int64_t>(types.size()));
    types.push_back(valueType(op.getInputs()[index]));
  }
  std::string name = "aten." + functionalBase(op.getBaseName());
  if (!op.getOverload().empty()) {
    name += "." + op.getOverload().str();
  }
  auto call = AtenOp::create(builder, op.getLoc(), types, name, inputs, builder.getArrayAttr(args),
                             builder.getArrayAttr(names), builder.getDenseI64ArrayAttr({}));
  copyTypeRules(op, call);
  bool isDeterminant = op.getBaseName() == "_linalg_det" || op.getBaseName() == "_linalg_slogdet";
  if (Value matrix = isDeterminant ? op.getArgOperand("A") : Value();
      matrix && windows.contains(matrix) && windows.lookup(matrix).type.isContiguous()) {
    call->setAttr(kRowMajorAttr, builder.getUnitAttr());
  }
  if (!mutatedResults.empty()) {
    call->setAttr(kMutatedAttr, builder.getDenseI64ArrayAttr(mutatedResults));
  }
  for (size_t i = 0; i < fresh; ++i) {
    Value result = op->getResult(i);
    if (auto ref = dyn_cast<RefType>(result.getType())) {
      if (failed(addStorage(op, result, ref, call->getResult(i)))) {
        return failure();
      }
    } else {
      result.replaceAllUsesWith(call->getResult(i));
    }
  }
  for (auto [i, index] : llvm::enumerate(op.getMutates())) {
    if (failed(write(op, op.getInputs()[index], call->getResult(fresh + i)))) {
      return failure();
    }
  }
  replaced.push_back(op);
  return success();
}

LogicalResult Functionalizer::visitReturn(func::ReturnOp op) {
  builder.setInsertionPoint(op);
  SmallVector<Value> results;
  SmallVector<DictionaryAttr> resultAttrs;
  function.getAllResultAttrs(resultAttrs);
  resultAttrs.resize(op.getNumOperands(), builder.getDictionaryAttr({}));
  for (Value operand : op.getOperands()) {
    results.push_back(windows.contains(operand) ? read(operand, op.getLoc()) : operand);
  }
  for (BlockArgument argument : function.getArguments()) {
    auto found = windows.find(argument);
    if (found == windows.end() || storages[found->second.storage].version == 0) {
      continue;
    }
    unsigned index = argument.getArgNumber();
    auto kind = function.getArgAttrOfType<StringAttr>(index, kKindAttr);
    if (!kind || kind.getValue() != stringify(StepArg::State)) {
      continue; // An upload that was written to is a local value.
    }
    results.push_back(storages[found->second.storage].value);
    SmallVector<NamedAttribute> named = {
        builder.getNamedAttr(kResultAttr, builder.getStringAttr(stringify(StepResult::Commit))),
        builder.getNamedAttr(kTargetAttr, builder.getI64IntegerAttr(index))};
    if (function.getArgAttr(index, kTrainedAttr)) {
      named.push_back(builder.getNamedAttr(kTrainedAttr, builder.getUnitAttr()));
    }
    resultAttrs.push_back(builder.getDictionaryAttr(named));
  }
  SmallVector<DictionaryAttr> argAttrs; // what they say of a state is said of its result now
  function.getAllArgAttrs(argAttrs);
  for (DictionaryAttr &named : argAttrs) {
    NamedAttrList list(named);
    if (list.erase(kTrainedAttr)) {
      named = list.getDictionary(builder.getContext());
    }
  }
  function.setAllArgAttrs(argAttrs);
  op->setOperands(results);
  // Arguments were retyped one by one: take their types from the block.
  function.setFunctionType(
      builder.getFunctionType(function.getBody().getArgumentTypes(), ValueRange(results).getTypes()));
  function.setAllResultAttrs(resultAttrs);
  return success();
}

LogicalResult Functionalizer::visit(Operation &op) {
  builder.setInsertionPoint(&op);
  if (auto view = dyn_cast<ViewOp>(op)) {
    return visitView(view);
  }
  if (auto view = dyn_cast<MovedViewOp>(op)) {
    return visitMovedView(view);
  }
  if (auto aten = dyn_cast<AtenOp>(op)) {
    return visitAten(aten);
  }
  if (isa<AllocOp>(op)) {
    replaced.push_back(&op);
    return addStorage(&op, op.getResult(0), cast<RefType>(op.getResult(0).getType()), op.getOperand(0));
  }
  if (isa<LoadOp>(op) && windows.contains(op.getOperand(0))) {
    op.getResult(0).replaceAllUsesWith(read(op.getOperand(0), op.getLoc()));
    replaced.push_back(&op);
    return success();
  }
  if (auto ret = dyn_cast<func::ReturnOp>(op)) {
    return visitReturn(ret);
  }
  for (Value operand : op.getOperands()) {
    if (windows.contains(operand) || isa<RefType>(operand.getType())) {
      return op.emitError() << "has an operand with identity; load it as a value first";
    }
  }
  return success();
}

LogicalResult Functionalizer::run() {
  for (BlockArgument argument : function.getArguments()) {
    if (auto ref = dyn_cast<RefType>(argument.getType())) {
      if (failed(addStorage(function, argument, ref, argument))) {
        return failure();
      }
      argument.setType(ref.getTensorType());
    }
  }
  for (Operation &op : llvm::make_early_inc_range(function.getBody().front())) {
    if (failed(visit(op))) {
      return failure();
    }
  }
  for (Operation *op : llvm::reverse(replaced)) {
    op->erase();
  }
  return success();
}

namespace {
struct Functionalize : sojourn::impl::FunctionalizeBase<Functionalize> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (failed(expectOneBlock(function)) || failed(Functionalizer(function).run())) {
        return signalPassFailure();
      }
    }
    setPhase(getOperation(), "functional");
  }
};
} // namespace
