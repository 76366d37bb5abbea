// SPDX-License-Identifier: Apache-2.0
// The version of the core op set; it travels in every program's envelope.
#ifndef SOJOURN_DIALECT_VERSION_H
#define SOJOURN_DIALECT_VERSION_H

#include "dialect/Version.h"
#include <cstdint>

namespace sojourn {
/// Raised when the meaning, the operands or the attributes of a core op change. A new op does not raise it: an owner
/// that does not know the op says so by name.
inline constexpr uint32_t kDialectVersion = 3;
/// Oldest version whose programs an owner still understands.
inline constexpr uint32_t kOldestDialectVersion = 3;
} // namespace sojourn

#endif // SOJOURN_DIALECT_VERSION_H
