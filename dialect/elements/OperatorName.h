// SPDX-License-Identifier: Apache-2.0
// Names of ATen operators: what is left of one without namespace, overload and mutation.
#ifndef SOJOURN_DIALECT_ELEMENTS_OPERATORNAME_H
#define SOJOURN_DIALECT_ELEMENTS_OPERATORNAME_H

#include <string>
#include <string_view>

namespace sojourn {

/// Whether the base name says that the operator works in place ("add_", "__ior__").
bool isInPlaceName(std::string_view base);

/// "add" of "add_", "__or__" of "__ior__": the operator without mutation.
std::string functionalBase(std::string_view base);

} // namespace sojourn

#endif // SOJOURN_DIALECT_ELEMENTS_OPERATORNAME_H
