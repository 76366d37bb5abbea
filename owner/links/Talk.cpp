// SPDX-License-Identifier: Apache-2.0
#include "owner/links/Talk.h"

#include "runtime/stream/Dial.h"
#include "runtime/stream/Inproc.h"
#include "runtime/stream/Outgoing.h"

#include <algorithm>
#include <array>

namespace sojourn::owner {

/// How often a wait looks at its stop flag.
static constexpr std::chrono::milliseconds kLookEvery{50};

Talk::Talk(std::chrono::steady_clock::time_point until, const std::atomic<bool> &stop) : until_(until), stop_(stop) {
  if (nng_aio_alloc(&aio_, finished, this) == 0) {
    nng_aio_set_timeout(aio_, NNG_DURATION_INFINITE);
  }
}

Talk::~Talk() {
  drop();
  nng_aio_free(aio_);
}

void Talk::drop() {
  if (stream_) {
    nng_stream_close(stream_);
    nng_stream_free(std::exchange(stream_, nullptr));
  }
}

void Talk::finished(void *given) {
  auto &self = *static_cast<Talk *>(given);
  std::lock_guard lock(self.mutex_);
  self.isDone_ = true;
  self.changed_.notify_one();
}

void Talk::begin() {
  std::lock_guard lock(mutex_);
  isDone_ = false;
}

/// For the end of what is under way. A stream is closed where the time is over: nng ends no handshake of TLS otherwise.
int Talk::wait() {
  std::unique_lock lock(mutex_);
  bool isLate = false;
  while (!changed_.wait_for(lock, kLookEvery, [&] { return isDone_; })) {
    if (!isLate && (stop_ || std::chrono::steady_clock::now() >= until_)) {
      isLate = true;
      lock.unlock();
      nng_aio_abort(aio_, NNG_ETIMEDOUT);
      if (stream_) {
        nng_stream_close(stream_);
      }
      lock.lock();
    }
  }
  const int status = nng_aio_result(aio_);
  return isLate ? NNG_ETIMEDOUT : status; // its stream is closed, too
}

int Talk::dial(const std::string &address, const std::string *trusted) {
  constexpr std::string_view kInproc = "inproc://";
  drop();
  if (!aio_) {
    return NNG_ENOMEM;
  }
  if (address.starts_with(kInproc)) {
    return stream::dialInproc(address.substr(kInproc.size()), &stream_);
  }
  nng_stream_dialer *dialer = nullptr;
  if (int status = stream::openDialer(address, trusted, &dialer)) {
    return status;
  }
  begin();
  nng_stream_dialer_dial(dialer, aio_);
  const int status = wait();
  if (status == 0) {
    stream_ = static_cast<nng_stream *>(nng_aio_get_output(aio_, 0));
    stream::watchStream(stream_);
  }
  stream::closeDialer(dialer);
  return status;
}

int Talk::send(stream::FrameKind kind, std::string_view message) {
  if (!aio_ || !stream_) {
    return NNG_ECLOSED;
  }
  stream::FrameHead head;
  head.kind = kind;
  stream::Outgoing outgoing;
  outgoing.begin(head, message);
  while (!outgoing.isOver()) {
    begin();
    outgoing.send(stream_, aio_);
    if (int status = wait()) {
      return status;
    }
    outgoing.sent(nng_aio_count(aio_));
  }
  return 0;
}

int Talk::receiveAll(void *to, size_t bytes) {
  for (size_t at = 0; at < bytes;) {
    nng_iov part{static_cast<char *>(to) + at, std::min(bytes - at, stream::kTransferBytes)};
    begin();
    nng_aio_set_iov(aio_, 1, &part);
    nng_stream_recv(stream_, aio_);
    if (int status = wait()) {
      return status;
    }
    at += nng_aio_count(aio_);
  }
  return 0;
}

int Talk::receive(stream::FrameKind &kind, std::string &message, size_t bytesMost) {
  if (!aio_ || !stream_) {
    return NNG_ECLOSED;
  }
  alignas(stream::FrameHead) std::array<std::byte, sizeof(stream::FrameHead)> bytes{};
  if (int status = receiveAll(bytes.data(), bytes.size())) {
    return status;
  }
  const auto head = stream::FrameHead::read(bytes.data());
  if (!head.isValid() || head.bytes > bytesMost) {
    return NNG_EPROTO;
  }
  kind = head.kind;
  message.resize(head.bytes);
  return receiveAll(message.data(), message.size());
}

void Talk::awaitEnd() {
  char byte = 0;
  receiveAll(&byte, 1);
}

} // namespace sojourn::owner
