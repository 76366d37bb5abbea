// SPDX-License-Identifier: Apache-2.0
// What the log of a server says of refused requests: who, on which tables, why; and no more than a disk holds.
#include "Support.h"
#include "owner/Accounts.h"

#include <gtest/gtest.h>

namespace sojourn::owner::test {

namespace {

struct Refused : testing::Test {
  World world;
  std::unique_ptr<Owner> owner;
  signing::SigningKey key = signing::SigningKey::generate();

  void SetUp() override {
    owner = std::make_unique<Owner>(world.environment());
    ASSERT_EQ(errorText(owner->accounts().addClient("ada", key.publicKey())), "");
    registerNumbers(*owner, "secret", Policy::privateOnly);
  }
  std::vector<std::string> lines() {
    std::vector<std::string> found;
    for (const std::string &line : world.logged) {
      if (line.find("refused") != std::string::npos) {
        found.push_back(line);
      }
    }
    world.logged.clear();
    return found;
  }
  static StepRequest on(const std::vector<std::string> &tables) {
    StepRequest step;
    for (const std::string &table : tables) {
      step.tables.emplace_back(table.c_str(), "00");
    }
    step.results = {1};
    return step;
  }
};

TEST_F(Refused, ALineHasClientTablesAndReason) {
  Client ada = identified(*owner, key), stranger(*owner, "ada", Peer::client);
  ada.run(readProgram(), on({"secret"}));
  stranger.run(readProgram(), on({"secret", "x\ny\x1b[2J"}));
  std::string garbage = "no request";
  owner->handle(garbage, Peer::client);
  owner->handle(helloBytes("eve\n", 99), Peer::client);
  auto found = lines();
  ASSERT_EQ(found.size(), 4u);
  EXPECT_EQ(found[0], "request refused: Refused to ada, Step on 'secret': client 'ada' has no access to table "
                      "'secret'; ask the data owner for: sojourn-owner access secret --add ada");
  EXPECT_EQ(found[1].rfind("request refused: Refused to 'ada', Step on 'secret', 'x y?[2J': a client without an "
                           "identity has no access to table",
                           0),
            0u)
      << found[1];
  EXPECT_EQ(found[2], "request refused: Malformed to a client without a session, an unreadable request: these 10 bytes "
                      "are not a request of the Sojourn protocol (identifier SJM1)");
  EXPECT_EQ(found[3].rfind("request refused: Version to a client without a session that calls itself 'eve ', Hello: "
                           "the client speaks protocol version 99",
                           0),
            0u)
      << found[3];
}

TEST_F(Refused, AStepThatFailsAfterOthersIsThere) {
  Client client(*owner);
  StepRequest step;
  step.uploads = {f32({3}, {1, 2, 3})};
  step.results = {1};
  StepRequest again = step; // the same id
  step.repetitions = {again};
  Reply reply = client.run(keepProgram(), step);
  ASSERT_EQ(reply.kind(), wire::ReplyBody_Done);
  auto found = lines();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].rfind("request refused: Malformed to local, Step: ", 0), 0u) << found[0];
}

TEST_F(Refused, LinesAreOfBoundedLength) {
  Client ada = identified(*owner, key);
  std::vector<std::string> names;
  for (int at = 0; at < 3000; ++at) {
    names.push_back(std::to_string(at) + std::string(5000, 'n'));
  }
  ada.run(readProgram(), on(names));
  auto found = lines();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_LE(found[0].size(), kRefusalBytes);
  EXPECT_NE(found[0].find(" and 2992 more: the step binds 3000 tables"), std::string::npos) << found[0];
}

TEST_F(Refused, AFloodHasFewLinesAndIsCounted) {
  Client ada = identified(*owner, key), stranger(*owner, "x", Peer::client);
  const runtime::EncodedProgram program = readProgram();
  for (int at = 0; at < 2000; ++at) {
    stranger.run(program, on({"secret"}));
  }
  EXPECT_EQ(lines().size(), kRefusalLines);
  ada.run(readProgram(), on({"secret"}));
  auto found = lines();
  ASSERT_EQ(found.size(), 1u) << "others have their own lines";
  EXPECT_NE(found[0].find(" to ada, "), std::string::npos);
  world.elapsed += 5000;
  stranger.run(readProgram(), on({"secret"}));
  found = lines();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0], "requests refused: 1950 more to clients without an identity");
  // What no line has told comes at the end.
  for (int at = 0; at < 2000; ++at) {
    stranger.run(program, on({"secret"}));
  }
  EXPECT_EQ(lines().size(), 3u);
  owner.reset();
  EXPECT_EQ(lines(), std::vector<std::string>{"requests refused: 1997 more to clients without an identity"});
}

} // namespace

} // namespace sojourn::owner::test
