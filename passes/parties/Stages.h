// SPDX-License-Identifier: Apache-2.0
// The part of one role, cut at its exchanges into programs that run without waiting.
#ifndef SOJOURN_PASSES_PARTIES_STAGES_H
#define SOJOURN_PASSES_PARTIES_STAGES_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <vector>

namespace sojourn::parties {

/// Values have numbers: the arguments of the part first, then what stages make, and the sums of exchanges.
struct Stage {
  mlir::OwningOpRef<mlir::ModuleOp> module; ///< of core form; all results are kept
  std::vector<unsigned> arguments;          ///< numbers of the values that it takes
  std::vector<unsigned> results;            ///< numbers that its results get

  // The exchange after it; the last stage has none.
  struct Sum {
    mlir::RankedTensorType type;
    unsigned term = 0;   ///< number of this role's term, if it has one
    unsigned number = 0; ///< of the sum
  };
  std::vector<Sum> sums;
  std::vector<unsigned> last; ///< values that neither a later stage nor a result needs
};

struct Stages {
  std::vector<Stage> stages;
  std::vector<unsigned> results; ///< numbers of the part's results
  unsigned values = 0;           ///< how many numbers there are
};

/// Of a module that `partOf` made.
Stages stagesOf(mlir::ModuleOp part);

} // namespace sojourn::parties

#endif // SOJOURN_PASSES_PARTIES_STAGES_H
