// SPDX-License-Identifier: Apache-2.0
// The end of a process that would otherwise release something without its noise. Header only.
#ifndef SOJOURN_RUNTIME_PRIVACY_MISUSE_H
#define SOJOURN_RUNTIME_PRIVACY_MISUSE_H

#include <cstdio>
#include <cstdlib>

namespace sojourn::privacy {

/// Stops the process: for mistakes of our own around coins and noise, where going on would be worse.
/// Nothing that a client sends reaches it. `what` names no value that is computed from data.
[[noreturn]] inline void misuse(const char *what) {
  std::fprintf(stderr, "sojourn: %s\n", what);
  std::abort();
}

} // namespace sojourn::privacy

#endif // SOJOURN_RUNTIME_PRIVACY_MISUSE_H
