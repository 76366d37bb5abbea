// SPDX-License-Identifier: Apache-2.0
// Taking an op and whatever depends on it, or an input, out of a trace. Knows neither torch nor MLIR.
#ifndef SOJOURN_FRONTEND_RECORDING_PRUNE_H
#define SOJOURN_FRONTEND_RECORDING_PRUNE_H

#include "frontend/recording/Trace.h"

#include <vector>

namespace sojourn::frontend {

/// What is left of a trace, and how its storages map to those before.
struct PrunedTrace {
  Trace trace;
  std::vector<bool> lost;     ///< by old id: its value depends on the op
  std::vector<int64_t> newId; ///< by old id; -1 for results of dropped ops
};

/// `trace` (without its Outputs record) less op record `op`, the results and the writes of it, and
/// every later op that reads what these made. Later ops keep their order, slots and seeds theirs.
PrunedTrace pruneTrace(const Trace &trace, size_t op);

/// By id: whether an op of `trace` takes the storage.
std::vector<bool> usedIds(const Trace &trace);

/// Takes input `id`, which no op uses, out of `trace` (without its Outputs record), in place: later ids are one less.
/// Returns where its words began among those of the inputs.
size_t dropInput(Trace &trace, int64_t id);

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_RECORDING_PRUNE_H
