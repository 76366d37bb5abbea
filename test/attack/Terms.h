// SPDX-License-Identifier: Apache-2.0
// What a message of the attacker's holds beside its program.
#ifndef SOJOURN_TEST_ATTACK_TERMS_H
#define SOJOURN_TEST_ATTACK_TERMS_H

#include "test/attack/Dice.h"
#include "test/owner/Support.h"

#include "mlir/IR/BuiltinTypes.h"

namespace sojourn::attack {

/// Numbers of a tensor: an order of rows now and then none, floats of any size.
owner::test::Upload upload(Dice &dice, mlir::RankedTensorType type);
/// How a step spends that publishes so many results.
wire::Spending spending(Dice &dice, size_t published);

} // namespace sojourn::attack

#endif // SOJOURN_TEST_ATTACK_TERMS_H
