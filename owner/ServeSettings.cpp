// SPDX-License-Identifier: Apache-2.0
// One list of settings, from which the command line, the file and `sojourn-owner status` are made.
#include "owner/ServeSettings.h"

#include "owner/Budget.h"
#include "owner/Error.h"
#include "owner/Text.h"
#include "owner/Toml.h"
#include "runtime/wire/Address.h"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <thread>

namespace sojourn::owner {

using llvm::Twine;

namespace {

constexpr double kStepSeconds = 600, kWeek = 7 * 24 * 3600, kYears = 10 * 366 * 24 * 3600.0;
/// Of one processor in a second, at best: products of matrices.
constexpr double kOperationsPerSecond = 1e10;
constexpr double kBytesMost = 1e15, kOperationsMost = 9e15;

template <class T>
T whole(double value) {
  return static_cast<T>(std::llround(value));
}

const NumberSetting kNumbers[] = {
    {"steps", "seconds", "--step-seconds", "deadline of one step; 0: none", 0, kWeek, false,
     [](const ServeSettings &s) { return static_cast<double>(s.limits.stepMs) / 1000; },
     [](ServeSettings &s, double value) {
       s.limits.stepMs = value > 0 ? std::max<int64_t>(1, whole<int64_t>(1000 * value)) : 0;
     }},
    {"steps", "operations", "--max-operations",
     "limit on elements computed or moved by one step; larger programs are refused unbuilt; 0: what the processors do "
     "at best before the deadline",
     0, kOperationsMost, true,
     [](const ServeSettings &s) {
       return s.isSettled ? static_cast<double>(s.limits.price.operations) : s.operations.value_or(0);
     },
     [](ServeSettings &s, double value) { s.operations = value > 0 ? std::optional(value) : std::nullopt; }},
    {"steps", "call_seconds", "",
     "limit on one call of the kernel library, as the factors of one large matrix, by estimate: a step cannot be ended "
     "during one; 0: none",
     0, kWeek, false, [](const ServeSettings &s) { return s.limits.price.callSeconds; },
     [](ServeSettings &s, double value) { s.limits.price.callSeconds = value; }},
    {"steps", "arena_bytes", "--max-arena", "limit on intermediate values of one step, in bytes", 1, kBytesMost, true,
     [](const ServeSettings &s) { return static_cast<double>(s.limits.price.arenaBytes); },
     [](ServeSettings &s, double value) { s.limits.price.arenaBytes = whole<uint64_t>(value); }},
    {"steps", "all_arena_bytes", "",
     "the same of all running steps; 0: three eighths of the memory that this process may use", 0, kBytesMost, true,
     [](const ServeSettings &s) { return static_cast<double>(s.limits.runningArenaBytes); },
     [](ServeSettings &s, double value) { s.limits.runningArenaBytes = whole<size_t>(value); }},
    {"steps", "threads", "", "threads that running steps share; 0: as many as there are processors", 0, 1024, true,
     [](const ServeSettings &s) { return static_cast<double>(s.limits.threads); },
     [](ServeSettings &s, double value) { s.limits.threads = whole<unsigned>(value); }},
    {"processes", "most", "--processes",
     "limit on the processes in which steps run, one for each session that has one under way; an idle one ends where "
     "another session needs it, and its values stay; 0: as many as a quarter of the memory holds, at 16 MiB each",
     0, 65'536, true, [](const ServeSettings &s) { return static_cast<double>(s.limits.processes); },
     [](ServeSettings &s, double value) { s.limits.processes = whole<size_t>(value); }},
    {"processes", "bytes", "--process-bytes",
     "limit on the memory of one of these processes, without the tables; 0: three quarters of the machine's", 0,
     kBytesMost, true, [](const ServeSettings &s) { return static_cast<double>(s.limits.processBytes); },
     [](ServeSettings &s, double value) { s.limits.processBytes = whole<size_t>(value); }},
    {"time", "headroom", "--headroom",
     "factor by which the runs of a step on private rows may take longer than in rehearsals; the reply leaves when "
     "that "
     "time is over, so that it tells nothing of rows; 0: replies leave at once, and their time may tell of rows",
     0, 1'000, false, [](const ServeSettings &s) { return s.limits.timeHeadroom; },
     [](ServeSettings &s, double value) { s.limits.timeHeadroom = value; }},
    {"time", "overrun_bits", "--overrun-bits",
     "bits that a client may learn of a private table by steps that take longer than that or are stopped, before the "
     "table is closed to it (sojourn-owner forgive-overruns opens it); 0: no limit",
     0, 1e9, true, [](const ServeSettings &s) { return static_cast<double>(s.limits.overrunBits); },
     [](ServeSettings &s, double value) { s.limits.overrunBits = whole<uint64_t>(value); }},
    {"requests", "at_once", "--workers",
     "requests of sessions that run or wait at once, each on a thread; one client has half of them, clients without an "
     "identity an eighth together",
     1, 4096, true, [](const ServeSettings &s) { return static_cast<double>(s.limits.requests); },
     [](ServeSettings &s, double value) { s.limits.requests = whole<size_t>(value); }},
    {"requests", "per_session", "", "requests of one session that run or wait at once", 1, 64, true,
     [](const ServeSettings &s) { return static_cast<double>(s.limits.requestsPerSession); },
     [](ServeSettings &s, double value) { s.limits.requestsPerSession = whole<size_t>(value); }},
    {"sessions", "per_client", "", "sessions of one client", 1, 65536, true,
     [](const ServeSettings &s) { return static_cast<double>(s.limits.sessions); },
     [](ServeSettings &s, double value) { s.limits.sessions = whole<size_t>(value); }},
    {"sessions", "anonymous", "", "sessions of all clients without an identity together", 1, 65536, true,
     [](const ServeSettings &s) { return static_cast<double>(s.limits.anonymousSessions); },
     [](ServeSettings &s, double value) { s.limits.anonymousSessions = whole<size_t>(value); }},
    {"sessions", "anonymous_per_minute", "",
     "sessions that all clients without an identity together may open in a minute", 1, 1'000'000, true,
     [](const ServeSettings &s) { return static_cast<double>(s.limits.anonymousSessionsPerMinute); },
     [](ServeSettings &s, double value) { s.limits.anonymousSessionsPerMinute = whole<size_t>(value); }},
    {"sessions", "reconnect_seconds", "--reconnect-seconds",
     "time that a client's values outlive its connection, in which it may come back", 0, kWeek, false,
     [](const ServeSettings &s) { return static_cast<double>(s.limits.goneMs) / 1000; },
     [](ServeSettings &s, double value) { s.limits.goneMs = whole<int64_t>(1000 * value); }},
    {"sessions", "idle_seconds", "", "time after which a client that is connected and silent loses its session", 1,
     30 * 24 * 3600, false, [](const ServeSettings &s) { return static_cast<double>(s.limits.leaseMs) / 1000; },
     [](ServeSettings &s, double value) { s.limits.leaseMs = whole<int64_t>(1000 * value); }},
    {"values", "bytes", "--max-values",
     "limit on the values that all clients keep, in bytes, of which clients without an identity have an eighth "
     "together and any other client half; 0: three eighths of the memory that this process may use",
     0, kBytesMost, true, [](const ServeSettings &s) { return static_cast<double>(s.limits.handleBytes); },
     [](ServeSettings &s, double value) { s.limits.handleBytes = whole<size_t>(value); }},
    {"values", "per_session", "", "values of one session", 1, 1 << 24, true,
     [](const ServeSettings &s) { return static_cast<double>(s.limits.handlesPerSession); },
     [](ServeSettings &s, double value) { s.limits.handlesPerSession = whole<size_t>(value); }},
    {"values", "named_per_client", "", "values of one client that have names", 0, 65'536, true,
     [](const ServeSettings &s) { return static_cast<double>(s.limits.namedValues); },
     [](ServeSettings &s, double value) { s.limits.namedValues = whole<size_t>(value); }},
    {"values", "lease_seconds", "--value-lease-seconds",
     "time that a value keeps its name, and its memory, after its last use", 1, kYears, false,
     [](const ServeSettings &s) { return static_cast<double>(s.limits.nameLeaseMs) / 1000; },
     [](ServeSettings &s, double value) { s.limits.nameLeaseMs = whole<int64_t>(1000 * value); }},
    {"programs", "most", "--max-programs",
     "limit on the programs of one's own process in the log; any other client has a tenth, beyond which its oldest "
     "programs go to archives in the store, and clients without an identity have a twentieth together, beyond which "
     "their oldest programs go",
     20, 100'000'000, true, [](const ServeSettings &s) { return static_cast<double>(s.limits.loggedPrograms); },
     [](ServeSettings &s, double value) { s.limits.loggedPrograms = whole<size_t>(value); }},
    {"plans", "bytes", "", "memory for plans of programs, of which those used last are kept", 1, kBytesMost, true,
     [](const ServeSettings &s) { return static_cast<double>(s.limits.cachedPlanBytes); },
     [](ServeSettings &s, double value) { s.limits.cachedPlanBytes = whole<size_t>(value); }},
    {"", "drain_seconds", "--drain-seconds",
     "on SIGTERM or SIGINT, time that steps under way have for their end; a second signal ends them", 0, kWeek, false,
     [](const ServeSettings &s) { return s.drainSeconds; },
     [](ServeSettings &s, double value) { s.drainSeconds = value; }},
    {"groups", "member_seconds", "", "how long a step waits for the other owners of its group to begin it", 0.1, kWeek,
     false, [](const ServeSettings &s) { return static_cast<double>(s.limits.memberWaitMs) / 1000; },
     [](ServeSettings &s, double value) { s.limits.memberWaitMs = whole<int64_t>(1000 * value); }},
    {"groups", "exchanged_bytes", "",
     "limit on what one step sends other owners and gets from them, in bytes; larger programs are refused unbuilt", 1,
     kBytesMost, true, [](const ServeSettings &s) { return static_cast<double>(s.limits.price.exchangedBytes); },
     [](ServeSettings &s, double value) { s.limits.price.exchangedBytes = whole<uint64_t>(value); }},
    {"groups", "least_rows", "", "rows of this owner in a sum that others see of a table shared as sums, at least", 1,
     1 << 30, true, [](const ServeSettings &s) { return static_cast<double>(s.limits.sharedRowsLeast); },
     [](ServeSettings &s, double value) { s.limits.sharedRowsLeast = whole<uint64_t>(value); }},
    {"groups", "waiting_bytes", "", "bytes of other owners' values that wait for steps of this one, in all", 1,
     kBytesMost, true, [](const ServeSettings &s) { return static_cast<double>(s.limits.peerBytes); },
     [](ServeSettings &s, double value) { s.limits.peerBytes = whole<size_t>(value); }},
};

const TextSetting kTexts[] = {
    {"listen", "--listen", "ipc:///path/to.sock or tls+tcp://host:port", &ServeSettings::listen},
    {"peers", "--peers",
     "ipc:///path/to.sock or tls+tcp://host:port where other owners connect ('sojourn-owner peer'), for programs over "
     "the tables of several owners; default: none do",
     &ServeSettings::peers},
    {"metrics", "--metrics", "host:port on which to answer HTTP requests for /metrics (Prometheus) and /health",
     &ServeSettings::metrics},
    {"log", "--log", "form of the log: text or json, one line each", &ServeSettings::log},
};

const FlagSetting kFlags[] = {
    {"plain_tcp", "--plain-tcp", "listen on tcp://127.0.0.1:port, too: without encryption, for tests on one machine",
     &ServeSettings::plainTcp},
};

std::string nameOf(const NumberSetting &setting) {
  return (*setting.table != '\0' ? std::string(setting.table) + "." : "") + setting.key;
}

std::string textOf(const toml::node &node) {
  std::ostringstream text;
  node.visit([&](const auto &value) { text << value; });
  return printableName(text.str());
}

class Reader {
public:
  Reader(const std::string &path, ServeSettings &settings) : path(path), settings(settings) {}

  llvm::Error read(const toml::table &all) {
    for (auto &&[key, node] : all) {
      const std::string name(key.str());
      const bool isTable = std::any_of(std::begin(kNumbers), std::end(kNumbers),
                                       [&](const NumberSetting &setting) { return name == setting.table; });
      if (!isTable) {
        if (llvm::Error error = take("", name, node)) {
          return error;
        }
        continue;
      }
      const toml::table *inner = node.as_table();
      if (inner == nullptr) {
        return wrong(node, "'" + name + "' is " + textOf(node) + ", expected a table: [" + name + "]");
      }
      for (auto &&[innerKey, innerNode] : *inner) {
        if (llvm::Error error = take(name, std::string(innerKey.str()), innerNode)) {
          return error;
        }
      }
    }
    return llvm::Error::success();
  }

private:
  llvm::Error wrong(const toml::node &node, const Twine &text) const {
    return failure("'" + path + "', line " + Twine(node.source().begin.line) + ": " + text);
  }

  llvm::Error take(const std::string &table, const std::string &key, const toml::node &node) {
    for (const NumberSetting &setting : kNumbers) {
      if (table == setting.table && key == setting.key) {
        return takeNumber(setting, node);
      }
    }
    for (const TextSetting &setting : kTexts) {
      if (table.empty() && key == setting.key) {
        if (!node.is_string()) {
          return wrong(node, "'" + key + "' is " + textOf(node) + ", expected a text: " + setting.help);
        }
        settings.*setting.text = node.value<std::string>().value_or("");
        return llvm::Error::success();
      }
    }
    for (const FlagSetting &setting : kFlags) {
      if (table.empty() && key == setting.key) {
        if (!node.is_boolean()) {
          return wrong(node, "'" + key + "' is " + textOf(node) + ", expected true or false: " + setting.help);
        }
        settings.*setting.flag = node.value<bool>().value_or(false);
        return llvm::Error::success();
      }
    }
    std::string known;
    for (const NumberSetting &setting : kNumbers) {
      known += table == setting.table ? (known.empty() ? "" : ", ") + std::string(setting.key) : "";
    }
    for (const TextSetting &setting : kTexts) {
      known += table.empty() ? ", " + std::string(setting.key) : "";
    }
    for (const FlagSetting &setting : kFlags) {
      known += table.empty() ? ", " + std::string(setting.key) : "";
    }
    return wrong(node, "unknown key '" + printableName(key) + "'" + (table.empty() ? "" : " in [" + table + "]") +
                           ", expected one of " + known + (table.empty() ? ", or a table" : ""));
  }

  llvm::Error takeNumber(const NumberSetting &setting, const toml::node &node) {
    std::optional<double> value;
    if (node.is_integer() || node.is_floating_point()) {
      value = node.value<double>();
    }
    const bool fits = value && *value >= setting.least && *value <= setting.most &&
                      (!setting.isWhole || *value == std::floor(*value));
    if (!fits) {
      return wrong(node, "'" + nameOf(setting) + "' is " + textOf(node) + ", expected a " +
                             (setting.isWhole ? "whole number" : "number") + " from " + numberText(setting.least) +
                             " to " + numberText(setting.most) + ": " + setting.help);
    }
    setting.set(settings, *value);
    return llvm::Error::success();
  }

  const std::string &path;
  ServeSettings &settings;
};

} // namespace

ServeSettings::ServeSettings() {
  limits.stepMs = whole<int64_t>(1000 * kStepSeconds);
  limits.price.callSeconds = 1;
  limits.timeHeadroom = 2;
  limits.overrunBits = 256;
  limits.cachedPlanBytes = std::min(limits.cachedPlanBytes, machineBytes() / 16);
  limits.rememberedBytes = std::min(limits.rememberedBytes, machineBytes() / 64);
}

void ServeSettings::settle(unsigned machineThreads) {
  // With plans and replies a little more than four fifths of the memory.
  const size_t part = machineBytes() / 8 * 3;
  limits.handleBytes = limits.handleBytes ? limits.handleBytes : part;
  limits.runningArenaBytes = limits.runningArenaBytes ? limits.runningArenaBytes : part;
  limits.threads = limits.threads ? limits.threads : std::max(1u, machineThreads);
  const double threads = limits.threads;
  const double seconds = static_cast<double>(limits.stepMs) / 1000;
  const double most = seconds > 0 ? std::min(kOperationsMost, std::max(1.0, kOperationsPerSecond * seconds * threads))
                                  : static_cast<double>(PriceLimits().operations);
  limits.price.operations = whole<uint64_t>(operations.value_or(most));
  isSettled = true;
}

llvm::ArrayRef<NumberSetting> numberSettings() { return kNumbers; }
llvm::ArrayRef<TextSetting> textSettings() { return kTexts; }
llvm::ArrayRef<FlagSetting> flagSettings() { return kFlags; }

llvm::Error readSettings(const std::string &path, ServeSettings &settings) {
  toml::parse_result parsed = toml::parse_file(path);
  if (!parsed) {
    const toml::parse_error &error = parsed.error();
    return failure("cannot read '" + path + "', line " + Twine(error.source().begin.line) + ": " +
                   printableName(std::string(error.description())));
  }
  return Reader(path, settings).read(parsed.table());
}

llvm::Error checkSettings(const ServeSettings &settings) {
  if (settings.listen.empty()) {
    return failure("no address to listen on; expected --listen ipc:///path/to.sock or tls+tcp://host:port, or a line "
                   "listen = \"...\" in the file of --config");
  }
  if (std::string problem = sojourn::wire::addressProblem(printableName(settings.listen), settings.plainTcp);
      !problem.empty()) {
    return failure(problem);
  }
  if (std::string problem = settings.peers.empty()
                                ? std::string()
                                : sojourn::wire::addressProblem(printableName(settings.peers), settings.plainTcp);
      !problem.empty()) {
    return failure(problem);
  }
  if (settings.log != "text" && settings.log != "json") {
    return failure("the form of the log is '" + printableName(settings.log) + "', expected text or json");
  }
  const auto [host, port] = llvm::StringRef(settings.metrics).rsplit(':');
  unsigned number = 0;
  if (!settings.metrics.empty() && (host.empty() || port.getAsInteger(10, number) || number == 0 || number > 65535)) {
    return failure("the address of the metrics is '" + printableName(settings.metrics) +
                   "', expected host:port, such as 127.0.0.1:9464");
  }
  if (!settings.metrics.empty() && !sojourn::wire::isLoopback(settings.metrics)) {
    return failure("the address of the metrics is '" + printableName(settings.metrics) +
                   "', expected one of this machine, such as 127.0.0.1:9464: they are served without encryption and "
                   "without limits on who asks; put a proxy in front of it for others");
  }
  return llvm::Error::success();
}

} // namespace sojourn::owner
