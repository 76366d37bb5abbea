// SPDX-License-Identifier: Apache-2.0
// Helpers, the boards where runs leave them tasks, and who waits for whom.
#include "runtime/Team.h"
#include "runtime/Denormals.h"
#include "runtime/Library.h"
#include "runtime/Stop.h"
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <pthread.h>
#include <sched.h>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace sojourn::runtime {

namespace {

using Clock = std::chrono::steady_clock;

/// How long a thread looks again and again before it sleeps: about as long as an instruction that has one row. Being
/// woken takes some ten microseconds.
constexpr std::chrono::microseconds kAwake{300};
/// From then on it lets others run in between.
constexpr std::chrono::microseconds kAlone{20};

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Waits until `word` is no longer `old`. While `isIdle`, it sleeps sooner: others need the core.
uint32_t awaitChange(const std::atomic<uint32_t> &word, uint32_t old, const std::atomic<bool> *isIdle = nullptr) {
  constexpr unsigned kLooks = 64; // between two looks at the clock
  Clock::time_point begin{};
  for (;;) {
    for (unsigned look = 0; look < kLooks; ++look) {
      if (uint32_t now = word.load(std::memory_order_acquire); now != old) {
        return now;
      }
      relax();
    }
    const Clock::time_point now = Clock::now();
    begin = begin == Clock::time_point{} ? now : begin;
    const bool isSoon = isIdle == nullptr || !isIdle->load(std::memory_order_relaxed);
    if (now - begin > (isSoon ? kAwake : kAlone)) {
      word.wait(old, std::memory_order_acquire);
    } else if (now - begin > kAlone) {
      sched_yield();
    }
  }
}

/// The tasks of one call at a time. Boards are never freed: a helper that wakes late looks at one that has passed on.
struct alignas(64) Board {
  /// Number of the call in the upper half, tasks that nobody has begun in the lower.
  std::atomic<uint64_t> open{0};
  std::atomic<uint32_t> ended{0}; ///< tasks of this call that have ended
  uint32_t total = 0;
  llvm::function_ref<void(size_t)> *body = nullptr;
  std::mutex mutex;
  std::exception_ptr failure;

  /// Begins tasks of one call until none is left.
  void work(uint32_t call) {
    uint64_t seen = open.load(std::memory_order_acquire);
    while (seen >> 32 == call && static_cast<uint32_t>(seen) != 0) {
      if (!open.compare_exchange_weak(seen, seen - 1, std::memory_order_acq_rel, std::memory_order_acquire)) {
        continue;
      }
      // A task that was begun keeps its call on the board.
      const uint32_t all = total;
      try {
        (*body)(all - static_cast<uint32_t>(seen));
      } catch (...) {
        std::lock_guard lock(mutex);
        failure = std::current_exception();
      }
      if (ended.fetch_add(1, std::memory_order_acq_rel) + 1 == all) {
        ended.notify_one();
      }
      seen = open.load(std::memory_order_acquire);
    }
  }
};

struct alignas(64) Helper {
  std::atomic<Board *> board{nullptr};
  std::atomic<uint32_t> call{0};   ///< number on the board
  std::atomic<uint32_t> asked{0};  ///< how often; changes last
  std::atomic<bool> isIdle{false}; ///< no run has it
};

/// Whether this thread works on a task: what it asks for is then done in order.
thread_local bool isBusy = false;

void help(Helper &helper) {
  isBusy = true;
  for (uint32_t seen = 0;;) {
    seen = awaitChange(helper.asked, seen, &helper.isIdle);
    helper.board.load(std::memory_order_acquire)->work(helper.call.load(std::memory_order_acquire));
  }
}

/// What no run has at the moment. Lives as long as the process.
class Pool {
public:
  static Pool &get() {
    static Pool *pool = [] {
      auto *made = new Pool;
      pthread_atfork([] { get().mutex_.lock(); }, [] { get().mutex_.unlock(); }, [] { get().forget(); });
      return made;
    }();
    return *pool;
  }

  Board *takeBoard() {
    std::lock_guard lock(mutex_);
    if (boards_.empty()) {
      return new Board;
    }
    Board *board = boards_.back();
    boards_.pop_back();
    return board;
  }
  void give(Board *board) {
    std::lock_guard lock(mutex_);
    boards_.push_back(board);
  }

  /// Helpers until there are `count`, the last that slept first; fewer where the system has no more threads.
  void take(std::vector<Helper *> &helpers, size_t count) {
    std::lock_guard lock(mutex_);
    for (; helpers.size() < count && !idle_.empty(); idle_.pop_back()) {
      helpers.push_back(idle_.back());
    }
    while (helpers.size() < count) {
      auto *helper = new Helper;
      try {
        std::thread([helper] { helpRuns([helper] { help(*helper); }); }).detach();
      } catch (const std::system_error &) {
        delete helper;
        return;
      }
      ++made_;
      helpers.push_back(helper);
    }
  }
  void give(std::vector<Helper *> &helpers) {
    std::lock_guard lock(mutex_);
    // The first to be taken is taken first again.
    idle_.insert(idle_.end(), helpers.rbegin(), helpers.rend());
    helpers.clear();
  }
  size_t made() {
    std::lock_guard lock(mutex_);
    return made_;
  }

private:
  /// A forked process has none of the threads.
  void forget() {
    idle_.clear();
    made_ = 0;
    mutex_.unlock();
  }

  std::mutex mutex_;
  std::vector<Board *> boards_;
  std::vector<Helper *> idle_;
  size_t made_ = 0;
};

struct Team {
  unsigned leases = 0;
  Board *board = nullptr;
  std::vector<Helper *> helpers;

  void run(size_t tasks, unsigned threads, llvm::function_ref<void(size_t)> body) {
    board = board ? board : Pool::get().takeBoard();
    const size_t wanted = std::min<size_t>(threads, tasks) - 1;
    if (helpers.size() < wanted) {
      Pool::get().take(helpers, wanted);
    }
    board->body = &body;
    board->total = static_cast<uint32_t>(tasks);
    board->ended.store(0, std::memory_order_relaxed);
    const auto call = static_cast<uint32_t>(board->open.load(std::memory_order_relaxed) >> 32) + 1;
    board->open.store(uint64_t{call} << 32 | tasks, std::memory_order_release);
    for (size_t at = 0; at < std::min(wanted, helpers.size()); ++at) {
      helpers[at]->board.store(board, std::memory_order_release);
      helpers[at]->call.store(call, std::memory_order_release);
      helpers[at]->isIdle.store(false, std::memory_order_relaxed);
      helpers[at]->asked.fetch_add(1, std::memory_order_release);
      helpers[at]->asked.notify_one();
    }
    isBusy = true;
    board->work(call);
    isBusy = false;
    for (uint32_t ended = board->ended.load(std::memory_order_acquire); ended != tasks;) {
      ended = awaitChange(board->ended, ended);
    }
    if (board->failure) {
      std::rethrow_exception(std::exchange(board->failure, nullptr));
    }
  }
  void rest() {
    for (Helper *helper : helpers) {
      helper->isIdle.store(true, std::memory_order_relaxed);
    }
  }
  void end() {
    rest();
    if (board != nullptr) {
      Pool::get().give(helpers);
      Pool::get().give(std::exchange(board, nullptr));
    }
  }
};

Team &teamOfThread() {
  thread_local Team team;
  return team;
}

} // namespace

TeamLease::TeamLease() { ++teamOfThread().leases; }
TeamLease::~TeamLease() {
  Team &team = teamOfThread();
  if (--team.leases == 0) {
    team.end();
  }
}

void runTasks(size_t tasks, unsigned threads, llvm::function_ref<void(size_t)> body) {
  if (threads <= 1 || tasks <= 1 || isBusy) {
    for (size_t task = 0; task < tasks; ++task) {
      body(task);
    }
    return;
  }
  TeamLease lease;
  const StopFlag *stop = stopOfThread();
  const bool flushes = flushesDenormals();
  teamOfThread().run(tasks, threads, [&](size_t task) {
    const StopScope scope(stop);
    const DenormalScope denormals(flushes);
    body(task);
  });
}

/// Row by row, so that a run can be stopped between two: each is work for some microseconds at least.
static void runPiece(const Kernel &kernel, SlotTable slots, int64_t lo, int64_t hi, unsigned worker) {
  for (int64_t row = lo; row < hi; ++row) {
    checkStop();
    kernel.run(slots, row, row + 1, worker);
  }
}

void runRows(const Kernel &kernel, SlotTable slots, unsigned threads) {
  const int64_t rows = kernel.rows, pieces = std::min<int64_t>(threads, rows);
  if (pieces <= 1 || isBusy) {
    runPiece(kernel, slots, 0, rows, 0);
    return;
  }
  // A piece's number is its worker.
  runTasks(static_cast<size_t>(pieces), threads, [&](size_t task) {
    const auto piece = static_cast<int64_t>(task);
    runPiece(kernel, slots, rows * piece / pieces, rows * (piece + 1) / pieces, static_cast<unsigned>(piece));
  });
}

size_t helperThreads() { return Pool::get().made(); }

} // namespace sojourn::runtime
