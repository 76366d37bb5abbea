// SPDX-License-Identifier: Apache-2.0
// Buffers: a chunk is [header | control block and Buffer | data], so one chunk serves everything
// that std::shared_ptr needs, and freeing it is a push to a free list. The data of a shared chunk lies in its file.
#include "runtime/Buffer.h"

#include "runtime/Limits.h"
#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <map>
#include <mutex>
#include <new>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace sojourn::runtime {

namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kHeaderBytes = 256;
constexpr size_t kIdleFilesMost = 64;
constexpr size_t kMapThreshold = size_t{1} << 20;
constexpr size_t kArenaBytesMin = size_t{64} << 10;

struct ChunkHeader {
  size_t bytes; // of the whole chunk
  bool mapped;
  int descriptor;  // of its memory file, or -1
  char *file;      // that memory
  uint64_t number; // of that file
};

/// Rounds up to 1, 1.25, 1.5 or 1.75 times a power of two: at most a quarter is wasted.
size_t sizeClass(size_t bytes) {
  bytes = std::max<size_t>(bytes, 512);
  size_t step = std::bit_floor(bytes) / 4;
  return (bytes + step - 1) / step * step;
}

void *mapPages(size_t bytes) {
  void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    throw std::bad_alloc();
  }
  if (bytes >= kHugePage) {
    madvise(memory, bytes, MADV_HUGEPAGE);
  }
  return memory;
}

void *newMemory(size_t bytes) { return ::operator new(bytes, std::align_val_t(kAlignment)); }
void deleteMemory(void *memory) { ::operator delete(memory, std::align_val_t(kAlignment)); }

/// A chunk of `bytes` with its data in a memory file that keeps its size; null where none can be made.
char *mapShared(size_t bytes) {
  char *chunk = static_cast<char *>(newMemory(kHeaderBytes));
  const int descriptor = memfd_create("sojourn", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  void *memory = MAP_FAILED;
  if (descriptor >= 0 && ftruncate(descriptor, static_cast<off_t>(bytes)) == 0 &&
      fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0) {
    memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  }
  if (memory == MAP_FAILED) {
    if (descriptor >= 0) {
      close(descriptor);
    }
    deleteMemory(chunk);
    return nullptr;
  }
  *reinterpret_cast<ChunkHeader *>(chunk) = {bytes, false, descriptor, static_cast<char *>(memory), newFileNumber()};
  return chunk;
}

} // namespace

uint64_t newFileNumber() {
  static std::atomic<uint64_t> last = 0;
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

struct BufferPool::State {
  explicit State(bool isShared) : isShared(isShared) {}
  const bool isShared;
  std::mutex mutex;
  std::map<size_t, std::vector<char *>> idle;
  size_t idleBytes = 0, idleFiles = 0;
  size_t systemAllocations = 0;
  std::vector<uint64_t> closed; // numbers of files
  size_t files = 0;             // that are open

  char *take(size_t bytes) {
    size_t whole = sizeClass(bytes);
    {
      std::lock_guard lock(mutex);
      std::vector<char *> &list = idle[whole];
      if (!list.empty()) {
        char *chunk = list.back();
        list.pop_back();
        idleBytes -= whole;
        idleFiles -= reinterpret_cast<ChunkHeader *>(chunk)->descriptor >= 0 ? 1 : 0;
        return chunk;
      }
      ++systemAllocations;
    }
    if (isShared && whole >= kSharedBytes) {
      if (char *chunk = mapShared(whole)) {
        std::lock_guard lock(mutex);
        closed.reserve(closed.size() + ++files); // giving back needs no memory
        return chunk;
      }
    }
    bool mapped = whole >= kMapThreshold;
    char *chunk = static_cast<char *>(mapped ? mapPages(whole) : newMemory(whole));
    *reinterpret_cast<ChunkHeader *>(chunk) = {whole, mapped, -1, nullptr, 0};
    return chunk;
  }

  void give(char *chunk) {
    ChunkHeader header = *reinterpret_cast<ChunkHeader *>(chunk);
    {
      std::lock_guard lock(mutex);
      const bool isFile = header.descriptor >= 0;
      if (idleBytes + header.bytes <= limits::kIdlePoolBytes && (!isFile || idleFiles < kIdleFilesMost)) {
        idle[header.bytes].push_back(chunk);
        idleBytes += header.bytes;
        idleFiles += isFile ? 1 : 0;
        return;
      }
      noteClosed(header);
    }
    release(chunk);
  }

  void noteClosed(const ChunkHeader &header) {
    if (header.descriptor >= 0) {
      closed.push_back(header.number);
      --files;
    }
  }

  static void release(char *chunk) {
    ChunkHeader header = *reinterpret_cast<ChunkHeader *>(chunk);
    if (header.descriptor >= 0) {
      munmap(header.file, header.bytes);
      close(header.descriptor);
    }
    if (header.mapped) {
      munmap(chunk, header.bytes);
    } else {
      deleteMemory(chunk);
    }
  }

  ~State() {
    for (auto &[bytes, list] : idle) {
      for (char *chunk : list) {
        release(chunk);
      }
    }
  }
};

namespace {

/// Puts the control block into the chunk's header and gives the chunk back when both are done.
template <typename T>
struct ChunkAllocator {
  using value_type = T;
  std::shared_ptr<BufferPool::State> state;
  char *chunk;

  ChunkAllocator(std::shared_ptr<BufferPool::State> state, char *chunk) : state(std::move(state)), chunk(chunk) {}
  template <typename U>
  ChunkAllocator(const ChunkAllocator<U> &other) : state(other.state), chunk(other.chunk) {}

  T *allocate(size_t count) {
    static_assert(sizeof(T) <= kHeaderBytes - kAlignment && alignof(T) <= kAlignment);
    return reinterpret_cast<T *>(chunk + kAlignment);
  }
  void deallocate(T *, size_t) { state->give(chunk); }
  template <typename U>
  bool operator==(const ChunkAllocator<U> &other) const {
    return chunk == other.chunk;
  }
};

} // namespace

BufferPool::BufferPool(bool isShared) : state_(std::make_shared<State>(isShared)) {}
BufferPool::~BufferPool() = default;

std::shared_ptr<Buffer> BufferPool::allocate(size_t size) {
  if (size > SIZE_MAX / 4) { // no room for the header, and for rounding
    throw std::bad_alloc();
  }
  char *chunk = state_->take(kHeaderBytes + size);
  const ChunkHeader &header = *reinterpret_cast<ChunkHeader *>(chunk);
  char *data = header.file ? header.file : chunk + kHeaderBytes;
  return std::allocate_shared<Buffer>(ChunkAllocator<Buffer>(state_, chunk), data, size, header.descriptor,
                                      header.number);
}

bool BufferPool::isShared() const { return state_->isShared; }

std::vector<uint64_t> BufferPool::takeClosedFiles() {
  std::lock_guard lock(state_->mutex);
  std::vector<uint64_t> closed(state_->closed); // which keeps its room
  state_->closed.clear();
  return closed;
}

void BufferPool::trim() {
  std::map<size_t, std::vector<char *>> gone;
  {
    std::lock_guard lock(state_->mutex);
    gone.swap(state_->idle);
    state_->idleBytes = state_->idleFiles = 0;
    for (auto &[bytes, list] : gone) {
      for (char *chunk : list) {
        state_->noteClosed(*reinterpret_cast<ChunkHeader *>(chunk));
      }
    }
  }
  for (auto &[bytes, list] : gone) {
    for (char *chunk : list) {
      State::release(chunk);
    }
  }
}

size_t BufferPool::chunkBytes(size_t size) { return sizeClass(kHeaderBytes + size); }

size_t BufferPool::systemAllocations() const {
  std::lock_guard lock(state_->mutex);
  return state_->systemAllocations;
}

BufferPool &BufferPool::global() {
  static BufferPool *pool = new BufferPool; // never destroyed: buffers may live in other statics
  return *pool;
}

std::shared_ptr<Buffer> copyOf(const void *data, size_t size, BufferPool &pool) {
  std::shared_ptr<Buffer> copy = pool.allocate(size);
  if (size != 0) {
    std::memcpy(copy->data(), data, size);
  }
  return copy;
}

Arena::Arena(size_t bytes) : size_((bytes + 4095) / 4096 * 4096) {
  if (size_ != 0) {
    data_ = static_cast<std::byte *>(mapPages(size_));
    std::memset(data_, 0, size_);
  }
}

Arena::~Arena() {
  if (data_ != nullptr) {
    munmap(data_, size_);
  }
}

// --- Arenas for runs ------------------------------------------------------------------------------

struct ArenaPool::State {
  mutable std::mutex mutex;
  std::vector<std::unique_ptr<Arena>> idle; ///< the longest unused first
  size_t idleBytesMax = 0, idleBytes = 0, leasedBytes = 0, peakBytes = 0;

  /// An idle arena that fits and is not far too large, so that small runs leave large arenas alone.
  std::unique_ptr<Arena> takeIdle(size_t bytes) {
    auto best = idle.end();
    for (auto arena = idle.begin(); arena != idle.end(); ++arena) {
      size_t size = (*arena)->size();
      if (size >= bytes && size / 2 <= bytes && (best == idle.end() || size < (*best)->size())) {
        best = arena;
      }
    }
    if (best == idle.end()) {
      return nullptr;
    }
    std::unique_ptr<Arena> arena = std::move(*best);
    idle.erase(best);
    idleBytes -= arena->size();
    return arena;
  }
};

ArenaPool::ArenaPool() : ArenaPool(limits::kIdleArenaBytes) {}

ArenaPool::ArenaPool(size_t idleBytesMax) : state_(std::make_unique<State>()) { state_->idleBytesMax = idleBytesMax; }
ArenaPool::~ArenaPool() = default;

ArenaPool::Lease::Lease(Lease &&other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)), arena_(std::move(other.arena_)) {}

ArenaPool::Lease &ArenaPool::Lease::operator=(Lease &&other) noexcept {
  std::swap(pool_, other.pool_);
  std::swap(arena_, other.arena_);
  return *this;
}

ArenaPool::Lease::~Lease() {
  if (arena_) {
    pool_->give(std::move(arena_));
  }
}

ArenaPool::Lease ArenaPool::acquire(size_t bytes) {
  Lease lease;
  if (bytes == 0) {
    return lease;
  }
  // Whole size classes, so that plans of similar sizes share arenas.
  bytes = std::max(sizeClass(bytes), kArenaBytesMin);
  {
    std::lock_guard lock(state_->mutex);
    lease.arena_ = state_->takeIdle(bytes);
  }
  if (!lease.arena_) {
    lease.arena_ = std::make_unique<Arena>(bytes); // touched outside the lock
  }
  lease.pool_ = this;
  std::lock_guard lock(state_->mutex);
  state_->leasedBytes += lease.arena_->size();
  state_->peakBytes = std::max(state_->peakBytes, state_->leasedBytes + state_->idleBytes);
  return lease;
}

void ArenaPool::give(std::unique_ptr<Arena> arena) {
  std::vector<std::unique_ptr<Arena>> dropped; // unmapped outside the lock
  std::lock_guard lock(state_->mutex);
  state_->leasedBytes -= arena->size();
  if (arena->size() > state_->idleBytesMax) {
    dropped.push_back(std::move(arena));
    return;
  }
  while (state_->idleBytes + arena->size() > state_->idleBytesMax) {
    state_->idleBytes -= state_->idle.front()->size();
    dropped.push_back(std::move(state_->idle.front()));
    state_->idle.erase(state_->idle.begin());
  }
  state_->idleBytes += arena->size();
  state_->idle.push_back(std::move(arena));
}

void ArenaPool::trim() {
  std::vector<std::unique_ptr<Arena>> gone; // unmapped outside the lock
  std::lock_guard lock(state_->mutex);
  gone.swap(state_->idle);
  state_->idleBytes = 0;
}

size_t ArenaPool::leasedBytes() const {
  std::lock_guard lock(state_->mutex);
  return state_->leasedBytes;
}

size_t ArenaPool::idleBytes() const {
  std::lock_guard lock(state_->mutex);
  return state_->idleBytes;
}

size_t ArenaPool::peakBytes() const {
  std::lock_guard lock(state_->mutex);
  return state_->peakBytes;
}

ArenaPool &ArenaPool::global() {
  static ArenaPool *pool = new ArenaPool; // never destroyed: runs may end late
  return *pool;
}

} // namespace sojourn::runtime
