// SPDX-License-Identifier: Apache-2.0
// Bytes to module. Trust is earned in the order that Program.h states; nothing here asserts.
#include "dialect/Base.h"
#include "dialect/CoreForm.h"
#include "dialect/Version.h"
#include "runtime/CutText.h"
#include "runtime/Limits.h"
#include "runtime/Stop.h"
#include "runtime/Types.h"
#include "runtime/Version.h"
#include "runtime/Wire.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "llvm/ADT/ScopeExit.h"

namespace sojourn::runtime {

namespace {

using namespace sojourn_wire;

llvm::Error checkEnvelope(const Program &program) {
  auto range = [](const char *what, uint32_t found, uint32_t oldest, uint32_t newest) {
    return makeError(ErrorCode::Version, std::string("the program uses ") + what + " version " + std::to_string(found) +
                                             ", this side reads " + std::to_string(oldest) +
                                             (oldest == newest ? "" : " to " + std::to_string(newest)) +
                                             "; encode it again with a matching release");
  };
  if (program.format_version() < kOldestFormatVersion || program.format_version() > kFormatVersion) {
    return range("format", program.format_version(), kOldestFormatVersion, kFormatVersion);
  }
  if (program.dialect_version() < kOldestDialectVersion || program.dialect_version() > kDialectVersion) {
    return range("dialect", program.dialect_version(), kOldestDialectVersion, kDialectVersion);
  }
  if ((program.features() & ~kFeatureParties) != 0) {
    return makeError(ErrorCode::Version, "the program needs features that this side does not know");
  }
  return llvm::Error::success();
}

class Decoder {
public:
  Decoder(mlir::MLIRContext &context, const Program &program, std::vector<mlir::Location> locations)
      : context_(context), p_(program), locations_(std::move(locations)), builder_(&context) {}

  llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>> decode() {
    // The first diagnostic of a check is the reason; it must not reach a terminal.
    std::string reason, place;
    // No note with the whole op, which may be long and which nobody reads.
    bool printsOps = context_.shouldPrintOpOnDiagnostic();
    context_.printOpOnDiagnostic(false);
    llvm::scope_exit restore([&] { context_.printOpOnDiagnostic(printsOps); });
    mlir::ScopedDiagnosticHandler handler(&context_, [&](mlir::Diagnostic &diagnostic) {
      if (reason.empty() && diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error) {
        CutStream text(limits::kErrorTextBytes);
        text << diagnostic;
        reason = text.take();
        place = describeLocation(diagnostic.getLocation());
      }
      return mlir::success();
    });
    auto refuse = [&](const std::string &what) {
      return makeError(ErrorCode::Malformed, what + (reason.empty() ? "" : ": " + reason), "", place);
    };

    mlir::Location unknown = builder_.getUnknownLoc();
    mlir::OwningOpRef<mlir::ModuleOp> module = mlir::ModuleOp::create(unknown);
    (*module)->setAttr(kPromotionAttr, builder_.getStringAttr(p_.promotion()->string_view()));
    (*module)->setAttr(kPhaseAttr, builder_.getStringAttr("core"));
    if (p_.parties() != 0) {
      (*module)->setAttr(kPartiesAttr, builder_.getI64IntegerAttr(p_.parties()));
    }
    for (uint32_t i = 0; i < countOf(p_.strings()); ++i) {
      texts_.push_back(builder_.getStringAttr(p_.strings()->Get(i)->string_view()));
    }
    if (!decodeTypes()) {
      return refuse("a table argument has a wrong type");
    }
    if (!decodeParts()) {
      return refuse("an argument has wrong parts");
    }
    mlir::func::FuncOp step = decodeSignature(*module);
    mlir::Block *block = &step.getBody().front();
    values_.append(block->getArguments().begin(), block->getArguments().end());
    builder_.setInsertionPointToEnd(block);
    for (uint32_t i = 0; i < countOf(p_.ops()); ++i) {
      if (isStopped()) {
        return makeError(ErrorCode::Stopped, "the program was not decoded: the step was stopped");
      }
      if (llvm::Error error = decodeOp(i)) {
        return error;
      }
    }
    llvm::SmallVector<mlir::Value> results;
    for (uint32_t i = 0; i < countOf(p_.results()); ++i) {
      results.push_back(values_[p_.results()->Get(i)->value()]);
    }
    mlir::func::ReturnOp::create(builder_, unknown, results);
    step.setType(builder_.getFunctionType(step.getArgumentTypes(), mlir::ValueRange(results).getTypes()));
    setResultAttributes(step);
    if (mlir::failed(mlir::verify(*module))) {
      return refuse("the program does not verify");
    }
    if (mlir::failed(verifyCoreForm(*module))) {
      return refuse("the program is not in core form");
    }
    return module;
  }

private:
  bool decodeTypes() {
    for (uint32_t i = 0; i < countOf(p_.types()); ++i) {
      const TypeRecord &type = *p_.types()->Get(i);
      llvm::SmallVector<int64_t> dims;
      for (uint32_t d = 0; d < type.rank(); ++d) {
        dims.push_back(p_.dims()->Get(type.dims_begin() + d));
      }
      types_.push_back(mlir::RankedTensorType::get(dims, typeOf(&context_, static_cast<Element>(type.element()))));
    }
    for (uint32_t i = 0; i < countOf(p_.tables()); ++i) {
      const TableRecord &table = *p_.tables()->Get(i);
      llvm::SmallVector<mlir::StringAttr> names;
      llvm::SmallVector<mlir::Type> columns;
      for (uint32_t c = 0; c < countOf(table.column_names()); ++c) {
        names.push_back(texts_[table.column_names()->Get(c)]);
        columns.push_back(columnType(table, c));
      }
      auto type = TableType::getChecked([&] { return mlir::emitError(builder_.getUnknownLoc()); }, &context_,
                                        table.rows() < 0 ? mlir::ShapedType::kDynamic : table.rows(),
                                        llvm::ArrayRef<mlir::StringAttr>(names), llvm::ArrayRef<mlir::Type>(columns));
      if (!type) {
        return false;
      }
      tables_.push_back(type);
    }
    return true;
  }

  bool decodeParts() {
    for (uint32_t i = 0; i < countOf(p_.parts()); ++i) {
      const PartsRecord &record = *p_.parts()->Get(i);
      llvm::SmallVector<int64_t> roles, rows;
      for (uint32_t k = 0; k < record.count(); ++k) {
        const SegmentRecord &segment = *p_.segments()->Get(record.begin() + k);
        roles.push_back(segment.role());
        rows.push_back(segment.rows());
      }
      parts_.push_back(PartsAttr::getChecked([&] { return mlir::emitError(builder_.getUnknownLoc()); }, &context_,
                                             llvm::ArrayRef<int64_t>(roles), llvm::ArrayRef<int64_t>(rows),
                                             record.stride()));
      if (!parts_.back()) {
        return false;
      }
    }
    return true;
  }

  /// An element, or the shape of the column's entries.
  mlir::Type columnType(const TableRecord &table, uint32_t column) {
    mlir::Type element = typeOf(&context_, static_cast<Element>(table.column_elements()->Get(column)));
    uint32_t rank = table.column_ranks() == nullptr ? 0 : table.column_ranks()->Get(column);
    if (rank == 0) {
      return element;
    }
    llvm::SmallVector<int64_t> sizes;
    for (uint32_t d = 0; d < rank; ++d) {
      sizes.push_back(p_.dims()->Get(table.column_dims_begin()->Get(column) + d));
    }
    return mlir::RankedTensorType::get(sizes, element);
  }

  mlir::func::FuncOp decodeSignature(mlir::ModuleOp module) {
    llvm::SmallVector<mlir::Type> types;
    for (uint32_t i = 0; i < countOf(p_.args()); ++i) {
      const ArgRecord &arg = *p_.args()->Get(i);
      types.push_back(arg.kind() == ArgKind_table ? tables_[arg.type()] : types_[arg.type()]);
    }
    builder_.setInsertionPointToEnd(module.getBody());
    auto step =
        mlir::func::FuncOp::create(builder_, builder_.getUnknownLoc(), kStepName, builder_.getFunctionType(types, {}));
    step.addEntryBlock();
    // All at once: setting one copies those of every argument.
    llvm::SmallVector<mlir::DictionaryAttr> attributes;
    for (uint32_t i = 0; i < countOf(p_.args()); ++i) {
      const ArgRecord &arg = *p_.args()->Get(i);
      auto kind = builder_.getStringAttr(stringify(static_cast<StepArg>(arg.kind())));
      llvm::SmallVector<mlir::NamedAttribute> named = {builder_.getNamedAttr(kKindAttr, kind)};
      if (arg.party() != 0) {
        named.push_back(builder_.getNamedAttr(kPartyAttr, builder_.getI64IntegerAttr(arg.party() - 1)));
      }
      if (arg.parts() != 0) {
        named.push_back(builder_.getNamedAttr(kPartsAttr, parts_[arg.parts() - 1u]));
      }
      attributes.push_back(builder_.getDictionaryAttr(named));
    }
    step.setAllArgAttrs(attributes);
    return step;
  }

  void setResultAttributes(mlir::func::FuncOp step) {
    llvm::SmallVector<mlir::DictionaryAttr> attributes;
    for (uint32_t i = 0; i < countOf(p_.results()); ++i) {
      const ResultRecord &result = *p_.results()->Get(i);
      auto kind = builder_.getStringAttr(stringify(static_cast<StepResult>(result.kind())));
      llvm::SmallVector<mlir::NamedAttribute> named = {builder_.getNamedAttr(kResultAttr, kind)};
      if (result.kind() == ResultKind_commit) {
        named.push_back(builder_.getNamedAttr(kTargetAttr, builder_.getI64IntegerAttr(result.target())));
      }
      if (result.flags() != 0) {
        named.push_back(builder_.getNamedAttr(kTrainedAttr, builder_.getUnitAttr()));
      }
      attributes.push_back(builder_.getDictionaryAttr(named));
    }
    step.setAllResultAttrs(attributes);
  }

  /// null where the number has no exact value of that type.
  mlir::Attribute realAttr(Element element, int64_t bits) {
    auto type = llvm::cast<mlir::FloatType>(typeOf(&context_, element));
    llvm::APFloat value(llvm::APFloat::IEEEdouble(), llvm::APInt(64, static_cast<uint64_t>(bits)));
    bool lossy = false;
    value.convert(type.getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven, &lossy);
    if (bitsOfReal(value) != static_cast<uint64_t>(bits)) {
      return {};
    }
    return mlir::FloatAttr::get(type, value);
  }

  mlir::Attribute decodeAttribute(const AttrRecord &attr) {
    auto integer = [&](uint32_t k) { return p_.ints()->Get(attr.begin() + k); };
    auto text = [&](uint32_t k) { return texts_[static_cast<size_t>(integer(k))]; };
    Element element = static_cast<Element>(attr.element());
    switch (static_cast<AttrKind>(attr.kind())) {
    case AttrKind_integer: {
      auto type = llvm::cast<mlir::IntegerType>(typeOf(&context_, element));
      return mlir::IntegerAttr::get(type, llvm::APInt(64, static_cast<uint64_t>(integer(0))).trunc(type.getWidth()));
    }
    case AttrKind_boolean: return builder_.getBoolAttr(integer(0) != 0);
    case AttrKind_real: return realAttr(element, integer(0));
    case AttrKind_integers: {
      llvm::SmallVector<int64_t> list;
      for (uint32_t k = 0; k < attr.count(); ++k) {
        list.push_back(integer(k));
      }
      return builder_.getDenseI64ArrayAttr(list);
    }
    case AttrKind_reals: {
      llvm::SmallVector<double> list;
      for (uint32_t k = 0; k < attr.count(); ++k) {
        list.push_back(llvm::bit_cast<double>(integer(k)));
      }
      return builder_.getDenseF64ArrayAttr(list);
    }
    case AttrKind_type: return mlir::TypeAttr::get(typeOf(&context_, static_cast<Element>(integer(0))));
    case AttrKind_string: return text(0);
    case AttrKind_strings: {
      llvm::SmallVector<mlir::Attribute> list;
      for (uint32_t k = 0; k < attr.count(); ++k) {
        list.push_back(text(k));
      }
      return builder_.getArrayAttr(list);
    }
    }
    return {};
  }

  llvm::Error decodeOp(uint32_t index) {
    const OpRecord &record = *p_.ops()->Get(index);
    std::string shortName = texts_[record.name()].str();
    mlir::Location location = locations_[index];
    auto refuse = [&](ErrorCode code, const std::string &what) {
      return makeError(code, what, shortName, describeLocation(location));
    };
    auto name = mlir::RegisteredOperationName::lookup("sojourn." + shortName, &context_);
    if (!name || !name->hasTrait<CoreOp>()) {
      return refuse(ErrorCode::Unsupported, "'" + shortName + "' is not an op of core form in dialect version " +
                                                std::to_string(kDialectVersion));
    }
    mlir::OperationState state(location, *name);
    for (uint32_t k = 0; k < record.operand_count(); ++k) {
      state.operands.push_back(values_[p_.operands()->Get(record.operand_begin() + k)]);
    }
    for (uint32_t k = 0; k < record.result_count(); ++k) {
      state.types.push_back(types_[p_.result_types()->Get(resultCursor_++)]);
    }
    llvm::SmallVector<mlir::NamedAttribute> attributes;
    for (uint32_t k = 0; k < record.attr_count(); ++k) {
      const AttrRecord &attr = *p_.attrs()->Get(record.attr_begin() + k);
      mlir::StringAttr attrName = texts_[attr.name()];
      if (!llvm::is_contained(name->getAttributeNames(), attrName)) {
        return refuse(ErrorCode::Unsupported, "'" + shortName + "' has an unknown attribute '" + attrName.str() + "'");
      }
      mlir::Attribute value = decodeAttribute(attr);
      if (!value) {
        return refuse(ErrorCode::Malformed,
                      "attribute '" + attrName.str() + "' has a number that its type cannot hold");
      }
      attributes.emplace_back(attrName, value);
    }
    // Sets properties attribute by attribute: one of a wrong kind stays unset, and the verifier asks
    // for it.
    mlir::Operation *op =
        mlir::Operation::create(location, *name, state.types, state.operands, mlir::NamedAttrList(attributes),
                                mlir::OpaqueProperties(nullptr), mlir::BlockRange(), /*numRegions=*/0);
    builder_.insert(op);
    values_.append(op->result_begin(), op->result_end());
    return llvm::Error::success();
  }

  mlir::MLIRContext &context_;
  const Program &p_;
  std::vector<mlir::Location> locations_;
  mlir::OpBuilder builder_;
  std::vector<mlir::StringAttr> texts_; ///< per string of the program, so that none is read twice
  std::vector<mlir::Type> types_, tables_;
  std::vector<PartsAttr> parts_;
  llvm::SmallVector<mlir::Value> values_;
  uint32_t resultCursor_ = 0;
};

} // namespace

llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>> decodeProgram(mlir::MLIRContext &context, llvm::StringRef program,
                                                                llvm::StringRef debug) {
  if (program.size() > limits::kProgramBytes) {
    return makeError(ErrorCode::Limit, "the program has " + std::to_string(program.size()) + " bytes, the limit is " +
                                           std::to_string(limits::kProgramBytes));
  }
  if (program.size() < 16) {
    return makeError(ErrorCode::Malformed,
                     "the program has " + std::to_string(program.size()) + " bytes, too few for a program");
  }
  AlignedBytes bytes(program);
  if (!ProgramBufferHasIdentifier(bytes.data())) {
    return makeError(ErrorCode::Malformed, "the bytes are not a program: identifier SJP1 is missing");
  }
  flatbuffers::Verifier verifier(bytes.data(), program.size(), limits::kFlatBufferDepth, limits::kFlatBufferTables);
  if (!VerifyProgramBuffer(verifier)) {
    return makeError(ErrorCode::Malformed, "the bytes are not a FlatBuffers table of this schema");
  }
  const Program &table = *GetProgram(bytes.data());
  if (llvm::Error error = checkEnvelope(table)) {
    return error;
  }
  if (llvm::Error error = checkProgram(table)) {
    return error;
  }
  loadDialects(context);
  llvm::Expected<std::vector<mlir::Location>> locations = decodeDebug(context, debug, countOf(table.ops()));
  if (!locations) {
    return locations.takeError();
  }
  return Decoder(context, table, std::move(*locations)).decode();
}

} // namespace sojourn::runtime
