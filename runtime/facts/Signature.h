// SPDX-License-Identifier: Apache-2.0
// Arguments and results of a program: plain data, for code that never sees its ops.
#ifndef SOJOURN_RUNTIME_FACTS_SIGNATURE_H
#define SOJOURN_RUNTIME_FACTS_SIGNATURE_H
#include "dialect/Part.h"
#include "dialect/Signature.h"
#include "runtime/Tensor.h"
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sojourn::runtime {

/// A column that a program may read; `dims` are the sizes of one row's entry, none for a number.
struct TableColumn {
  std::string name;
  Element element = Element::f32;
  llvm::SmallVector<int64_t, 4> dims;
  bool operator==(const TableColumn &) const = default;
};

struct ArgSpec {
  StepArg kind = StepArg::State;
  TensorType type;                      ///< of every kind but table
  std::optional<int64_t> rows;          ///< table: how many it has, where the program depends on it
  std::vector<TableColumn> columns;     ///< table: the columns it names
  std::vector<std::vector<Side>> parts; ///< table: the parts that rows are drawn of, each once
  bool operator==(const ArgSpec &) const = default;
};

struct ResultSpec {
  StepResult kind = StepResult::Keep;
  TensorType type;
  uint32_t target = 0;      ///< commit: the state argument that gets this value
  std::string op, location; ///< the defining op, for errors
  bool operator==(const ResultSpec &) const = default;
};

} // namespace sojourn::runtime

#endif // SOJOURN_RUNTIME_FACTS_SIGNATURE_H
