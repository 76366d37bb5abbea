// SPDX-License-Identifier: Apache-2.0
#include "owner/StatusServer.h"

#include "owner/Error.h"
#include "owner/Text.h"
#include "runtime/wire/Messages_generated.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <nng/nng.h>
#include <nng/protocol/reqrep0/rep.h>
#include <nng/protocol/reqrep0/req.h>
#include <nng/supplemental/http/http.h>
#include <random>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace sojourn::owner {

namespace fs = std::filesystem;
using llvm::Twine;
using nlohmann::json;

namespace {

/// Of a request to the socket, and of waiting for its answer.
constexpr size_t kRequestMost = 4'096;
constexpr nng_duration kAnswerMs = 5'000;

size_t residentBytes() {
  std::ifstream file("/proc/self/statm");
  size_t pages = 0, resident = 0;
  file >> pages >> resident;
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

size_t openDescriptors() {
  std::error_code code;
  return static_cast<size_t>(std::distance(fs::directory_iterator("/proc/self/fd", code), fs::directory_iterator()));
}

json settingsJson(const ServeSettings &settings) {
  json all;
  for (const TextSetting &setting : textSettings()) {
    all[setting.key] = printableName(settings.*setting.text);
  }
  for (const FlagSetting &setting : flagSettings()) {
    all[setting.key] = settings.*setting.flag;
  }
  for (const NumberSetting &setting : numberSettings()) {
    json &at = *setting.table != '\0' ? all[setting.table][setting.key] : all[setting.key];
    const double value = setting.get(settings);
    at = setting.isWhole ? json(static_cast<int64_t>(value)) : json(value);
  }
  return all;
}

json statusJson(const Figures &figures, const ServeSettings &settings) {
  json refused = json::object();
  for (size_t code = 0; code < figures.refused.size(); ++code) {
    if (figures.refused[code] > 0) {
      refused[sojourn_wire::EnumNameErrorCode(static_cast<sojourn_wire::ErrorCode>(code))] = figures.refused[code];
    }
  }
  return {{"pid", getpid()},
          {"seconds", figures.seconds},
          {"requests", figures.requests},
          {"steps", figures.steps},
          {"refused", refused},
          {"sessions", {{"all", figures.sessions}, {"without_identity", figures.anonymousSessions}}},
          {"values",
           {{"count", figures.values},
            {"named", figures.namedValues},
            {"bytes", figures.valueBytes},
            {"bytes_without_identity", figures.anonymousValueBytes},
            {"bytes_most", figures.valueBytesMost}}},
          {"requests_under_way", figures.requestsUnderWay},
          {"small", {{"running", figures.smallRunning}, {"waiting", figures.smallWaiting}}},
          {"large", {{"running", figures.largeRunning}, {"waiting", figures.largeWaiting}}},
          {"plans", {{"count", figures.plans}, {"bytes", figures.planBytes}}},
          {"groups",
           {{"count", figures.groups},
            {"waiting", figures.groupsWaiting},
            {"steps_taken_over", figures.stepsTakenOver},
            {"bytes_taken_over", figures.bytesTakenOver}}},
          {"peers",
           {{"registered", figures.peers},
            {"linked", figures.linkedPeers},
            {"bytes_sent", figures.peerBytesSent},
            {"bytes_received", figures.peerBytesReceived},
            {"bytes_waiting", figures.peerBytesWaiting}}},
          {"memory_bytes", residentBytes()},
          {"descriptors", openDescriptors()},
          {"settings", settingsJson(settings)}};
}

json namedValuesJson(std::vector<NamedValueInfo> values) {
  json all = json::array();
  for (const NamedValueInfo &value : values) {
    json tags = json::array();
    for (const std::string &tag : value.tags) {
      tags.push_back(printableName(tag));
    }
    all.push_back({{"client", printableName(value.account)},
                   {"name", printableName(value.name)},
                   {"tags", std::move(tags)},
                   {"dtype", std::string(runtime::elementName(value.type.element))},
                   {"shape", value.shape.empty() ? std::vector<int64_t>(value.type.dims.begin(), value.type.dims.end())
                                                 : value.shape},
                   {"bytes", value.type.bytes()},
                   {"named_ms", value.namedMs},
                   {"used_ms", value.usedMs},
                   {"lease_ms", value.leaseMs},
                   {"sessions", value.followers}});
  }
  return all;
}

/// Answers a request of the data owner's: by the account of the socket.
std::string answerTo(std::string_view request, Owner &owner, const ServeSettings &settings) {
  const json asked = json::parse(request, nullptr, /*allow_exceptions=*/false);
  const std::string what = asked.is_object() ? asked.value("ask", "") : "";
  if (what == "values") {
    return json{{"named_values", namedValuesJson(owner.namedValues(asked.value("client", "")))}}.dump();
  }
  if (what == "release") {
    llvm::Error error = owner.releaseName(asked.value("client", ""), asked.value("name", ""));
    return json{{"released", error ? llvm::toString(std::move(error)) : ""}}.dump();
  }
  return statusJson(owner.figures(), settings).dump();
}

/// The folder of the sockets, one for each server of the store.
fs::path folderOf(const std::string &store) { return fs::path(store) / "servers"; }

/// A socket's address through the descriptor of its folder: a socket's name has 107 bytes at most.
class Folder {
public:
  explicit Folder(const fs::path &path) : descriptor(open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)) {}
  ~Folder() {
    if (descriptor >= 0) {
      close(descriptor);
    }
  }
  Folder(const Folder &) = delete;
  Folder &operator=(const Folder &) = delete;
  std::string address(const std::string &name) const {
    return "ipc:///proc/self/fd/" + std::to_string(descriptor) + "/" + name;
  }
  bool isOpen() const { return descriptor >= 0; }

private:
  const int descriptor;
};

} // namespace

std::string metricsText(const Figures &figures) {
  std::string text;
  llvm::raw_string_ostream out(text);
  auto head = [&](const char *name, const char *type, const char *help) {
    out << "# HELP " << name << ' ' << help << "\n# TYPE " << name << ' ' << type << '\n';
  };
  auto one = [&](const char *name, const char *type, const char *help, double value) {
    head(name, type, help);
    out << name << ' ' << llvm::formatv("{0}", json(value).dump()) << '\n';
  };
  one("sojourn_uptime_seconds", "gauge", "Time since the server started.", figures.seconds);
  one("sojourn_requests_total", "counter", "Requests answered.", static_cast<double>(figures.requests));
  one("sojourn_steps_total", "counter", "Steps committed.", static_cast<double>(figures.steps));
  head("sojourn_refused_total", "counter", "Requests answered with an error, by its code.");
  for (size_t code = 0; code <= static_cast<size_t>(sojourn_wire::ErrorCode_MAX); ++code) {
    out << "sojourn_refused_total{code=\""
        << sojourn_wire::EnumNameErrorCode(static_cast<sojourn_wire::ErrorCode>(code)) << "\"} "
        << figures.refused[code] << '\n';
  }
  head("sojourn_sessions", "gauge", "Open sessions, by whether their client has an identity.");
  out << "sojourn_sessions{identity=\"yes\"} " << figures.sessions - figures.anonymousSessions
      << "\nsojourn_sessions{identity=\"no\"} " << figures.anonymousSessions << '\n';
  one("sojourn_values", "gauge", "Values that clients keep.", static_cast<double>(figures.values));
  one("sojourn_named_values", "gauge", "Values that have names.", static_cast<double>(figures.namedValues));
  head("sojourn_value_bytes", "gauge", "Bytes of values that clients keep, by whether they have an identity.");
  out << "sojourn_value_bytes{identity=\"yes\"} " << figures.valueBytes - figures.anonymousValueBytes
      << "\nsojourn_value_bytes{identity=\"no\"} " << figures.anonymousValueBytes << '\n';
  one("sojourn_value_bytes_limit", "gauge", "The most bytes that all clients may keep.",
      static_cast<double>(figures.valueBytesMost));
  one("sojourn_requests_under_way", "gauge", "Requests of sessions that run or wait.",
      static_cast<double>(figures.requestsUnderWay));
  head("sojourn_steps_running", "gauge", "Steps, plans and proofs that run, by size.");
  out << "sojourn_steps_running{size=\"small\"} " << figures.smallRunning << "\nsojourn_steps_running{size=\"large\"} "
      << figures.largeRunning << '\n';
  head("sojourn_steps_waiting", "gauge", "Steps, plans and proofs that wait for a place, by size.");
  out << "sojourn_steps_waiting{size=\"small\"} " << figures.smallWaiting << "\nsojourn_steps_waiting{size=\"large\"} "
      << figures.largeWaiting << '\n';
  one("sojourn_plans", "gauge", "Plans of programs in memory.", static_cast<double>(figures.plans));
  one("sojourn_plan_bytes", "gauge", "Bytes of these plans.", static_cast<double>(figures.planBytes));
  one("sojourn_groups", "gauge", "Groups of owners with this one as a member.", static_cast<double>(figures.groups));
  one("sojourn_groups_waiting", "gauge", "Groups whose step waits for other owners.",
      static_cast<double>(figures.groupsWaiting));
  one("sojourn_group_steps_taken_over_total", "counter",
      "Steps of groups in which this owner took over bits of the first member.",
      static_cast<double>(figures.stepsTakenOver));
  one("sojourn_group_bytes_taken_over_total", "counter", "Bytes of these.",
      static_cast<double>(figures.bytesTakenOver));
  one("sojourn_peers", "gauge", "Other owners that are registered.", static_cast<double>(figures.peers));
  one("sojourn_peers_linked", "gauge", "Those with a link.", static_cast<double>(figures.linkedPeers));
  one("sojourn_peer_waiting_bytes", "gauge", "Bytes of other owners' values that came before their step.",
      static_cast<double>(figures.peerBytesWaiting));
  one("process_resident_memory_bytes", "gauge", "Resident memory of the process.",
      static_cast<double>(residentBytes()));
  one("process_open_fds", "gauge", "Open file descriptors of the process.", static_cast<double>(openDescriptors()));
  return text;
}

struct StatusServer::State {
  State(Owner &owner, const ServeSettings &settings) : owner(owner), settings(settings) {}
  ~State();
  llvm::Error openSocket(const std::string &store);
  llvm::Error openHttp();
  void answer();
  static void serveMetrics(nng_aio *aio);
  static void serveHealth(nng_aio *aio);
  static void reply(nng_aio *aio, const char *type, const std::string &text, uint16_t status = NNG_HTTP_STATUS_OK);
  static State &of(nng_aio *aio) {
    return *static_cast<State *>(nng_http_handler_get_data(static_cast<nng_http_handler *>(nng_aio_get_input(aio, 1))));
  }

  Owner &owner;
  const ServeSettings &settings;
  fs::path file;
  nng_socket socket = NNG_SOCKET_INITIALIZER;
  bool isOpen = false;
  std::thread thread;
  nng_http_server *http = nullptr;
  std::atomic<bool> isDraining = false;
};

StatusServer::State::~State() {
  if (http != nullptr) {
    nng_http_server_stop(http);
    nng_http_server_release(http);
  }
  if (isOpen) {
    nng_close(socket);
    if (thread.joinable()) {
      thread.join();
    }
    std::error_code code;
    fs::remove(file, code);
  }
}

llvm::Error StatusServer::State::openSocket(const std::string &store) {
  std::error_code code;
  const fs::path path = folderOf(store);
  fs::create_directories(path, code);
  fs::permissions(path, fs::perms::owner_all, code);
  // Containers with one store may have processes of one number.
  const std::string name =
      std::to_string(getpid()) + "-" + llvm::utohexstr(std::random_device()(), /*LowerCase=*/true) + ".sock";
  const Folder folder(path);
  if (!folder.isOpen()) {
    return failure("cannot open the folder '" + path.string() + "': " + std::strerror(errno));
  }
  file = path / name;
  int result = nng_rep0_open(&socket);
  isOpen = result == 0;
  result = result ? result : nng_socket_set_size(socket, NNG_OPT_RECVMAXSZ, kRequestMost);
  nng_listener listener = NNG_LISTENER_INITIALIZER;
  result = result ? result : nng_listener_create(&listener, socket, folder.address(name).c_str());
  result = result ? result : nng_listener_set_int(listener, NNG_OPT_IPC_PERMISSIONS, S_IRUSR | S_IWUSR);
  result = result ? result : nng_listener_start(listener, 0);
  if (result != 0) {
    return failure("cannot listen on '" + file.string() + "': " + nng_strerror(result));
  }
  thread = std::thread([this] { answer(); });
  return llvm::Error::success();
}

void StatusServer::State::answer() {
  nng_msg *message = nullptr;
  for (;;) {
    const int result = nng_recvmsg(socket, &message, 0);
    if (result == NNG_ECLOSED) {
      return;
    }
    if (result != 0) {
      continue;
    }
    std::string text;
    try {
      text = answerTo({static_cast<const char *>(nng_msg_body(message)), nng_msg_len(message)}, owner, settings);
    } catch (const std::exception &exception) { // of another type than expected
      text = json{{"problem", exception.what()}}.dump();
    }
    nng_msg_clear(message);
    if (nng_msg_append(message, text.data(), text.size()) != 0 || nng_sendmsg(socket, message, 0) != 0) {
      nng_msg_free(message);
    }
  }
}

void StatusServer::State::reply(nng_aio *aio, const char *type, const std::string &text, uint16_t status) {
  nng_http_res *response = nullptr;
  int result = nng_http_res_alloc(&response);
  result = result ? result : nng_http_res_set_status(response, status);
  result = result ? result : nng_http_res_copy_data(response, text.data(), text.size());
  result = result ? result : nng_http_res_set_header(response, "Content-Type", type);
  if (result != 0) {
    nng_http_res_free(response);
    nng_aio_finish(aio, result);
    return;
  }
  nng_aio_set_output(aio, 0, response);
  nng_aio_finish(aio, 0);
}

void StatusServer::State::serveMetrics(nng_aio *aio) {
  reply(aio, "text/plain; version=0.0.4; charset=utf-8", metricsText(of(aio).owner.figures()));
}

void StatusServer::State::serveHealth(nng_aio *aio) {
  const char *type = "text/plain; charset=utf-8";
  of(aio).isDraining ? reply(aio, type, "ending\n", NNG_HTTP_STATUS_SERVICE_UNAVAILABLE) : reply(aio, type, "ok\n");
}

llvm::Error StatusServer::State::openHttp() {
  nng_url *url = nullptr;
  int result = nng_url_parse(&url, ("http://" + settings.metrics).c_str());
  result = result ? result : nng_http_server_hold(&http, url);
  for (auto [path, serve] : {std::pair("/metrics", &State::serveMetrics), {"/health", &State::serveHealth}}) {
    nng_http_handler *handler = nullptr;
    result = result ? result : nng_http_handler_alloc(&handler, path, serve);
    result = result ? result : nng_http_handler_set_data(handler, this, nullptr);
    result = result ? result : nng_http_server_add_handler(http, handler);
  }
  result = result ? result : nng_http_server_start(http);
  if (url != nullptr) {
    nng_url_free(url);
  }
  return result == 0 ? llvm::Error::success()
                     : failure("cannot serve metrics on '" + printableName(settings.metrics) +
                               "': " + nng_strerror(result) + "; expected host:port with a free port");
}

StatusServer::StatusServer(std::unique_ptr<State> state) : state(std::move(state)) {}
StatusServer::~StatusServer() = default;

void StatusServer::drain() { state->isDraining = true; }

llvm::Expected<std::unique_ptr<StatusServer>> StatusServer::start(Owner &owner, const ServeSettings &settings,
                                                                  const std::string &store) {
  auto state = std::make_unique<State>(owner, settings);
  if (!store.empty()) {
    if (llvm::Error error = state->openSocket(store)) {
      return error;
    }
  }
  if (!settings.metrics.empty()) {
    if (llvm::Error error = state->openHttp()) {
      return error;
    }
  }
  return std::unique_ptr<StatusServer>(new StatusServer(std::move(state)));
}

/// Asks one server. `isOver`: its process has ended.
static std::optional<std::string> askServer(const std::string &address, const std::string &request, bool &isOver) {
  nng_socket socket = NNG_SOCKET_INITIALIZER;
  if (nng_req0_open(&socket) != 0) {
    return std::nullopt;
  }
  nng_socket_set_ms(socket, NNG_OPT_RECVTIMEO, kAnswerMs);
  nng_socket_set_ms(socket, NNG_OPT_SENDTIMEO, kAnswerMs);
  std::optional<std::string> text;
  nng_msg *message = nullptr;
  const int result = nng_dial(socket, address.c_str(), nullptr, 0);
  isOver = result == NNG_ECONNREFUSED;
  if (result == 0 && nng_msg_alloc(&message, 0) == 0) {
    if (nng_msg_append(message, request.data(), request.size()) != 0 || nng_sendmsg(socket, message, 0) != 0) {
      nng_msg_free(message);
    } else if (nng_recvmsg(socket, &message, 0) == 0) {
      text.emplace(static_cast<const char *>(nng_msg_body(message)), nng_msg_len(message));
      nng_msg_free(message);
    }
  }
  nng_close(socket);
  return text;
}

llvm::Expected<std::vector<std::string>> askServers(const std::string &store, const std::string &request) {
  std::vector<std::string> found;
  std::error_code code;
  const fs::path path = folderOf(store);
  const Folder folder(path);
  for (const auto &entry : fs::directory_iterator(path, code)) {
    const std::string name = entry.path().filename().string();
    if (!llvm::StringRef(name).ends_with(".sock")) {
      continue;
    }
    bool isOver = false;
    if (auto text = askServer(folder.address(name), request, isOver)) {
      found.push_back(std::move(*text));
    } else if (std::error_code ignored; isOver && fs::is_socket(fs::symlink_status(entry.path(), ignored))) {
      fs::remove(entry.path(), ignored); // its server was killed
    }
  }
  return found;
}

static void printSettings(const json &settings, const std::string &table, llvm::raw_ostream &out) {
  for (const auto &[key, value] : settings.items()) {
    if (value.is_object()) {
      printSettings(value, key + ".", out);
    } else {
      const bool isUnset = value.is_string() && value.get<std::string>().empty();
      out << "  " << table << key << " = " << (isUnset ? "(none)" : value.dump()) << '\n';
    }
  }
}

llvm::Error printStatus(const std::string &store, const ServeSettings &settings, bool asJson, llvm::raw_ostream &out) {
  auto servers = askServers(store);
  if (!servers) {
    return servers.takeError();
  }
  json all = json::array();
  for (const std::string &text : *servers) {
    json parsed = json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (parsed.is_object() && parsed.contains("settings")) {
      all.push_back(std::move(parsed));
    }
  }
  if (asJson) {
    out << json{{"servers", all}, {"settings", settingsJson(settings)}}.dump(2) << '\n';
    return llvm::Error::success();
  }
  for (const json &server : all) {
    auto number = [&](const char *pointer) { return server.value(json::json_pointer(pointer), uint64_t{0}); };
    out << "server " << number("/pid") << ", listening on " << server["settings"].value("listen", "") << " for "
        << number("/seconds") << " seconds\n  " << number("/steps") << " steps committed, " << number("/requests")
        << " requests answered";
    for (const auto &[code, count] : server["refused"].items()) {
      out << ", " << count.dump() << ' ' << code;
    }
    out << "\n  running: " << number("/small/running") << " small, " << number("/large/running")
        << " large; waiting: " << number("/small/waiting") << " small, " << number("/large/waiting") << " large\n  "
        << number("/sessions/all") << " sessions, " << number("/sessions/without_identity")
        << " of clients without an identity\n  " << number("/values/count") << " values of sessions and "
        << number("/values/named") << " with names, of " << number("/values/bytes") << " bytes ("
        << number("/values/bytes_without_identity") << " of clients without an identity), at most "
        << number("/values/bytes_most") << "\n  " << number("/groups/count") << " groups with other owners, "
        << number("/groups/waiting") << " of them waiting for others; links with " << number("/peers/linked") << " of "
        << number("/peers/registered") << " registered owners, " << number("/peers/bytes_sent") << " bytes sent and "
        << number("/peers/bytes_received") << " received; " << number("/groups/steps_taken_over")
        << " steps took over bits of a first member, " << number("/groups/bytes_taken_over") << " bytes\n  "
        << number("/memory_bytes") << " bytes of memory, " << number("/descriptors")
        << " descriptors\nsettings of server " << number("/pid") << '\n';
    printSettings(server["settings"], "", out);
  }
  if (all.empty()) {
    out << "no server runs on this store\nsettings of a new one\n";
    printSettings(settingsJson(settings), "", out);
  }
  return llvm::Error::success();
}

} // namespace sojourn::owner
