// SPDX-License-Identifier: Apache-2.0
// The way from the front of an owner to a worker: bytes and memory. Knows neither MLIR nor torch.
#ifndef SOJOURN_OWNER_WORKER_PORT_H
#define SOJOURN_OWNER_WORKER_PORT_H

#include "owner/Patience.h"
#include "runtime/Buffer.h"
#include "runtime/Stop.h"
#include "runtime/Tensor.h"

#include "llvm/Support/Error.h"

#include <atomic>
#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace sojourn::owner {

class Dataset;

/// A value that a worker holds: immutable, known by a number of the front.
struct Value {
  runtime::TensorType type;
  uint8_t engine = 0; ///< of the owner's engines; there is one
  uint64_t id = 0;    ///< 0: none
};

using Memory = std::vector<std::shared_ptr<runtime::Buffer>>;

/// A member of a group, whose part of a joint program is meant; no parties: the program as it is.
struct RoleOfGroup {
  uint8_t role = 0, parties = 0;
  bool isMasked = false; ///< sums over rows of three members or more
  friend auto operator<=>(const RoleOfGroup &, const RoleOfGroup &) = default;
};

/// Bounds on a call and its answer, beside those of facts and verdicts.
inline constexpr size_t kPartsMost = 4'096;           ///< of a run
inline constexpr size_t kMemoryMost = 4'096 * 65'536; ///< buffers beside a call or an answer
inline constexpr size_t kCallBytesMost = size_t{1} << 30;

struct WorkerCall {
  std::string_view bytes; ///< runtime/wire/Worker.fbs, Call; aligned to 8 bytes
  Memory memory = {};
  /// Ends the work once it is set; null: nothing does.
  const runtime::StopFlag *stop = nullptr;
  /// No further part of a run begins once it is set; null: nothing does.
  const std::atomic<bool> *finish = nullptr;
  /// Buffers of the answer, at most.
  size_t answerBuffers = 16;
  /// Counts the parts that have run; null: not wanted.
  std::atomic<uint32_t> *progress = nullptr;
  /// How long the call waits for a process to run in.
  Patience patience = {};
};

struct WorkerAnswer {
  std::shared_ptr<const void> keep; ///< holds `bytes`
  std::string_view bytes;           ///< Answer; untrusted
  Memory memory;
};

/// Thread-safe.
class WorkerPort {
public:
  virtual ~WorkerPort() = default;
  /// Throws std::bad_alloc where memory is short, and nothing else.
  virtual WorkerAnswer call(const WorkerCall &call) = 0;
  /// Rows that the worker reads from now on, under a number of the front; and no longer.
  virtual void map(uint64_t table, std::shared_ptr<const Dataset> rows) = 0;
  virtual void unmap(uint64_t table) = 0;
  /// Threads that kernels of the worker can use, at least 1.
  virtual unsigned threads() const = 0;

  /// A worker for one session alone; null: sessions share this one.
  virtual std::unique_ptr<WorkerPort> forSession() { return nullptr; }
  /// Gets the worker ready for calls. A number, from 1, that changes when it has lost all that it held. RequestErrors.
  virtual llvm::Expected<uint64_t> begin(const runtime::StopFlag *, const Patience &) { return 1; }
  /// No calls come before the next `begin`: whatever the worker takes up may go to others.
  virtual void rest() noexcept {}
  /// Ends the worker, which has not all that it should have: the next `begin` starts another one.
  virtual void end() noexcept {}
  /// The first `size` bytes of a value of an answer, in memory that the worker cannot change; null where they cannot be
  /// read.
  virtual std::shared_ptr<runtime::Buffer> taken(std::shared_ptr<runtime::Buffer> value, size_t) { return value; }
  /// Memory for a call, which the worker reads where it lies, and may change. Used again once the call is answered.
  /// Throws std::bad_alloc.
  virtual std::shared_ptr<runtime::Buffer> room(size_t size) { return runtime::BufferPool::global().allocate(size); }
};

/// Makes the worker of one owner.
using WorkerFactory = std::function<std::unique_ptr<WorkerPort>()>;

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_WORKER_PORT_H
