// SPDX-License-Identifier: Apache-2.0
// Which slot each value of a step belongs to, read twice: the row analysis reads flat positions, passes/SlotReading.h
// dims. Where both can tell, they have to agree.
#ifndef SOJOURN_PASSES_PRIVACY_SECONDREADING_H
#define SOJOURN_PASSES_PRIVACY_SECONDREADING_H

#include "passes/Rows.h"
#include "passes/SlotReading.h"

#include <map>
#include <string>

namespace sojourn {

/// Of the values that noise and released results of a step are made of.
struct SecondReading {
  unsigned agreed = 0;
  /// Values that only the analysis could read, by the op that the second reading gave up at.
  std::map<std::string, unsigned> unread;
};

/// The analysis' claim of a value; nothing where its slots lie in no single dim, or belong to several draws.
SlotClaim claimOf(mlir::Value value, const rows::Analysis &analysis, const SlotReader &reader);

/// Reports the first value that the readings contradict each other on, and the first op that only the analysis can read
/// and that is not on the list of those that are trusted so. `step` holds clipped_sum and noise; `analysis` is of it.
llvm::FailureOr<SecondReading> readAgain(mlir::func::FuncOp step, const RowInputs &inputs,
                                         const rows::Analysis &analysis);

} // namespace sojourn

#endif // SOJOURN_PASSES_PRIVACY_SECONDREADING_H
