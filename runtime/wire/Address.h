// SPDX-License-Identifier: Apache-2.0
// Addresses of owners, for both sides of the wire.
#ifndef SOJOURN_RUNTIME_WIRE_ADDRESS_H
#define SOJOURN_RUNTIME_WIRE_ADDRESS_H

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

namespace sojourn::wire {

/// The problem with an address whose scheme no owner serves; empty for the others. inproc:// is for tests.
inline std::string addressProblem(std::string_view address) {
  constexpr std::array<std::string_view, 3> kSchemes = {"ipc", "tcp", "inproc"};
  size_t end = address.find("://");
  if (end != std::string_view::npos &&
      std::find(kSchemes.begin(), kSchemes.end(), address.substr(0, end)) != kSchemes.end()) {
    return {};
  }
  return "'" + std::string(address) + "' is not an address; expected ipc:///path/to/socket or tcp://host:port";
}

} // namespace sojourn::wire

#endif // SOJOURN_RUNTIME_WIRE_ADDRESS_H
