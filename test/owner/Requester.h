// SPDX-License-Identifier: Apache-2.0
// A client of a socket that sends whatever a test wants.
#ifndef SOJOURN_TEST_OWNER_REQUESTER_H
#define SOJOURN_TEST_OWNER_REQUESTER_H

#include "runtime/stream/Frame.h"
#include "test/owner/Support.h"

#include <nng/nng.h>

#include <optional>
#include <string>
#include <utility>

namespace sojourn::owner::test {

class Requester {
public:
  /// Over TLS, `trusted`: the certificate, as PEM, that the server must have; empty: any.
  explicit Requester(const std::string &url, const std::string &trusted = "");
  ~Requester();
  Requester(const Requester &) = delete;
  Requester &operator=(const Requester &) = delete;

  /// nng's status of the connection.
  int status() const { return status_; }
  Reply send(const std::string &request, uint64_t session = 0);
  /// A frame, or its reply; nothing where the connection is gone.
  bool write(stream::FrameHead head, const std::string &message, size_t cut = std::string::npos);
  std::optional<std::pair<stream::FrameHead, std::string>> read();

private:
  bool transfer(bool isSend, void *bytes, size_t size);

  nng_stream *stream_ = nullptr;
  nng_aio *aio_ = nullptr;
  int status_ = 0;
};

} // namespace sojourn::owner::test

#endif // SOJOURN_TEST_OWNER_REQUESTER_H
