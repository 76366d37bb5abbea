// SPDX-License-Identifier: Apache-2.0
// Goal: no client uses up the room that others have for their values, and what a client left behind goes soon after its
// connection. Method: requests of sessions of all kinds, against sums kept here.
#include "owner/Holdings.h"

#include "Support.h"
#include "owner/RememberedReplies.h"
#include "owner/RequestError.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <random>

namespace sojourn::owner::test {

namespace {

std::string checked(const Holdings &holdings, const std::string &account, size_t bytes, size_t freed = 0) {
  llvm::Error error = holdings.checkKept(account, bytes, freed, "it does not fit");
  return error ? takeRequestError(std::move(error)).message : "";
}

TEST(Holdings, SharesAreOfAccounts) {
  Holdings holdings(800);
  EXPECT_EQ(checked(holdings, "", 100), "");
  EXPECT_EQ(checked(holdings, "", 101), "it does not fit beside the 0 bytes that clients without an identity keep at "
                                        "this owner; their share is 100: delete tensors that are no longer needed");
  EXPECT_EQ(checked(holdings, "ada", 400), "");
  EXPECT_NE(checked(holdings, "ada", 401), "");
  EXPECT_EQ(checked(holdings, kLocalClient, 800), "");
  EXPECT_NE(checked(holdings, kLocalClient, 801), "");
  EXPECT_NE(checked(holdings, "ada", ~size_t{0}), "");
  holdings.add("", 100);
  EXPECT_EQ(checked(holdings, "ada", 400), "") << "whatever clients without an identity keep";
  holdings.add("ada", 400);
  EXPECT_EQ(checked(holdings, "ada", 150, 150), "");
  EXPECT_EQ(checked(holdings, "ada", 1), "it does not fit beside the 400 bytes that you keep at this owner; your share "
                                         "is 400: delete tensors that are no longer needed");
  const std::string full = checked(holdings, "bob", 201);
  EXPECT_EQ(full, "it does not fit: the owner has no room left for values; try again later") << "nothing of others";
  EXPECT_EQ(checked(holdings, "bob", 200), "") << "half of what clients with an identity leave";
  EXPECT_EQ(checked(holdings, kLocalClient, 300), "");
  EXPECT_NE(checked(holdings, kLocalClient, 301), "");
}

/// Two accounts at half each left nothing for a third.
TEST(Holdings, AccountsAtTheirSharesLeaveRoom) {
  Holdings holdings(1 << 20);
  size_t least = holdings.left();
  for (int account = 0; account < 8; ++account) {
    const std::string name = "client " + std::to_string(account);
    for (size_t bytes = 1 << 20; bytes > 0; bytes = checked(holdings, name, bytes).empty() ? bytes : bytes / 2) {
      if (checked(holdings, name, bytes).empty()) {
        holdings.add(name, bytes);
      }
    }
    EXPECT_EQ(holdings.used(name), least / 2);
    least -= least / 2;
    EXPECT_EQ(holdings.left(), least);
  }
  // Those that were there first train on, and send and receive: only to keep more they cannot.
  for (int account = 0; account < 8; ++account) {
    const std::string name = "client " + std::to_string(account);
    const size_t own = holdings.used(name);
    EXPECT_EQ(checked(holdings, name, 0), "");
    EXPECT_EQ(checked(holdings, name, own, own), "");
    EXPECT_EQ(checked(holdings, name, own - 1, own), "");
    EXPECT_NE(checked(holdings, name, own + 1, own), "");
  }
  llvm::Error error = holdings.check("client 1", 1'000, 0, "a message");
  EXPECT_FALSE(bool(error)) << llvm::toString(std::move(error));
  holdings.remove("client 0", 1 << 19);
  EXPECT_EQ(checked(holdings, "client 9", 1 << 18), "");
}

TEST(Holdings, SumsAreKeptPerAccount) {
  const uint64_t seed = std::random_device()();
  std::mt19937_64 dice(seed);
  const std::string accounts[] = {"", "ada", "bob", kLocalClient};
  Holdings holdings(1 << 20);
  std::map<std::string, size_t> expected;
  for (int round = 0; round < 10'000; ++round) {
    const std::string &account = accounts[dice() % std::size(accounts)];
    size_t &sum = expected[account];
    if (const size_t bytes = dice() % 5000; dice() % 2) {
      const size_t all = expected[""] + expected["ada"] + expected["bob"] + expected[kLocalClient];
      const bool fits = sum + bytes <= holdings.share(account) && all + bytes <= 1 << 20 &&
                        (bytes == 0 || account == kLocalClient || account.empty() ||
                         sum + bytes <= ((1 << 20) - all + sum + expected[""]) / 2);
      ASSERT_EQ(checked(holdings, account, bytes).empty(), fits) << "seed " << seed << ", round " << round;
      if (fits) {
        holdings.add(account, bytes);
        sum += bytes;
      }
    } else if (const size_t less = std::min(bytes, sum); less > 0) {
      holdings.remove(account, less);
      sum -= less;
    }
    ASSERT_EQ(holdings.used(account), sum);
  }
}

TEST(Holdings, LargeRepliesCountUntilTheyHaveGone) {
  World world;
  Limits limits;
  limits.handleBytes = size_t{16} << 20; // of which clients without an identity have 2 MiB
  Owner owner(world.environment(), limits);
  constexpr size_t kNumbers = 300'000;
  const std::string type = "tensor<" + std::to_string(kNumbers) + "xf32>";
  auto program = encode(moduleText("() -> (" + type + " {sojourn.result = \"publish\"})",
                                   "    %i = sojourn.iota dim = 0 : " + type + "\n    return %i : " + type));
  StepRequest step;
  step.session =
      Reply(std::string(owner.answer(helloBytes("alice"), Peer::client, 5).bytes)).root->body_as_Welcome()->session();
  step.hash.assign(program.hash.begin(), program.hash.end());
  step.program = program.program;
  auto run = [&] {
    ++step.sequence;
    return owner.answer(stepBytes(step), Peer::client, 5);
  };
  auto errorOf = [](const sojourn::wire::Message &message) { return Reply(std::string(message.bytes)).error(); };
  step.sequence = 0;
  sojourn::wire::Message first = run();
  ASSERT_EQ(errorOf(first), "");
  EXPECT_GE(owner.figures().anonymousValueBytes, kNumbers * sizeof(float));
  EXPECT_NE(errorOf(run()).find("Limit: a reply of up to "), std::string::npos);
  --step.sequence; // it did not run
  first = {};
  EXPECT_EQ(owner.figures().anonymousValueBytes, kProgramBytes);
  sojourn::wire::Message second = run();
  ASSERT_EQ(errorOf(second), "");
  const Reply reply{std::string(second.bytes)};
  const std::string numbers = reply.published(0);
  ASSERT_EQ(numbers.size(), kNumbers * sizeof(float));
  EXPECT_EQ(reinterpret_cast<const float *>(numbers.data())[kNumbers - 1], static_cast<float>(kNumbers - 1));
}

/// What a value takes is more than its bytes: a session with many small ones is held to what they take.
TEST(Holdings, SmallValuesCountWithAllThatTheyTake) {
  World world;
  Limits limits;
  limits.handleBytes = 400 * heldBytes(4);
  Owner owner(world.environment(), limits);
  StepRequest step;
  auto program = encode(moduleText("(%x: tensor<f32> {sojourn.kind = \"upload\"}) -> (tensor<f32> {sojourn.result = "
                                   "\"keep\"})",
                                   "    return %x : tensor<f32>"));
  step.session =
      Reply(std::string(owner.answer(helloBytes("alice"), Peer::client, 5).bytes)).root->body_as_Welcome()->session();
  step.hash.assign(program.hash.begin(), program.hash.end());
  step.program = program.program;
  step.uploads = {f32({}, {1})};
  step.sequence = 0;
  std::string error;
  for (uint64_t number = 1; number <= 60 && error.empty(); ++number) {
    ++step.sequence;
    step.results = {number};
    error = Reply(std::string(owner.answer(stepBytes(step), Peer::client, 5).bytes)).error();
    step.program.clear();
  }
  EXPECT_NE(error.find("Limit: the "), std::string::npos) << error;
  EXPECT_EQ(step.sequence, 50u) << "an eighth of 400, of which one does not fit beside the program";
}

sojourn::wire::Message message(size_t bytes) { return sojourn::wire::Message::of(std::string(bytes, 'x')); }

/// However many steps clients without an identity run, a reply to another client is remembered.
TEST(RememberedReplies, AnAccountForgetsItsOwnFirst) {
  RememberedReplies replies(100, 800);
  LastStep ada, bob[8];
  replies.remember(ada, "ada", message(80));
  std::vector<LastStep> nobody(40);
  for (LastStep &each : nobody) { // an eighth of 800
    replies.remember(each, "", message(40));
  }
  EXPECT_EQ(std::count_if(nobody.begin(), nobody.end(), [](const LastStep &each) { return !each.reply.bytes.empty(); }),
            2);
  EXPECT_FALSE(nobody.back().reply.bytes.empty());
  for (LastStep &each : bob) { // a half
    replies.remember(each, "bob", message(100));
  }
  EXPECT_TRUE(bob[3].reply.bytes.empty());
  EXPECT_EQ(std::count_if(std::begin(bob), std::end(bob), [](const auto &each) { return !each.reply.bytes.empty(); }),
            4);
  EXPECT_EQ(ada.reply.bytes.size(), 80u);
  // Where all together are full, who has most forgets.
  LastStep carol[3];
  for (LastStep &each : carol) {
    replies.remember(each, "carol", message(100));
  }
  EXPECT_EQ(ada.reply.bytes.size(), 80u);
  EXPECT_EQ(carol[2].reply.bytes.size(), 100u);
  EXPECT_TRUE(bob[4].reply.bytes.empty());
  replies.remember(ada, "ada", message(101)); // too large: not even the one before
  EXPECT_TRUE(ada.reply.bytes.empty());
}

/// A new program, or a step that keeps nothing, is not refused for what the account keeps.
TEST(Holdings, WhoKeepsAllOfItsShareStillRunsSteps) {
  World world;
  Limits limits;
  limits.handleBytes = 8 * heldBytes(12) + kProgramBytes + 8;
  Owner owner(world.environment(), limits);
  Client client(owner, "ada");
  StepRequest keep;
  keep.uploads = {f32({3}, {1, 2, 3})};
  for (uint64_t number = 1; number <= 9; ++number) {
    keep.results = {number};
    const std::string error = client.run(keepProgram(), keep).error();
    ASSERT_EQ(error.empty(), number <= 8) << number << ": " << error;
  }
  StepRequest fetch;
  fetch.states = {1};
  EXPECT_EQ(client.run(publishProgram(), fetch).published(0), bytes<float>({1, 2, 3}));
  EXPECT_EQ(client.run(publishProgram(), fetch).published(0), bytes<float>({1, 2, 3}));
}

/// Ids are the client's own, the largest ones, too; a release names each once.
TEST(Handles, AnyNumberIsReleasedOnce) {
  World world;
  Owner owner(world.environment());
  Client client(owner, "ada");
  StepRequest keep;
  keep.uploads = {f32({3}, {1, 2, 3})};
  std::vector<uint64_t> ids = {~uint64_t{0} - 1};
  for (uint64_t number = 0; number < 100; ++number) {
    ids.push_back(number);
  }
  ids.push_back(~uint64_t{0});
  for (uint64_t id : ids) {
    keep.results = {id};
    ASSERT_EQ(client.run(keepProgram(), keep).error(), "");
  }
  for (uint64_t twice : {ids.front(), ids.back()}) {
    std::vector<uint64_t> again = ids;
    again.push_back(twice);
    EXPECT_NE(client.send(releaseBytes(client.session, again)).error().find("is released twice"), std::string::npos);
  }
  EXPECT_EQ(client.send(releaseBytes(client.session, ids)).error(), "");
  EXPECT_EQ(owner.figures().values, 0u);
}

struct LeftBehind : testing::Test {
  World world;
  Owner owner{world.environment()};

  Reply over(uint64_t connection, const std::string &request) {
    return Reply(std::string(owner.answer(request, Peer::client, connection).bytes));
  }
  uint64_t open(uint64_t connection) {
    return over(connection, helloBytes("alice")).root->body_as_Welcome()->session();
  }
};

TEST_F(LeftBehind, ASessionEndsSoonAfterItsConnection) {
  open(7);
  const uint64_t kept = open(8);
  owner.disconnected(7);
  owner.disconnected(99); // nobody's
  world.elapsed += Limits().goneMs;
  EXPECT_EQ(over(8, releaseBytes(kept, {})).error(), "");
  EXPECT_EQ(owner.liveSessions(), 2u) << "the client may come back";
  world.elapsed += 2;
  EXPECT_EQ(owner.liveSessions(), 2u);
  owner.tidy(); // as a server does, whether or not anybody asks for anything
  EXPECT_EQ(owner.liveSessions(), 1u);
}

TEST_F(LeftBehind, AClientThatComesBackFindsItsSession) {
  const uint64_t session = open(7);
  owner.disconnected(7);
  world.elapsed += Limits().goneMs;
  EXPECT_EQ(over(9, releaseBytes(session, {})).error(), "");
  owner.disconnected(7); // it was of the first connection
  world.elapsed += 10 * Limits().goneMs;
  EXPECT_EQ(over(9, releaseBytes(session, {})).error(), "");
  owner.disconnected(9);
  world.elapsed += Limits().goneMs + 1;
  EXPECT_EQ(over(10, releaseBytes(session, {})).asError().code(), wire::ErrorCode_Session);
  EXPECT_EQ(owner.liveSessions(), 0u);
}

TEST_F(LeftBehind, RequestsWithoutAConnectionHaveTheirLease) {
  const uint64_t session = open(0);
  owner.disconnected(0);
  world.now += Limits().leaseMs - 1;
  EXPECT_EQ(over(0, releaseBytes(session, {})).error(), "");
}

} // namespace

} // namespace sojourn::owner::test
