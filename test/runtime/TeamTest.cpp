// SPDX-License-Identifier: Apache-2.0
// Tasks on helpers: each is done once, whoever asks, however many ask, and wherever helpers come from.
#include "runtime/Stop.h"
#include "runtime/Team.h"

#include <atomic>
#include <chrono>
#include <gtest/gtest.h>
#include <mutex>
#include <random>
#include <set>
#include <stdexcept>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace sojourn::runtime;

namespace {

/// Prints its seed where the test fails.
class Team : public ::testing::Test {
protected:
  const unsigned seed = std::random_device()();
  std::mt19937 random{seed};
  ::testing::ScopedTrace trace{__FILE__, __LINE__, "seed " + std::to_string(seed)};
};

/// How often each of `tasks` tasks was done in one call.
std::vector<int> done(size_t tasks, unsigned threads) {
  std::vector<std::atomic<int>> times(tasks);
  runTasks(tasks, threads, [&](size_t task) { ++times[task]; });
  return {times.begin(), times.end()};
}

/// Does something for about so long.
void work(std::chrono::microseconds time) {
  for (auto end = std::chrono::steady_clock::now() + time; std::chrono::steady_clock::now() < end;) {
  }
}

TEST_F(Team, DoesEachTaskOnce) {
  for (int call = 0; call < 2000; ++call) {
    const size_t tasks = random() % 40;
    EXPECT_EQ(done(tasks, random() % 6), std::vector<int>(tasks, 1));
  }
}

TEST_F(Team, WakesHelpersThatSleep) {
  TeamLease lease;
  for (int call = 0; call < 20; ++call) {
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
    EXPECT_EQ(done(7, 3), std::vector<int>(7, 1));
  }
}

TEST_F(Team, HelpersHelp) {
  std::mutex mutex;
  std::set<std::thread::id> seen;
  std::atomic<int> inside{0};
  // Both tasks wait for each other: one thread alone would not come to an end.
  runTasks(2, 2, [&](size_t) {
    ++inside;
    while (inside < 2) {
      std::this_thread::yield();
    }
    std::lock_guard lock(mutex);
    seen.insert(std::this_thread::get_id());
  });
  EXPECT_EQ(seen.size(), 2u);
  EXPECT_TRUE(seen.count(std::this_thread::get_id()));
}

TEST_F(Team, TakesNoMoreThreadsThanItMay) {
  for (unsigned threads = 1; threads <= 4; ++threads) {
    std::atomic<unsigned> inside{0}, most{0};
    runTasks(64, threads, [&](size_t) {
      unsigned now = ++inside, known = most;
      while (now > known && !most.compare_exchange_weak(known, now)) {
      }
      work(std::chrono::microseconds(20));
      --inside;
    });
    EXPECT_LE(most, threads);
  }
}

TEST_F(Team, TasksInsideOfTasksAreDoneInOrder) {
  std::atomic<int> all{0};
  runTasks(4, 4, [&](size_t) {
    std::vector<size_t> order;
    runTasks(5, 4, [&](size_t task) { order.push_back(task); });
    EXPECT_EQ(order, (std::vector<size_t>{0, 1, 2, 3, 4}));
    all += static_cast<int>(order.size());
  });
  EXPECT_EQ(all, 20);
}

TEST_F(Team, WhatATaskThrowsIsThrownWhenAllHaveEnded) {
  for (unsigned threads : {2u, 3u}) {
    std::atomic<int> ended{0};
    const size_t wrong = random() % 9;
    EXPECT_THROW(runTasks(9, threads,
                          [&](size_t task) {
                            ++ended;
                            if (task == wrong) {
                              throw std::runtime_error("task");
                            }
                          }),
                 std::runtime_error);
    EXPECT_EQ(ended, 9);
    EXPECT_EQ(done(9, threads), std::vector<int>(9, 1)) << "nothing of it is left";
  }
}

TEST_F(Team, HelpersAreLentAgain) {
  { // as many as this test has at once
    TeamLease lease;
    done(4, 4);
  }
  const size_t before = helperThreads();
  for (int turn = 0; turn < 50; ++turn) {
    std::thread([&] { EXPECT_EQ(done(4, 4), std::vector<int>(4, 1)); }).join();
  }
  EXPECT_EQ(helperThreads(), before);
}

TEST_F(Team, ManyAskAtOnce) {
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 6; ++caller) {
    callers.emplace_back([seed = random()] {
      std::mt19937 random(static_cast<unsigned>(seed));
      for (int run = 0; run < 20; ++run) {
        TeamLease lease;
        for (int call = 0; call < 20; ++call) {
          const size_t tasks = random() % 9;
          EXPECT_EQ(done(tasks, 1 + random() % 4), std::vector<int>(tasks, 1));
        }
      }
    });
  }
  for (std::thread &caller : callers) {
    caller.join();
  }
}

TEST_F(Team, AForkedProcessMakesItsOwn) {
  done(4, 3);
  const pid_t child = fork();
  if (child == 0) {
    const bool right = helperThreads() == 0 && done(6, 3) == std::vector<int>(6, 1) && helperThreads() == 2;
    _exit(right ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(done(6, 3), std::vector<int>(6, 1));
}

/// A run whose rows wait for nothing but the flag: without a look at it between rows, none would end.
TEST_F(Team, AStoppedRunEndsBetweenRows) {
  struct Rows : Kernel {
    StopFlag &stop;
    std::atomic<int> &begun;
    const int64_t last;
    Rows(StopFlag &stop, std::atomic<int> &begun, int64_t last) : stop(stop), begun(begun), last(last) {}
    void run(SlotTable, int64_t lo, int64_t hi, unsigned) const override {
      for (int64_t row = lo; row < hi; ++row) {
        if (++begun == last) {
          stop = true;
        }
      }
    }
    size_t bytes() const override { return 0; }
  };
  for (unsigned threads = 1; threads <= 4; ++threads) {
    StopFlag stop{false};
    std::atomic<int> begun{0};
    Rows kernel(stop, begun, 1 + random() % 1000);
    kernel.rows = 1'000'000;
    {
      const StopScope scope(&stop);
      EXPECT_THROW(runRows(kernel, SlotTable(nullptr, nullptr, 0), threads), Stopped);
    }
    EXPECT_GE(begun, kernel.last);
    EXPECT_LT(begun, 900'000) << threads;
    EXPECT_EQ(stopOfThread(), nullptr);
    EXPECT_EQ(done(7, threads), std::vector<int>(7, 1)) << "the flag was that run's alone";
  }
}

} // namespace
