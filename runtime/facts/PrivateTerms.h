// SPDX-License-Identifier: Apache-2.0
// The terms of one step on private tables: plain data, which needs neither MLIR nor torch, and its bytes.
#ifndef SOJOURN_RUNTIME_FACTS_PRIVATETERMS_H
#define SOJOURN_RUNTIME_FACTS_PRIVATETERMS_H

#include "runtime/Extent.h"
#include "runtime/Tensor.h"
#include "runtime/terms/StepTerms.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sojourn::runtime {

/// All that decides how a program is rewritten, apart from its bytes.
struct PrivateTerms : terms::StepTerms {
  struct Column {
    std::string name;
    Element element = Element::f32;
    std::optional<Extent> bounds; ///< closed
    bool operator==(const Column &) const = default;
  };
  struct Table {
    bool isPrivate = false;
    int64_t rows = 0; ///< of the bound table
    std::vector<Column> columns;
    bool operator==(const Table &) const = default;
  };
  std::vector<bool> publicArguments;
  std::vector<Table> tables; ///< by argument; empty for the others
  /// Words of the slots, where no rows are drawn: bounds of statistics follow from them.
  std::vector<uint64_t> slots;
  /// Per argument the range of the elements of a small public tensor that the step does not write; empty where no bound
  /// is asked of them.
  std::vector<std::optional<Extent>> extents;
  /// A text by which caches know the terms: other terms have another one.
  std::string key() const;
};

/// The terms as bytes (Terms.fbs).
std::string writeTerms(const PrivateTerms &terms);
/// Terms from bytes that may be anything. ProgramError, Malformed: what is no number of an argument or element, or
/// beyond the limits of a program.
llvm::Expected<PrivateTerms> readTerms(llvm::StringRef bytes);

} // namespace sojourn::runtime

#endif // SOJOURN_RUNTIME_FACTS_PRIVATETERMS_H
