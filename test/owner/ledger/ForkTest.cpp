// SPDX-License-Identifier: Apache-2.0
// A fork of a process with an open ledger: it has a copy of the books and of what runs have paid ahead, and may use
// neither.
#include "test/owner/ledger/Support.h"

#include <atomic>
#include <functional>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace sojourn::owner::ledger::test {

namespace {

struct ForkedLedger : AdasLedger {
  std::shared_ptr<sojourn::owner::ledger::Run> openRun() {
    RunRequest request;
    request.client = "ada";
    request.items = {{"people", "v1", "", chargeOf(10)}};
    request.blockSteps = 64;
    auto run = ledger->openRun(request);
    EXPECT_TRUE(run);
    return run ? *run : nullptr;
  }

  /// Whether a child in which `check` was run says that it holds.
  static bool inFork(const std::function<bool()> &check) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(60); // one that waits for a lock waits for ever
      _exit(check() ? 0 : 1);
    }
    int status = 0;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

  static bool names(const Problem &problem) {
    const std::string expected = "this ledger was opened by process " + std::to_string(getppid()) +
                                 ", and this is process " + std::to_string(getpid()) + ", a fork of it";
    return problem.code == Code::badRequest && problem.text.find(expected) != std::string::npos;
  }

  uint64_t entries() {
    auto report = ledger->verify();
    EXPECT_TRUE(report);
    return report ? report->entries : 0;
  }
};

} // namespace

TEST_F(ForkedLedger, StepsOfABlockArePaidForOnce) {
  auto run = openRun();
  ASSERT_TRUE(run->takeStep());
  const uint64_t before = entries();
  EXPECT_TRUE(inFork([&] {
    auto taken = run->takeStep(); // 63 are left of the block
    return !taken && names(taken.problem());
  }));
  EXPECT_TRUE(inFork([&] {
    Status closed = run->close();
    return closed && names(*closed);
  }));
  EXPECT_EQ(entries(), before);
  for (uint64_t step = 2; step <= 65; ++step) {
    auto taken = run->takeStep();
    ASSERT_TRUE(taken);
    EXPECT_EQ(*taken, step);
  }
  EXPECT_EQ(textOf(run->close()), "");
}

TEST_F(ForkedLedger, EverythingElseIsRefusedByName) {
  ReserveAnswer answer = ledger->reserve(requestOf("k", 10));
  ASSERT_TRUE(std::holds_alternative<Ticket>(answer));
  const Ticket ticket = std::get<Ticket>(answer);
  const uint64_t before = entries();
  const std::vector<std::pair<const char *, std::function<bool()>>> calls = {
      {"reserve",
       [&] {
         ReserveAnswer other = ledger->reserve(requestOf("l", 10));
         return std::holds_alternative<Problem>(other) && names(std::get<Problem>(other));
       }},
      {"start",
       [&] {
         Status status = ledger->start(ticket);
         return status && names(*status);
       }},
      {"seal", [&] { return !ledger->seal(ticket, "bytes"); }},
      {"deliver",
       [&] {
         Status status = ledger->deliver(ticket);
         return status && names(*status);
       }},
      {"grant",
       [&] {
         Status status = ledger->setGrant("ada", "people", {9, 1e-5});
         return status && names(*status);
       }},
      {"run",
       [&] {
         return !ledger->openRun({"ada", {}, "", Relation::nullOne, {}, {}, 1});
       }},
      {"overruns",
       [&] {
         Status status = ledger->addOverruns("ada", "people", 1);
         return status && names(*status) && !ledger->overruns("ada", "people") && !ledger->overrunsLines();
       }},
      {"accounts", [&] { return !ledger->accounts(); }},
      {"populations", [&] { return !ledger->populations(); }},
      {"clients", [&] { return !ledger->clients(); }},
      {"entries", [&] { return !ledger->entries(10); }},
      {"verify", [&] { return !ledger->verify(); }},
  };
  for (const auto &[what, call] : calls) {
    EXPECT_TRUE(inFork(call)) << what;
  }
  EXPECT_EQ(entries(), before);
  EXPECT_EQ(textOf(ledger->start(ticket)), "");
}

TEST_F(ForkedLedger, ItsCopyGoesWithoutATrace) {
  auto run = openRun();
  ASSERT_TRUE(run->takeStep());
  const uint64_t before = entries();
  EXPECT_TRUE(inFork([&] {
    run.reset();
    ledger.reset();
    return true;
  }));
  EXPECT_EQ(entries(), before);
  ASSERT_TRUE(run->takeStep());
  // The parent's run is alive to whoever opens the file, also after a fork of it has ended.
  auto other = world.open();
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(entries(), before);
  EXPECT_EQ(textOf(run->close()), "");
}

TEST_F(ForkedLedger, AChildOpensTheFileItself) {
  auto run = openRun();
  ASSERT_TRUE(run->takeStep());
  EXPECT_TRUE(inFork([&] {
    auto own = world.open();
    if (!own) {
      return false;
    }
    ReserveAnswer answer = own->reserve(requestOf("of the child", 7));
    return std::holds_alternative<Ticket>(answer) && textOf(own->start(std::get<Ticket>(answer))).empty();
  }));
  EXPECT_EQ(spentOn(*ledger), uint64_t{64} * chargeOf(10) + chargeOf(7));
  EXPECT_EQ(textOf(run->close()), "");
}

TEST_F(ForkedLedger, ALockOfAnotherThreadIsNotWaitedFor) {
  std::atomic<bool> ends = false;
  std::thread busy([&] {
    while (!ends) {
      EXPECT_TRUE(ledger->accounts());
    }
  });
  for (int k = 0; k < 20; ++k) {
    EXPECT_TRUE(inFork([&] {
      auto lines = ledger->accounts();
      return !lines && names(lines.problem());
    }));
  }
  ends = true;
  busy.join();
}

} // namespace sojourn::owner::ledger::test
