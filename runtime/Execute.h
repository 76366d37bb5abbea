// SPDX-License-Identifier: Apache-2.0
// The CPU engine's executor: a core-form module becomes an immutable plan, which runs on host tensors, on several
// threads at once. Torch-free header.
#ifndef SOJOURN_RUNTIME_EXECUTE_H
#define SOJOURN_RUNTIME_EXECUTE_H
#include "runtime/Engine.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace sojourn::runtime {

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

} // namespace sojourn::runtime

#endif // SOJOURN_RUNTIME_EXECUTE_H
