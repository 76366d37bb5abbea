// SPDX-License-Identifier: Apache-2.0
// Traffic near recorded traffic: one message is changed in one field, or in its program, or its bytes.
#ifndef SOJOURN_TEST_FUZZ_MESSAGEMUTATOR_H
#define SOJOURN_TEST_FUZZ_MESSAGEMUTATOR_H

#include "test/fuzz/Target.h"

namespace sojourn::fuzz {

std::string mutateTraffic(std::string input, size_t most, size_t messagesMost, Dice &dice);

} // namespace sojourn::fuzz

#endif // SOJOURN_TEST_FUZZ_MESSAGEMUTATOR_H
