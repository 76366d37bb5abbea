// SPDX-License-Identifier: Apache-2.0
// The executor: a core-form module becomes an immutable plan, which runs on host tensors, on several
// threads at once. Torch-free header.
#ifndef SOJOURN_RUNTIME_EXECUTE_H
#define SOJOURN_RUNTIME_EXECUTE_H
#include "runtime/Buffer.h"
#include "runtime/Error.h"
#include "runtime/Stop.h"
#include "runtime/facts/ProgramFacts.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <memory>
#include <string>
#include <utility>
#include <vector>

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

class Profile; // runtime/Profile.h

/// What one run may use. A result's bits do not depend on any of it.
struct RunOptions {
  unsigned threads = 0;           ///< at most this many; 0 = as many as the process has
  BufferPool *buffers = nullptr;  ///< where results come from; null = BufferPool::global()
  ArenaPool *arenas = nullptr;    ///< where intermediate values live; null = ArenaPool::global()
  Profile *profile = nullptr;     ///< gets times of instructions; null = the environment's, if any
  const StopFlag *stop = nullptr; ///< ends the run once it is set; null = none
};

/// Calls of the kernel library, or loops like them, that a stop of the run waits for.
struct LibraryCalls {
  size_t op = 0;     ///< number of the op in the program
  int64_t count = 1; ///< into which its work is cut, evenly
};

/// A program planned for repeated runs. Immutable: what a run changes belongs to the run.
class Executable {
public:
  /// The module must be in core form and verified. Failures are ProgramError.
  static llvm::Expected<std::unique_ptr<Executable>> create(mlir::ModuleOp coreModule);
  ~Executable();

  llvm::ArrayRef<ArgSpec> args() const;
  llvm::ArrayRef<ResultSpec> results() const;
  RunMemory runMemory() const;
  llvm::ArrayRef<LibraryCalls> libraryCalls() const;
  /// An upper estimate of what the plan itself holds: instructions, constants, idle run contexts.
  size_t planBytes() const;
  /// What all values of the program would take, had each its own memory.
  size_t sumOfValueBytes() const;
  /// Instructions of the plan; a chain of elementwise ops is one.
  size_t instructionCount() const;
  /// One line per instruction, for people: number, name, rows it may be split into, location.
  std::string describePlan() const;

  /// All or nothing: inputs are never written, results are new (or shared, unwritten) buffers.
  /// Thread-safe and reentrant. Never throws; failures are ProgramError.
  llvm::Expected<std::vector<HostTensor>> run(llvm::ArrayRef<Binding> args, const RunOptions &options = {}) const;

private:
  struct Impl;
  explicit Executable(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Converts `count` elements as the core op `convert` does. Complex elements are not converted.
/// Row sources use it, so that a column means the same everywhere.
void convertElements(Element from, const void *source, Element to, void *target, int64_t count);

} // namespace sojourn::runtime

#endif // SOJOURN_RUNTIME_EXECUTE_H
