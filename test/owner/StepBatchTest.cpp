// SPDX-License-Identifier: Apache-2.0
// Goal: steps that the worker runs in one call do what they do one by one. Method: random messages of several steps at
// two owners, one of which runs each step by itself; calls are counted.
#include "owner/Accounts.h"
#include "runtime/privacy/Tail.h"
#include "test/owner/ProxyPort.h"
#include "test/owner/Support.h"
#include "test/runtime/privacy/Statistics.h"

#include <random>
#include <tuple>

using namespace sojourn;
using namespace sojourn::owner;
using namespace sojourn::owner::test;
namespace calls = sojourn_worker;
namespace schema = sojourn_wire;

namespace {

/// w <- w + s and v <- v + w; the new w is published, and v is kept.
runtime::EncodedProgram program() {
  return encode(
      moduleText("(%w: tensor<3xf32> {sojourn.kind = \"state\"}, %v: tensor<3xf32> {sojourn.kind = \"state\"}, "
                 "%s: tensor<f64> {sojourn.kind = \"slot\"}) -> "
                 "(tensor<3xf32> {sojourn.result = \"commit\", sojourn.target = 0 : i64}, "
                 "tensor<3xf32> {sojourn.result = \"commit\", sojourn.target = 1 : i64}, "
                 "tensor<3xf32> {sojourn.result = \"publish\"}, tensor<3xf32> {sojourn.result = \"keep\"})",
                 "    %f = sojourn.convert %s : tensor<f64> -> tensor<f32>\n"
                 "    %n = sojourn.add %w, %f : tensor<3xf32>, tensor<f32>\n"
                 "    %m = sojourn.add %v, %w : tensor<3xf32>, tensor<3xf32>\n"
                 "    return %n, %m, %n, %m : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>"));
}

/// Publishes the noisy sum of a batch of a private column of 64 rows, as a part of a run. `keeps`: and keeps v + v.
runtime::EncodedProgram sampled(bool keeps = false) {
  const std::string list = "tensor<" + std::to_string(*privacy::capacityFor(8)) + "xi64>";
  const std::string table = "!sojourn.table<?, \"a\" : f64>";
  const std::string numbers = "tensor<" + std::to_string(*privacy::capacityFor(8)) + "xf64>";
  return encode(moduleText(
      std::string("(") + (keeps ? "%v: tensor<3xf64> {sojourn.kind = \"state\"}, " : "") +
          "%seed: tensor<i64> {sojourn.kind = \"seed\"}, %t: " + table +
          " {sojourn.kind = \"table\"}) -> (tensor<f64> {sojourn.result = \"publish\"}" +
          (keeps ? ", tensor<3xf64> {sojourn.result = \"keep\"})" : ")"),
      "    %p = sojourn.iota dim = 0 : " + list +
          "\n    %i = sojourn.sample_rows %p, %seed, %seed of %t, expected = 8 : " + list +
          ", tensor<i64>, tensor<i64>, " + table + " -> " + list +
          "\n    %x = sojourn.read_rows %t, %i, columns = [\"a\"] : " + table + ", " + list + " -> " + numbers +
          "\n    %s = sojourn.reduce_sum %x, dims = [0] : " + numbers +
          (keeps ? "\n    %w = sojourn.add %v, %v : tensor<3xf64>, tensor<3xf64>\n    return %s, %w : tensor<f64>, "
                   "tensor<3xf64>"
                 : "\n    return %s : tensor<f64>")));
}

/// Keeps, or publishes, its argument.
runtime::EncodedProgram identity(const std::string &argument, const std::string &result) {
  return encode(moduleText("(%v: tensor<3xf64> {sojourn.kind = \"" + argument +
                               "\"}) -> (tensor<3xf64> {sojourn.result = \"" + result + "\"})",
                           "    return %v : tensor<3xf64>"));
}

void registerRows(Owner &owner) {
  std::vector<double> rows(64, 1);
  RegisterOptions options;
  options.name = "numbers";
  options.bounds = {{"a", {0, 10}}};
  options.subject = "";
  EXPECT_EQ(errorText(owner.registerDataset({"", {{"a", runtime::Element::f64, 64, rows.data()}}}, options)), "");
  EXPECT_EQ(errorText(owner.grant(kLocalClient, "numbers", 1e6, 1e-5)), "");
}

StepRequest trainingOf(size_t steps) {
  StepRequest message;
  message.tables = {"numbers"};
  message.seeds = {1};
  message.spending.run = 1;
  message.spending.steps = steps + 10;
  message.repetitions.resize(steps - 1);
  for (size_t at = 0; at + 1 < steps; ++at) {
    message.repetitions[at].seeds = {2 + at};
  }
  return message;
}

uint64_t bits(double value) {
  uint64_t word;
  std::memcpy(&word, &value, sizeof(word));
  return word;
}

/// An owner, a client, and the calls of its worker.
struct Party {
  explicit Party(size_t stepsAtOnce, unsigned threads = 0) {
    limits.stepsAtOnce = stepsAtOnce;
    limits.threads = threads;
    Environment environment = world.environment();
    environment.worker = ProxyPort::factory(hooks);
    hooks->call = [this](Parcel &parcel) { runs += kindOf(parcel) == calls::CallBody_Run; };
    owner = std::make_unique<Owner>(environment, limits);
    client = std::make_unique<Client>(*owner);
    for (uint64_t id : {1, 2}) {
      StepRequest step;
      step.uploads = {f32({3}, {0, 0, 0})};
      step.results = {id};
      EXPECT_EQ(client->run(keepProgram(), step).error(), "");
    }
  }
  std::string published(uint64_t id) {
    StepRequest step;
    step.states = {id};
    Reply reply = client->run(publishProgram(), step);
    return reply.error().empty() ? reply.published(0) : reply.error();
  }
  World world;
  Limits limits;
  std::shared_ptr<ProxyPort::Hooks> hooks = std::make_shared<ProxyPort::Hooks>();
  std::unique_ptr<Owner> owner;
  std::unique_ptr<Client> client;
  size_t runs = 0;
};

} // namespace

TEST(StepBatches, DoWhatStepsDoOneByOne) {
  std::mt19937_64 random(privacy::test::freshSeed());
  Party apart(1), together(4'096);
  const runtime::EncodedProgram step = program();
  std::vector<uint64_t> kept;
  uint64_t next = 100;
  for (int round = 0; round < 60; ++round) {
    std::vector<uint64_t> alive = kept;
    auto fill = [&](StepRequest &request) {
      request.results = {next++};
      if (random() % 12 == 0 && !alive.empty()) {
        request.results = {alive.back()}; // in use
      }
      request.slots = {bits(static_cast<double>(random() % 100))};
      if (random() % 3 == 0 && !alive.empty()) {
        const size_t at = random() % alive.size();
        request.releases = {alive[at]};
        if (random() % 6 != 0) { // else it is released again, or bound, later
          alive.erase(alive.begin() + static_cast<std::ptrdiff_t>(at));
        }
      }
      request.states = {random() % 8 == 0 && !alive.empty() ? alive[random() % alive.size()] : 1, 2};
      if (random() % 20 == 0) {
        request.states[1] = request.states[0]; // committed twice
      }
      alive.push_back(request.results[0]);
    };
    StepRequest message;
    fill(message);
    message.repetitions.resize(random() % 40);
    for (StepRequest &each : message.repetitions) {
      fill(each);
    }
    const std::string request = apart.client->request(step, message);
    StepRequest same = message;
    Reply one = apart.client->send(request);
    Reply all = together.client->run(step, same);
    apart.client->steps += one.kind() == schema::ReplyBody_Done;
    ASSERT_EQ(one.error(), all.error());
    ASSERT_EQ(one.kind(), all.kind());
    if (const auto *done = one.root->body_as_Done()) {
      const auto *found = all.root->body_as_Done();
      ASSERT_EQ(found->steps(), done->steps());
      ASSERT_EQ(found->failure() == nullptr, done->failure() == nullptr);
      if (done->failure()) {
        EXPECT_EQ(found->failure()->message()->str(), done->failure()->message()->str());
      }
      for (unsigned at = 0; at < done->published()->size(); ++at) {
        ASSERT_EQ(all.published(at), one.published(at)) << at;
      }
    }
    ASSERT_EQ(apart.owner->liveHandles(), together.owner->liveHandles());
    kept.clear();
    for (uint64_t id = 1; id < next; ++id) {
      const std::string value = apart.published(id);
      ASSERT_EQ(value, together.published(id)) << id;
      if (id > 2 && value.size() == 12) {
        kept.push_back(id);
      }
    }
    EXPECT_EQ((*apart.hooks->worker)->held().values, (*together.hooks->worker)->held().values);
    EXPECT_EQ((*apart.hooks->worker)->held().values, apart.owner->liveHandles());
  }
  EXPECT_LT(together.runs, apart.runs);
}

TEST(StepBatches, ManyStepsPayTheInterfaceOnce) {
  Party side(4'096);
  StepRequest message;
  message.states = {1, 2};
  message.slots = {bits(1)};
  message.results = {100};
  for (uint64_t at = 0; at < 999; ++at) {
    message.repetitions.emplace_back();
    message.repetitions.back().results = {101 + at};
  }
  const size_t before = side.runs;
  ASSERT_EQ(side.client->run(program(), message).root->body_as_Done()->steps(), 1'000u);
  EXPECT_LT(side.runs - before, 100u) << "each twice as many as the one before, as long as it takes milliseconds";
  EXPECT_EQ(values<float>(side.published(1)), (std::vector<float>(3, 1000)));
}

/// A run is charged for the steps that ran, and for the one that failed; those that did not begin are given back.
TEST(StepBatches, StepsThatDidNotBeginAreNotPaid) {
  auto spentBy = [](size_t stepsAtOnce, std::optional<size_t> broken) {
    Party side(stepsAtOnce);
    registerRows(*side.owner);
    StepRequest message = trainingOf(150); // more than a block of paid steps
    if (broken) {
      message.repetitions[*broken].results = {77}; // the program keeps nothing
    }
    Reply reply = side.client->run(sampled(), message);
    EXPECT_EQ(reply.error(), "");
    const uint32_t steps = reply.error().empty() ? reply.root->body_as_Done()->steps() : 0;
    side.client->send(byeBytes(side.client->session)); // what the run did not use is back
    return std::pair(steps, side.owner->accounts().budget(kLocalClient, "numbers")->epsilonLeft);
  };
  EXPECT_EQ(spentBy(1, std::nullopt), spentBy(4'096, std::nullopt));
  for (size_t broken : {20, 62, 63, 64, 100}) {
    const auto apart = spentBy(1, broken), together = spentBy(4'096, broken);
    EXPECT_EQ(apart.first, broken + 1);
    EXPECT_EQ(apart, together);
  }
}

/// The last steps that a run pays are run, whatever was staged beyond them.
TEST(StepBatches, ARunPaysAsManySteps) {
  auto paidBy = [](size_t stepsAtOnce, uint64_t planned) {
    Party side(stepsAtOnce);
    registerRows(*side.owner);
    StepRequest message = trainingOf(200);
    message.spending.steps = planned;
    Reply reply = side.client->run(sampled(), message);
    EXPECT_EQ(reply.error(), "");
    const auto *done = reply.root->body_as_Done();
    return std::tuple(done ? done->steps() : 0, done && done->failure() ? done->failure()->message()->str() : "",
                      side.owner->accounts().budget(kLocalClient, "numbers")->epsilonLeft);
  };
  for (uint64_t planned : {1, 63, 64, 65, 100, 128, 150}) {
    const auto apart = paidBy(1, planned), together = paidBy(4'096, planned);
    EXPECT_EQ(apart, together);
    EXPECT_EQ(std::get<0>(apart), planned);
    EXPECT_NE(std::get<1>(apart), "");
  }
}

/// Steps of one message whose states are public or private, each kind with a proof of its own, at an owner that has
/// place for one step: a call runs one code, and none is proved while steps wait to be run.
TEST(StepBatches, StepsWithOtherCodeRunApart) {
  std::mt19937_64 random(privacy::test::freshSeed());
  const std::string table = "!sojourn.table<?, \"a\" : f64>";
  const runtime::EncodedProgram rows =
      encode(moduleText("(%t: " + table + " {sojourn.kind = \"table\"}) -> (tensor<3xf64> {sojourn.result = \"keep\"})",
                        "    %i = sojourn.iota dim = 0 : tensor<3xi64>\n    %x = sojourn.read_rows %t, %i, columns = "
                        "[\"a\"] : " +
                            table + ", tensor<3xi64> -> tensor<3xf64>\n    return %x : tensor<3xf64>"));
  StepRequest message = trainingOf(24);
  // The third step of a message is the second of its call (calls grow from one step): it would ask for a proof there.
  auto fill = [&, id = uint64_t{200}](StepRequest &step) mutable {
    step.states = {id < 202 ? 100 : id == 202 ? 101 : 100 + random() % 2};
    step.results = {id++};
  };
  fill(message);
  for (StepRequest &each : message.repetitions) {
    fill(each);
  }
  auto outcome = [&](size_t stepsAtOnce) {
    Party side(stepsAtOnce, 1);
    registerRows(*side.owner);
    StepRequest first;
    first.tables = {"numbers"};
    first.results = {100};
    EXPECT_EQ(side.client->run(rows, first).error(), "");
    first.tables = {};
    first.uploads = {{static_cast<uint8_t>(runtime::Element::f64), {3}, bytes(std::vector<double>{1, 2, 3})}};
    first.results = {101};
    EXPECT_EQ(side.client->run(identity("upload", "keep"), first).error(), "");
    const size_t before = side.runs;
    size_t proofs = 0;
    bool waits = false; // since the last inspection, which comes before the first step of a run is paid
    side.hooks->call = [&](Parcel &parcel) {
      auto kept = aligned(parcel.bytes);
      const auto *call = flatbuffers::GetRoot<calls::Call>(kept->data());
      if (call->body_type() == calls::CallBody_Prove) {
        EXPECT_FALSE(waits);
        ++proofs;
      } else if (const auto *inspect = call->body_as_Inspect()) {
        waits |= inspect->bindings() && inspect->bindings()->words() && inspect->bindings()->words()->size() > 0;
      } else if (const auto *run = call->body_as_Run()) {
        waits = false;
        ++side.runs;
        for (const auto *part : *run->parts()) {
          EXPECT_EQ(part->code(), run->parts()->Get(0)->code());
        }
      }
    };
    Reply reply = side.client->run(sampled(true), message);
    EXPECT_EQ(proofs, 2u);
    EXPECT_EQ(reply.error(), "");
    EXPECT_EQ(reply.error().empty() ? reply.root->body_as_Done()->steps() : 0, 24u);
    std::vector<std::string> left;
    for (uint64_t id = 200; id < 224; ++id) {
      StepRequest publish;
      publish.states = {id};
      Reply value = side.client->run(identity("state", "publish"), publish);
      left.push_back(value.error().empty() ? value.published(0) : value.error());
    }
    EXPECT_LT(side.runs - before, stepsAtOnce == 1 ? 49u : 48u);
    side.client->send(byeBytes(side.client->session));
    return std::pair(left, side.owner->accounts().budget(kLocalClient, "numbers")->epsilonLeft);
  };
  EXPECT_EQ(outcome(1), outcome(4'096));
}

/// A code that the worker forgot between two parts of a call is taught again; steps before it stand.
TEST(StepBatches, ACodeForgottenBetweenStepsIsTaughtAgain) {
  Party side(4'096);
  size_t cut = 0;
  side.hooks->answer = [&](Parcel &parcel) {
    auto kept = aligned(parcel.bytes);
    const auto *ran = flatbuffers::GetRoot<calls::Answer>(kept->data())->body_as_Ran();
    if (!ran || !ran->parts() || ran->parts()->size() != 4 || cut > 0) {
      return;
    }
    flatbuffers::FlatBufferBuilder builder;
    std::vector<flatbuffers::Offset<calls::PartDone>> parts(1, calls::CreatePartDone(builder));
    auto list = builder.CreateVector(parts);
    auto failure = calls::CreateFailureDirect(builder, 0, "unknown code", nullptr, nullptr, /*is_unknown=*/true);
    builder.Finish(
        calls::CreateAnswer(builder, calls::AnswerBody_Ran, calls::CreateRan(builder, list, failure).Union()));
    parcel.bytes = {reinterpret_cast<const char *>(builder.GetBufferPointer()), builder.GetSize()};
    parcel.memory.resize(1);
    ++cut;
  };
  registerRows(*side.owner);
  StepRequest message = trainingOf(10);
  Reply reply = side.client->run(sampled(), message);
  EXPECT_EQ(reply.error(), "");
  EXPECT_EQ(reply.root->body_as_Done()->steps(), 10u);
  EXPECT_EQ(cut, 1u);
}

/// A worker that stops between steps: the rest is paid once, when it runs.
TEST(StepBatches, StepsAreTriedAgainAfterAnEarlyEnd) {
  auto spentBy = [](bool halves) {
    Party side(4'096);
    registerRows(*side.owner);
    size_t cut = 0;
    if (halves) {
      side.hooks->answer = [&](Parcel &parcel) {
        auto kept = aligned(parcel.bytes);
        const auto *ran = flatbuffers::GetRoot<calls::Answer>(kept->data())->body_as_Ran();
        if (!ran || !ran->parts() || ran->parts()->size() < 4) {
          return;
        }
        const size_t half = ran->parts()->size() / 2;
        flatbuffers::FlatBufferBuilder builder;
        std::vector<flatbuffers::Offset<calls::PartDone>> parts;
        while (parts.size() < half) {
          parts.push_back(calls::CreatePartDone(builder));
        }
        auto list = builder.CreateVector(parts);
        builder.Finish(calls::CreateAnswer(builder, calls::AnswerBody_Ran, calls::CreateRan(builder, list).Union()));
        parcel.bytes = {reinterpret_cast<const char *>(builder.GetBufferPointer()), builder.GetSize()};
        parcel.memory.resize(half);
        ++cut;
      };
    }
    StepRequest message = trainingOf(150);
    Reply reply = side.client->run(sampled(), message);
    EXPECT_EQ(reply.error(), "");
    EXPECT_EQ(reply.root->body_as_Done()->steps(), 150u);
    EXPECT_EQ(reply.root->body_as_Done()->published()->size(), 150u);
    EXPECT_EQ(cut > 0, halves);
    side.hooks->answer = nullptr;
    side.client->send(byeBytes(side.client->session));
    return side.owner->accounts().budget(kLocalClient, "numbers")->epsilonLeft;
  };
  EXPECT_EQ(spentBy(false), spentBy(true));
}
