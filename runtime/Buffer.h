// SPDX-License-Identifier: Apache-2.0
// Memory of tensors: aligned, counted buffers from a pool that recycles, which other processes may map, and arenas that
// runs lease.
#ifndef SOJOURN_RUNTIME_BUFFER_H
#define SOJOURN_RUNTIME_BUFFER_H
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace sojourn::runtime {

inline constexpr size_t kAlignment = 64;
/// Bytes from which buffers of a shared pool have a memory file.
inline constexpr size_t kSharedBytes = size_t{64} << 10;

/// A block of memory, 64-byte aligned where it comes from a pool. Shared by reference; whoever shares it does not
/// write it.
class Buffer {
public:
  Buffer(void *data, size_t size, int descriptor = -1, uint64_t file = 0, std::shared_ptr<void> keep = nullptr)
      : data_(data), size_(size), descriptor_(descriptor), file_(file), keep_(std::move(keep)) {}
  /// Memory of somebody else, aligned for its elements, that is bound to a run while it lives. A result that is this
  /// argument has the same buffer: who keeps it copies it. `keep`: what it lies in, if that is to live as long.
  static std::shared_ptr<Buffer> borrow(const void *data, size_t size, std::shared_ptr<void> keep = nullptr) {
    auto buffer = std::make_shared<Buffer>(const_cast<void *>(data), size, -1, 0, std::move(keep));
    buffer->isBorrowed_ = true;
    return buffer;
  }
  bool isBorrowed() const { return isBorrowed_; }
  Buffer(const Buffer &) = delete;
  Buffer &operator=(const Buffer &) = delete;

  void *data() { return data_; }
  const void *data() const { return data_; }
  size_t size() const { return size_; }
  /// Of the memory file that it begins; -1: it lies in none. Open while the buffer lives.
  int descriptor() const { return descriptor_; }
  /// Number of that file, which no other one of this process ever has; 0: it lies in none.
  uint64_t file() const { return file_; }
  /// What the memory lies in, where that is no chunk of a pool; null: nothing.
  const std::shared_ptr<void> &keep() const { return keep_; }

private:
  void *data_;
  size_t size_;
  int descriptor_;
  uint64_t file_;
  bool isBorrowed_ = false;
  std::shared_ptr<void> keep_;
};

/// A number for a memory file, from 1.
uint64_t newFileNumber();

/// Hands out buffers and takes them back when their last reference goes: a warm allocation costs a
/// lock and a list operation, never malloc. Thread-safe. Buffers may outlive the pool.
class BufferPool {
public:
  struct State;
  /// `isShared`: large buffers lie in memory files (memfd), each in its own, as long as the process may open more. A
  /// file has nothing but the bytes of buffers. Files are recycled: whoever maps one sees later buffers of the pool,
  /// too.
  explicit BufferPool(bool isShared = false);
  ~BufferPool();
  /// Contents are undefined. A size of 0 gives a valid, empty buffer. Throws std::bad_alloc.
  std::shared_ptr<Buffer> allocate(size_t size);
  /// Memory of a buffer of `size` bytes, with its header and rounding, in bytes.
  static size_t chunkBytes(size_t size);
  bool isShared() const;
  /// Numbers of the files that have been closed since the last call, for those who know them by number.
  std::vector<uint64_t> takeClosedFiles();
  /// Gives the system what no buffer uses.
  void trim();
  /// Blocks asked from the system so far (for tests).
  size_t systemAllocations() const;
  /// The pool that is used where none is given.
  static BufferPool &global();

private:
  std::shared_ptr<State> state_;
};

/// A copy of bytes.
std::shared_ptr<Buffer> copyOf(const void *data, size_t size, BufferPool &pool = BufferPool::global());

/// One mapping, with huge pages where it is large, touched once when it is made.
class Arena {
public:
  explicit Arena(size_t bytes);
  ~Arena();
  Arena(const Arena &) = delete;
  Arena &operator=(const Arena &) = delete;
  std::byte *data() const { return data_; }
  size_t size() const { return size_; }

private:
  std::byte *data_ = nullptr;
  size_t size_ = 0;
};

/// Arenas for runs: recycled, counted, bounded. A warm run gets one that was touched before. Thread-safe;
/// the pool outlives its leases.
class ArenaPool {
public:
  struct State;
  /// Exclusive use of one arena, which goes back to the pool with the lease. Contents are undefined.
  class Lease {
  public:
    Lease() = default;
    Lease(Lease &&other) noexcept;
    Lease &operator=(Lease &&other) noexcept;
    ~Lease();
    /// null where nothing was asked for.
    std::byte *data() const { return arena_ ? arena_->data() : nullptr; }
    /// At least the bytes asked for.
    size_t size() const { return arena_ ? arena_->size() : 0; }

  private:
    friend class ArenaPool;
    ArenaPool *pool_ = nullptr;
    std::unique_ptr<Arena> arena_;
  };

  /// Keeps at most `idleBytesMax` bytes that no run uses; what was given back longest ago goes first.
  explicit ArenaPool(size_t idleBytesMax);
  /// limits::kIdleArenaBytes of them.
  ArenaPool();
  ~ArenaPool();
  /// Throws std::bad_alloc.
  Lease acquire(size_t bytes);
  /// Bytes of the arenas that runs hold now.
  size_t leasedBytes() const;
  /// Gives the system what no run uses.
  void trim();
  /// Bytes kept for the next run.
  size_t idleBytes() const;
  /// The most that leased and idle arenas took together so far.
  size_t peakBytes() const;
  /// The pool that is used where none is given.
  static ArenaPool &global();

private:
  void give(std::unique_ptr<Arena> arena);
  std::unique_ptr<State> state_;
};

} // namespace sojourn::runtime

#endif // SOJOURN_RUNTIME_BUFFER_H
