// SPDX-License-Identifier: Apache-2.0
// A core-form module as plain data, so that planning and kernels include neither MLIR nor torch.
#ifndef SOJOURN_RUNTIME_GRAPH_H
#define SOJOURN_RUNTIME_GRAPH_H
#include "runtime/Execute.h"
#include "llvm/ADT/StringRef.h"
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace sojourn::runtime {

using ValueId = uint32_t;

/// Little-endian bytes of one element.
using Scalar = std::array<char, 16>;

/// A list of i64 is `ints`, of f64 `reals`; booleans are ints; `constant`'s number is a Scalar.
using AttrValue =
    std::variant<int64_t, std::vector<int64_t>, std::vector<double>, std::string, std::vector<std::string>, Scalar>;

struct GraphOp {
  std::string name; ///< without the dialect prefix
  std::vector<ValueId> operands, results;
  std::vector<std::pair<std::string, AttrValue>> attrs;
  std::string location;

  int64_t integer(llvm::StringRef name) const { return std::get<int64_t>(attr(name)); }
  const std::vector<int64_t> &ints(llvm::StringRef name) const { return std::get<std::vector<int64_t>>(attr(name)); }
  const std::vector<double> &reals(llvm::StringRef name) const { return std::get<std::vector<double>>(attr(name)); }
  const std::string &string(llvm::StringRef name) const { return std::get<std::string>(attr(name)); }
  const std::vector<std::string> &strings(llvm::StringRef name) const {
    return std::get<std::vector<std::string>>(attr(name));
  }
  const Scalar &scalar(llvm::StringRef name) const { return std::get<Scalar>(attr(name)); }
  const AttrValue &attr(llvm::StringRef name) const;
};

/// Value ids: arguments first, then results in op order. A table argument has an empty type.
struct Graph {
  std::vector<ArgSpec> args;
  std::vector<TensorType> types; ///< per value
  std::vector<GraphOp> ops;
  std::vector<ResultSpec> results;
  std::vector<ValueId> resultValues;
  size_t sumOfValueBytes = 0;
};

/// The part of its table that a `sample_rows` draws of, from the table down.
std::vector<Side> partOf(const GraphOp &op);

/// Thrown inside planning only; Executable::create turns it into a ProgramError.
struct PlanFailure {
  ErrorCode code;
  std::string message;
  uint32_t op = UINT32_MAX; ///< index into Graph::ops, where known
};

llvm::Expected<Graph> buildGraph(mlir::ModuleOp coreModule);

} // namespace sojourn::runtime

#endif // SOJOURN_RUNTIME_GRAPH_H
