// SPDX-License-Identifier: Apache-2.0
// nng 1.x request-reply: a socket, and one thread with a context of its own per worker.
#include "owner/Server.h"

#include "owner/Error.h"
#include "runtime/Limits.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <nng/nng.h>
#include <nng/protocol/reqrep0/rep.h>
#include <spdlog/spdlog.h>
#include <thread>
#include <vector>

namespace sojourn::owner {

/// A client that does not take its reply must not hold a worker for ever.
static constexpr nng_duration kSendTimeoutMs = 30'000;

struct Server::State {
  explicit State(Owner &owner) : owner(owner) {}

  void work();
  void answer(nng_ctx context, nng_aio *aio);

  Owner &owner;
  nng_socket socket = NNG_SOCKET_INITIALIZER;
  bool open = false;
  std::atomic<bool> stopping = false;
  std::atomic<uint64_t> received = 0;
  std::vector<std::thread> workers;
};

/// One request from the aio's message to the reply's send.
void Server::State::answer(nng_ctx context, nng_aio *aio) {
  nng_msg *request = nng_aio_get_msg(aio);
  nng_aio_set_msg(aio, nullptr);
  ++received;
  auto begin = std::chrono::steady_clock::now();
  std::string_view bytes(static_cast<const char *>(nng_msg_body(request)), nng_msg_len(request));
  size_t size = bytes.size();
  std::string reply = owner.handle(bytes, Peer::client);
  nng_msg_free(request);
  nng_msg *message = nullptr;
  if (reply.empty() || nng_msg_alloc(&message, reply.size()) != 0) {
    spdlog::error("no memory for a reply to a request of {} bytes", size);
    return; // the next receive of this context drops the request
  }
  std::memcpy(nng_msg_body(message), reply.data(), reply.size());
  nng_aio_set_msg(aio, message);
  nng_aio_set_timeout(aio, kSendTimeoutMs);
  nng_ctx_send(context, aio);
  nng_aio_wait(aio);
  if (int result = nng_aio_result(aio); result != 0) {
    nng_msg_free(nng_aio_get_msg(aio)); // not sent: still ours
    nng_aio_set_msg(aio, nullptr);
    spdlog::warn("a reply of {} bytes was not sent: {}", reply.size(), nng_strerror(result));
  }
  auto spent = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin);
  spdlog::debug("request of {} bytes, reply of {} bytes, {:.2f} ms", size, reply.size(),
                spent.count());
}

void Server::State::work() {
  nng_ctx context = NNG_CTX_INITIALIZER;
  nng_aio *aio = nullptr;
  if (nng_ctx_open(&context, socket) != 0 || nng_aio_alloc(&aio, nullptr, nullptr) != 0) {
    spdlog::error("a worker could not start");
    return;
  }
  while (!stopping) {
    nng_aio_set_timeout(aio, NNG_DURATION_INFINITE);
    nng_ctx_recv(context, aio);
    nng_aio_wait(aio);
    int result = nng_aio_result(aio);
    if (result == NNG_ECLOSED) {
      break;
    }
    if (result == 0) {
      answer(context, aio);
    } else {
      spdlog::warn("receiving failed: {}", nng_strerror(result));
    }
  }
  nng_ctx_close(context);
  nng_aio_free(aio);
}

Server::Server(std::unique_ptr<State> state) : state(std::move(state)) {}
Server::~Server() { stop(); }

llvm::Expected<std::unique_ptr<Server>> Server::start(Owner &owner, const ServerOptions &options) {
  if (std::string problem = owner.status(); !problem.empty()) {
    return failure(problem);
  }
  std::unique_ptr<Server> server(new Server(std::make_unique<State>(owner)));
  State &state = *server->state;
  auto wrong = [&](int result) {
    std::string hint = result == NNG_EADDRINUSE  ? "; another server is listening there"
                       : result == NNG_EADDRINVAL ? "; expected ipc:///path, tcp://host:port or "
                                                    "inproc://name"
                                                  : "";
    return failure("cannot listen on '" + options.listen + "': " + nng_strerror(result) + hint);
  };
  if (int result = nng_rep0_open(&state.socket)) {
    return wrong(result);
  }
  state.open = true;
  // nng's default is no limit at all.
  if (int result = nng_socket_set_size(state.socket, NNG_OPT_RECVMAXSZ,
                                       runtime::limits::kRequestBytes)) {
    return wrong(result);
  }
  if (llvm::StringRef path(options.listen); path.consume_front("ipc://")) {
    std::error_code ignored;
    std::filesystem::create_directories(std::filesystem::path(path.str()).parent_path(), ignored);
  }
  if (int result = nng_listen(state.socket, options.listen.c_str(), nullptr, 0)) {
    return wrong(result);
  }
  for (unsigned index = 0; index < std::max(1u, options.workers); ++index) {
    state.workers.emplace_back([&state] { state.work(); });
  }
  spdlog::debug("listening on {}", options.listen);
  return server;
}

void Server::stop() {
  if (!state->open) {
    return;
  }
  state->open = false;
  state->stopping = true;
  nng_close(state->socket);
  for (std::thread &worker : state->workers) {
    worker.join();
  }
  spdlog::debug("closed after {} requests", state->received.load());
}

uint64_t Server::requests() const { return state->received; }

} // namespace sojourn::owner
