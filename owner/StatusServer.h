// SPDX-License-Identifier: Apache-2.0
// What a running server tells the data owner of itself: to `sojourn-owner status` over a socket in the store, and to
// Prometheus over HTTP where an address is set: counts and settings, nothing of a value, a table or a client. To
// `sojourn-owner values` over the socket also which values have names.
#ifndef SOJOURN_OWNER_STATUSSERVER_H
#define SOJOURN_OWNER_STATUSSERVER_H

#include "owner/Owner.h"
#include "owner/ServeSettings.h"

#include "llvm/Support/raw_ostream.h"

#include <memory>
#include <string>
#include <vector>

namespace sojourn::owner {

/// Metrics in Prometheus's text format, version 0.0.4.
std::string metricsText(const Figures &figures);

class StatusServer {
public:
  /// `store`: folder of the store; empty: without a socket. Owner and settings outlive the object.
  static llvm::Expected<std::unique_ptr<StatusServer>> start(Owner &owner, const ServeSettings &settings,
                                                             const std::string &store);
  ~StatusServer();
  /// /health answers 503 from now on: the server takes no further connections.
  void drain();
  StatusServer(const StatusServer &) = delete;
  StatusServer &operator=(const StatusServer &) = delete;

private:
  struct State;
  explicit StatusServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state;
};

/// What each server that runs on a store answers, as JSON. `request`: "status", or JSON: {"ask": "values", "client": C}
/// and {"ask": "release", "client": C, "name": N}; to others servers answer with their status.
llvm::Expected<std::vector<std::string>> askServers(const std::string &store, const std::string &request = "status");

/// Values with names at the servers of the store: of one client, or of all where it is empty. Fails where no server
/// runs: such values are in its memory.
llvm::Error printNamedValues(const std::string &store, const std::string &client, bool asJson, llvm::raw_ostream &out);
/// Takes a name away at each server of the store that has it. Fails where none has.
llvm::Error releaseNamedValue(const std::string &store, const std::string &client, const std::string &name,
                              llvm::raw_ostream &out);

/// Servers of the store, and the settings: of each server, or of a new one where none runs.
llvm::Error printStatus(const std::string &store, const ServeSettings &settings, bool asJson, llvm::raw_ostream &out);

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_STATUSSERVER_H
