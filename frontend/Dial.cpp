// SPDX-License-Identifier: Apache-2.0
// The nng transport of the client: one req socket, one request at a time.
#include "frontend/Client.h"

#include <nng/nng.h>
#include <nng/protocol/reqrep0/req.h>

namespace sojourn::frontend {

namespace {

/// Replies carry published values; a client accepts no more than this.
constexpr size_t kReplyBytesMax = size_t{1} << 30;

class NngTransport final : public Transport {
public:
  NngTransport(std::string url, int timeoutMs) : url_(std::move(url)) {
    if (int status = nng_req0_open(&socket_)) {
      raise(ErrorKind::ConnectionLost, describe(status, "open a socket for"));
    }
    nng_socket_set_size(socket_, NNG_OPT_RECVMAXSZ, kReplyBytesMax);
    nng_socket_set_ms(socket_, NNG_OPT_RECVTIMEO, timeoutMs);
    nng_socket_set_ms(socket_, NNG_OPT_SENDTIMEO, timeoutMs);
    // A step must never run twice: nng's automatic resend is off.
    nng_socket_set_ms(socket_, NNG_OPT_REQ_RESENDTIME, NNG_DURATION_INFINITE);
    int failure = nng_dial(socket_, url_.c_str(), nullptr, 0);
    if (failure) {
      nng_close(socket_);
      raise(ErrorKind::ConnectionLost, "no owner answers at " + url_ + " (" + nng_strerror(failure) +
                                           "); start one with: sojourn-owner serve --listen " + url_);
    }
  }
  ~NngTransport() override { nng_close(socket_); }

  CallStatus tryCall(std::string_view request, std::string &reply, std::string &failure) override {
    auto failed = [&](int status, const char *action) {
      failure = describe(status, action);
      return status == NNG_ETIMEDOUT ? CallStatus::TimedOut : CallStatus::Broken;
    };
    nng_msg *message = nullptr;
    if (int status = nng_msg_alloc(&message, 0)) {
      return failed(status, "allocate a message for");
    }
    if (int status = nng_msg_append(message, request.data(), request.size())) {
      nng_msg_free(message);
      return failed(status, "build a message for");
    }
    if (int status = nng_sendmsg(socket_, message, 0)) {
      nng_msg_free(message);
      return failed(status, "send to");
    }
    nng_msg *answer = nullptr;
    if (int status = nng_recvmsg(socket_, &answer, 0)) {
      return failed(status, "receive from");
    }
    reply.assign(static_cast<const char *>(nng_msg_body(answer)), nng_msg_len(answer));
    nng_msg_free(answer);
    return CallStatus::Answered;
  }
  std::string name() const override { return url_; }

private:
  std::string describe(int status, const char *action) const {
    return std::string("could not ") + action + " the owner at " + url_ + ": " + nng_strerror(status);
  }

  std::string url_;
  nng_socket socket_{};
};

} // namespace

std::unique_ptr<Transport> dialTransport(const std::string &url, int timeoutMs) {
  if (url.find("://") == std::string::npos) {
    raise(ErrorKind::ConnectionLost, "'" + url + "' is no address; expected ipc:///path/to/socket or tcp://host:port");
  }
  return std::make_unique<NngTransport>(url, timeoutMs);
}

} // namespace sojourn::frontend
