// SPDX-License-Identifier: Apache-2.0
// What to say of a name that is not there.
#ifndef SOJOURN_FRONTEND_COMPILE_NAMES_H
#define SOJOURN_FRONTEND_COMPILE_NAMES_H

#include <string>
#include <vector>

namespace sojourn::frontend {

/// "; did you mean 'a' or 'b'?" (if any is near) and " (its <what>: 'a', ...)".
std::string nearestNames(const std::string &wanted, const std::vector<std::string> &known, const char *what);

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_COMPILE_NAMES_H
