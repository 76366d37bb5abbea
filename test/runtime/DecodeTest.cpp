// SPDX-License-Identifier: Apache-2.0
// One test per check of the walk over hostile bytes. Method: a whole program that decodes, one thing
// broken in it, and the text of the one check that must notice; another check's text would not do.
#include "runtime/Limits.h"
#include "test/runtime/RawProgram.h"
#include "test/runtime/Support.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <ostream>

using namespace sojourn;
using namespace sojourn::test;
using namespace sojourn_wire;

namespace {

namespace limits = runtime::limits;

// Values, ops and attributes of the whole program, by name.
constexpr uint32_t kState = 0, kPositions = 1;
constexpr size_t kNeg = 0, kRead = 1, kCompare = 4, kNarrow = 5;
constexpr size_t kColumns = 0, kReal = 1, kDim = 2, kPredicate = 3, kSmall = 4, kFlag = 5, kDims = 6;

int64_t bitsOf(double value) {
  int64_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

/// Every kind of argument, attribute and result.
RawProgram whole() {
  RawProgram p;
  uint32_t vector = p.type(Element::f32, {3}), positions = p.type(Element::i64, {3}),
           rows = p.type(Element::f32, {3, 2}), number = p.type(Element::f32, {}), flags = p.type(Element::i1, {3}),
           byte = p.type(Element::u8, {}), flag = p.type(Element::i1, {});
  p.arg(ArgKind_state, vector);
  p.arg(ArgKind_upload, positions);
  uint32_t table = p.table(10, {"a", "b"});
  uint32_t neg = p.op("neg", {kState}, {vector});
  uint32_t read = p.op("read_rows", {table, kPositions}, {rows}, {{"columns", AttrKind_strings, {}, {"a", "b"}}});
  p.op("constant", {}, {number}, {{"value", AttrKind_real, {bitsOf(0.5)}, {}, Element::f32}});
  uint32_t order = p.op("iota", {}, {positions}, {{"dim", AttrKind_integer, {0}}});
  p.op("compare", {kPositions, order}, {flags}, {{"predicate", AttrKind_string, {}, {"lt"}}});
  p.op("constant", {}, {byte}, {{"value", AttrKind_integer, {200}, {}, Element::u8}});
  p.op("constant", {}, {flag}, {{"value", AttrKind_boolean, {1}, {}, Element::i1}});
  uint32_t sum = p.op("reduce_sum", {neg}, {number}, {{"dims", AttrKind_integers, {0}}});
  p.result(neg, ResultKind_commit, 0);
  p.result(read);
  p.result(sum, ResultKind_publish);
  return p;
}

/// Code and text of the refusal; "" if there is none.
std::string refusal(const std::string &program, const std::string &debug = "") {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  auto module = runtime::decodeProgram(context, program, debug);
  if (module) {
    return "";
  }
  std::string text;
  llvm::handleAllErrors(module.takeError(), [&](const runtime::ProgramError &error) {
    const char *code = error.code() == runtime::ErrorCode::Malformed     ? "malformed: "
                       : error.code() == runtime::ErrorCode::Limit       ? "limit: "
                       : error.code() == runtime::ErrorCode::Version     ? "version: "
                       : error.code() == runtime::ErrorCode::Unsupported ? "unsupported: "
                                                                         : "other: ";
    text = code + error.text();
  });
  return text;
}

template <class T>
void grow(std::vector<T> &list, size_t size) {
  list.resize(size, list.empty() ? T{} : list.back());
}

/// A struct of the schema, changed in place.
template <class Record>
Record &edit(std::vector<Record> &list, size_t index) {
  return list.at(index);
}

struct Broken {
  const char *name, *expected;
  std::function<void(RawProgram &)> damage;
};
std::ostream &operator<<(std::ostream &out, const Broken &broken) { return out << broken.name; }

const OpRecord withOperands(const OpRecord &op, uint32_t begin, uint32_t count) {
  return {op.name(), begin, count, op.result_count(), op.attr_begin(), op.attr_count()};
}
const OpRecord withAttrs(const OpRecord &op, uint32_t begin, uint32_t count) {
  return {op.name(), op.operand_begin(), op.operand_count(), op.result_count(), begin, count};
}
const OpRecord withName(const OpRecord &op, uint32_t name) {
  return {name, op.operand_begin(), op.operand_count(), op.result_count(), op.attr_begin(), op.attr_count()};
}
const AttrRecord attr(const AttrRecord &a, uint32_t begin, uint32_t count, uint8_t kind, Element element,
                      uint16_t reserved = 0) {
  return {a.name(), begin, count, kind, static_cast<uint8_t>(element), reserved};
}
void place(RawProgram &p, size_t index, uint8_t party, uint16_t parts) {
  p.args[index] = {p.args[index].type(), p.args[index].kind(), party, parts};
}
/// The program as a joint step whose table is role 0's.
void joint(RawProgram &p, uint8_t parties) {
  p.features = runtime::kFeatureParties;
  p.parties = parties;
  place(p, 2, 1, 0);
}
/// Its state in parts.
void inParts(RawProgram &p) {
  joint(p, 2);
  p.segments = {SegmentRecord(1, 0, 0), SegmentRecord(2, 1, 0)};
  p.parts = {PartsRecord(1, 0, 2)};
  place(p, 0, 0, 1);
}
void setAttr(RawProgram &p, size_t index, AttrKind kind, Element element, int64_t value) {
  AttrRecord &a = p.attrs.at(index);
  a = attr(a, a.begin(), a.count(), kind, element);
  p.ints.at(a.begin()) = value;
}
std::function<void(RawProgram &)> number(Element element, int64_t value) {
  return [=](RawProgram &p) { setAttr(p, kSmall, AttrKind_integer, element, value); };
}

const Broken kBroken[] = {
    // Counts.
    {"Strings", "limit: the program has 65537 strings, the limit is 65536",
     [](RawProgram &p) { grow(p.strings, limits::kStrings + 1); }},
    {"Types", "limit: the program has 400001 types", [](RawProgram &p) { grow(p.types, limits::kTypes + 1); }},
    {"Tables", "limit: the program has 65 tables", [](RawProgram &p) { grow(p.tables, limits::kTables + 1); }},
    {"Arguments", "limit: the program has 65537 arguments",
     [](RawProgram &p) { grow(p.args, limits::kArguments + 1); }},
    {"Ops", "limit: the program has 200001 ops", [](RawProgram &p) { grow(p.ops, limits::kOps + 1); }},
    {"Operands", "limit: the program has 4000001 operands",
     [](RawProgram &p) { grow(p.operands, limits::kIntegers + 1); }},
    {"OpResults", "limit: the program has 400001 op results",
     [](RawProgram &p) { grow(p.resultTypes, limits::kValues + 1); }},
    {"Integers", "limit: the program has 4000001 attribute integers",
     [](RawProgram &p) { grow(p.ints, limits::kIntegers + 1); }},
    {"Results", "limit: the program has 65537 results", [](RawProgram &p) { grow(p.results, limits::kResults + 1); }},
    {"Promotion", "malformed: promotion is missing", [](RawProgram &p) { p.hasPromotion = false; }},
    {"PromotionName", "'builtin.module' op sojourn.promotion is \"other\"",
     [](RawProgram &p) { p.promotion = "other"; }},
    // The envelope.
    {"OldFormat", "version: the program uses format version 0", [](RawProgram &p) { p.format = 0; }},
    {"NewFormat", "version: the program uses format version 99", [](RawProgram &p) { p.format = 99; }},
    {"OldDialect", "version: the program uses dialect version 0", [](RawProgram &p) { p.dialect = 0; }},
    {"NewDialect", "version: the program uses dialect version 99", [](RawProgram &p) { p.dialect = 99; }},
    {"Features", "version: the program needs features", [](RawProgram &p) { p.features = 2; }},
    // Roles of a joint step.
    {"NoRoles", "malformed: the program has no roles", [](RawProgram &p) { p.features = runtime::kFeatureParties; }},
    {"RolesWithoutFeature", "malformed: roles without the feature that they need",
     [](RawProgram &p) { p.parties = 2; }},
    {"OneRole", "has sojourn.parties = 1 : i64, expected an i64 from 2 to 16", [](RawProgram &p) { joint(p, 1); }},
    {"ManyRoles", "has sojourn.parties = 17 : i64, expected an i64 from 2 to 16", [](RawProgram &p) { joint(p, 17); }},
    {"TableWithoutRole", "argument #2 of kind table has no role",
     [](RawProgram &p) {
       joint(p, 2);
       place(p, 2, 0, 0);
     }},
    {"RoleAbove", "malformed: argument 0 has role 3 and parts 0 of 2 roles",
     [](RawProgram &p) {
       joint(p, 2);
       place(p, 0, 3, 0);
     }},
    {"RoleWithoutRoles", "malformed: argument 0 has role 1 and parts 0 of 0 roles",
     [](RawProgram &p) { place(p, 0, 1, 0); }},
    {"RoleAndParts", "malformed: argument 0 has role 1 and parts 1 of 2 roles",
     [](RawProgram &p) {
       inParts(p);
       place(p, 0, 1, 1);
     }},
    {"PartsAbove", "malformed: argument 0 has role 0 and parts 2 of 2 roles",
     [](RawProgram &p) {
       inParts(p);
       place(p, 0, 0, 2);
     }},
    {"PartsUnused", "malformed: parts that no argument has",
     [](RawProgram &p) {
       inParts(p);
       place(p, 0, 0, 0);
     }},
    {"PartsTwice", "malformed: parts 1 appear twice",
     [](RawProgram &p) {
       inParts(p);
       p.parts.emplace_back(1, 2u, 2u);
       p.segments.insert(p.segments.end(), {p.segments[0], p.segments[1]});
     }},
    {"PartsWithoutRoles", "malformed: parts of arguments that do not exist",
     [](RawProgram &p) { p.parts.emplace_back(1, 0u, 0u); }},
    {"SegmentsOutOfPlace", "malformed: parts 0 have their segments out of place",
     [](RawProgram &p) {
       inParts(p);
       p.parts[0] = PartsRecord(1, 1, 1);
     }},
    {"SegmentsPastEnd", "malformed: parts 0 have their segments out of place",
     [](RawProgram &p) {
       inParts(p);
       p.parts[0] = PartsRecord(1, 0, 3);
     }},
    {"SegmentsUnused", "malformed: segments that no parts use",
     [](RawProgram &p) {
       inParts(p);
       p.segments.push_back(p.segments[0]);
     }},
    {"SegmentReserved", "malformed: parts 0 have a segment with a reserved field that is not zero",
     [](RawProgram &p) {
       inParts(p);
       p.segments[0] = SegmentRecord(1, 0, 7);
     }},
    {"Segments", "limit: the program has 65537 segments",
     [](RawProgram &p) {
       inParts(p);
       grow(p.segments, limits::kPartsOfArguments + 1);
     }},
    {"NoRowsInSegment", "malformed: an argument has wrong parts: #sojourn.parts has a segment of 0 rows",
     [](RawProgram &p) {
       inParts(p);
       p.segments[0] = SegmentRecord(0, 0, 0);
     }},
    {"RoleOfSegment", "argument #0 has a part at role 9, expected 0 to 1",
     [](RawProgram &p) {
       inParts(p);
       p.segments[1] = SegmentRecord(2, 9, 0);
     }},
    {"PartsDoNotFit", "has 3 rows at stride 2, which are no part of one dim",
     [](RawProgram &p) {
       inParts(p);
       p.parts[0] = PartsRecord(2, 0, 2);
     }},
    {"PartsOverflow", "argument #0 has more rows in its parts than elements",
     [](RawProgram &p) {
       inParts(p);
       p.segments[1] = SegmentRecord(INT64_MAX, 1, 0);
     }},
    // Strings.
    {"LongString", "limit: the program has 65537 bytes in string 0",
     [](RawProgram &p) { p.strings[0].assign(limits::kStringBytes + 1, 'x'); }},
    {"NoText", "malformed: string 0 is not UTF-8", [](RawProgram &p) { p.strings[0] = "\xff"; }},
    {"StringTwice", "malformed: string 1 appears twice", [](RawProgram &p) { p.strings[1] = p.strings[0]; }},
    {"StringUnused", "strings that no op uses", [](RawProgram &p) { p.strings.push_back("more"); }},
    {"TextsInAll", "bytes in all uses of its strings, the limit is 67108864",
     [](RawProgram &p) {
       std::string column(60'000, 'c');
       p.op("read_rows", {2, kPositions}, {2},
            {{"columns", AttrKind_strings, {}, std::vector<std::string>(1'200, column)}});
     }},
    // Types.
    {"TypeElement", "malformed: type 0 has element 12",
     [](RawProgram &p) { p.types[0] = TypeRecord(12, 1, 0, 0); }},
    {"TypeReserved", "malformed: type 0 has element 8", [](RawProgram &p) { p.types[0] = TypeRecord(8, 1, 1, 0); }},
    {"Rank", "limit: the program has 17 dims in type 0",
     [](RawProgram &p) { p.types[0] = TypeRecord(8, 17, 0, 0); }},
    {"DimsBegin", "malformed: type 1 has its dims out of place",
     [](RawProgram &p) { p.types[1] = TypeRecord(5, 1, 0, 0); }},
    {"DimsEnd", "malformed: type 4 has its dims out of place",
     [](RawProgram &p) { p.dims.resize(p.dims.size() - 1); }},
    {"DimsUnused", "malformed: dims that no type", [](RawProgram &p) { p.dims.push_back(1); }},
    {"NegativeDim", "malformed: type 0 has a dim of -1", [](RawProgram &p) { p.dims[0] = -1; }},
    {"HugeDim", "limit: type 0 has more than 4294967296 elements",
     [](RawProgram &p) { p.dims[0] = limits::kDimension + 1; }},
    {"Elements", "limit: type 2 has more than 4294967296 elements",
     [](RawProgram &p) { p.dims[2] = limits::kValueElements; }},
    {"ZeroHidesNothing", "limit: type 2 has more than 4294967296 elements",
     [](RawProgram &p) {
       p.dims[2] = 0;
       p.dims[3] = limits::kValueElements + 1;
     }},
    {"ValueBytes", "limit: type 1 has more than 17179869184 bytes",
     [](RawProgram &p) { p.dims[1] = limits::kValueElements; }},
    // Arguments.
    {"ArgKind", "malformed: argument 0 has kind 5", [](RawProgram &p) { p.args[0] = ArgRecord(0, 5, 0, 0); }},
    {"ArgParts", "malformed: argument 0 has role 0 and parts 1 of 0 roles",
     [](RawProgram &p) { p.args[0] = ArgRecord(0, 0, 0, 1); }},
    {"ArgType", "malformed: argument 0 has type 7", [](RawProgram &p) { p.args[0] = ArgRecord(7, 0, 0, 0); }},
    {"ArgTable", "malformed: argument 2 names table 1", [](RawProgram &p) { p.args[2] = ArgRecord(1, 4, 0, 0); }},
    {"ArgTableTwice", "malformed: argument 3 names table 0",
     [](RawProgram &p) { p.args.push_back(p.args.back()); }},
    {"ArgTableMissing", "malformed: argument 2 names table 0", [](RawProgram &p) { p.tables.clear(); }},
    {"TableUnused", "malformed: tables that no argument uses",
     [](RawProgram &p) { p.tables.push_back(p.tables.back()); }},
    {"NegativeRows", "limit: argument 2 has -2 rows", [](RawProgram &p) { p.tables[0].rows = -2; }},
    {"Rows", "limit: argument 2 has 4294967297 rows", [](RawProgram &p) { p.tables[0].rows = limits::kTableRows + 1; }},
    {"Columns", "limit: the program has 65537 columns up to argument 2",
     [](RawProgram &p) { grow(p.tables[0].names, limits::kColumns + 1); }},
    {"ColumnsInAll", "limit: the program has 65538 columns up to argument 3",
     [](RawProgram &p) {
       RawTable wide = p.tables[0];
       grow(wide.names, limits::kColumns);
       grow(wide.elements, limits::kColumns);
       p.tables.push_back(wide);
       p.args.push_back(ArgRecord(1, ArgKind_table, 0, 0));
     }},
    {"ColumnElements", "malformed: argument 2 does not have one element type per column",
     [](RawProgram &p) { p.tables[0].elements.pop_back(); }},
    {"ColumnName", "malformed: argument 2 has a column whose name",
     [](RawProgram &p) { p.tables[0].names[1] = 1'000; }},
    {"ColumnNameOrder", "malformed: argument 2 has a column whose name",
     [](RawProgram &p) { p.tables[0].names[0] = 1; }},
    {"ColumnElement", "malformed: argument 2 has a column whose name",
     [](RawProgram &p) { p.tables[0].elements[1] = 12; }},
    {"ColumnTwice", "names column \"a\" twice", [](RawProgram &p) {
       p = RawProgram();
       p.table(10, {"a", "a"});
     }},
    // Ops.
    {"OpName", "malformed: op 0 has no name",
     [](RawProgram &p) { p.ops[kNeg] = withName(p.ops[kNeg], 1'000); }},
    {"OpNameOrder", "malformed: op 0 has no name",
     [](RawProgram &p) { p.ops[kNeg] = withName(p.ops[kNeg], p.ops[kNeg].name() + 1); }},
    {"OpNameLength", "malformed: op 0 has no name of 1 to 256 bytes",
     [](RawProgram &p) { p.strings[p.ops[kNeg].name()].assign(limits::kOpNameBytes + 1, 'x'); }},
    {"OpNameEmpty", "malformed: op 0 has no name", [](RawProgram &p) { p.strings[p.ops[kNeg].name()] = ""; }},
    {"OpUnknown", "unsupported: 'nag' is not an op of core form",
     [](RawProgram &p) { p.strings[p.ops[kNeg].name()] = "nag"; }},
    {"OpCaptured", "unsupported: 'aten' is not an op of core form",
     [](RawProgram &p) { p.strings[p.ops[kNeg].name()] = "aten"; }},
    {"OperandsOfOne", "limit: the program has 4097 operands in op 8",
     [](RawProgram &p) { p.op("concat", std::vector<uint32_t>(limits::kOperandsPerOp + 1, 0), {0}); }},
    {"AttributesOfOne", "limit: the program has 33 attributes in op 0",
     [](RawProgram &p) { p.ops[kNeg] = withAttrs(p.ops[kNeg], 0, limits::kAttributesPerOp + 1); }},
    {"OperandBegin", "malformed: op 1 'read_rows' has operands, attributes or results out of place",
     [](RawProgram &p) { p.ops[kRead] = withOperands(p.ops[kRead], 0, 2); }},
    {"OperandEnd", "malformed: op 7 'reduce_sum' has operands, attributes or results out of place",
     [](RawProgram &p) { p.operands.pop_back(); }},
    {"AttrBegin", "malformed: op 1 'read_rows' has operands, attributes or results out of place",
     [](RawProgram &p) { p.ops[kRead] = withAttrs(p.ops[kRead], 1, 1); }},
    {"AttrEnd", "malformed: op 7 'reduce_sum' has operands, attributes or results out of place",
     [](RawProgram &p) { p.attrs.pop_back(); }},
    {"ResultEnd", "malformed: op 7 'reduce_sum' has operands, attributes or results out of place",
     [](RawProgram &p) { p.resultTypes.pop_back(); }},
    {"OwnResult", "malformed: op 0 'neg' reads value 3, which is not defined before it",
     [](RawProgram &p) { p.operands[0] = 3; }},
    {"LaterResult", "malformed: op 0 'neg' reads value 5, which is not defined before it",
     [](RawProgram &p) { p.operands[0] = 5; }},
    {"NoValue", "malformed: op 0 'neg' reads value 4294967295", [](RawProgram &p) { p.operands[0] = UINT32_MAX; }},
    {"OperandsUnused", "malformed: operands, attributes, types or strings that no op uses",
     [](RawProgram &p) { p.operands.push_back(0); }},
    {"AttrsUnused", "malformed: operands, attributes, types or strings that no op uses",
     [](RawProgram &p) { p.attrs.push_back(p.attrs.back()); }},
    {"ResultTypesUnused", "malformed: operands, attributes, types or strings that no op uses",
     [](RawProgram &p) { p.resultTypes.push_back(0); }},
    {"IntegersUnused", "malformed: operands, attributes, types or strings that no op uses",
     [](RawProgram &p) { p.ints.push_back(0); }},
    {"ResultType", "malformed: op 0 'neg' has a result of type 7", [](RawProgram &p) { p.resultTypes[0] = 7; }},
    {"AllValues", "limit: all values together have more than 4398046511104 bytes",
     [](RawProgram &p) {
       uint32_t wide = p.type(Element::f32, {limits::kValueElements});
       for (int64_t i = 0; i <= limits::kSumOfValueBytes / limits::kValueBytes; ++i) {
         p.op("neg", {0}, {wide});
       }
     }},
    // Attributes.
    {"AttrName", "malformed: op 1 'read_rows' has an attribute without a name",
     [](RawProgram &p) { p.attrs[kColumns] = AttrRecord(1'000, 0, 2, AttrKind_strings, 5, 0); }},
    {"AttrNameLength", "malformed: op 3 'iota' has an attribute without a name of 1 to 256 bytes",
     [](RawProgram &p) { p.strings[p.attrs[kDim].name()].assign(limits::kOpNameBytes + 1, 'x'); }},
    {"AttrTwice", "attribute 'dim': names are not unique and in ascending order",
     [](RawProgram &p) {
       p.op("iota", {}, {1}, {{"dim", AttrKind_integer, {0}}, {"dim", AttrKind_integer, {0}}});
     }},
    {"AttrOrder", "attribute 'columns': names are not unique and in ascending order",
     [](RawProgram &p) {
       p.op("iota", {}, {1}, {{"dim", AttrKind_integer, {0}}, {"columns", AttrKind_integer, {0}}});
     }},
    {"AttrUnknown", "unsupported: 'iota' has an unknown attribute 'columns'",
     [](RawProgram &p) { p.op("iota", {}, {1}, {{"columns", AttrKind_integer, {0}}}); }},
    {"AttrKind", "attribute 'dim' has an unknown kind or element type",
     [](RawProgram &p) { p.attrs[kDim] = attr(p.attrs[kDim], p.attrs[kDim].begin(), 1, 8, Element::i64); }},
    {"RealsOfAnotherType", "attribute 'dim' has 0, which its kind does not allow",
     [](RawProgram &p) { p.attrs[kDim] = attr(p.attrs[kDim], p.attrs[kDim].begin(), 1, AttrKind_reals, Element::i64); }},
    {"AttrElement", "attribute 'dim' has an unknown kind or element type",
     [](RawProgram &p) {
       p.attrs[kDim] = attr(p.attrs[kDim], p.attrs[kDim].begin(), 1, AttrKind_integer, static_cast<Element>(12));
     }},
    {"AttrReserved", "attribute 'dim' has an unknown kind or element type",
     [](RawProgram &p) {
       p.attrs[kDim] = attr(p.attrs[kDim], p.attrs[kDim].begin(), 1, AttrKind_integer, Element::i64, 1);
     }},
    {"IntegersBegin", "attribute 'dim' has its integers out of place",
     [](RawProgram &p) { p.attrs[kDim] = attr(p.attrs[kDim], 0, 1, AttrKind_integer, Element::i64); }},
    {"IntegersEnd", "attribute 'dims' has its integers out of place", [](RawProgram &p) { p.ints.pop_back(); }},
    {"IntegersOfOne", "limit: the program has 65 numbers in op 8 'reduce_sum', attribute 'dims'",
     [](RawProgram &p) {
       p.op("reduce_sum", {0}, {3}, {{"dims", AttrKind_integers, std::vector<int64_t>(65, 0)}});
     }},
    {"TwoNumbers", "attribute 'dim' has 2 integers, expected 1",
     [](RawProgram &p) { p.op("iota", {}, {1}, {{"dim", AttrKind_integer, {0, 0}}}); }},
    {"NoNumber", "attribute 'dim' has 0 integers, expected 1",
     [](RawProgram &p) { p.op("iota", {}, {1}, {{"dim", AttrKind_integer, {}}}); }},
    {"U8Above", "has 256, which its kind does not allow", number(Element::u8, 256)},
    {"U8Below", "has -1, which its kind does not allow", number(Element::u8, -1)},
    {"I8Above", "has 128, which its kind does not allow", number(Element::i8, 128)},
    {"I8Below", "has -129, which its kind does not allow", number(Element::i8, -129)},
    {"I16Above", "has 32768, which its kind does not allow", number(Element::i16, 32768)},
    {"I16Below", "has -32769, which its kind does not allow", number(Element::i16, -32769)},
    {"I32Above", "has 2147483648, which its kind does not allow", number(Element::i32, int64_t{1} << 31)},
    {"I32Below", "has -2147483649, which its kind does not allow", number(Element::i32, -(int64_t{1} << 31) - 1)},
    {"IntegerOfFloat", "has 200, which its kind does not allow", number(Element::f32, 200)},
    {"IntegerOfBoolean", "has 1, which its kind does not allow", number(Element::i1, 1)},
    {"BooleanOfTwo", "has 2, which its kind does not allow",
     [](RawProgram &p) { setAttr(p, kFlag, AttrKind_boolean, Element::i1, 2); }},
    {"BooleanOfInteger", "has 1, which its kind does not allow",
     [](RawProgram &p) { setAttr(p, kFlag, AttrKind_boolean, Element::i64, 1); }},
    {"RealOfInteger", "which its kind does not allow",
     [](RawProgram &p) { setAttr(p, kReal, AttrKind_real, Element::i64, 0); }},
    {"RealInexact", "malformed: attribute 'value' has a number that its type cannot hold",
     [](RawProgram &p) { setAttr(p, kReal, AttrKind_real, Element::f32, bitsOf(0.1)); }},
    {"IntegersOfFloat", "has 0, which its kind does not allow",
     [](RawProgram &p) { setAttr(p, kDims, AttrKind_integers, Element::f32, 0); }},
    {"TypeAbove", "has 12, which its kind does not allow",
     [](RawProgram &p) { setAttr(p, kDim, AttrKind_type, Element::i64, 12); }},
    {"TypeBelow", "has -1, which its kind does not allow",
     [](RawProgram &p) { setAttr(p, kDim, AttrKind_type, Element::i64, -1); }},
    {"TypeOfFloat", "has 1, which its kind does not allow",
     [](RawProgram &p) { setAttr(p, kDim, AttrKind_type, Element::f32, 1); }},
    {"StringAbove", "has 1000, which its kind does not allow",
     [](RawProgram &p) { setAttr(p, kPredicate, AttrKind_string, Element::i64, 1'000); }},
    {"StringBelow", "has -1, which its kind does not allow",
     [](RawProgram &p) { setAttr(p, kPredicate, AttrKind_string, Element::i64, -1); }},
    {"StringOfFloat", "which its kind does not allow",
     [](RawProgram &p) {
       setAttr(p, kPredicate, AttrKind_string, Element::f32, p.ints[p.attrs[kPredicate].begin()]);
     }},
    {"StringsAbove", "has 1000, which its kind does not allow",
     [](RawProgram &p) { setAttr(p, kColumns, AttrKind_strings, Element::i64, 1'000); }},
    // Results.
    {"ResultValue", "malformed: result 0 has an unknown value or kind",
     [](RawProgram &p) { p.results[0] = ResultRecord(11, 0, ResultKind_keep, 0, 0); }},
    {"ResultKind", "malformed: result 0 has an unknown value or kind",
     [](RawProgram &p) { p.results[0] = ResultRecord(3, 0, 3, 0, 0); }},
    {"ResultFlags", "malformed: result 0 has an unknown value or kind",
     [](RawProgram &p) { p.results[0] = ResultRecord(3, 0, 0, 2, 0); }},
    {"ResultReserved1", "malformed: result 0 has an unknown value or kind",
     [](RawProgram &p) { p.results[0] = ResultRecord(3, 0, 0, 0, 1); }},
    {"CommitTarget", "malformed: result 0 has target 3",
     [](RawProgram &p) { p.results[0] = ResultRecord(3, 3, ResultKind_commit, 0, 0); }},
    {"KeepTarget", "malformed: result 1 has target 1",
     [](RawProgram &p) { p.results[1] = ResultRecord(4, 1, ResultKind_keep, 0, 0); }},
    {"CommitToUpload", "the program is not in core form",
     [](RawProgram &p) { p.results[0] = ResultRecord(3, 1, ResultKind_commit, 0, 0); }},
    {"ResultBytes", "limit: the results have more than 68719476736 bytes",
     [](RawProgram &p) {
       uint32_t wide = p.op("neg", {0}, {p.type(Element::f32, {limits::kValueElements})});
       for (int64_t i = 0; i <= limits::kResultBytes / limits::kValueBytes; ++i) {
         p.result(wide);
       }
     }},
};

class Check : public testing::TestWithParam<Broken> {};

TEST_P(Check, RefusesInItsOwnWords) {
  RawProgram program = whole();
  GetParam().damage(program);
  std::string text = refusal(program.bytes());
  EXPECT_NE(text.find(GetParam().expected), std::string::npos) << "got '" << text << "'";
}

INSTANTIATE_TEST_SUITE_P(Walk, Check, testing::ValuesIn(kBroken),
                         [](const auto &info) { return std::string(info.param.name); });

TEST(Decode, AcceptsTheWholeProgram) {
  EXPECT_EQ(refusal(whole().bytes()), "");
  // Numbers at their bounds are numbers.
  for (auto [element, value] : {std::pair<Element, int64_t>{Element::u8, 255}, {Element::u8, 0}}) {
    RawProgram program = whole();
    setAttr(program, kSmall, AttrKind_integer, element, value);
    EXPECT_EQ(refusal(program.bytes()), "");
  }
}

TEST(Decode, RefusesWhatIsNoProgram) {
  EXPECT_NE(refusal("short").find("malformed: the program has 5 bytes"), std::string::npos);
  EXPECT_NE(refusal(std::string(64, '\0')).find("identifier SJP1 is missing"), std::string::npos);
  EXPECT_NE(refusal(std::string(limits::kProgramBytes + 1, '\0')).find("limit: the program has"), std::string::npos);
  std::string cut = whole().bytes();
  EXPECT_NE(refusal(cut.substr(0, cut.size() / 2)).find("not a FlatBuffers table"), std::string::npos);
}

RawDebug wholeDebug() {
  RawDebug debug;
  debug.files = {"a.py", "b.py"};
  debug.hints = {"layer"};
  debug.locations = {LocationRecord(0, 1, 2, 0), LocationRecord(1, 3, 0, 1)};
  debug.opLocations = {1, 2, 0, 0, 0, 0, 0, 0};
  debug.opHints = {1, 0, 0, 0, 0, 0, 0, 0};
  return debug;
}

TEST(Decode, DebugTables) {
  std::string program = whole().bytes();
  EXPECT_EQ(refusal(program, wholeDebug().bytes()), "");
  struct {
    const char *expected;
    std::function<void(RawDebug &)> damage;
  } broken[] = {
      {"malformed: debug table: found entries for a different number of ops",
       [](RawDebug &d) { d.opLocations.pop_back(); }},
      {"malformed: debug table: found entries for a different number of ops",
       [](RawDebug &d) { d.opHints.push_back(0); }},
      {"malformed: debug table: file name 1 is not UTF-8", [](RawDebug &d) { d.files[1] = "\xff"; }},
      {"malformed: debug table: hint 0 is not UTF-8", [](RawDebug &d) { d.hints[0] = "\xff"; }},
      {"limit: the debug table has more than 4096 bytes in file name 0",
       [](RawDebug &d) { d.files[0].assign(limits::kFileNameBytes + 1, 'x'); }},
      {"limit: the debug table has more than 4096 bytes in hint 0",
       [](RawDebug &d) { d.hints[0].assign(limits::kFileNameBytes + 1, 'x'); }},
      {"malformed: debug table: location 1 names a file",
       [](RawDebug &d) { d.locations[1] = LocationRecord(2, 3, 0, 1); }},
      {"malformed: debug table: location 1 names a file or parent",
       [](RawDebug &d) { d.locations[1] = LocationRecord(1, 3, 0, 2); }},
      {"limit: a location is nested deeper than 64",
       [](RawDebug &d) {
         for (uint32_t i = 2; i < 70; ++i) {
           d.locations.push_back(LocationRecord(0, 1, 1, i));
         }
       }},
      {"malformed: debug table: op 1 names a location", [](RawDebug &d) { d.opLocations[1] = 3; }},
      {"malformed: debug table: op 0 names a hint", [](RawDebug &d) { d.opHints[0] = 2; }},
  };
  for (auto &[expected, damage] : broken) {
    RawDebug debug = wholeDebug();
    damage(debug);
    std::string text = refusal(program, debug.bytes());
    EXPECT_NE(text.find(expected), std::string::npos) << "expected '" << expected << "', got '" << text << "'";
  }
  EXPECT_NE(refusal(program, std::string(limits::kDebugBytes + 1, '\0')).find("limit: the debug table has 67108865"),
            std::string::npos);
  RawDebug many = wholeDebug();
  grow(many.locations, limits::kLocations + 1);
  EXPECT_NE(refusal(program, many.bytes()).find("limit: the debug table has more than 1000000"), std::string::npos);
  EXPECT_NE(refusal(program, "no table").find("malformed: debug table: not a FlatBuffers table"), std::string::npos);
}

} // namespace
