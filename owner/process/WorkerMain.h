// SPDX-License-Identifier: Apache-2.0
// The zygote, and the worker processes that it forks: the other side of Zygote.h.
#ifndef SOJOURN_OWNER_PROCESS_WORKERMAIN_H
#define SOJOURN_OWNER_PROCESS_WORKERMAIN_H

namespace sojourn::owner {

/// Of the program sojourn-worker, which has the zygote's socket as descriptor 3 and no other one. Returns once the
/// front is gone: the exit code.
int workerMain();

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_PROCESS_WORKERMAIN_H
