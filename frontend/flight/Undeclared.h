// SPDX-License-Identifier: Apache-2.0
// Where steps end that nobody declared.
#ifndef SOJOURN_FRONTEND_FLIGHT_UNDECLARED_H
#define SOJOURN_FRONTEND_FLIGHT_UNDECLARED_H

#include "frontend/session/Session.h"

#include <cstdint>
#include <vector>

namespace sojourn::frontend {

/// Outside of explicit steps: a step that nobody declared ends here, for an optimizer has stepped. It travels at the
/// next read, at the next batch, or where an optimizer steps that has stepped since: several optimizers on one batch
/// are one step, and so are up to 32 steps of any on rows of a table. `optimizer`: which one, any number that no other
/// has.
void markStep(uint64_t optimizer);
/// The same where a batch begins: nothing of the next step is recorded yet, so that what has ended is sent now; and
/// what has not, where it is much.
void markBatch();

/// Whether a step that nobody declared has ended in the calling thread's trace and was not sent.
bool hasEnded(Session &session);
/// Whether the owner has these values as they are now: the calling thread has nothing to send before they are read.
bool hasNow(Session &session, const std::vector<at::Tensor> &tensors);

/// As `StepSender` says.
void boundStep(RemoteDevice &device);

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_FLIGHT_UNDECLARED_H
