// SPDX-License-Identifier: Apache-2.0
#include "owner/Connection.h"

#include "owner/Limits.h"
#include "runtime/wire/Step.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <spdlog/spdlog.h>
#include <utility>

namespace sojourn::owner {

using stream::FrameHead;
using stream::FrameKind;

namespace {

/// Bytes in a second, at which a peer may be slow.
constexpr size_t kSlowBytes = size_t{64} << 10;

/// Pages become memory as bytes arrive.
std::shared_ptr<std::byte> allocate(size_t bytes) {
  void *memory = std::malloc(std::max<size_t>(bytes, 1));
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  return {static_cast<std::byte *>(memory), std::free};
}

} // namespace

Connection::Connection(uint64_t id, stream::OwnedStream stream, ConnectionEvents &events, const ConnectionTimes &times)
    : id(id), stream_(stream.release()), events_(events), times_(times) {}

Connection::~Connection() {
  nng_aio_free(receive_);
  nng_aio_free(send_);
  nng_stream_free(stream_);
}

int Connection::open() {
  int status = nng_aio_alloc(&receive_, received, this);
  status = status ? status : nng_aio_alloc(&send_, sent, this);
  if (status == 0) {
    nng_aio_set_timeout(receive_, NNG_DURATION_INFINITE);
    nng_aio_set_timeout(send_, NNG_DURATION_INFINITE);
  }
  return status;
}

void Connection::start() {
  std::lock_guard lock(mutex_);
  deadline_ = Clock::now() + times_.silence;
  receiveOn();
}

void Connection::close() {
  std::unique_lock lock(mutex_);
  fail(lock);
}

void Connection::finish() {
  nng_stream_close(stream_);
  nng_aio_stop(receive_);
  nng_aio_stop(send_);
}

bool Connection::isSending() {
  std::lock_guard lock(mutex_);
  return isSending_ && !isClosed_;
}

void Connection::sweep(Clock::time_point now) {
  std::unique_lock lock(mutex_);
  const bool stalls = last_ != Clock::time_point::max() && now - last_ > times_.stall;
  if (isClosed_) {
    return;
  }
  if (now <= deadline_ && !stalls) {
    return;
  }
  if (isSending_) {
    spdlog::debug("a reply of {} bytes was not taken in time", outgoing_.messageBytes());
  } else {
    spdlog::debug("a connection is closed after {}",
                  end_ > begin_ || reading_ != Reading::head ? "a part of a message" : "no request of a session");
  }
  fail(lock);
}

/// `bytes` come or go from now on.
void Connection::allow(size_t bytes) {
  last_ = Clock::now();
  deadline_ = last_ + times_.stall + std::chrono::seconds(bytes / kSlowBytes);
}

void Connection::progressed() { last_ = Clock::now(); }

/// The end, as the peer sees it; what nng has still under way ends with an error.
void Connection::fail(std::unique_lock<std::mutex> &lock) {
  if (!std::exchange(isClosed_, true)) {
    lock.unlock(); // nng may still write to what is read into
    nng_stream_close(stream_);
    events_.closed(*this);
    lock.lock();
  }
}

void Connection::received(void *given) {
  auto &self = *static_cast<Connection *>(given);
  std::unique_lock lock(self.mutex_);
  self.receiving_ = false;
  if (nng_aio_result(self.receive_) != 0) {
    self.fail(lock);
    return;
  }
  (self.intoBuffer_ ? self.end_ : self.bodyBytes_) += nng_aio_count(self.receive_);
  self.take(lock);
}

void Connection::take(std::unique_lock<std::mutex> &lock) {
  try {
    takeAll(lock);
  } catch (const std::exception &exception) {
    if (!lock.owns_lock()) {
      lock.lock();
    }
    spdlog::error("no memory for a request: {}", exception.what());
    fail(lock);
  }
}

/// Makes requests of what has arrived, then reads on. One thread does, which looks again after each moment without the
/// lock.
void Connection::takeAll(std::unique_lock<std::mutex> &lock) {
  if (std::exchange(isTaking_, true)) {
    return;
  }
  for (bool goesOn = true; goesOn && !isClosed_;) {
    if (reading_ == Reading::head) {
      goesOn = !isBusy_ && end_ - begin_ >= sizeof(FrameHead) && begin(lock);
      continue;
    }
    const size_t there = std::min<size_t>(head_.bytes - bodyBytes_, end_ - begin_);
    if (reading_ == Reading::body) {
      std::memcpy(body_.get() + bodyBytes_, in_.data() + begin_, there);
    }
    begin_ += there;
    bodyBytes_ += there;
    goesOn = bodyBytes_ == head_.bytes;
    if (goesOn) {
      complete(lock);
    } else {
      progressed();
    }
  }
  isTaking_ = false;
  if (!isClosed_) {
    if (!isBusy_ && reading_ == Reading::head && end_ > begin_ && last_ == Clock::time_point::max()) {
      allow(0); // a part of a head
    }
    receiveOn();
  }
}

/// A message whose head is there. False where nothing more is to be done with what is there.
bool Connection::begin(std::unique_lock<std::mutex> &lock) {
  head_ = FrameHead::read(in_.data() + begin_);
  const bool isIntroduction = head_.kind == FrameKind::introduction;
  if (!head_.isValid() || head_.bytes > kRequestBytes || (isIntroduction && head_.bytes > 0)) {
    spdlog::debug("a connection is closed that speaks another protocol, or of a message of more than {} bytes",
                  kRequestBytes);
    fail(lock);
    return false;
  }
  begin_ += sizeof(FrameHead);
  if (isIntroduction) {
    isBusy_ = true;
    endsNext_ = true;
    message_ = sojourn::wire::Message::of(std::string(events_.introduction()));
    FrameHead head;
    head.kind = FrameKind::introduction;
    send(head);
    return false;
  }
  allow(head_.bytes);
  if (head_.bytes > stream::kSmallBytes) {
    const FrameHead head = head_;
    sojourn::wire::Message refusal;
    lock.unlock(); // under the owner's lock for a moment
    auto room = events_.room(head.session, head.bytes, refusal);
    lock.lock();
    room_ = std::move(room);
    refusal_ = std::move(refusal);
    if (!room_ && refusal_.bytes.empty()) {
      fail(lock);
      return false;
    }
  }
  const bool isRefused = !refusal_.bytes.empty();
  body_ = allocate(isRefused ? kBufferBytes : head_.bytes);
  bodyBytes_ = 0;
  reading_ = isRefused ? Reading::rest : Reading::body;
  return true;
}

/// A message whose bytes are there.
void Connection::complete(std::unique_lock<std::mutex> &lock) {
  const bool isRefused = reading_ == Reading::rest;
  reading_ = Reading::head;
  isBusy_ = true;
  deadline_ = last_ = Clock::time_point::max();
  if (isRefused) {
    body_ = {};
    message_ = std::exchange(refusal_, {});
    send({});
    return;
  }
  Request request{{reinterpret_cast<const char *>(body_.get()), head_.bytes}, body_, std::exchange(room_, {})};
  body_ = {};
  lock.unlock();
  events_.serve(shared_from_this(), std::move(request));
  lock.lock();
}

/// Where nothing is being read: into the body of a message, else behind what the buffer has.
void Connection::receiveOn() {
  if (receiving_) {
    return;
  }
  nng_iov part{};
  if (reading_ == Reading::body) {
    part = {body_.get() + bodyBytes_, std::min<size_t>(head_.bytes - bodyBytes_, stream::kTransferBytes)};
  } else if (reading_ == Reading::rest) {
    part = {body_.get(), std::min<size_t>(head_.bytes - bodyBytes_, kBufferBytes)};
  } else {
    if (begin_ > 0) {
      std::memmove(in_.data(), in_.data() + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
    }
    if (end_ == in_.size()) {
      return; // the kernel keeps what else comes
    }
    part = {in_.data() + end_, in_.size() - end_};
  }
  receiving_ = true;
  intoBuffer_ = reading_ == Reading::head;
  nng_aio_set_iov(receive_, 1, &part);
  nng_stream_recv(stream_, receive_);
}

bool Connection::isClosed() {
  std::lock_guard lock(mutex_);
  return isClosed_;
}

bool Connection::isSession() {
  std::lock_guard lock(mutex_);
  return isSession_;
}

bool Connection::reply(sojourn::wire::Message message, bool isSession) {
  std::unique_lock lock(mutex_);
  isSession_ = isSession_ || isSession;
  if (!isClosed_ && message.bytes.empty()) { // not even memory for an error
    fail(lock);
  }
  if (isClosed_) {
    return false;
  }
  message_ = std::move(message);
  send({});
  return true;
}

void Connection::send(const FrameHead &head) {
  allow(message_.bytes.size());
  outgoing_.begin(head, message_.bytes);
  if (outgoing_.isCopied()) {
    sojourn::wire::countCopied(message_.bytes.size());
    message_ = {};
  }
  isSending_ = true;
  outgoing_.send(stream_, send_);
}

void Connection::sent(void *given) {
  auto &self = *static_cast<Connection *>(given);
  std::unique_lock lock(self.mutex_);
  const int status = nng_aio_result(self.send_);
  self.outgoing_.sent(status == 0 ? nng_aio_count(self.send_) : 0);
  if (status != 0 || self.isClosed_) {
    if (!self.isClosed_) {
      spdlog::debug("a reply of {} bytes was not sent: {}", self.outgoing_.messageBytes(), nng_strerror(status));
    }
    self.isSending_ = false;
    self.message_ = {};
    self.fail(lock);
    return;
  }
  if (!self.outgoing_.isOver()) {
    self.progressed();
    self.outgoing_.send(self.stream_, self.send_);
    return;
  }
  self.isSending_ = false;
  self.message_ = {};
  if (self.endsNext_) { // the peer closes
    self.last_ = Clock::time_point::max();
    self.deadline_ = Clock::now() + std::chrono::seconds(1);
    return;
  }
  self.isBusy_ = false;
  self.last_ = Clock::time_point::max();
  self.deadline_ = self.isSession_ ? Clock::time_point::max() : Clock::now() + self.times_.silence;
  self.take(lock);
}

} // namespace sojourn::owner
