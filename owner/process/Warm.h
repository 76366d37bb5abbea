// SPDX-License-Identifier: Apache-2.0
// Work ahead: what libraries set up at their first use, before workers lose the right to open files.
#ifndef SOJOURN_OWNER_PROCESS_WARM_H
#define SOJOURN_OWNER_PROCESS_WARM_H

namespace sojourn::owner {

/// Of the zygote: dialects, passes, kernels on one thread. All workers share these pages.
void warmZygote();
/// Of a worker, before its filter.
void warmWorker();

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_PROCESS_WARM_H
