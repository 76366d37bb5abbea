// SPDX-License-Identifier: Apache-2.0
// Results of the parts of a run, as a worker tells them to the front.
#ifndef SOJOURN_OWNER_RANPARTS_H
#define SOJOURN_OWNER_RANPARTS_H

#include "owner/RequestError.h"
#include "owner/worker/Port.h"
#include "runtime/CopiesDigest.h"
#include "runtime/HostTensor.h"

#include <optional>
#include <vector>

namespace sojourn::owner {

struct RanParts {
  struct Part {
    std::vector<runtime::HostTensor> published; ///< in the order of the results
    std::vector<double> errors;                 ///< per result, where an argument changes one
    Memory kept; ///< per result the memory of its value; null where it is published, or dropped in the same run
    runtime::CopiesDigest copies{}; ///< of a joint step
  };
  std::vector<Part> parts;             ///< that ran; of a run with exchanges, since the last one
  std::optional<RequestError> failure; ///< of the next one; none where it did not begin
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_RANPARTS_H
