// SPDX-License-Identifier: Apache-2.0
// Values that a script reads outside of a step: what is pending travels with the question, in one trip. A read spends
// nothing: open values, own ones and what was released already.
#ifndef SOJOURN_FRONTEND_SESSION_READS_H
#define SOJOURN_FRONTEND_SESSION_READS_H

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace sojourn::frontend {

/// Dense CPU copies of remote tensors, without a graph; at each owner one trip for all of them, none for what was read
/// before and not written since. Throws ValueNeeded within a step and on offline devices, Refused where the value may
/// not leave for nothing, and what a flush throws. Nobody may write to the results. `keep`: large ones are remembered,
/// too, until `forgetRead`.
std::vector<at::Tensor> readValues(const std::vector<at::Tensor> &tensors, bool keep = false);
void forgetRead(const std::vector<at::Tensor> &tensors);

/// What a process does around reads.
struct ReadListener {
  /// Before a trip. `isExtra`: no step has just ended that would have travelled anyway. May throw: nothing is read
  /// then.
  std::function<void(bool isExtra)> before;
  /// After it.
  std::function<void()> after;
  /// Runs the trip while others may run.
  std::function<void(const std::function<void()> &trip)> around;
};
void setReadListener(ReadListener listener);

/// Outside of explicit steps: a step that nobody declared ends here (an optimizer has stepped, the next batch begins).
/// What ended before it is sent now, with all that is open; the rest travels at the next mark or read.
/// `isBatch`: nothing of the next step is recorded yet, so that what has ended is sent and no new end is marked; and
/// what has not, where it is much.
void markStep(bool isBatch);

class Session;

/// Outside of explicit steps, before an op is recorded: a trace of thousands of ops that no optimizer ends (a loop that
/// updates its weights by hand) is sent where a line of it comes again, so that it never grows to an owner's limits
/// and its parts are alike. One that holds rows of a table stays whole: rows belong with their update.
void boundStep(Session &session);

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_SESSION_READS_H
