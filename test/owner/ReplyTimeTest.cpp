// SPDX-License-Identifier: Apache-2.0
// Goal: the time of a reply to a step on private rows tells nothing of them, and what it tells is counted. Method: a
// clock that stands still but for what the test says a run takes, and for the owner's waits.
#include "owner/Accounts.h"
#include "owner/ReplyTime.h"
#include "owner/RunningSteps.h"
#include "test/owner/ProxyPort.h"
#include "test/owner/Support.h"
#include "test/runtime/privacy/Statistics.h"

#include "llvm/ADT/ScopeExit.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <csignal>
#include <set>
#include <sys/resource.h>
#include <thread>

using namespace sojourn;
using namespace sojourn::owner;
using namespace sojourn::owner::test;
namespace calls = sojourn_worker;

namespace {

constexpr int64_t kMs = 1'000'000;

/// A state, kept once more.
runtime::EncodedProgram copyProgram() {
  return encode(moduleText("(%v: tensor<4x1xf32> {sojourn.kind = \"state\"}) -> "
                           "(tensor<4x1xf32> {sojourn.result = \"keep\"})",
                           "    %w = sojourn.add %v, %v : tensor<4x1xf32>, tensor<4x1xf32>\n"
                           "    return %w : tensor<4x1xf32>"));
}

struct ReplyTimes : testing::Test {
  World world;
  Limits limits;
  std::shared_ptr<ProxyPort::Hooks> hooks = std::make_shared<ProxyPort::Hooks>();
  std::unique_ptr<Owner> owner;
  std::optional<Client> client;
  std::atomic<int64_t> now = 0;
  int64_t rehearsal = kMs, run = kMs; ///< what they take
  size_t rehearsals = 0, runs = 0, waits = 0;
  std::function<void()> whileRunning, whileWaiting;
  signing::SigningKey key = signing::SigningKey::generate();

  void SetUp() override {
    limits.timeHeadroom = 2;
    limits.overrunBits = 4;
    limits.threads = 1;
    start();
  }
  void start() {
    Environment environment = world.environment();
    environment.worker = ProxyPort::factory(hooks);
    environment.steadyNs = [this] { return now.load(); };
    environment.waitUntil = [this](int64_t until, const std::atomic<bool> &stop) {
      ++waits;
      if (whileWaiting) {
        std::exchange(whileWaiting, nullptr)();
      }
      now = stop ? now.load() : std::max(now.load(), until);
    };
    hooks->call = [this](Parcel &parcel) {
      auto kept = aligned(parcel.bytes);
      if (const auto *call = flatbuffers::GetRoot<calls::Call>(kept->data())->body_as_Run()) {
        const size_t parts = call->parts()->size();
        (call->rehearses() ? rehearsals : runs) += parts;
        now += (call->rehearses() ? rehearsal : run) * static_cast<int64_t>(parts);
        if (!call->rehearses() && whileRunning) {
          whileRunning();
        }
      }
    };
    owner = std::make_unique<Owner>(environment, limits);
    for (auto [name, policy] : {std::pair("open", Policy::open), std::pair("private", Policy::privateOnly)}) {
      registerNumbers(*owner, name, policy);
    }
    ASSERT_EQ(errorText(owner->accounts().addClient("ada", key.publicKey())), "");
    ASSERT_EQ(errorText(owner->changeAccess("open", {"ada"}, {})), "");
    ASSERT_EQ(errorText(owner->setCap("private", 1e6, 1e-5)), "");
    ASSERT_EQ(errorText(owner->grant("ada", "private", 1e6, 1e-5)), "");
    client.emplace(identified(*owner, key));
  }

  Reply sum(const char *table = "private") {
    StepRequest step;
    step.tables = {table};
    if (std::string(table) == "private") {
      step.spending.releases = {{0, 0.5, 0, false}};
    }
    return client->run(sumProgram(), step);
  }
  Reply read(uint64_t id) {
    StepRequest step;
    step.tables = {"private"};
    step.results = {id};
    return client->run(readProgram(), step);
  }
  /// Nanoseconds of the test's clock that a request takes, rehearsals apart.
  template <class F>
  int64_t timeOf(F request) {
    const size_t before = rehearsals;
    const int64_t begin = now;
    request();
    return now - begin - static_cast<int64_t>(rehearsals - before) * rehearsal;
  }
  double left() {
    auto found = owner->accounts().budget("ada", "private");
    EXPECT_TRUE(bool(found));
    return found ? found->epsilonLeft : 0;
  }
  uint64_t overruns() {
    auto found = owner->accounts().ledger().overruns("ada", "private");
    EXPECT_TRUE(bool(found));
    return found ? *found : 0;
  }
};

} // namespace

/// A quantum is what was asked for, rounded up by at most a 32nd part, to a multiple of a power of two.
TEST(Quanta, AreRoundedUpToPowersOfTwo) {
  std::mt19937_64 random(privacy::test::freshSeed());
  for (int round = 0; round < 1'000; ++round) {
    const auto step = static_cast<int64_t>(std::exp2(std::uniform_real_distribution(0.0, 40.0)(random)));
    const double headroom = std::uniform_real_distribution(1.0, 10.0)(random);
    const size_t steps = 1 + random() % 4'096;
    const Quantum quantum = Quantum::of(headroom, step, steps, /*mayBeLate=*/false);
    EXPECT_TRUE(std::has_single_bit(static_cast<uint64_t>(quantum.unit)));
    EXPECT_EQ(quantum.allowed % quantum.unit, 0);
    const double count = static_cast<double>(steps);
    const double least = static_cast<double>(step) * (count + (headroom - 1) * std::pow(count, 0.75));
    EXPECT_GE(static_cast<double>(quantum.allowed) * 1.000001, least);
    EXPECT_LE(static_cast<double>(quantum.allowed), (least + 2'000'000) * (1 + 1.0 / 32) + 1);
    EXPECT_LE(Quantum::of(headroom, step, steps, /*mayBeLate=*/true).allowed, quantum.allowed);
  }
}

/// A late message of several steps stands, though they publish: what was paid for them is not lost. It is late by whole
/// quanta, and counted. A single step is kept back.
TEST(LateMessages, StandIfTheyHaveSeveralSteps) {
  std::mt19937_64 random(privacy::test::freshSeed());
  Environment environment = Environment::system("");
  int64_t now = 0;
  environment.steadyNs = [&] { return now; };
  environment.waitUntil = [&](int64_t until, const std::atomic<bool> &) { now = std::max(now, until); };
  for (const size_t steps : {1, 2, 8}) {
    for (int round = 0; round < 20; ++round) {
      const Quantum quantum = Quantum::of(2, kMs, steps, /*mayBeLate=*/steps > 1);
      const int64_t took = quantum.allowed + 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(20 * kMs));
      ReplyTime time(environment, 2);
      time.protect();
      time.begin(kMs, steps, /*publishes=*/true);
      EXPECT_EQ(time.steps(), steps);
      const int64_t begin = now;
      now += took;
      time.ran(steps, took, /*failed=*/false);
      EXPECT_EQ(time.isOver(), steps == 1);
      time.hold(RunningStep());
      const int64_t waited = now - begin;
      const int64_t unit = steps == 1 ? quantum.allowed : 8 * quantum.unit;
      EXPECT_GE(waited, took);
      EXPECT_LE(waited, steps == 1 ? 2 * took : took + unit);
      EXPECT_EQ((waited - quantum.allowed) % unit, 0);
      EXPECT_GE(time.bits(), 1u);
      EXPECT_GE(size_t{1} << time.bits(), static_cast<size_t>(steps == 1 ? 2 : (waited - quantum.allowed) / unit + 1));
      time.end();
      EXPECT_EQ((now - begin - waited) % ReplyTime::kAlignNs, 0);
    }
  }
}

TEST_F(ReplyTimes, DoNotDependOnTheRun) {
  std::optional<int64_t> first;
  for (int64_t took : {kMs, kMs / 10, int64_t{1}, 2 * kMs, kMs * 3 / 2}) {
    run = took;
    const int64_t time = timeOf([&] { EXPECT_EQ(sum().error(), ""); });
    EXPECT_GE(time, 2 * kMs);
    EXPECT_EQ(time, first.value_or(time));
    first = time;
  }
  EXPECT_EQ(overruns(), 0u);
  EXPECT_EQ(runs, 5u);
  EXPECT_GE(rehearsals, 2u);
  EXPECT_LE(rehearsals, 6u) << "one session rehearses a step once";
}

/// So do errors of the run. They may depend on rows, so each counts for a bit, and tells the client no more than a late
/// reply does.
TEST_F(ReplyTimes, OfErrorsDoNotEither) {
  const int64_t time = timeOf([&] { ASSERT_EQ(sum().error(), ""); });
  run = 6 * kMs;
  const std::string late = sum().error();
  ASSERT_EQ(overruns(), 1u);
  run = kMs;
  ASSERT_EQ(sum().error(), ""); // rehearsed again
  const size_t before = runs;
  hooks->answer = [&](Parcel &parcel) {
    if (runs > before) {
      parcel.memory.clear();
    }
  };
  run = 10;
  std::string error;
  EXPECT_EQ(timeOf([&] { error = sum().error(); }), time);
  EXPECT_EQ(error, late);
  EXPECT_EQ(overruns(), 2u);
  EXPECT_TRUE(std::ranges::any_of(
      world.logged, [](const std::string &line) { return line.find("'ada' on private failed: ") != line.npos; }));
}

/// What others wait for is free when the time is over, not when the run ends: memory, places, handles, the ledger.
TEST_F(ReplyTimes, AStepLandsAfterItsTime) {
  ASSERT_EQ(read(1).error(), "");
  StepRequest step;
  step.states = {1};
  step.results = {2};
  step.releases = {1};
  run = kMs / 10;
  size_t values = 0;
  whileWaiting = [&] { values = owner->figures().values; };
  ASSERT_EQ(client->run(copyProgram(), step).error(), "");
  EXPECT_FALSE(whileWaiting);
  EXPECT_EQ(owner->figures().values, 1u);
  EXPECT_EQ(values, 2u) << "landed before its time";
}

TEST_F(ReplyTimes, AnOverrunIsWithheldAndCounted) {
  ASSERT_EQ(sum().error(), "");
  const double before = left();
  for (uint64_t count = 1; count <= limits.overrunBits; ++count) {
    run = 6 * kMs;
    const size_t waited = waits;
    const Reply late = sum();
    EXPECT_NE(late.error().find("took longer than this owner lets steps on private rows take"), std::string::npos)
        << late.error();
    EXPECT_GT(waits, waited);
    EXPECT_EQ(overruns(), count);
    EXPECT_LT(left(), before) << "it is paid";
  }
  run = kMs;
  EXPECT_NE(sum().error().find("is closed to client 'ada'"), std::string::npos) << sum().error();
  EXPECT_EQ(sum("open").error(), "");
  { // counts are durable, and those of the next session
    client.emplace(identified(*owner, key));
    EXPECT_NE(sum().error().find("is closed to client 'ada'"), std::string::npos);
  }
  ASSERT_EQ(errorText(owner->accounts().forgiveOverruns("ada", "private")), "");
  EXPECT_EQ(sum().error(), "");
}

/// Further times that a withheld reply takes are doublings: the later ones tell a bit each.
TEST_F(ReplyTimes, OverrunsLeaveAtDoublings) {
  limits.overrunBits = 0;
  start();
  const int64_t allowed = timeOf([&] { ASSERT_EQ(sum().error(), ""); }) - ReplyTime::kAlignNs;
  std::set<int64_t> times;
  for (int round = 0; round < 20; ++round) {
    run = allowed + 1 + round * allowed / 3;
    times.insert(timeOf([&] { EXPECT_NE(sum().error(), ""); }) / allowed);
  }
  EXPECT_EQ(times, (std::set<int64_t>{2, 4, 8}));
}

/// A step that publishes nothing is late by whole quanta, and stands.
TEST_F(ReplyTimes, AQuietStepIsLateByQuanta) {
  limits.overrunBits = 0;
  start();
  const int64_t allowed = timeOf([&] { ASSERT_EQ(read(100).error(), ""); }) - ReplyTime::kAlignNs;
  EXPECT_LT(allowed, kMs * 3 / 2);
  const int64_t quantum = std::bit_floor(static_cast<uint64_t>(allowed)) / 4;
  for (uint64_t round = 1; round < 20; ++round) {
    run = allowed + 1 + static_cast<int64_t>(round) * kMs / 7;
    const int64_t time = timeOf([&] { EXPECT_EQ(read(100 + round).error(), ""); }) - ReplyTime::kAlignNs;
    EXPECT_EQ((time - allowed) % quantum, 0);
    EXPECT_GE(time, run);
    EXPECT_LE(time, run + quantum);
  }
  EXPECT_GE(overruns(), 19u);
}

/// A step over values that were computed from private rows is one on private rows, without a table.
TEST_F(ReplyTimes, KeptRowsCountAsRows) {
  ASSERT_EQ(read(1).error(), "");
  auto copy = [&](uint64_t id) {
    StepRequest step;
    step.states = {1};
    step.results = {id};
    return client->run(copyProgram(), step).error();
  };
  const int64_t time = timeOf([&] { EXPECT_EQ(copy(2), ""); });
  run = kMs / 100;
  EXPECT_EQ(timeOf([&] { EXPECT_EQ(copy(3), ""); }), time);
}

/// A message whose first step is on no private row ends before the first that is.
TEST_F(ReplyTimes, ALaterStepOnRowsBeginsAMessage) {
  ASSERT_EQ(read(1).error(), "");
  StepRequest keep;
  keep.uploads = {f32({4, 1}, {1, 2, 3, 4})};
  keep.results = {2};
  const auto program = encode(moduleText("(%v: tensor<4x1xf32> {sojourn.kind = \"upload\"}) -> "
                                         "(tensor<4x1xf32> {sojourn.result = \"keep\"})",
                                         "    return %v : tensor<4x1xf32>"));
  ASSERT_EQ(client->run(program, keep).error(), "");
  const size_t before = runs;
  StepRequest message;
  message.states = {2};
  message.results = {3};
  message.repetitions.resize(3);
  for (size_t at = 0; at < 3; ++at) {
    message.repetitions[at].states = {at == 1 ? 1u : 2u}; // rows
    message.repetitions[at].results = {4 + at};
  }
  const size_t waited = waits;
  Reply reply = client->run(copyProgram(), message);
  ASSERT_EQ(reply.error(), "");
  EXPECT_EQ(reply.root->body_as_Done()->steps(), 2u);
  EXPECT_EQ(runs - before, 2u);
  EXPECT_EQ(waits, waited);
  StepRequest rest;
  rest.states = {1};
  rest.results = {5};
  EXPECT_EQ(client->run(copyProgram(), rest).error(), "");
  EXPECT_GT(waits, waited);
}

/// Open tables, values of the client, and the data owner's own process pay nothing.
TEST_F(ReplyTimes, OthersDoNotWait) {
  EXPECT_EQ(sum("open").error(), "");
  StepRequest step;
  step.uploads = {f32({3}, {1, 2, 3})};
  step.results = {1};
  EXPECT_EQ(client->run(keepProgram(), step).error(), "");
  EXPECT_EQ(errorText(owner->grant(kLocalClient, "private", 1e6, 1e-5)), "");
  client.emplace(*owner);
  EXPECT_EQ(sum().error(), "");
  EXPECT_EQ(waits, 0u);
  EXPECT_EQ(rehearsals, 0u);
}

/// A rehearsal reads no row, and keeps and costs nothing: what fails in it is not paid.
TEST_F(ReplyTimes, ARehearsalCostsNothing) {
  const double before = left();
  hooks->answer = [&](Parcel &parcel) {
    if (rehearsals > 0) {
      parcel.bytes.resize(3);
    }
  };
  EXPECT_NE(sum().error().find("are no answer"), std::string::npos);
  EXPECT_EQ(runs, 0u);
  EXPECT_EQ(waits, 0u);
  EXPECT_EQ(left(), before);
  hooks->answer = nullptr;
  EXPECT_EQ(sum().error(), "");
}

/// A message of several steps is one: as many steps as may take 0.25 s, in one run.
TEST_F(ReplyTimes, AMessageIsOne) {
  StepRequest message;
  message.states = {1};
  message.results = {2};
  message.repetitions.resize(999);
  for (size_t at = 0; at < message.repetitions.size(); ++at) {
    message.repetitions[at].states = {1};
    message.repetitions[at].results = {3 + at};
  }
  std::optional<std::pair<uint32_t, int64_t>> first;
  for (int64_t took : {kMs, kMs / 100, kMs / 2}) {
    run = took;
    client.emplace(identified(*owner, key));
    whileRunning = nullptr;
    ASSERT_EQ(read(1).error(), "");
    whileRunning = [&] { // neither its progress nor a stop between two steps tells how far it is
      Reply progress = client->send(watchBytes(client->session, /*stop=*/true));
      ASSERT_TRUE(progress.root->body_as_Progress());
      EXPECT_EQ(progress.root->body_as_Progress()->steps(), 0u);
    };
    uint32_t steps = 0;
    const size_t waited = waits;
    const int64_t time = timeOf([&] {
      Reply reply = client->run(copyProgram(), message);
      EXPECT_EQ(reply.error(), "");
      steps = reply.root->body_as_Done() ? reply.root->body_as_Done()->steps() : 0;
    });
    EXPECT_EQ(steps, 125u);
    EXPECT_EQ(waits - waited, 2u) << "once for the run, once to align the reply";
    EXPECT_EQ(std::pair(steps, time), first.value_or(std::pair(steps, time)));
    first = {steps, time};
  }
  EXPECT_EQ(overruns(), 0u);
}

/// What a client learns by ending a step while it runs, or while its reply waits, is counted. The reply leaves a fixed
/// time after the stop, whenever the run ended.
TEST_F(ReplyTimes, AStopIsCounted) {
  rehearsal = run = 400 * kMs;
  ASSERT_EQ(sum().error(), "");
  int64_t stopped = 0;
  const auto stop = [&] {
    stopped = now;
    client->send(watchBytes(client->session, /*stop=*/true));
    std::this_thread::sleep_for(kStopGrace + std::chrono::milliseconds(300)); // another thread ends it
  };
  uint64_t count = 0;
  for (const int64_t after : {10 * kMs, 200 * kMs, 1 * kMs}) { // that the run takes
    run = 400 * kMs;
    whileRunning = [&] {
      stop();
      now += after;
    };
    sum();
    EXPECT_EQ(now, stopped + ReplyTime::kStopNs + ReplyTime::kAlignNs);
    EXPECT_EQ(overruns(), ++count);
  }
  whileRunning = nullptr;
  whileWaiting = stop;
  EXPECT_EQ(sum().error(), "") << "it had run";
  EXPECT_EQ(now, stopped + ReplyTime::kStopNs + ReplyTime::kAlignNs);
  EXPECT_EQ(overruns(), ++count);
}

/// The owner's deadline is for the run alone, and one that ends it tells a bit.
TEST_F(ReplyTimes, ADeadlineIsCounted) {
  limits.stepMs = 1'000;
  start();
  ASSERT_EQ(sum().error(), "");
  whileWaiting = [] { std::this_thread::sleep_for(std::chrono::milliseconds(1'400)); };
  EXPECT_EQ(sum().error(), "");
  EXPECT_EQ(overruns(), 0u);
  whileRunning = [] { std::this_thread::sleep_for(std::chrono::milliseconds(1'400)); };
  sum();
  EXPECT_EQ(overruns(), 1u);
}

/// What the ledger cannot take counts all the same, and its reply is told to nobody.
TEST_F(ReplyTimes, AnOverrunThatCannotBeWrittenClosesTheTable) {
  limits.overrunBits = 1;
  start();
  const TemporaryFolder folder;
  world.store = folder.path;
  start();
  ASSERT_EQ(read(1).error(), "");
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, SIG_IGN);
  const llvm::scope_exit restore([&] { setrlimit(RLIMIT_FSIZE, &before); });
  StepRequest step;
  step.tables = {"private"};
  step.results = {2};
  const std::string request = client->request(readProgram(), step);
  run = 6 * kMs;
  whileRunning = [&] {
    const rlimit none{1, before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &none);
  };
  const std::string error = client->send(request).error();
  setrlimit(RLIMIT_FSIZE, &before);
  whileRunning = nullptr;
  EXPECT_NE(error.find("disk"), std::string::npos) << error;
  EXPECT_EQ(overruns(), 0u) << "it could be written";
  run = kMs;
  EXPECT_NE(client->send(request).error(), "") << "the same bytes";
  client.emplace(identified(*owner, key));
  EXPECT_NE(read(1).error().find("is closed to client 'ada'"), std::string::npos);
}

/// Times are off where the data owner says so.
TEST_F(ReplyTimes, MayBeOff) {
  limits.timeHeadroom = 0;
  start();
  for (int64_t took : {int64_t{10}, 10 * kMs}) {
    run = took;
    EXPECT_EQ(timeOf([&] { EXPECT_EQ(sum().error(), ""); }), took);
  }
  EXPECT_EQ(waits, 0u);
  EXPECT_EQ(rehearsals, 0u);
}
