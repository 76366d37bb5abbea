// SPDX-License-Identifier: Apache-2.0
// Module to bytes. One walk; strings and types in first-use order, so equal modules give equal bytes.
#include "dialect/Base.h"
#include "dialect/CoreForm.h"
#include "dialect/Version.h"
#include "runtime/Types.h"
#include "runtime/Wire.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"
#include <sodium.h>

namespace sojourn::runtime {

namespace {
/// Hashes what is written to it, and keeps none of it.
class HashStream : public llvm::raw_ostream {
public:
  HashStream() {
    crypto_generichash_init(&state, nullptr, 0, sizeof(ProgramHash));
    SetBufferSize(size_t{1} << 16);
  }
  ~HashStream() override { flush(); }
  ProgramHash hash() {
    flush();
    ProgramHash hash;
    crypto_generichash_final(&state, hash.data(), hash.size());
    return hash;
  }

private:
  void write_impl(const char *bytes, size_t size) override {
    crypto_generichash_update(&state, reinterpret_cast<const unsigned char *>(bytes), size);
    position += size;
  }
  uint64_t current_pos() const override { return position; }

  crypto_generichash_state state;
  uint64_t position = 0;
};
} // namespace

ProgramHash hashModule(mlir::ModuleOp module) {
  HashStream out;
  module->print(out, mlir::OpPrintingFlags().printGenericOpForm());
  return out.hash();
}

namespace {

using namespace sojourn_wire;

class Encoder {
public:
  explicit Encoder(mlir::ModuleOp module) : module_(module) {}

  llvm::Expected<EncodedProgram> encode() {
    auto promotion = module_->getAttrOfType<mlir::StringAttr>(kPromotionAttr);
    auto step = module_.lookupSymbol<mlir::func::FuncOp>(kStepName);
    if (!promotion || !step || !llvm::hasSingleElement(step.getBody())) {
      return makeError(ErrorCode::Malformed, "the module is not in core form: no promotion or no straight-line @step");
    }
    if (llvm::Error error = encodeArguments(step)) {
      return error;
    }
    for (mlir::Operation &op : step.getBody().front()) {
      llvm::Error error = mlir::isa<mlir::func::ReturnOp>(op) ? encodeReturn(step, op) : encodeOp(op);
      if (error) {
        return error;
      }
    }
    EncodedProgram encoded;
    encoded.program = finish(promotion.getValue());
    encoded.debug = encodeDebug(locations_);
    encoded.hash = hashProgram(encoded.program);
    return encoded;
  }

private:
  static llvm::Error wrong(mlir::Operation &op, const std::string &what) {
    return makeError(ErrorCode::Unsupported, what, op.getName().getStringRef().str(), describeLocation(op.getLoc()));
  }

  uint32_t stringId(llvm::StringRef text) {
    auto [entry, isNew] = stringIds_.try_emplace(text, static_cast<uint32_t>(strings_.size()));
    if (isNew) {
      strings_.push_back(text.str());
    }
    return entry->second;
  }

  std::optional<uint32_t> typeId(mlir::Type type) {
    auto known = typeIds_.find(type);
    if (known != typeIds_.end()) {
      return known->second;
    }
    std::optional<TensorType> tensor = tensorTypeOf(type);
    if (!tensor) {
      return std::nullopt;
    }
    uint32_t id = static_cast<uint32_t>(types_.size());
    types_.emplace_back(static_cast<uint8_t>(tensor->element), static_cast<uint8_t>(tensor->rank()), uint16_t{0},
                        static_cast<uint32_t>(dims_.size()));
    dims_.insert(dims_.end(), tensor->dims.begin(), tensor->dims.end());
    typeIds_[type] = id;
    return id;
  }

  size_t partsId(PartsAttr attribute) {
    auto [entry, isNew] = partsIds_.try_emplace(attribute, parts_.size());
    if (isNew) {
      parts_.emplace_back(attribute.getStride(), static_cast<uint32_t>(segments_.size()),
                          static_cast<uint32_t>(attribute.getRoles().size()));
      for (auto [role, rows] : llvm::zip(attribute.getRoles(), attribute.getRows())) {
        segments_.emplace_back(rows, static_cast<uint32_t>(role), 0u);
      }
    }
    return entry->second;
  }

  llvm::Error encodeArguments(mlir::func::FuncOp step) {
    for (unsigned index = 0; index < step.getNumArguments(); ++index) {
      auto text = step.getArgAttrOfType<mlir::StringAttr>(index, kKindAttr);
      std::optional<StepArg> kind = text ? parseStepArg(text.getValue()) : std::nullopt;
      mlir::Type type = step.getArgument(index).getType();
      uint32_t id = 0;
      if (auto table = llvm::dyn_cast<TableType>(type)) {
        id = static_cast<uint32_t>(tables_.size());
        Table record{table.hasStaticRows() ? table.getRows() : -1, {}, {}, {}};
        for (auto [name, column] : llvm::zip(table.getNames(), table.getTypes())) {
          std::optional<TensorType> entry = entryTypeOf(column);
          if (!entry) {
            return makeError(ErrorCode::Unsupported, "column '" + name.str() + "' has an unknown element type");
          }
          record.names.push_back(stringId(name.getValue()));
          record.elements.push_back(static_cast<uint8_t>(entry->element));
          record.entries.push_back(std::move(entry->dims));
        }
        tables_.push_back(std::move(record));
      } else if (std::optional<uint32_t> tensor = typeId(type)) {
        id = *tensor;
      } else {
        kind = std::nullopt;
      }
      if (!kind) {
        return makeError(ErrorCode::Unsupported, "argument " + std::to_string(index) + " is not of core form");
      }
      auto role = step.getArgAttrOfType<mlir::IntegerAttr>(index, kPartyAttr);
      auto parts = step.getArgAttrOfType<PartsAttr>(index, kPartsAttr);
      args_.emplace_back(id, static_cast<uint8_t>(*kind), static_cast<uint8_t>(role ? role.getInt() + 1 : 0),
                         static_cast<uint16_t>(parts ? partsId(parts) + 1 : 0));
      values_[step.getArgument(index)] = static_cast<uint32_t>(values_.size());
    }
    return llvm::Error::success();
  }

  llvm::Error encodeAttribute(mlir::Operation &op, mlir::NamedAttribute attribute) {
    uint32_t name = stringId(attribute.getName().getValue());
    uint32_t begin = static_cast<uint32_t>(ints_.size());
    mlir::Attribute value = attribute.getValue();
    AttrKind kind = AttrKind_integer;
    Element element = Element::i64;
    if (auto boolean = llvm::dyn_cast<mlir::BoolAttr>(value)) {
      kind = AttrKind_boolean;
      element = Element::i1;
      ints_.push_back(boolean.getValue() ? 1 : 0);
    } else if (auto integer = llvm::dyn_cast<mlir::IntegerAttr>(value)) {
      std::optional<Element> own = elementOf(integer.getType());
      if (!own) {
        return wrong(op, "attribute '" + attribute.getName().str() + "' has an unknown integer type");
      }
      element = *own;
      ints_.push_back(integer.getType().isUnsignedInteger() ? static_cast<int64_t>(integer.getValue().getZExtValue())
                                                            : integer.getValue().getSExtValue());
    } else if (auto real = llvm::dyn_cast<mlir::FloatAttr>(value)) {
      std::optional<Element> own = elementOf(real.getType());
      if (!own) {
        return wrong(op, "attribute '" + attribute.getName().str() + "' has an unknown float type");
      }
      kind = AttrKind_real;
      element = *own;
      ints_.push_back(static_cast<int64_t>(bitsOfReal(real.getValue())));
    } else if (auto list = llvm::dyn_cast<mlir::DenseI64ArrayAttr>(value)) {
      kind = AttrKind_integers;
      ints_.insert(ints_.end(), list.asArrayRef().begin(), list.asArrayRef().end());
    } else if (auto reals = llvm::dyn_cast<mlir::DenseF64ArrayAttr>(value)) {
      kind = AttrKind_reals;
      element = Element::f64;
      for (double number : reals.asArrayRef()) {
        ints_.push_back(static_cast<int64_t>(bitsOfReal(llvm::APFloat(number))));
      }
    } else if (auto type = llvm::dyn_cast<mlir::TypeAttr>(value); type && elementOf(type.getValue())) {
      kind = AttrKind_type;
      ints_.push_back(static_cast<int64_t>(*elementOf(type.getValue())));
    } else if (auto text = llvm::dyn_cast<mlir::StringAttr>(value)) {
      kind = AttrKind_string;
      ints_.push_back(stringId(text.getValue()));
    } else if (auto texts = llvm::dyn_cast<mlir::ArrayAttr>(value);
               texts && llvm::all_of(texts, [](mlir::Attribute a) { return llvm::isa<mlir::StringAttr>(a); })) {
      kind = AttrKind_strings;
      for (mlir::Attribute text : texts) {
        ints_.push_back(stringId(llvm::cast<mlir::StringAttr>(text).getValue()));
      }
    } else {
      return wrong(op, "attribute '" + attribute.getName().str() + "' has a kind that the format does not know");
    }
    attrs_.emplace_back(name, begin, static_cast<uint32_t>(ints_.size()) - begin, static_cast<uint8_t>(kind),
                        static_cast<uint8_t>(element), uint16_t{0});
    return llvm::Error::success();
  }

  llvm::Error encodeOp(mlir::Operation &op) {
    if (!op.hasTrait<CoreOp>()) {
      return wrong(op, "'" + op.getName().getStringRef().str() + "' is not an op of core form");
    }
    uint32_t name = stringId(op.getName().stripDialect());
    uint32_t operandBegin = static_cast<uint32_t>(operands_.size());
    for (mlir::Value operand : op.getOperands()) {
      operands_.push_back(values_.lookup(operand));
    }
    uint32_t attrBegin = static_cast<uint32_t>(attrs_.size());
    // The dictionary is sorted by name. Discardable attributes are no part of a program's meaning.
    for (mlir::NamedAttribute attribute : op.getAttrDictionary()) {
      if (op.getDiscardableAttr(attribute.getName())) {
        continue;
      }
      if (llvm::Error error = encodeAttribute(op, attribute)) {
        return error;
      }
    }
    for (mlir::Value result : op.getResults()) {
      std::optional<uint32_t> type = typeId(result.getType());
      if (!type) {
        return wrong(op, "a result is not a tensor of core form");
      }
      resultTypes_.push_back(*type);
      values_[result] = static_cast<uint32_t>(values_.size());
    }
    ops_.emplace_back(name, operandBegin, op.getNumOperands(), op.getNumResults(), attrBegin,
                      static_cast<uint32_t>(attrs_.size()) - attrBegin);
    locations_.push_back(op.getLoc());
    return llvm::Error::success();
  }

  llvm::Error encodeReturn(mlir::func::FuncOp step, mlir::Operation &exit) {
    for (auto [index, value] : llvm::enumerate(exit.getOperands())) {
      unsigned number = static_cast<unsigned>(index);
      auto text = step.getResultAttrOfType<mlir::StringAttr>(number, kResultAttr);
      std::optional<StepResult> kind = text ? parseStepResult(text.getValue()) : std::nullopt;
      if (!kind) {
        return makeError(ErrorCode::Unsupported, "result " + std::to_string(index) + " is not of core form");
      }
      auto target = step.getResultAttrOfType<mlir::IntegerAttr>(number, kTargetAttr);
      results_.emplace_back(values_.lookup(value), target ? static_cast<uint32_t>(target.getInt()) : 0u,
                            static_cast<uint8_t>(*kind),
                            static_cast<uint8_t>(step.getResultAttr(number, kTrainedAttr) != nullptr), uint16_t{0});
    }
    return llvm::Error::success();
  }

  std::string finish(llvm::StringRef promotion) {
    flatbuffers::FlatBufferBuilder builder(1024);
    auto producer = builder.CreateString("sojourn");
    auto rules = builder.CreateString(promotion.data(), promotion.size());
    auto strings = builder.CreateVectorOfStrings(strings_);
    auto types = builder.CreateVectorOfStructs(types_);
    std::vector<flatbuffers::Offset<TableRecord>> tableOffsets;
    for (const Table &table : tables_) {
      tableOffsets.push_back(finishTable(builder, table));
    }
    auto dims = builder.CreateVector(dims_);
    auto tables = builder.CreateVector(tableOffsets);
    auto args = builder.CreateVectorOfStructs(args_);
    auto ops = builder.CreateVectorOfStructs(ops_);
    auto operands = builder.CreateVector(operands_);
    auto resultTypes = builder.CreateVector(resultTypes_);
    auto attrs = builder.CreateVectorOfStructs(attrs_);
    auto ints = builder.CreateVector(ints_);
    auto results = builder.CreateVectorOfStructs(results_);
    auto count = module_->getAttrOfType<mlir::IntegerAttr>(kPartiesAttr);
    auto parts = parts_.empty() ? 0 : builder.CreateVectorOfStructs(parts_);
    auto segments = segments_.empty() ? 0 : builder.CreateVectorOfStructs(segments_);
    auto root = CreateProgram(builder, kFormatVersion, kDialectVersion, count ? kFeatureParties : 0, producer, rules,
                              strings, types, dims, tables, args, ops, operands, resultTypes, attrs, ints, results,
                              static_cast<uint8_t>(count ? count.getInt() : 0), parts, segments);
    FinishProgramBuffer(builder, root);
    return std::string(reinterpret_cast<const char *>(builder.GetBufferPointer()), builder.GetSize());
  }

  struct Table {
    int64_t rows; ///< -1: any number
    std::vector<uint32_t> names;
    std::vector<uint8_t> elements;
    std::vector<llvm::SmallVector<int64_t, 4>> entries; ///< sizes, none for a plain number
  };

  /// Appends the sizes of entries to `dims_`, after those of all types.
  flatbuffers::Offset<TableRecord> finishTable(flatbuffers::FlatBufferBuilder &builder, const Table &table) {
    std::vector<uint32_t> begins;
    std::vector<uint8_t> ranks;
    for (const auto &entry : table.entries) {
      begins.push_back(entry.empty() ? 0 : static_cast<uint32_t>(dims_.size()));
      ranks.push_back(static_cast<uint8_t>(entry.size()));
      dims_.insert(dims_.end(), entry.begin(), entry.end());
    }
    bool shaped = llvm::any_of(ranks, [](uint8_t rank) { return rank != 0; });
    auto names = builder.CreateVector(table.names);
    auto elements = builder.CreateVector(table.elements);
    auto beginsVector = shaped ? builder.CreateVector(begins) : 0;
    auto ranksVector = shaped ? builder.CreateVector(ranks) : 0;
    return CreateTableRecord(builder, table.rows, names, elements, beginsVector, ranksVector);
  }

  mlir::ModuleOp module_;
  llvm::StringMap<uint32_t> stringIds_;
  std::vector<std::string> strings_;
  llvm::DenseMap<mlir::Type, uint32_t> typeIds_;
  std::vector<TypeRecord> types_;
  std::vector<int64_t> dims_;
  std::vector<Table> tables_;
  std::vector<ArgRecord> args_;
  llvm::DenseMap<mlir::Attribute, size_t> partsIds_;
  std::vector<PartsRecord> parts_;
  std::vector<SegmentRecord> segments_;
  std::vector<OpRecord> ops_;
  std::vector<uint32_t> operands_, resultTypes_;
  std::vector<AttrRecord> attrs_;
  std::vector<int64_t> ints_;
  std::vector<ResultRecord> results_;
  llvm::DenseMap<mlir::Value, uint32_t> values_;
  std::vector<mlir::Location> locations_;
};

} // namespace

llvm::Expected<EncodedProgram> encodeProgram(mlir::ModuleOp coreModule) { return Encoder(coreModule).encode(); }

} // namespace sojourn::runtime
