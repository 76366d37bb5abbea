// SPDX-License-Identifier: Apache-2.0
// The memory that one import takes, under one limit.
#ifndef SOJOURN_OWNER_IMPORTMEMORY_H
#define SOJOURN_OWNER_IMPORTMEMORY_H

#include "llvm/ADT/Twine.h"
#include "llvm/Support/Error.h"

#include <arrow/memory_pool.h>
#include <arrow/util/cancel.h>
#include <atomic>
#include <cstdint>

namespace sojourn::owner {

/// Counts what Arrow allocates, as its pool, and what else an import says that it takes. What a file claims about its
/// sizes is held against it before anything is allocated, so that a small file cannot fill the memory. Thread-safe.
class ImportMemory final : public arrow::MemoryPool {
public:
  /// In bytes; 0: three quarters of the machine's memory.
  explicit ImportMemory(int64_t limit);
  /// One that lives as long as the process: tasks of Arrow's threads may drop memory a moment after a text was read, or
  /// could not be.
  static ImportMemory &lasting(int64_t limit);

  int64_t limit() const { return most; }
  /// Memory outside of the pool, until the import ends. `what` begins the error: "'a.npz' unpacks to".
  llvm::Error take(int64_t bytes, const llvm::Twine &what);
  /// An error unless `bytes` fit now.
  llvm::Error check(int64_t bytes, const llvm::Twine &what) const;
  /// Arrow's reader of texts aborts where an allocation fails. For it they succeed, and the first one beyond the limit
  /// stops the reader by `token`, within some blocks of text.
  void stopBeyond(bool isStopping) { stops = isStopping; }
  arrow::StopToken token() { return stop.token(); }
  bool isBeyond() const { return used > most; }
  /// What Arrow's error of a full pool means, as the end of a sentence about a file.
  std::string full() const;

  using MemoryPool::Allocate;
  using MemoryPool::Free;
  using MemoryPool::Reallocate;
  arrow::Status Allocate(int64_t size, int64_t alignment, uint8_t **out) override;
  arrow::Status Reallocate(int64_t before, int64_t after, int64_t alignment, uint8_t **memory) override;
  void Free(uint8_t *memory, int64_t size, int64_t alignment) override;
  int64_t bytes_allocated() const override { return used; }
  int64_t max_memory() const override { return highest; }
  int64_t total_bytes_allocated() const override { return total; }
  int64_t num_allocations() const override { return allocations; }
  std::string backend_name() const override { return base.backend_name(); }

private:
  bool charge(int64_t bytes);
  /// Of an allocation of Arrow.
  bool admit(int64_t bytes);

  arrow::MemoryPool &base;
  const int64_t most;
  std::atomic<bool> stops = false;
  arrow::StopSource stop;
  std::atomic<int64_t> used = 0, highest = 0, total = 0, allocations = 0;
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_IMPORTMEMORY_H
