// SPDX-License-Identifier: Apache-2.0
// The part of one role, cut at its exchanges into programs that run without waiting.
#ifndef SOJOURN_PASSES_PARTIES_STAGES_H
#define SOJOURN_PASSES_PARTIES_STAGES_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <vector>

namespace sojourn::parties {

/// Values have numbers: the arguments of the part first, then what stages make and what other roles send.
struct Stage {
  mlir::OwningOpRef<mlir::ModuleOp> module; ///< of core form; all results are kept
  std::vector<unsigned> arguments;          ///< numbers of the values that it takes
  std::vector<unsigned> results;            ///< numbers that its results get

  // The exchange after it; the last stage has none.
  std::vector<unsigned> sent; ///< terms that this role sends to each other role, in order
  struct Term {
    unsigned role, number;
    mlir::RankedTensorType type;
  };
  std::vector<Term> received; ///< terms of other roles; those of one role in its order
  std::vector<unsigned> last; ///< values that neither a later stage nor a result needs
};

struct Stages {
  std::vector<Stage> stages;
  std::vector<unsigned> results; ///< numbers of the part's results
  unsigned values = 0;           ///< how many numbers there are
};

/// Of a module that `partOf` made. Sums over roles are computed at the beginning of the stage after their exchange, by
/// core ops: the terms of all roles added in the order of roles.
Stages stagesOf(mlir::ModuleOp part);

} // namespace sojourn::parties

#endif // SOJOURN_PASSES_PARTIES_STAGES_H
