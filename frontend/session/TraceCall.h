// SPDX-License-Identifier: Apache-2.0
#ifndef SOJOURN_FRONTEND_SESSION_TRACECALL_H
#define SOJOURN_FRONTEND_SESSION_TRACECALL_H

#include "frontend/compile/Compile.h"
#include "frontend/recording/Trace.h"
#include "frontend/session/StepCall.h"

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

namespace sojourn::frontend {

/// A finished trace, and what its message borrows from or means to the recording.
struct TraceCall : StepCall {
  std::shared_ptr<const CompiledTrace> compiled; ///< holds `step.program` and `step.debug`
  std::vector<at::Tensor> uploads;               ///< hold the bytes of `step.uploads`
  std::vector<Word> kept;                        ///< storages that live on, by trace id; each has one of `step.results`
  std::vector<Origin> slotOrigins;               ///< per slot, offline only
};

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_SESSION_TRACECALL_H
