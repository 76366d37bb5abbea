// SPDX-License-Identifier: Apache-2.0
// Work ahead: what libraries set up at their first use, before workers lose the right to open files.
#ifndef SOJOURN_OWNER_PROCESS_WARM_H
#define SOJOURN_OWNER_PROCESS_WARM_H

namespace sojourn::owner {

/// Of the zygote, on its one thread: time zone, random numbers, vector instructions, dialects, and the description of
/// an empty program. All workers share these pages. Kernels are not run: they would start threads.
void warmZygote();

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_PROCESS_WARM_H
