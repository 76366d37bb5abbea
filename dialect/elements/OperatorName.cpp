// SPDX-License-Identifier: Apache-2.0
// Names of ATen operators.
#include "dialect/elements/OperatorName.h"

namespace sojourn {

static bool isDunder(std::string_view base) {
  return base.size() > 4 && base.starts_with("__") && base.ends_with("__");
}

bool isInPlaceName(std::string_view base) {
  if (isDunder(base)) {
    return base.size() > 5 && base[2] == 'i' && base != "__invert__";
  }
  return base.ends_with("_");
}

std::string functionalBase(std::string_view base) {
  if (!isInPlaceName(base)) {
    return std::string(base);
  }
  return isDunder(base) ? "__" + std::string(base.substr(3)) : std::string(base.substr(0, base.size() - 1));
}

} // namespace sojourn
