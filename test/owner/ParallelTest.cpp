// SPDX-License-Identifier: Apache-2.0
// Several sessions at once. A step is held where it plans or runs, by the phase that the owner tells;
// what goes on meanwhile shows by the order of events, never by a clock.
#include "owner/PlanCache.h"
#include "owner/Holdings.h"
#include "test/owner/Support.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <functional>
#include <future>
#include <mutex>
#include <thread>

namespace sojourn::owner::test {

namespace {

constexpr auto kPatience = std::chrono::seconds(60);

/// Holds the first step that enters `phase` until the gate opens.
class Gate {
public:
  explicit Gate(Phase phase) : phase(phase) {}
  ~Gate() { open(); }

  std::function<void(Phase)> hook() {
    return [this](Phase entered) {
      std::unique_lock lock(mutex);
      if (entered == phase && !taken) {
        taken = true;
        changed.notify_all();
        EXPECT_TRUE(changed.wait_for(lock, kPatience, [this] { return opened; })) << "nobody opened the gate";
      }
    };
  }
  void waitUntilTaken() {
    std::unique_lock lock(mutex);
    ASSERT_TRUE(changed.wait_for(lock, kPatience, [this] { return taken; })) << "no step came to the gate";
  }
  void open() {
    std::lock_guard lock(mutex);
    opened = true;
    changed.notify_all();
  }

private:
  const Phase phase;
  std::mutex mutex;
  std::condition_variable changed;
  bool taken = false, opened = false;
};

/// w <- w + 1, and the new value is published.
runtime::EncodedProgram countProgram() {
  return encode(moduleText("(%w: tensor<3xf32> {sojourn.kind = \"state\"}) -> (tensor<3xf32> {sojourn.result = "
                           "\"commit\", sojourn.target = 0 : i64}, tensor<3xf32> {sojourn.result = \"publish\"})",
                           "    %o = sojourn.constant 1.0 : f32\n"
                           "    %n = sojourn.add %w, %o : tensor<3xf32>, tensor<f32>\n"
                           "    return %n, %n : tensor<3xf32>, tensor<3xf32>"));
}

/// An owner whose first step in a phase is held.
struct Held : testing::TestWithParam<Phase> {
  World world;
  Gate gate{GetParam()};
  Limits limits;
  std::unique_ptr<Owner> owner;

  void SetUp() override {
    Environment environment = world.environment();
    environment.entering = gate.hook();
    owner = std::make_unique<Owner>(environment, limits);
  }
  StepRequest keeping(uint64_t id, std::vector<float> data = {1, 2, 3}) {
    StepRequest step;
    step.uploads = {f32({3}, std::move(data))};
    step.results = {id};
    return step;
  }
  /// A reply that comes on another thread.
  std::future<Reply> later(const std::string &request) {
    return std::async(std::launch::async, [this, request] { return Reply(owner->handle(request)); });
  }
};

template <class T>
bool pending(const std::future<T> &future) {
  return future.wait_for(std::chrono::milliseconds(50)) == std::future_status::timeout;
}

uint64_t testSeed() {
  const char *given = std::getenv("SOJOURN_TEST_SEED");
  return given ? std::strtoull(given, nullptr, 10) : std::random_device()();
}

} // namespace

INSTANTIATE_TEST_SUITE_P(Phases, Held, testing::Values(Phase::planning, Phase::running),
                         [](const auto &info) { return info.param == Phase::planning ? "Planning" : "Running"; });

TEST_P(Held, AStepHoldsUpNobodyElse) {
  Client slow(*owner, "slow"), quick(*owner, "quick");
  auto held = later(slow.request(keepProgram(), keeping(1)));
  gate.waitUntilTaken();
  // All of this ends while the first step has not.
  registerNumbers(*owner, "late", Policy::open);
  EXPECT_EQ(errorText(owner->setPolicy("late", Policy::privateOnly)), "");
  Client third(*owner, "third");
  EXPECT_EQ(third.send(listDatasetsBytes()).kind(), wire::ReplyBody_Datasets);
  EXPECT_EQ(third.send(byeBytes(third.session)).error(), "");
  EXPECT_EQ(quick.run(keepProgram(), keeping(1, {4, 5, 6})).error(), "") << "the same program as the held step's";
  StepRequest fetch;
  fetch.states = {1};
  EXPECT_EQ(values<float>(quick.run(publishProgram(), fetch).published(0)), (std::vector<float>{4, 5, 6}));
  EXPECT_TRUE(pending(held));
  EXPECT_EQ(owner->stepsHandled(), 2u);
  EXPECT_EQ(owner->liveHandles(), 1u);
  gate.open();
  EXPECT_EQ(held.get().error(), "");
  EXPECT_EQ(owner->liveHandles(), 2u);
}

TEST_P(Held, StepsOfOneSessionWaitForEachOther) {
  Client client(*owner);
  auto first = later(client.request(keepProgram(), keeping(1)));
  gate.waitUntilTaken();
  ++client.steps; // the next one's number, and it needs the first one's handle
  StepRequest fetch;
  fetch.states = {1};
  auto second = later(client.request(publishProgram(), fetch));
  auto third = later(releaseBytes(client.session, {99}));
  EXPECT_TRUE(pending(second));
  EXPECT_TRUE(pending(third));
  gate.open();
  EXPECT_EQ(first.get().error(), "");
  EXPECT_EQ(values<float>(second.get().published(0)), (std::vector<float>{1, 2, 3}));
  EXPECT_NE(third.get().error().find("no such handle"), std::string::npos);
}

TEST_P(Held, ARepetitionWaitsForTheFirstAndIsAnsweredFromMemory) {
  Client client(*owner);
  std::string request = client.request(keepProgram(), keeping(1));
  auto first = later(request);
  gate.waitUntilTaken();
  auto again = later(request), andAgain = later(request);
  EXPECT_TRUE(pending(again));
  gate.open();
  EXPECT_EQ(first.get().kind(), wire::ReplyBody_Done);
  EXPECT_EQ(again.get().kind(), wire::ReplyBody_Done);
  EXPECT_EQ(andAgain.get().kind(), wire::ReplyBody_Done);
  EXPECT_EQ(owner->stepsHandled(), 1u);
  EXPECT_EQ(owner->liveHandles(), 1u);
}

TEST_P(Held, ByeWaitsForAStepThatRuns) {
  Client client(*owner), other(*owner, "bob");
  auto step = later(client.request(keepProgram(), keeping(1)));
  gate.waitUntilTaken();
  auto bye = later(byeBytes(client.session));
  EXPECT_TRUE(pending(bye));
  EXPECT_EQ(owner->liveSessions(), 2u);
  gate.open();
  EXPECT_EQ(step.get().error(), "");
  EXPECT_EQ(bye.get().error(), "");
  EXPECT_EQ(owner->liveSessions(), 1u);
  EXPECT_EQ(owner->liveHandles(), 0u);
}

TEST_P(Held, WhoWaitsBehindAByeFindsNoSession) {
  Client client(*owner);
  auto step = later(client.request(keepProgram(), keeping(1)));
  gate.waitUntilTaken();
  auto bye = later(byeBytes(client.session)), again = later(byeBytes(client.session));
  gate.open();
  EXPECT_EQ(step.get().error(), "");
  EXPECT_EQ(bye.get().error(), "");
  EXPECT_EQ(again.get().error(), "");
  Reply late = client.send(releaseBytes(client.session, {1}));
  EXPECT_EQ(late.asError().code(), wire::ErrorCode_Session);
  Reply repeated = client.run(keepProgram(), keeping(1));
  EXPECT_NE(repeated.error().find("whether this step ran is unknown"), std::string::npos) << repeated.error();
}

TEST_P(Held, ALeaseDoesNotRunOutUnderAStep) {
  Client client(*owner);
  auto step = later(client.request(keepProgram(), keeping(1)));
  gate.waitUntilTaken();
  world.now += 2 * Limits().leaseMs;
  Client other(*owner, "bob"); // whoever comes lets leases run out
  EXPECT_EQ(owner->liveSessions(), 2u);
  gate.open();
  EXPECT_EQ(step.get().error(), "");
  EXPECT_EQ(client.send(releaseBytes(client.session, {1})).error(), "") << "renewed when the step ended";
  world.now += Limits().leaseMs + 1;
  EXPECT_EQ(client.send(releaseBytes(client.session, {})).asError().code(), wire::ErrorCode_Session);
}

TEST_P(Held, RequestsThatWaitAreBounded) {
  Client client(*owner);
  auto step = later(client.request(keepProgram(), keeping(1)));
  gate.waitUntilTaken();
  std::vector<std::future<Reply>> waiting;
  for (size_t index = 0; index < 2 * limits.requestsPerSession; ++index) {
    waiting.push_back(later(releaseBytes(client.session, {})));
  }
  auto refused = [&] {
    return std::count_if(waiting.begin(), waiting.end(), [](auto &reply) { return !pending(reply); });
  };
  for (int tries = 0; tries < 100 && refused() < static_cast<long>(limits.requestsPerSession) + 1; ++tries) {
  }
  EXPECT_EQ(refused(), static_cast<long>(limits.requestsPerSession) + 1) << "one has the turn, three wait";
  gate.open();
  size_t limited = 0;
  for (auto &reply : waiting) {
    limited += reply.get().error().find("requests under way") != std::string::npos;
  }
  EXPECT_EQ(limited, limits.requestsPerSession + 1);
  EXPECT_EQ(step.get().error(), "");
}

TEST(Parallel, RoomForHandlesIsReservedBeforeAStepRuns) {
  World world;
  Gate gate(Phase::running);
  Environment environment = world.environment();
  environment.entering = gate.hook();
  Limits limits;
  limits.handleBytes = heldBytes(12) + 2 * kProgramBytes + 8; // one f32 [3]
  Owner owner(environment, limits);
  Client first(owner), second(owner, "bob");
  StepRequest step;
  step.uploads = {f32({3}, {1, 2, 3})};
  step.results = {1};
  auto held = std::async(std::launch::async, [&] { return first.run(keepProgram(), step).error(); });
  gate.waitUntilTaken();
  EXPECT_NE(second.run(keepProgram(), step).error().find("Limit: "), std::string::npos);
  gate.open();
  EXPECT_EQ(held.get(), "");
  EXPECT_EQ(first.send(releaseBytes(first.session, {1})).error(), "");
  EXPECT_EQ(second.run(keepProgram(), step).error(), "") << "what was reserved came back";
}

TEST(Parallel, MemoryOfRunningStepsIsBounded) {
  World world;
  Gate gate(Phase::running);
  Environment environment = world.environment();
  environment.entering = gate.hook();
  auto program = [](int64_t elements) {
    std::string type = "tensor<" + std::to_string(elements) + "xf32>";
    return encode(moduleText("(%k: tensor<f64> {sojourn.kind = \"slot\"}) -> (tensor<f32> {sojourn.result = "
                             "\"publish\"})",
                             "    %i = sojourn.iota dim = 0 : " + type +
                                 "\n    %c = sojourn.convert %k : tensor<f64> -> tensor<f32>\n"
                                 "    %x = sojourn.mul %i, %c : " +
                                 type + ", tensor<f32>\n    %y = sojourn.cumsum %x, dim = 0 : " + type +
                                 "\n    %s = sojourn.reduce_max %y, dims = [0] : " + type +
                                 "\n    return %s : tensor<f32>"));
  };
  // Two of these do not fit at once, one of four times the size never does.
  auto made = makePlan(testWorker(), program(1 << 20).program, program(1 << 20).debug);
  ASSERT_TRUE(bool(made)) << llvm::toString(made.takeError());
  Limits limits;
  limits.threads = 1;
  limits.runningArenaBytes = (*made)->facts.memory.bytes(1) * 3 / 2;
  limits.arenaWaitMs = 20;
  Owner owner(environment, limits);
  Client first(owner), second(owner, "bob"), third(owner, "carol");
  StepRequest step;
  step.slots = {0};
  auto held = std::async(std::launch::async, [&] { return first.run(program(1 << 20), step).error(); });
  gate.waitUntilTaken();
  std::string waited = second.run(program(1 << 20), step).error();
  EXPECT_NE(waited.find("none ended within 20 ms"), std::string::npos) << waited;
  std::string never = third.run(program(1 << 22), step).error();
  EXPECT_NE(never.find("this owner's limit for running programs is " + std::to_string(limits.runningArenaBytes)),
            std::string::npos)
      << never;
  gate.open();
  EXPECT_EQ(held.get(), "");
  EXPECT_EQ(second.run(program(1 << 20), step).error(), "");
}

TEST(Parallel, ManySessionsWithRandomSteps) {
  uint64_t seed = testSeed();
  SCOPED_TRACE("SOJOURN_TEST_SEED=" + std::to_string(seed));
  World world;
  Limits limits;
  limits.cachedPlans = 3; // plans come and go while they run
  Owner owner(world.environment(), limits);
  registerNumbers(owner, "open", Policy::open);
  const runtime::EncodedProgram keep = keepProgram(), count = countProgram(), fetch = publishProgram(),
                                read = readProgram();
  constexpr int kThreads = 6, kRounds = 150;
  std::atomic<uint64_t> done = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      std::mt19937_64 random(seed + static_cast<uint64_t>(thread));
      Client client(owner, "t" + std::to_string(thread));
      std::map<uint64_t, float> handles; // what each holds, in all three places
      uint64_t next = 1;
      auto any = [&] { return std::next(handles.begin(), static_cast<ptrdiff_t>(random() % handles.size())); };
      for (int round = 0; round < kRounds; ++round) {
        uint64_t choice = random() % 6;
        StepRequest step;
        if (choice == 0 || handles.empty()) {
          float value = static_cast<float>(random() % 1000);
          step.uploads = {f32({3}, {value, value, value})};
          step.results = {next};
          EXPECT_EQ(client.run(keep, step).error(), "");
          handles[next++] = value;
        } else if (choice == 1) {
          step.tables = {"open"};
          step.results = {next};
          EXPECT_EQ(client.run(read, step).error(), "");
          EXPECT_EQ(client.send(releaseBytes(client.session, {next++})).error(), "");
        } else if (choice == 2) {
          auto at = any();
          step.states = {at->first};
          step.releases = {at->first};
          EXPECT_EQ(values<float>(client.run(fetch, step).published(0)), std::vector<float>(3, at->second));
          handles.erase(at);
        } else {
          auto at = any();
          step.states = {at->first};
          std::string request = client.request(count, step);
          Reply reply = client.send(request);
          at->second += 1;
          EXPECT_EQ(values<float>(reply.published(0)), std::vector<float>(3, at->second));
          ++client.steps;
          if (choice == 3) { // as if its reply had been lost
            EXPECT_EQ(values<float>(client.send(request).published(0)), std::vector<float>(3, at->second));
          }
        }
      }
      done += client.steps;
      EXPECT_EQ(client.send(byeBytes(client.session)).error(), "");
    });
  }
  for (std::thread &thread : threads) {
    thread.join();
  }
  EXPECT_EQ(owner.stepsHandled(), done);
  EXPECT_EQ(owner.liveSessions(), 0u);
  EXPECT_EQ(owner.liveHandles(), 0u);
  auto programs = owner.programs(false);
  ASSERT_TRUE(bool(programs));
  uint64_t runs = 0;
  for (const ProgramRecord &record : *programs) {
    runs += record.runs;
  }
  EXPECT_EQ(runs, done) << "every run is in the log, and no repetition";
}

TEST(Parallel, OnePlanRunsInManySessionsAtOnce) {
  World world;
  Owner owner(world.environment());
  auto count = countProgram();
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      Client client(owner);
      StepRequest keep;
      keep.uploads = {f32({3}, std::vector<float>(3, static_cast<float>(100 * thread)))};
      keep.results = {1};
      EXPECT_EQ(client.run(keepProgram(), keep).error(), "");
      StepRequest step;
      step.states = {1};
      for (int round = 1; round <= 200; ++round) {
        EXPECT_EQ(values<float>(client.run(count, step).published(0)),
                  std::vector<float>(3, static_cast<float>(100 * thread + round)));
      }
    });
  }
  for (std::thread &thread : threads) {
    thread.join();
  }
}

} // namespace sojourn::owner::test
