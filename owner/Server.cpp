// SPDX-License-Identifier: Apache-2.0
// Connections come from nng's listener and go by a thread of the server, because nng's own threads may not wait for
// themselves. Requests are served by threads of the server, too: steps take long.
#include "owner/Server.h"

#include "owner/Connection.h"
#include "owner/Error.h"
#include "owner/Listener.h"
#include "owner/RunningSteps.h"
#include "owner/Workers.h"
#include "owner/links/PeerLinks.h"
#include "runtime/wire/Address.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
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
    const Certificate *certificate = listener->certificate();
    return certificate ? std::string_view(certificate->introduction) : std::string_view();
  }
  void closed(Connection &connection) override;

  std::atomic<uint64_t> received = 0;

private:
  using Connections = std::map<uint64_t, std::shared_ptr<Connection>>;

  void add(stream::OwnedStream stream);
  void makeRoom();
  void answer(const std::shared_ptr<Connection> &connection, Request &request);
  void endSteps(std::chrono::milliseconds grace);
  std::vector<std::shared_ptr<Connection>> open();
  void keepHouse();

  Owner &owner;
  const ServerOptions options;
  const size_t connectionsMost;
  std::unique_ptr<Listener> listener;
  std::unique_ptr<PeerLinks> links; ///< null: the owner takes part in no groups
  bool isOpen = false;
  Workers workers;

  std::mutex mutex; ///< of the rest
  std::condition_variable changed;
  Connections connections;
  std::vector<std::shared_ptr<Connection>> gone; ///< closed, and not yet done with
  Connections answering;                         ///< with a request under way
  bool isStopping = false, isOver = false;
  std::thread housekeeper;
};

llvm::Error Server::State::listen() {
  auto opened = Listener::open(owner, options.listen, [this](stream::OwnedStream stream) { add(std::move(stream)); });
  if (!opened) {
    return opened.takeError();
  }
  if (!options.peers.empty()) {
    auto linked = PeerLinks::start(owner, options.peers);
    if (!linked) {
      return linked.takeError();
    }
    links = std::move(*linked);
  }
  listener = std::move(*opened);
  if (connectionsMost < options.connections) {
    spdlog::warn("at most {} connections, because this process may have few open files (ulimit -n)", connectionsMost);
  }
  housekeeper = std::thread([this] { keepHouse(); });
  isOpen = true;
  listener->start();
  spdlog::debug("listening on {}", options.listen);
  return llvm::Error::success();
}

void Server::State::add(stream::OwnedStream stream) {
  makeRoom();
  std::shared_ptr<Connection> connection;
  {
    std::lock_guard lock(mutex);
    if (isStopping || connections.size() >= connectionsMost) {
      return;
    }
    const uint64_t id = ++lastId;
    connection = std::make_shared<Connection>(id, std::move(stream), *this, options.times);
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
    const bool accepts = sweeps && !isStopping;
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
      listener->retry();
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
  sojourn::wire::Message reply = owner.answer(request.bytes, Peer::client, connection->id, listener->digest());
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
    listener->stop();
    workers.refuse();
    for (auto end = Clock::now() + drain; Clock::now() < end && !isUrgent() && !workers.awaitIdle(kLook);) {
    }
    // Again and again: a request that waited for its session's turn begins a step late.
    std::chrono::milliseconds grace = kStopGrace;
    const auto end = Clock::now() + kStopGrace + kLastWords;
    do {
      endSteps(grace);
      if (Clock::now() >= end) {
        grace = std::chrono::milliseconds(0);
        links.reset(); // steps that are ready wait for other owners, however long
      }
    } while (!workers.awaitIdle(kLook));
    const auto isSending = [&] {
      const auto all = open();
      return std::any_of(all.begin(), all.end(), [](const auto &connection) { return connection->isSending(); });
    };
    for (auto last = Clock::now() + kLastWords; isSending() && Clock::now() < last;) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    for (const auto &connection : open()) {
      connection->close();
    }
    workers.stop();
    links.reset();
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
    listener.reset(); // the address is free
    spdlog::debug("closed after {} requests", received.load());
  }
}

Server::Server(std::unique_ptr<State> state) : state(std::move(state)) {}
Server::~Server() = default;

llvm::Expected<std::unique_ptr<Server>> Server::start(Owner &owner, const ServerOptions &options) {
  for (const std::string &problem :
       {sojourn::wire::addressProblem(options.listen, options.plainTcp), owner.status(),
        options.peers.empty() ? std::string() : sojourn::wire::addressProblem(options.peers, options.plainTcp)}) {
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
