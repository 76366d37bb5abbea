// SPDX-License-Identifier: Apache-2.0
// Values that a script reads outside of a step: what is pending travels with the question, in one trip. A read spends
// nothing: open values, own ones and what was released already.
#ifndef SOJOURN_FRONTEND_SESSION_READS_H
#define SOJOURN_FRONTEND_SESSION_READS_H

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <vector>

namespace sojourn::frontend {

/// Dense CPU copies of remote tensors, without a graph; at each owner one trip for all of them, none for what was read
/// before and not written since. Throws ValueNeeded within a step and on offline devices, Refused where the value may
/// not leave for nothing, and what a flush throws. Nobody may write to the results. `keep`: large ones are remembered,
/// too, until `forgetRead`.
std::vector<at::Tensor> readValues(const std::vector<at::Tensor> &tensors, bool keep = false);
void forgetRead(const std::vector<at::Tensor> &tensors);

/// The value of a mask (booleans or bytes), whose positions say how large a result is: a dense CPU copy; nobody may
/// write to it. Known at any time where this process uploaded it and nobody wrote to it since; else read outside of
/// steps, as by `readValues`, whose errors it throws. Undefined within a step, on offline devices, where it may not
/// leave the owner, and where the read would send rows of a private table without their update.
at::Tensor maskValue(const at::Tensor &mask);

/// Numbers that say how large a result is. `count` makes them (int64) of `given`: here where its value is known, else
/// at the owner, and then they alone are read, as by `readValues`, whose errors this throws. Empty where `maskValue` of
/// a mask is undefined; inside of steps, of a mask alone they may be known.
std::optional<std::vector<int64_t>> readSizes(const at::Tensor &given,
                                              const std::function<at::Tensor(const at::Tensor &)> &count);

/// What a process does around reads.
struct ReadListener {
  /// Before a trip. `isExtra`: no step has just ended that would have travelled anyway. May throw: nothing is read
  /// then.
  std::function<void(bool isExtra)> before;
  /// After it, with the same `isExtra`; not after a trip that failed. Also after work that was sent without a read.
  std::function<void(bool isExtra)> after;
  /// Runs the trip while others may run.
  std::function<void(const std::function<void()> &trip)> around;
};
void setReadListener(ReadListener listener);

/// Outside of explicit steps: a step that nobody declared ends here, for an optimizer has stepped. It travels at the
/// next read, at the next batch, or where an optimizer steps that has stepped since: several optimizers on one batch
/// are one step, and so are up to 32 steps of any on rows of a table. `optimizer`: which one, any number that no other
/// has.
void markStep(uint64_t optimizer);
/// The same where a batch begins: nothing of the next step is recorded yet, so that what has ended is sent now; and
/// what has not, where it is much.
void markBatch();

/// Whether the calling thread records a copy for a read.
bool isAtRead();

class Session;

/// Outside of explicit steps, before an op is recorded: a trace of thousands of ops that no optimizer ends (a loop that
/// updates its weights by hand) is sent where a line of it comes again, so that it never grows to an owner's limits
/// and its parts are alike. One that holds rows of a table stays whole: rows belong with their update.
void boundStep(Session &session);

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_SESSION_READS_H
