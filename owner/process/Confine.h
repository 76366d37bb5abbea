// SPDX-License-Identifier: Apache-2.0
// What a worker process may ask of the system.
#ifndef SOJOURN_OWNER_PROCESS_CONFINE_H
#define SOJOURN_OWNER_PROCESS_CONFINE_H

#include "llvm/Support/Error.h"

#include <cstdint>

namespace sojourn::owner {

/// Of the zygote, before it forks: no network and no IPC of others where namespaces can be had, no rights where it runs
/// as root, no core dumps, not to be looked into by other processes, and the first to go where memory is short. What
/// cannot be had is left out; false: it runs as root and cannot leave that.
bool leaveSystem();

/// Of a worker, for good: limits, and the system calls that its libraries need. Others fail with EPERM; those that no
/// library needs end the process. `dataBytes`: of private memory beside what the process has, 0: no limit;
/// `descriptors`: the most open files.
llvm::Error confine(uint64_t dataBytes, uint64_t descriptors);

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_PROCESS_CONFINE_H
