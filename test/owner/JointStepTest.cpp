// SPDX-License-Identifier: Apache-2.0
// Joint steps of owners in one process: what clients and members may do wrong, and that all commit or none does.
#include "owner/RequestError.h"
#include "runtime/signing/SigningKey.h"
#include "test/owner/Support.h"

#include "dialect/Bounds.h"

#include <array>
#include <chrono>
#include <thread>

namespace sojourn::owner::test {

namespace {

using std::chrono::milliseconds;

std::string textOf(llvm::Error error) { return llvm::toString(std::move(error)); }

std::string joinBytes(uint64_t session, unsigned role, const std::string &nonce,
                      const std::vector<signing::PublicKey> &members) {
  flatbuffers::FlatBufferBuilder builder;
  std::vector<flatbuffers::Offset<wire::Member>> offsets;
  for (const signing::PublicKey &member : members) {
    offsets.push_back(wire::CreateMember(builder, builder.CreateVector(member.data(), member.size())));
  }
  auto list = builder.CreateVector(offsets);
  auto bytes = builder.CreateVector(reinterpret_cast<const uint8_t *>(nonce.data()), nonce.size());
  return finish(builder, wire::RequestBody_Join,
                wire::CreateJoin(builder, session, static_cast<uint8_t>(role), bytes, list).Union());
}

/// Owners with a table each, and a session of one client at each of them.
class JointSteps : public testing::Test {
protected:
  static constexpr size_t kOwners = 3;

  void SetUp() override {
    for (size_t at = 0; at < kOwners; ++at) {
      worlds[at].random.seed(20261128 + at);
      Environment environment = worlds[at].environment();
      environment.isNeighbour = true;
      Limits limits;
      limits.memberWaitMs = 1'000; // with room for a busy machine
      limits.sharedRowsLeast = 4;
      owners.push_back(std::make_unique<Owner>(environment, limits));
      keys.push_back(*signing::parseKey(owners.back()->key()));
      for (size_t row = 0; row < 4; ++row) {
        rows[at][row] = static_cast<double>(10 * at + row);
      }
      registerTable(at);
    }
    for (size_t at = 0; at < kOwners; ++at) {
      for (size_t other = 0; other < kOwners; ++other) {
        if (at != other) {
          ASSERT_EQ(textOf(owners[at]->share("t", {keys[other]}, Sharing::clear)), "");
        }
      }
      clients.push_back(std::make_unique<Client>(*owners[at]));
    }
  }

  void registerTable(size_t at) {
    RegisterOptions options;
    options.name = "t";
    options.policy = Policy::open;
    DatasetSource source;
    source.arrays = {{"a", runtime::Element::f64, 4, rows[at].data(), {}}};
    ASSERT_EQ(textOf(owners[at]->registerDataset(source, options)), "");
  }

  void join(const std::string &nonce = std::string(32, 'n')) {
    for (size_t role = 0; role < kOwners; ++role) {
      ASSERT_EQ(clients[role]->send(joinBytes(clients[role]->session, role, nonce, keys)).error(), "");
    }
  }

  /// The sum of all tables, kept and published, and the rows of each.
  static runtime::EncodedProgram sums() {
    std::string arguments, body;
    for (size_t role = 0; role < kOwners; ++role) {
      const std::string k = std::to_string(role);
      arguments += (role ? ", " : "") + ("%t" + k) + ": !sojourn.table<4, \"a\" : f64> {sojourn.kind = \"table\", " +
                   "sojourn.party = " + k + " : i64}";
      body += "    %x" + k + " = sojourn.read_rows %t" + k +
              ", %i, columns = [\"a\"] : !sojourn.table<4, \"a\" : " + "f64>, tensor<4xi64> -> tensor<4x1xf64>\n";
    }
    return encode("module attributes {sojourn.parties = 3 : i64, sojourn.promotion = \"torch\", sojourn.phase = "
                  "\"core\"} {\n  func.func @step(" +
                  arguments +
                  ") -> (tensor<f64> {sojourn.result = \"keep\"}, tensor<4x1xf64> {sojourn.result = \"keep\"}, "
                  "tensor<f64> {sojourn.result = \"publish\"}) {\n    %i = sojourn.iota dim = 0 : tensor<4xi64>\n" +
                  body +
                  "    %x = sojourn.concat %x0, %x1, %x2 dim = 0 : tensor<4x1xf64>, tensor<4x1xf64>, tensor<4x1xf64>\n"
                  "    %s = sojourn.reduce_sum %x, dims = [0, 1] : tensor<12x1xf64>\n"
                  "    return %s, %x1, %s : tensor<f64>, tensor<4x1xf64>, tensor<f64>\n  }\n}\n");
  }

  StepRequest step(uint64_t id) const {
    StepRequest request;
    request.results = {id, id + 1};
    return request;
  }
  /// The message of a client to a member. It names the tables of all members, with their versions.
  std::string bytesFor(size_t role, StepRequest request) {
    request.session = clients[role]->session;
    request.sequence = sequence;
    const runtime::EncodedProgram program = sums();
    request.hash.assign(program.hash.begin(), program.hash.end());
    request.program = program.program;
    request.debug = program.debug;
    for (size_t each = 0; each < kOwners; ++each) {
      request.tables.emplace_back("t", llvm::cantFail(owners[each]->dataset("t")).version);
    }
    return stepBytes(request);
  }
  /// Sends to all at once; the error of each.
  std::vector<std::string> send(const std::vector<std::string> &messages) {
    std::vector<std::string> errors(kOwners, "not sent");
    std::vector<std::thread> threads;
    published.assign(kOwners, "");
    for (size_t role = 0; role < kOwners; ++role) {
      if (!messages[role].empty()) {
        threads.emplace_back([&, role] {
          Reply reply(owners[role]->handle(messages[role]));
          errors[role] = reply.error();
          published[role] = errors[role].empty() ? reply.published(0) : "";
        });
      }
    }
    for (std::thread &thread : threads) {
      thread.join();
    }
    return errors;
  }
  std::vector<std::string> sendAll(const StepRequest &request) {
    std::vector<std::string> messages;
    for (size_t role = 0; role < kOwners; ++role) {
      messages.push_back(bytesFor(role, request));
    }
    return send(messages);
  }
  void expectNothingKept() const {
    for (const auto &owner : owners) {
      EXPECT_EQ(owner->liveHandles(), 0u);
    }
  }

  std::array<World, kOwners> worlds;
  std::array<std::array<double, 4>, kOwners> rows{};
  std::vector<std::unique_ptr<Owner>> owners;
  std::vector<signing::PublicKey> keys;
  std::vector<std::unique_ptr<Client>> clients;
  std::vector<std::string> published;
  uint64_t sequence = 1;
};

constexpr double kSum = 4 * (0 + 10 + 20) + 3 * 6;

} // namespace

TEST_F(JointSteps, AreComputedByAllMembers) {
  join();
  EXPECT_EQ(sendAll(step(5)), std::vector<std::string>(kOwners, ""));
  for (size_t role = 0; role < kOwners; ++role) {
    EXPECT_EQ(published[role], bytes(std::vector<double>{kSum})) << role;
    EXPECT_EQ(owners[role]->liveHandles(), role == 1 ? 2u : 1u) << "the rows are at member 1 alone";
  }
  sequence = 2;
  StepRequest next = step(7);
  next.releases = {5, 6}; // one of which two of the members do not have
  EXPECT_EQ(sendAll(next), std::vector<std::string>(kOwners, ""));
  EXPECT_EQ(owners[0]->liveHandles(), 1u);
  EXPECT_EQ(owners[1]->liveHandles(), 2u);
  for (size_t role = 0; role < kOwners; ++role) {
    EXPECT_EQ(clients[role]->send(releaseBytes(clients[role]->session, {7, 8})).error(), "");
    EXPECT_NE(clients[role]->send(releaseBytes(clients[role]->session, {8})).error(), "");
  }
  expectNothingKept();
}

TEST_F(JointSteps, ARepeatedMessageIsAnsweredFromMemory) {
  join();
  const std::string again = bytesFor(1, step(5));
  EXPECT_EQ(sendAll(step(5)), std::vector<std::string>(kOwners, ""));
  EXPECT_EQ(send({"", again, ""})[1], "") << "no other member takes part";
  EXPECT_EQ(published[1], bytes(std::vector<double>{kSum}));
  EXPECT_EQ(owners[1]->stepsHandled(), 1u);
}

TEST_F(JointSteps, MembersThatWereToldDifferentThingsCommitNothing) {
  join();
  ASSERT_EQ(sendAll(step(3)), std::vector<std::string>(kOwners, ""));
  const auto kept = [&](size_t role) { return owners[role]->liveHandles(); };
  sequence = 2;
  std::vector<StepRequest> others(8, step(5));
  others[0].results = {5, 9};
  others[1].releases = {3};
  others[2].deadlineMs = 77;
  others[3].spending.clip = 3;
  others[4].repetitions = {step(9)};
  others[5].releaseRange = {3, 1};
  others[6].results.clear();
  others[6].resultRange = {5, static_cast<uint32_t>(step(5).results.size())};
  StepRequest one = step(5);
  for (size_t at = 0; at < others.size(); ++at) {
    StepRequest &other = others[at];
    one.attempt = other.attempt = at;
    const bool isAttempt = at + 1 == others.size();
    if (isAttempt) {
      other = one;
      other.attempt = at + 1; // the others wait for this attempt
    }
    std::vector<std::string> messages{bytesFor(0, one), bytesFor(1, other), bytesFor(2, one)};
    const auto errors = send(messages);
    for (size_t role = 0; role < kOwners; ++role) {
      EXPECT_NE(errors[role], "") << at << " " << role;
    }
    // The member that sees it first says so; the others may hear only that it ended the step.
    const bool isOfDigest = std::any_of(errors.begin(), errors.end(), [&](const std::string &error) {
      return error.find(isAttempt ? "another attempt at this one" : "was sent another message of this step") !=
             std::string::npos;
    });
    EXPECT_TRUE(isOfDigest) << at << " " << errors[0] << " | " << errors[1];
    EXPECT_EQ(std::vector<size_t>({kept(0), kept(1), kept(2)}), std::vector<size_t>({1, 2, 1}))
        << "those of the first step";
  }
  one.attempt = others.size() + 1;
  EXPECT_EQ(sendAll(one), std::vector<std::string>(kOwners, "")) << "the number is not used up";
}

TEST_F(JointSteps, ATableIsSharedAnewAfterItsNameWasFree) {
  join();
  EXPECT_EQ(sendAll(step(5)), std::vector<std::string>(kOwners, ""));
  ASSERT_EQ(textOf(owners[2]->removeDataset("t")), "");
  registerTable(2);
  sequence = 2;
  const auto errors = sendAll(step(7));
  EXPECT_NE(errors[2].find("does not share it with member 0"), std::string::npos) << errors[2];
  EXPECT_EQ(errors[0].find("Peer: member 2"), 0u) << errors[0];
}

TEST_F(JointSteps, AnAttemptThatOneMemberFailedRunsAtNone) {
  join();
  const StepRequest one = step(5);
  StepRequest wrong = one;
  wrong.results = {5};
  EXPECT_NE(send({bytesFor(0, wrong), "", ""})[0], "");
  std::vector<std::string> errors = sendAll(one); // the same attempt
  EXPECT_NE(errors[0].find("attempt 0 at message 1 of the group has begun here before"), std::string::npos)
      << errors[0];
  EXPECT_NE(errors[1], "");
  EXPECT_NE(errors[2], "");
  expectNothingKept();
  StepRequest next = one;
  next.attempt = 1;
  EXPECT_EQ(sendAll(next), std::vector<std::string>(kOwners, ""));
}

TEST_F(JointSteps, AProgramFromBeforeTheGroupIsAskedForAgain) {
  EXPECT_NE(send({bytesFor(0, step(5)), "", ""})[0], "") << "a session without a group plays no roles";
  const auto encoded = encode("module attributes {sojourn.promotion = \"torch\", sojourn.phase = \"core\"} {\n"
                              "  func.func @step(%x: tensor<f64> {sojourn.kind = \"upload\"}) -> (tensor<f64> "
                              "{sojourn.result = \"keep\"}) {\n    return %x : tensor<f64>\n  }\n}\n");
  StepRequest alone;
  alone.session = clients[0]->session;
  alone.sequence = 1;
  alone.hash.assign(encoded.hash.begin(), encoded.hash.end());
  alone.program = encoded.program;
  alone.debug = encoded.debug;
  alone.results = {3, 4}; // one too many
  EXPECT_NE(clients[0]->send(stepBytes(alone)).error(), "");
  join();
  alone.program = alone.debug = "";
  alone.results = {3};
  const Reply reply = clients[0]->send(stepBytes(alone));
  EXPECT_EQ(reply.kind(), wire::ReplyBody_NeedProgram) << reply.error();
}

TEST_F(JointSteps, AFailureOfOneMemberIsAFailureOfAll) {
  join();
  ASSERT_EQ(textOf(owners[2]->share("t", {keys[0]}, Sharing::none)), "");
  const auto errors = sendAll(step(5));
  EXPECT_NE(errors[2].find("Refused: "), std::string::npos) << errors[2];
  EXPECT_NE(errors[2].find("does not share it with member 0"), std::string::npos) << errors[2];
  for (size_t role : {0u, 1u}) {
    EXPECT_EQ(errors[role].find("Peer: member 2"), 0u) << errors[role];
  }
  expectNothingKept();
  ASSERT_EQ(textOf(owners[2]->share("t", {keys[0]}, Sharing::clear)), "");
  StepRequest again = step(5);
  again.attempt = 1;
  EXPECT_EQ(sendAll(again), std::vector<std::string>(kOwners, ""));
}

TEST_F(JointSteps, PrivateTablesTakeNoPart) {
  join();
  // Set by another process of the data owner, for example.
  RegisterOptions options;
  options.name = "p";
  options.policy = Policy::privateOnly;
  options.bounds["a"] = {0, 100};
  options.subject = "";
  DatasetSource source;
  source.arrays = {{"a", runtime::Element::f64, 4, rows[1].data(), {}}};
  ASSERT_EQ(textOf(owners[1]->registerDataset(source, options)), "");
  ASSERT_EQ(textOf(owners[1]->share("p", {keys[0], keys[2]}, Sharing::clear)), "");
  StepRequest request = step(5);
  std::vector<std::string> messages;
  for (size_t role = 0; role < kOwners; ++role) {
    request.session = clients[role]->session;
    request.sequence = 1;
    const runtime::EncodedProgram program = sums();
    request.hash.assign(program.hash.begin(), program.hash.end());
    request.program = program.program;
    request.tables.clear();
    for (size_t each = 0; each < kOwners; ++each) {
      const std::string name = each == 1 ? "p" : "t";
      request.tables.emplace_back(name.c_str(), llvm::cantFail(owners[each]->dataset(name)).version);
    }
    messages.push_back(stepBytes(request));
  }
  const auto errors = send(messages);
  EXPECT_NE(errors[1].find("dataset 'p' is private"), std::string::npos) << errors[1];
  EXPECT_EQ(errors[0].find("Peer: member 1"), 0u) << errors[0];
  expectNothingKept();
}

TEST_F(JointSteps, TablesSharedAsSumsAreMasked) {
  for (size_t other : {0u, 2u}) {
    ASSERT_EQ(textOf(owners[1]->share("t", {keys[other]}, Sharing::sums)), "");
  }
  for (size_t role = 0; role < kOwners; ++role) { // member 1 asks for masks
    const Reply joined = clients[role]->send(joinBytes(clients[role]->session, role, std::string(32, 'n'), keys));
    ASSERT_EQ(joined.error(), "");
    EXPECT_EQ(joined.root->body_as_Joined()->masked(), role == 1);
  }
  auto errors = sendAll(step(5));
  EXPECT_NE(errors[1].find("is shared with member 0"), std::string::npos) << errors[1];
  EXPECT_NE(errors[1].find("this group shows sums without masks"), std::string::npos) << errors[1];
  StepRequest masked = step(5);
  masked.masked = true;
  masked.attempt = 1;
  errors = send({bytesFor(0, masked), bytesFor(1, step(5)), bytesFor(2, masked)}); // another message to one of them
  for (const std::string &error : errors) {
    EXPECT_NE(error, "");
  }
  expectNothingKept();
  masked.attempt = 2;
  EXPECT_EQ(sendAll(masked), std::vector<std::string>(kOwners, ""));
  for (const std::string &each : published) {
    EXPECT_EQ(each, bytes(std::vector<double>{kSum})) << "whole numbers lie on the grid";
  }
  EXPECT_NE(llvm::cantFail(owners[1]->programs(true)).back().text.find("masked sums over roles 0, 1 and 2"),
            std::string::npos);
}

TEST_F(JointSteps, MasksAreOfGroupsAlone) {
  StepRequest masked = step(5);
  masked.masked = true;
  EXPECT_NE(send({bytesFor(0, masked), "", ""})[0].find("a step with masks is one of a group"), std::string::npos);
}

TEST_F(JointSteps, AMemberThatIsNotToldIsNotWaitedForForEver) {
  join();
  auto errors = send({bytesFor(0, step(5)), "", bytesFor(2, step(5))});
  for (size_t role : {0u, 2u}) {
    // One of both gives up first, and the other hears of it.
    const bool isFine = errors[role].find("for member 1 (the owner with key") != std::string::npos ||
                        errors[role].find("ended the step; its own reply says why") != std::string::npos;
    EXPECT_TRUE(isFine) << errors[role];
  }
  expectNothingKept();
  // What the others said of that attempt is over.
  StepRequest again = step(5);
  again.attempt = 1;
  EXPECT_EQ(sendAll(again), std::vector<std::string>(kOwners, ""));
}

TEST_F(JointSteps, AMemberThatEndsItsSessionEndsTheGroup) {
  join();
  ASSERT_EQ(clients[1]->send(byeBytes(clients[1]->session)).error(), "");
  const auto errors = send({bytesFor(0, step(5)), bytesFor(1, step(5)), bytesFor(2, step(5))});
  EXPECT_NE(errors[0].find("has left the group"), std::string::npos) << errors[0];
  EXPECT_EQ(errors[1].find("Session: "), 0u) << errors[1];
  expectNothingKept();
}

TEST_F(JointSteps, AnOwnerThatIsClosedEndsTheGroup) {
  join();
  const std::vector<std::string> messages{bytesFor(0, step(5)), "", bytesFor(2, step(5))};
  clients[1].reset();
  owners[1].reset();
  std::string error = Reply(owners[0]->handle(messages[0])).error();
  EXPECT_NE(error.find("has left the group"), std::string::npos) << error;
  owners.erase(owners.begin() + 1);
}

TEST_F(JointSteps, JoinsThatAreRefused) {
  const std::string nonce(32, 'n');
  auto refusal = [&](unsigned role, const std::string &given, const std::vector<signing::PublicKey> &members) {
    return clients[0]->send(joinBytes(clients[0]->session, role, given, members)).error();
  };
  EXPECT_NE(refusal(1, nonce, keys).find("member 1 of the group has another key"), std::string::npos);
  EXPECT_NE(refusal(3, nonce, keys).find("member 3 of the group has another key"), std::string::npos);
  EXPECT_NE(refusal(0, "short", keys).find("a nonce of 5 bytes"), std::string::npos);
  EXPECT_NE(refusal(0, nonce, {keys[0]}).find("has 1 members"), std::string::npos);
  EXPECT_NE(refusal(0, nonce, std::vector<signing::PublicKey>(17, keys[0])).find("has 17 members"), std::string::npos);
  EXPECT_NE(refusal(0, nonce, {keys[0], keys[1], keys[1]}).find("more than once"), std::string::npos);
  signing::PublicKey stranger = keys[1];
  stranger[0] ^= 1;
  EXPECT_NE(refusal(0, nonce, {keys[0], stranger}).find("does not know the owner with key"), std::string::npos);
  join();
  EXPECT_NE(refusal(0, nonce, keys).find("joins a group once"), std::string::npos);
  Client other(*owners[0], "mallory");
  EXPECT_NE(other.send(joinBytes(other.session, 0, nonce, keys)).error().find("in the group already"),
            std::string::npos);
  EXPECT_EQ(sendAll(step(5)), std::vector<std::string>(kOwners, "")) << "the group is as it was";
  World world;
  Owner alone(world.environment());
  Client client(alone);
  EXPECT_NE(client.send(joinBytes(client.session, 0, nonce, keys)).error().find("takes part in no groups"),
            std::string::npos);
}

TEST_F(JointSteps, ProgramsOfOtherGroupsAreRefused) {
  join();
  const runtime::EncodedProgram single = publishProgram();
  StepRequest request;
  request.session = clients[0]->session;
  request.hash.assign(single.hash.begin(), single.hash.end());
  request.program = single.program;
  request.states = {4};
  const std::string error = Reply(owners[0]->handle(stepBytes(request))).error();
  EXPECT_NE(error.find("the program is of 1 owner, the group of this session has 3"), std::string::npos) << error;
  Client other(*owners[0], "outside");
  StepRequest pooled;
  pooled.results = {1, 2};
  for (size_t each = 0; each < kOwners; ++each) { // all roles, at one owner
    pooled.tables.emplace_back("t", llvm::cantFail(owners[0]->dataset("t")).version);
  }
  EXPECT_EQ(other.run(sums(), pooled).error(), "");
}

TEST_F(JointSteps, AStepWithoutExchangesWaitsForMembersThatHaveBegun) {
  join();
  const runtime::EncodedProgram program = encode(
      "module attributes {sojourn.parties = 3 : i64, sojourn.promotion = \"torch\", sojourn.phase = \"core\"} {\n"
      "  func.func @step(%x: tensor<3xf32> {sojourn.kind = \"upload\"}) -> (tensor<3xf32> {sojourn.result = "
      "\"publish\"}) {\n    return %x : tensor<3xf32>\n  }\n}\n");
  auto bytes = [&](size_t role, uint64_t attempt) {
    StepRequest request;
    request.session = clients[role]->session;
    request.attempt = attempt;
    request.hash.assign(program.hash.begin(), program.hash.end());
    request.program = program.program;
    request.uploads = {f32({3}, {1, 2, 3})};
    return stepBytes(request);
  };
  const auto errors = send({bytes(0, 0), "", bytes(2, 0)});
  EXPECT_NE(errors[0].find("for member 1") == std::string::npos ? errors[2].find("for member 1")
                                                                : errors[0].find("for member 1"),
            std::string::npos)
      << errors[0] << errors[2];
  EXPECT_EQ(send({bytes(0, 1), bytes(1, 1), bytes(2, 1)}), std::vector<std::string>(kOwners, ""));
}

TEST_F(JointSteps, AMemberLooksAtAccessToItsOwnTables) {
  const auto key = signing::SigningKey::generate();
  for (size_t at = 0; at < kOwners; ++at) {
    ASSERT_EQ(textOf(owners[at]->addClient("ada", key.publicKey())), "");
    if (at != 1) {
      ASSERT_EQ(textOf(owners[at]->changeAccess("t", {"ada"}, {})), "");
    }
    clients[at] = std::make_unique<Client>(identified(*owners[at], key));
  }
  join();
  auto send = [&](uint64_t attempt) {
    StepRequest request = step(5);
    request.attempt = attempt;
    std::vector<std::string> errors(kOwners);
    std::vector<std::thread> threads;
    for (size_t role = 0; role < kOwners; ++role) {
      threads.emplace_back([&, role, bytes = bytesFor(role, request)] {
        errors[role] = Reply(owners[role]->handle(bytes, Peer::client)).error();
      });
    }
    for (std::thread &thread : threads) {
      thread.join();
    }
    return errors;
  };
  const auto errors = send(0);
  EXPECT_NE(errors[1].find("client 'ada' has no access to table 't'"), std::string::npos) << errors[1];
  EXPECT_EQ(errors[0].find("Peer: member 1"), 0u) << errors[0];
  ASSERT_EQ(textOf(owners[1]->changeAccess("t", {"ada"}, {})), "");
  EXPECT_EQ(send(1), std::vector<std::string>(kOwners, ""));
}

std::string borrowBytes(uint64_t session, uint64_t from, const std::vector<uint64_t> &handles,
                        const std::vector<uint64_t> &as) {
  flatbuffers::FlatBufferBuilder builder;
  auto given = builder.CreateVector(handles), names = builder.CreateVector(as);
  return finish(builder, wire::RequestBody_Borrow, wire::CreateBorrow(builder, session, from, given, names).Union());
}

TEST_F(JointSteps, ValuesOfOtherClientsAreNotBorrowed) {
  World world;
  Environment environment = world.environment();
  environment.isNeighbour = true;
  Owner owner(environment);
  const signing::PublicKey other = keys[1], own = *signing::parseKey(owner.key());
  const auto alice = signing::SigningKey::generate(), mallory = signing::SigningKey::generate();
  ASSERT_EQ(textOf(owner.addClient("alice", alice.publicKey())), "");
  ASSERT_EQ(textOf(owner.addClient("mallory", mallory.publicKey())), "");
  Client victim = identified(owner, alice), again = identified(owner, alice), thief = identified(owner, mallory);
  StepRequest keep;
  keep.uploads = {f32({3}, {1, 2, 3})};
  keep.results = {7};
  ASSERT_EQ(victim.run(keepProgram(), keep).error(), "");
  auto borrow = [&](Client &by, std::vector<uint64_t> handles, std::vector<uint64_t> as) {
    return by.send(borrowBytes(by.session, victim.session, handles, as)).error();
  };
  EXPECT_NE(borrow(again, {7}, {1}).find("neither of these two is one"), std::string::npos);
  for (Client *client : {&again, &thief}) {
    const std::string nonce(32, client == &thief ? 't' : 'a');
    ASSERT_EQ(client->send(joinBytes(client->session, 0, nonce, {own, other})).error(), "");
  }
  EXPECT_NE(borrow(thief, {7}, {1}).find("no session of this client has handle 7"), std::string::npos);
  EXPECT_NE(borrow(again, {8}, {1}).find("no session of this client has handle 8"), std::string::npos);
  EXPECT_NE(borrow(again, {7}, {1, 2}).find("1 values of another session get 2 handles"), std::string::npos);
  EXPECT_NE(borrow(again, {7, 7}, {1, 1}).find("handle id 1 is in use"), std::string::npos);
  EXPECT_NE(borrow(again, {7, 8}, {1, 2}).find("handle 8"), std::string::npos) << "all or none";
  EXPECT_EQ(owner.liveHandles(), 1u);
  EXPECT_EQ(borrow(again, {7}, {1}), "");
  EXPECT_NE(borrow(again, {7}, {1}).find("handle id 1 is in use"), std::string::npos);
  EXPECT_EQ(again.send(borrowBytes(again.session, 0, {7}, {2})).error(), "");
  EXPECT_EQ(owner.liveHandles(), 2u);
  ASSERT_EQ(victim.send(byeBytes(victim.session)).error(), "");
  EXPECT_EQ(owner.liveHandles(), 1u) << "the borrowed one stays";
  // Out of the group, and into others: those of its members alone.
  Client plain = identified(owner, alice), same = identified(owner, alice), wider = identified(owner, alice);
  const auto take = [&](Client &by, const Client &from, std::vector<uint64_t> handles, std::vector<uint64_t> as) {
    return by.send(borrowBytes(by.session, from.session, handles, as)).error();
  };
  EXPECT_NE(take(thief, again, {1}, {1}).find("no session of this client has handle 1"), std::string::npos);
  EXPECT_NE(take(plain, again, {2}, {5}).find("no session of this client has handle 2"), std::string::npos)
      << "another member has it";
  ASSERT_EQ(take(plain, again, {1}, {5}), "");
  EXPECT_NE(plain.send(borrowBytes(plain.session, 0, {1}, {6})).error().find("neither of these two is one"),
            std::string::npos);
  ASSERT_EQ(same.send(joinBytes(same.session, 1, std::string(32, 's'), {other, own})).error(), "");
  ASSERT_EQ(wider.send(joinBytes(wider.session, 0, std::string(32, 'w'), {own, other, keys[2]})).error(), "");
  EXPECT_EQ(take(same, plain, {5}, {3}), "");
  for (const Client *from : {&plain, &again, &same}) {
    const uint64_t handle = from == &plain ? 5 : from == &again ? 1 : 3;
    EXPECT_NE(take(wider, *from, {handle}, {9}).find("member 2 (the owner with key"), std::string::npos);
  }
  for (Client *client : {&plain, &same, &wider}) {
    ASSERT_EQ(client->send(byeBytes(client->session)).error(), "");
  }
  EXPECT_EQ(again.send(releaseBytes(again.session, {1, 2})).error(), "");
  EXPECT_EQ(owner.liveHandles(), 0u);
}

} // namespace sojourn::owner::test
