// SPDX-License-Identifier: Apache-2.0
// Hints for code that counts on the rows of a batch where it meets the slots of a private table's draw.
#ifndef SOJOURN_FRONTEND_RECORDING_SLOTS_H
#define SOJOURN_FRONTEND_RECORDING_SLOTS_H

#include "frontend/recording/Tensor.h"

#include <ATen/core/ivalue.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <string>
#include <string_view>

namespace sojourn::frontend {

/// Adds the hint to torch's error about a call if one of its tensors has the slots of a private draw and a size of
/// another tensor, or a number among the arguments, is the rows that the draw expects; or, with `isSplit`, the sum of a
/// list is. Errors of this system stay as they are.
void hintAtSlots(c10::Error &error, c10::ArrayRef<c10::IValue> args, bool isSplit = false);
/// The hint for an error that does not come from torch's dispatcher: its text names both numbers of a draw in the
/// calling thread's open traces, as whole words. Empty if it does not.
std::string slotsHint(std::string_view text);

/// The draw that a result is computed from: its slots are among the result's sizes.
struct SlotsOfOperands {
  int64_t expectedRows = 0, slots = 0;
  void meet(const Storage &operand) {
    if (operand.slots > 0) {
      expectedRows = operand.expectedRows;
      slots = operand.slots;
    }
  }
  void pass(Storage *result) const {
    if (slots > 0 && result && std::find(result->sizes.begin(), result->sizes.end(), slots) != result->sizes.end()) {
      result->expectedRows = expectedRows;
      result->slots = slots;
    }
  }
};

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_RECORDING_SLOTS_H
