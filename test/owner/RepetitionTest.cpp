// SPDX-License-Identifier: Apache-2.0
// Several steps in one message: each commits by itself, the first that fails is the last, what the reply says.
#include "owner/Limits.h"
#include "test/owner/Support.h"

namespace sojourn::owner::test {

namespace {

/// w <- w + s; the new value is published, and kept.
runtime::EncodedProgram addProgram() {
  return encode(moduleText("(%w: tensor<3xf32> {sojourn.kind = \"state\"}, %s: tensor<f64> {sojourn.kind = \"slot\"}) "
                           "-> (tensor<3xf32> {sojourn.result = \"commit\", sojourn.target = 0 : i64}, tensor<3xf32> "
                           "{sojourn.result = \"publish\"}, tensor<3xf32> {sojourn.result = \"keep\"})",
                           "    %f = sojourn.convert %s : tensor<f64> -> tensor<f32>\n"
                           "    %n = sojourn.add %w, %f : tensor<3xf32>, tensor<f32>\n"
                           "    return %n, %n, %n : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>"));
}

uint64_t bits(double value) {
  uint64_t word;
  std::memcpy(&word, &value, sizeof(word));
  return word;
}

struct Repetitions : testing::Test {
  World world;
  Limits limits;
  std::unique_ptr<Owner> owner;
  std::unique_ptr<Client> client;

  void SetUp() override {
    auto environment = world.environment();
    environment.entering = [this](Phase phase) {
      if (phase == Phase::running && entering) {
        entering();
      }
    };
    owner = std::make_unique<Owner>(environment, limits);
    client = std::make_unique<Client>(*owner);
    StepRequest step;
    step.uploads = {f32({3}, {0, 0, 0})};
    step.results = {1};
    ASSERT_EQ(client->run(keepProgram(), step).error(), "");
  }
  /// Adds 1, then 10 again and again; what each keeps goes with the next.
  StepRequest counting(size_t repetitions) const {
    StepRequest step;
    step.states = {1};
    step.slots = {bits(1)};
    step.results = {100};
    for (size_t at = 0; at < repetitions; ++at) {
      StepRequest &next = step.repetitions.emplace_back();
      next.results = {101 + at};
      next.releases = {100 + at};
      if (at == 0) {
        next.slots = {bits(10)};
      }
    }
    return step;
  }
  float state() {
    StepRequest step;
    step.states = {1};
    return values<float>(client->run(publishProgram(), step).published(0))[0];
  }
  std::function<void()> entering;
};

const wire::Done &doneOf(const Reply &reply) { return *reply.root->body_as_Done(); }

TEST_F(Repetitions, EachCommitsAndPublishes) {
  Reply reply = client->run(addProgram(), counting(4));
  ASSERT_EQ(reply.error(), "");
  EXPECT_EQ(doneOf(reply).steps(), 5u);
  EXPECT_EQ(doneOf(reply).failure(), nullptr);
  ASSERT_EQ(doneOf(reply).published()->size(), 5u);
  for (unsigned at = 0; at < 5; ++at) {
    const float expected = 1 + 10.0f * static_cast<float>(at);
    EXPECT_EQ(values<float>(reply.published(at)), (std::vector<float>(3, expected)));
  }
  EXPECT_EQ(state(), 41);
  EXPECT_EQ(owner->liveHandles(), 2u); // the state, and what the last step kept
  EXPECT_EQ(owner->stepsHandled(), 7u);
  EXPECT_EQ(values<float>(client
                              ->run(addProgram(),
                                    [] {
                                      StepRequest step; // one number was used
                                      step.states = {104};
                                      step.slots = {bits(0)};
                                      step.results = {9};
                                      return step;
                                    }())
                              .published(0)),
            (std::vector<float>(3, 41)));
}

TEST_F(Repetitions, TheFirstThatFailsIsTheLast) {
  StepRequest step = counting(4);
  step.repetitions[2].results = {1}; // in use
  step.repetitions[2].releases = {};
  const std::string request = client->request(addProgram(), step);
  Reply reply = client->send(request);
  ASSERT_EQ(reply.kind(), wire::ReplyBody_Done);
  EXPECT_EQ(doneOf(reply).steps(), 3u);
  ASSERT_NE(doneOf(reply).failure(), nullptr);
  EXPECT_EQ(doneOf(reply).failure()->code(), wire::ErrorCode_Malformed);
  EXPECT_NE(doneOf(reply).failure()->message()->str().find("is in use"), std::string::npos);
  EXPECT_EQ(doneOf(reply).published()->size(), 3u);
  EXPECT_EQ(owner->handle(request), std::string(owner->handle(request))); // from memory
  ++client->steps;
  EXPECT_EQ(state(), 21);
  EXPECT_EQ(owner->stepsHandled(), 5u);
}

TEST_F(Repetitions, WhereTheFirstFailsNothingHasHappened) {
  StepRequest step = counting(4);
  step.states = {77};
  Reply reply = client->run(addProgram(), step);
  EXPECT_EQ(reply.asError().code(), wire::ErrorCode_Handle);
  EXPECT_EQ(state(), 0);
}

TEST_F(Repetitions, AreAnsweredFromMemory) {
  const std::string request = client->request(addProgram(), counting(7)), first = owner->handle(request);
  EXPECT_EQ(owner->handle(request), first);
  ++client->steps;
  EXPECT_EQ(state(), 71);
}

TEST_F(Repetitions, ALargeReplyIsForgottenButNotHowFarItCame) {
  limits.rememberedReplyBytes = 64;
  SetUp();
  StepRequest step = counting(5);
  step.repetitions[1].states = {55};
  const std::string request = client->request(addProgram(), step);
  client->send(request);
  Reply again = client->send(request);
  ASSERT_EQ(again.kind(), wire::ReplyBody_Committed);
  EXPECT_EQ(again.root->body_as_Committed()->steps(), 2u);
  ASSERT_NE(again.root->body_as_Committed()->failure(), nullptr);
  EXPECT_EQ(again.root->body_as_Committed()->failure()->code(), wire::ErrorCode_Handle);
}

TEST_F(Repetitions, NoneBeginsAfterTheDeadline) {
  limits.stepsAtOnce = 1;
  SetUp();
  StepRequest step = counting(9);
  step.deadlineMs = 300;
  entering = [&] { world.elapsed += 100; };
  Reply reply = client->run(addProgram(), step);
  EXPECT_EQ(doneOf(reply).steps(), 3u);
  EXPECT_EQ(doneOf(reply).failure(), nullptr);
  EXPECT_EQ(state(), 21);
}

TEST_F(Repetitions, NoneBeginsAfterTheOwnersOwnTime) {
  limits.messageMs = 250;
  limits.stepsAtOnce = 1;
  SetUp();
  entering = [&] { world.elapsed += 100; };
  EXPECT_EQ(doneOf(client->run(addProgram(), counting(9))).steps(), 3u);
}

TEST_F(Repetitions, AreWatchedAndStoppedWhileTheyRun) {
  limits.stepsAtOnce = 1;
  SetUp();
  std::vector<uint32_t> seen;
  entering = [&] {
    Reply progress = client->send(watchBytes(client->session, seen.size() == 4));
    ASSERT_EQ(progress.kind(), wire::ReplyBody_Progress);
    seen.push_back(progress.root->body_as_Progress()->steps());
  };
  Reply reply = client->run(addProgram(), counting(9));
  EXPECT_EQ(seen, (std::vector<uint32_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(doneOf(reply).steps(), 5u);
  entering = nullptr;
  EXPECT_EQ(doneOf(client->run(addProgram(),
                               [&] {
                                 StepRequest next = counting(3); // the next message is not stopped
                                 next.results = {200};
                                 next.repetitions[0].releases = {200};
                                 next.repetitions[0].results = {201};
                                 next.repetitions[1].releases = {201};
                                 next.repetitions[1].results = {202};
                                 next.repetitions[2].releases = {202};
                                 next.repetitions[2].results = {203};
                                 return next;
                               }()))
                .steps(),
            4u);
}

/// As when the request to stop waited in a network while its message ended, and the next one began.
TEST_F(Repetitions, ALateRequestToStopEndsNoOtherMessage) {
  limits.stepsAtOnce = 1;
  SetUp();
  auto stepsOf = [&](uint64_t mark, uint64_t stopped) {
    StepRequest step = counting(5);
    step.mark = mark;
    step.results[0] += 100 * mark;
    for (StepRequest &each : step.repetitions) {
      each.results[0] += 100 * mark;
      each.releases[0] += 100 * mark;
    }
    size_t begun = 0;
    entering = [&] {
      if (++begun == 2) {
        EXPECT_EQ(client->send(watchBytes(client->session, true, stopped)).kind(), wire::ReplyBody_Progress);
      }
    };
    return doneOf(client->run(addProgram(), step)).steps();
  };
  EXPECT_EQ(stepsOf(1, 1), 2u);
  EXPECT_EQ(stepsOf(2, 1), 6u) << "the message of before was meant";
  EXPECT_EQ(stepsOf(3, 4), 6u);
  EXPECT_EQ(stepsOf(4, 0), 2u) << "an older client means whichever runs";
  // What is told is of the message that was asked about: another one may be on its way.
  auto progressOf = [&](uint64_t mark) {
    return client->send(watchBytes(client->session, false, mark)).root->body_as_Progress()->steps();
  };
  EXPECT_EQ(progressOf(4), 2u);
  EXPECT_EQ(progressOf(0), 2u);
  EXPECT_EQ(progressOf(5), 0u);
  // Nothing runs: what comes then is not kept for the next.
  EXPECT_EQ(client->send(watchBytes(client->session, true, 5)).kind(), wire::ReplyBody_Progress);
  EXPECT_EQ(stepsOf(5, 1), 6u);
}

TEST_F(Repetitions, WatchingNobodyIsAnError) {
  EXPECT_EQ(client->send(watchBytes(client->session + 1, true)).asError().code(), wire::ErrorCode_Session);
}

TEST_F(Repetitions, AreLimitedInNumberAndInWhatTheyPublish) {
  StepRequest step = counting(kStepsPerMessage);
  EXPECT_NE(client->run(addProgram(), step).error().find("takes up to 4096 at once"), std::string::npos);
  limits.replyBytes = 5 * (12 + 256);
  SetUp();
  EXPECT_NE(client->run(addProgram(), counting(5)).error().find("a reply to 6 steps takes 1608 bytes"),
            std::string::npos);
  EXPECT_EQ(client->run(addProgram(), counting(4)).error(), "");
}

TEST_F(Repetitions, UploadsOfTheStepBeforeServeAgain) {
  StepRequest step;
  step.uploads = {f32({3}, {1, 2, 3})};
  step.results = {10};
  step.repetitions.resize(2);
  step.repetitions[0].results = {11};
  step.repetitions[1].results = {12};
  step.repetitions[1].uploads = {f32({3}, {4, 5, 6})};
  ASSERT_EQ(doneOf(client->run(keepProgram(), step)).steps(), 3u);
  auto kept = [&](uint64_t handle) {
    StepRequest publish;
    publish.states = {handle};
    return values<float>(client->run(publishProgram(), publish).published(0));
  };
  EXPECT_EQ(kept(11), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(kept(12), (std::vector<float>{4, 5, 6}));
}

} // namespace

} // namespace sojourn::owner::test
