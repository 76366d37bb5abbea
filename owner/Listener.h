// SPDX-License-Identifier: Apache-2.0
// A place where others connect to an owner: nng's listener, with the owner's certificate where it is TLS.
#ifndef SOJOURN_OWNER_LISTENER_H
#define SOJOURN_OWNER_LISTENER_H

#include "owner/Certificate.h"
#include "runtime/stream/Owned.h"

#include "llvm/Support/Error.h"

#include <atomic>
#include <functional>
#include <memory>
#include <nng/nng.h>
#include <optional>
#include <string>
#include <string_view>

namespace sojourn::owner {

class Owner;

class Listener {
public:
  /// `add` gets each stream, on a thread of nng's; it may throw. Errors name the address.
  static llvm::Expected<std::unique_ptr<Listener>> open(Owner &owner, const std::string &address,
                                                        std::function<void(stream::OwnedStream)> add);
  ~Listener();
  Listener(const Listener &) = delete;
  Listener &operator=(const Listener &) = delete;

  /// Streams are added from now on.
  void start();
  /// Tries again where a connection was not accepted, as of descriptors there were none.
  void retry();
  /// No stream is added after it.
  void stop();

  /// Of TLS; null else.
  const Certificate *certificate() const { return ownCertificate ? &*ownCertificate : nullptr; }
  /// Of the certificate; empty without TLS.
  std::string_view digest() const;

private:
  explicit Listener(std::function<void(stream::OwnedStream)> add) : add(std::move(add)) {}
  int secure();
  int open(const std::string &address);
  static void accepted(void *self);

  const std::function<void(stream::OwnedStream)> add;
  std::optional<Certificate> ownCertificate;
  std::string inprocName;
  nng_stream_listener *listener = nullptr;
  nng_aio *acceptance = nullptr;
  std::atomic<bool> isLate = false; ///< whether the next connection waits for `retry`
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_LISTENER_H
