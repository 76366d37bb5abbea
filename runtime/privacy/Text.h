// SPDX-License-Identifier: Apache-2.0
// Numbers in the texts of refusals.
#ifndef SOJOURN_RUNTIME_PRIVACY_TEXT_H
#define SOJOURN_RUNTIME_PRIVACY_TEXT_H

#include <cstdio>
#include <string>

namespace sojourn::privacy {

/// Six significant digits: 1e-05, 0.25, inf, nan.
inline std::string shortText(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

} // namespace sojourn::privacy

#endif // SOJOURN_RUNTIME_PRIVACY_TEXT_H
