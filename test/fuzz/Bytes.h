// SPDX-License-Identifier: Apache-2.0
// Mutations that every target shares: of bytes, of numbers in memory, of texts.
#ifndef SOJOURN_TEST_FUZZ_BYTES_H
#define SOJOURN_TEST_FUZZ_BYTES_H

#include "test/fuzz/Target.h"

namespace sojourn::fuzz {

/// As libFuzzer changes bytes: with what it learnt from comparisons. At most `most` of them.
std::string mutateBytes(std::string bytes, size_t most);

/// A number as it stands at an edge: of integers, of sizes.
int64_t edgeInteger(Dice &dice);
double edgeReal(Dice &dice);

/// Changes one number of `width` bytes in place: a bit, a step, an edge, a real number at an edge.
void mutateNumber(void *memory, size_t width, Dice &dice);

} // namespace sojourn::fuzz

#endif // SOJOURN_TEST_FUZZ_BYTES_H
