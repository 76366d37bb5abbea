// SPDX-License-Identifier: Apache-2.0
// The schema of programs numbers things as the lists of dialect/ do: no code, the compiler compares both ways.
#include "dialect/Signature.h"
#include "dialect/elements/Elements.h"
#include "runtime/Program_generated.h"

namespace sojourn {

#define SOJOURN_ELEMENT(name, number, bytes, kind, sign)                                                               \
  static_assert(static_cast<unsigned>(sojourn_wire::ElementType_##name) == number,                                     \
                "dialect/elements/Elements.def and runtime/Program.fbs number " #name " differently");
#include "dialect/elements/Elements.def"
static_assert(static_cast<unsigned>(sojourn_wire::ElementType_MAX) + 1 == kElementCount,
              "runtime/Program.fbs has an element type that dialect/elements/Elements.def lacks");

#define SOJOURN_STEP_ARG(Name, name, number)                                                                           \
  static_assert(static_cast<unsigned>(sojourn_wire::ArgKind_##name) == number,                                         \
                "dialect/Signature.def and runtime/Program.fbs number " #name " differently");
#define SOJOURN_OWNER_ARG(Name, name, number)                                                                          \
  static_assert(static_cast<unsigned>(sojourn_wire::ArgKind_MAX) < number,                                             \
                "runtime/Program.fbs has a kind of argument of the number of " #name ", which is the owner's alone");
#define SOJOURN_STEP_RESULT(Name, name, number)                                                                        \
  static_assert(static_cast<unsigned>(sojourn_wire::ResultKind_##name) == number,                                      \
                "dialect/Signature.def and runtime/Program.fbs number " #name " differently");
#include "dialect/Signature.def"

static_assert(
    [] {
      constexpr auto last = static_cast<unsigned>(sojourn_wire::ArgKind_MAX);
      return last < kStepArgs.size() && static_cast<unsigned>(kStepArgs[last]) == last;
    }(),
    "runtime/Program.fbs has a kind of argument that dialect/Signature.def lacks");
static_assert(static_cast<unsigned>(sojourn_wire::ResultKind_MAX) + 1 == kStepResults.size(),
              "runtime/Program.fbs has a kind of result that dialect/Signature.def lacks");

} // namespace sojourn
