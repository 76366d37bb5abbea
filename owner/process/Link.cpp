// SPDX-License-Identifier: Apache-2.0
// Frames and memory files over a socket (see Link.h).
#include "owner/process/Link.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <new>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

namespace sojourn::owner {

using llvm::Twine;

namespace {

constexpr uint64_t kMagic = 0x314b4e494c4e4a53; // "SJNLINK1"
constexpr size_t kStagingBytes = size_t{64} << 10;
constexpr size_t kPiecesAtOnce = 512;
constexpr size_t kQueueBytes = size_t{16} << 10;
constexpr size_t kAlign = 64;
/// Of the wait in one system call.
constexpr suseconds_t kWaitUs = 25'000;
constexpr uint64_t kNoBuffer = ~uint64_t{0};

/// Of one buffer. file: 0 where it lies in the frame; kNoBuffer where there is none.
struct Entry {
  uint64_t file, size;
};

size_t padded(size_t size) { return llvm::alignTo(size, kAlign); }

llvm::Error broken(const Twine &what) { return llvm::createStringError("the frame " + what); }

struct AlignedDelete {
  void operator()(std::byte *memory) const { ::operator delete(memory, std::align_val_t(kAlign)); }
};

std::shared_ptr<std::byte> alignedBytes(size_t size) {
  return {static_cast<std::byte *>(::operator new(std::max<size_t>(size, 1), std::align_val_t(kAlign))),
          AlignedDelete()};
}

void setWait(int socket, int option) {
  timeval wait{0, kWaitUs};
  setsockopt(socket, SOL_SOCKET, option, &wait, sizeof(wait));
}

} // namespace

Descriptor &Descriptor::operator=(Descriptor &&other) noexcept {
  if (number >= 0 && this != &other) {
    close(number);
  }
  number = this == &other ? number : other.release();
  return *this;
}

Descriptor::~Descriptor() {
  if (number >= 0) {
    close(number);
  }
}

PassedDescriptors::PassedDescriptors(msghdr &message, llvm::ArrayRef<int> descriptors) {
  if (descriptors.empty()) {
    return;
  }
  message.msg_control = control;
  message.msg_controllen = CMSG_SPACE(descriptors.size() * sizeof(int));
  std::memset(control, 0, message.msg_controllen);
  cmsghdr *header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
  std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size() * sizeof(int));
}

SharedFile::SharedFile(Descriptor descriptor, std::shared_ptr<std::atomic<size_t>> count)
    : file(std::move(descriptor)), own(runtime::newFileNumber()), count(std::move(count)) {
  if (this->count) {
    ++*this->count;
  }
}

SharedFile::~SharedFile() {
  if (mapping) {
    munmap(mapping, bytes);
  }
  if (count) {
    --*count;
  }
}

bool SharedFile::settle(bool needsSeals) {
  constexpr int kNeeded = F_SEAL_SHRINK | F_SEAL_GROW;
  const int seals = fcntl(file.get(), F_GET_SEALS);
  const bool isSealed = !needsSeals || (seals >= 0 && (seals & kNeeded) == kNeeded);
  const off_t size = lseek(file.get(), 0, SEEK_END); // fstat may ask for a path, which a worker may not
  bytes = static_cast<size_t>(std::max<off_t>(size, 0));
  return isSealed && (size > 0 || !needsSeals);
}

const void *SharedFile::map(size_t least) {
  if (!mapping) {
    bytes = std::max(bytes, least);
    void *made = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file.get(), 0);
    if (made == MAP_FAILED) {
      throw std::bad_alloc();
    }
    mapping = made;
    file = Descriptor();
  }
  return mapping;
}

bool SharedFile::copyTo(void *to, size_t size) const {
  if (mapping) { // an earlier call has mapped the memory, which the other side uses again
    std::memcpy(to, mapping, std::min(size, bytes));
    return size <= bytes;
  }
  for (size_t done = 0; done < size;) {
    const ssize_t got = pread(file.get(), static_cast<char *>(to) + done, size - done, static_cast<off_t>(done));
    if (got <= 0) {
      return false;
    }
    done += static_cast<size_t>(got);
  }
  return true;
}

std::shared_ptr<runtime::Buffer> readable(const std::shared_ptr<runtime::Buffer> &buffer, bool isBorrowed) {
  if (!buffer || buffer->data() || !buffer->keep()) {
    return buffer;
  }
  const void *data = static_cast<SharedFile *>(buffer->keep().get())->map();
  if (isBorrowed) {
    return runtime::Buffer::borrow(data, buffer->size(), buffer->keep());
  }
  return std::make_shared<runtime::Buffer>(const_cast<void *>(data), buffer->size(), -1, 0, buffer->keep());
}

std::shared_ptr<runtime::Buffer> ownCopy(const std::shared_ptr<runtime::Buffer> &buffer, size_t size,
                                         runtime::BufferPool &pool) {
  if (!buffer || buffer->data() || !buffer->keep()) {
    return buffer;
  }
  auto copy = pool.allocate(std::min(size, buffer->size()));
  return static_cast<SharedFile *>(buffer->keep().get())->copyTo(copy->data(), copy->size()) ? copy : nullptr;
}

struct Link::Head {
  uint64_t magic;
  FrameKind kind;
  uint32_t buffers, files, closed;
  uint32_t isOnce, reserved;
  uint64_t bytes, inFrame; ///< of the call or answer; of the buffers, padded
};

Link::Link(Descriptor socket, const LinkLimits &limits)
    : end(std::move(socket)), limits(limits), staging(std::make_unique_for_overwrite<char[]>(kStagingBytes)) {
  queued.reserve(kQueueBytes);
  setWait(end.get(), SO_SNDTIMEO);
}

Link::~Link() = default;

bool Link::goesOn(Waiting waiting) {
  const auto now = std::chrono::steady_clock::now();
  if (now - asked < std::chrono::microseconds(kWaitUs)) {
    return true;
  }
  asked = now;
  return waiting();
}

llvm::Error Link::sendAll(llvm::ArrayRef<std::pair<const void *, size_t>> pieces, llvm::ArrayRef<int> descriptors,
                          Waiting waiting) {
  std::vector<iovec> vectors;
  vectors.reserve(pieces.size());
  for (const auto &[data, size] : pieces) {
    if (size > 0) {
      vectors.push_back({const_cast<void *>(data), size});
    }
  }
  for (size_t next = 0; next < vectors.size();) {
    msghdr message{};
    message.msg_iov = &vectors[next];
    message.msg_iovlen = std::min(kPiecesAtOnce, vectors.size() - next);
    const PassedDescriptors passed(message, descriptors);
    const ssize_t count = sendmsg(end.get(), &message, MSG_NOSIGNAL);
    if (count < 0) {
      const int error = errno;
      if ((error == EINTR || error == EAGAIN || error == EWOULDBLOCK) && goesOn(waiting)) {
        continue;
      }
      return llvm::createStringError("cannot send a frame: " + std::string(strerror(error)));
    }
    if (!goesOn(waiting)) {
      return llvm::createStringError("cannot send a frame in time");
    }
    descriptors = {};
    for (auto left = static_cast<size_t>(count); left > 0;) {
      iovec &first = vectors[next];
      const size_t part = std::min(left, first.iov_len);
      first.iov_base = static_cast<char *>(first.iov_base) + part;
      first.iov_len -= part;
      left -= part;
      next += first.iov_len == 0 ? 1 : 0;
    }
  }
  return llvm::Error::success();
}

llvm::Error Link::send(FrameKind kind, std::string_view bytes, const Memory &memory, Waiting waiting, bool isOnce) {
  std::vector<Entry> entries;
  Memory held;
  std::vector<const runtime::Buffer *> inFrame;
  std::vector<uint64_t> numbers;
  std::vector<int> descriptors;
  size_t frameBytes = 0;
  entries.reserve(memory.size());
  for (const auto &given : memory) {
    if (!given) {
      entries.push_back({kNoBuffer, 0});
      continue;
    }
    const runtime::Buffer *buffer = given.get();
    if (buffer->file() == 0 && buffer->size() >= runtime::kSharedBytes) {
      held.push_back(inFile(*buffer, isOnce));
      buffer = held.back().get();
    }
    if (buffer->file() == 0) {
      inFrame.push_back(buffer);
      frameBytes += padded(buffer->size());
      entries.push_back({0, buffer->size()});
      continue;
    }
    entries.push_back({buffer->file(), buffer->size()});
    if (isOnce ? !llvm::is_contained(numbers, buffer->file()) : sent.insert(buffer->file()).second) {
      numbers.push_back(buffer->file());
      descriptors.push_back(buffer->descriptor());
    }
  }
  for (uint64_t gone : pool.takeClosedFiles()) {
    closed.push_back(gone);
  }
  llvm::erase_if(closed, [&](uint64_t number) { return sent.erase(number) == 0; });
  asked = std::chrono::steady_clock::now();
  llvm::ArrayRef<int> left(descriptors);
  Head head{kMagic, FrameKind::files, 0, 0, 0, isOnce, 0, 0, 0};
  while (left.size() > PassedDescriptors::kMost) {
    if (llvm::Error error = sendAll({{&head, sizeof(head)}}, left.take_front(PassedDescriptors::kMost), waiting)) {
      return error;
    }
    left = left.drop_front(PassedDescriptors::kMost);
  }
  head = {kMagic,
          kind,
          static_cast<uint32_t>(entries.size()),
          static_cast<uint32_t>(numbers.size()),
          static_cast<uint32_t>(closed.size()),
          isOnce,
          0,
          bytes.size(),
          frameBytes};
  static constexpr std::byte kZeros[kAlign] = {};
  std::vector<std::pair<const void *, size_t>> pieces;
  pieces.reserve(7 + 2 * inFrame.size());
  pieces.emplace_back(queued.data(), queued.size());
  pieces.emplace_back(&head, sizeof(head));
  pieces.emplace_back(entries.data(), entries.size() * sizeof(Entry));
  pieces.emplace_back(numbers.data(), numbers.size() * sizeof(uint64_t));
  pieces.emplace_back(closed.data(), closed.size() * sizeof(uint64_t));
  pieces.emplace_back(bytes.data(), bytes.size());
  pieces.emplace_back(kZeros, padded(bytes.size()) - bytes.size());
  for (const runtime::Buffer *buffer : inFrame) {
    pieces.emplace_back(buffer->data(), buffer->size());
    pieces.emplace_back(kZeros, padded(buffer->size()) - buffer->size());
  }
  llvm::Error error = sendAll(pieces, left, waiting);
  queued.clear();
  closed.clear();
  if (limits.recycles && !isOnce) {
    inFlight = std::move(held);
  } else {
    for (const auto &buffer : held) {
      closed.push_back(buffer->file());
    }
  }
  return error;
}

bool Link::queue(FrameKind kind, std::string_view bytes) noexcept {
  const Head head{kMagic, kind, 0, 0, 0, 0, 0, bytes.size(), 0};
  if (sizeof(head) + padded(bytes.size()) > queued.capacity() - queued.size()) {
    return false;
  }
  const auto *begin = reinterpret_cast<const char *>(&head);
  queued.insert(queued.end(), begin, begin + sizeof(head));
  queued.insert(queued.end(), bytes.begin(), bytes.end());
  queued.insert(queued.end(), padded(bytes.size()) - bytes.size(), '\0');
  return true;
}

llvm::Error Link::flush(Waiting waiting) {
  asked = std::chrono::steady_clock::now();
  llvm::Error error = sendAll({{queued.data(), queued.size()}}, {}, waiting);
  queued.clear();
  return error;
}

std::shared_ptr<runtime::Buffer> Link::inFile(const runtime::Buffer &buffer, bool isOnce) {
  const bool isShortLived = limits.recycles && !isOnce;
  auto copy = isShortLived ? pool.allocate(buffer.size()) : runtime::BufferPool(true).allocate(buffer.size());
  std::memcpy(copy->data(), buffer.data(), buffer.size());
  return copy;
}

llvm::Expected<bool> Link::read(void *into, size_t size, Waiting waiting) {
  auto *target = static_cast<char *>(into);
  while (size > 0) {
    if (stagedFrom < stagedTo) {
      const size_t part = std::min(size, stagedTo - stagedFrom);
      std::memcpy(target, staging.get() + stagedFrom, part);
      stagedFrom += part;
      target += part;
      size -= part;
      continue;
    }
    const bool isLarge = size >= kStagingBytes;
    iovec vector{isLarge ? target : staging.get(), isLarge ? size : kStagingBytes};
    alignas(cmsghdr) char control[CMSG_SPACE(253 * sizeof(int))];
    msghdr message{};
    message.msg_iov = &vector;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    // A thread that sleeps in recvmsg is also woken when the other side takes in what was sent; one in poll is not.
    pollfd arrival{end.get(), POLLIN, 0};
    poll(&arrival, 1, kWaitUs / 1'000);
    const ssize_t count = recvmsg(end.get(), &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    const int error = errno;
    const bool isEarly = count < 0 && (error == EINTR || error == EAGAIN || error == EWOULDBLOCK);
    if (count != 0 && (count > 0 || isEarly) && !goesOn(waiting)) {
      return llvm::createStringError("no frame came in time");
    }
    if (isEarly) {
      continue;
    }
    if (count < 0 && error != ECONNRESET) {
      return llvm::createStringError("cannot receive a frame: " + std::string(strerror(error)));
    }
    if (count <= 0) {
      return false;
    }
    for (cmsghdr *header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
      if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
        const size_t descriptors = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t at = 0; at < descriptors; ++at) {
          int number = -1;
          std::memcpy(&number, CMSG_DATA(header) + at * sizeof(int), sizeof(int));
          Descriptor file(number);
          came.push_back(std::make_shared<SharedFile>(std::move(file), limits.allFiles));
        }
      }
    }
    if ((message.msg_flags & MSG_CTRUNC) != 0 || (limits.allFiles && *limits.allFiles > limits.allFilesMost)) {
      return llvm::createStringError(std::errc::too_many_files_open, "more memory files than this process may open");
    }
    if (came.size() > limits.files) {
      return broken("has too many descriptors");
    }
    if (isLarge) {
      target += count;
      size -= static_cast<size_t>(count);
    } else {
      stagedFrom = 0;
      stagedTo = static_cast<size_t>(count);
    }
  }
  return true;
}

llvm::Error Link::takeFiles(llvm::ArrayRef<uint64_t> numbers, bool isOnce) {
  // Those of frames behind it may have come along; an answer has none behind it.
  const bool areMore = numbers.size() < came.size() && stagedFrom == stagedTo;
  if (numbers.size() > came.size() || (areMore && limits.needsSeals)) {
    return broken("names " + Twine(numbers.size()) + " files of " + Twine(came.size()) + " descriptors");
  }
  for (uint64_t number : numbers) {
    auto file = std::move(came.front());
    came.pop_front();
    const bool isFresh = number != 0 && number != kNoBuffer && !known.contains(number) && !once.contains(number);
    if (!isFresh || !file->settle(limits.needsSeals)) {
      return broken("has a descriptor of no memory file of fixed size");
    }
    (isOnce ? once : known).emplace(number, std::move(file));
  }
  return known.size() <= limits.files
             ? llvm::Error::success()
             : llvm::createStringError(std::errc::too_many_files_open, "more memory files than one process may have");
}

llvm::Expected<std::optional<Frame>> Link::receive(Waiting waiting, size_t buffersMost) {
  asked = std::chrono::steady_clock::now();
  Head head{};
  do {
    auto isThere = read(&head, sizeof(head), waiting);
    if (!isThere || !*isThere) {
      return isThere ? llvm::Expected<std::optional<Frame>>(std::nullopt) : isThere.takeError();
    }
    if (head.magic != kMagic) {
      return broken("does not begin as one");
    }
  } while (head.kind == FrameKind::files);
  if (head.buffers > buffersMost || head.files > limits.files || head.closed > limits.files ||
      head.bytes > limits.bytes || head.inFrame > limits.bytes) {
    return broken("has " + Twine(head.bytes) + " and " + Twine(head.inFrame) + " bytes, " + Twine(head.buffers) +
                  " buffers and " + Twine(head.files) + " files, which are too many");
  }
  std::vector<Entry> entries(head.buffers);
  std::vector<uint64_t> numbers(head.files), gone(head.closed);
  auto bytes = alignedBytes(padded(head.bytes));
  for (auto [into, size] : {std::pair<void *, size_t>(entries.data(), entries.size() * sizeof(Entry)),
                            std::pair<void *, size_t>(numbers.data(), numbers.size() * sizeof(uint64_t)),
                            std::pair<void *, size_t>(gone.data(), gone.size() * sizeof(uint64_t)),
                            std::pair<void *, size_t>(bytes.get(), padded(head.bytes))}) {
    auto isThere = read(into, size, waiting);
    if (!isThere || !*isThere) {
      return isThere ? llvm::Expected<std::optional<Frame>>(std::nullopt) : isThere.takeError();
    }
  }
  llvm::for_each(gone, [&](uint64_t number) { known.erase(number); });
  if (llvm::Error error = takeFiles(numbers, head.isOnce != 0)) {
    return error;
  }
  Frame frame{head.kind, bytes, {reinterpret_cast<const char *>(bytes.get()), head.bytes}, {}};
  frame.memory.reserve(entries.size());
  size_t left = head.inFrame;
  for (const Entry &entry : entries) {
    if (entry.file == kNoBuffer) {
      frame.memory.push_back(nullptr);
      continue;
    }
    if (entry.file != 0) {
      auto &from = head.isOnce ? once : known;
      auto found = from.find(entry.file);
      // Nor in a much larger one, which would be held for it.
      const size_t most = limits.needsSeals ? runtime::BufferPool::chunkBytes(entry.size) : ~size_t{0};
      if (found == from.end() || entry.size == 0 || (limits.needsSeals && entry.size > found->second->size()) ||
          found->second->size() > std::max<size_t>(most, 4'096)) {
        return broken("names a buffer of " + Twine(entry.size) + " bytes in an unknown file, or one of another size");
      }
      const auto &file = found->second;
      frame.memory.push_back(
          std::make_shared<runtime::Buffer>(nullptr, entry.size, file->descriptor(), file->number(), file));
      continue;
    }
    if (entry.size > left || padded(entry.size) > left) {
      return broken("has a buffer beyond its end");
    }
    if (entry.size == 0) {
      static const auto nothing = runtime::BufferPool::global().allocate(0);
      frame.memory.push_back(nothing);
      continue;
    }
    left -= padded(entry.size);
    auto buffer = runtime::BufferPool::global().allocate(entry.size);
    std::byte rest[kAlign];
    for (auto [into, size] : {std::pair<void *, size_t>(buffer->data(), entry.size),
                              std::pair<void *, size_t>(rest, padded(entry.size) - entry.size)}) {
      auto isThere = read(into, size, waiting);
      if (!isThere || !*isThere) {
        return isThere ? llvm::Expected<std::optional<Frame>>(std::nullopt) : isThere.takeError();
      }
    }
    frame.memory.push_back(std::move(buffer));
  }
  once.clear();
  inFlight.clear();
  if (left != 0) {
    return broken("has bytes that belong to no buffer");
  }
  return std::optional<Frame>(std::move(frame));
}

} // namespace sojourn::owner
