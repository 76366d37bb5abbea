// SPDX-License-Identifier: Apache-2.0
// The way to one owner: its client, whose turn it is to send, and the programs that the owner has been sent.
#ifndef SOJOURN_FRONTEND_SESSION_CONNECTION_H
#define SOJOURN_FRONTEND_SESSION_CONNECTION_H

#include "frontend/RecentlyUsed.h"
#include "frontend/recording/RemoteDevice.h"
#include "frontend/wire/Client.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <variant>

namespace sojourn::frontend {

/// One thread at a time sends: it has the turn from taking its trace to its commit. All but `isOffline`, `address` and
/// `resent` are for that thread.
class Connection {
public:
  /// Says hello. `transport == nullptr`: an offline session, which has no client.
  Connection(std::unique_ptr<Transport> transport, Identity *identity, RemoteDevice &device);
  ~Connection();

  bool isOffline() const { return !client_; }
  std::string address() const;
  const std::string &ownerKey() const { return ownerKey_; }
  RemoteDevice &device() const { return device_; }
  /// Not of an offline session.
  Client &client() const { return *client_; }

  /// One request, two if the owner lacks the program. `unknown`: set where a failure leaves open whether the owner ran
  /// the step.
  StepReply send(wire::Step &step, bool &unknown, const StepFollower *follow = nullptr);
  /// As `send`; releases that wait ride along, and wait again where the step did not run. `own`: the trace of the step.
  StepReply sendWithReleases(wire::Step &step, const Recording *own, bool &unknown);
  /// How often a program was sent again.
  uint64_t resent() const { return resent_; }

private:
  friend class Turn;
  /// Programs that it remembers having sent.
  static constexpr size_t kPrograms = 4096;

  RemoteDevice &device_;
  std::mutex turn_;
  std::atomic<std::thread::id> holder_{};
  std::unique_ptr<Client> client_;
  std::string ownerKey_;
  /// Programs the owner has been sent. One that is forgotten is sent again.
  RecentlyUsed<std::array<uint8_t, 32>, std::monostate> knownHashes_{kPrograms};
  std::atomic<uint64_t> resent_{0};
};

/// The turn at a connection. Throws Error in a fork of the session's process, and where the calling thread has the turn
/// already (a listener of phases, or a transport written in Python, that sends a step).
class Turn {
public:
  explicit Turn(Connection &connection);
  ~Turn() {
    connection_.holder_.store({}, std::memory_order_relaxed);
    connection_.turn_.unlock();
  }
  Turn(const Turn &) = delete;
  Turn &operator=(const Turn &) = delete;

private:
  Connection &connection_;
};

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_SESSION_CONNECTION_H
