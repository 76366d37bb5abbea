// SPDX-License-Identifier: Apache-2.0
// The arguments of one call: its tensors, and how they are written into the trace.
#ifndef SOJOURN_FRONTEND_RECORDING_ARGUMENTS_H
#define SOJOURN_FRONTEND_RECORDING_ARGUMENTS_H

#include "frontend/recording/OpInfo.h"
#include "frontend/recording/TraceWriter.h"

#include <ATen/core/stack.h>

#include <algorithm>

namespace sojourn::frontend {

using Args = c10::ArrayRef<c10::IValue>;

/// Calls `visit(tensor, position)` for every defined tensor among the arguments.
template <class Visit>
void eachTensor(const OpInfo &info, Args args, Visit visit) {
  for (size_t i = 0; i < args.size(); ++i) {
    const c10::IValue &value = args[i];
    if (info.args[i] == ArgKind::Tensor) {
      if (value.isTensor() && value.toTensor().defined()) {
        visit(value.toTensor(), i);
      }
    } else if (info.args[i] == ArgKind::TensorList && value.isList()) {
      for (const c10::IValue &element : value.toListRef()) {
        if (element.isTensor() && element.toTensor().defined()) {
          visit(element.toTensor(), i);
        }
      }
    }
  }
}

inline bool isMutated(const OpInfo &info, size_t position) {
  return std::find(info.mutated.begin(), info.mutated.end(), position) != info.mutated.end();
}

/// Whether the call writes the argument; `batch_norm` in training writes its statistics, which its schema does not say.
bool isWritten(const OpInfo &info, Args args, size_t position);

/// Takes the call's arguments off the stack and leaves its results.
void leaveResults(torch::jit::Stack *stack, size_t count, c10::SmallVector<c10::IValue, 4> results);

/// Writes the arguments of a call, one after another. Lock held by the caller.
class ArgumentWriter {
public:
  /// `isReal`: numbers are used as floats, whatever they are.
  ArgumentWriter(const OpInfo &info, TraceWriter &write, bool isReal) : info_(info), write_(write), isReal_(isReal) {}
  void value(size_t position, const c10::IValue &value);

private:
  void places(ArgKind kind, const c10::IValue &value);
  void tensor(const at::Tensor &tensor);
  void scalar(const at::Scalar &scalar);
  template <class Values, class Write>
  void list(const Values &values, Write write);

  const OpInfo &info_;
  TraceWriter &write_;
  bool isReal_;
};

/// What eager checks of numbers and of tensors that are written, before it computes; throws its errors. `metas`: of the
/// results.
void checkArguments(const OpInfo &info, Args args, c10::ArrayRef<OutputMeta> metas);
/// Existing tensors that take results must fit them; an empty `out` grows.
void fitTargets(const OpInfo &info, Args args, c10::ArrayRef<OutputMeta> metas);

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_RECORDING_ARGUMENTS_H
