// SPDX-License-Identifier: Apache-2.0
// The owner's only files that know sockets, with Connection.h, Listener.h and links/: requests from nng's streams to
// Owner::answer and back.
#ifndef SOJOURN_OWNER_SERVER_H
#define SOJOURN_OWNER_SERVER_H

#include "owner/ConnectionTimes.h"
#include "owner/Limits.h"
#include "owner/Owner.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <chrono>
#include <memory>
#include <string>

namespace sojourn::owner {

/// Threads beside those for requests of sessions (Limits::requests): openings, and refusals of what is beyond them.
inline constexpr unsigned kSpareWorkers = 32;

struct ServerOptions {
  std::string listen; ///< ipc:///path, tls+tcp://host:port, inproc://name; tcp://host:port of this machine
  /// Requests served at once, each by a thread that waits while its step runs; threads are made as they are needed.
  unsigned workers = static_cast<unsigned>(Limits().requests) + kSpareWorkers;
  bool plainTcp = false; ///< whether tcp:// is allowed
  ConnectionTimes times{};
  /// Beyond these the oldest that is not a session's is closed.
  size_t connections = 4'096;
  /// Where other owners connect, in the forms of `listen`; empty: this one takes part in no groups.
  std::string peers{};
};

class Server {
public:
  /// Listens at once; requests are answered until the object goes or `stop` is called.
  static llvm::Expected<std::unique_ptr<Server>> start(Owner &owner, const ServerOptions &options);
  ~Server();
  Server(const Server &) = delete;
  Server &operator=(const Server &) = delete;

  /// Takes no more requests, lets those under way run for `drain`, or until `isUrgent` says so, ends what still runs
  /// within about a second (Owner::endSteps), then closes.
  void stop(
      std::chrono::milliseconds drain = std::chrono::milliseconds(0),
      llvm::function_ref<bool()> isUrgent = [] { return false; });
  /// Messages received at the transport, answered or not.
  uint64_t requests() const;

private:
  class State;
  explicit Server(std::unique_ptr<State> state);
  std::unique_ptr<State> state;
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_SERVER_H
