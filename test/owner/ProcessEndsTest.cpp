// SPDX-License-Identifier: Apache-2.0
// Goal: the end of a process is the end of one call, and of nothing else. Method: processes that are killed, stopped
// and short of memory, at random moments. Seeds are printed.
#include "owner/Accounts.h"
#include "test/owner/ProcessSupport.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <thread>

using namespace sojourn;
using namespace sojourn::owner;
using namespace sojourn::owner::test;
using namespace std::chrono_literals;

namespace {

uint64_t seed() {
  const char *given = std::getenv("SOJOURN_TEST_SEED");
  const uint64_t value = given ? std::strtoull(given, nullptr, 10) : std::random_device()();
  std::printf("SOJOURN_TEST_SEED=%lu\n", static_cast<unsigned long>(value));
  return value;
}

} // namespace

TEST_F(Processes, CountInStatesOfEverySize) {
  start();
  for (size_t elements : {size_t{3}, size_t{16'383}, size_t{16'384}, size_t{100'000}, size_t{1'000'000}}) {
    Client client = counter(elements);
    const auto program = countProgram(elements);
    for (float step = 1; step <= 5; ++step) {
      EXPECT_EQ(count(client, program), std::pair(step, std::string())) << elements;
    }
  }
}

TEST_F(Processes, ACrashEndsOneStepOfOneSession) {
  start();
  const auto program = countProgram(50'000);
  Client ada = counter(50'000, "ada"), bob = counter(50'000, "bob");
  ASSERT_EQ(count(ada, program).first, 1);
  ASSERT_EQ(count(bob, program).first, 1);
  for (int round = 2; round < 6; ++round) {
    for (pid_t pid : house->pids()) {
      ASSERT_EQ(kill(pid, SIGKILL), 0);
      while (isRunning(pid)) {
        std::this_thread::sleep_for(1ms);
      }
    }
    // Between steps it is not even seen: another process adopts the values.
    EXPECT_EQ(count(ada, program), std::pair(static_cast<float>(round), std::string()));
    EXPECT_EQ(count(bob, program), std::pair(static_cast<float>(round), std::string()));
  }
}

TEST_F(Processes, AreKilledAtRandomMoments) {
  start();
  std::mt19937_64 random(seed());
  std::atomic<bool> isOver = false;
  std::atomic<int> killed = 0;
  std::thread killer([&] {
    while (!isOver) {
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 9'000));
      const auto pids = house->pids();
      if (!pids.empty() && kill(pids[random() % pids.size()], SIGKILL) == 0) {
        ++killed;
      }
    }
  });
  auto session = [&](size_t elements) {
    const auto program = countProgram(elements);
    Client client(*owner, "ada");
    float value = 0;
    int failures = 0;
    const auto until = std::chrono::steady_clock::now() + 6s;
    StepRequest first;
    first.uploads = {f32({static_cast<int64_t>(elements)}, std::vector<float>(elements, 0))};
    first.results = {1};
    while (client.run(keep(elements), first).error() != "") {
      ++failures;
    }
    while (std::chrono::steady_clock::now() < until) {
      const auto [found, error] = count(client, program);
      if (error.empty()) {
        EXPECT_EQ(found, ++value);
      } else {
        EXPECT_EQ(error.find("Execution: the process"), 0U) << error;
        ++failures;
      }
    }
    std::printf("%zu elements: %g steps, %d failures\n", elements, static_cast<double>(value), failures);
    EXPECT_GT(value, 20);
    EXPECT_GT(failures, 0);
  };
  std::thread other([&] { session(40'000); });
  session(1'000);
  other.join();
  isOver = true;
  killer.join();
  EXPECT_GT(killed, 100);
}

TEST_F(Processes, ChargesOfStepsWhoseProcessIsKilledStand) {
  start({}, /*onDisk=*/true);
  std::vector<double> rows(64, 1);
  RegisterOptions options;
  options.name = "numbers";
  options.bounds = {{"a", {0, 10}}};
  options.subject = "";
  ASSERT_EQ(errorText(owner->registerDataset({"", {{"a", runtime::Element::f64, 64, rows.data()}}}, options)), "");
  ASSERT_EQ(errorText(owner->setCap("numbers", 1e6, 1e-5)), "");
  ASSERT_EQ(errorText(owner->grant(kLocalClient, "numbers", 1e5, 1e-6)), "");
  const auto program = encode(moduleText(
      "(%t: !sojourn.table<?, \"a\" : f64> {sojourn.kind = \"table\"}) -> (tensor<f64> {sojourn.result = \"publish\"})",
      "    %i = sojourn.iota dim = 0 : tensor<64xi64>\n"
      "    %x = sojourn.read_rows %t, %i, columns = [\"a\"] : !sojourn.table<?, \"a\" : f64>, tensor<64xi64> -> "
      "tensor<64xf64>\n"
      "    %s = sojourn.reduce_sum %x, dims = [0] : tensor<64xf64>\n    return %s : tensor<f64>"));
  Client client(*owner);
  StepRequest step;
  step.tables = {"numbers"};
  step.spending.releases = {{.epsilon = 1.0, .delta = 1e-9}};
  auto left = [&] { return owner->accounts().budget(kLocalClient, "numbers")->epsilonLeft; };
  const std::string first = client.run(program, step).error();
  ASSERT_EQ(first, "");
  std::mt19937_64 random(seed());
  std::atomic<bool> isOver = false;
  std::thread killer([&] {
    while (!isOver) {
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 80'000));
      for (pid_t pid : house->pids()) {
        kill(pid, SIGKILL);
      }
    }
  });
  int done = 0, failed = 0;
  double before = left();
  for (int at = 0; at < 400; ++at) {
    const std::string error = client.run(program, step).error();
    const double after = left();
    (error.empty() ? done : failed) += 1;
    EXPECT_LE(after, before) << error;
    if (error.empty()) {
      EXPECT_LT(after, before) << "a release that nothing was charged for";
    }
    before = after;
  }
  isOver = true;
  killer.join();
  std::printf("%d steps, %d failures\n", done, failed);
  EXPECT_GT(done, 0);
  EXPECT_GT(failed, 0);
  owner.reset();
  start({}, /*onDisk=*/true);
  EXPECT_EQ(left(), before) << "after the owner has started again";
}

TEST_F(Processes, AStepThatHangsEndsInTimeAndOthersGoOn) {
  Limits limits;
  limits.stepMs = 700;
  start(limits);
  const auto program = countProgram(3);
  Client ada = counter(3, "ada");
  ASSERT_EQ(count(ada, program).first, 1);
  const std::vector<pid_t> first = house->pids();
  Client bob = counter(3, "bob");
  ASSERT_EQ(count(bob, program).first, 1);
  for (pid_t pid : first) {
    kill(pid, SIGSTOP);
  }
  const auto begin = std::chrono::steady_clock::now();
  std::atomic<bool> hangs = true;
  std::thread hanging([&] {
    const auto [value, error] = count(ada, program);
    hangs = false;
    EXPECT_EQ(error.find("Stopped: "), 0U) << error;
  });
  for (float step = 2; step < 30; ++step) {
    EXPECT_EQ(count(bob, program), std::pair(step, std::string()));
  }
  EXPECT_TRUE(hangs) << "bob waits for ada's process";
  hanging.join();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 2'200ms);
  for (pid_t pid : first) { // those that still prove are others'
    kill(pid, SIGCONT);
  }
  EXPECT_EQ(count(ada, program), std::pair(2.0F, std::string()));
}

TEST_F(Processes, AreFewerThanSessions) {
  Limits limits;
  limits.processes = 3;
  start(limits);
  const auto program = countProgram(20'000);
  std::vector<Client> clients;
  for (int at = 0; at < 8; ++at) {
    clients.push_back(counter(20'000, "client " + std::to_string(at)));
  }
  for (float step = 1; step < 4; ++step) {
    for (Client &client : clients) {
      EXPECT_EQ(count(client, program), std::pair(step, std::string()));
      EXPECT_LE(house->count(), 3U);
    }
  }
}

TEST_F(Processes, MemoryOfOneIsBounded) {
  Limits limits;
  limits.processBytes = size_t{256} << 20;
  start(limits);
  const auto program = countProgram(3);
  Client client = counter(3);
  ASSERT_EQ(count(client, program).first, 1);
  // Half a gigabyte of a state that is made, and one that is computed.
  const std::string type = "tensor<134217728xf32>";
  const auto large = encode(moduleText("() -> (" + type + " {sojourn.result = \"keep\"})",
                                       "    %i = sojourn.iota dim = 0 : " + type + "\n    return %i : " + type));
  StepRequest step;
  step.results = {2};
  const std::string error = client.run(large, step).error();
  EXPECT_EQ(error.find("Limit: "), 0U) << error;
  EXPECT_EQ(count(client, program), std::pair(2.0F, std::string()));
}

TEST_F(Processes, EndWithTheFrontAndTheSession) {
  start();
  std::vector<pid_t> all;
  {
    Client client = counter(3);
    all = house->pids();
    ASSERT_FALSE(all.empty());
    client.send(byeBytes(client.session));
    owner->handle(helloBytes("tidies"), Peer::owner);
  }
  const pid_t zygote = house->zygote();
  owner.reset();
  house.reset();
  for (int wait = 0; wait < 100 && (isRunning(zygote) || std::any_of(all.begin(), all.end(), isRunning)); ++wait) {
    std::this_thread::sleep_for(10ms);
  }
  EXPECT_FALSE(isRunning(zygote));
  EXPECT_TRUE(std::none_of(all.begin(), all.end(), isRunning));
}

TEST_F(Processes, BeginAgainWithTheProcessThatStartsThem) {
  start();
  const auto program = countProgram(30'000);
  Client client = counter(30'000);
  ASSERT_EQ(count(client, program).first, 1);
  const pid_t gone = house->zygote();
  ASSERT_EQ(kill(gone, SIGKILL), 0);
  while (isRunning(gone)) {
    std::this_thread::sleep_for(1ms);
  }
  for (pid_t pid : house->pids()) {
    for (int wait = 0; wait < 500 && isRunning(pid); ++wait) {
      std::this_thread::sleep_for(1ms);
    }
  }
  EXPECT_EQ(count(client, program), std::pair(2.0F, std::string()));
  EXPECT_NE(house->zygote(), gone);
}

TEST_F(Processes, AnUploadGoesOnInAnotherProcess) {
  start();
  const size_t elements = 60'000;
  std::vector<float> sent(elements);
  std::iota(sent.begin(), sent.end(), 0.F);
  const std::string data = bytes(sent), half = data.substr(0, data.size() / 2), rest = data.substr(data.size() / 2);
  Client client(*owner, "ada");
  ASSERT_EQ(client.send(uploadBytes(client.session, 9, data.size(), 0, half)).error(), "");
  for (pid_t pid : house->pids()) {
    kill(pid, SIGKILL);
    while (isRunning(pid)) {
      std::this_thread::sleep_for(1ms);
    }
  }
  ASSERT_EQ(client.send(uploadBytes(client.session, 9, data.size(), half.size(), rest)).error(), "");
  StepRequest step;
  step.uploads = {{static_cast<uint8_t>(runtime::Element::f32), {static_cast<int64_t>(elements)}, "", 9}};
  step.results = {1};
  ASSERT_EQ(client.run(keep(elements), step).error(), "");
  const std::string type = "tensor<" + std::to_string(elements) + "xf32>";
  StepRequest publish;
  publish.states = {1};
  Reply reply = client.run(encode(moduleText("(%w: " + type + " {sojourn.kind = \"state\"}) -> (" + type +
                                                 " {sojourn.result = \"publish\"})",
                                             "    return %w : " + type)),
                           publish);
  ASSERT_EQ(reply.error(), "");
  EXPECT_EQ(values<float>(reply.published(0)), sent);
}
