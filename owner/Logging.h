// SPDX-License-Identifier: Apache-2.0
// The log of an owner that serves.
#ifndef SOJOURN_OWNER_LOGGING_H
#define SOJOURN_OWNER_LOGGING_H

#include "owner/Environment.h"

#include <functional>

namespace sojourn::owner {

/// Sends the process's log to standard error and returns what Environment::log takes. Sessions,
/// refusals and trouble are logged; with `everyRequest` also sizes and times. Never a value. `asJson`: each line is an
/// object with time (UTC, ISO 8601), level and text, and with event, client, request, tables and code where they are
/// known.
std::function<void(const LogLine &)> logToStandardError(bool everyRequest, bool asJson = false);

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_LOGGING_H
