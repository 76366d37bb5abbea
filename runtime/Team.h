// SPDX-License-Identifier: Apache-2.0
// Threads that help runs. OpenMP keeps helpers for each thread that ever asked for some, and puts all of them to sleep
// between two loops as soon as they are more than the cores: a server whose requests come to several threads waited
// for helpers to wake, loop by loop. Here helpers are lent to a run for as long as it lasts, stay awake between its
// instructions, and a task that no helper has begun is done by the one who waits for it.
#ifndef SOJOURN_RUNTIME_TEAM_H
#define SOJOURN_RUNTIME_TEAM_H
#include "runtime/Kernel.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <cstddef>

namespace sojourn::runtime {

/// While one of these lives, helpers that this thread's calls of `runTasks` take stay with the thread. Nests.
class TeamLease {
public:
  TeamLease();
  ~TeamLease();
  TeamLease(const TeamLease &) = delete;
  TeamLease &operator=(const TeamLease &) = delete;
};

/// Calls `body` with 0 .. tasks - 1 on at most `threads` threads, the caller among them, the lower numbers first. In
/// order on the caller where it is a helper or in such a call already. What a call throws is thrown on when all have
/// ended; calls that have not begun then are still made.
void runTasks(size_t tasks, unsigned threads, llvm::function_ref<void(size_t)> body);

/// Runs all rows of a kernel on at most `threads` threads, the caller among them. Inside, library calls run on the
/// thread that makes them.
void runRows(const Kernel &kernel, SlotTable slots, unsigned threads);

/// Helpers that exist in this process; they sleep where no run has them.
size_t helperThreads();

} // namespace sojourn::runtime

#endif // SOJOURN_RUNTIME_TEAM_H
