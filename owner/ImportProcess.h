// SPDX-License-Identifier: Apache-2.0
// A separate process for an untrusted file.
#ifndef SOJOURN_OWNER_IMPORTPROCESS_H
#define SOJOURN_OWNER_IMPORTPROCESS_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"

#include <csignal>
#include <cstdint>
#include <functional>
#include <string>

namespace sojourn::owner {

using Progress = std::function<void(const std::string &stage, int64_t done, int64_t total)>;

/// What the process may use, beside what its parent uses already.
struct ProcessLimits {
  int64_t memoryBytes = 0, fileBytes = 0, seconds = 0; ///< of a processor, all threads together
};

/// While it lives, a signal that ends this process (Ctrl-C) waits: `runApart` ends its child at once, what it left is
/// removed, and then the signal takes effect.
class HeldSignals {
public:
  HeldSignals();
  ~HeldSignals();
  HeldSignals(const HeldSignals &) = delete;
  HeldSignals &operator=(const HeldSignals &) = delete;
  static sigset_t all();

private:
  sigset_t before;
};

/// Runs `work` in a fork of this process, and gives what it returns. A crash, a signal, a limit or the want of memory
/// ends the fork alone and is an error here, which names `file`. The fork cannot gain privileges, leaves no core, shows
/// nothing in the terminal, is the first to be ended where memory runs out, and ends with its parent. No other thread
/// of this process may run.
llvm::Expected<std::string> runApart(const std::string &file, const ProcessLimits &limits, const Progress &progress,
                                     llvm::function_ref<llvm::Expected<std::string>(const Progress &)> work);

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_IMPORTPROCESS_H
