// SPDX-License-Identifier: Apache-2.0
// The recorder: one boxed kernel below autograd that appends what arrives to the session's trace.
#ifndef SOJOURN_FRONTEND_RECORDING_RECORD_H
#define SOJOURN_FRONTEND_RECORDING_RECORD_H

#include "frontend/recording/OpInfo.h"
#include "frontend/recording/RemoteDevice.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>

namespace sojourn::frontend {

/// The remote device that a torch device names; the thread's current one where it names no index.
std::shared_ptr<RemoteDevice> deviceAt(c10::Device device);
/// Throws where a tensor that is written and one that is read share part of their memory, as eager's iterators do.
/// `takesSame`: eager takes one tensor for both.
void checkApart(const at::Tensor &written, const at::Tensor &read, bool takesSame = true);
/// The same of ops over lists: what is written to the k-th tensor, and what the k-th of other lists holds.
void checkListsApart(const OpInfo &info, c10::ArrayRef<c10::IValue> args, uint32_t position);
/// Throws for a tensor whose elements share memory, and for booleans seen as numbers.
void checkWritable(const OpInfo &info, const at::Tensor &tensor);
/// An op that needs more than the general path (Special.cpp). Whether its result is on the stack; else it is recorded,
/// with the arguments that are there now.
bool answerSpecial(const OpInfo &info, torch::jit::Stack *stack);

/// An op whose values say how large its result is: whether its results are on the stack. Throws what refuses it where
/// the size may not be read.
bool answerSized(const OpInfo &info, torch::jit::Stack *stack);
/// How many classes non-negative labels have; empty where that may not be read.
std::optional<int64_t> classesOf(const at::Tensor &labels);

/// Whether torch has put off the conjugation or the negation of a tensor to its next use.
inline bool isLazilyNegated(const at::Tensor &tensor) { return tensor.is_conj() || tensor.is_neg(); }
/// The tensor as it is stored, and the values that it stands for, computed now.
at::Tensor asStored(const at::Tensor &tensor);
at::Tensor resolved(const at::Tensor &tensor);

/// Whether each element has a place of its own and there are no gaps.
bool isDenseLayout(c10::IntArrayRef sizes, c10::IntArrayRef strides);
/// A new tensor of these strides, which may have gaps or share elements: a window on a dense storage.
at::Tensor emptyStrided(c10::IntArrayRef sizes, c10::IntArrayRef strides, const at::TensorOptions &options);
/// resize_ of a remote tensor, in place; refuses what another tensor would see.
void resize(const OpInfo &info, const at::Tensor &self, c10::IntArrayRef sizes);

/// Registers device "owner" with torch, and the recorder on it; once.
void registerDevice();

/// The boxed kernel of one overload.
class Recorder final : public c10::OperatorKernel {
public:
  explicit Recorder(std::shared_ptr<OpInfo> info) : info_(std::move(info)) {}
  void operator()(const c10::OperatorHandle &op, c10::DispatchKeySet keys, torch::jit::Stack *stack);

private:
  void recordNegated(RemoteDevice &device, torch::jit::Stack *stack);
  void recordView(torch::jit::Stack *stack, c10::ArrayRef<c10::IValue> args);
  void record(RemoteDevice &device, torch::jit::Stack *stack);
  std::shared_ptr<OpInfo> info_;
};

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_RECORDING_RECORD_H
