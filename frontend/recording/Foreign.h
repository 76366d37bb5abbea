// SPDX-License-Identifier: Apache-2.0
// Operators of other libraries: what a process knows them to be made of.
#ifndef SOJOURN_FRONTEND_RECORDING_FOREIGN_H
#define SOJOURN_FRONTEND_RECORDING_FOREIGN_H

#include <ATen/core/dispatch/Dispatcher.h>

#include <functional>

namespace sojourn::frontend {

/// Replaces the arguments on the stack by the results, by ops that are recorded; false where it does not know how, and
/// then the stack is as it was.
using ForeignListener = std::function<bool(const c10::OperatorHandle &, torch::jit::Stack *)>;
void setForeignListener(ForeignListener listener);

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_RECORDING_FOREIGN_H
