// SPDX-License-Identifier: Apache-2.0
// Builds captured form from the word streams of a trace.
#include "frontend/compile/Import.h"

#include "dialect/CapturedOps.h"
#include "dialect/CoreForm.h"
#include "dialect/ElementTypes.h"
#include "dialect/ElementwiseOps.h"
#include "dialect/RowOps.h"
#include "dialect/SourceOps.h"
#include "frontend/compile/ParsedTrace.h"
#include "frontend/recording/Origin.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"

#include <bit>
#include <map>

namespace sojourn::frontend {

using namespace mlir;
using namespace parsed;

namespace {

/// File name of locations that stand for positions of op records.
constexpr StringLiteral kRecordFile = "<record>";

class Importer {
public:
  Importer(MLIRContext &context, const Trace &trace, const std::vector<OpLines> *lines)
      : context_(context), builder_(&context), trace_(trace), lines_(lines) {}

  OwningOpRef<ModuleOp> run() {
    const ParsedTrace parsed = parse(trace_);
    Location unknown = builder_.getUnknownLoc();
    OwningOpRef<ModuleOp> module = ModuleOp::create(unknown);
    types_ = parsed.nodes.empty() ? TypeContext() : parsed.nodes.front().types;
    (*module)->setAttr(kPromotionAttr, builder_.getStringAttr(nameOf(types_.rules)));
    (*module)->setAttr("sojourn.phase", builder_.getStringAttr("captured"));
    if (trace_.parties > 0) {
      (*module)->setAttr(kPartiesAttr, builder_.getI64IntegerAttr(trace_.parties));
    }
    (*module)->setAttr(kDefaultFloatAttr, TypeAttr::get(typeOf(&context_, types_.defaultFloat)));
    builder_.setInsertionPointToEnd(module->getBody());
    auto function = func::FuncOp::create(builder_, unknown, "step", builder_.getFunctionType({}, {}));
    Block *block = function.addEntryBlock();
    builder_.setInsertionPointToStart(block);

    SmallVector<DictionaryAttr> argumentAttrs;
    auto attributesOf = [&](StringRef name, StringRef kind, bool trains = false,
                            std::optional<NamedAttribute> place = {}) {
      SmallVector<NamedAttribute> named = {builder_.getNamedAttr(name, builder_.getStringAttr(kind))};
      if (place) {
        named.push_back(*place);
      }
      if (trains) {
        named.push_back(builder_.getNamedAttr("sojourn.trained", builder_.getUnitAttr()));
      }
      return builder_.getDictionaryAttr(named);
    };
    llvm::DenseSet<Word> trained(parsed.trained.begin(), parsed.trained.end());
    auto isTrained = [&](Word storage) { return trained.contains(storage); };
    auto addArgument = [&](Type type, StringRef kind, bool trains = false, std::optional<NamedAttribute> place = {}) {
      argumentAttrs.push_back(attributesOf("sojourn.kind", kind, trains, place));
      return block->addArgument(type, unknown);
    };
    roots_.resize(trace_.storageCount);
    for (InputKind kind : {InputKind::State, InputKind::Upload}) {
      for (const Input &input : parsed.inputs) {
        if (input.kind == kind) {
          bool isState = kind == InputKind::State;
          roots_[input.storage] = addArgument(refType(input.layout), isState ? "state" : "upload",
                                              isState && isTrained(input.storage), placeOf(input.place));
        }
      }
    }
    for (const Node &node : parsed.nodes) {
      for (const Argument &argument : node.arguments) {
        eachSlot(argument, [&](Tag tag) {
          if (tag != Tag::Seed) {
            Type type = tag == Tag::Slot ? Type(builder_.getF64Type()) : Type(builder_.getI64Type());
            slots_.push_back(addArgument(ScalarType::get(type), "slot"));
          }
        });
      }
    }
    for (size_t i = 0; i < trace_.runNumbers; ++i) {
      runNumbers_.push_back(addArgument(ScalarType::get(builder_.getI64Type()), "slot"));
    }
    for (const Node &node : parsed.nodes) {
      for (const Argument &argument : node.arguments) {
        eachSlot(argument, [&](Tag tag) {
          if (tag == Tag::Seed) {
            seeds_.push_back(addArgument(RankedTensorType::get({}, builder_.getI64Type()), "seed"));
          }
        });
      }
    }
    for (const Table &table : parsed.tables) {
      SmallVector<StringAttr> names;
      SmallVector<Type> types;
      for (const Table::Column &column : table.columns) {
        names.push_back(builder_.getStringAttr(StringTable::get().at(column.name)));
        Type element = typeOf(&context_, column.element);
        types.push_back(column.sizes.empty() ? element : RankedTensorType::get(column.sizes, element));
      }
      int64_t rows = table.rows < 0 ? ShapedType::kDynamic : table.rows;
      std::optional<NamedAttribute> role;
      if (table.role >= 0) {
        role = builder_.getNamedAttr(kPartyAttr, builder_.getI64IntegerAttr(table.role));
      }
      tables_.push_back(addArgument(TableType::get(&context_, rows, names, types), "table", /*trains=*/false, role));
    }

    size_t index = 0;
    for (const Node &node : parsed.nodes) {
      importNode(node, locate(index++));
    }

    SmallVector<Value> returned;
    SmallVector<DictionaryAttr> resultAttrs;
    auto addResult = [&](Word storage, StringRef kind) {
      returned.push_back(roots_[storage]);
      resultAttrs.push_back(attributesOf("sojourn.result", kind, kind == "keep" && isTrained(storage)));
    };
    for (Word storage : parsed.keep) {
      addResult(storage, "keep");
    }
    for (Word storage : parsed.publish) {
      addResult(storage, "publish");
    }
    func::ReturnOp::create(builder_, unknown, returned);
    function.setType(builder_.getFunctionType(block->getArgumentTypes(), ValueRange(returned).getTypes()));
    function.setAllArgAttrs(argumentAttrs);
    function.setAllResultAttrs(resultAttrs);
    return module;
  }

private:
  template <class Visit>
  static void eachSlot(const Argument &argument, Visit visit) {
    if (argument.tag == Tag::Slot || argument.tag == Tag::IntSlot || argument.tag == Tag::Seed) {
      visit(argument.tag);
    }
    for (const Argument &child : argument.children) {
      eachSlot(child, visit);
    }
  }

  /// The attribute of a state that not all members of a group have.
  std::optional<NamedAttribute> placeOf(Word id) {
    const wire::Place place = PlaceTable::get().at(id);
    switch (place.kind) {
    case wire::Place::Kind::All: break;
    case wire::Place::Kind::At: return builder_.getNamedAttr(kPartyAttr, builder_.getI64IntegerAttr(place.role));
    case wire::Place::Kind::Parts: {
      SmallVector<int64_t> roles, rows;
      for (const wire::Place::Segment &segment : place.segments) {
        roles.push_back(segment.role);
        rows.push_back(segment.rows);
      }
      return builder_.getNamedAttr(kPartsAttr, PartsAttr::get(&context_, roles, rows, place.stride));
    }
    }
    return std::nullopt;
  }

  RefType refType(const Layout &layout) {
    return RefType::get(layout.sizes, typeOf(&context_, layout.element), layout.strides, 0);
  }

  Location locate(size_t record) {
    if (!lines_) {
      return FileLineColLoc::get(&context_, kRecordFile, static_cast<unsigned>(record), 0);
    }
    auto position = [&](const SourceLine &line) -> LocationAttr {
      return line.file.empty() ? LocationAttr() : FileLineColLoc::get(&context_, line.file, line.line, 0);
    };
    const OpLines &lines = (*lines_)[record];
    LocationAttr here = position(lines.here), forward = position(lines.forward);
    if (here && forward) {
      return CallSiteLoc::get(Location(forward), Location(here));
    }
    return here ? Location(here) : builder_.getUnknownLoc();
  }

  Value operandOf(const Argument &argument, Location location) {
    Value root = roots_[argument.value];
    if (argument.tag == Tag::Whole) {
      return root;
    }
    std::vector<Word> key = argument.values;
    key.insert(key.end(), argument.seen.begin(), argument.seen.end());
    key.insert(key.end(), argument.moves.begin(), argument.moves.end());
    if (argument.element) {
      key.push_back(static_cast<Word>(*argument.element));
    }
    Value &view = views_[{argument.value, key}];
    if (!view) {
      Word rank = argument.values[0];
      ArrayRef<Word> words = ArrayRef(argument.values).drop_front();
      Type element =
          argument.element ? typeOf(&context_, *argument.element) : cast<RefType>(root.getType()).getElementType();
      auto type = RefType::get(words.take_front(rank), element, words.slice(rank, rank), words.back());
      if (argument.tag != Tag::MovedView) {
        view = ViewOp::create(builder_, location, type, root);
      } else {
        SmallVector<Value> places;
        SmallVector<int64_t> dims;
        for (size_t i = 0; i < argument.moves.size(); i += 2) {
          dims.push_back(argument.moves[i]);
          places.push_back(runNumbers_[argument.moves[i + 1]]);
        }
        view = MovedViewOp::create(builder_, location, type, root, places, argument.seen, dims);
      }
    }
    return view;
  }

  Attribute attributeOf(const Argument &argument, bool mutated, Location location, SmallVectorImpl<Value> &operands,
                        SmallVectorImpl<int64_t> &mutates) {
    auto refer = [&](Value value) -> Attribute {
      operands.push_back(value);
      return OperandAttr::get(&context_, static_cast<int64_t>(operands.size()) - 1);
    };
    auto integers = [&](auto make) {
      SmallVector<Attribute> elements;
      for (Word value : argument.values) {
        elements.push_back(make(value));
      }
      return builder_.getArrayAttr(elements);
    };
    switch (argument.tag) {
    case Tag::None: return builder_.getUnitAttr();
    case Tag::Complex: {
      auto type = RankedTensorType::get({}, ComplexType::get(builder_.getF64Type()));
      return DenseElementsAttr::get(type, std::complex<double>(std::bit_cast<double>(argument.values[0]),
                                                               std::bit_cast<double>(argument.values[1])));
    }
    case Tag::Whole:
    case Tag::View:
    case Tag::TypedView:
    case Tag::MovedView: {
      Attribute reference = refer(operandOf(argument, location));
      if (mutated) {
        mutates.push_back(static_cast<int64_t>(operands.size()) - 1);
      }
      return reference;
    }
    case Tag::Int:
    case Tag::Number: return builder_.getI64IntegerAttr(argument.value);
    case Tag::RunNumber: return refer(runNumbers_[argument.value]);
    case Tag::Bool: return builder_.getBoolAttr(argument.value != 0);
    case Tag::Real: return builder_.getF64FloatAttr(std::bit_cast<double>(argument.value));
    case Tag::Dtype: return TypeAttr::get(typeOf(&context_, static_cast<Element>(argument.value)));
    case Tag::String: return builder_.getStringAttr(StringTable::get().at(argument.value));
    case Tag::Slot:
    case Tag::IntSlot: return refer(slots_[nextSlot_++]);
    case Tag::Seed: return refer(seeds_[nextSeed_++]);
    case Tag::IntList: return integers([&](Word value) { return builder_.getI64IntegerAttr(value); });
    case Tag::BoolList: return integers([&](Word value) { return builder_.getBoolAttr(value != 0); });
    case Tag::StringList:
      return integers([&](Word value) { return builder_.getStringAttr(StringTable::get().at(value)); });
    case Tag::List: {
      SmallVector<Attribute> elements;
      for (const Argument &child : argument.children) {
        elements.push_back(attributeOf(child, mutated, location, operands, mutates));
      }
      return builder_.getArrayAttr(elements);
    }
    case Tag::TableRef: return refer(tables_[argument.value]);
    }
    llvm_unreachable("every tag of a recorded argument is read");
  }

  void importNode(const Node &node, Location location) {
    const OpEntry &entry = OpTable::get().at(node.entry);
    SmallVector<Value> operands;
    SmallVector<int64_t> mutates;
    SmallVector<Attribute> args, names;
    for (auto [i, argument] : llvm::enumerate(node.arguments)) {
      args.push_back(attributeOf(argument, entry.mutated[i], location, operands, mutates));
      names.push_back(builder_.getStringAttr(entry.argumentNames[i]));
    }
    if (entry.name == "sojourn.sample_rows") {
      SmallVector<Side> part;
      for (auto [fraction, side] : llvm::zip_equal(cast<ArrayAttr>(args[4]), cast<ArrayAttr>(args[5]))) {
        part.push_back({cast<FloatAttr>(fraction).getValueAsDouble(), cast<IntegerAttr>(side).getInt() != 0});
      }
      int64_t expected = cast<IntegerAttr>(args[7]).getInt();
      Value positions = load(operands[0], location);
      return bindResult(SampleRowsOp::create(builder_, location, positions.getType(), positions, operands[1],
                                             operands[2], operands[3], part, cast<BoolAttr>(args[6]).getValue(),
                                             expected > 0 ? std::optional(expected) : std::nullopt),
                        node, location);
    }
    if (entry.name == "sojourn.read_rows") {
      Type type = RankedTensorType::get(node.results[0]->sizes, typeOf(&context_, node.results[0]->element));
      return bindResult(ReadRowsOp::create(builder_, location, type, operands[0], load(operands[1], location),
                                           cast<ArrayAttr>(args[2])),
                        node, location);
    }
    SmallVector<Type> types;
    for (const auto &result : node.results) {
      types.push_back(result ? Type(refType(*result)) : Type(builder_.getNoneType()));
    }
    auto op = AtenOp::create(builder_, location, types, entry.name, operands, builder_.getArrayAttr(args),
                             builder_.getArrayAttr(names), mutates);
    if (node.types.rules != types_.rules) {
      op->setAttr(kPromotionAttr, builder_.getStringAttr(nameOf(node.types.rules)));
    }
    if (node.types.defaultFloat != types_.defaultFloat) {
      op->setAttr(kDefaultFloatAttr, TypeAttr::get(typeOf(&context_, node.types.defaultFloat)));
    }
    for (auto [i, result] : llvm::enumerate(node.results)) {
      if (result) {
        roots_[nextStorage()] = op->getResult(i);
      }
    }
  }

  Value load(Value ref, Location location) {
    return LoadOp::create(builder_, location, cast<RefType>(ref.getType()).getTensorType(), ref);
  }

  void bindResult(Value value, const Node &node, Location location) {
    roots_[nextStorage()] = AllocOp::create(builder_, location, refType(*node.results[0]), value);
  }

  /// Results take the ids that no input has, in order.
  int64_t nextStorage() {
    while (roots_[nextStorage_]) {
      ++nextStorage_;
    }
    return nextStorage_++;
  }

  MLIRContext &context_;
  OpBuilder builder_;
  const Trace &trace_;
  const std::vector<OpLines> *lines_;
  std::vector<Value> roots_; ///< by storage id
  std::map<std::pair<Word, std::vector<Word>>, Value> views_;
  std::vector<Value> slots_, runNumbers_, seeds_, tables_;
  size_t nextSlot_ = 0, nextSeed_ = 0;
  int64_t nextStorage_ = 0;
  TypeContext types_; ///< of the first op
};

} // namespace

std::vector<OpLines> resolveLines(const Trace &trace) {
  std::vector<OpLines> lines;
  for (const Origin &origin : trace.origins) {
    lines.push_back({resolveFrame(origin.frame), resolveFrame(origin.forward)});
  }
  return lines;
}

OwningOpRef<ModuleOp> importTrace(MLIRContext &context, const Trace &trace, const std::vector<OpLines> *lines) {
  return Importer(context, trace, lines).run();
}

std::optional<size_t> recordAt(Location location) {
  auto line = dyn_cast<FileLineColLoc>(location);
  if (!line || line.getFilename() != kRecordFile) {
    return std::nullopt;
  }
  return line.getLine();
}

} // namespace sojourn::frontend
