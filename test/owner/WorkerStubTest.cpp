// SPDX-License-Identifier: Apache-2.0
// Goal: the front of an owner believes no worker. Method: a worker of this process whose answers are changed, or that
// has forgotten everything, behind an owner that serves the same requests as ever.
#include "test/owner/ProxyPort.h"
#include "test/owner/Support.h"
#include "test/runtime/privacy/Statistics.h"

#include <map>
#include <numeric>
#include <random>

using namespace sojourn;
using namespace sojourn::owner;
using namespace sojourn::owner::test;
namespace calls = sojourn_worker;

namespace {

struct Workers : testing::Test {
  World world;
  std::shared_ptr<ProxyPort::Hooks> hooks = std::make_shared<ProxyPort::Hooks>();
  std::unique_ptr<Owner> owner;
  std::optional<Client> client;
  void SetUp() override {
    Environment environment = world.environment();
    environment.worker = ProxyPort::factory(hooks);
    owner = std::make_unique<Owner>(environment);
    registerNumbers(*owner, "open", Policy::open);
    registerNumbers(*owner, "private", Policy::privateOnly);
    EXPECT_EQ(errorText(owner->grant(kLocalClient, "private", 1e6, 1e-5)), "");
    client.reset();
    client.emplace(*owner);
  }
  const WorkerService &worker() const { return **hooks->worker; }

  std::string keep(uint64_t id) {
    StepRequest step;
    step.uploads = {f32({3}, {1, 2, 3})};
    step.results = {id};
    return client->run(keepProgram(), step).error();
  }
  Reply publish(uint64_t id) {
    StepRequest step;
    step.states = {id};
    return client->run(publishProgram(), step);
  }
  Reply sum(const char *table) {
    StepRequest step;
    step.tables = {table};
    if (std::string(table) == "private") {
      step.spending.releases = {{0, 0.5, 0, false}};
    }
    return client->run(sumProgram(), step);
  }
};

} // namespace

/// What the worker holds goes with the handle, the session and the plan.
TEST_F(Workers, NothingIsLeftBehind) {
  ASSERT_EQ(keep(1), "");
  ASSERT_EQ(keep(2), "");
  EXPECT_EQ(sum("private").error(), "");
  EXPECT_EQ(worker().held().values, 2u);
  EXPECT_EQ(client->send(releaseBytes(client->session, {1})).error(), "");
  EXPECT_EQ(worker().held().values, 1u);
  client->send(uploadBytes(client->session, 9, 12, 0, "abcd"));
  EXPECT_EQ(worker().held().values, 2u);
  client->send(uploadBytes(client->session, 9, 0, 0, ""));
  EXPECT_EQ(worker().held().values, 1u);
  StepRequest last;
  last.states = {2};
  last.releases = {2};
  EXPECT_EQ(client->run(publishProgram(), last).error(), "");
  EXPECT_EQ(worker().held().values, 0u);
  // A step that fails after its run keeps nothing.
  hooks->answer = [&](Parcel &parcel) { parcel.memory.push_back(runtime::copyOf("ab", 2)); };
  EXPECT_NE(keep(4).find("Internal: the worker ran 1 parts of 1 and gave 2 values"), std::string::npos);
  hooks->answer = nullptr;
  EXPECT_EQ(worker().held().values, 0u);
  ASSERT_EQ(keep(3), "");
  client->send(byeBytes(client->session));
  EXPECT_EQ(worker().held().values, 0u);
  EXPECT_GT(worker().held().codes, 0u);
}

/// A worker that knows no code is told again, with the digest of what was proved; values are gone with it.
TEST_F(Workers, AWorkerThatForgotIsTaughtAgain) {
  EXPECT_EQ(sum("open").error(), "");
  EXPECT_EQ(sum("private").error(), "");
  size_t taught = 0;
  std::vector<std::string> digests;
  hooks->call = [&](Parcel &parcel) {
    auto kept = aligned(parcel.bytes);
    const auto *call = flatbuffers::GetRoot<calls::Call>(kept->data());
    taught += call->body_type() == calls::CallBody_Describe;
    if (const auto *prove = call->body_as_Prove()) {
      digests.emplace_back(prove->digest() ? prove->digest()->size() : 0, ' ');
    }
  };
  auto forget = [&] {
    std::vector<uint64_t> all(200);
    std::iota(all.begin(), all.end(), 0);
    flatbuffers::FlatBufferBuilder builder;
    auto codes = builder.CreateVector(all);
    auto body = calls::CreateDrop(builder, 0, codes);
    builder.Finish(calls::CreateCall(builder, calls::CallBody_Drop, body.Union()));
    WorkerCall call;
    call.bytes = {reinterpret_cast<const char *>(builder.GetBufferPointer()), builder.GetSize()};
    (*hooks->worker)->call(call);
    EXPECT_EQ(worker().held().codes, 0u);
  };
  forget();
  Reply open = sum("open");
  ASSERT_EQ(open.error(), "");
  EXPECT_EQ(values<double>(open.published(0))[0], 10);
  EXPECT_EQ(taught, 1u);
  forget();
  EXPECT_EQ(sum("private").error(), "");
  ASSERT_EQ(digests.size(), 1u);
  EXPECT_EQ(digests[0].size(), 32u) << "it must make the module that was proved";
}

/// Bytes of every kind of answer changed: the request is answered, and what was answered well stands.
TEST_F(Workers, NoAnswerIsBelieved) {
  std::mt19937_64 random(privacy::test::freshSeed());
  std::map<calls::AnswerBody, size_t> changed;
  size_t refused = 0;
  for (int round = 0; round < 400; ++round) {
    world.logged.clear();
    SetUp(); // an owner that knows no plan yet
    const size_t target = random() % 9;
    size_t number = 0;
    hooks->answer = [&](Parcel &parcel) {
      if (number++ == target) {
        ++changed[flatbuffers::GetRoot<calls::Answer>(aligned(parcel.bytes)->data())->body_type()];
        switch (random() % 8) {
        case 0: parcel.bytes.resize(random() % parcel.bytes.size()); break;
        case 1: parcel.memory.clear(); break;
        default: parcel.bytes[random() % parcel.bytes.size()] = static_cast<char>(random());
        }
      }
    };
    refused += !(keep(1) + publish(1).error() + sum("open").error() + sum("private").error()).empty();
    hooks->answer = nullptr;
    Reply after = keep(2).empty() ? publish(2) : publish(1);
    // Changed facts, which are kept, may tell of another type or of no publish at all, but of no more bytes.
    const auto *done = after.root->body_as_Done();
    if (done && done->published()->size() > 0) {
      const std::string found = after.published(0);
      EXPECT_EQ(found, bytes<float>({1, 2, 3}).substr(0, found.size()));
    }
  }
  for (auto kind :
       {calls::AnswerBody_Described, calls::AnswerBody_Proved, calls::AnswerBody_Inspected, calls::AnswerBody_Ran}) {
    EXPECT_GT(changed[kind], 5u) << calls::EnumNameAnswerBody(kind);
  }
  EXPECT_GT(refused, 50u);
}

/// Numbers of slots, on which a proof rests, are compared once more before coins are drawn.
TEST_F(Workers, AStepIsTheOneThatWasProved) {
  const auto program = encode(moduleText(
      "(%f: tensor<f64> {sojourn.kind = \"slot\"}, %t: !sojourn.table<4, \"a\" : f64> {sojourn.kind = \"table\"}) -> "
      "(tensor<f64> {sojourn.result = \"publish\"})",
      "    %i = sojourn.iota dim = 0 : tensor<4xi64>\n"
      "    %x = sojourn.read_rows %t, %i, columns = [\"a\"] : !sojourn.table<4, \"a\" : f64>, tensor<4xi64> -> "
      "tensor<4xf64>\n    %y = sojourn.mul %x, %f : tensor<4xf64>, tensor<f64>\n"
      "    %s = sojourn.reduce_sum %y, dims = [0] : tensor<4xf64>\n    return %s : tensor<f64>"));
  StepRequest step;
  step.tables = {"private"};
  step.spending.releases = {{0, 0.5, 0, false}};
  const double two = 2, huge = 1e6;
  uint64_t word = 0;
  std::memcpy(&word, &two, sizeof(word));
  step.slots = {word};
  EXPECT_EQ(client->run(program, step).error(), "");
  size_t changed = 0;
  hooks->call = [&](Parcel &parcel) {
    const std::string from(reinterpret_cast<const char *>(&two), 8), to(reinterpret_cast<const char *>(&huge), 8);
    const size_t at = kindOf(parcel) == calls::CallBody_Run ? parcel.bytes.find(from) : std::string::npos;
    if (at != std::string::npos) {
      parcel.bytes.replace(at, 8, to);
      ++changed;
    }
  };
  EXPECT_EQ(
      client->run(program, step).error(),
      "Internal: argument 0 is not what the proof of this step rests on; nothing was read. This is a defect of the "
      "owner, please report it");
  EXPECT_EQ(changed, 1u);
}

/// Published values are as large as the program says, whatever comes.
TEST_F(Workers, ShortValuesDoNotLeave) {
  ASSERT_EQ(keep(1), "");
  hooks->answer = [&](Parcel &parcel) {
    for (auto &buffer : parcel.memory) {
      buffer = runtime::copyOf("ab", 2);
    }
  };
  EXPECT_EQ(publish(1).error(), "Internal: the worker published a value of another size than its program declares. "
                                "This is a defect of the owner, please report it");
  hooks->answer = nullptr;
  EXPECT_EQ(publish(1).error(), "");
}

TEST(WorkerStubs, AnOwnerWithoutAWorkerSaysSo) {
  World world;
  Environment environment = world.environment();
  environment.worker = nullptr;
  Owner owner(environment);
  EXPECT_NE(owner.status().find("this owner has no worker"), std::string::npos);
  EXPECT_NE(Reply(owner.handle(helloBytes("ada"))).error().find("this owner has no worker"), std::string::npos);
}
