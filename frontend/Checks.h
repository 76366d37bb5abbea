// SPDX-License-Identifier: Apache-2.0
// Numbers that a program gives, told before anything is recorded; what they may be: runtime/wire/Terms.h.
#ifndef SOJOURN_FRONTEND_CHECKS_H
#define SOJOURN_FRONTEND_CHECKS_H

#include "runtime/wire/Terms.h"

namespace sojourn::frontend {

/// Each throws Error, with the name, what was expected and what was given.
void requireEpsilon(double epsilon);
/// Above 0 and below 1.
void requireDelta(double delta);
/// Above 0 and at most `granted`.
void requireDelta(double delta, double granted);
void requireWithin(const char *name, double number, wire::Range range);

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_CHECKS_H
