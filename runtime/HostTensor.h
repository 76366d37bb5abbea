// SPDX-License-Identifier: Apache-2.0
// Arguments and results of a run: tensors in host memory, and rows of tables. Knows neither MLIR nor torch.
#ifndef SOJOURN_RUNTIME_HOSTTENSOR_H
#define SOJOURN_RUNTIME_HOSTTENSOR_H
#include "runtime/Buffer.h"
#include "runtime/Tensor.h"
#include "llvm/ADT/ArrayRef.h"
#include <memory>
#include <string>

namespace sojourn::runtime {

/// A dense row-major tensor in host memory. The buffer may be larger than the tensor.
struct HostTensor {
  TensorType type;
  std::shared_ptr<Buffer> buffer;
};

/// Rows of a dataset, as `read_rows` reads them. Calls may be concurrent, within one run too.
class RowSource {
public:
  virtual ~RowSource();
  virtual int64_t rows() const = 0;
  /// Writes [indices.size(), columns.size()] elements for columns of plain numbers, or [indices.size(),
  /// entry sizes...] for one shaped column, row-major, converted to `element` as `convert` does; an index
  /// outside [0, rows()) gives zeros.
  virtual void readRows(llvm::ArrayRef<std::string> columns, llvm::ArrayRef<int64_t> indices, Element element,
                        void *out) const = 0;
};

/// One argument of a run: a tensor, or the rows of a table.
struct Binding {
  HostTensor tensor;
  const RowSource *table = nullptr;
};

/// Converts `count` elements as the core op `convert` does. Complex elements are not converted.
/// Row sources use it, so that a column means the same everywhere.
void convertElements(Element from, const void *source, Element to, void *target, int64_t count);

} // namespace sojourn::runtime

#endif // SOJOURN_RUNTIME_HOSTTENSOR_H
