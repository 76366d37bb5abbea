// SPDX-License-Identifier: Apache-2.0
// Waits for an owner end early where a signal's handler raises (Ctrl-C). Knows no Python: the bindings say how to ask.
#ifndef SOJOURN_FRONTEND_INTERRUPT_H
#define SOJOURN_FRONTEND_INTERRUPT_H

#include <atomic>
#include <chrono>
#include <exception>

namespace sojourn::frontend {

/// `ask`: what a handler of a signal raises in the calling thread now, or null; called while threads wait, holds no
/// lock. `later`: raises it once the calling thread's work is done.
void setInterruptSource(std::exception_ptr (*ask)(), void (*later)(std::exception_ptr));
void interruptLater(std::exception_ptr interruption);

/// How long what is under way may go on after an interruption: most steps end within it, and their outcome is known.
inline constexpr std::chrono::milliseconds kInterruptGrace{300};
/// How often a wait asks.
inline constexpr std::chrono::milliseconds kAskEvery{50};

/// A wait of the calling thread, which asks every `kAskEvery`.
class Waiting {
public:
  /// Whether to wait on; false where an interruption is as old as `grace`.
  bool goesOn(std::chrono::milliseconds grace = kInterruptGrace);
  /// What was waited for is there after all.
  void isOver();
  /// Throws the interruption, if there is one.
  void end();
  bool isInterrupted() const { return interruption_ != nullptr; }

private:
  std::exception_ptr interruption_;
  std::chrono::steady_clock::time_point since_;
};

/// While it lives, an interruption of the calling thread that comes as its wait is over is kept: for `raise`, or at the
/// end for later.
class KeptInterruption {
public:
  KeptInterruption();
  ~KeptInterruption();
  KeptInterruption(const KeptInterruption &) = delete;
  KeptInterruption &operator=(const KeptInterruption &) = delete;
  /// Throws it, if there is one.
  void raise();

private:
  std::exception_ptr found_;
  std::exception_ptr *const before_;
};

/// Sleeps; throws an interruption at once.
void interruptiblePause(std::chrono::milliseconds length);

/// Text of the error that ends the waits of the other threads.
inline constexpr const char *kInterruptedTogether = "the wait for the owner was interrupted";

/// Several threads at one step: an interruption of the one that asks sets `stops` and ends the waits of all.
class WaitTogether {
public:
  WaitTogether(std::atomic<bool> &stops, bool asksItself);
  ~WaitTogether();
  WaitTogether(const WaitTogether &) = delete;
  WaitTogether &operator=(const WaitTogether &) = delete;
};

/// Of the calling thread: that a wait or a follower (Client.h) was ended by a signal, since this was last taken.
void noteInterrupt();
bool takeInterruptNote();

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_INTERRUPT_H
