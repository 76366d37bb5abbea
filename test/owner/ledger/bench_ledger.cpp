// SPDX-License-Identifier: Apache-2.0
// What the ledger costs on this machine's disk: single releases, steps of runs, and opening a long
// file. Run: bench_ledger [FOLDER]; prints medians and 99th percentiles in microseconds.
#include "owner/ledger/Ledger.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fcntl.h>
#include <unistd.h>

using namespace sojourn::owner::ledger;

static double nowUs() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Times of `body`, sorted, in microseconds.
template <class Callable>
static std::vector<double> timesOf(int rounds, Callable body) {
  std::vector<double> times;
  for (int round = 0; round < rounds; ++round) {
    double begin = nowUs();
    body(round);
    times.push_back(nowUs() - begin);
  }
  std::sort(times.begin(), times.end());
  return times;
}

static void print(const char *what, const std::vector<double> &times) {
  double sum = 0;
  for (double time : times) {
    sum += time;
  }
  std::printf("%-44s median %9.2f   mean %9.2f   p99 %9.2f us\n", what, times[times.size() / 2],
              sum / static_cast<double>(times.size()), times[times.size() * 99 / 100]);
}

/// Ends the program where the ledger refuses: a bench of refusals measures nothing.
static void must(const Status &status) {
  if (status) {
    std::fprintf(stderr, "%s\n", status->text.c_str());
    std::exit(1);
  }
}

int main(int argc, char **argv) {
  std::string folder = argc > 1 ? argv[1] : std::filesystem::temp_directory_path().string();
  folder += "/bench-ledger-XXXXXX";
  if (!mkdtemp(folder.data())) {
    std::perror("mkdtemp");
    return 1;
  }
  LedgerOptions options;
  options.path = folder + "/ledger.sqlite";
  options.headPath = folder + "/head/ledger.head";
  options.clockMs = [] { return std::time(nullptr) * int64_t{1000}; };
  options.admits = [](const Grant &, const sojourn::privacy::Charge &total) { return total.rdp[0] < (1ull << 60); };
  auto admit = [](Ledger &ledger) {
    must(ledger.addClient("ada", ""));
    must(ledger.linkDataset("people", "", Relation::nullOne));
    must(ledger.setCap("people", {1, 0.5}));
    must(ledger.setGrant("ada", "people", {1, 0.5}));
  };
  auto publish = [](Ledger &ledger, int round, const std::string &bytes) {
    ReserveRequest request;
    request.client = "ada";
    request.key = "key" + std::to_string(round);
    request.moduleHash = hashOf(request.key);
    request.items = {{"people", "v1", "", {}}};
    request.sites = {{1 << 20, 7, -12, "mean"}};
    ReserveAnswer answer = ledger.reserve(request);
    if (auto *problem = std::get_if<Problem>(&answer)) {
      must(*problem);
    }
    Ticket ticket = std::get<Ticket>(answer);
    must(ledger.start(ticket));
    auto sealed = ledger.seal(ticket, bytes);
    must(sealed ? Status() : Status(sealed.problem()));
    must(ledger.deliver(ticket));
  };
  {
    int file = open((folder + "/probe").c_str(), O_RDWR | O_CREAT, 0600);
    std::string block(4096, 'x');
    print("disk: overwrite 4 KiB and fdatasync", timesOf(500, [&](int round) {
            if (pwrite(file, block.data(), block.size(), 4096 * (round % 2)) < 0 || fdatasync(file) != 0) {
              std::perror("probe");
            }
          }));
    close(file);
  }
  for (bool inMemory : {false, true}) {
    LedgerOptions place = options;
    place.path = inMemory ? ":memory:" : options.path;
    auto ledger = Ledger::open(place);
    must(ledger ? Status() : Status(ledger.problem()));
    admit(**ledger);
    std::string small(100, 'x'), large(4 << 20, 'x');
    std::printf("%s\n", inMemory ? "in memory" : "on disk");
    print("  release, four states, 100 bytes", timesOf(1000, [&](int round) { publish(**ledger, round, small); }));
    print("  release, four states, 4 MiB", timesOf(10, [&](int round) { publish(**ledger, 100'000 + round, large); }));
    print("  retry of a sealed release", timesOf(1000, [&](int round) {
            std::string key = "key" + std::to_string(round);
            (*ledger)->retry("ada", key, hashOf(key));
          }));
    for (uint64_t block : {uint64_t{1}, kBlockSteps}) {
      RunRequest request;
      request.client = "ada";
      request.items = {{"people", "v1", "", {}}};
      request.blockSteps = block;
      auto run = (*ledger)->openRun(request);
      must(run ? Status() : Status(run.problem()));
      int steps = block == 1 ? 500 : 64'000;
      std::string what = "  step of a run, blocks of " + std::to_string(block);
      print(what.c_str(), timesOf(steps, [&](int) { (*run)->takeStep(); }));
      must((*run)->close());
    }
  }
  {
    auto ledger = Ledger::open(options);
    must(ledger ? Status() : Status(ledger.problem()));
    uint64_t entries = (*(*ledger)->entries(1))[0].entry.seq;
    ledger->reset();
    std::string what = "open with replay of " + std::to_string(entries) + " entries";
    print(what.c_str(), timesOf(5, [&](int) { Ledger::open(options); }));
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return 0;
}
