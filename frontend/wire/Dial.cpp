// SPDX-License-Identifier: Apache-2.0
// The transport of a client with a served owner: one connection, one request at a time; and another one to look after a
// request that takes long. Connections are made anew as they are needed.
#include "frontend/Error.h"
#include "frontend/wire/Link.h"
#include "frontend/wire/Trust.h"
#include "runtime/OwnProcess.h"
#include "runtime/wire/Address.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace sojourn::frontend {

namespace {

using stream::FrameHead;
using stream::FrameKind;

/// Between attempts to connect, at first and at last.
constexpr std::chrono::milliseconds kFirstPause{10}, kLongestPause{250};

bool isRefusal(int status) { return status == NNG_ECONNREFUSED || status == NNG_ENOENT; }
bool isMistrust(int status) { return status == NNG_EPEERAUTH || status == NNG_ECRYPTO; }

class StreamTransport final : public Transport {
public:
  StreamTransport(std::string url, int timeoutMs, std::shared_ptr<Trust> trust)
      : url_(std::move(url)), timeoutMs_(timeoutMs), trust_(std::move(trust)) {
    if (int status = connect(first_)) {
      raise(ErrorKind::ConnectionLost, "no owner answers at " + url_ + " (" + nng_strerror(status) +
                                           "); start one with: sojourn-owner serve --listen " + url_);
    }
  }

  flatbuffers::Allocator &allocator() override { return allocator_; }
  void setSession(uint64_t session) override { session_ = session; }

  CallStatus tryCall(std::string_view request, Answer &answer, std::string &failure) override {
    return call(isLong_ ? second_ : first_, request, answer, failure, timeoutMs_, {});
  }
  /// What `look` asks goes over the other connection.
  CallStatus tryLongCall(std::string_view request, Answer &answer, std::string &failure,
                         const std::function<bool()> &look) override {
    struct Scope {
      bool &isLong;
      ~Scope() { isLong = false; }
    } scope{isLong_ = true};
    return call(first_, request, answer, failure, 0, look);
  }
  std::string name() const override { return url_; }
  std::unique_ptr<Transport> another() const override {
    return std::make_unique<StreamTransport>(url_, timeoutMs_, trust_);
  }
  int timeoutMs() const override { return timeoutMs_; }
  std::string_view certificate() const override { return digest_; }
  std::string ownerKey() const override { return trust_ ? trust_->ownerKey() : ""; }

private:
  CallStatus call(Link &link, std::string_view request, Answer &answer, std::string &failure, int timeoutMs,
                  const std::function<bool()> &look) {
    try {
      if (int status = send(link, request)) {
        link.close();
        failure = describe(status, "send to");
        return isRefusal(status) ? CallStatus::Refused : CallStatus::NotSent;
      }
      FrameHead head;
      int status = link.receive(head, answer, timeoutMs, look);
      status = status == 0 && head.kind != FrameKind::message ? NNG_EPROTO : status;
      if (status) {
        // The reply may still come, and would be taken for the next one.
        link.close();
        failure = describe(status, "receive from");
        return status == NNG_ETIMEDOUT ? CallStatus::TimedOut : CallStatus::Broken;
      }
      return CallStatus::Answered;
    } catch (...) {
      link.close();
      throw;
    }
  }

  /// Connects where that is needed, as long as somebody listens at the address. A message of which a part was not sent
  /// has not arrived, so it is sent anew. Returns nng's status.
  int send(Link &link, std::string_view request) {
    const auto begin = std::chrono::steady_clock::now();
    bool isMistrusted = false;
    int failures = 0;
    for (auto pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
      int status = link.isOpen() ? 0 : connect(link);
      FrameHead head;
      head.session = session_;
      status = status ? status : link.send(head, request, timeoutMs_);
      if (status == 0 || isRefusal(status)) {
        return status;
      }
      link.close();
      if (isMistrust(status)) {
        // Once: the owner may have another certificate now.
        if (std::exchange(isMistrusted, true)) {
          return status;
        }
        trusted_.clear();
      }
      const bool isLate = timeoutMs_ > 0
                              ? std::chrono::steady_clock::now() - begin >= std::chrono::milliseconds(timeoutMs_)
                              : ++failures > 1;
      if (isLate) {
        return status;
      }
      interruptiblePause(pause);
    }
  }

  int connect(Link &link) {
    if (!url_.starts_with("tls+tcp://")) {
      return link.dial(url_, timeoutMs_, nullptr);
    }
    if (trusted_.empty()) {
      if (int status = introduce()) {
        return status;
      }
    }
    return link.dial(url_, timeoutMs_, &trusted_);
  }

  /// Asks for the owner's certificate, over a connection that nothing else is said on.
  int introduce() {
    Link link;
    int status = link.dial(url_, timeoutMs_, nullptr);
    FrameHead head;
    head.kind = FrameKind::introduction;
    status = status ? status : link.send(head, {}, timeoutMs_);
    Answer answer;
    status = status ? status : link.receive(head, answer, timeoutMs_, {}, stream::kSmallBytes);
    status = status == 0 && head.kind != FrameKind::introduction ? NNG_EPROTO : status;
    if (status == 0) {
      std::string certificate = trust_->certificateOf(answer.bytes);
      const auto digest = trust_->digest();
      std::string found(reinterpret_cast<const char *>(digest.data()), digest.size());
      // The handshake of a session names one certificate. A server with another one has no session of this client, or
      // has stolen a certificate of before.
      isAnother_ = session_ != 0 && found != digest_;
      if (isAnother_) {
        return NNG_EPEERAUTH;
      }
      trusted_ = std::move(certificate);
      digest_ = std::move(found);
    }
    return status;
  }

  std::string describe(int status, const char *action) const {
    std::string text = std::string("could not ") + action + " the owner at " + url_ + ": ";
    if (isMistrust(status) && isAnother_) {
      return text + "the server has another certificate than the one that this session began with, and a session does "
                    "not outlive it. If the data owner has renewed the certificate, connect again";
    }
    if (isMistrust(status)) {
      return text + "the server does not hold the certificate that the owner's key vouches for; another server may "
                    "answer at this address. Ask the data owner";
    }
    return text + nng_strerror(status);
  }

  const std::string url_;
  const int timeoutMs_;
  const std::shared_ptr<Trust> trust_;
  std::string trusted_, digest_; ///< the owner's certificate, as PEM; its digest
  uint64_t session_ = 0;
  bool isAnother_ = false; ///< whether the certificate shown last is not that of the session
  bool isLong_ = false;    ///< whether the first connection waits for a long call
  Link first_, second_;
  RequestAllocator allocator_;
};

} // namespace

std::unique_ptr<Transport> dialTransport(const std::string &url, int timeoutMs, std::shared_ptr<Trust> trust,
                                         bool plainTcp) {
  if (std::string problem = wire::addressProblem(url, plainTcp, wire::Side::client); !problem.empty()) {
    raise(ErrorKind::ConnectionLost, problem);
  }
  // nng ends a process that uses it in a fork of one that has.
  static const runtime::OwnProcess first;
  if (first.isElsewhere()) {
    raise(ErrorKind::ConnectionLost, "no connection to " + url + ": the first socket was " + first.text() +
                                         ", where sockets do not work; start processes that talk to an owner by spawn "
                                         "(multiprocessing.get_context(\"spawn\"))");
  }
  return std::make_unique<StreamTransport>(url, timeoutMs, std::move(trust));
}

} // namespace sojourn::frontend
