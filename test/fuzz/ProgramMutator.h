// SPDX-License-Identifier: Apache-2.0
// Programs near a program: core form is changed op by op, so that mutants still verify.
#ifndef SOJOURN_TEST_FUZZ_PROGRAMMUTATOR_H
#define SOJOURN_TEST_FUZZ_PROGRAMMUTATOR_H

#include "runtime/Program.h"
#include "test/fuzz/Target.h"

#include <optional>

namespace sojourn::fuzz {

/// Arguments stay, so that the bindings of a message still fit; `changesResults`: what becomes of results may change.
/// None where the bytes are no program.
std::optional<runtime::EncodedProgram> mutateProgram(std::string_view program, std::string_view debug,
                                                     bool changesResults, Dice &dice);

/// One context for many programs, renewed now and then, since attributes stay in it.
mlir::MLIRContext &sharedContext();

} // namespace sojourn::fuzz

#endif // SOJOURN_TEST_FUZZ_PROGRAMMUTATOR_H
