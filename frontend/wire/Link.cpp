// SPDX-License-Identifier: Apache-2.0
#include "frontend/wire/Link.h"

#include "runtime/stream/Dial.h"
#include "runtime/stream/Inproc.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace sojourn::frontend {

using stream::FrameHead;

Operation::~Operation() {
  if (aio_) {
    nng_aio_stop(aio_);
    nng_aio_free(aio_);
  }
}

int Operation::open() {
  const int status = aio_ ? 0 : nng_aio_alloc(&aio_, &Operation::finished, this);
  if (status == 0) {
    nng_aio_set_timeout(aio_, NNG_DURATION_INFINITE);
  }
  return status;
}

void Operation::begin() {
  std::lock_guard lock(mutex_);
  isDone_ = false;
}

bool Operation::isOver() {
  std::lock_guard lock(mutex_);
  return isDone_;
}

int Operation::wait(int timeoutMs, const std::function<bool()> &look, nng_stream *stream, Operation *other) {
  std::unique_lock lock(mutex_);
  if (isDone_) {
    return nng_aio_result(aio_);
  }
  bool givesUp = false;
  int status = 0;
  const auto begin = std::chrono::steady_clock::now();
  auto each = std::chrono::duration_cast<std::chrono::milliseconds>(look ? kLookEvery : kAskEvery);
  each = timeoutMs > 0 ? std::min(each, std::chrono::milliseconds(timeoutMs)) : each;
  while (!changed_.wait_for(lock, each, [&] { return isDone_; })) {
    lock.unlock();
    if (!givesUp) {
      const bool isLate =
          timeoutMs > 0 && std::chrono::steady_clock::now() - begin >= std::chrono::milliseconds(timeoutMs);
      const bool isDead = other != nullptr && other->isOver();
      if (isLate || isDead || !(look ? look() : waiting.goesOn())) {
        givesUp = true;
        status = isDead && !isLate ? NNG_ECONNSHUT : NNG_ETIMEDOUT;
        nng_aio_abort(aio_, status);
        if (stream) {
          nng_stream_close(stream);
        }
      }
    }
    lock.lock();
  }
  const int result = nng_aio_result(aio_);
  return result != 0 && givesUp ? status : result;
}

void Operation::finished(void *self) {
  auto &operation = *static_cast<Operation *>(self);
  std::lock_guard lock(operation.mutex_);
  operation.isDone_ = true;
  operation.changed_.notify_one();
}

int Link::open() {
  const int status = send_.open();
  return status ? status : receive_.open();
}

int Link::dial(const std::string &url, int timeoutMs, const std::string *trusted) {
  close();
  int status = open();
  constexpr std::string_view kInproc = "inproc://";
  if (status == 0 && url.starts_with(kInproc)) {
    status = stream::dialInproc(url.substr(kInproc.size()), &stream_);
  } else if (status == 0) {
    nng_stream_dialer *dialer = nullptr;
    status = stream::openDialer(url, trusted, &dialer);
    if (status == 0) {
      send_.begin();
      nng_stream_dialer_dial(dialer, send_.aio());
      status = send_.wait(timeoutMs);
      if (status == 0) {
        stream_ = static_cast<nng_stream *>(nng_aio_get_output(send_.aio(), 0));
      }
    }
    if (dialer) {
      stream::closeDialer(dialer);
    }
    if (status) {
      send_.waiting.end();
      return status;
    }
    send_.waiting.isOver();
    stream::watchStream(stream_);
  }
  if (status == 0) {
    readOn();
  }
  return status;
}

void Link::close() {
  if (stream_) {
    nng_stream_close(stream_);
    for (Operation *operation : {&send_, &receive_}) {
      nng_aio_abort(operation->aio(), NNG_ECLOSED);
      nng_aio_wait(operation->aio());
    }
    nng_stream_free(std::exchange(stream_, nullptr));
  }
  end_ = 0;
}

bool Link::isOpen() { return stream_ && !receive_.isOver(); }

/// Reads before anything is asked, so that the end of the owner shows.
void Link::readOn() {
  nng_iov part{in_.data() + end_, in_.size() - end_};
  nng_aio_set_iov(receive_.aio(), 1, &part);
  receive_.begin();
  nng_stream_recv(stream_, receive_.aio());
}

int Link::send(const FrameHead &head, std::string_view message, int timeoutMs) {
  outgoing_.begin(head, message);
  while (!outgoing_.isOver()) {
    send_.begin();
    outgoing_.send(stream_, send_.aio());
    if (const int status = send_.wait(timeoutMs, {}, stream_, &receive_)) {
      send_.waiting.end();
      return status;
    }
    outgoing_.sent(nng_aio_count(send_.aio()));
  }
  send_.waiting.isOver();
  return 0;
}

int Link::receive(FrameHead &head, Answer &answer, int timeoutMs, const std::function<bool()> &look,
                  uint64_t bytesMost) {
  auto next = [&] {
    const int status = receive_.wait(timeoutMs, look, stream_);
    if (status) {
      receive_.waiting.end();
    }
    return status;
  };
  while (end_ < sizeof head) {
    if (const int status = next()) {
      return status;
    }
    end_ += nng_aio_count(receive_.aio());
    if (end_ < sizeof head) {
      readOn();
    }
  }
  head = FrameHead::read(in_.data());
  const size_t there = end_ - sizeof head;
  if (!head.isValid() || head.bytes > bytesMost || there > head.bytes) {
    return NNG_EPROTO;
  }
  void *memory = std::malloc(std::max<size_t>(head.bytes, 1));
  if (!memory) {
    throw std::bad_alloc();
  }
  answer.keep = std::shared_ptr<const void>(memory, std::free);
  answer.bytes = {static_cast<const char *>(memory), head.bytes};
  std::memcpy(memory, in_.data() + sizeof head, there);
  for (size_t at = there; at < head.bytes;) {
    nng_iov part{static_cast<char *>(memory) + at, std::min<size_t>(head.bytes - at, stream::kTransferBytes)};
    nng_aio_set_iov(receive_.aio(), 1, &part);
    receive_.begin();
    nng_stream_recv(stream_, receive_.aio());
    if (const int status = next()) {
      return status;
    }
    at += nng_aio_count(receive_.aio());
  }
  receive_.waiting.isOver();
  end_ = 0;
  readOn();
  return 0;
}

} // namespace sojourn::frontend
