// SPDX-License-Identifier: Apache-2.0
// The version that every command prints, with those of the formats that it reads and writes.
#ifndef SOJOURN_TOOLS_VERSION_H
#define SOJOURN_TOOLS_VERSION_H

#include "dialect/Version.h"
#include "runtime/Version.h"
#include "runtime/wire/Protocol.h"

#include <string>

namespace sojourn {

inline std::string versionText() {
  return "Sojourn " SOJOURN_VERSION " (program format " + std::to_string(runtime::kFormatVersion) + ", dialect " +
         std::to_string(kDialectVersion) + ", protocol " + std::to_string(wire::kProtocolVersion) + ")";
}

} // namespace sojourn

#endif // SOJOURN_TOOLS_VERSION_H
