// SPDX-License-Identifier: Apache-2.0
// Addresses of owners, for both sides of the wire.
#ifndef SOJOURN_RUNTIME_WIRE_ADDRESS_H
#define SOJOURN_RUNTIME_WIRE_ADDRESS_H

#include <algorithm>
#include <string>
#include <string_view>

namespace sojourn::wire {

/// Who reads the problem with an address.
enum class Side { owner, client };

/// An IPv4 address of this machine: 127 and three more numbers, without other ways to write them.
inline bool isLoopbackNumber(std::string_view host) {
  int numbers = 0;
  for (;; ++numbers) {
    const size_t end = host.find('.');
    const std::string_view number = host.substr(0, end);
    int value = 0;
    for (char digit : number) {
      value = digit >= '0' && digit <= '9' ? 10 * value + (digit - '0') : 256;
    }
    if (number.empty() || number.size() > 3 || value > 255 || (numbers == 0 && value != 127)) {
      return false;
    }
    if (end == std::string_view::npos) {
      return numbers == 3;
    }
    host.remove_prefix(end + 1);
  }
}

/// Whether "host:port" is on this machine, where nobody listens in between.
inline bool isLoopback(std::string_view hostAndPort) {
  const std::string_view host = hostAndPort.substr(0, hostAndPort.rfind(':'));
  return host == "localhost" || host == "[::1]" || isLoopbackNumber(host);
}

/// Whether "host:port" has a port, a number from 1 to 65535.
inline bool hasPort(std::string_view hostAndPort) {
  const size_t colon = hostAndPort.rfind(':');
  const std::string_view port = colon == std::string_view::npos ? "" : hostAndPort.substr(colon + 1);
  int number = 0;
  for (char digit : port) {
    number = digit >= '0' && digit <= '9' && number <= 65535 ? 10 * number + (digit - '0') : 65536;
  }
  return !port.empty() && number > 0 && number <= 65535;
}

/// The problem with an address whose scheme no owner serves; empty for the others. inproc:// is for tests. Without
/// encryption, tcp:// is for this machine alone, and only where `plainTcp` says so.
inline std::string addressProblem(std::string_view address, bool plainTcp = false, Side side = Side::owner) {
  const size_t end = address.find("://");
  const std::string_view scheme = end == std::string_view::npos ? std::string_view() : address.substr(0, end);
  const std::string found = "'" + std::string(address) + "' is not ";
  if (scheme == "tls+tcp" && !hasPort(address.substr(end + 3))) {
    return found + "an address with a port from 1 to 65535; expected tls+tcp://host:port, such as tls+tcp://" +
           std::string(
               address.substr(end + 3, address.find(':', std::max(end + 3, address.rfind(']') + 1)) - end - 3)) +
           ":7443";
  }
  if (scheme == "ipc" || scheme == "tls+tcp" || scheme == "inproc") {
    return {};
  }
  if (scheme != "tcp") {
    return found + "an address; expected ipc:///path/to/socket or tls+tcp://host:port";
  }
  const std::string_view place = address.substr(end + 3);
  if (plainTcp && isLoopback(place)) {
    return {};
  }
  const char *flag = side == Side::owner ? "--plain-tcp" : "plain_tcp=True";
  return found + "encrypted; expected tls+tcp://" + std::string(place) + " (or, for tests on one machine, tcp://" +
         (isLoopback(place) ? std::string(place) : "127.0.0.1:PORT") + " with " + flag + ")";
}

} // namespace sojourn::wire

#endif // SOJOURN_RUNTIME_WIRE_ADDRESS_H
