// SPDX-License-Identifier: Apache-2.0
// Arguments of a rehearsal: numbers without meaning in the place of private ones.
#ifndef SOJOURN_OWNER_WORKER_MADEUP_H
#define SOJOURN_OWNER_WORKER_MADEUP_H

#include "owner/Dataset.h"
#include "runtime/HostTensor.h"

#include <memory>

namespace sojourn::runtime {
class BufferPool;
} // namespace sojourn::runtime

namespace sojourn::owner {

/// Numbers in [-8, 8), evenly distributed and always the same; truncated for integers, both truth values for booleans.
runtime::HostTensor madeUp(const runtime::TensorType &type, runtime::BufferPool &buffers);

/// As many rows as the table has, none of which is read.
class MadeUpRows final : public runtime::RowSource {
public:
  explicit MadeUpRows(std::shared_ptr<const Dataset> table) : table(std::move(table)) {}
  int64_t rows() const override { return table->rows(); }
  void readRows(llvm::ArrayRef<std::string> columnNames, llvm::ArrayRef<int64_t> indices, runtime::Element element,
                void *out) const override;

private:
  const std::shared_ptr<const Dataset> table; ///< its shapes
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_WORKER_MADEUP_H
