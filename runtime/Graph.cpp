// SPDX-License-Identifier: Apache-2.0
// Reads a core-form module into a Graph: types, attributes and bindings.
#include "runtime/Graph.h"

#include "dialect/Base.h"
#include "dialect/Signature.h"
#include "runtime/Limits.h"
#include "runtime/Program.h"
#include "runtime/Types.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"
#include <cstring>

namespace sojourn::runtime {

const AttrValue &GraphOp::attr(llvm::StringRef wanted) const {
  for (const auto &[name, value] : attrs) {
    if (name == wanted) {
      return value;
    }
  }
  throw PlanFailure{ErrorCode::Unsupported, "missing attribute '" + wanted.str() + "'"};
}

/// A loader, its validation part and their splits are a handful.
static constexpr size_t kPartsPerTable = 256;

std::vector<Side> partOf(const GraphOp &op) {
  std::vector<Side> part;
  for (auto [fraction, side] : llvm::zip(op.reals("fractions"), op.ints("sides"))) {
    part.push_back({fraction, side != 0});
  }
  return part;
}

namespace {

std::optional<Scalar> scalarOf(mlir::Attribute attribute) {
  Scalar scalar{};
  if (auto integer = llvm::dyn_cast<mlir::IntegerAttr>(attribute)) {
    llvm::APInt wide = integer.getValue().sextOrTrunc(64);
    if (integer.getType().isInteger(1)) {
      wide = llvm::APInt(64, integer.getValue().getBoolValue() ? 1 : 0);
    }
    uint64_t bits = wide.getZExtValue();
    std::memcpy(scalar.data(), &bits, sizeof(bits));
    return scalar;
  }
  if (auto real = llvm::dyn_cast<mlir::FloatAttr>(attribute)) {
    uint64_t bits = real.getValue().bitcastToAPInt().getZExtValue();
    std::memcpy(scalar.data(), &bits, sizeof(bits));
    return scalar;
  }
  return std::nullopt;
}

std::optional<AttrValue> attrOf(llvm::StringRef opName, mlir::Attribute attribute) {
  if (opName == "constant") {
    if (std::optional<Scalar> scalar = scalarOf(attribute)) {
      return AttrValue(*scalar);
    }
    return std::nullopt;
  }
  if (auto list = llvm::dyn_cast<mlir::DenseI64ArrayAttr>(attribute)) {
    return AttrValue(std::vector<int64_t>(list.asArrayRef().begin(), list.asArrayRef().end()));
  }
  if (auto list = llvm::dyn_cast<mlir::DenseF64ArrayAttr>(attribute)) {
    return AttrValue(std::vector<double>(list.asArrayRef().begin(), list.asArrayRef().end()));
  }
  if (auto boolean = llvm::dyn_cast<mlir::BoolAttr>(attribute)) {
    return AttrValue(int64_t{boolean.getValue()});
  }
  if (auto integer = llvm::dyn_cast<mlir::IntegerAttr>(attribute)) {
    return AttrValue(integer.getValue().getSExtValue());
  }
  if (auto text = llvm::dyn_cast<mlir::StringAttr>(attribute)) {
    return AttrValue(text.str());
  }
  if (auto array = llvm::dyn_cast<mlir::ArrayAttr>(attribute)) {
    std::vector<std::string> texts;
    for (mlir::Attribute element : array) {
      auto text = llvm::dyn_cast<mlir::StringAttr>(element);
      if (!text) {
        return std::nullopt;
      }
      texts.push_back(text.str());
    }
    return AttrValue(std::move(texts));
  }
  return std::nullopt;
}

llvm::Expected<ArgSpec> argOf(mlir::func::FuncOp step, unsigned index) {
  ArgSpec spec;
  auto kind = step.getArgAttrOfType<mlir::StringAttr>(index, "sojourn.kind");
  std::optional<StepArg> known = kind ? parseStepArg(kind.getValue()) : std::nullopt;
  if (!known) {
    return makeError(ErrorCode::Unsupported, "argument " + std::to_string(index) + " has no known 'sojourn.kind'");
  }
  spec.kind = *known;
  mlir::Type type = step.getArgumentTypes()[index];
  if (auto table = llvm::dyn_cast<sojourn::TableType>(type)) {
    if (table.hasStaticRows()) {
      spec.rows = table.getRows();
    }
    for (auto [name, columnType] : llvm::zip(table.getNames(), table.getTypes())) {
      std::optional<TensorType> entry = entryTypeOf(columnType);
      if (!entry) {
        return makeError(ErrorCode::Unsupported, "column '" + name.str() + "' has an unknown element type");
      }
      spec.columns.push_back({name.str(), entry->element, std::move(entry->dims)});
    }
    return spec;
  }
  std::optional<TensorType> tensor = tensorTypeOf(type);
  if (!tensor) {
    return makeError(ErrorCode::Unsupported, "argument " + std::to_string(index) + " is not a tensor of core form");
  }
  spec.type = *tensor;
  return spec;
}

} // namespace

llvm::Expected<Graph> buildGraph(mlir::ModuleOp coreModule) {
  auto step = coreModule.lookupSymbol<mlir::func::FuncOp>("step");
  if (!step || !llvm::hasSingleElement(step.getBody())) {
    return makeError(ErrorCode::Unsupported, "the module has no straight-line function @step");
  }
  Graph graph;
  llvm::DenseMap<mlir::Value, ValueId> ids;
  unsigned argCount = step.getNumArguments();
  for (unsigned index = 0; index < argCount; ++index) {
    llvm::Expected<ArgSpec> spec = argOf(step, index);
    if (!spec) {
      return spec.takeError();
    }
    ids[step.getArgument(index)] = static_cast<ValueId>(graph.types.size());
    graph.types.push_back(spec->type);
    graph.sumOfValueBytes += spec->kind == StepArg::Table ? 0 : spec->type.bytes();
    graph.args.push_back(std::move(*spec));
  }

  llvm::DenseMap<mlir::Location, std::string> places;
  auto placeOf = [&](mlir::Location location) -> const std::string & {
    auto [entry, isNew] = places.try_emplace(location);
    if (isNew) {
      entry->second = describeLocation(location);
    }
    return entry->second;
  };

  std::vector<size_t> definingOp(argCount, SIZE_MAX);
  for (mlir::Operation &op : step.getBody().front()) {
    if (auto exit = llvm::dyn_cast<mlir::func::ReturnOp>(op)) {
      for (auto [index, value] : llvm::enumerate(exit.getOperands())) {
        ResultSpec spec;
        auto kind = step.getResultAttrOfType<mlir::StringAttr>(index, "sojourn.result");
        std::optional<StepResult> known = kind ? parseStepResult(kind.getValue()) : std::nullopt;
        if (!known) {
          return makeError(ErrorCode::Unsupported,
                           "result " + std::to_string(index) + " has no known 'sojourn.result'");
        }
        spec.kind = *known;
        if (auto target = step.getResultAttrOfType<mlir::IntegerAttr>(index, "sojourn.target")) {
          spec.target = static_cast<uint32_t>(target.getInt());
        }
        ValueId id = ids.lookup(value);
        spec.type = graph.types[id];
        if (id >= argCount) {
          spec.op = graph.ops[definingOp[id]].name;
          spec.location = graph.ops[definingOp[id]].location;
        }
        graph.resultValues.push_back(id);
        graph.results.push_back(std::move(spec));
      }
      return graph;
    }
    GraphOp record;
    record.name = op.getName().stripDialect().str();
    record.location = placeOf(op.getLoc());
    if (op.getName().getDialectNamespace() != "sojourn") {
      return makeError(ErrorCode::Unsupported, "op '" + op.getName().getStringRef().str() + "' is not of core form",
                       op.getName().getStringRef().str(), record.location);
    }
    for (mlir::Value operand : op.getOperands()) {
      ValueId id = ids.lookup(operand);
      record.operands.push_back(id);
    }
    for (mlir::NamedAttribute attribute : op.getAttrDictionary()) {
      std::optional<AttrValue> value = attrOf(record.name, attribute.getValue());
      if (!value) {
        return makeError(ErrorCode::Unsupported, "attribute '" + attribute.getName().str() + "' has an unknown kind",
                         record.name, record.location);
      }
      record.attrs.emplace_back(attribute.getName().str(), std::move(*value));
    }
    for (mlir::Value result : op.getResults()) {
      std::optional<TensorType> type = tensorTypeOf(result.getType());
      if (!type) {
        return makeError(ErrorCode::Unsupported, "a result is not a tensor of core form", record.name, record.location);
      }
      ValueId id = static_cast<ValueId>(graph.types.size());
      ids[result] = id;
      record.results.push_back(id);
      graph.sumOfValueBytes += type->bytes();
      graph.types.push_back(std::move(*type));
      definingOp.push_back(graph.ops.size());
    }
    if (record.name == "sample_rows") {
      auto &parts = graph.args[record.operands[3]].parts;
      if (std::vector<Side> part = partOf(record); !part.empty() && !llvm::is_contained(parts, part)) {
        if (parts.size() == kPartsPerTable) { // each is looked for here, and counted at every binding
          return makeError(ErrorCode::Limit,
                           "rows of one table are drawn of more than " + std::to_string(kPartsPerTable) +
                               " parts of it; draw in fewer splits, or in several steps",
                           record.name, record.location);
        }
        parts.push_back(std::move(part));
      }
    }
    graph.ops.push_back(std::move(record));
  }
  return makeError(ErrorCode::Unsupported, "@step does not return");
}

} // namespace sojourn::runtime
