// SPDX-License-Identifier: Apache-2.0
// nng 1.x request-reply: a socket, and one thread with a context of its own per worker. nng hands
// requests out in turn, so only as many workers receive as can run at once; the others rest until
// none receives. Steps then meet a warm thread, with its kernels' helpers and caches.
#include "owner/Server.h"

#include "owner/Error.h"
#include "owner/Limits.h"
#include "owner/RunningSteps.h"
#include "runtime/wire/Address.h"
#include "runtime/wire/Protocol.h"
#include "runtime/wire/Step.h"

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <functional>
#include <mutex>
#include <nng/nng.h>
#include <nng/protocol/reqrep0/rep.h>
#include <map>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <thread>
#include <vector>

namespace sojourn::owner {

/// A client that does not take its reply must not hold a worker for ever: its connection is closed then. Where a
/// quarter of the workers wait for such clients, they wait no longer than a second.
static constexpr nng_duration kSendTimeoutMs = 30'000, kShortSendTimeoutMs = 1'000;
/// Of one connection, replies that it has not taken; with more it is closed. An orderly client has one or two.
static constexpr int kRepliesMost = 8;
/// Connections; a further one is closed at once.
static constexpr size_t kConnectionsMost = 4'096;

/// More are made as they are needed.
static constexpr unsigned kWorkersAtFirst = 16;

/// What a reply has for going out when the server stops.
static constexpr std::chrono::milliseconds kLastWords{500};

/// A context with its own two operations. They are apart so that receiving can be stopped for good
/// while a reply still goes out.
struct Worker {
  ~Worker() {
    if (thread.joinable()) {
      thread.join();
    }
    nng_aio_free(receive);
    nng_aio_free(send);
    if (open) {
      nng_ctx_close(context);
    }
  }
  nng_ctx context = NNG_CTX_INITIALIZER;
  bool open = false;
  nng_aio *receive = nullptr, *send = nullptr;
  std::condition_variable called; ///< back from rest
  bool resting = false;           ///< under the roster's mutex
  std::thread thread;
};

/// Who receives and who rests.
class Roster {
public:
  /// `hire`: makes a further worker, which enters; false where none can be made.
  Roster(unsigned receiversMost, std::function<bool()> hire) : receiversMost(receiversMost), hire(std::move(hire)) {}

  /// Rests until the worker is needed; false when the server stops.
  bool enter(Worker &worker) {
    std::unique_lock lock(mutex);
    if (stopped) {
      return false;
    }
    if (receiving < receiversMost) {
      ++receiving;
      return true;
    }
    worker.resting = true;
    rested.push_back(&worker);
    worker.called.wait(lock, [&] { return !worker.resting; });
    return !stopped;
  }
  /// The worker has a request. Another one must be there for the next: requests that take long hold no other up.
  void leave() {
    std::lock_guard lock(mutex);
    ++busy;
    if (--receiving > 0 || stopped) {
      return;
    }
    if (!rested.empty()) {
      ++receiving;
      wakeLast();
    } else {
      hire();
    }
  }
  /// The worker's request is answered.
  void done() {
    std::lock_guard lock(mutex);
    if (--busy == 0) {
      idle.notify_all();
    }
  }
  /// Whether no request is under way within the time.
  bool awaitIdle(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex);
    return idle.wait_for(lock, time, [&] { return busy == 0; });
  }
  /// No worker rests from now on: workers may go from now on.
  void stop() {
    std::lock_guard lock(mutex);
    stopped = true;
    while (!rested.empty()) {
      wakeLast();
    }
  }

private:
  /// The last to rest is the warmest.
  void wakeLast() {
    Worker &worker = *rested.back();
    rested.pop_back();
    worker.resting = false;
    worker.called.notify_one();
  }

  const unsigned receiversMost;
  const std::function<bool()> hire;
  std::mutex mutex;
  std::condition_variable idle;
  std::vector<Worker *> rested;
  unsigned receiving = 0, busy = 0;
  bool stopped = false;
};

struct Server::State {
  State(Owner &owner, unsigned workersMost)
      : owner(owner), workersMost(std::max(2u, workersMost)),
        roster(std::max(2u, std::thread::hardware_concurrency()), [this] { return hire(); }) {}

  static void onPipe(nng_pipe pipe, nng_pipe_ev event, void *state);
  bool isOpen(int pipe) {
    std::lock_guard lock(pipesMutex);
    return pipes.count(pipe) != 0;
  }
  bool hire();
  int addWorker();
  void endSteps(std::chrono::milliseconds grace);
  bool addReply(nng_pipe pipe);
  void removeReply(int pipe);
  void work(Worker &worker);
  void answer(Worker &worker, nng_msg *request);

  Owner &owner;
  const unsigned workersMost;
  nng_socket socket = NNG_SOCKET_INITIALIZER;
  bool open = false;
  std::atomic<uint64_t> received = 0;
  Roster roster;
  std::vector<std::unique_ptr<Worker>> workers;
  std::mutex pipesMutex;
  std::map<int, int> pipes;          ///< connections that are open, with the replies that they have not taken
  std::atomic<unsigned> sending = 0; ///< workers whose reply has not gone
};

void Server::State::onPipe(nng_pipe pipe, nng_pipe_ev event, void *given) {
  auto &state = *static_cast<State *>(given);
  const int id = nng_pipe_id(pipe);
  if (event == NNG_PIPE_EV_ADD_PRE) {
    const bool isFull = [&] {
      std::lock_guard lock(state.pipesMutex);
      return state.pipes.size() >= kConnectionsMost || !state.pipes.emplace(id, 0).second;
    }();
    if (isFull) {
      nng_pipe_close(pipe);
    }
    return;
  }
  {
    std::lock_guard lock(state.pipesMutex);
    state.pipes.erase(id);
  }
  state.owner.disconnected(static_cast<uint64_t>(id));
}

int Server::State::addWorker() {
  auto worker = std::make_unique<Worker>();
  int result = nng_ctx_open(&worker->context, socket);
  worker->open = result == 0;
  result = result ? result : nng_aio_alloc(&worker->receive, nullptr, nullptr);
  result = result ? result : nng_aio_alloc(&worker->send, nullptr, nullptr);
  if (result == 0) {
    nng_aio_set_timeout(worker->receive, NNG_DURATION_INFINITE);
    nng_aio_set_timeout(worker->send, kSendTimeoutMs);
    worker->thread = std::thread([this, raw = worker.get()] { work(*raw); });
    workers.push_back(std::move(worker));
  }
  return result;
}

/// Under the roster's mutex, as all changes of `workers` while the server runs.
bool Server::State::hire() {
  if (workers.size() >= workersMost) {
    return false;
  }
  try {
    if (int result = addWorker(); result != 0) {
      spdlog::error("no further request can be served at once: {}", nng_strerror(result));
      return false;
    }
  } catch (const std::exception &exception) {
    spdlog::error("no further request can be served at once: {}", exception.what());
    return false;
  }
  return true;
}

void Server::State::endSteps(std::chrono::milliseconds grace) {
  std::vector<int> open;
  {
    std::lock_guard lock(pipesMutex);
    for (const auto &[pipe, replies] : pipes) {
      open.push_back(pipe);
    }
  }
  for (int pipe : open) {
    owner.endSteps(static_cast<uint64_t>(pipe), grace);
  }
}

/// False where the connection has too many replies that it does not take: it is closed.
bool Server::State::addReply(nng_pipe pipe) {
  {
    std::lock_guard lock(pipesMutex);
    auto found = pipes.find(nng_pipe_id(pipe));
    if (found == pipes.end()) {
      return true; // closed: nng drops the reply
    }
    if (found->second < kRepliesMost) {
      ++found->second;
      return true;
    }
  }
  spdlog::warn("a connection with {} replies that its client does not take is closed", kRepliesMost);
  nng_pipe_close(pipe);
  return false;
}

void Server::State::removeReply(int pipe) {
  std::lock_guard lock(pipesMutex);
  if (auto found = pipes.find(pipe); found != pipes.end()) {
    --found->second;
  }
}

/// One request to its reply's send.
void Server::State::answer(Worker &worker, nng_msg *request) {
  ++received;
  auto begin = std::chrono::steady_clock::now();
  std::string_view bytes(static_cast<const char *>(nng_msg_body(request)), nng_msg_len(request));
  size_t size = bytes.size();
  constexpr std::array<char, sojourn::wire::kRequestPad> pad{};
  if (bytes.starts_with(std::string_view(pad.data(), pad.size()))) {
    bytes.remove_prefix(pad.size());
  }
  const nng_pipe from = nng_msg_get_pipe(request);
  const int pipe = nng_pipe_id(from);
  sojourn::wire::Message reply = owner.answer(bytes, Peer::client, static_cast<uint64_t>(pipe));
  if (!isOpen(pipe)) {
    owner.disconnected(static_cast<uint64_t>(pipe)); // it closed meanwhile
  }
  nng_msg_free(request);
  nng_msg *message = nullptr;
  if (reply.bytes.empty() || nng_msg_alloc(&message, reply.bytes.size()) != 0) {
    spdlog::error("no memory for a reply to a request of {} bytes", size);
    return; // the next receive of this context drops the request
  }
  std::memcpy(nng_msg_body(message), reply.bytes.data(), reply.bytes.size());
  sojourn::wire::countCopied(reply.bytes.size());
  const size_t bytesSent = reply.bytes.size();
  reply = {};
  if (!addReply(from)) {
    nng_msg_free(message);
    return;
  }
  nng_aio_set_timeout(worker.send, ++sending > workersMost / 4 ? kShortSendTimeoutMs : kSendTimeoutMs);
  nng_aio_set_msg(worker.send, message);
  nng_ctx_send(worker.context, worker.send);
  nng_aio_wait(worker.send);
  --sending;
  if (int result = nng_aio_result(worker.send); result != 0) {
    nng_msg_free(nng_aio_get_msg(worker.send)); // not sent: still ours
    spdlog::warn("a reply of {} bytes was not sent: {}", bytesSent, nng_strerror(result));
    if (result == NNG_ETIMEDOUT) {
      nng_pipe_close(from);
    }
  }
  nng_aio_set_msg(worker.send, nullptr);
  removeReply(pipe);
  auto spent = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin);
  spdlog::debug("request of {} bytes, reply of {} bytes, {:.2f} ms", size, bytesSent, spent.count());
}

void Server::State::work(Worker &worker) {
  while (roster.enter(worker)) {
    nng_ctx_recv(worker.context, worker.receive);
    nng_aio_wait(worker.receive);
    roster.leave();
    int result = nng_aio_result(worker.receive);
    if (result != 0) {
      roster.done();
      if (result == NNG_ECLOSED || result == NNG_ECANCELED) {
        return;
      }
      spdlog::warn("receiving failed: {}", nng_strerror(result));
      continue;
    }
    nng_msg *request = nng_aio_get_msg(worker.receive);
    nng_aio_set_msg(worker.receive, nullptr);
    answer(worker, request);
    roster.done();
  }
}

/// The folder of a socket, made for this account alone; an error if something else stands where the socket is to be,
/// which nng would remove.
static llvm::Error makeWay(const std::filesystem::path &path) {
  std::error_code code;
  const std::filesystem::file_status found = symlink_status(path, code);
  if (exists(found) && !is_socket(found)) {
    return failure("cannot listen on 'ipc://" + path.string() + "': there is " +
                   (is_directory(found) ? "a folder" : "a file that is not a socket") +
                   ", which stays as it is; listen on another path, or remove it");
  }
  const std::filesystem::path folder = path.parent_path();
  if (create_directories(folder, code)) {
    permissions(folder, std::filesystem::perms::owner_all, code);
  }
  return llvm::Error::success();
}

Server::Server(std::unique_ptr<State> state) : state(std::move(state)) {}
Server::~Server() { stop(); }

llvm::Expected<std::unique_ptr<Server>> Server::start(Owner &owner, const ServerOptions &options) {
  for (const std::string &problem : {sojourn::wire::addressProblem(options.listen), owner.status()}) {
    if (!problem.empty()) {
      return failure(problem);
    }
  }
  std::unique_ptr<Server> server(new Server(std::make_unique<State>(owner, options.workers)));
  State &state = *server->state;
  auto wrong = [&](int result) {
    std::string hint = result == NNG_EADDRINUSE   ? "; another server already listens at this address"
                       : result == NNG_EADDRINVAL ? "; expected ipc:///path/to/socket or tcp://host:port"
                                                  : "";
    return failure("cannot listen on '" + options.listen + "': " + nng_strerror(result) + hint);
  };
  if (int result = nng_rep0_open(&state.socket)) {
    return wrong(result);
  }
  state.open = true;
  // nng's default is no limit at all.
  if (int result = nng_socket_set_size(state.socket, NNG_OPT_RECVMAXSZ, kRequestBytes + sojourn::wire::kRequestPad)) {
    return wrong(result);
  }
  for (nng_pipe_ev event : {NNG_PIPE_EV_ADD_PRE, NNG_PIPE_EV_REM_POST}) {
    if (int result = nng_pipe_notify(state.socket, event, State::onPipe, &state)) {
      return wrong(result);
    }
  }
  llvm::StringRef path(options.listen);
  const bool isFile = path.consume_front("ipc://");
  if (llvm::Error error = isFile ? makeWay(path.str()) : llvm::Error::success()) {
    return error;
  }
  nng_listener listener = NNG_LISTENER_INITIALIZER;
  if (int result = nng_listener_create(&listener, state.socket, options.listen.c_str())) {
    return wrong(result);
  }
  // nng's default lets every account of the machine in.
  if (int result = isFile ? nng_listener_set_int(listener, NNG_OPT_IPC_PERMISSIONS, S_IRUSR | S_IWUSR) : 0) {
    return wrong(result);
  }
  // Before requests come: `hire` adds workers, too.
  for (unsigned index = 0; index < std::min(kWorkersAtFirst, state.workersMost); ++index) {
    if (int result = state.addWorker()) {
      return wrong(result);
    }
  }
  if (int result = nng_listener_start(listener, 0)) {
    return wrong(result);
  }
  spdlog::debug("listening on {}", options.listen);
  if (llvm::StringRef(options.listen).starts_with("tcp")) {
    spdlog::warn("{} is not encrypted: session ids and uploads travel in the clear; use ipc:// or a "
                 "tunnel",
                 options.listen);
  }
  return server;
}

void Server::stop(std::chrono::milliseconds drain, llvm::function_ref<bool()> isUrgent) {
  if (!state->open) {
    return;
  }
  state->open = false;
  // Operations first and the socket last, so that a reply under way is sent whole.
  state->roster.stop();
  for (auto &worker : state->workers) {
    nng_aio_stop(worker->receive);
  }
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kLook{50};
  for (auto end = Clock::now() + drain; Clock::now() < end && !isUrgent() && !state->roster.awaitIdle(kLook);) {
  }
  // Again and again: a request that waited for its session's turn begins a step late.
  std::chrono::milliseconds grace = kStopGrace;
  const auto end = Clock::now() + kStopGrace + kLastWords;
  do {
    state->endSteps(grace);
    if (Clock::now() >= end) {
      grace = std::chrono::milliseconds(0);
      for (auto &worker : state->workers) {
        nng_aio_abort(worker->send, NNG_ETIMEDOUT); // of a client that does not take its reply
      }
    }
  } while (!state->roster.awaitIdle(kLook));
  state->workers.clear();
  nng_close(state->socket);
  spdlog::debug("closed after {} requests", state->received.load());
}

uint64_t Server::requests() const { return state->received; }

} // namespace sojourn::owner
