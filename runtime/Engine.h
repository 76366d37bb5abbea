// SPDX-License-Identifier: Apache-2.0
// Engines: an engine prepares the code of a verified program and runs it. The CPU executor (Execute.h) is one; a
// second, a reference interpreter, is in test/runtime/engine. This header is free of MLIR and torch.
#ifndef SOJOURN_RUNTIME_ENGINE_H
#define SOJOURN_RUNTIME_ENGINE_H
#include "runtime/Error.h"
#include "runtime/HostTensor.h"
#include "runtime/Stop.h"
#include "runtime/facts/ProgramFacts.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <array>
#include <memory>
#include <string>
#include <vector>

namespace mlir {
class ModuleOp;
} // namespace mlir

namespace sojourn::runtime {

class ArenaPool; // runtime/Buffer.h
class Engine;
class Profile; // runtime/Profile.h

/// Resources of one run. A result's bits do not depend on any of them.
struct RunOptions {
  unsigned threads = 0;           ///< at most this many; 0 = as many as the process has
  BufferPool *buffers = nullptr;  ///< where results come from; null = BufferPool::global()
  ArenaPool *arenas = nullptr;    ///< where intermediate values live; null = ArenaPool::global()
  Profile *profile = nullptr;     ///< gets times of instructions; null = the environment's, if any
  const StopFlag *stop = nullptr; ///< ends the run once it is set; null = none
  /// Whether the run depends on private rows: a profile gets no times of it, and denormals are flushed (Denormals.h).
  bool isPrivate = false;
};

/// Calls of a kernel library, or loops like them, that a stop of the run waits for.
struct LibraryCalls {
  size_t op = 0;     ///< number of the op in the program
  int64_t count = 1; ///< into which its work is cut, evenly
};

class Suspended;

/// Results of a run; or, of one that waits, the rest of it.
struct RunOutcome {
  std::vector<HostTensor> values;
  std::unique_ptr<Suspended> waits;
};

/// A run that sends frames to other owners and waits for theirs.
class Suspended {
public:
  virtual ~Suspended();
  std::vector<std::shared_ptr<Buffer>> frames; ///< to send
  /// Goes on with the frames that came, once. Stop flag, pools and profile are those of `options`; `start`'s may be
  /// gone.
  virtual llvm::Expected<RunOutcome> resume(llvm::ArrayRef<std::shared_ptr<Buffer>> came,
                                            const RunOptions &options) = 0;
};

/// A program that an engine prepared for repeated runs. Immutable: a run changes only its own memory.
class Code {
public:
  explicit Code(const Engine &engine) : engine_(&engine) {}
  virtual ~Code();
  Code(const Code &) = delete;
  Code &operator=(const Code &) = delete;

  const Engine &engine() const { return *engine_; }
  virtual llvm::ArrayRef<ArgSpec> args() const = 0;
  virtual llvm::ArrayRef<ResultSpec> results() const = 0;
  virtual RunMemory runMemory() const = 0;
  virtual llvm::ArrayRef<LibraryCalls> libraryCalls() const = 0;
  /// Memory of the code itself, in bytes: an upper estimate.
  virtual size_t bytes() const = 0;
  /// All or nothing: arguments are never written, results are new (or shared, unwritten) buffers. Thread-safe and
  /// reentrant. Never throws; failures are ProgramError.
  virtual llvm::Expected<std::vector<HostTensor>> run(llvm::ArrayRef<Binding> arguments,
                                                      const RunOptions &options) const = 0;
  /// As `run`, for code that may wait. One that waits copies what it needs later of arguments in borrowed memory.
  virtual llvm::Expected<RunOutcome> start(llvm::ArrayRef<Binding> arguments, const RunOptions &options) const;

private:
  const Engine *engine_;
};

enum class EngineTrait : uint8_t {
#define SOJOURN_ENGINE_TRAIT(name, text) name,
#include "runtime/EngineTraits.def"
};
inline constexpr std::array kEngineTraits = {
#define SOJOURN_ENGINE_TRAIT(name, text) EngineTrait::name,
#include "runtime/EngineTraits.def"
};
/// "exact integer arithmetic", for errors.
llvm::StringRef textOf(EngineTrait trait);

/// Lives as long as the process. Thread-safe.
class Engine {
public:
  virtual ~Engine();
  /// A short name, for errors.
  virtual llvm::StringRef name() const = 0;
  /// Empty where the engine has the trait at this moment; else the reason and the next step, a sentence for errors.
  virtual std::string lacks(EngineTrait trait) const = 0;
  /// Whether it has a kernel for the op of core form (without the dialect's prefix).
  virtual bool hasKernel(llvm::StringRef op) const = 0;
  /// Threads that a run can use, at least 1.
  virtual unsigned threads() const = 0;
  /// Code of a module in core form, verified. ProgramError; Unsupported, with its location, for the first op without a
  /// kernel.
  llvm::Expected<std::unique_ptr<Code>> prepare(mlir::ModuleOp coreModule) const;

private:
  virtual llvm::Expected<std::unique_ptr<Code>> make(mlir::ModuleOp coreModule) const = 0;
};

/// The executor of this process (Execute.h).
const Engine &cpuEngine();

} // namespace sojourn::runtime

#endif // SOJOURN_RUNTIME_ENGINE_H
