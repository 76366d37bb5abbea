// SPDX-License-Identifier: Apache-2.0
// What the recorder asks of those above it, who send steps: values that an op needs before it can be recorded, and
// where steps end that nobody declared. frontend/flight answers.
#ifndef SOJOURN_FRONTEND_RECORDING_STEPSENDER_H
#define SOJOURN_FRONTEND_RECORDING_STEPSENDER_H

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace sojourn::frontend {

class RemoteDevice;

class StepSender {
public:
  virtual ~StepSender() = default;

  /// Dense CPU copies of remote tensors, without a graph, which nobody may write to; at each owner one trip for all of
  /// them. Throws ValueNeeded within a step and on offline devices, Refused where a value may not leave for nothing,
  /// and what a flush throws.
  virtual std::vector<at::Tensor> readValues(const std::vector<at::Tensor> &tensors) = 0;

  /// The value of a mask (booleans or bytes), whose positions say how large a result is: a dense CPU copy; nobody may
  /// write to it. Known at any time where this process uploaded it and nobody wrote to it since; else read outside of
  /// steps, as by `readValues`, whose errors it throws. Undefined within a step, on offline devices, where it may not
  /// leave the owner, and where the read would send rows of a private table without their update.
  virtual at::Tensor maskValue(const at::Tensor &mask) = 0;

  /// Numbers that say how large a result is. `count` makes them (int64) of `given`: here where its value is known, else
  /// at the owner, and then they alone are read, as by `readValues`, whose errors this throws. Empty where `maskValue`
  /// of a mask is undefined; inside of steps, of a mask alone they may be known.
  virtual std::optional<std::vector<int64_t>> readSizes(const at::Tensor &given,
                                                        const std::function<at::Tensor(const at::Tensor &)> &count) = 0;

  /// A tensor of a member as one of its group (`RemoteDevice::hasMember`), at that member; the value does not leave the
  /// owner. Throws Error for a value that is still to be computed within a step, Refused for one of private tables.
  virtual at::Tensor borrow(const at::Tensor &tensor, RemoteDevice &group) = 0;

  /// A tensor of one remote device on another one, between a group and its members, and between owners that are in one
  /// group; the value does not pass through this process. Undefined where there is no such way. Throws Error within a
  /// step for a value that is still to be computed or sent, Refused where it may not be sent.
  virtual at::Tensor move(const at::Tensor &tensor, RemoteDevice &to) = 0;

  /// Outside of explicit steps, where a batch begins: nothing of the next step is recorded yet, so that what has ended
  /// is sent now; and what has not, where it is much.
  virtual void batchBegins() = 0;

  /// Outside of explicit steps, before an op is recorded: a trace of thousands of ops that no optimizer ends (a loop
  /// that updates its weights by hand) is sent where a line of it comes again, so that it never grows to an owner's
  /// limits and its parts are alike. One that holds rows of a table stays whole: rows belong with their update.
  virtual void boundStep(RemoteDevice &device) = 0;
};

/// Set when the library is loaded.
void setStepSender(StepSender &sender);
StepSender &stepSender();

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_RECORDING_STEPSENDER_H
