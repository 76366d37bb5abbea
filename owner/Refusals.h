// SPDX-License-Identifier: Apache-2.0
// What the data owner's log says of refused requests.
#ifndef SOJOURN_OWNER_REFUSALS_H
#define SOJOURN_OWNER_REFUSALS_H

#include "owner/RequestError.h"

#include <cstdint>
#include <string>

namespace sojourn::owner {

/// A request as far as the log shows it: texts of others in one line each, and of bounded length.
struct RefusedRequest {
  RefusedRequest() = default; ///< nothing can be read of it
  explicit RefusedRequest(const wire::Request &request);
  explicit RefusedRequest(const wire::Step &step);
  std::string kind;
  uint64_t session = 0;
  std::string said;   ///< what a client without a session calls itself
  std::string tables; ///< those that it names
};

/// One line, with the error's reason.
std::string refusalText(const RefusedRequest &request, const std::string &client, const RequestError &error);

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_REFUSALS_H
