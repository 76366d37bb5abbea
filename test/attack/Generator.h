// SPDX-License-Identifier: Apache-2.0
// Sessions out of one number: programs as somebody writes them who knows core form and the owner's source.
#ifndef SOJOURN_TEST_ATTACK_GENERATOR_H
#define SOJOURN_TEST_ATTACK_GENERATOR_H

#include "test/attack/Program.h"

#include "mlir/IR/MLIRContext.h"

namespace sojourn::attack {

/// The attack of that number. Diagnostics of the context are dropped meanwhile.
Attack generate(uint64_t seed, mlir::MLIRContext &context);

} // namespace sojourn::attack

#endif // SOJOURN_TEST_ATTACK_GENERATOR_H
