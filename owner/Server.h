// SPDX-License-Identifier: Apache-2.0
// The only file of the owner that knows sockets: requests from nng to Owner::handle and back.
#ifndef SOJOURN_OWNER_SERVER_H
#define SOJOURN_OWNER_SERVER_H

#include "owner/Owner.h"

#include <memory>
#include <string>

namespace sojourn::owner {

struct ServerOptions {
  std::string listen;    ///< ipc:///path, tcp://host:port, inproc://name
  unsigned workers = 16; ///< requests served at once, each by a thread that waits while its step runs
};

class Server {
public:
  /// Listens at once; requests are answered until the object goes or `stop` is called.
  static llvm::Expected<std::unique_ptr<Server>> start(Owner &owner, const ServerOptions &options);
  ~Server();
  Server(const Server &) = delete;
  Server &operator=(const Server &) = delete;

  /// Takes no more requests, lets running ones end, then closes.
  void stop();
  /// Messages received at the transport, answered or not.
  uint64_t requests() const;

private:
  struct State;
  explicit Server(std::unique_ptr<State> state);
  std::unique_ptr<State> state;
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_SERVER_H
