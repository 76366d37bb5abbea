// SPDX-License-Identifier: Apache-2.0
// Connections come from nng's listener and go by a thread of the server, because nng's own threads may not wait for
// themselves. Requests are served by threads of the server, too: steps take long.
#include "owner/Server.h"

#include "owner/Certificate.h"
#include "owner/Connection.h"
#include "owner/Error.h"
#include "owner/RunningSteps.h"
#include "owner/Workers.h"
#include "runtime/stream/Inproc.h"
#include "runtime/stream/KeepAlive.h"
#include "runtime/wire/Address.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <map>
#include <mutex>
#include <nng/supplemental/tls/tls.h>
#include <optional>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <thread>
#include <utility>
#include <vector>

namespace sojourn::owner {

namespace {

using Clock = Connection::Clock;

/// What a reply has for going out when the server stops.
constexpr std::chrono::milliseconds kLastWords{500};
/// How often connections are looked through.
constexpr std::chrono::milliseconds kSweepEvery{250};
/// Of a connection of any server: sessions of one owner may be open over several.
std::atomic<uint64_t> lastId = 0;
/// Descriptors of everything else.
constexpr rlim_t kOtherDescriptors = 256;

/// Descriptors for as many connections, as far as this process may have them; returns for how many.
size_t allowConnections(size_t most) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return most;
  }
  const rlim_t wanted = static_cast<rlim_t>(most) + kOtherDescriptors;
  if (limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < wanted) {
    limit.rlim_cur = limit.rlim_max == RLIM_INFINITY ? wanted : std::min(limit.rlim_max, wanted);
    setrlimit(RLIMIT_NOFILE, &limit);
    getrlimit(RLIMIT_NOFILE, &limit);
  }
  if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= wanted) {
    return most;
  }
  return std::max<size_t>(16, limit.rlim_cur > kOtherDescriptors ? limit.rlim_cur - kOtherDescriptors : 0);
}

/// The folder of a socket, made for this account alone; an error if something else stands where the socket is to be,
/// which nng would remove.
llvm::Error makeWay(const std::filesystem::path &path) {
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

} // namespace

class Server::State final : public ConnectionEvents {
public:
  State(Owner &owner, const ServerOptions &options)
      : owner(owner), options(options), connectionsMost(allowConnections(options.connections)),
        workers(std::max(2u, options.workers)) {}
  ~State() override {
    stop(std::chrono::milliseconds(0), [] { return false; });
  }

  llvm::Error listen();
  void stop(std::chrono::milliseconds drain, llvm::function_ref<bool()> isUrgent);

  std::shared_ptr<const void> room(uint64_t session, size_t bytes, sojourn::wire::Message &refusal) override {
    return owner.room(session, bytes, refusal);
  }
  void serve(std::shared_ptr<Connection> connection, Request request) override;
  std::string_view introduction() const override {
    return certificate ? std::string_view(certificate->introduction) : std::string_view();
  }
  void closed(Connection &connection) override;

  std::atomic<uint64_t> received = 0;

private:
  using Connections = std::map<uint64_t, std::shared_ptr<Connection>>;

  int open(llvm::StringRef url);
  int secure();
  static void accepted(void *self);
  void accept();
  void add(nng_stream *stream);
  void makeRoom();
  void answer(const std::shared_ptr<Connection> &connection, Request &request);
  void endSteps(std::chrono::milliseconds grace);
  std::vector<std::shared_ptr<Connection>> open();
  void keepHouse();

  Owner &owner;
  const ServerOptions options;
  const size_t connectionsMost;
  std::optional<Certificate> certificate;
  std::string_view digest;
  std::string inprocName;
  nng_stream_listener *listener = nullptr;
  nng_aio *acceptance = nullptr;
  bool isOpen = false;
  Workers workers;

  std::mutex mutex; ///< of the rest
  std::condition_variable changed;
  Connections connections;
  std::vector<std::shared_ptr<Connection>> gone; ///< closed, and not yet done with
  Connections answering;                         ///< with a request under way
  bool acceptsLater = false, isStopping = false, isOver = false;
  std::thread housekeeper;
};

int Server::State::secure() {
  const std::string_view bytes(reinterpret_cast<const char *>(certificate->digest.data()), certificate->digest.size());
  digest = bytes;
  nng_tls_config *config = nullptr;
  int status = nng_tls_config_alloc(&config, NNG_TLS_MODE_SERVER);
  status = status ? status : nng_tls_config_version(config, NNG_TLS_1_2, NNG_TLS_1_3);
  status = status ? status : nng_tls_config_auth_mode(config, NNG_TLS_AUTH_MODE_NONE);
  status =
      status ? status : nng_tls_config_own_cert(config, certificate->pem.c_str(), certificate->keyPem.c_str(), nullptr);
  status = status ? status : nng_stream_listener_set_ptr(listener, NNG_OPT_TLS_CONFIG, config);
  if (config) {
    nng_tls_config_free(config); // the listener holds it
  }
  return status;
}

int Server::State::open(llvm::StringRef url) {
  llvm::StringRef rest = url;
  if (rest.consume_front("inproc://")) {
    inprocName = rest.str();
    const int status = stream::listenInproc(inprocName, &listener);
    inprocName = status ? "" : inprocName;
    return status;
  }
  int status = nng_stream_listener_alloc(&listener, url.str().c_str());
  if (status == 0 && url.starts_with("ipc://")) {
    // nng's default lets every account of the machine in.
    status = nng_stream_listener_set_int(listener, NNG_OPT_IPC_PERMISSIONS, S_IRUSR | S_IWUSR);
  }
  if (status == 0 && url.starts_with("t")) {
    status = nng_stream_listener_set_bool(listener, NNG_OPT_TCP_NODELAY, true);
    // Machines that vanish: watchListener sets the times.
    status = status ? status : nng_stream_listener_set_bool(listener, NNG_OPT_TCP_KEEPALIVE, true);
  }
  status = status == 0 && certificate ? secure() : status;
  status = status ? status : nng_stream_listener_listen(listener);
  nng_sockaddr own{};
  if (status == 0 && nng_stream_listener_get_addr(listener, NNG_OPT_LOCADDR, &own) == 0) {
    if (own.s_family == NNG_AF_INET || own.s_family == NNG_AF_INET6) {
      stream::watchListener(own.s_family == NNG_AF_INET ? own.s_in.sa_port : own.s_in6.sa_port);
    }
  }
  return status;
}

llvm::Error Server::State::listen() {
  const llvm::StringRef url(options.listen);
  llvm::StringRef path(url);
  if (path.consume_front("ipc://")) {
    if (llvm::Error error = makeWay(path.str())) {
      return error;
    }
  }
  if (url.starts_with("tls+tcp://")) {
    auto opened = owner.certificate();
    if (!opened) {
      return opened.takeError();
    }
    certificate = std::move(*opened);
  }
  int status = nng_aio_alloc(&acceptance, accepted, this);
  status = status ? status : open(url);
  if (status) {
    std::string hint = status == NNG_EADDRINUSE   ? "; another server already listens at this address"
                       : status == NNG_EADDRINVAL ? "; expected ipc:///path/to/socket or tls+tcp://host:port"
                                                  : "";
    return failure("cannot listen on '" + options.listen + "': " + nng_strerror(status) + hint);
  }
  if (connectionsMost < options.connections) {
    spdlog::warn("at most {} connections, because this process may have few open files (ulimit -n)", connectionsMost);
  }
  housekeeper = std::thread([this] { keepHouse(); });
  isOpen = true;
  accept();
  spdlog::debug("listening on {}", options.listen);
  return llvm::Error::success();
}

void Server::State::accept() { nng_stream_listener_accept(listener, acceptance); }

void Server::State::accepted(void *given) {
  auto &self = *static_cast<State *>(given);
  const int status = nng_aio_result(self.acceptance);
  if (status == 0) {
    try {
      self.add(static_cast<nng_stream *>(nng_aio_get_output(self.acceptance, 0)));
    } catch (const std::exception &exception) {
      spdlog::error("no memory for a connection: {}", exception.what());
    }
    self.accept();
    return;
  }
  if (status != NNG_ECLOSED && status != NNG_ECANCELED) {
    spdlog::warn("a connection was not accepted: {}", nng_strerror(status));
    std::lock_guard lock(self.mutex);
    self.acceptsLater = true; // of descriptors there are none
  }
}

void Server::State::add(nng_stream *stream) {
  makeRoom();
  std::shared_ptr<Connection> connection;
  {
    std::lock_guard lock(mutex);
    if (isStopping || connections.size() >= connectionsMost) {
      nng_stream_close(stream);
      nng_stream_free(stream);
      return;
    }
    const uint64_t id = ++lastId;
    connection = std::make_shared<Connection>(id, stream, *this, options.times);
    connections.emplace(id, connection);
  }
  if (int status = connection->open()) {
    spdlog::error("no memory for a connection: {}", nng_strerror(status));
    connection->close();
    return;
  }
  connection->start();
}

/// Where there are too many connections, for one more. A client that opens many has those closed that it opened first.
/// Where all are of sessions, those without an identity have an eighth.
void Server::State::makeRoom() {
  std::vector<std::shared_ptr<Connection>> all;
  {
    std::lock_guard lock(mutex);
    if (connections.size() < connectionsMost) {
      return;
    }
    for (const auto &[id, connection] : connections) {
      all.push_back(connection);
    }
  }
  const std::vector<uint64_t> used = owner.connections();
  for (const auto &connection : all) {
    if (!std::binary_search(used.begin(), used.end(), connection->id)) {
      connection->close();
      return;
    }
  }
  const std::vector<uint64_t> anonymous = owner.connections(/*isAnonymous=*/true);
  llvm::erase_if(all, [&](const auto &connection) {
    return !std::binary_search(anonymous.begin(), anonymous.end(), connection->id);
  });
  if (all.size() > connectionsMost / 8) {
    all.front()->close();
  }
}

void Server::State::closed(Connection &connection) {
  owner.disconnected(connection.id);
  std::lock_guard lock(mutex);
  if (auto found = connections.find(connection.id); found != connections.end()) {
    gone.push_back(std::move(found->second));
    connections.erase(found);
    changed.notify_all();
  }
}

void Server::State::keepHouse() {
  auto next = Clock::now() + kSweepEvery;
  std::unique_lock lock(mutex);
  while (!isOver) {
    changed.wait_until(lock, next, [&] { return isOver || !gone.empty(); });
    auto ended = std::exchange(gone, {});
    const auto now = Clock::now();
    const bool sweeps = now >= next;
    const bool accepts = sweeps && std::exchange(acceptsLater, false) && !isStopping;
    std::vector<std::shared_ptr<Connection>> all, begun;
    if (sweeps) {
      next = now + kSweepEvery;
      for (const auto &[id, connection] : connections) {
        all.push_back(connection);
      }
      for (const auto &[id, connection] : answering) {
        begun.push_back(connection);
      }
    }
    lock.unlock();
    for (const auto &connection : ended) {
      connection->finish();
    }
    ended.clear();
    for (const auto &connection : all) {
      connection->sweep(now);
    }
    all.clear();
    for (const auto &connection : begun) {
      if (connection->isClosed()) {
        owner.disconnected(connection->id); // before its step began
      }
    }
    begun.clear();
    if (sweeps) {
      owner.tidy();
    }
    if (accepts) {
      makeRoom();
      accept();
    }
    lock.lock();
  }
}

void Server::State::serve(std::shared_ptr<Connection> connection, Request request) {
  auto shared = std::make_shared<Request>(std::move(request));
  const bool isTaken = workers.run([this, connection, shared] { answer(connection, *shared); });
  if (!isTaken) {
    shared->room = {};
    connection->close();
    std::lock_guard lock(mutex);
    if (!isStopping) {
      spdlog::error("a request of {} bytes is dropped: there is no thread for it", shared->bytes.size());
    }
  }
}

/// One request to its reply's send.
void Server::State::answer(const std::shared_ptr<Connection> &connection, Request &request) {
  ++received;
  const auto begin = Clock::now();
  {
    std::lock_guard lock(mutex);
    answering[connection->id] = connection;
  }
  const size_t size = request.bytes.size();
  sojourn::wire::Message reply = owner.answer(request.bytes, Peer::client, connection->id, digest);
  request = {};
  {
    std::lock_guard lock(mutex);
    answering.erase(connection->id);
  }
  const size_t replySize = reply.bytes.size();
  if (replySize == 0) {
    spdlog::error("no memory for a reply to a request of {} bytes", size);
  }
  const bool isSession = connection->isSession() || owner.hasSession(connection->id);
  if (!connection->reply(std::move(reply), isSession)) {
    owner.disconnected(connection->id); // it closed meanwhile
  }
  const auto spent = std::chrono::duration<double, std::milli>(Clock::now() - begin);
  spdlog::debug("request of {} bytes, reply of {} bytes, {:.2f} ms", size, replySize, spent.count());
}

std::vector<std::shared_ptr<Connection>> Server::State::open() {
  std::vector<std::shared_ptr<Connection>> all;
  std::lock_guard lock(mutex);
  for (const auto &[id, connection] : connections) {
    all.push_back(connection);
  }
  return all;
}

void Server::State::endSteps(std::chrono::milliseconds grace) {
  std::vector<uint64_t> ids;
  {
    std::lock_guard lock(mutex);
    for (const auto &[id, connection] : answering) {
      ids.push_back(id);
    }
  }
  for (uint64_t id : ids) {
    owner.endSteps(id, grace);
  }
}

void Server::State::stop(std::chrono::milliseconds drain, llvm::function_ref<bool()> isUrgent) {
  constexpr std::chrono::milliseconds kLook{50};
  if (std::exchange(isOpen, false)) {
    {
      std::lock_guard lock(mutex);
      isStopping = true;
    }
    nng_stream_listener_close(listener);
    workers.refuse();
    for (auto end = Clock::now() + drain; Clock::now() < end && !isUrgent() && !workers.awaitIdle(kLook);) {
    }
    // Again and again: a request that waited for its session's turn begins a step late.
    std::chrono::milliseconds grace = kStopGrace;
    const auto end = Clock::now() + kStopGrace + kLastWords;
    do {
      endSteps(grace);
      grace = Clock::now() >= end ? std::chrono::milliseconds(0) : grace;
    } while (!workers.awaitIdle(kLook));
    const auto isSending = [&] {
      const auto all = open();
      return std::any_of(all.begin(), all.end(), [](const auto &connection) { return connection->isSending(); });
    };
    for (auto last = Clock::now() + kLastWords; isSending() && Clock::now() < last;) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    nng_aio_stop(acceptance);
    for (const auto &connection : open()) {
      connection->close();
    }
    workers.stop();
    {
      std::unique_lock lock(mutex);
      isOver = true;
      changed.notify_all();
    }
    housekeeper.join();
    // Those whose end nng's threads are about to tell, then all.
    for (const auto &connection : open()) {
      connection->finish();
    }
    for (const auto &connection : std::exchange(gone, {})) {
      connection->finish();
    }
    spdlog::debug("closed after {} requests", received.load());
  }
  if (!inprocName.empty()) {
    stream::endInproc(std::exchange(inprocName, ""));
  }
  if (listener) {
    nng_stream_listener_free(std::exchange(listener, nullptr));
  }
  nng_aio_free(std::exchange(acceptance, nullptr));
}

Server::Server(std::unique_ptr<State> state) : state(std::move(state)) {}
Server::~Server() = default;

llvm::Expected<std::unique_ptr<Server>> Server::start(Owner &owner, const ServerOptions &options) {
  for (const std::string &problem : {sojourn::wire::addressProblem(options.listen, options.plainTcp), owner.status()}) {
    if (!problem.empty()) {
      return failure(problem);
    }
  }
  std::unique_ptr<Server> server(new Server(std::make_unique<State>(owner, options)));
  if (llvm::Error error = server->state->listen()) {
    return error;
  }
  return server;
}

void Server::stop(std::chrono::milliseconds drain, llvm::function_ref<bool()> isUrgent) {
  state->stop(drain, isUrgent);
}

uint64_t Server::requests() const { return state->received; }

} // namespace sojourn::owner
