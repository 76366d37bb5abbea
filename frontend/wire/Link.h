// SPDX-License-Identifier: Apache-2.0
// One connection to an owner: a frame out, a frame in (runtime/stream/Frame.h). Only its files and Dial.cpp see nng.
#ifndef SOJOURN_FRONTEND_WIRE_LINK_H
#define SOJOURN_FRONTEND_WIRE_LINK_H

#include "frontend/Interrupt.h"
#include "frontend/wire/Client.h"
#include "runtime/stream/Frame.h"
#include "runtime/stream/Outgoing.h"

#include <nng/nng.h>

#include <array>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

namespace sojourn::frontend {

/// An operation of nng under way, for a thread that waits for it and may be interrupted.
class Operation {
public:
  ~Operation();
  /// nng's status.
  int open();
  nng_aio *aio() { return aio_; }
  /// Before an operation starts.
  void begin();
  bool isOver();
  /// Returns nng's status once the operation has ended: NNG_ETIMEDOUT after `timeoutMs` (0: never). `look` is called
  /// every `kLookEvery`, `kAskEvery` if empty; where it returns false it is as if the time was up. Then the stream is
  /// closed, because nng ends no operation of TLS during its handshake otherwise. Where `other` ends first, likewise.
  int wait(int timeoutMs, const std::function<bool()> &look = {}, nng_stream *stream = nullptr,
           Operation *other = nullptr);
  Waiting waiting;

private:
  static void finished(void *self);

  nng_aio *aio_ = nullptr;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool isDone_ = true;
};

/// All statuses are nng's. After one that is not 0 it is to be closed. An interruption is thrown (Interrupt.h).
class Link {
public:
  ~Link() { close(); }
  Link() = default;
  Link(const Link &) = delete;
  Link &operator=(const Link &) = delete;

  /// Over TLS, `trusted`: the one certificate, as PEM, that the owner may have; null: any.
  int dial(const std::string &url, int timeoutMs, const std::string *trusted);
  void close();
  /// False, too, where the owner has closed it, or speaks unasked.
  bool isOpen();
  /// `timeoutMs`: without progress.
  int send(const stream::FrameHead &head, std::string_view message, int timeoutMs);
  int receive(stream::FrameHead &head, Answer &answer, int timeoutMs, const std::function<bool()> &look,
              uint64_t bytesMost = kReplyBytesMost);

  /// Replies carry published values; a client accepts no more than this.
  static constexpr uint64_t kReplyBytesMost = uint64_t{1} << 30;

private:
  int open();
  void readOn();

  nng_stream *stream_ = nullptr;
  Operation send_, receive_;
  alignas(16) std::array<std::byte, 4096> in_{};
  size_t end_ = 0; ///< of what the buffer has
  stream::Outgoing outgoing_;
};

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_WIRE_LINK_H
