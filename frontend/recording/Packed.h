// SPDX-License-Identifier: Apache-2.0
// Values that a program only keeps, such as the loss of every step. An owner holds a bounded number of values per
// session, so that small ones which no step has used for long are gathered: one value at the owner holds many of them.
#ifndef SOJOURN_FRONTEND_RECORDING_PACKED_H
#define SOJOURN_FRONTEND_RECORDING_PACKED_H

#include "frontend/recording/Tensor.h"

#include <cstddef>
#include <cstdint>
#include <utility>

namespace sojourn::frontend {

class Recording;
struct Origin;

/// The gathered values that one op takes.
class PackedOperands {
public:
  /// `isNeeded`: the op needs it as a separate value, because it writes to it.
  void meet(const at::Tensor &operand, bool isNeeded);
  /// A few become separate values again. Many, and those that are read, are taken where they are.
  void unpack(Recording &open, const Origin &origin) const;

private:
  c10::SmallVector<std::pair<Storage *, bool>, 2> operands_;
};

/// An argument of a call that may be replayed is a separate value before the step begins.
void unpackBeforeStep(const at::Tensor &argument);

/// When values are gathered: from how many live ones of a session on, how many become one, and after how many steps
/// that used none of them.
struct Gathering {
  size_t from = 16'384, many = 1'024;
  uint64_t age = 256;
};
Gathering gathering();
/// For tests.
void setGathering(const Gathering &gathering);

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_RECORDING_PACKED_H
