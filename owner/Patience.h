// SPDX-License-Identifier: Apache-2.0
// How long a step waits for what other steps have.
#ifndef SOJOURN_OWNER_PATIENCE_H
#define SOJOURN_OWNER_PATIENCE_H

#include <chrono>
#include <optional>

namespace sojourn::owner {

/// A wait that takes longer ends as `busy` (RequestError.h): while a joint step waits here, other members hold memory
/// and processes for it. None: the wait has no such bound.
using Patience = std::optional<std::chrono::milliseconds>;

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_PATIENCE_H
