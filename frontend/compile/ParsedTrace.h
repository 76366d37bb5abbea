// SPDX-License-Identifier: Apache-2.0
// The word streams of a trace as structures. Cold path: clarity over speed.
#ifndef SOJOURN_FRONTEND_COMPILE_PARSEDTRACE_H
#define SOJOURN_FRONTEND_COMPILE_PARSEDTRACE_H

#include "dialect/elements/TypeRule.h"
#include "frontend/recording/Trace.h"

#include <optional>
#include <vector>

namespace sojourn::frontend::parsed {

/// One argument of an op record.
struct Argument {
  Tag tag = Tag::None;
  Word value = 0;                 ///< storage id, int, bits, element, string id, table id
  std::vector<Word> values;       ///< list values; for a view: rank, sizes, strides, offset
  std::vector<Word> seen;         ///< of a moved view: its storage's dims
  std::vector<Word> moves;        ///< of a moved view: dims and positions of the numbers that move it along them
  std::optional<Element> element; ///< of a view, where it is not its storage's
  std::vector<Argument> children;
};

struct Layout {
  Element element = Element::f32;
  std::vector<int64_t> sizes, strides;
};

struct Node {
  Word entry = 0;
  TypeContext types;
  std::vector<Argument> arguments;
  std::vector<std::optional<Layout>> results;
};

struct Table {
  Word name = 0;
  int64_t rows = 0;
  Word role = -1; ///< of a group's table
  struct Column {
    Word name;
    Element element;
    std::vector<Word> sizes; ///< of an entry, none for a plain number
  };
  std::vector<Column> columns;
};

struct Input {
  int64_t storage;
  InputKind kind;
  Word place; ///< number in PlaceTable
  Layout layout;
};

/// In order of the streams.
struct ParsedTrace {
  std::vector<Input> inputs;
  std::vector<Table> tables;
  std::vector<Node> nodes;
  std::vector<Word> keep, publish, trained;
};

ParsedTrace parse(const Trace &trace);

} // namespace sojourn::frontend::parsed

#endif // SOJOURN_FRONTEND_COMPILE_PARSEDTRACE_H
