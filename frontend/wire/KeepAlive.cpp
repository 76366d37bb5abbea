// SPDX-License-Identifier: Apache-2.0
#include "frontend/wire/KeepAlive.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <charconv>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>

namespace sojourn::frontend {

namespace {

/// The port of a socket's own end (getsockname) or of its peer's (getpeername); none if it is not of the internet.
template <class Name>
std::optional<uint16_t> portOf(int descriptor, Name name) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (name(descriptor, reinterpret_cast<sockaddr *>(&address), &size) != 0) {
    return std::nullopt;
  }
  if (address.ss_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in &>(address).sin_port;
  }
  if (address.ss_family == AF_INET6) {
    return reinterpret_cast<const sockaddr_in6 &>(address).sin6_port;
  }
  return std::nullopt;
}

} // namespace

void watchConnection(uint16_t localPort, uint16_t peerPort) {
  std::error_code error;
  for (std::filesystem::directory_iterator at("/proc/self/fd", error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    int descriptor = -1;
    std::from_chars(name.data(), name.data() + name.size(), descriptor);
    if (portOf(descriptor, getsockname) != localPort || portOf(descriptor, getpeername) != peerPort) {
      continue;
    }
    auto set = [&](int level, int option, int value) { setsockopt(descriptor, level, option, &value, sizeof value); };
    set(SOL_SOCKET, SO_KEEPALIVE, 1);
    set(IPPROTO_TCP, TCP_KEEPIDLE, kSilenceSeconds);
    set(IPPROTO_TCP, TCP_KEEPINTVL, kQuestionSeconds);
    set(IPPROTO_TCP, TCP_KEEPCNT, (kGoneSeconds - kSilenceSeconds) / kQuestionSeconds + 1);
    set(IPPROTO_TCP, TCP_USER_TIMEOUT, 1000 * kGoneSeconds);
  }
}

} // namespace sojourn::frontend
