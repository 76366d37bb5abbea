// SPDX-License-Identifier: Apache-2.0
// Ops that are not recorded as they come; one function for each kind (Special.cpp, Copies.cpp).
#ifndef SOJOURN_FRONTEND_RECORDING_SPECIAL_H
#define SOJOURN_FRONTEND_RECORDING_SPECIAL_H

#include "frontend/recording/Arguments.h"
#include "frontend/recording/Record.h"

#include <optional>

namespace sojourn::frontend {

/// What the call returns; nothing where it is recorded, with the arguments that are on the stack then.
using CallResult = std::optional<c10::IValue>;

/// One call: its arguments lie on top of the stack, where they may be replaced.
struct SpecialCall {
  const OpInfo &info;
  torch::jit::Stack *stack;
  Args args;
  void replace(size_t position, c10::IValue value) const {
    (*stack)[stack->size() - args.size() + position] = std::move(value);
  }
};

/// Copies over the border between this process and an owner, and values that Python asks for (Copies.cpp).
CallResult readScalar(const SpecialCall &call);
CallResult copyInto(const SpecialCall &call);
CallResult copyTo(const SpecialCall &call);

/// A remote trace cannot be repeated: `remote` tells which.
void noteUnrepeatable(const at::Tensor &remote, const char *why);

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_RECORDING_SPECIAL_H
