// SPDX-License-Identifier: Apache-2.0
// Numbers that a program gives, told before anything is recorded; what they may be: runtime/wire/Terms.h.
#ifndef SOJOURN_FRONTEND_CHECKS_H
#define SOJOURN_FRONTEND_CHECKS_H

#include "runtime/wire/Terms.h"

namespace sojourn::frontend {

/// Throws Error, with the name, the expected interval and the number. `why`: a note on the interval's end, such as
/// ", that of the grant".
void require(const char *name, double number, const wire::Interval &interval, const char *why = "");

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_CHECKS_H
