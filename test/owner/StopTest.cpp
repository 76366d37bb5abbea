// SPDX-License-Identifier: Apache-2.0
// Steps that are ended before their end: by a deadline, their client, the end of its connection or of the server. A
// step is held where it plans or runs; what ends it comes meanwhile.
#include "owner/Accounts.h"
#include "owner/RunningSteps.h"
#include "owner/StepQueue.h"
#include "test/owner/Support.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <thread>

namespace sojourn::owner::test {

namespace {

using namespace std::chrono_literals;

/// w <- w + 1, and the new value is published.
runtime::EncodedProgram countProgram() {
  return encode(moduleText("(%w: tensor<3xf32> {sojourn.kind = \"state\"}) -> (tensor<3xf32> {sojourn.result = "
                           "\"commit\", sojourn.target = 0 : i64}, tensor<3xf32> {sojourn.result = \"publish\"})",
                           "    %o = sojourn.constant 1.0 : f32\n"
                           "    %n = sojourn.add %w, %o : tensor<3xf32>, tensor<f32>\n"
                           "    return %n, %n : tensor<3xf32>, tensor<3xf32>"));
}

/// An owner with a client of connection 7, who keeps 1, 2, 3; its next step is held in a phase.
struct Ends : testing::TestWithParam<Phase> {
  World world;
  Limits limits;
  std::unique_ptr<Owner> owner;
  std::unique_ptr<Client> client;
  std::atomic<bool> isHeld = false;
  std::atomic<int> entered = 0;
  std::function<void()> meanwhile; ///< while the step is held

  void SetUp() override {
    Environment environment = world.environment();
    environment.entering = [this](Phase phase) {
      if (phase == GetParam() && isHeld) {
        ++entered;
        if (meanwhile) {
          meanwhile();
        }
      }
    };
    owner = std::make_unique<Owner>(environment, limits);
    client = std::make_unique<Client>(*owner, "alice", Peer::client);
    StepRequest step;
    step.uploads = {f32({3}, {1, 2, 3})};
    step.results = {1};
    ASSERT_EQ(client->run(keepProgram(), step).error(), "");
    isHeld = true;
  }
  Reply send(const std::string &request, uint64_t connection = 7) {
    return Reply(std::string(owner->answer(request, Peer::client, connection).bytes));
  }
  Reply count() { return send(counting()); }
  std::string counting() {
    StepRequest step;
    step.states = {1};
    return client->request(countProgram(), step);
  }
  /// The state is as before, and the session goes on with the same number.
  void expectUnchanged() {
    isHeld = false;
    Reply reply = count();
    ASSERT_EQ(reply.error(), "");
    EXPECT_EQ(values<float>(reply.published(0)), (std::vector<float>{2, 3, 4}));
  }
};

} // namespace

INSTANTIATE_TEST_SUITE_P(Phases, Ends, testing::Values(Phase::planning, Phase::running),
                         [](const auto &info) { return info.param == Phase::planning ? "Planning" : "Running"; });

TEST_P(Ends, ByTheirClient) {
  meanwhile = [&] {
    EXPECT_EQ(Reply(owner->handle(watchBytes(client->session, true), Peer::client)).error(), "");
    std::this_thread::sleep_for(kStopGrace + 500ms);
  };
  EXPECT_EQ(count().error(), "Stopped: the step was stopped: its client ended it. It changed no value");
  EXPECT_EQ(entered, 1);
  expectUnchanged();
}

TEST_P(Ends, StepsThatEndSoonAreNotCutOff) {
  meanwhile = [&] {
    EXPECT_EQ(Reply(owner->handle(watchBytes(client->session, true), Peer::client)).error(), "");
    owner->endSteps(7, kStopGrace);
    owner->disconnected(7);
  };
  Reply reply = count();
  ASSERT_EQ(reply.error(), "");
  EXPECT_EQ(values<float>(reply.published(0)), (std::vector<float>{2, 3, 4}));
}

TEST_P(Ends, WithTheirConnection) {
  meanwhile = [&] {
    owner->disconnected(7);
    std::this_thread::sleep_for(kGoneGrace + 500ms);
  };
  EXPECT_EQ(count().error(), "Stopped: the step was stopped: the connection of its client closed. It changed no value");
  expectUnchanged();
}

TEST_P(Ends, NotIfTheClientIsBack) {
  meanwhile = [&] {
    owner->disconnected(7);
    std::this_thread::sleep_for(kGoneGrace / 2);
    EXPECT_EQ(send(watchBytes(client->session, false), 8).error(), "");
    std::this_thread::sleep_for(kGoneGrace + 500ms);
  };
  EXPECT_EQ(count().error(), "");
}

TEST_P(Ends, WithTheServer) {
  meanwhile = [&] {
    owner->endSteps(6, kStopGrace);
    std::this_thread::sleep_for(kStopGrace + 500ms);
  };
  EXPECT_EQ(count().error(), "") << "the step of another server's connection";
  meanwhile = [&] {
    owner->endSteps(7, kStopGrace);
    std::this_thread::sleep_for(kStopGrace + 500ms);
  };
  if (GetParam() == Phase::running) { // the plan is known by now
    ++client->steps;
    EXPECT_EQ(count().error(),
              "Stopped: the step was stopped: the owner is closing; connect again later. It changed no value");
  }
}

TEST_P(Ends, AtADeadline) {
  limits.stepMs = 300;
  isHeld = false;
  SetUp();
  meanwhile = [&] { std::this_thread::sleep_for(1000ms); };
  EXPECT_EQ(count().error(),
            "Stopped: the step was stopped: it took longer than 0.3 seconds, this owner's deadline of a "
            "step; use a smaller batch or several steps. It changed no value");
  expectUnchanged();
}

TEST_P(Ends, AStepThatBeginsAfterItsConnectionEnded) {
  std::future<Reply> second;
  meanwhile = [&] {
    if (entered == 1) {
      ++client->steps;
      second = std::async(std::launch::async, [&] { return count(); });
      std::this_thread::sleep_for(200ms); // it waits for the turn
      owner->disconnected(7);
    } else {
      std::this_thread::sleep_for(kGoneGrace + 500ms);
    }
  };
  EXPECT_EQ(count().error(), "");
  if (GetParam() == Phase::running) {
    EXPECT_EQ(second.get().error(),
              "Stopped: the step was stopped: the connection of its client closed. It changed no value");
  }
}

/// The message's deadline is each step's; those before the one that ended stand.
TEST(Ends, StepsOfAMessageOneByOne) {
  World world;
  std::atomic<int> entered = 0;
  Environment environment = world.environment();
  Owner *at = nullptr;
  Client *of = nullptr;
  environment.entering = [&](Phase phase) {
    if (of == nullptr || phase != Phase::running) {
      return;
    }
    ++entered;
    std::this_thread::sleep_for(entered == 4 ? 1500ms : 250ms);
  };
  Limits limits;
  limits.stepMs = 700;
  limits.stepsAtOnce = 1;
  Owner owner(environment, limits);
  at = &owner;
  Client client(*at, "alice", Peer::client);
  StepRequest step;
  step.uploads = {f32({3}, {1, 2, 3})};
  step.results = {1};
  ASSERT_EQ(client.run(keepProgram(), step).error(), "");
  of = &client;
  StepRequest counting;
  counting.states = {1};
  counting.repetitions.resize(5);
  Reply reply = client.run(countProgram(), counting);
  ASSERT_EQ(reply.error(), "");
  const wire::Done &done = *reply.root->body_as_Done();
  EXPECT_EQ(done.steps(), 3u);
  ASSERT_NE(done.failure(), nullptr);
  EXPECT_EQ(done.failure()->code(), wire::ErrorCode_Stopped);
  EXPECT_EQ(values<float>(reply.published(2)), (std::vector<float>{4, 5, 6}));
  of = nullptr;
  StepRequest fetch;
  fetch.states = {1};
  EXPECT_EQ(values<float>(client.run(publishProgram(), fetch).published(0)), (std::vector<float>{4, 5, 6}));
}

/// The largest program takes a second to plan, and more beside others.
TEST(Ends, WhileALargeProgramIsPlanned) {
  std::string body;
  constexpr int kAdds = 199'000;
  for (int i = 0; i < kAdds; ++i) {
    const std::string before = i == 0 ? "x" : "v" + std::to_string(i - 1);
    body += "    %v" + std::to_string(i) + " = sojourn.add %" + before + ", %x : tensor<3xf32>, tensor<3xf32>\n";
  }
  const runtime::EncodedProgram program = encode(
      moduleText("(%x: tensor<3xf32> {sojourn.kind = \"upload\"}) -> (tensor<3xf32> {sojourn.result = \"keep\"})",
                 body + "    return %v" + std::to_string(kAdds - 1) + " : tensor<3xf32>"));
  World world;
  Environment environment = world.environment();
  Owner *at = nullptr;
  environment.entering = [&](Phase phase) {
    if (phase == Phase::planning) {
      at->endSteps(7, 0ms);
      std::this_thread::sleep_for(kStopGrace + 500ms); // the flag is set by then
    }
  };
  Owner owner(environment);
  at = &owner;
  Client client(owner, "alice", Peer::client);
  StepRequest step;
  step.uploads = {f32({3}, {1, 2, 3})};
  step.results = {1};
  auto send = [&](const std::string &request) {
    return Reply(std::string(owner.answer(request, Peer::client, 7).bytes));
  };
  EXPECT_EQ(send(client.request(program, step)).error(),
            "Stopped: the step was stopped: the owner is closing; connect again later. It changed no value");
  const runtime::EncodedProgram hash{"", "", program.hash};
  EXPECT_EQ(send(client.request(hash, step)).kind(), wire::ReplyBody_NeedProgram) << "no plan was made";
}

/// Before a step is paid for nothing is charged; afterwards what was charged stays so, and the error says it.
TEST(Ends, StepsThatWerePaid) {
  World world;
  TemporaryFolder folder;
  world.store = folder.file("store");
  Environment environment = world.environment();
  std::function<void()> entering;
  std::atomic<bool> isSlow = false;
  environment.entering = [&](Phase phase) {
    if (phase == Phase::running && entering) {
      entering();
    }
  };
  environment.clockMs = [&] { // the ledger reads it for an entry
    if (isSlow.exchange(false)) {
      std::this_thread::sleep_for(kStopGrace + 500ms);
    }
    return world.now;
  };
  Owner owner(environment);
  registerNumbers(owner, "numbers", Policy::privateOnly);
  ASSERT_EQ(errorText(owner.setCap("numbers", 4, 1e-5)), "");
  ASSERT_EQ(errorText(owner.grant(kLocalClient, "numbers", 4, 1e-5)), "");
  Client client(owner);
  StepRequest step;
  step.tables = {"numbers"};
  step.spending.releases = {{1, 0.25, 0, false}};
  const std::string stopped = "Stopped: the step was stopped: its client ended it. It changed no value";
  auto left = [&] {
    auto budget = owner.accounts().budget(kLocalClient, "numbers");
    return budget ? budget->epsilonLeft : -1;
  };
  auto stop = [&] { EXPECT_EQ(Reply(owner.handle(watchBytes(client.session, true))).error(), ""); };
  entering = [&] {
    stop();
    std::this_thread::sleep_for(kStopGrace + 500ms);
  };
  EXPECT_EQ(client.run(sumProgram(), step).error(), stopped);
  EXPECT_EQ(left(), 4);
  entering = [&] {
    stop();
    isSlow = true;
  };
  EXPECT_EQ(client.run(sumProgram(), step).error(),
            stopped + ", and what was charged to a budget for it stays charged");
  EXPECT_NEAR(left(), 3.75, 1e-4);
  entering = nullptr;
  EXPECT_EQ(client.run(sumProgram(), step).error(), "");
  EXPECT_LT(left(), 3.6);
}

} // namespace sojourn::owner::test
