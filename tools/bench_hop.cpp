// SPDX-License-Identifier: Apache-2.0
// What the processes of steps cost: the time of a call that runs an empty program, beside an echo of as many bytes
// between two processes that block as it does; the start of a process; and private memory of 1, 16 and 64 of them.
// Usage: bench-hop [ROUNDS], of 2,000 calls each. One JSON object.
#include "dialect/CoreForm.h"
#include "owner/process/Ports.h"
#include "owner/WorkerStub.h"
#include "runtime/Program.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace sojourn;
using namespace sojourn::owner;
using Clock = std::chrono::steady_clock;

namespace {

double microseconds(Clock::duration time) { return std::chrono::duration<double, std::micro>(time).count(); }

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

[[noreturn]] void fail(llvm::Error error) {
  std::fprintf(stderr, "bench-hop: %s\n", llvm::toString(std::move(error)).c_str());
  std::exit(1);
}

/// Counts the bytes of calls and answers.
class CountingPort final : public WorkerPort {
public:
  explicit CountingPort(std::unique_ptr<WorkerPort> port) : port(std::move(port)) {}
  WorkerAnswer call(const WorkerCall &call) override {
    WorkerAnswer answer = port->call(call);
    sent = call.bytes.size();
    received = answer.bytes.size();
    return answer;
  }
  void map(uint64_t table, std::shared_ptr<const Dataset> rows) override { port->map(table, std::move(rows)); }
  void unmap(uint64_t table) override { port->unmap(table); }
  unsigned threads() const override { return port->threads(); }
  llvm::Expected<uint64_t> begin(const runtime::StopFlag *stop, const Patience &patience) override {
    return port->begin(stop, patience);
  }
  static inline size_t sent = 0, received = 0;

private:
  const std::unique_ptr<WorkerPort> port;
};

/// Another process that answers `sent` bytes with `received`.
class Echo {
public:
  Echo(size_t sent, size_t received) : out(sent, 'x'), in(received, 'x') {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) {
      std::exit(1);
    }
    own = ends[0];
    child = fork();
    if (child == 0) {
      close(ends[0]);
      while (read(ends[1], out)) {
        write(ends[1], in);
      }
      _exit(0);
    }
    close(ends[1]);
  }
  ~Echo() {
    close(own);
    waitpid(child, nullptr, 0);
  }
  pid_t pid() const { return child; }
  void call() {
    write(own, out);
    read(own, in);
  }

private:
  static bool read(int socket, std::vector<char> &into) {
    return recv(socket, into.data(), into.size(), MSG_WAITALL) == static_cast<ssize_t>(into.size());
  }
  static void write(int socket, const std::vector<char> &from) { send(socket, from.data(), from.size(), MSG_NOSIGNAL); }
  std::vector<char> out, in;
  int own = -1;
  pid_t child = 0;
};

/// Of pages that no other process has, in KiB; 0 where the system does not say.
size_t privateKilobytes(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/smaps_rollup");
  size_t all = 0;
  for (std::string word; file >> word;) {
    if (word == "Private_Clean:" || word == "Private_Dirty:") {
      size_t kilobytes = 0;
      file >> kilobytes;
      all += word == "Private_Dirty:" ? kilobytes : 0;
    }
  }
  return all;
}

runtime::EncodedProgram emptyProgram() {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  loadDialects(context);
  auto module = mlir::parseSourceString<mlir::ModuleOp>(
      "module attributes {sojourn.promotion = \"torch\", sojourn.phase = \"core\"} {\n  func.func @step() {\n    "
      "return\n  }\n}\n",
      &context, "empty.py");
  auto program = runtime::encodeProgram(*module);
  if (!program) {
    fail(program.takeError());
  }
  return std::move(*program);
}

} // namespace

int main(int argc, char **argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 9;
  constexpr int kCalls = 2'000;
  auto house = WorkerProcesses::start({.most = 256});
  if (!house) {
    fail(house.takeError());
  }
  WorkerStub programs(std::make_unique<ProgramPort>(*house));
  const runtime::EncodedProgram program = emptyProgram();
  auto described = programs.describe({program.program.data(), program.program.size()},
                                     {program.debug.data(), program.debug.size()}, {});
  if (!described) {
    fail(described.takeError());
  }
  auto run = [&](WorkerStub &worker) {
    RunPart part;
    part.code = described->code.get();
    auto ran = worker.run(part, {}, described->facts, 1, 0, {});
    if (!ran) {
      fail(ran.takeError());
    }
  };
  WorkerStub counting(std::make_unique<CountingPort>(std::make_unique<SessionPort>(*house)));
  auto port = std::make_unique<SessionPort>(*house);
  const SessionPort *sessionPort = port.get();
  WorkerStub session(std::move(port));
  for (WorkerStub *worker : {&counting, &session}) {
    if (auto begun = worker->begin(nullptr); !begun) {
      fail(begun.takeError());
    }
    run(*worker);
  }
  constexpr size_t kHead = 56; // of a frame
  auto padded = [](size_t size) { return (size + 63) / 64 * 64; };
  Echo echo(kHead + padded(CountingPort::sent), kHead + padded(CountingPort::received));
  // Where the system puts a process makes a factor of three: both are placed alike, beside the front and on its core.
  auto place = [&](pid_t process, unsigned processor) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    sched_setaffinity(process, sizeof(set), &set);
  };
  nlohmann::json told;
  place(0, 0);
  auto timed = [](std::vector<double> &into, auto &&call) {
    for (int at = 0; at < kCalls / 20; ++at) {
      auto begin = Clock::now();
      call();
      into.push_back(microseconds(Clock::now() - begin));
    }
  };
  for (unsigned processor : {1U, 0U}) {
    std::vector<double> hops, echoes;
    place(sessionPort->pid(), processor);
    place(echo.pid(), processor);
    for (int turn = 0; turn < 20 * rounds; ++turn) {
      timed(hops, [&] { run(session); });
      timed(echoes, [&] { echo.call(); });
    }
    const double hop = median(hops), other = median(echoes);
    told[processor == 0 ? "same_core" : "other_core"] = {
        {"hop_us", hop}, {"echo_us", other}, {"most_us", std::max(1.5 * other, other + 15)}};
  }
  told["sent_bytes"] = CountingPort::sent;
  told["received_bytes"] = CountingPort::received;
  std::vector<double> starts;
  std::vector<std::unique_ptr<WorkerStub>> sessions;
  for (size_t count : {size_t{1}, size_t{16}, size_t{64}}) {
    while (sessions.size() < count) {
      auto fresh = std::make_unique<WorkerStub>(std::make_unique<SessionPort>(*house));
      auto begin = Clock::now();
      if (auto begun = fresh->begin(nullptr); !begun) {
        fail(begun.takeError());
      }
      auto gone = fresh->adopt({}); // answered once it is ready
      llvm::consumeError(std::move(gone));
      starts.push_back(microseconds(Clock::now() - begin));
      sessions.push_back(std::move(fresh));
    }
    std::vector<double> kilobytes;
    for (pid_t pid : (*house)->pids()) {
      kilobytes.push_back(static_cast<double>(privateKilobytes(pid)));
    }
    told["private_kib"][std::to_string(count)] = {{"median", median(kilobytes)},
                                                  {"most", *std::max_element(kilobytes.begin(), kilobytes.end())}};
  }
  told["start_us"] = median(starts);
  std::puts(told.dump().c_str());
  return 0;
}
