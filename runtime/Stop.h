// SPDX-License-Identifier: Apache-2.0
// Ends a run, or the plan of a program, from another thread: its threads look at a flag before each instruction, and
// before each row of one; plans before each op.
#ifndef SOJOURN_RUNTIME_STOP_H
#define SOJOURN_RUNTIME_STOP_H
#include <atomic>
#include <exception>

namespace sojourn::runtime {

/// Set once; a run that sees it ends with an error.
using StopFlag = std::atomic<bool>;

/// What `checkStop` throws.
class Stopped : public std::exception {
public:
  const char *what() const noexcept override;
};

/// The flag that this thread looks at; null for none.
const StopFlag *stopOfThread();

/// Has this thread look at a flag for as long as it lives. Nests.
class StopScope {
public:
  explicit StopScope(const StopFlag *flag);
  ~StopScope();
  StopScope(const StopScope &) = delete;
  StopScope &operator=(const StopScope &) = delete;

private:
  const StopFlag *before_;
};

/// Whether the flag is set.
bool isStopped();

/// Throws Stopped once the flag is set.
void checkStop();

} // namespace sojourn::runtime

#endif // SOJOURN_RUNTIME_STOP_H
