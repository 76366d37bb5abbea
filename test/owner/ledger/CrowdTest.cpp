// SPDX-License-Identifier: Apache-2.0
// Sixty-four clients at once, in threads of one server and in several: no budget is ever exceeded,
// and none is left that a client could have had.
#include "test/owner/ledger/Support.h"

#include <atomic>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace sojourn::owner::ledger::test {

namespace {

constexpr int kClients = 64;
constexpr uint64_t kUnits = 1000;
/// The cap admits 100 releases, each client's grant 3 of them: 192 are wanted at least.
constexpr int kAdmitted = 100, kEach = 3;

std::string clientName(int index) { return "client" + std::to_string(index); }

void admitAll(Ledger &ledger) {
  EXPECT_EQ(textOf(ledger.linkDataset("people", "", Relation::nullOne)), "");
  EXPECT_EQ(textOf(ledger.setCap("people", {kAdmitted * kUnits / 1e6 + 1e-9, 0.5})), "");
  for (int index = 0; index < kClients; ++index) {
    EXPECT_EQ(textOf(ledger.addClient(clientName(index), "")), "");
    EXPECT_EQ(textOf(ledger.setGrant(clientName(index), "people", {kEach * kUnits / 1e6 + 1e-9, 0.5})), "");
  }
}

/// Publishes until refused twice; returns how often it was admitted, or -1 for another refusal.
int demand(Ledger &ledger, int index) {
  int admitted = 0, refused = 0;
  for (int attempt = 0; refused < 2; ++attempt) {
    ReserveRequest request = requestOf("k" + std::to_string(attempt), kUnits, clientName(index));
    ReserveAnswer answer = ledger.reserve(request);
    if (auto *problem = std::get_if<Problem>(&answer)) {
      if (problem->code != Code::budgetExhausted) {
        return -1;
      }
      ++refused;
      continue;
    }
    Ticket ticket = std::get<Ticket>(answer);
    if (attempt == 1 && index % 8 == 0) {
      refused += ledger.cancel(ticket, "not wanted").has_value() ? 9 : 0;
      continue;
    }
    if (ledger.start(ticket) || !ledger.seal(ticket, request.key) || ledger.deliver(ticket)) {
      return -1;
    }
    ++admitted;
  }
  return admitted;
}

void expectSpent(World &world, int admitted) {
  auto ledger = world.open();
  ASSERT_NE(ledger, nullptr);
  auto report = ledger->verify();
  ASSERT_TRUE(report) << report.problem().text;
  EXPECT_EQ(spentOn(*ledger), static_cast<uint64_t>(admitted) * chargeOf(kUnits));
  auto accounts = ledger->accounts();
  ASSERT_TRUE(accounts);
  privacy::Charge sum;
  for (const AccountLine &line : *accounts) {
    EXPECT_TRUE(plainFilter(line.grant, line.spent)) << line.client;
    sum = sum + line.spent;
  }
  EXPECT_EQ(sum, spentOn(*ledger));
}

} // namespace

TEST(Crowds, OfThreadsOnOneLedger) {
  World world;
  std::atomic<int> admitted = 0;
  std::atomic<bool> failed = false;
  {
    auto ledger = world.open();
    admitAll(*ledger);
    std::vector<std::thread> threads;
    for (int index = 0; index < kClients; ++index) {
      threads.emplace_back([&, index] {
        int count = demand(*ledger, index);
        failed = failed || count < 0;
        admitted += count;
      });
    }
    for (std::thread &thread : threads) {
      thread.join();
    }
  }
  EXPECT_FALSE(failed);
  EXPECT_LE(admitted, kAdmitted);
  // A cancelled reservation may have turned one away that would have fitted later.
  EXPECT_GE(admitted, kAdmitted - kClients / 8);
  expectSpent(world, admitted);
}

TEST(Crowds, OfProcesses) {
  World world;
  { admitAll(*world.open()); }
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  std::vector<pid_t> children;
  for (int process = 0; process < 8; ++process) {
    children.push_back(fork());
    if (children.back() == 0) {
      auto ledger = world.open();
      for (int index = process * 8; ledger && index < process * 8 + 8; ++index) {
        auto count = static_cast<signed char>(demand(*ledger, index));
        if (write(ends[1], &count, 1) != 1) {
          _exit(1);
        }
      }
      ledger.reset();
      _exit(0);
    }
  }
  close(ends[1]);
  int admitted = 0, heard = 0;
  for (signed char count; read(ends[0], &count, 1) == 1; ++heard) {
    EXPECT_GE(count, 0);
    admitted += count;
  }
  close(ends[0]);
  for (pid_t child : children) {
    int state = 0;
    waitpid(child, &state, 0);
    EXPECT_EQ(state, 0);
  }
  EXPECT_EQ(heard, kClients);
  EXPECT_LE(admitted, kAdmitted);
  EXPECT_GE(admitted, kAdmitted - kClients / 8);
  expectSpent(world, admitted);
}

TEST(Crowds, OfRunsShareOneBudget) {
  World world;
  auto ledger = world.open();
  admitAll(*ledger);
  std::atomic<uint64_t> steps = 0;
  std::vector<std::thread> threads;
  for (int index = 0; index < 16; ++index) {
    threads.emplace_back([&, index] {
      RunRequest request;
      request.client = clientName(index);
      request.items = {{"people", "v1", "", chargeOf(kUnits / 100)}};
      auto run = ledger->openRun(request);
      while (run && (*run)->takeStep()) {
        ++steps;
      }
      EXPECT_TRUE(run && !(*run)->close());
    });
  }
  for (std::thread &thread : threads) {
    thread.join();
  }
  EXPECT_EQ(steps, 16u * kEach * 100);
  EXPECT_EQ(spentOn(*ledger), steps * chargeOf(kUnits / 100));
  ASSERT_TRUE(ledger->verify());
}

/// The same request many times at once is one release.
TEST(Crowds, OfRetries) {
  World world;
  auto ledger = world.open();
  admitAda(*ledger, 1);
  std::atomic<int> tickets = 0, others = 0;
  std::vector<std::thread> threads;
  for (int index = 0; index < kClients; ++index) {
    threads.emplace_back([&] {
      ReserveAnswer answer = ledger->reserve(requestOf("k", 1000));
      if (auto *ticket = std::get_if<Ticket>(&answer)) {
        ++tickets;
        EXPECT_FALSE(ledger->start(*ticket));
        EXPECT_TRUE(ledger->seal(*ticket, "the bytes"));
      } else if (auto *sealed = std::get_if<SealedBytes>(&answer)) {
        others += sealed->bytes == "the bytes";
      } else {
        others += std::get<Problem>(answer).code == Code::inFlight;
      }
    });
  }
  for (std::thread &thread : threads) {
    thread.join();
  }
  EXPECT_EQ(tickets, 1);
  EXPECT_EQ(others, kClients - 1);
  EXPECT_EQ(spentOn(*ledger), chargeOf(1000));
}

} // namespace sojourn::owner::ledger::test
