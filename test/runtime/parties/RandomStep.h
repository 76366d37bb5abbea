// SPDX-License-Identifier: Apache-2.0
// Random joint steps: ops of most families over values that all roles know, that one role has, and that lie in parts.
#ifndef SOJOURN_TEST_RUNTIME_PARTIES_RANDOMSTEP_H
#define SOJOURN_TEST_RUNTIME_PARTIES_RANDOMSTEP_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <random>

namespace sojourn::test {

/// All numbers are small integers, in f64 and i64, so that sums are exact in any order. Ops that placement refuses are
/// left out again; `refused` counts them. The arguments are states. `isScaled`: some rows are
/// divided by a number of rows, a power of two.
struct RandomStep {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  size_t refused = 0;
};

RandomStep randomStep(mlir::MLIRContext &context, std::mt19937_64 &dice, unsigned parties, size_t ops,
                      bool isScaled = false);

} // namespace sojourn::test

#endif // SOJOURN_TEST_RUNTIME_PARTIES_RANDOMSTEP_H
