// SPDX-License-Identifier: Apache-2.0
// The nng transport of the client: one req socket, one request at a time, and one that takes long beside it.
#include "frontend/wire/Client.h"

#include "frontend/Error.h"
#include "runtime/OwnProcess.h"
#include "runtime/wire/Address.h"
#include "runtime/wire/Protocol.h"

#include <nng/nng.h>
#include <nng/protocol/reqrep0/req.h>

#include <condition_variable>
#include <mutex>
#include <new>
#include <utility>

namespace sojourn::frontend {

namespace {

/// Replies carry published values; a client accepts no more than this.
constexpr size_t kReplyBytesMax = size_t{1} << 30;

/// Requests are built in the body of the message that will be sent: no copy between.
class MessageAllocator final : public RequestAllocator {
public:
  ~MessageAllocator() override { nng_msg_free(message_); }

  uint8_t *allocate(size_t size) override {
    nng_msg *message = nullptr;
    if (nng_msg_alloc(&message, size)) {
      throw std::bad_alloc();
    }
    // While a request grows there are two; the newer is the one that will be sent.
    older_ = std::exchange(message_, message);
    return static_cast<uint8_t *>(nng_msg_body(message));
  }

  void deallocate(uint8_t *bytes, size_t) override {
    for (nng_msg **message : {&older_, &message_}) {
      if (*message && nng_msg_body(*message) == bytes) {
        nng_msg_free(std::exchange(*message, nullptr));
      }
    }
  }

  /// The message whose body holds `request`, cut to it, and padding before it, for which nng leaves room. A request is
  /// built from the end.
  nng_msg *take(std::string_view request) {
    constexpr char pad[wire::kRequestPad] = {};
    nng_msg *message = std::exchange(message_, nullptr);
    nng_msg_trim(message, nng_msg_len(message) - request.size());
    if (nng_msg_insert(message, pad, sizeof pad)) {
      nng_msg_free(message);
      throw std::bad_alloc();
    }
    return message;
  }

private:
  nng_msg *message_ = nullptr, *older_ = nullptr;
};

class NngTransport final : public Transport {
public:
  NngTransport(std::string url, int timeoutMs) : url_(std::move(url)), timeoutMs_(timeoutMs) {
    if (int status = nng_req0_open(&socket_)) {
      raise(ErrorKind::ConnectionLost, describe(status, "open a socket for"));
    }
    nng_socket_set_size(socket_, NNG_OPT_RECVMAXSZ, kReplyBytesMax);
    nng_socket_set_ms(socket_, NNG_OPT_RECVTIMEO, timeoutMs);
    nng_socket_set_ms(socket_, NNG_OPT_SENDTIMEO, timeoutMs);
    // Whoever sends a request again decides so; nng's automatic resend is off.
    nng_socket_set_ms(socket_, NNG_OPT_REQ_RESENDTIME, NNG_DURATION_INFINITE);
    int failure = nng_dial(socket_, url_.c_str(), nullptr, 0);
    if (failure) {
      nng_close(socket_);
      raise(ErrorKind::ConnectionLost, "no owner answers at " + url_ + " (" + nng_strerror(failure) +
                                           "); start one with: sojourn-owner serve --listen " + url_);
    }
  }
  ~NngTransport() override { nng_close(socket_); }

  flatbuffers::Allocator &allocator() override { return allocator_; }

  CallStatus tryCall(std::string_view request, Answer &answer, std::string &failure) override {
    nng_msg *message = allocator_.take(request);
    int status = nng_sendmsg(socket_, message, NNG_FLAG_NONBLOCK);
    if (status == NNG_EAGAIN) { // no connection at the moment
      status = refusal();
      status = status ? status : nng_sendmsg(socket_, message, 0);
    }
    if (status) {
      nng_msg_free(message);
      failure = describe(status, "send to");
      return CallStatus::NotSent;
    }
    nng_msg *reply = nullptr;
    status = nng_recvmsg(socket_, &reply, 0);
    if (status) {
      failure = describe(status, "receive from");
      return status == NNG_ETIMEDOUT ? CallStatus::TimedOut : CallStatus::Broken;
    }
    answer = answerOf(reply);
    return CallStatus::Answered;
  }
  /// In a context of its own, so that the socket's stays free for what `look` asks.
  CallStatus tryLongCall(std::string_view request, Answer &answer, std::string &failure,
                         const std::function<bool()> &look) override {
    nng_msg *message = allocator_.take(request);
    Exchange exchange;
    if (int status = exchange.open(socket_)) {
      nng_msg_free(message);
      failure = describe(status, "send to");
      return CallStatus::NotSent;
    }
    int status = exchange.send(message, NNG_DURATION_ZERO);
    if (status == NNG_ETIMEDOUT) { // no connection at the moment
      status = refusal();
      status = status ? status : exchange.send(message, timeoutMs_);
    }
    if (status) {
      nng_msg_free(nng_aio_get_msg(exchange.aio));
      failure = describe(status, "send to");
      return CallStatus::NotSent;
    }
    nng_aio_set_timeout(exchange.aio, NNG_DURATION_INFINITE);
    nng_ctx_recv(exchange.context, exchange.aio);
    status = exchange.wait(look);
    if (status) {
      failure = describe(status, "receive from");
      return status == NNG_ETIMEDOUT ? CallStatus::TimedOut : CallStatus::Broken;
    }
    answer = answerOf(nng_aio_get_msg(exchange.aio));
    return CallStatus::Answered;
  }
  std::string name() const override { return url_; }
  int timeoutMs() const override { return timeoutMs_; }

private:
  /// A context, and its operation under way.
  struct Exchange {
    nng_ctx context = NNG_CTX_INITIALIZER;
    nng_aio *aio = nullptr;
    std::mutex mutex;
    std::condition_variable changed;
    bool isDone = false;

    int open(nng_socket socket) {
      int status = nng_ctx_open(&context, socket);
      return status ? status : nng_aio_alloc(&aio, &Exchange::finished, this);
    }
    static void finished(void *self) {
      auto &exchange = *static_cast<Exchange *>(self);
      std::lock_guard lock(exchange.mutex);
      exchange.isDone = true;
      exchange.changed.notify_one();
    }
    /// Returns nng's status. A message that was not sent is the caller's.
    int send(nng_msg *message, nng_duration timeout) {
      nng_aio_set_timeout(aio, timeout);
      nng_aio_set_msg(aio, message);
      nng_ctx_send(context, aio);
      return wait({});
    }
    /// Returns nng's status. Where `look` returns false it is as if the time was up.
    int wait(const std::function<bool()> &look) {
      std::unique_lock lock(mutex);
      bool givesUp = false;
      while (!changed.wait_for(lock, kLookEvery, [&] { return isDone; })) {
        lock.unlock();
        if (look && !givesUp && !look()) {
          givesUp = true;
          nng_aio_abort(aio, NNG_ETIMEDOUT);
        }
        lock.lock();
      }
      isDone = false;
      return nng_aio_result(aio);
    }
    ~Exchange() {
      if (aio) {
        nng_aio_stop(aio);
        nng_aio_free(aio);
      }
      nng_ctx_close(context);
    }
  };

  /// nng's status if nobody listens at the address any more; 0 if someone does, or if that is unknown. A socket that
  /// has lost its connection only knows that there is none yet, and would wait for the whole time.
  int refusal() const {
    nng_stream_dialer *dialer = nullptr;
    nng_aio *aio = nullptr;
    if (nng_aio_alloc(&aio, nullptr, nullptr)) {
      return 0;
    }
    int status = nng_stream_dialer_alloc(&dialer, url_.c_str());
    if (status == 0) {
      nng_aio_set_timeout(aio, timeoutMs_ > 0 ? timeoutMs_ : NNG_DURATION_DEFAULT);
      nng_stream_dialer_dial(dialer, aio);
      nng_aio_wait(aio);
      status = nng_aio_result(aio);
      if (status == 0) {
        nng_stream_free(static_cast<nng_stream *>(nng_aio_get_output(aio, 0)));
      }
      nng_stream_dialer_free(dialer);
    }
    nng_aio_free(aio);
    return status == NNG_ECONNREFUSED || status == NNG_ENOENT ? NNG_ECONNREFUSED : 0;
  }

  static Answer answerOf(nng_msg *reply) {
    Answer answer;
    answer.keep = std::shared_ptr<const void>(reply, [](nng_msg *kept) { nng_msg_free(kept); });
    answer.bytes = {static_cast<const char *>(nng_msg_body(reply)), nng_msg_len(reply)};
    return answer;
  }

  std::string describe(int status, const char *action) const {
    return std::string("could not ") + action + " the owner at " + url_ + ": " + nng_strerror(status);
  }

  std::string url_;
  int timeoutMs_;
  nng_socket socket_{};
  MessageAllocator allocator_;
};

} // namespace

std::unique_ptr<Transport> dialTransport(const std::string &url, int timeoutMs) {
  if (std::string problem = wire::addressProblem(url); !problem.empty()) {
    raise(ErrorKind::ConnectionLost, problem);
  }
  // nng ends a process that uses it in a fork of one that has.
  static const runtime::OwnProcess first;
  if (first.isElsewhere()) {
    raise(ErrorKind::ConnectionLost, "no connection to " + url + ": the first socket was " + first.text() +
                                         ", where sockets do not work; start processes that talk to an owner by spawn "
                                         "(multiprocessing.get_context(\"spawn\"))");
  }
  return std::make_unique<NngTransport>(url, timeoutMs);
}

} // namespace sojourn::frontend
