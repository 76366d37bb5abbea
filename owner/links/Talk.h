// SPDX-License-Identifier: Apache-2.0
// Messages on a stream, for a thread that waits for each: the handshake of two owners (Introduce.h).
#ifndef SOJOURN_OWNER_LINKS_TALK_H
#define SOJOURN_OWNER_LINKS_TALK_H

#include "runtime/stream/Frame.h"
#include "runtime/stream/Owned.h"

#include <nng/nng.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace sojourn::owner {

/// All statuses are nng's: NNG_ETIMEDOUT once the time of the talk is over or `stop` is set. Not thread-safe.
class Talk {
public:
  Talk(std::chrono::steady_clock::time_point until, const std::atomic<bool> &stop);
  ~Talk();
  Talk(const Talk &) = delete;
  Talk &operator=(const Talk &) = delete;

  /// Takes a stream that a listener accepted.
  void take(stream::OwnedStream stream) { stream_ = stream.release(); }
  /// In place of a stream of before. `trusted`: see stream::openDialer.
  int dial(const std::string &address, const std::string *trusted);
  int send(stream::FrameKind kind, std::string_view message);
  /// Reads one message and no byte more.
  int receive(stream::FrameKind &kind, std::string &message, size_t bytesMost);
  /// For the other side to close: bytes on their way may be lost else.
  void awaitEnd();
  /// The caller's from now on.
  stream::OwnedStream release() { return stream::OwnedStream(std::exchange(stream_, nullptr)); }
  /// An earlier or later end of its time.
  void end(std::chrono::steady_clock::time_point until) { until_ = until; }

private:
  static void finished(void *self);
  void begin();
  int wait();
  int receiveAll(void *to, size_t bytes);
  void drop();

  std::chrono::steady_clock::time_point until_;
  const std::atomic<bool> &stop_;
  nng_stream *stream_ = nullptr;
  nng_aio *aio_ = nullptr;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool isDone_ = true;
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_LINKS_TALK_H
