// SPDX-License-Identifier: Apache-2.0
// One connection of a server: frames (runtime/stream/Frame.h) in, one request at a time, and its reply out.
#ifndef SOJOURN_OWNER_CONNECTION_H
#define SOJOURN_OWNER_CONNECTION_H

#include "owner/ConnectionTimes.h"
#include "runtime/stream/Frame.h"
#include "runtime/stream/Outgoing.h"
#include "runtime/stream/Owned.h"
#include "runtime/wire/Message.h"

#include <nng/nng.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

namespace sojourn::owner {

class Connection;

/// A whole message, with the room that it takes from its account.
struct Request {
  std::string_view bytes;
  std::shared_ptr<const void> keep, room;
};

/// The server, as its connections see it; called by nng's threads, never with a lock of the connection's.
class ConnectionEvents {
public:
  virtual ~ConnectionEvents() = default;
  /// Room for a message of a session, held until the result goes; null: `refusal` is the reply instead, or the end of
  /// the connection where it is empty.
  virtual std::shared_ptr<const void> room(uint64_t session, size_t bytes, sojourn::wire::Message &refusal) = 0;
  /// A whole request; who serves it calls `reply` once.
  virtual void serve(std::shared_ptr<Connection> connection, Request request) = 0;
  /// The reply to a request for the certificate; empty: there is none.
  virtual std::string_view introduction() const = 0;
  /// Once, at the end.
  virtual void closed(Connection &connection) = 0;
};

/// Reads on while its request is served, so that the end of a client shows; bytes that come meanwhile wait in the
/// buffer, then in the kernel. Thread-safe. Gone only after `finish`.
class Connection : public std::enable_shared_from_this<Connection> {
public:
  using Clock = std::chrono::steady_clock;

  Connection(uint64_t id, stream::OwnedStream stream, ConnectionEvents &events, const ConnectionTimes &times);
  ~Connection();
  Connection(const Connection &) = delete;
  Connection &operator=(const Connection &) = delete;

  /// nng's status.
  int open();
  void start();
  /// `isSession`: whether the connection is a session's now. False where the connection has closed.
  bool reply(sojourn::wire::Message message, bool isSession);
  bool isSession();
  bool isClosed();
  /// The peer sees the end.
  void close();
  /// Waits for nng's threads; not called by them.
  void finish();
  /// Closes if the peer has used up its time.
  void sweep(Clock::time_point now);
  /// Whether a reply is on its way.
  bool isSending();

  const uint64_t id;

private:
  enum class Reading { head, body, rest };

  static void received(void *self);
  static void sent(void *self);
  void take(std::unique_lock<std::mutex> &lock);
  void takeAll(std::unique_lock<std::mutex> &lock);
  bool begin(std::unique_lock<std::mutex> &lock);
  void complete(std::unique_lock<std::mutex> &lock);
  void receiveOn();
  void send(const stream::FrameHead &head);
  void fail(std::unique_lock<std::mutex> &lock);
  void allow(size_t bytes);
  void progressed();

  static constexpr size_t kBufferBytes = 4096;

  nng_stream *const stream_;
  ConnectionEvents &events_;
  const ConnectionTimes times_;
  nng_aio *receive_ = nullptr, *send_ = nullptr;

  std::mutex mutex_;
  alignas(16) std::array<std::byte, kBufferBytes> in_{};
  size_t begin_ = 0, end_ = 0; ///< of what was received and is not yet taken
  Reading reading_ = Reading::head;
  bool receiving_ = false, intoBuffer_ = false, isTaking_ = false, isBusy_ = false, isSending_ = false,
       isClosed_ = false, isSession_ = false, endsNext_ = false;
  stream::FrameHead head_;
  std::shared_ptr<std::byte> body_; ///< of the message that arrives
  std::shared_ptr<const void> room_;
  size_t bodyBytes_ = 0;           ///< of it that are there
  sojourn::wire::Message refusal_; ///< to a message whose bytes are dropped
  sojourn::wire::Message message_; ///< on its way
  stream::Outgoing outgoing_;
  Clock::time_point deadline_ = Clock::time_point::max(), last_ = Clock::time_point::max();
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_CONNECTION_H
