// SPDX-License-Identifier: Apache-2.0
// Handshakes that others begin, each on a thread, since other sides may be slow.
#ifndef SOJOURN_OWNER_LINKS_MEETINGS_H
#define SOJOURN_OWNER_LINKS_MEETINGS_H

#include "owner/Listener.h"
#include "owner/Workers.h"
#include "owner/links/Introduce.h"

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

namespace sojourn::owner {

/// Connections that have not proved their key yet. Of more than kMeetingsMost the oldest is closed, so that silent ones
/// keep no owner out. Thread-safe.
class Meetings {
public:
  /// Called by several threads at once. `refusalOf`: as of meetPeer. `adopt`: takes the stream of an owner that has
  /// proved its key and is not refused.
  struct Answers {
    std::function<std::string(const signing::PublicKey &, LinkPurpose)> refusalOf;
    std::function<void(const signing::PublicKey &, stream::OwnedStream)> adopt;
  };
  Meetings(const signing::SigningKey &own, Answers answers) : own(own), answers(std::move(answers)) {}
  ~Meetings() { stop(); }
  Meetings(const Meetings &) = delete;
  Meetings &operator=(const Meetings &) = delete;

  /// A connection that `listener` accepted, which outlives this. On a thread of nng's.
  void add(stream::OwnedStream stream, const Listener &listener);
  /// Ends all handshakes, and waits for them.
  void stop();

  static constexpr unsigned kMeetingsMost = 64;

private:
  struct Meeting {
    stream::OwnedStream stream;
    const std::chrono::steady_clock::time_point since = std::chrono::steady_clock::now();
    std::atomic<bool> stop = false;
  };
  void run(const std::shared_ptr<Meeting> &meeting, const Listener &listener);
  void forget(const std::shared_ptr<Meeting> &meeting);

  const signing::SigningKey &own;
  const Answers answers;
  Workers workers{2 * kMeetingsMost};
  std::mutex mutex;                              ///< of the rest
  std::deque<std::shared_ptr<Meeting>> unproved; ///< oldest first
  bool isStopping = false;
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_LINKS_MEETINGS_H
