// SPDX-License-Identifier: Apache-2.0
// A smaller attack with the same outcome.
#ifndef SOJOURN_TEST_ATTACK_SHRINK_H
#define SOJOURN_TEST_ATTACK_SHRINK_H

#include "test/attack/Program.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace sojourn::attack {

/// Drops steps, results, ops and arguments for as long as the attack `stays` one, in at most `tries` tries.
Attack shrink(Attack attack, llvm::function_ref<bool(const Attack &)> stays, size_t tries = 600);

} // namespace sojourn::attack

#endif // SOJOURN_TEST_ATTACK_SHRINK_H
