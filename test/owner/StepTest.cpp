// SPDX-License-Identifier: Apache-2.0
// Steps as they should be: state, batches, commit, release, labels, plan cache, log.
#include "test/owner/Support.h"

namespace sojourn::owner::test {

namespace {

struct Steps : testing::Test {
  World world;
  Owner owner{world.environment()};
  Client client{owner};

  /// Makes handle `id` of f32 [3].
  void keep(uint64_t id, std::vector<float> data) {
    StepRequest step;
    step.uploads = {f32({3}, std::move(data))};
    step.results = {id};
    ASSERT_EQ(client.run(keepProgram(), step).error(), "");
  }
  std::vector<float> fetch(uint64_t id) {
    StepRequest step;
    step.states = {id};
    return values<float>(client.run(publishProgram(), step).published(0));
  }
};

/// state <- state * slot, and the old value is published.
runtime::EncodedProgram scaleProgram() {
  return encode(moduleText("(%w: tensor<3xf32> {sojourn.kind = \"state\"}, %k: tensor<f64> {sojourn.kind = \"slot\"}) "
                           "-> (tensor<3xf32> {sojourn.result = \"commit\", sojourn.target = 0 : i64}, tensor<3xf32> "
                           "{sojourn.result = \"publish\"})",
                           "    %c = sojourn.convert %k : tensor<f64> -> tensor<f32>\n"
                           "    %n = sojourn.mul %w, %c : tensor<3xf32>, tensor<f32>\n"
                           "    return %n, %w : tensor<3xf32>, tensor<3xf32>"));
}

uint64_t bits(double value) {
  uint64_t result;
  std::memcpy(&result, &value, sizeof(result));
  return result;
}

} // namespace

TEST_F(Steps, KeepPublishRelease) {
  keep(7, {1, 2, 3});
  EXPECT_EQ(owner.liveHandles(), 1u);
  EXPECT_EQ(fetch(7), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(client.send(releaseBytes(client.session, {7})).error(), "");
  EXPECT_EQ(owner.liveHandles(), 0u);
  EXPECT_EQ(owner.stepsHandled(), 2u);
}

TEST_F(Steps, CommitChangesTheHandleAfterTheRead) {
  keep(1, {1, 2, 3});
  StepRequest step;
  step.states = {1};
  step.slots = {bits(2)};
  for (float factor : {1.0f, 2.0f, 4.0f}) {
    Reply reply = client.run(scaleProgram(), step);
    EXPECT_EQ(values<float>(reply.published(0)), (std::vector<float>{factor, 2 * factor, 3 * factor}));
  }
  EXPECT_EQ(fetch(1), (std::vector<float>{8, 16, 24}));
}

TEST_F(Steps, ReleaseInAStepComesAfterItsCommit) {
  keep(1, {1, 2, 3});
  StepRequest step;
  step.states = {1};
  step.releases = {1};
  Reply reply = client.run(publishProgram(), step);
  EXPECT_EQ(values<float>(reply.published(0)), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(owner.liveHandles(), 0u);
}

TEST_F(Steps, ProgramsAreSentOncePerSession) {
  auto program = keepProgram();
  StepRequest step;
  step.session = client.session;
  step.hash.assign(program.hash.begin(), program.hash.end());
  step.uploads = {f32({3}, {1, 2, 3})};
  step.results = {1};
  EXPECT_EQ(client.send(stepBytes(step)).kind(), wire::ReplyBody_NeedProgram);
  EXPECT_EQ(owner.liveHandles(), 0u);
  EXPECT_EQ(client.run(program, step).error(), "");
  step.results = {2};
  step.sequence = 2;
  EXPECT_EQ(client.send(stepBytes(step)).kind(), wire::ReplyBody_Done);
  // What another session sent tells nothing to this one.
  Client other(owner, "bob");
  step.session = other.session;
  step.sequence = 1;
  EXPECT_EQ(other.send(stepBytes(step)).kind(), wire::ReplyBody_NeedProgram);
}

TEST(Plans, LeastRecentlyUsedIsForgottenAndAskedForAgain) {
  World world;
  Limits limits;
  limits.cachedPlans = 1;
  Owner owner(world.environment(), limits);
  Client client(owner);
  auto keeping = keepProgram();
  StepRequest step;
  step.uploads = {f32({3}, {1, 2, 3})};
  step.results = {1};
  EXPECT_EQ(client.run(keeping, step).error(), "");
  StepRequest fetch;
  fetch.states = {1};
  EXPECT_EQ(client.run(publishProgram(), fetch).error(), "");
  step.session = client.session;
  step.hash.assign(keeping.hash.begin(), keeping.hash.end());
  step.results = {2};
  step.sequence = 3;
  EXPECT_EQ(client.send(stepBytes(step)).kind(), wire::ReplyBody_NeedProgram);
  EXPECT_EQ(client.run(keeping, step).error(), "");
}

TEST_F(Steps, RowsAreReadAtTheOwner) {
  registerNumbers(owner, "open", Policy::open);
  auto program =
      encode(moduleText("(%s: tensor<i64> {sojourn.kind = \"slot\"}, %t: !sojourn.table<4, \"a\" : f64, \"n\" : i64> "
                        "{sojourn.kind = \"table\"}) -> (tensor<2x2xf32> {sojourn.result = \"publish\"})",
                        "    %r = sojourn.iota dim = 0 : tensor<2xi64>\n"
                        "    %i = sojourn.add %r, %s : tensor<2xi64>, tensor<i64>\n"
                        "    %x = sojourn.read_rows %t, %i, columns = [\"n\", \"a\"] : !sojourn.table<4, \"a\" : f64, "
                        "\"n\" : i64>, tensor<2xi64> -> tensor<2x2xf32>\n"
                        "    return %x : tensor<2x2xf32>"));
  StepRequest step;
  step.slots = {3};
  step.tables = {"open"};
  Reply reply = client.run(program, step);
  EXPECT_EQ(values<float>(reply.published(0)), (std::vector<float>{40, 4, 0, 0}));
}

TEST_F(Steps, OpenDataMayLeaveThroughAnyPath) {
  registerNumbers(owner, "open", Policy::open);
  StepRequest step;
  step.tables = {"open"};
  step.results = {5};
  EXPECT_EQ(client.run(readProgram(), step).error(), "");
  auto fetch = encode(moduleText("(%x: tensor<4x1xf32> {sojourn.kind = \"state\"}) -> "
                                 "(tensor<4x1xf32> {sojourn.result = \"publish\"})",
                                 "    return %x : tensor<4x1xf32>"));
  StepRequest second;
  second.states = {5};
  EXPECT_EQ(values<float>(client.run(fetch, second).published(0)), (std::vector<float>{1, 2, 3, 4}));
}

TEST_F(Steps, DatasetsAreListedWithoutValues) {
  registerNumbers(owner, "open", Policy::open);
  registerNumbers(owner, "secret", Policy::privateOnly);
  Reply reply = client.send(listDatasetsBytes());
  const auto *list = reply.root->body_as_Datasets();
  ASSERT_NE(list, nullptr);
  ASSERT_EQ(list->datasets()->size(), 2u);
  EXPECT_EQ(list->datasets()->Get(0)->policy()->str(), "open");
  EXPECT_EQ(list->datasets()->Get(1)->policy()->str(), "private");
  EXPECT_EQ(list->datasets()->Get(1)->rows(), 4);
  EXPECT_EQ(list->datasets()->Get(1)->columns()->Get(1)->name()->str(), "n");
  EXPECT_TRUE(list->datasets()->Get(1)->columns()->Get(1)->bounded());
  EXPECT_EQ(list->datasets()->Get(1)->columns()->Get(1)->upper(), 100);
  EXPECT_EQ(list->datasets()->Get(1)->metric_bound(), 10);
  // Equal contents, different versions: the version is no hash of the data.
  EXPECT_NE(list->datasets()->Get(0)->version()->str(), list->datasets()->Get(1)->version()->str());
}

TEST_F(Steps, WhatRanIsLoggedWithLinesAndCounts) {
  keep(1, {1, 2, 3});
  for (int run = 0; run < 3; ++run) {
    StepRequest step;
    step.states = {1};
    step.slots = {bits(0.5)};
    EXPECT_EQ(client.run(scaleProgram(), step).error(), "");
  }
  Reply reply = client.send(listProgramsBytes(true));
  const auto *list = reply.root->body_as_Programs();
  ASSERT_NE(list, nullptr);
  ASSERT_EQ(list->programs()->size(), 2u);
  const auto *scale = list->programs()->Get(1);
  EXPECT_EQ(scale->runs(), 3u);
  EXPECT_EQ(scale->ops(), 2u);
  EXPECT_EQ(scale->client()->str(), kLocalClient) << "as in receipts, whatever it calls itself";
  EXPECT_NE(scale->text()->str().find("sojourn.mul"), std::string::npos);
  EXPECT_NE(scale->text()->str().find("train.py:4"), std::string::npos) << scale->text()->str();
  // Somebody behind a transport does not read other people's programs.
  EXPECT_EQ(Reply(owner.handle(listProgramsBytes(true), Peer::client)).asError().code(), wire::ErrorCode_Refused);
}

TEST(Programs, TheLogSurvivesTheOwner) {
  World world;
  TemporaryFolder folder;
  world.store = folder.file("store");
  for (int life = 0; life < 2; ++life) {
    Owner owner(world.environment());
    Client client(owner);
    for (uint64_t id : {1, 2}) {
      StepRequest step;
      step.uploads = {f32({3}, {1, 2, 3})};
      step.results = {id};
      EXPECT_EQ(client.run(keepProgram(), step).error(), "");
    }
  }
  Owner reader(world.environment());
  auto records = reader.programs(true);
  ASSERT_TRUE(bool(records));
  ASSERT_EQ(records->size(), 1u);
  EXPECT_EQ((*records)[0].runs, 4u);
  EXPECT_EQ((*records)[0].hash, keepProgram().hash);
}

TEST_F(Steps, SessionsEndByByeAndByLease) {
  keep(1, {1, 2, 3});
  Client other(owner, "bob");
  EXPECT_EQ(owner.liveSessions(), 2u);
  EXPECT_EQ(other.send(byeBytes(other.session)).error(), "");
  EXPECT_EQ(owner.liveSessions(), 1u);
  world.now += Limits().leaseMs + 1;
  Reply reply = client.send(releaseBytes(client.session, {1}));
  EXPECT_EQ(reply.asError().code(), wire::ErrorCode_Session);
  EXPECT_EQ(owner.liveSessions(), 0u);
  EXPECT_EQ(owner.liveHandles(), 0u);
}

// --- private tables ------------------------------------------------------------------------------

namespace {

struct Laundering : Steps {
  void SetUp() override {
    registerNumbers(owner, "secret", Policy::privateOnly);
    registerNumbers(owner, "open", Policy::open);
  }
  void expectRefused(const Reply &reply) {
    ASSERT_NE(reply.root->body_as_Error(), nullptr);
    EXPECT_EQ(reply.asError().code(), wire::ErrorCode_Refused) << reply.error();
    EXPECT_NE(reply.error().find("'secret'"), std::string::npos) << reply.error();
  }
  /// Handle `id`: all rows of column a.
  void read(const std::string &table, uint64_t id) {
    StepRequest step;
    step.tables = {table};
    step.results = {id};
    ASSERT_EQ(client.run(readProgram(), step).error(), "");
  }
};

const char *const kState = "tensor<4x1xf32> {sojourn.kind = \"state\"}";

} // namespace

TEST_F(Laundering, DirectPublishIsRefusedWithOpAndLine) {
  auto program =
      encode(moduleText("(%t: !sojourn.table<4, \"a\" : f64> {sojourn.kind = \"table\"}) -> (tensor<f32> "
                        "{sojourn.result = \"publish\"})",
                        "    %i = sojourn.iota dim = 0 : tensor<4xi64>\n"
                        "    %x = sojourn.read_rows %t, %i, columns = [\"a\"] : !sojourn.table<4, \"a\" : f64>, "
                        "tensor<4xi64> -> tensor<4x1xf32>\n"
                        "    %s = sojourn.reduce_sum %x, dims = [0, 1] : tensor<4x1xf32>\n"
                        "    return %s : tensor<f32>"));
  StepRequest step;
  step.tables = {"secret"};
  Reply reply = client.run(program, step);
  expectRefused(reply);
  EXPECT_EQ(reply.asError().op()->str(), "reduce_sum");
  EXPECT_NE(reply.asError().location()->str().find("train.py:5"), std::string::npos)
      << reply.asError().location()->str();
  step.tables = {"open"};
  EXPECT_EQ(values<float>(client.run(program, step).published(0)), std::vector<float>{10});
}

TEST_F(Laundering, AnotherVersionIsRefusedBeforeAnythingIsRead) {
  StepRequest step;
  step.tables = {{"open", "yesterday's"}};
  step.results = {1};
  Reply reply = client.run(readProgram(), step);
  ASSERT_NE(reply.root->body_as_Error(), nullptr);
  EXPECT_EQ(reply.asError().code(), wire::ErrorCode_Dataset);
  EXPECT_NE(reply.error().find("the step was made for version yesterday's; get the table again"), std::string::npos)
      << reply.error();
  step.tables = {"open"};
  EXPECT_EQ(client.run(readProgram(), step).error(), "");
}

TEST_F(Laundering, ThroughStateAndASecondProgramAndViews) {
  read("secret", 1);
  // Into the client's own handle, by commit.
  StepRequest own;
  own.uploads = {f32({3}, {0, 0, 0})};
  own.results = {2};
  ASSERT_EQ(client.run(keepProgram(), own).error(), "");
  auto copy = encode(moduleText(std::string("(%w: tensor<3xf32> {sojourn.kind = \"state\"}, %x: ") + kState +
                                    ") -> (tensor<3xf32> {sojourn.result = \"commit\", sojourn.target = 0 : i64})",
                                "    %r = sojourn.reshape %x : tensor<4x1xf32> -> tensor<4xf32>\n"
                                "    %s = sojourn.slice %r, start = [0], limit = [3], stride = [1] : tensor<4xf32>\n"
                                "    return %s : tensor<3xf32>"));
  StepRequest step;
  step.states = {2, 1};
  ASSERT_EQ(client.run(copy, step).error(), "");
  // Out of it again, directly and through arithmetic, reshapes and a fresh handle.
  StepRequest out;
  out.states = {2};
  expectRefused(client.run(publishProgram(), out));
  auto derive = encode(moduleText("(%w: tensor<3xf32> {sojourn.kind = \"state\"}) -> (tensor<3xf32> {sojourn.result = "
                                  "\"keep\"})",
                                  "    %z = sojourn.constant 0.0 : f32\n"
                                  "    %r = sojourn.reshape %w : tensor<3xf32> -> tensor<1x3xf32>\n"
                                  "    %q = sojourn.reshape %r : tensor<1x3xf32> -> tensor<3xf32>\n"
                                  "    %m = sojourn.add %q, %z : tensor<3xf32>, tensor<f32>\n"
                                  "    return %m : tensor<3xf32>"));
  out.results = {9};
  ASSERT_EQ(client.run(derive, out).error(), "");
  StepRequest last;
  last.states = {9};
  expectRefused(client.run(publishProgram(), last));
}

TEST_F(Laundering, IndicesAndConditionsCarryTheLabelToo) {
  auto program =
      encode(moduleText("(%x: tensor<3xf32> {sojourn.kind = \"upload\"}, %t: !sojourn.table<4, \"n\" : i64> "
                        "{sojourn.kind = \"table\"}) -> (tensor<4x1xf32> {sojourn.result = \"publish\"})",
                        "    %i = sojourn.iota dim = 0 : tensor<4xi64>\n"
                        "    %n = sojourn.read_rows %t, %i, columns = [\"n\"] : !sojourn.table<4, \"n\" : i64>, "
                        "tensor<4xi64> -> tensor<4x1xi64>\n"
                        "    %y = sojourn.take %x, %n, dim = 0 : tensor<3xf32>, tensor<4x1xi64>\n"
                        "    return %y : tensor<4x1xf32>"));
  StepRequest step;
  step.uploads = {f32({3}, {1, 2, 3})};
  step.tables = {"secret"};
  expectRefused(client.run(program, step));
}

TEST_F(Laundering, ARefusalCommitsNothing) {
  read("secret", 1);
  StepRequest step;
  step.uploads = {f32({3}, {0, 0, 0})};
  step.results = {2};
  ASSERT_EQ(client.run(keepProgram(), step).error(), "");
  auto program = encode(moduleText(std::string("(%w: tensor<3xf32> {sojourn.kind = \"state\"}, %x: ") + kState +
                                       ") -> (tensor<3xf32> {sojourn.result = \"commit\", sojourn.target = 0 : i64}, "
                                       "tensor<3xf32> {sojourn.result = \"keep\"}, tensor<4x1xf32> {sojourn.result = "
                                       "\"publish\"})",
                                   "    %o = sojourn.constant 1.0 : f32\n"
                                   "    %n = sojourn.add %w, %o : tensor<3xf32>, tensor<f32>\n"
                                   "    return %n, %n, %x : tensor<3xf32>, tensor<3xf32>, tensor<4x1xf32>"));
  StepRequest mixed;
  mixed.states = {2, 1};
  mixed.results = {3};
  mixed.releases = {1};
  expectRefused(client.run(program, mixed));
  EXPECT_EQ(owner.liveHandles(), 2u);
  EXPECT_EQ(fetch(2), (std::vector<float>{0, 0, 0}));
}

TEST_F(Laundering, ValuesBesidePrivateOnesStayFree) {
  read("secret", 1);
  auto program =
      encode(moduleText(std::string("(%w: ") + kState +
                            ", %x: tensor<3xf32> {sojourn.kind = \"upload\"}) -> (tensor<4x1xf32> {sojourn.result "
                            "= \"keep\"}, tensor<3xf32> {sojourn.result = \"publish\"})",
                        "    %n = sojourn.neg %w : tensor<4x1xf32>\n"
                        "    return %n, %x : tensor<4x1xf32>, tensor<3xf32>"));
  StepRequest step;
  step.states = {1};
  step.uploads = {f32({3}, {1, 2, 3})};
  step.results = {4};
  EXPECT_EQ(values<float>(client.run(program, step).published(0)), (std::vector<float>{1, 2, 3}));
}

TEST_F(Laundering, OverwritingAPrivateStateWithOpenDataFreesIt) {
  StepRequest step;
  step.tables = {"secret"};
  step.results = {1};
  ASSERT_EQ(client.run(readProgram(), step).error(), "");
  auto zero =
      encode(moduleText(std::string("(%w: ") + kState +
                            ", %k: tensor<f64> {sojourn.kind = \"slot\"}) -> (tensor<4x1xf32> {sojourn.result = "
                            "\"commit\", sojourn.target = 0 : i64})",
                        "    %c = sojourn.convert %k : tensor<f64> -> tensor<f32>\n"
                        "    %n = sojourn.broadcast %c, dims = [] : tensor<f32> -> tensor<4x1xf32>\n"
                        "    return %n : tensor<4x1xf32>"));
  StepRequest overwrite;
  overwrite.states = {1};
  overwrite.slots = {bits(3)};
  ASSERT_EQ(client.run(zero, overwrite).error(), "");
  auto fetch =
      encode(moduleText(std::string("(%x: ") + kState + ") -> (tensor<4x1xf32> {sojourn.result = \"publish\"})",
                        "    return %x : tensor<4x1xf32>"));
  StepRequest out;
  out.states = {1};
  EXPECT_EQ(values<float>(client.run(fetch, out).published(0)), (std::vector<float>{3, 3, 3, 3}));
}

} // namespace sojourn::owner::test
