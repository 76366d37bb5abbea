// SPDX-License-Identifier: Apache-2.0
#include "runtime/stream/KeepAlive.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <charconv>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>

namespace sojourn::stream {

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

/// Whether the socket waits for connections.
bool isListener(int descriptor) {
  int listens = 0;
  socklen_t size = sizeof listens;
  return getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens != 0;
}

struct Times {
  int silence, question, gone; ///< seconds
  bool isForData;              ///< also while data is on its way
};

/// Of each descriptor of this process for which that `is` so.
template <class Is>
void watch(const Times &times, Is is) {
  std::error_code error;
  for (std::filesystem::directory_iterator at("/proc/self/fd", error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    int descriptor = -1;
    std::from_chars(name.data(), name.data() + name.size(), descriptor);
    if (!is(descriptor)) {
      continue;
    }
    auto set = [&](int level, int option, int value) { setsockopt(descriptor, level, option, &value, sizeof value); };
    set(SOL_SOCKET, SO_KEEPALIVE, 1);
    set(IPPROTO_TCP, TCP_KEEPIDLE, times.silence);
    set(IPPROTO_TCP, TCP_KEEPINTVL, times.question);
    set(IPPROTO_TCP, TCP_KEEPCNT, (times.gone - times.silence) / times.question + 1);
    if (times.isForData) {
      set(IPPROTO_TCP, TCP_USER_TIMEOUT, 1000 * times.gone);
    }
  }
}

} // namespace

void watchConnection(uint16_t localPort, uint16_t peerPort) {
  watch({kSilenceSeconds, kQuestionSeconds, kGoneSeconds, /*isForData=*/true}, [&](int descriptor) {
    return portOf(descriptor, getsockname) == localPort && portOf(descriptor, getpeername) == peerPort;
  });
}

void watchListener(uint16_t port) {
  watch({kListenerSilenceSeconds, kListenerQuestionSeconds, kListenerGoneSeconds, /*isForData=*/false},
        [&](int descriptor) { return portOf(descriptor, getsockname) == port && isListener(descriptor); });
}

} // namespace sojourn::stream
