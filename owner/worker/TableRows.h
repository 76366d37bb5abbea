// SPDX-License-Identifier: Apache-2.0
// Rows of a table, as `read_rows` reads them.
#ifndef SOJOURN_OWNER_WORKER_TABLEROWS_H
#define SOJOURN_OWNER_WORKER_TABLEROWS_H

#include "owner/Dataset.h"
#include "runtime/HostTensor.h"

#include <memory>

namespace sojourn::owner {

/// Immutable. `convertElements` makes each element the same as in every other run.
class TableRows final : public runtime::RowSource {
public:
  explicit TableRows(std::shared_ptr<const Dataset> dataset) : dataset(std::move(dataset)) {}
  int64_t rows() const override { return dataset->rows(); }
  /// Plain columns: out is [indices, names]. One shaped column: out is [indices, dims...]; it has to
  /// be asked for alone.
  void readRows(llvm::ArrayRef<std::string> columnNames, llvm::ArrayRef<int64_t> indices, runtime::Element element,
                void *out) const override;

  const std::shared_ptr<const Dataset> &table() const { return dataset; }

private:
  const std::shared_ptr<const Dataset> dataset;
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_WORKER_TABLEROWS_H
