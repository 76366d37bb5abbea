// SPDX-License-Identifier: Apache-2.0
// Threads and their steps. Each thread records for itself: at every session it has an open trace of
// its own, and its explicit step owns the sessions that it touched.
#ifndef SOJOURN_FRONTEND_SESSION_STEPS_H
#define SOJOURN_FRONTEND_SESSION_STEPS_H

#include "frontend/recording/Recording.h"

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace sojourn::frontend {

class Session;
struct Trip;

/// Highest number of owners a process can talk to: the autograd engine sizes its queues once.
inline constexpr int kDeviceCountMax = 16;

/// One explicit step of one thread. What it recorded at the sessions that it touched travels
/// together or is dropped together.
struct OpenStep {
  uint64_t number = 0;           ///< counted over all threads, from 1
  int depth = 1;                 ///< nested steps join
  bool hadEngineThreads = false; ///< before it
  std::array<std::shared_ptr<Session>, kDeviceCountMax> touched;
};

/// What one thread has open. Made by its first recording or step; when the thread ends, what it
/// has not sent is lost and says so.
class ThreadState {
public:
  ThreadState();
  ~ThreadState();
  ThreadState(const ThreadState &) = delete;
  ThreadState &operator=(const ThreadState &) = delete;

  /// Of the calling thread. Throws Error on a thread of torch's autograd engine: backward runs on
  /// the thread that calls it, for a thread that records has the engine's threads switched off.
  static ThreadState &current();
  /// Of the calling thread, if it has one.
  static ThreadState *existing();

  /// The open trace at `session`; entering it in the open step marks where the step began.
  /// The session's lock is held by the caller.
  Recording &at(Session &session);
  /// Nothing if the thread has recorded nothing there since the last take.
  std::shared_ptr<Recording> peek(const Session &session) const;
  /// Takes the open trace out on its way to the owner.
  std::shared_ptr<Recording> take(const Session &session);
  /// Returns one that was not sent. False if another was begun meanwhile.
  bool putBack(const Session &session, std::shared_ptr<Recording> recording);
  /// Sessions at which something is open, in order of their index.
  std::vector<std::shared_ptr<Session>> sessions() const;

  std::unique_ptr<OpenStep> step;

private:
  struct Slot {
    std::weak_ptr<Session> session;
    const Session *identity = nullptr;
    std::shared_ptr<Recording> recording;
  };
  std::array<Slot, kDeviceCountMax> slots_;
};

/// The calling thread's explicit step. Nested steps join the outer one.
class Steps {
public:
  /// Whether it is the outermost one. Until its end backward runs on the calling thread.
  static bool begin();
  /// Ends the outermost step: sends to every session that it touched before it waits for any.
  /// Throws what the first failing owner says, and with several owners which of them committed.
  /// `trip`: counts the step once it has committed. `holds`: one at one owner joins it and travels with its next
  /// message.
  static void end(const std::shared_ptr<Trip> &trip = nullptr, bool holds = false);
  static void abort();
  static bool active();
  /// Number of the open step, counted from 1; 0 if none is open.
  static uint64_t current();
};

/// Ends the calling thread's implicit step: sends what it has open, at all owners at once.
void flushAll();

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_SESSION_STEPS_H
