// SPDX-License-Identifier: Apache-2.0
// Facts to bytes and back. The bytes may come from a process that a program has taken over, and parts of them may be
// named many times: each rule is checked, and each use counts.
#include "dialect/Bounds.h"
#include "runtime/Error.h"
#include "runtime/Limits.h"
#include "runtime/facts/Facts_generated.h"
#include "runtime/facts/ProgramFacts.h"
#include "runtime/facts/ReadBytes.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>

namespace sojourn::runtime {

namespace wire = sojourn_wire;
using flatbuffers::FlatBufferBuilder;
using llvm::Twine;

static flatbuffers::Offset<wire::JointFacts> writeJoint(FlatBufferBuilder &builder, const JointFacts &joint) {
  std::vector<flatbuffers::Offset<wire::ExchangeFacts>> exchanges;
  for (const Exchange &exchange : joint.exchanges) {
    std::vector<wire::TermFacts> terms;
    for (const ExchangeTerm &term : exchange) {
      terms.emplace_back(term.elements, term.from, static_cast<uint8_t>(term.element), term.isMasked);
    }
    exchanges.push_back(wire::CreateExchangeFacts(builder, builder.CreateVectorOfStructs(terms)));
  }
  std::vector<uint8_t> shownLevels;
  for (Shown shown : joint.shown) {
    shownLevels.push_back(static_cast<uint8_t>(shown));
  }
  auto counts = builder.CreateVector(joint.counts.data(), joint.counts.size());
  auto positions = builder.CreateVector(joint.positions), kept = builder.CreateVector(joint.kept);
  auto shown = builder.CreateVector(shownLevels);
  auto exchangeList = builder.CreateVector(exchanges);
  auto copies = builder.CreateVector(joint.copies), copiedStates = builder.CreateVector(joint.copiedStates);
  auto op = builder.CreateString(joint.clearOp), location = builder.CreateString(joint.clearLocation);
  return wire::CreateJointFacts(builder, joint.role, joint.parties, counts, joint.keeps, positions, kept, shown,
                                exchangeList, joint.leastRows.value_or(UINT64_MAX), op, location, copies, copiedStates);
}

std::string writeFacts(const ProgramFacts &facts) {
  FlatBufferBuilder builder;
  auto dims = [&](llvm::ArrayRef<int64_t> sizes) { return builder.CreateVector(sizes.data(), sizes.size()); };
  auto text = [&](const std::string &from) { return builder.CreateString(from); };
  std::vector<flatbuffers::Offset<wire::ArgumentFacts>> arguments;
  for (const ArgSpec &arg : facts.args) {
    std::vector<flatbuffers::Offset<wire::ColumnFacts>> columns;
    for (const TableColumn &column : arg.columns) {
      auto name = text(column.name);
      columns.push_back(
          wire::CreateColumnFacts(builder, name, static_cast<uint8_t>(column.element), dims(column.dims)));
    }
    std::vector<flatbuffers::Offset<wire::PartFacts>> parts;
    for (const std::vector<Side> &part : arg.parts) {
      std::vector<double> fractions;
      std::vector<uint8_t> others;
      for (const Side &side : part) {
        fractions.push_back(side.fraction);
        others.push_back(side.isOther);
      }
      auto first = builder.CreateVector(fractions);
      parts.push_back(wire::CreatePartFacts(builder, first, builder.CreateVector(others)));
    }
    auto sizes = dims(arg.type.dims);
    auto columnList = builder.CreateVector(columns);
    arguments.push_back(wire::CreateArgumentFacts(builder, static_cast<uint8_t>(arg.kind),
                                                  static_cast<uint8_t>(arg.type.element), sizes, arg.rows.value_or(-1),
                                                  columnList, builder.CreateVector(parts)));
  }
  std::vector<flatbuffers::Offset<wire::ResultFacts>> results;
  for (const ResultSpec &result : facts.results) {
    auto sizes = dims(result.type.dims);
    auto op = text(result.op);
    results.push_back(wire::CreateResultFacts(builder, static_cast<uint8_t>(result.kind),
                                              static_cast<uint8_t>(result.type.element), sizes, result.target, op,
                                              text(result.location)));
  }
  const DependenceSummary::Graph &graph = facts.dependence.graph();
  auto argumentList = builder.CreateVector(arguments);
  auto resultList = builder.CreateVector(results);
  auto sources = builder.CreateVector(graph.sources), ends = builder.CreateVector(graph.ends),
       returned = builder.CreateVector(graph.returned);
  flatbuffers::Offset<wire::JointFacts> joint = 0;
  if (facts.joint) {
    joint = writeJoint(builder, *facts.joint);
  }
  builder.Finish(wire::CreateFacts(builder, argumentList, resultList, sources, ends, returned, facts.samplesRows,
                                   facts.ops, facts.operations, facts.memory.arena, facts.memory.scratch,
                                   facts.memory.library, joint),
                 wire::FactsIdentifier());
  return {reinterpret_cast<const char *>(builder.GetBufferPointer()), builder.GetSize()};
}

namespace {

/// Of a tensor, or of a column's entry.
struct TypeLimits {
  size_t rank;
  int64_t sizeLeast, elements, bytes;
};
constexpr TypeLimits kTensor{limits::kRank, 0, limits::kValueElements, limits::kValueBytes};
constexpr TypeLimits kEntry{limits::kEntryRank, 1, limits::kEntryElements, limits::kValueBytes};

class Reader {
public:
  explicit Reader(const wire::Facts &from) : from(from) {}
  llvm::Expected<ProgramFacts> read();

private:
  llvm::Error wrong(const Twine &text) {
    return makeError(ErrorCode::Malformed, ("the facts of a program are malformed: " + text).str());
  }
  llvm::Error readType(const Twine &what, unsigned element, const flatbuffers::Vector<int64_t> *dims,
                       const TypeLimits &most, TensorType &into);
  llvm::Error readArgument(size_t index, const wire::ArgumentFacts *argument, ArgSpec &into);
  llvm::Error readColumn(const Twine &what, const wire::ColumnFacts *column, TableColumn &into);
  llvm::Error readPart(const Twine &what, const wire::PartFacts *part, std::vector<Side> &into);
  llvm::Error readResult(size_t index, const wire::ResultFacts *result, ResultSpec &into);
  llvm::Error readDependence();
  llvm::Error readJoint(const wire::JointFacts &joint);

  const wire::Facts &from;
  Texts texts;
  ProgramFacts facts;
  /// Limits of the decoder: tables, their columns, their parts with the splits of these.
  size_t tablesLeft = limits::kTables, columnsLeft = limits::kColumns, splitsLeft = limits::kIntegers;
  size_t termsLeft = limits::kIntegers; ///< of exchanges
};

llvm::Error Reader::readType(const Twine &what, unsigned element, const flatbuffers::Vector<int64_t> *dims,
                             const TypeLimits &most, TensorType &into) {
  if (element >= kElementCount || sizeOf(dims) > most.rank) {
    return wrong(what + " has element " + Twine(element) + " and rank " + Twine(sizeOf(dims)));
  }
  into.element = static_cast<Element>(element);
  int64_t count = 1;
  for (size_t dim = 0; dim < sizeOf(dims); ++dim) {
    const int64_t size = dims->Get(static_cast<flatbuffers::uoffset_t>(dim));
    if (size < most.sizeLeast || size > limits::kDimension ||
        llvm::MulOverflow(count, std::max<int64_t>(size, 1), count)) {
      return wrong(what + " has size " + Twine(size) + " in dim " + Twine(dim));
    }
    into.dims.push_back(size);
  }
  if (count > most.elements || count > most.bytes / static_cast<int64_t>(byteWidth(into.element))) {
    return wrong(what + " has " + Twine(count) + " elements");
  }
  return llvm::Error::success();
}

llvm::Error Reader::readColumn(const Twine &what, const wire::ColumnFacts *column, TableColumn &into) {
  if (!texts.take(column->name(), limits::kStringBytes, into.name)) {
    return wrong(what + " has a name of " + Twine(sizeOf(column->name())) + " bytes");
  }
  TensorType entry;
  if (llvm::Error error = readType(what, column->element(), column->dims(), kEntry, entry)) {
    return error;
  }
  into.element = entry.element;
  into.dims = std::move(entry.dims);
  return llvm::Error::success();
}

llvm::Error Reader::readPart(const Twine &what, const wire::PartFacts *part, std::vector<Side> &into) {
  const size_t splits = sizeOf(part->fractions());
  if (splits != sizeOf(part->others()) || splits > kSplitsMost || splits >= splitsLeft) {
    return wrong(what + " is of " + Twine(splits) + " splits and " + Twine(sizeOf(part->others())) + " sides");
  }
  splitsLeft -= 1 + splits;
  for (flatbuffers::uoffset_t split = 0; split < splits; ++split) {
    const double fraction = part->fractions()->Get(split);
    if (!(fraction > 0 && fraction < 1) || part->others()->Get(split) > 1) {
      return wrong(what + " has an invalid fraction or side");
    }
    into.push_back({fraction, part->others()->Get(split) == 1});
  }
  return llvm::Error::success();
}

llvm::Error Reader::readArgument(size_t index, const wire::ArgumentFacts *argument, ArgSpec &into) {
  const std::string what = "argument " + std::to_string(index);
  if (argument->kind() >= kStepArgs.size()) {
    return wrong(what + " has kind " + Twine(unsigned(argument->kind())));
  }
  into.kind = static_cast<StepArg>(argument->kind());
  if (llvm::Error error = readType(what, argument->element(), argument->dims(), kTensor, into.type)) {
    return error;
  }
  const bool isTable = into.kind == StepArg::Table;
  if (argument->rows() < -1 || argument->rows() > limits::kTableRows ||
      (!isTable && (argument->rows() != -1 || sizeOf(argument->columns()) || sizeOf(argument->parts())))) {
    return wrong(what + " has " + Twine(argument->rows()) + " rows, or columns and parts without a table");
  }
  if (sizeOf(argument->columns()) > columnsLeft || (isTable && tablesLeft == 0)) {
    return wrong("more than " + Twine(limits::kTables) + " tables, or " + Twine(limits::kColumns) + " columns, up to " +
                 what);
  }
  tablesLeft -= isTable;
  columnsLeft -= sizeOf(argument->columns());
  if (argument->rows() >= 0) {
    into.rows = argument->rows();
  }
  for (flatbuffers::uoffset_t column = 0; column < sizeOf(argument->columns()); ++column) {
    if (llvm::Error error = readColumn(what + ", column " + Twine(column), argument->columns()->Get(column),
                                       into.columns.emplace_back())) {
      return error;
    }
  }
  for (flatbuffers::uoffset_t part = 0; part < sizeOf(argument->parts()); ++part) {
    if (llvm::Error error =
            readPart(what + ", part " + Twine(part), argument->parts()->Get(part), into.parts.emplace_back())) {
      return error;
    }
  }
  return llvm::Error::success();
}

llvm::Error Reader::readResult(size_t index, const wire::ResultFacts *result, ResultSpec &into) {
  const std::string what = "result " + std::to_string(index);
  if (result->kind() >= kStepResults.size() || !texts.take(result->op(), limits::kOpNameBytes, into.op) ||
      !texts.take(result->location(), limits::kLocationTextBytes, into.location)) {
    return wrong(what + " has kind " + Twine(unsigned(result->kind())) + ", an op of " + Twine(sizeOf(result->op())) +
                 " bytes and a location of " + Twine(sizeOf(result->location())));
  }
  into.kind = static_cast<StepResult>(result->kind());
  into.target = result->target();
  return readType(what, result->element(), result->dims(), kTensor, into.type);
}

llvm::Error Reader::readDependence() {
  // Each op adds at most one node, and each of its operands a source.
  if (sizeOf(from.ends()) > limits::kOps || sizeOf(from.sources()) > limits::kIntegers) {
    return wrong("its dependences have " + Twine(sizeOf(from.ends())) + " nodes and " + Twine(sizeOf(from.sources())) +
                 " sources");
  }
  DependenceSummary::Graph graph{facts.args.size(), listOf(from.sources()), listOf(from.ends()),
                                 listOf(from.returned())};
  if (graph.returned.size() != facts.results.size() || !graph.isValid()) {
    return wrong("its dependences are no graph over " + Twine(facts.args.size()) + " arguments and " +
                 Twine(facts.results.size()) + " results");
  }
  facts.dependence = DependenceSummary(std::move(graph));
  return llvm::Error::success();
}

llvm::Error Reader::readJoint(const wire::JointFacts &joint) {
  JointFacts into;
  if (sizeOf(joint.counts()) != into.counts.size() || sizeOf(joint.positions()) != facts.args.size() ||
      sizeOf(joint.shown()) != facts.args.size() || sizeOf(joint.kept()) > facts.results.size() ||
      sizeOf(joint.copies()) > facts.results.size() || sizeOf(joint.copied_states()) > facts.args.size()) {
    return wrong("its joint step has " + Twine(sizeOf(joint.counts())) + " kinds, " + Twine(sizeOf(joint.positions())) +
                 " positions, " + Twine(sizeOf(joint.kept())) + " kept results and " + Twine(sizeOf(joint.copies())) +
                 " copies of " + Twine(sizeOf(joint.copied_states())) + " states");
  }
  into.role = joint.role();
  into.parties = joint.parties();
  std::copy(joint.counts()->begin(), joint.counts()->end(), into.counts.begin());
  into.keeps = joint.keeps();
  into.positions = listOf(joint.positions());
  into.kept = listOf(joint.kept());
  into.copies = listOf(joint.copies());
  into.copiedStates = listOf(joint.copied_states());
  for (flatbuffers::uoffset_t at = 0; at < sizeOf(joint.shown()); ++at) {
    into.shown.push_back(static_cast<Shown>(joint.shown()->Get(at)));
  }
  for (flatbuffers::uoffset_t at = 0; at < sizeOf(joint.exchanges()); ++at) {
    Exchange &exchange = into.exchanges.emplace_back();
    const auto *terms = joint.exchanges()->Get(at)->terms();
    if (at >= bounds::kExchanges || sizeOf(terms) > termsLeft) {
      return wrong("its exchanges have too many terms");
    }
    termsLeft -= sizeOf(terms);
    for (flatbuffers::uoffset_t index = 0; index < sizeOf(terms); ++index) {
      const wire::TermFacts &term = *terms->Get(index);
      const std::optional<Element> element = elementOfNumber(term.element());
      if (!element) {
        return wrong("a term has element type " + Twine(unsigned{term.element()}));
      }
      exchange.push_back({*element, term.elements(), term.from(), term.masked()});
    }
  }
  if (joint.least_rows() != UINT64_MAX) {
    into.leastRows = joint.least_rows();
  }
  if (!texts.take(joint.clear_op(), limits::kOpNameBytes, into.clearOp) ||
      !texts.take(joint.clear_location(), limits::kLocationTextBytes, into.clearLocation)) {
    return wrong("the first clear term has an op of " + Twine(sizeOf(joint.clear_op())) + " bytes and a location of " +
                 Twine(sizeOf(joint.clear_location())));
  }
  facts.joint = std::move(into);
  return llvm::Error::success();
}

llvm::Expected<ProgramFacts> Reader::read() {
  if (sizeOf(from.arguments()) > limits::kArguments || sizeOf(from.results()) > limits::kResults) {
    return wrong(Twine(sizeOf(from.arguments())) + " arguments and " + Twine(sizeOf(from.results())) + " results");
  }
  facts.args.resize(sizeOf(from.arguments()));
  for (flatbuffers::uoffset_t index = 0; index < facts.args.size(); ++index) {
    if (llvm::Error error = readArgument(index, from.arguments()->Get(index), facts.args[index])) {
      return error;
    }
  }
  facts.results.resize(sizeOf(from.results()));
  for (flatbuffers::uoffset_t index = 0; index < facts.results.size(); ++index) {
    if (llvm::Error error = readResult(index, from.results()->Get(index), facts.results[index])) {
      return error;
    }
  }
  if (llvm::Error error = readDependence()) {
    return error;
  }
  if (llvm::Error error = from.joint() ? readJoint(*from.joint()) : llvm::Error::success()) {
    return error;
  }
  facts.samplesRows = from.samples_rows();
  facts.ops = from.ops();
  facts.operations = from.operations();
  facts.memory = {from.arena_bytes(), from.scratch_bytes(), from.library_bytes()};
  if (llvm::Error error = facts.count()) {
    return error;
  }
  return std::move(facts);
}

} // namespace

llvm::Expected<ProgramFacts> readFacts(llvm::StringRef bytes) {
  auto words = wordsOf(bytes);
  if (!words) {
    return makeError(ErrorCode::Malformed,
                     "the facts of a program are malformed: they have " + std::to_string(bytes.size()) + " bytes");
  }
  const auto *data = reinterpret_cast<const uint8_t *>(words->data());
  flatbuffers::Verifier verifier(data, bytes.size(), limits::kFlatBufferDepth, kTablesMost);
  if (!wire::VerifyFactsBuffer(verifier)) {
    return makeError(ErrorCode::Malformed, "the facts of a program are malformed: no table of their schema");
  }
  return Reader(*wire::GetFacts(data)).read();
}

} // namespace sojourn::runtime
