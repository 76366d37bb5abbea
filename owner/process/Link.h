// SPDX-License-Identifier: Apache-2.0
// Frames over a socket pair, with memory files beside them: what a front and a worker process send each other.
// Buffers below 64 KiB go in the frame; others as descriptors of sealed memory files (memfd), each of which crosses
// once.
#ifndef SOJOURN_OWNER_PROCESS_LINK_H
#define SOJOURN_OWNER_PROCESS_LINK_H

#include "owner/worker/Port.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string_view>
#include <sys/socket.h>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace sojourn::owner {

/// A descriptor that is closed with the object.
class Descriptor {
public:
  explicit Descriptor(int number = -1) : number(number) {}
  Descriptor(Descriptor &&other) noexcept : number(other.release()) {}
  Descriptor &operator=(Descriptor &&other) noexcept;
  ~Descriptor();
  int get() const { return number; }
  int release() { return std::exchange(number, -1); }
  explicit operator bool() const { return number >= 0; }

private:
  int number;
};

/// Descriptors beside the bytes of a message (SCM_RIGHTS), at most kMost.
class PassedDescriptors {
public:
  static constexpr size_t kMost = 250; // the kernel takes 253
  PassedDescriptors(msghdr &message, llvm::ArrayRef<int> descriptors);

private:
  alignas(cmsghdr) char control[CMSG_SPACE(kMost * sizeof(int))];
};

/// Flags that go past the frames, in memory that both sides map.
struct LinkFlags {
  std::atomic<bool> stop = false, finish = false;
  std::atomic<uint32_t> progress = 0;
};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);

/// A memory file of the other side. Its size is sealed; its bytes are not: who checks them copies them first.
class SharedFile {
public:
  /// `count`: of descriptors that came over links, one of which this is while it lives; may be null.
  SharedFile(Descriptor descriptor, std::shared_ptr<std::atomic<size_t>> count);
  ~SharedFile();
  SharedFile(const SharedFile &) = delete;
  SharedFile &operator=(const SharedFile &) = delete;
  int descriptor() const { return file.get(); }
  size_t size() const { return bytes; }
  uint64_t number() const { return own; }
  /// Whether its size is known, and cannot change where it `needsSeals`.
  bool settle(bool needsSeals);
  /// Mapped for reading, once; the descriptor is closed then. `least`: bytes to map, even where the file has become
  /// shorter. Throws std::bad_alloc.
  const void *map(size_t least = 0);
  /// Copies its first bytes, each read once; false where it is shorter. Throws nothing.
  bool copyTo(void *to, size_t size) const;

private:
  Descriptor file;
  size_t bytes = 0;
  const uint64_t own; ///< newFileNumber()
  const std::shared_ptr<std::atomic<size_t>> count;
  void *mapping = nullptr;
};

enum class FrameKind : uint32_t {
  call = 1, ///< a call that is answered
  answer,
  notice, ///< a call that is not: drops
  table,  ///< rows that the worker reads from now on; see Tables.h
  files,  ///< descriptors for the next frame
  trim,   ///< the session is idle: memory that nothing uses goes
};

/// Memory of a frame: buffers of the frame itself are copies; those of files have no address (data() is null) and hold
/// their SharedFile (keep()).
struct Frame {
  FrameKind kind = FrameKind::call;
  std::shared_ptr<const void> keep; ///< holds `bytes`
  std::string_view bytes;           ///< aligned to 64 bytes
  Memory memory;
};

/// The buffer's bytes where this process can read them: itself, or its file mapped. Throws std::bad_alloc.
std::shared_ptr<runtime::Buffer> readable(const std::shared_ptr<runtime::Buffer> &buffer, bool isBorrowed);
/// A copy that the other side cannot change, of at most `size` bytes; the buffer itself where it lies in no file. Null
/// where its file cannot be read. Throws std::bad_alloc.
std::shared_ptr<runtime::Buffer> ownCopy(const std::shared_ptr<runtime::Buffer> &buffer, size_t size = ~size_t{0},
                                         runtime::BufferPool &pool = runtime::BufferPool::global());

/// Bounds on what the other side may send.
struct LinkLimits {
  size_t bytes = kCallBytesMost;                 ///< of a frame, with the buffers in it
  size_t files = size_t{1} << 16;                ///< known at once
  std::shared_ptr<std::atomic<size_t>> allFiles; ///< counts those of all links of the process, as long as they live
  size_t allFilesMost = ~size_t{0};
  bool needsSeals = true; ///< of files that come: the other side is not trusted
  /// Whether memory of sent copies is used again once the other side has answered: it keeps none of it.
  bool recycles = false;
};

/// One end. One thread at a time.
class Link {
public:
  explicit Link(Descriptor socket, const LinkLimits &limits = {});
  ~Link();

  /// Asked about every 25 ms, whether the other side sends or not; false gives up.
  using Waiting = llvm::function_ref<bool()>;
  static bool always() { return true; }

  /// Errors: the other side is gone, or `waiting` gave up. `isOnce`: the files of the frame are not used again.
  /// Throws std::bad_alloc; the link is over then.
  llvm::Error send(FrameKind kind, std::string_view bytes, const Memory &memory, Waiting waiting = always,
                   bool isOnce = false);
  /// Goes before the next frame that is sent, without memory: in room that is there, or not at all (false).
  bool queue(FrameKind kind, std::string_view bytes) noexcept;
  /// The next frame; nothing once the other side is gone. Errors: `waiting` gave up, or the bytes break a rule; then
  /// the link is over. Throws std::bad_alloc.
  /// `buffersMost`: of the frame.
  llvm::Expected<std::optional<Frame>> receive(Waiting waiting = always, size_t buffersMost = kMemoryMost);
  /// Whether frames are queued.
  bool hasQueued() const { return !queued.empty(); }
  /// Sends them.
  llvm::Error flush(Waiting waiting = always);
  /// Memory of this side that the other one maps, for a frame: from 64 KiB on it is sent without a copy. Held until it
  /// is answered. Throws std::bad_alloc.
  std::shared_ptr<runtime::Buffer> room(size_t size) { return pool.allocate(size); }
  /// Frees memory that is kept for frames to come.
  void trim() { pool.trim(); }
  int socket() const { return end.get(); }

private:
  struct Head;
  llvm::Error sendAll(llvm::ArrayRef<std::pair<const void *, size_t>> pieces, llvm::ArrayRef<int> descriptors,
                      Waiting waiting);
  /// Reads until `size` bytes are in `into`; false: the other side is gone.
  llvm::Expected<bool> read(void *into, size_t size, Waiting waiting);
  /// Of one more turn of a loop: whether to go on.
  bool goesOn(Waiting waiting);
  llvm::Error takeFiles(llvm::ArrayRef<uint64_t> numbers, bool isOnce);
  /// A copy in a file; null where none can be made.
  std::shared_ptr<runtime::Buffer> inFile(const runtime::Buffer &buffer, bool isOnce);

  const Descriptor end;
  const LinkLimits limits;
  /// Of what this side sends in files without being in one.
  runtime::BufferPool pool{true};
  std::vector<char> queued;          ///< frames; its room is reserved
  Memory inFlight;                   ///< of the frame that was sent last: the other side reads it until it answers
  std::unordered_set<uint64_t> sent; ///< files that the other side knows
  std::unordered_map<uint64_t, std::shared_ptr<SharedFile>> known; ///< of the other side
  std::unordered_map<uint64_t, std::shared_ptr<SharedFile>> once;  ///< of the frame that is read
  std::deque<std::shared_ptr<SharedFile>> came;                    ///< and not named yet
  std::chrono::steady_clock::time_point asked;                     ///< when `waiting` was
  std::unique_ptr<char[]> staging;
  size_t stagedFrom = 0, stagedTo = 0;

public:
  /// Files of other pools that were closed, to be told with the next frame.
  std::vector<uint64_t> closed;
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_PROCESS_LINK_H
