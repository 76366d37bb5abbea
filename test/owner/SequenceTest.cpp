// SPDX-License-Identifier: Apache-2.0
// Steps are counted and run once: repetitions, other content, gaps, lost replies, an owner that was
// restarted.
#include "test/owner/Support.h"

namespace sojourn::owner::test {

namespace {

/// w <- w + 1, and the new value is published.
runtime::EncodedProgram countProgram() {
  return encode(moduleText("(%w: tensor<3xf32> {sojourn.kind = \"state\"}) -> (tensor<3xf32> {sojourn.result = "
                           "\"commit\", sojourn.target = 0 : i64}, tensor<3xf32> {sojourn.result = \"publish\"})",
                           "    %o = sojourn.constant 1.0 : f32\n"
                           "    %n = sojourn.add %w, %o : tensor<3xf32>, tensor<f32>\n"
                           "    return %n, %n : tensor<3xf32>, tensor<3xf32>"));
}

struct Sequence : testing::Test {
  World world;
  Limits limits;
  std::unique_ptr<Owner> owner;
  std::unique_ptr<Client> client;
  StepRequest count;

  void SetUp() override {
    owner = std::make_unique<Owner>(world.environment(), limits);
    client = std::make_unique<Client>(*owner);
    StepRequest step;
    step.uploads = {f32({3}, {0, 0, 0})};
    step.results = {1};
    ASSERT_EQ(client->run(keepProgram(), step).error(), "");
    count.states = {1};
  }
  /// The counting step under this number.
  std::string numbered(uint64_t sequence, StepRequest step) {
    uint64_t steps = client->steps;
    client->steps = sequence - 1;
    std::string bytes = client->request(countProgram(), std::move(step));
    client->steps = steps;
    return bytes;
  }
  void expectMalformed(const std::string &request, const std::string &text) {
    Reply reply = client->send(request);
    ASSERT_NE(reply.root->body_as_Error(), nullptr) << "not an error";
    EXPECT_EQ(reply.asError().code(), wire::ErrorCode_Malformed);
    EXPECT_NE(reply.error().find(text), std::string::npos) << "'" << reply.error() << "' lacks '" << text << "'";
  }
};

} // namespace

TEST_F(Sequence, ARepetitionIsAnsweredAndNotRun) {
  std::string request = numbered(2, count), first = owner->handle(request);
  for (int repetition = 0; repetition < 3; ++repetition) {
    EXPECT_EQ(owner->handle(request), first);
  }
  EXPECT_EQ(owner->stepsHandled(), 2u);
  EXPECT_EQ(values<float>(client->send(numbered(3, count)).published(0)), (std::vector<float>{2, 2, 2}));
  auto programs = owner->programs(false);
  ASSERT_TRUE(bool(programs));
  EXPECT_EQ(programs->back().runs, 2u);
}

TEST_F(Sequence, ARepetitionThatReleasesFindsItsHandlesGoneAndIsAnsweredAllTheSame) {
  count.releases = {1};
  std::string request = numbered(2, count), first = owner->handle(request);
  EXPECT_EQ(owner->liveHandles(), 0u);
  EXPECT_EQ(owner->handle(request), first);
}

TEST_F(Sequence, TheSameNumberWithOtherContentNamesBoth) {
  EXPECT_EQ(client->send(numbered(2, count)).error(), "");
  count.releases = {1};
  expectMalformed(numbered(2, count), "step 2 was already committed with other content: its request had hash ");
  expectMalformed(numbered(2, count), ", this one has ");
  EXPECT_EQ(owner->liveHandles(), 1u);
}

TEST_F(Sequence, GapsAreRefused) {
  for (uint64_t sequence : {uint64_t{0}, uint64_t{3}, uint64_t{9}, ~uint64_t{0}}) {
    expectMalformed(numbered(sequence, count),
                    "sequence number " + std::to_string(sequence) + ", expected 2, or 1 to repeat the last one");
  }
  EXPECT_EQ(client->send(numbered(2, count)).error(), "");
  EXPECT_EQ(client->send(numbered(3, count)).error(), "");
  expectMalformed(numbered(2, count), "sequence number 2, expected 4, or 3 to repeat");
  expectMalformed(numbered(0, count), "sequence number 0, expected 4");
  client = std::make_unique<Client>(*owner, "bob");
  expectMalformed(numbered(0, count), "sequence number 0, expected 1: steps of a session are numbered from 1");
  EXPECT_EQ(owner->stepsHandled(), 3u);
}

TEST_F(Sequence, WhatDidNotCommitUsesNoNumber) {
  auto program = countProgram();
  StepRequest step = count;
  step.session = client->session;
  step.sequence = 2;
  step.hash.assign(program.hash.begin(), program.hash.end());
  EXPECT_EQ(client->send(stepBytes(step)).kind(), wire::ReplyBody_NeedProgram);
  EXPECT_EQ(client->send(stepBytes(step)).kind(), wire::ReplyBody_NeedProgram);
  StepRequest wrong = count;
  wrong.states = {77};
  EXPECT_NE(client->send(numbered(2, wrong)).error().find("no handle 77"), std::string::npos);
  EXPECT_EQ(values<float>(client->send(numbered(2, count)).published(0)), (std::vector<float>{1, 1, 1}));
}

TEST_F(Sequence, OfALargeReplyItIsRememberedThatTheStepCommitted) {
  limits.rememberedReplyBytes = 32;
  SetUp();
  std::string request = numbered(2, count);
  EXPECT_EQ(client->send(request).kind(), wire::ReplyBody_Done);
  EXPECT_EQ(client->send(request).kind(), wire::ReplyBody_Committed);
  EXPECT_EQ(client->send(request).kind(), wire::ReplyBody_Committed);
  EXPECT_EQ(owner->stepsHandled(), 2u);
  EXPECT_EQ(values<float>(client->send(numbered(3, count)).published(0)), (std::vector<float>{2, 2, 2}));
}

TEST_F(Sequence, AllRememberedRepliesTogetherAreBounded) {
  // Room for one reply that publishes, not for two.
  limits.rememberedBytes = 2 * owner->handle(numbered(2, count)).size() - 1;
  SetUp();
  std::string request = numbered(2, count);
  EXPECT_EQ(client->send(request).kind(), wire::ReplyBody_Done);
  Client other(*owner, "bob");
  StepRequest keep;
  keep.uploads = {f32({3}, {5, 5, 5})};
  keep.results = {1};
  EXPECT_EQ(other.run(keepProgram(), keep).error(), "");
  EXPECT_EQ(client->send(request).kind(), wire::ReplyBody_Done);
  // The youngest is remembered, the oldest makes room: of that step it is known that it committed.
  std::string late = other.request(countProgram(), count);
  EXPECT_EQ(values<float>(other.send(late).published(0)), (std::vector<float>{6, 6, 6}));
  EXPECT_EQ(values<float>(other.send(late).published(0)), (std::vector<float>{6, 6, 6}));
  EXPECT_EQ(client->send(request).kind(), wire::ReplyBody_Committed);
  // A session that ends gives its room back.
  EXPECT_EQ(other.send(byeBytes(other.session)).error(), "");
  std::string next = numbered(3, count);
  EXPECT_EQ(client->send(next).kind(), wire::ReplyBody_Done);
  EXPECT_EQ(client->send(next).kind(), wire::ReplyBody_Done);
}

TEST_F(Sequence, AfterARestartTheAnswerIsUnknown) {
  std::string request = numbered(2, count);
  EXPECT_EQ(client->send(request).error(), "");
  Owner restarted(world.environment());
  Reply reply(restarted.handle(request));
  EXPECT_EQ(reply.asError().code(), wire::ErrorCode_Session);
  EXPECT_NE(reply.error().find("whether this step ran is unknown"), std::string::npos) << reply.error();
  EXPECT_EQ(client->send(releaseBytes(5, {})).error().find("whether"), std::string::npos);
}

TEST_F(Sequence, SessionsCountApart) {
  EXPECT_EQ(client->send(numbered(2, count)).error(), "");
  Client other(*owner, "bob");
  StepRequest step;
  step.uploads = {f32({3}, {5, 5, 5})};
  step.results = {1};
  EXPECT_EQ(other.run(keepProgram(), step).error(), "");
  EXPECT_EQ(values<float>(other.run(countProgram(), count).published(0)), (std::vector<float>{6, 6, 6}));
  EXPECT_EQ(values<float>(client->send(numbered(3, count)).published(0)), (std::vector<float>{2, 2, 2}));
}

} // namespace sojourn::owner::test
