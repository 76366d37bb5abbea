// SPDX-License-Identifier: Apache-2.0
#include "owner/links/PeerLink.h"

#include <algorithm>
#include <cstring>
#include <spdlog/spdlog.h>
#include <system_error>
#include <utility>

namespace sojourn::owner {

using stream::FrameHead;

namespace {

/// For the other side to take some bytes.
constexpr nng_duration kStallMs = 30'000;
constexpr size_t kFixed = sizeof(FrameHead) + sizeof(FrameFields);
/// Time without a reader, after which the link's thread reads.
constexpr std::chrono::milliseconds kUnreadMost{2};
/// How long the link's thread reads for steps that wait at the same time.
constexpr std::chrono::milliseconds kSharedFor{50};

std::string_view viewOf(const runtime::Buffer *buffer) {
  return buffer ? std::string_view(static_cast<const char *>(buffer->data()), buffer->size()) : std::string_view();
}

} // namespace

PeerLink::~PeerLink() {
  endThreads();
  nng_aio_free(receive_);
  nng_aio_free(send_);
  nng_stream_free(stream_);
}

int PeerLink::open() {
  int status = nng_aio_alloc(&receive_, nullptr, nullptr);
  status = status ? status : nng_aio_alloc(&send_, nullptr, nullptr);
  if (status == 0) {
    nng_aio_set_timeout(send_, kStallMs);
    nng_sockaddr address;
    isLocal_ = nng_stream_get_addr(stream_, NNG_OPT_LOCADDR, &address) == 0 && address.s_family == NNG_AF_IPC;
    try {
      sender_ = std::thread([this] { waitForTransfers(); });
      readingThread_ = std::thread([this] { readAlone(); });
    } catch (const std::system_error &) {
      status = NNG_ENOMEM;
    }
  }
  return status;
}

void PeerLink::start() {
  {
    std::lock_guard lock(reading_);
    isStarted_ = true;
  }
  readers_.notify_all();
}

/// A stream of nng's that was closed while it told of bytes takes another request to receive, and never answers it.
void PeerLink::close() {
  isClosed_ = true;
  nng_stream_close(stream_);
  nng_aio_abort(receive_, NNG_ECLOSED);
}

void PeerLink::finish() {
  nng_stream_close(stream_);
  nng_aio_stop(receive_);
  nng_aio_stop(send_);
  endThreads();
}

void PeerLink::endThreads() {
  {
    std::lock_guard lock(mutex_);
    isOver_ = true;
  }
  waits_.notify_one();
  {
    std::unique_lock lock(reading_);
    isFinished_ = true;
    readers_.notify_all();
    readers_.wait(lock, [this] { return reader_ != Reader::step; });
  }
  for (std::thread *thread : {&sender_, &readingThread_}) {
    if (thread->joinable()) {
      thread->join();
    }
  }
}

void PeerLink::end() {
  nng_stream_close(stream_);
  if (!isEnded_.exchange(true)) {
    events_.ended(*this);
  }
}

/// Some bytes, for at most so long.
PeerLink::Came PeerLink::read(nng_duration most) {
  nng_aio_set_timeout(receive_, most);
  receiveOn();
  nng_aio_wait(receive_);
  if (const int status = nng_aio_result(receive_); status == NNG_ETIMEDOUT && most != NNG_DURATION_INFINITE) {
    return Came::less;
  } else if (status != 0) {
    end();
    return Came::ended;
  }
  const size_t bytes = nng_aio_count(receive_);
  heard_ = Clock::now().time_since_epoch().count();
  receivedBytes_ += bytes;
  hasDelivered_ = false;
  try {
    const bool isDirect = isInTerms_ && frame_.terms;
    if (isDirect) {
      termsHere_ += bytes;
    } else if (isInTerms_) { // dropped
      termsHere_ += bytes;
      begin_ = end_ = 0;
    } else {
      end_ += bytes;
    }
    if (isInTerms_ && termsHere_ == termsBytes_) {
      deliver();
    }
    if (!isInTerms_ && !takeHeads()) {
      spdlog::warn("a link ends: the owner with key {} speaks another protocol", signing::shortKeyText(peer));
      end();
      return Came::ended;
    }
  } catch (const std::exception &exception) {
    spdlog::error("a link ends, because there is no memory for a frame: {}", exception.what());
    end();
    return Came::ended;
  }
  return hasDelivered_ ? Came::frame : Came::less;
}

/// Less than a frame after the time.
PeerLink::Came PeerLink::readFrame(Clock::time_point until) {
  for (;;) {
    nng_duration most = NNG_DURATION_INFINITE;
    if (until != Clock::time_point::max()) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
      if (left <= 0) {
        return Came::less;
      }
      most = static_cast<nng_duration>(left);
    }
    if (const Came came = read(most); came != Came::less) {
      return came;
    }
  }
}

bool PeerLink::receive(std::chrono::milliseconds most) {
  const Clock::time_point now = Clock::now();
  {
    std::lock_guard lock(reading_);
    if (!isLocal_ || !isStarted_ || isFinished_ || isEnded_) {
      return false;
    }
    if (reader_ == Reader::thread) {
      isAsked_ = true;
      return false;
    }
    if (reader_ == Reader::step) { // which wakes the thread when it leaves
      sharedUntil_ = now + kSharedFor;
      return false;
    }
    if (now < sharedUntil_) { // the thread is about to read
      return false;
    }
    reader_ = Reader::step;
  }
  const Came came = readFrame(now + most);
  std::unique_lock lock(reading_);
  reader_ = Reader::none;
  left_ = Clock::now();
  const bool isThreadNeeded = isFinished_ || left_ < sharedUntil_ || came == Came::ended;
  lock.unlock();
  if (isThreadNeeded) {
    readers_.notify_all();
  }
  return came != Came::ended;
}

/// The link's own thread: reads while no step does.
void PeerLink::readAlone() noexcept {
  std::unique_lock lock(reading_);
  while (!isFinished_ && !isEnded_) {
    const Clock::time_point now = Clock::now();
    if (!isStarted_ || reader_ != Reader::none || (now >= sharedUntil_ && now - left_ < kUnreadMost)) {
      readers_.wait_for(lock, kUnreadMost);
      continue;
    }
    reader_ = Reader::thread;
    isAsked_ = false;
    lock.unlock();
    const Came came = readFrame(Clock::time_point::max());
    lock.lock();
    reader_ = Reader::none;
    if (came == Came::ended) {
      return;
    }
    // The step that it has read for reads the next frames; of some, none does.
    left_ = isAsked_ && Clock::now() >= sharedUntil_ ? Clock::now() : Clock::time_point();
  }
}

/// Frames whose heads and fields are there. False where no owner of this version can have sent them.
bool PeerLink::takeHeads() {
  while (!isInTerms_ && end_ - begin_ >= sizeof(FrameHead)) {
    const FrameHead head = FrameHead::read(in_.data() + begin_);
    if (!head.isPeer() || (head.bytes != 0 && head.bytes < sizeof(FrameFields)) ||
        head.bytes > sizeof(FrameFields) + kTermsBytesMost) {
      return false;
    }
    if (head.bytes == 0) {
      begin_ += sizeof(FrameHead);
      continue;
    }
    if (end_ - begin_ < kFixed) {
      break;
    }
    FrameFields fields;
    std::memcpy(&fields, in_.data() + begin_ + sizeof(FrameHead), sizeof fields);
    begin_ += kFixed;
    if (!takeTerms(fields, head.bytes - sizeof fields)) {
      return false;
    }
  }
  return true;
}

bool PeerLink::takeTerms(const FrameFields &fields, size_t termsBytes) {
  auto read = readFields(fields, termsBytes);
  if (!read) {
    return false;
  }
  frame_ = std::move(*read);
  group_ = fields.group;
  termsBytes_ = termsBytes;
  isInTerms_ = true;
  const bool hasTerms = frame_.kind == PeerFrame::Kind::Terms;
  if (hasTerms) {
    PeerLinkEvents::Room room = events_.room(*this, group_, termsBytes);
    frame_.terms = std::move(room.memory);
    frame_.dropped = room.dropped;
  }
  termsHere_ = std::min(termsBytes, end_ - begin_);
  if (frame_.terms && termsHere_ > 0) {
    std::memcpy(frame_.terms->data(), in_.data() + begin_, termsHere_);
  }
  begin_ += termsHere_;
  if (termsHere_ == termsBytes_) {
    deliver();
  }
  return true;
}

void PeerLink::deliver() {
  isInTerms_ = false;
  hasDelivered_ = true;
  events_.came(*this, group_, std::exchange(frame_, {}));
}

void PeerLink::receiveOn() {
  nng_iov part{};
  if (isInTerms_) { // in_ is empty
    begin_ = end_ = 0;
    const size_t left = termsBytes_ - termsHere_;
    part = frame_.terms ? nng_iov{static_cast<std::byte *>(frame_.terms->data()) + termsHere_,
                                  std::min(left, stream::kTransferBytes)}
                        : nng_iov{in_.data(), std::min(left, in_.size())};
  } else {
    std::memmove(in_.data(), in_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
    part = {in_.data() + end_, in_.size() - end_};
  }
  nng_aio_set_iov(receive_, 1, &part);
  nng_stream_recv(stream_, receive_);
  if (isClosed_) {
    nng_aio_abort(receive_, NNG_ECLOSED);
  }
}

void PeerLink::send(const GroupId &group, const PeerFrame &frame) noexcept {
  enqueue({fieldsOf(group, frame), frame.terms, false});
}

void PeerLink::greet() noexcept { enqueue({{}, nullptr, true}); }

void PeerLink::enqueue(Outbound outbound) noexcept {
  std::unique_lock lock(mutex_);
  if (isEnded_ || isClosed_ || (outbound.isGreeting && isSending_)) {
    return;
  }
  if (!outbound.isGreeting) {
    takeBack(outbound.fields);
  }
  const size_t bytes = viewOf(outbound.terms.get()).size();
  try {
    queue_.push_back(std::move(outbound));
  } catch (const std::bad_alloc &) {
    close(); // and the thread that reads tells of the end
    return;
  }
  queuedBytes_ += bytes;
  if (queuedBytes_ > queueMost_) {
    close();
  }
  if (!isSending_) {
    isSending_ = true;
    if (sendOn()) {
      lock.unlock();
      waits_.notify_one();
    }
  }
}

/// The Ready of terms that go nowhere any more: the step before them may have committed.
static FrameFields readyOf(FrameFields fields) {
  fields.kind = static_cast<uint8_t>(PeerFrame::Kind::Ready);
  fields.hasTerms = 0;
  fields.step -= 1;
  fields.exchange = std::exchange(fields.readyExchange, 0);
  fields.digest = std::exchange(fields.readyDigest, {});
  return fields;
}

/// Terms of a step that has ended, or of a group: the receiver would drop them. Under the lock.
void PeerLink::takeBack(const FrameFields &end) {
  const bool isOfGroup = end.kind == static_cast<uint8_t>(PeerFrame::Kind::Gone);
  if (!isOfGroup && end.kind != static_cast<uint8_t>(PeerFrame::Kind::End)) {
    return;
  }
  const auto isOver = [&](const Outbound &each) {
    const FrameFields &own = each.fields;
    return each.terms && own.group == end.group &&
           (isOfGroup || (own.sequence == end.sequence && own.attempt == end.attempt && own.step == end.step));
  };
  const bool isOnItsWay = isSending_ && !queue_.empty(); // the first one
  for (auto at = queue_.begin() + (isOnItsWay ? 1 : 0); at != queue_.end();) {
    if (!isOver(*at)) {
      ++at;
      continue;
    }
    queuedBytes_ -= at->terms->size();
    at->terms.reset();
    if (at->fields.readyExchange != 0) {
      at->fields = readyOf(at->fields);
      ++at;
    } else {
      at = queue_.erase(at);
    }
  }
}

/// Of a transfer that has ended; false where the link has, too. Under the lock.
bool PeerLink::transferred() {
  const bool isSent = nng_aio_result(send_) == 0;
  const size_t bytes = isSent ? nng_aio_count(send_) : 0;
  sentBytes_ += bytes;
  outgoing_.sent(bytes);
  return isSent;
}

/// Sends frames of the queue as far as the stream takes them without a wait. Whether the sender is to wait for the
/// rest. Under the lock.
bool PeerLink::sendOn() {
  for (; !queue_.empty(); queue_.pop_front()) {
    const Outbound &next = queue_.front();
    if (!std::exchange(isBegun_, true)) {
      FrameHead head;
      head.kind = stream::FrameKind::peer;
      const std::string_view fields =
          next.isGreeting ? std::string_view()
                          : std::string_view(reinterpret_cast<const char *>(&next.fields), sizeof next.fields);
      outgoing_.begin(head, fields, viewOf(next.terms.get()));
    }
    while (!outgoing_.isOver()) {
      outgoing_.send(stream_, send_);
      if (nng_aio_busy(send_)) {
        isWaited_ = true;
        return true;
      }
      if (!transferred()) {
        queue_.clear();
        queuedBytes_ = 0;
        close(); // and the thread that reads tells of the end
        return false;
      }
    }
    queuedBytes_ -= viewOf(next.terms.get()).size();
    isBegun_ = false;
  }
  isSending_ = false;
  return false;
}

/// A thread of the link, for transfers that take time: a callback of nng's would have a thread woken for each frame.
void PeerLink::waitForTransfers() noexcept {
  std::unique_lock lock(mutex_);
  for (;;) {
    waits_.wait(lock, [this] { return isWaited_ || isOver_; });
    if (!isWaited_) {
      return;
    }
    isWaited_ = false;
    lock.unlock();
    nng_aio_wait(send_);
    lock.lock();
    if (!transferred()) {
      isClosed_ = true; // whoever sends meanwhile finds no queue
      queue_.clear();
      queuedBytes_ = 0;
      lock.unlock();
      end();
      return;
    }
    sendOn();
  }
}

} // namespace sojourn::owner
