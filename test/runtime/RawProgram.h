// SPDX-License-Identifier: Apache-2.0
// Program bytes written record by record, as a client that is not ours may write them: what no module
// says, the encoder cannot write. A whole program by default; a test breaks one thing.
#ifndef SOJOURN_TEST_RUNTIME_RAWPROGRAM_H
#define SOJOURN_TEST_RUNTIME_RAWPROGRAM_H

#include "runtime/Debug_generated.h"
#include "runtime/Program.h"
#include "runtime/Program_generated.h"
#include "runtime/Tensor.h"
#include "dialect/Version.h"

#include <map>
#include <string>
#include <vector>

namespace sojourn::test {

using runtime::Element;

struct RawAttr {
  std::string name;
  sojourn_wire::AttrKind kind;
  std::vector<int64_t> ints = {};
  std::vector<std::string> texts = {}; ///< become ints: ids of strings
  Element element = Element::i64;
};

struct RawTable {
  int64_t rows = 0;
  std::vector<uint32_t> names;
  std::vector<uint8_t> elements;
};

struct RawProgram {
  uint32_t format = runtime::kFormatVersion, dialect = kDialectVersion;
  uint64_t features = 0;
  std::string promotion = "torch";
  bool hasPromotion = true;
  std::vector<std::string> strings;
  std::vector<sojourn_wire::TypeRecord> types;
  std::vector<int64_t> dims, ints;
  std::vector<RawTable> tables;
  std::vector<sojourn_wire::ArgRecord> args;
  std::vector<sojourn_wire::OpRecord> ops;
  std::vector<uint32_t> operands, resultTypes;
  std::vector<sojourn_wire::AttrRecord> attrs;
  std::vector<sojourn_wire::ResultRecord> results;
  uint8_t parties = 0;
  std::vector<sojourn_wire::PartsRecord> parts;
  std::vector<sojourn_wire::SegmentRecord> segments;
  uint32_t values = 0;

  uint32_t string(const std::string &text) {
    auto [entry, isNew] = stringIds.try_emplace(text, static_cast<uint32_t>(strings.size()));
    if (isNew) {
      strings.push_back(text);
    }
    return entry->second;
  }

  uint32_t type(Element element, const std::vector<int64_t> &sizes) {
    types.emplace_back(static_cast<uint8_t>(element), static_cast<uint8_t>(sizes.size()), uint16_t{0},
                       static_cast<uint32_t>(dims.size()));
    dims.insert(dims.end(), sizes.begin(), sizes.end());
    return static_cast<uint32_t>(types.size() - 1);
  }

  /// The value that the argument is.
  uint32_t arg(sojourn_wire::ArgKind kind, uint32_t type) {
    args.emplace_back(type, static_cast<uint8_t>(kind), uint8_t{0}, uint16_t{0});
    return values++;
  }

  /// An argument of plain columns, all f64.
  uint32_t table(int64_t rows, const std::vector<std::string> &columns) {
    RawTable record{rows, {}, {}};
    for (const std::string &column : columns) {
      record.names.push_back(string(column));
      record.elements.push_back(static_cast<uint8_t>(Element::f64));
    }
    tables.push_back(record);
    return arg(sojourn_wire::ArgKind_table, static_cast<uint32_t>(tables.size() - 1));
  }

  /// The first result.
  uint32_t op(const std::string &name, const std::vector<uint32_t> &reads, const std::vector<uint32_t> &gives,
              const std::vector<RawAttr> &attributes = {}) {
    uint32_t nameId = string(name), firstOperand = static_cast<uint32_t>(operands.size()),
             firstAttr = static_cast<uint32_t>(attrs.size());
    operands.insert(operands.end(), reads.begin(), reads.end());
    resultTypes.insert(resultTypes.end(), gives.begin(), gives.end());
    for (const RawAttr &attribute : attributes) {
      uint32_t id = string(attribute.name), first = static_cast<uint32_t>(ints.size());
      ints.insert(ints.end(), attribute.ints.begin(), attribute.ints.end());
      for (const std::string &text : attribute.texts) {
        ints.push_back(string(text));
      }
      attrs.emplace_back(id, first, static_cast<uint32_t>(ints.size()) - first, static_cast<uint8_t>(attribute.kind),
                         static_cast<uint8_t>(attribute.element), uint16_t{0});
    }
    ops.emplace_back(nameId, firstOperand, static_cast<uint32_t>(reads.size()), static_cast<uint32_t>(gives.size()),
                     firstAttr, static_cast<uint32_t>(attributes.size()));
    values += static_cast<uint32_t>(gives.size());
    return values - static_cast<uint32_t>(gives.size());
  }

  void result(uint32_t value, sojourn_wire::ResultKind kind = sojourn_wire::ResultKind_keep, uint32_t target = 0) {
    results.emplace_back(value, target, static_cast<uint8_t>(kind), uint8_t{0}, uint16_t{0});
  }

  std::string bytes() const {
    flatbuffers::FlatBufferBuilder builder(1024);
    auto producer = builder.CreateString("test");
    auto rules = builder.CreateString(promotion);
    auto texts = builder.CreateVectorOfStrings(strings);
    auto typeVector = builder.CreateVectorOfStructs(types);
    std::vector<flatbuffers::Offset<sojourn_wire::TableRecord>> tableOffsets;
    for (const RawTable &table : tables) {
      auto names = builder.CreateVector(table.names);
      auto elements = builder.CreateVector(table.elements);
      sojourn_wire::TableRecordBuilder record(builder);
      record.add_rows(table.rows);
      record.add_column_names(names);
      record.add_column_elements(elements);
      tableOffsets.push_back(record.Finish());
    }
    auto dimVector = builder.CreateVector(dims);
    auto tableVector = builder.CreateVector(tableOffsets);
    auto argVector = builder.CreateVectorOfStructs(args);
    auto opVector = builder.CreateVectorOfStructs(ops);
    auto operandVector = builder.CreateVector(operands);
    auto resultTypeVector = builder.CreateVector(resultTypes);
    auto attrVector = builder.CreateVectorOfStructs(attrs);
    auto intVector = builder.CreateVector(ints);
    auto resultVector = builder.CreateVectorOfStructs(results);
    auto partsVector = parts.empty() ? 0 : builder.CreateVectorOfStructs(parts);
    auto segmentVector = segments.empty() ? 0 : builder.CreateVectorOfStructs(segments);
    sojourn_wire::FinishProgramBuffer(
        builder, sojourn_wire::CreateProgram(builder, format, dialect, features, producer, hasPromotion ? rules : 0,
                                             texts, typeVector, dimVector, tableVector, argVector, opVector,
                                             operandVector, resultTypeVector, attrVector, intVector, resultVector,
                                             parties, partsVector, segmentVector));
    return {reinterpret_cast<const char *>(builder.GetBufferPointer()), builder.GetSize()};
  }

private:
  std::map<std::string, uint32_t> stringIds;
};

/// A debug table, record by record.
struct RawDebug {
  std::vector<std::string> files, hints;
  std::vector<sojourn_wire::LocationRecord> locations;
  std::vector<uint32_t> opLocations, opHints;

  std::string bytes() const {
    flatbuffers::FlatBufferBuilder builder(1024);
    auto fileVector = builder.CreateVectorOfStrings(files);
    auto records = builder.CreateVectorOfStructs(locations);
    auto ofOps = builder.CreateVector(opLocations);
    auto hintsOfOps = builder.CreateVector(opHints);
    auto hintVector = builder.CreateVectorOfStrings(hints);
    sojourn_wire::FinishDebugBuffer(
        builder, sojourn_wire::CreateDebug(builder, fileVector, records, ofOps, hintsOfOps, hintVector));
    return {reinterpret_cast<const char *>(builder.GetBufferPointer()), builder.GetSize()};
  }
};

} // namespace sojourn::test

#endif // SOJOURN_TEST_RUNTIME_RAWPROGRAM_H
