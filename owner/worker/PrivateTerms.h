// SPDX-License-Identifier: Apache-2.0
// The terms of one step on private tables: plain data.
#ifndef SOJOURN_OWNER_WORKER_PRIVATETERMS_H
#define SOJOURN_OWNER_WORKER_PRIVATETERMS_H

#include "runtime/Extent.h"
#include "runtime/Tensor.h"
#include "runtime/terms/StepTerms.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sojourn::owner {

/// All that decides how a program is rewritten, apart from its bytes. The text is the key of the cache.
struct PrivateTerms : terms::StepTerms {
  struct Column {
    std::string name;
    runtime::Element element = runtime::Element::f32;
    std::optional<runtime::Extent> bounds; ///< closed
  };
  struct Table {
    bool isPrivate = false;
    int64_t rows = 0; ///< of the bound table
    std::vector<Column> columns;
  };
  std::vector<bool> publicArguments;
  std::vector<Table> tables; ///< by argument; empty for the others
  /// Words of the slots, where no rows are drawn: bounds of statistics follow from them.
  std::vector<uint64_t> slots;
  /// Per argument the range of the elements of a small public tensor that the step does not write; empty where no bound
  /// is asked of them.
  std::vector<std::optional<runtime::Extent>> extents;
  std::string key() const;
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_WORKER_PRIVATETERMS_H
