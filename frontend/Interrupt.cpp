// SPDX-License-Identifier: Apache-2.0
#include "frontend/Interrupt.h"

#include "frontend/Error.h"

#include <algorithm>
#include <thread>
#include <utility>

namespace sojourn::frontend {

namespace {

std::atomic<std::exception_ptr (*)()> source{nullptr};
std::atomic<void (*)(std::exception_ptr)> postponer{nullptr};

thread_local std::atomic<bool> *together = nullptr;
thread_local bool asks = true, noted = false;
thread_local std::exception_ptr *keeper = nullptr;

std::exception_ptr ask() {
  auto function = source.load();
  if (asks) {
    std::exception_ptr interruption = function ? function() : nullptr;
    if (interruption && together) {
      *together = true;
    }
    return interruption;
  }
  if (together && *together) {
    return std::make_exception_ptr(Error(ErrorKind::ConnectionLost, kInterruptedTogether));
  }
  return nullptr;
}

} // namespace

void setInterruptSource(std::exception_ptr (*ask)(), void (*later)(std::exception_ptr)) {
  source = ask;
  postponer = later;
}

void interruptLater(std::exception_ptr interruption) {
  if (auto later = postponer.load()) {
    later(std::move(interruption));
  }
}

bool Waiting::goesOn(std::chrono::milliseconds grace) {
  if (!interruption_) {
    interruption_ = ask();
    since_ = std::chrono::steady_clock::now();
  }
  return !interruption_ || std::chrono::steady_clock::now() - since_ < grace;
}

void Waiting::isOver() {
  std::exception_ptr interruption = std::exchange(interruption_, nullptr);
  if (interruption && asks && keeper) {
    *keeper = std::move(interruption);
  } else if (interruption && asks) {
    interruptLater(std::move(interruption));
  }
}

void Waiting::end() {
  if (interruption_) {
    noteInterrupt();
    std::rethrow_exception(std::exchange(interruption_, nullptr));
  }
}

KeptInterruption::KeptInterruption() : before_(std::exchange(keeper, &found_)) {}

KeptInterruption::~KeptInterruption() {
  keeper = before_;
  if (found_) {
    interruptLater(std::move(found_));
  }
}

void KeptInterruption::raise() {
  if (found_) {
    noteInterrupt();
    std::rethrow_exception(std::exchange(found_, nullptr));
  }
}

void interruptiblePause(std::chrono::milliseconds length) {
  const auto end = std::chrono::steady_clock::now() + length;
  Waiting waiting;
  for (auto now = std::chrono::steady_clock::now(); now < end; now = std::chrono::steady_clock::now()) {
    std::this_thread::sleep_for(std::min<std::chrono::steady_clock::duration>(kAskEvery, end - now));
    if (!waiting.goesOn(std::chrono::milliseconds(0))) {
      waiting.end();
    }
  }
}

WaitTogether::WaitTogether(std::atomic<bool> &stops, bool asksItself) {
  together = &stops;
  asks = asksItself;
}

WaitTogether::~WaitTogether() {
  together = nullptr;
  asks = true;
}

void noteInterrupt() { noted = true; }
bool takeInterruptNote() { return std::exchange(noted, false); }

} // namespace sojourn::frontend
