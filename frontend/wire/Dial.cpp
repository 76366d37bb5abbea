// SPDX-License-Identifier: Apache-2.0
// The nng transport of the client: one req socket, one request at a time, and one that takes long beside it.
#include "frontend/wire/Client.h"

#include "frontend/Error.h"
#include "frontend/Interrupt.h"
#include "frontend/wire/KeepAlive.h"
#include "runtime/OwnProcess.h"
#include "runtime/wire/Address.h"
#include "runtime/wire/Protocol.h"

#include <nng/nng.h>
#include <nng/protocol/reqrep0/req.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>
#include <optional>
#include <thread>
#include <utility>

namespace sojourn::frontend {

namespace {

/// How often a request that waits for a connection looks for it, and asks whether anybody listens.
constexpr std::chrono::milliseconds kConnectionPause{10}, kRefusalEvery{250};
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

/// An operation of nng under way, for a thread that waits for it and may be interrupted.
class Operation {
public:
  ~Operation() {
    if (aio_) {
      nng_aio_stop(aio_);
      nng_aio_free(aio_);
    }
  }
  int open() { return nng_aio_alloc(&aio_, &Operation::finished, this); }
  nng_aio *aio() { return aio_; }
  /// Before an operation starts; 0 or less: it may take for ever.
  void begin(int timeoutMs) {
    isDone_ = false;
    nng_aio_set_timeout(aio_, timeoutMs > 0 ? timeoutMs : NNG_DURATION_INFINITE);
  }
  /// Returns nng's status once the operation has ended. `look` is called every `kLookEvery`, `kAskEvery` if empty;
  /// where it returns false it is as if the time was up.
  int wait(const std::function<bool()> &look) {
    std::unique_lock lock(mutex_);
    bool givesUp = false;
    const std::chrono::milliseconds each = look ? kLookEvery : kAskEvery;
    while (!changed_.wait_for(lock, each, [&] { return isDone_; })) {
      lock.unlock();
      if (!givesUp && !(look ? look() : waiting.goesOn())) {
        givesUp = true;
        nng_aio_abort(aio_, NNG_ETIMEDOUT);
      }
      lock.lock();
    }
    return nng_aio_result(aio_);
  }
  Waiting waiting;

private:
  static void finished(void *self) {
    auto &operation = *static_cast<Operation *>(self);
    std::lock_guard lock(operation.mutex_);
    operation.isDone_ = true;
    operation.changed_.notify_one();
  }

  nng_aio *aio_ = nullptr;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool isDone_ = false;
};

/// A request and its reply.
class Exchange {
public:
  ~Exchange() {
    nng_aio_free(send_);
    if (isOpen_) {
      nng_ctx_close(context_);
    }
  }
  int open(nng_socket socket) {
    int status = nng_ctx_open(&context_, socket);
    isOpen_ = status == 0;
    status = status ? status : nng_aio_alloc(&send_, nullptr, nullptr);
    return status ? status : reply.open();
  }
  /// Without waiting: NNG_ETIMEDOUT where there is no connection at the moment. A message that was not sent is the
  /// caller's.
  int trySend(nng_msg *message) {
    nng_aio_set_timeout(send_, NNG_DURATION_ZERO);
    nng_aio_set_msg(send_, message);
    nng_ctx_send(context_, send_);
    nng_aio_wait(send_);
    return nng_aio_result(send_);
  }
  void receive(int timeoutMs) {
    reply.begin(timeoutMs);
    nng_ctx_recv(context_, reply.aio());
  }
  Operation reply;

private:
  nng_ctx context_ = NNG_CTX_INITIALIZER;
  bool isOpen_ = false;
  nng_aio *send_ = nullptr;
};

class NngTransport final : public Transport {
public:
  NngTransport(std::string url, int timeoutMs) : url_(std::move(url)), timeoutMs_(timeoutMs) {
    if (int status = nng_req0_open(&socket_)) {
      raise(ErrorKind::ConnectionLost, describe(status, "open a socket for"));
    }
    nng_socket_set_size(socket_, NNG_OPT_RECVMAXSZ, kReplyBytesMax);
    // Whoever sends a request again decides so; nng's automatic resend is off.
    nng_socket_set_ms(socket_, NNG_OPT_REQ_RESENDTIME, NNG_DURATION_INFINITE);
    nng_pipe_notify(socket_, NNG_PIPE_EV_ADD_PRE, onConnection, nullptr);
    int failure = 0;
    try {
      failure = dial();
    } catch (...) {
      nng_close(socket_);
      throw;
    }
    if (failure) {
      nng_close(socket_);
      raise(ErrorKind::ConnectionLost, "no owner answers at " + url_ + " (" + nng_strerror(failure) +
                                           "); start one with: sojourn-owner serve --listen " + url_);
    }
  }
  ~NngTransport() override {
    usual_.reset();
    nng_close(socket_);
  }

  flatbuffers::Allocator &allocator() override { return allocator_; }

  CallStatus tryCall(std::string_view request, Answer &answer, std::string &failure) override {
    nng_msg *message = allocator_.take(request);
    if (!usual_) {
      usual_ = std::make_unique<Exchange>();
      if (int status = usual_->open(socket_)) {
        usual_.reset();
        nng_msg_free(message);
        failure = describe(status, "send to");
        return CallStatus::NotSent;
      }
    }
    return call(*usual_, message, answer, failure, timeoutMs_, {});
  }
  /// In a context of its own, so that the usual one stays free for what `look` asks.
  CallStatus tryLongCall(std::string_view request, Answer &answer, std::string &failure,
                         const std::function<bool()> &look) override {
    nng_msg *message = allocator_.take(request);
    Exchange exchange;
    if (int status = exchange.open(socket_)) {
      nng_msg_free(message);
      failure = describe(status, "send to");
      return CallStatus::NotSent;
    }
    return call(exchange, message, answer, failure, NNG_DURATION_INFINITE, look);
  }
  std::string name() const override { return url_; }
  int timeoutMs() const override { return timeoutMs_; }

private:
  CallStatus call(Exchange &exchange, nng_msg *message, Answer &answer, std::string &failure, int timeoutMs,
                  const std::function<bool()> &look) {
    int status = NNG_EINTERNAL;
    try {
      status = send(exchange, message);
    } catch (...) {
      nng_msg_free(message);
      throw;
    }
    if (status) {
      nng_msg_free(message);
      failure = describe(status, "send to");
      return status == NNG_ECONNREFUSED ? CallStatus::Refused : CallStatus::NotSent;
    }
    exchange.receive(timeoutMs);
    status = exchange.reply.wait(look);
    if (status) {
      exchange.reply.waiting.end();
      failure = describe(status, "receive from");
      return status == NNG_ETIMEDOUT ? CallStatus::TimedOut : CallStatus::Broken;
    }
    exchange.reply.waiting.isOver();
    answer = answerOf(nng_aio_get_msg(exchange.reply.aio()));
    return CallStatus::Answered;
  }

  /// Waits for a connection, which nng makes anew by itself, as long as somebody listens at the address. Returns nng's
  /// status.
  int send(Exchange &exchange, nng_msg *message) const {
    const auto begin = std::chrono::steady_clock::now();
    auto asked = begin - kRefusalEvery;
    for (;;) {
      int status = exchange.trySend(message);
      if (status != NNG_ETIMEDOUT) {
        return status;
      }
      const auto now = std::chrono::steady_clock::now();
      if (timeoutMs_ > 0 && now - begin >= std::chrono::milliseconds(timeoutMs_)) {
        return NNG_ETIMEDOUT;
      }
      if (now - asked >= kRefusalEvery) {
        asked = now;
        if (int refused = refusal()) {
          return refused;
        }
      }
      interruptiblePause(kConnectionPause);
    }
  }

  /// Returns nng's status; throws an interruption.
  int dial() {
    std::mutex mutex;
    std::condition_variable changed;
    std::optional<int> status;
    std::thread dialer([&] {
      int result = nng_dial(socket_, url_.c_str(), nullptr, 0);
      std::lock_guard lock(mutex);
      status = result;
      changed.notify_one();
    });
    // nng's own negotiation takes up to 10 seconds; closing the socket ends it.
    auto end = [&](std::unique_lock<std::mutex> &lock) {
      lock.unlock();
      nng_close(socket_);
      dialer.join();
    };
    const auto begin = std::chrono::steady_clock::now();
    Waiting waiting;
    std::unique_lock lock(mutex);
    while (!changed.wait_for(lock, kAskEvery, [&] { return status.has_value(); })) {
      if (timeoutMs_ > 0 && std::chrono::steady_clock::now() - begin >= std::chrono::milliseconds(timeoutMs_)) {
        end(lock);
        return NNG_ETIMEDOUT;
      }
      lock.unlock();
      const bool goesOn = waiting.goesOn(std::chrono::milliseconds(0));
      lock.lock();
      if (!goesOn) {
        end(lock);
        waiting.end();
      }
    }
    lock.unlock();
    dialer.join();
    return *status;
  }

  /// By a thread of nng, before the connection is used.
  static void onConnection(nng_pipe pipe, nng_pipe_ev, void *) {
    nng_sockaddr here{}, there{};
    if (nng_pipe_get_addr(pipe, NNG_OPT_LOCADDR, &here) == 0 && nng_pipe_get_addr(pipe, NNG_OPT_REMADDR, &there) == 0) {
      auto portOf = [](const nng_sockaddr &address) {
        return address.s_family == NNG_AF_INET    ? address.s_in.sa_port
               : address.s_family == NNG_AF_INET6 ? address.s_in6.sa_port
                                                  : uint16_t{0};
      };
      if (portOf(here) && portOf(there)) {
        watchConnection(portOf(here), portOf(there));
      }
    }
  }

  /// nng's status if nobody listens at the address any more; 0 if someone does, or if that is unknown. A socket that
  /// has lost its connection only knows that there is none yet, and would wait for the whole time.
  int refusal() const {
    Operation knock;
    nng_stream_dialer *dialer = nullptr;
    if (knock.open()) {
      return 0;
    }
    int status = nng_stream_dialer_alloc(&dialer, url_.c_str());
    if (status == 0) {
      knock.begin(timeoutMs_);
      nng_stream_dialer_dial(dialer, knock.aio());
      // Longer than a moment: a machine that does not answer.
      status = knock.wait(
          [&, asked = 0]() mutable { return knock.waiting.goesOn(std::chrono::milliseconds(0)) && ++asked < 10; });
      if (status == 0) {
        nng_stream_free(static_cast<nng_stream *>(nng_aio_get_output(knock.aio(), 0)));
      }
      nng_stream_dialer_free(dialer);
    }
    knock.waiting.end();
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
  std::unique_ptr<Exchange> usual_; ///< of requests one after the other
  MessageAllocator allocator_;
};

} // namespace

std::unique_ptr<Transport> dialTransport(const std::string &url, int timeoutMs, std::shared_ptr<Trust>, bool plainTcp) {
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
  return std::make_unique<NngTransport>(url, timeoutMs);
}

} // namespace sojourn::frontend
