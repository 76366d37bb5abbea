// SPDX-License-Identifier: Apache-2.0
// Bytes past any client: every way in which a request may not fit, and that nothing changes then.
#include "owner/Holdings.h"
#include "test/owner/Support.h"

#include <random>

namespace sojourn::owner::test {

namespace {

struct Hostile : testing::Test {
  World world;
  Owner owner{world.environment()};
  Client client{owner};
  runtime::EncodedProgram keeping = keepProgram();

  void SetUp() override {
    registerNumbers(owner, "open", Policy::open);
    StepRequest step = good();
    step.results = {1};
    ASSERT_EQ(client.run(keeping, step).error(), "");
  }
  StepRequest good() {
    StepRequest step;
    step.uploads = {f32({3}, {1, 2, 3})};
    step.results = {2};
    return step;
  }
  void expectError(const Reply &reply, wire::ErrorCode code, const std::string &part) {
    ASSERT_NE(reply.root->body_as_Error(), nullptr) << "not an error";
    EXPECT_EQ(reply.asError().code(), code) << reply.error();
    EXPECT_NE(reply.error().find(part), std::string::npos) << "'" << reply.error() << "' lacks '" << part << "'";
    EXPECT_EQ(owner.liveHandles(), 1u);
  }
  void expectRefusal(const StepRequest &step, wire::ErrorCode code, const std::string &part) {
    expectError(client.run(keeping, step), code, part);
  }
  /// A program in which one op has another name of the same length, hashed anew.
  runtime::EncodedProgram renamed(const std::string &op, const std::string &name) {
    auto program = encode(moduleText("(%x: tensor<3xf32> {sojourn.kind = \"upload\"}) -> "
                                     "(tensor<3xf32> {sojourn.result = \"keep\"})",
                                     "    %y = sojourn." + op + " %x : tensor<3xf32>\n    return %y : tensor<3xf32>"));
    size_t at = program.program.find(op);
    EXPECT_NE(at, std::string::npos);
    program.program.replace(at, op.size(), name);
    program.hash = runtime::hashProgram(program.program);
    return program;
  }
};

} // namespace

TEST_F(Hostile, GarbageIsMalformed) {
  std::mt19937 random(20261121);
  for (size_t size : {0, 1, 3, 4, 11, 12, 100, 4096}) {
    std::string bytes(size, '\0');
    for (char &byte : bytes) {
      byte = static_cast<char>(random());
    }
    expectError(client.send(bytes), wire::ErrorCode_Malformed, "not a request");
  }
}

TEST_F(Hostile, EveryByteFlippedAndEveryLengthCutGetsOneReply) {
  StepRequest step = good();
  step.session = client.session;
  step.hash.assign(keeping.hash.begin(), keeping.hash.end());
  step.sequence = client.steps + 1;
  std::string bytes = stepBytes(step);
  size_t done = 0, misnumbered = 0;
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string broken = bytes;
    broken[at] = static_cast<char>(broken[at] ^ 0xff);
    Reply reply(owner.handle(broken));
    misnumbered += reply.error().find("sequence number") != std::string::npos;
    if (reply.kind() == wire::ReplyBody_Done) { // some flips do no harm
      ++done;
      client.send(releaseBytes(client.session, {2}));
      step.sequence = ++client.steps + 1;
      bytes = stepBytes(step);
    }
    Reply cut(owner.handle(bytes.substr(0, at)));
    EXPECT_NE(cut.error(), "");
  }
  EXPECT_EQ(owner.liveSessions(), 1u);
  EXPECT_GE(done, step.uploads[0].data.size()) << "flips of what is uploaded do no harm";
  EXPECT_LE(misnumbered, sizeof step.sequence) << "flips are refused for the number of a step that was not flipped";
}

TEST_F(Hostile, FlippedProgramsNeverCrash) {
  auto program = readProgram();
  size_t programs = 0, debugs = 0;
  for (size_t at = 0; at < program.program.size(); ++at) {
    runtime::EncodedProgram broken = program;
    broken.program[at] = static_cast<char>(broken.program[at] ^ (1 << (at % 8)));
    broken.hash = runtime::hashProgram(broken.program);
    StepRequest step;
    step.tables = {"open"};
    step.results = {2};
    Reply reply = client.run(broken, step);
    if (reply.error().empty()) {
      ++programs;
      client.send(releaseBytes(client.session, {2}));
    }
  }
  for (size_t at = 0; at < program.debug.size(); ++at) {
    runtime::EncodedProgram broken = program;
    broken.debug[at] = static_cast<char>(broken.debug[at] ^ (1 << (at % 8)));
    StepRequest step;
    step.tables = {"open"};
    step.results = {2};
    if (client.run(broken, step).error().empty()) {
      ++debugs;
      client.send(releaseBytes(client.session, {2}));
    }
  }
  EXPECT_EQ(owner.liveHandles(), 1u);
  // Where hardly any ran, hardly any check behind the first ones was met.
  EXPECT_GE(programs, 10u) << "of " << program.program.size();
  EXPECT_GE(debugs, program.debug.size() / 4) << "of " << program.debug.size();
}

TEST_F(Hostile, VersionsAreNamed) {
  expectError(client.send(helloBytes("x", 1)), wire::ErrorCode_Version, "protocol version 1, this owner reads 4");
  expectError(client.send(helloBytes("x", sojourn::wire::kProtocolVersion, 9)), wire::ErrorCode_Version,
              "this owner reads 3");
  expectError(client.send(helloBytes("x", sojourn::wire::kProtocolVersion, runtime::kFormatVersion, 7)),
              wire::ErrorCode_Version, "dialect version 7");
}

TEST_F(Hostile, UnknownSessions) {
  StepRequest step = good();
  Client ghost = client;
  ghost.session ^= 1;
  expectError(ghost.run(keeping, step), wire::ErrorCode_Session, "unknown session");
  expectError(client.send(releaseBytes(0, {1})), wire::ErrorCode_Session, "unknown session");
  EXPECT_EQ(client.send(byeBytes(12345)).error(), "");
}

TEST_F(Hostile, HandlesOfAnotherSessionDoNotExist) {
  Client other(owner, "mallory");
  StepRequest step;
  step.states = {1};
  expectError(other.run(publishProgram(), step), wire::ErrorCode_Handle, "no handle 1");
  expectError(other.send(releaseBytes(other.session, {1})), wire::ErrorCode_Handle, "no such handle");
  EXPECT_EQ(client.run(publishProgram(), step).error(), "");
}

TEST_F(Hostile, CountsOfBindings) {
  StepRequest step = good();
  step.uploads.clear();
  expectRefusal(step, wire::ErrorCode_Malformed, "binds 0 uploads, the program has 1");
  step = good();
  step.states = {1};
  expectRefusal(step, wire::ErrorCode_Malformed, "binds 1 states, the program has 0");
  step = good();
  step.slots = {0};
  expectRefusal(step, wire::ErrorCode_Malformed, "slots");
  step = good();
  step.seeds = {0};
  expectRefusal(step, wire::ErrorCode_Malformed, "seeds");
  step = good();
  step.tables = {"open"};
  expectRefusal(step, wire::ErrorCode_Malformed, "tables");
  step = good();
  step.results = {};
  expectRefusal(step, wire::ErrorCode_Malformed, "kept results");
}

TEST_F(Hostile, ShapesOfUploads) {
  StepRequest step = good();
  step.uploads = {f32({4}, {1, 2, 3, 4})};
  expectRefusal(step, wire::ErrorCode_Malformed, "upload 0 is 4xf32");
  step.uploads = {f32({3, 1}, {1, 2, 3})};
  expectRefusal(step, wire::ErrorCode_Malformed, "the program expects 3xf32");
  step.uploads = {f32({3}, {1, 2})};
  expectRefusal(step, wire::ErrorCode_Malformed, "in 8 bytes");
  step.uploads = {{static_cast<uint8_t>(runtime::Element::i32), {3}, bytes<int32_t>({1, 2, 3})}};
  expectRefusal(step, wire::ErrorCode_Malformed, "upload 0 is 3xi32");
  step.uploads = {{200, {3}, bytes<int32_t>({1, 2, 3})}};
  expectRefusal(step, wire::ErrorCode_Malformed, "element 200");
  step.uploads = {{8, {-3}, ""}};
  expectRefusal(step, wire::ErrorCode_Malformed, "upload 0");
}

TEST_F(Hostile, BooleansAreZeroOrOne) {
  auto program = encode(moduleText("(%x: tensor<3xi1> {sojourn.kind = \"upload\"}) -> "
                                   "(tensor<3xi1> {sojourn.result = \"publish\"})",
                                   "    %y = sojourn.not %x : tensor<3xi1>\n"
                                   "    return %y : tensor<3xi1>"));
  StepRequest step;
  step.uploads = {{0, {3}, std::string("\1\0\2", 3)}};
  expectError(client.run(program, step), wire::ErrorCode_Malformed, "booleans other than 0 and 1");
  step.uploads[0].data = std::string("\1\0\1", 3);
  EXPECT_EQ(client.run(program, step).published(0), std::string("\0\1\0", 3));
}

TEST_F(Hostile, TypesOfStates) {
  auto program = encode(moduleText("(%x: tensor<4xf32> {sojourn.kind = \"state\"}) -> "
                                   "(tensor<4xf32> {sojourn.result = \"publish\"})",
                                   "    return %x : tensor<4xf32>"));
  StepRequest step;
  step.states = {1};
  expectError(client.run(program, step), wire::ErrorCode_Malformed, "handle 1 is 3xf32, the program expects 4xf32");
}

TEST_F(Hostile, HandleIdsThatCollide) {
  StepRequest step = good();
  step.results = {1};
  expectRefusal(step, wire::ErrorCode_Malformed, "handle id 1 for kept result 0 is in use");
  auto twice = encode(moduleText("(%x: tensor<3xf32> {sojourn.kind = \"upload\"}) -> "
                                 "(tensor<3xf32> {sojourn.result = \"keep\"}, tensor<3xf32> "
                                 "{sojourn.result = \"keep\"})",
                                 "    %y = sojourn.neg %x : tensor<3xf32>\n"
                                 "    return %x, %y : tensor<3xf32>, tensor<3xf32>"));
  step.results = {5, 5};
  expectError(client.run(twice, step), wire::ErrorCode_Malformed, "in use");
}

TEST_F(Hostile, RangesOfHandles) {
  StepRequest step = good();
  const std::vector<uint64_t> results = step.results;
  const uint32_t keeps = static_cast<uint32_t>(results.size());
  step.resultRange = {500, 1};
  expectRefusal(step, wire::ErrorCode_Malformed, "binds " + std::to_string(keeps + 1) + " kept results");
  step.resultRange = {500, ~uint32_t{0}};
  expectRefusal(step, wire::ErrorCode_Malformed, "kept results");
  step.results.clear();
  step.resultRange = {1, keeps};
  expectRefusal(step, wire::ErrorCode_Malformed, "handle id 1 for kept result 0 is in use");
  step.results = results;
  step.resultRange = {};
  step.releaseRange = {1, ~uint32_t{0}};
  expectRefusal(step, wire::ErrorCode_Handle, "cannot release handle 2");
  step.releaseRange = {~uint64_t{0}, 3}; // from the last number to 0 and 1
  expectRefusal(step, wire::ErrorCode_Handle, "cannot release handle 18446744073709551615");
  step.releases = {1};
  step.releaseRange = {1, 1};
  expectRefusal(step, wire::ErrorCode_Malformed, "released twice");
}

TEST_F(Hostile, OneHandleCommittedTwice) {
  auto swap =
      encode(moduleText("(%a: tensor<3xf32> {sojourn.kind = \"state\"}, %b: tensor<3xf32> {sojourn.kind = "
                        "\"state\"}) -> (tensor<3xf32> {sojourn.result = \"commit\", sojourn.target = 0 : i64}, "
                        "tensor<3xf32> {sojourn.result = \"commit\", sojourn.target = 1 : i64})",
                        "    return %b, %a : tensor<3xf32>, tensor<3xf32>"));
  StepRequest step;
  step.states = {1, 1};
  expectError(client.run(swap, step), wire::ErrorCode_Malformed, "both committed");
}

TEST_F(Hostile, Releases) {
  StepRequest step = good();
  step.releases = {99};
  expectRefusal(step, wire::ErrorCode_Handle, "cannot release handle 99");
  step.releases = {1, 1};
  expectRefusal(step, wire::ErrorCode_Malformed, "released twice");
  expectError(client.send(releaseBytes(client.session, {1, 1})), wire::ErrorCode_Malformed, "released twice");
  expectError(client.send(releaseBytes(client.session, {1, 99})), wire::ErrorCode_Handle, "99");
}

TEST_F(Hostile, Hashes) {
  StepRequest step = good();
  step.session = client.session;
  step.sequence = client.steps + 1;
  step.hash = "short";
  expectError(client.send(stepBytes(step)), wire::ErrorCode_Malformed, "5 bytes, expected 32");
  runtime::EncodedProgram lying = keeping;
  lying.hash[0] ^= 1;
  expectError(client.run(lying, good()), wire::ErrorCode_Malformed, "have hash");
}

/// One program, tables of several numbers of rows: where a part of one is empty, nothing can be drawn from it.
TEST_F(Hostile, PartsOfTablesAreCountedWhenTheyAreBound) {
  auto program = encode(moduleText(
      "(%t: !sojourn.table<?, \"a\" : f64> {sojourn.kind = \"table\"}) -> (tensor<2xi64> {sojourn.result = "
      "\"publish\"})",
      "    %p = sojourn.iota dim = 0 : tensor<2xi64>\n    %s = sojourn.constant 7 : i64\n"
      "    %i = sojourn.sample_rows %p, %s, %s of %t, split = [other 0.5, first 0.1] : tensor<2xi64>, tensor<i64>, "
      "tensor<i64>, !sojourn.table<?, \"a\" : f64> -> tensor<2xi64>\n    return %i : tensor<2xi64>"));
  for (int64_t rows : {4, 8, 9, 10, 40}) {
    std::vector<double> data(static_cast<size_t>(rows), 1);
    RegisterOptions options;
    options.name = "rows " + std::to_string(rows);
    options.policy = Policy::open;
    DatasetSource source{"", {{"a", runtime::Element::f64, rows, data.data()}}};
    EXPECT_EQ(errorText(owner.registerDataset(source, options)), "");
    StepRequest step;
    step.tables = {options.name};
    // The other side has floor(rows / 2) rows, of which a tenth is half a row from 5 on.
    if (rows < 10) {
      expectError(
          client.run(program, step), wire::ErrorCode_Dataset,
          "dataset 'rows " + std::to_string(rows) + "' has " + std::to_string(rows) +
              " rows, and the first part of a split at 0.1 of the other part of a split at 0.5 of them is empty: "
              "nothing can be drawn from it; take another fraction");
    } else {
      std::vector<int64_t> drawn = values<int64_t>(client.run(program, step).published(0));
      int64_t side = rows == 10 ? 1 : 2;
      for (int64_t at = 0; at < 2; ++at) {
        EXPECT_EQ(drawn[static_cast<size_t>(at)] >= 0, at < side) << rows;
        EXPECT_LT(drawn[static_cast<size_t>(at)], rows / 2) << rows;
      }
    }
  }
}

TEST_F(Hostile, Tables) {
  auto program = readProgram();
  StepRequest step;
  step.results = {2};
  step.tables = {"nowhere"};
  expectError(client.run(program, step), wire::ErrorCode_Dataset, "no dataset is named 'nowhere'");
  double data[] = {1, 2, 3, 4};
  int64_t whole[] = {1, 2, 3, 4};
  RegisterOptions options;
  options.name = "short";
  options.policy = Policy::open;
  DatasetSource two{"", {{"a", runtime::Element::f64, 2, data}}};
  EXPECT_EQ(errorText(owner.registerDataset(two, options)), "");
  step.tables = {"short"};
  expectError(client.run(program, step), wire::ErrorCode_Dataset, "has 2 rows");
  options.name = "other";
  DatasetSource other{"", {{"b", runtime::Element::f64, 4, data}}};
  EXPECT_EQ(errorText(owner.registerDataset(other, options)), "");
  step.tables = {"other"};
  expectError(client.run(program, step), wire::ErrorCode_Dataset, "no column 'a'");
  options.name = "integers";
  DatasetSource integers{"", {{"a", runtime::Element::i64, 4, whole}}};
  EXPECT_EQ(errorText(owner.registerDataset(integers, options)), "");
  step.tables = {"integers"};
  expectError(client.run(program, step), wire::ErrorCode_Dataset,
              "column 'a' of type i64, the program expects type f64");
}

TEST_F(Hostile, UnknownOpsAndCapturedForm) {
  for (const char *name : {"frob", "aten", "view"}) {
    Reply reply = client.run(renamed("sqrt", name), good());
    ASSERT_NE(reply.root->body_as_Error(), nullptr) << name;
    EXPECT_EQ(reply.asError().code(), wire::ErrorCode_Unsupported) << reply.error();
    EXPECT_NE(reply.error().find("is not an op of core form"), std::string::npos) << reply.error();
    EXPECT_EQ(owner.liveHandles(), 1u);
  }
  EXPECT_EQ(client.run(renamed("sqrt", "ceil"), good()).error(), "");
}

TEST_F(Hostile, TextsAreMadePrintable) {
  World other;
  Owner noted(other.environment());
  Client evil(noted, "a\x1b[2Jb\xff\n", Peer::client);
  StepRequest step = good();
  EXPECT_EQ(evil.run(keeping, step).error(), "");
  auto records = noted.programs(false);
  ASSERT_TRUE(bool(records));
  EXPECT_EQ((*records)[0].client, "'a?[2Jb?"
                                  "?'"); // in two: ??' is a trigraph
}

TEST(Bounds, RequestsSessionsHandlesAndReplies) {
  World world;
  Limits limits;
  limits.requestBytes = 4000;
  limits.sessions = 2;
  limits.handlesPerSession = 2;
  limits.handleBytes = 3 * heldBytes(12) + 3 * kProgramBytes; // for three values and their programs
  limits.replyBytes = 11;
  Owner owner(world.environment(), limits);
  Client client(owner);
  auto code = [](const Reply &reply) {
    return reply.root->body_as_Error() ? reply.asError().code() : wire::ErrorCode_Internal;
  };
  EXPECT_EQ(code(client.send(std::string(4001, ' '))), wire::ErrorCode_Limit);
  Client second(owner, "bob");
  EXPECT_EQ(code(client.send(helloBytes("carol"))), wire::ErrorCode_Limit);
  StepRequest step;
  step.uploads = {f32({3}, {1, 2, 3})};
  auto program = keepProgram();
  for (uint64_t id : {1, 2}) {
    step.results = {id};
    EXPECT_EQ(client.run(program, step).error(), "");
  }
  step.results = {3};
  EXPECT_EQ(code(client.run(program, step)), wire::ErrorCode_Limit);
  EXPECT_EQ(second.run(program, step).error(), "");
  step.results = {4};
  EXPECT_EQ(code(second.run(program, step)), wire::ErrorCode_Limit) << "four values";
  EXPECT_EQ(client.send(byeBytes(client.session)).error(), "");
  EXPECT_EQ(second.run(program, step).error(), "");
  StepRequest fetch;
  fetch.states = {3};
  EXPECT_EQ(code(second.run(publishProgram(), fetch)), wire::ErrorCode_Limit);
}

} // namespace sojourn::owner::test
