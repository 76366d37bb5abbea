// SPDX-License-Identifier: Apache-2.0
// Goal: each call of a worker does what runtime/wire/Worker.fbs says, and bytes that are no call harm nothing. Method:
// calls as bytes to a worker of this process; changed bytes; an engine whose runs wait for frames.
#include "owner/PlanCache.h"
#include "test/owner/ProxyPort.h"
#include "test/owner/Support.h"
#include "test/runtime/engine/ReferenceEngine.h"
#include "test/runtime/privacy/Statistics.h"

#include <numeric>
#include <random>
#include <sys/mman.h>
#include <unistd.h>

using namespace sojourn;
using namespace sojourn::owner;
using namespace sojourn::owner::test;
namespace calls = sojourn_worker;
using flatbuffers::FlatBufferBuilder;

namespace {

/// Calls of one worker.
struct Caller {
  explicit Caller(const runtime::Engine &engine = runtime::cpuEngine(), const WorkerOptions &options = {})
      : service(engine, options) {}

  const calls::Answer &send(FlatBufferBuilder &builder, calls::CallBody kind, flatbuffers::Offset<void> body,
                            Memory memory = {}, const std::atomic<bool> *finish = nullptr) {
    builder.Finish(calls::CreateCall(builder, kind, body));
    WorkerCall call;
    call.bytes = {reinterpret_cast<const char *>(builder.GetBufferPointer()), builder.GetSize()};
    call.memory = std::move(memory);
    call.finish = finish;
    call.progress = &progress;
    last = service.call(call);
    flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t *>(last.bytes.data()), last.bytes.size());
    EXPECT_TRUE(verifier.VerifyBuffer<calls::Answer>(nullptr));
    return *flatbuffers::GetRoot<calls::Answer>(last.bytes.data());
  }
  std::string describe(uint64_t code, const runtime::EncodedProgram &program, PriceLimits limits = {}) {
    FlatBufferBuilder builder;
    auto bounds = calls::CreatePriceLimits(builder, limits.operations, limits.arenaBytes, limits.scratchBytes,
                                           limits.planBytes, limits.callSeconds);
    auto body = calls::CreateDescribe(builder, code, bounds);
    return failure(send(builder, calls::CallBody_Describe, body.Union(),
                        {runtime::copyOf(program.program.data(), program.program.size()),
                         runtime::copyOf(program.debug.data(), program.debug.size())}));
  }
  struct Part {
    uint64_t code;
    std::vector<uint64_t> words, results, drops = {}, context = {};
  };
  /// The failure of the run, if it has one; `published` gets the values, `ran` the number of parts that ran since the
  /// answer before.
  std::string run(const std::vector<Part> &parts, const std::vector<uint64_t> &uploads = {}, Memory memory = {},
                  uint64_t within = 0, const std::atomic<bool> *finish = nullptr) {
    FlatBufferBuilder builder;
    std::vector<flatbuffers::Offset<calls::Part>> offsets;
    numbers_.clear();
    for (const Part &part : parts) {
      numbers_.insert(numbers_.end(), part.results.begin(), part.results.end());
      auto words = builder.CreateVector(part.words), results = builder.CreateVector(part.results),
           context = builder.CreateVector(part.context), drops = builder.CreateVector(part.drops);
      offsets.push_back(calls::CreatePart(builder, part.code, words, results, context, drops));
    }
    auto list = builder.CreateVector(offsets);
    auto sent = builder.CreateVector(uploads);
    auto body = calls::CreateRun(builder, 77, list, sent, 1, within);
    return outcome(send(builder, calls::CallBody_Run, body.Union(), std::move(memory), finish));
  }
  std::string resume(uint64_t run, Memory frames) {
    FlatBufferBuilder builder;
    return outcome(send(builder, calls::CallBody_Resume, calls::CreateResume(builder, run).Union(), std::move(frames)));
  }
  void drop(const std::vector<uint64_t> &values, const std::vector<uint64_t> &codes = {},
            const std::vector<uint64_t> &runs = {}) {
    FlatBufferBuilder builder;
    auto valuesVector = builder.CreateVector(values), codesVector = builder.CreateVector(codes),
         runsVector = builder.CreateVector(runs);
    auto body = calls::CreateDrop(builder, valuesVector, codesVector, runsVector);
    EXPECT_EQ(failure(send(builder, calls::CallBody_Drop, body.Union())), "");
  }
  std::string put(uint64_t value, size_t size, size_t offset, const std::string &part) {
    FlatBufferBuilder builder;
    auto body = calls::CreatePut(builder, value, size, offset);
    const calls::Answer &answer =
        send(builder, calls::CallBody_Put, body.Union(), {runtime::copyOf(part.data(), part.size())});
    if (const auto *received = answer.body_as_Received()) {
      return std::to_string(received->bytes()) + (received->is_bits() ? " bits" : "");
    }
    return failure(answer);
  }

  std::string failure(const calls::Answer &answer) {
    const auto *failed = answer.body_as_Failure();
    isUnknown = failed && failed->is_unknown();
    return failed ? failed->message()->str() : "";
  }
  std::string outcome(const calls::Answer &answer) {
    published.clear();
    const auto *waits = answer.body_as_Waits();
    const auto *done = answer.body_as_Ran();
    isWaiting = waits != nullptr;
    const auto *parts = waits ? waits->parts() : done ? done->parts() : nullptr;
    ran = parts ? parts->size() : 0;
    for (size_t at = 0; at < last.memory.size(); ++at) { // where it waits, kept values and frames, too
      const auto &buffer = last.memory[at];
      if (isWaiting || numbers_.at(at) == 0) {
        published.emplace_back(static_cast<const char *>(buffer->data()), buffer->size());
      }
    }
    isUnknown = done && done->failure() && done->failure()->is_unknown();
    return done && done->failure() ? done->failure()->message()->str() : failure(answer);
  }
  std::vector<float> numbers(size_t index) const {
    std::vector<float> all = values<float>(published.at(index));
    all.resize(3);
    return all;
  }

  WorkerService service;
  WorkerAnswer last;
  std::vector<std::string> published;
  std::vector<uint64_t> numbers_; ///< of the results of the last run
  size_t ran = 0;
  bool isUnknown = false, isWaiting = false;
  std::atomic<uint32_t> progress = 0;
};

Memory floats(std::vector<float> numbers) { return {runtime::copyOf(numbers.data(), numbers.size() * sizeof(float))}; }

/// State of f32 [3] doubled, and published as it was.
runtime::EncodedProgram doubleProgram() {
  return encode(moduleText("(%x: tensor<3xf32> {sojourn.kind = \"state\"}) -> (tensor<3xf32> {sojourn.result = "
                           "\"commit\", sojourn.target = 0 : i64}, tensor<3xf32> {sojourn.result = \"publish\"})",
                           "    %y = sojourn.add %x, %x : tensor<3xf32>, tensor<3xf32>\n"
                           "    return %y, %x : tensor<3xf32>, tensor<3xf32>"));
}

} // namespace

TEST(WorkerCalls, PartsRunOneAfterAnother) {
  Caller caller;
  ASSERT_EQ(caller.describe(1, keepProgram()), "");
  ASSERT_EQ(caller.describe(2, doubleProgram()), "");
  ASSERT_EQ(caller.run({{1, {10}, {20}}}, {10}, floats({1, 2, 3})), "");
  EXPECT_EQ(caller.service.held().values, 1u) << "an upload of a run is gone with it";
  // Each part reads the value that the one before it wrote, and drops the one before that.
  ASSERT_EQ(caller.run({{2, {20}, {21, 0}}, {2, {21}, {22, 0}, {21}}, {2, {22}, {23, 0}, {22}}}), "");
  EXPECT_EQ(caller.ran, 3u);
  EXPECT_EQ(caller.progress, 4u);
  ASSERT_EQ(caller.published.size(), 3u);
  EXPECT_EQ(caller.numbers(0), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(caller.numbers(2), (std::vector<float>{4, 8, 12}));
  ASSERT_EQ(caller.last.memory.size(), 6u) << "of each result";
  EXPECT_EQ(caller.last.memory[0], nullptr) << "21, which the second part dropped";
  EXPECT_EQ(static_cast<const float *>(caller.last.memory[4]->data())[0], 8) << "23";
  EXPECT_EQ(caller.service.held().values, 2u) << "20 and 23";
  // The first part that fails is the last one; what ran before it stands.
  EXPECT_NE(caller.run({{2, {23}, {24, 0}}, {2, {999}, {25, 0}}, {2, {24}, {26, 0}}}).find("value 999"),
            std::string::npos);
  EXPECT_EQ(caller.ran, 1u);
  EXPECT_EQ(caller.service.held().values, 3u);
  EXPECT_NE(caller.run({{2, {24}, {20, 0}}}).find("by a number in use"), std::string::npos);
  EXPECT_NE(caller.run({{2, {24}, {30}}}).find("results of another number"), std::string::npos);
  EXPECT_NE(caller.run({}).find("runs 0 parts"), std::string::npos);
  caller.drop({20, 23, 24, 24, 5}, {1, 2});
  EXPECT_EQ(caller.service.held().values + caller.service.held().codes, 0u);
  EXPECT_NE(caller.run({{2, {24}, {30, 0}}}), "");
  EXPECT_TRUE(caller.isUnknown);
}

TEST(WorkerCalls, NoPartBeginsOnceTheRunIsToEnd) {
  Caller caller;
  ASSERT_EQ(caller.describe(1, keepProgram()), "");
  std::vector<Caller::Part> parts;
  for (uint64_t number = 0; number < 4'096; ++number) {
    parts.push_back({1, {10}, {100 + number}});
  }
  const std::atomic<bool> finish = true;
  EXPECT_EQ(caller.run(parts, {10}, floats({1, 2, 3}), 0, &finish), "");
  EXPECT_EQ(caller.ran, 1u) << "the first one runs";
  caller.drop({100});
  EXPECT_EQ(caller.run(parts, {10}, floats({1, 2, 3}), 1), "");
  EXPECT_LT(caller.ran, 4'096u) << "they take more than a microsecond";
  EXPECT_GE(caller.ran, 1u);
  std::vector<uint64_t> all(4'096);
  std::iota(all.begin(), all.end(), 100);
  caller.drop(all);
  EXPECT_EQ(caller.run(parts, {10}, floats({1, 2, 3})), "");
  EXPECT_EQ(caller.ran, 4'096u);
  EXPECT_EQ(caller.service.held().values, 4'096u);
  parts.push_back({1, {10}, {9'000}});
  EXPECT_NE(caller.run(parts, {10}, floats({1, 2, 3})).find("runs 4097 parts, expected 1 to 4096"), std::string::npos);
}

TEST(WorkerCalls, UploadsComeInParts) {
  Caller caller;
  ASSERT_EQ(caller.describe(1, keepProgram()), "");
  const std::string data = bytes<float>({1, 2, 3});
  EXPECT_EQ(caller.put(5, 12, 0, data.substr(0, 4)), "4");
  EXPECT_EQ(caller.put(5, 12, 8, data.substr(8)), "4") << "a part ahead of its turn";
  EXPECT_NE(caller.run({{1, {5}, {6}}}).find("not there, incomplete"), std::string::npos);
  EXPECT_EQ(caller.put(5, 12, 4, data.substr(4)), "12");
  EXPECT_NE(caller.put(5, 12, 8, data), "12") << "outside";
  EXPECT_NE(caller.put(5, 16, 12, "abcd"), "16") << "of another size";
  EXPECT_EQ(caller.run({{1, {5}, {6}}}), "");
  EXPECT_NE(caller.put(6, 12, 0, data), "12") << "a value is no upload";
  EXPECT_EQ(caller.put(7, 4, 0, std::string("\0\1\1", 3)), "3 bits");
  EXPECT_EQ(caller.put(7, 4, 3, "\2"), "4");
}

/// Another worker goes on with the memory of values and uploads, through their memory files.
TEST(WorkerCalls, AnotherWorkerAdoptsValues) {
  Caller first(runtime::cpuEngine(), {.sharesMemory = true});
  constexpr int64_t kSize = 100'000;
  const std::string type = "tensor<" + std::to_string(kSize) + "xf32>";
  const auto keep =
      encode(moduleText("(%x: " + type + " {sojourn.kind = \"upload\"}) -> (" + type + " {sojourn.result = \"keep\"})",
                        "    return %x : " + type));
  const auto doubled = encode(
      moduleText("(%x: " + type + " {sojourn.kind = \"state\"}) -> (" + type + " {sojourn.result = \"publish\"})",
                 "    %y = sojourn.add %x, %x : " + type + ", " + type + "\n    return %y : " + type));
  std::mt19937 random(static_cast<unsigned>(privacy::test::freshSeed()));
  std::vector<float> numbers(kSize);
  for (float &number : numbers) {
    number = static_cast<float>(random() % 1'000);
  }
  const std::string data = bytes<float>(numbers);
  ASSERT_EQ(first.describe(1, keep), "");
  ASSERT_EQ(first.put(5, data.size(), 0, data.substr(0, 150'000)), "150000");
  const std::shared_ptr<runtime::Buffer> half = first.last.memory.at(0);
  ASSERT_EQ(first.put(6, data.size(), 0, data), std::to_string(data.size()));
  ASSERT_EQ(first.run({{1, {6}, {7}}}), "");
  const std::shared_ptr<runtime::Buffer> kept = first.last.memory.at(0);
  // What another process sees of them.
  for (const auto &[buffer, size] : {std::pair(half, size_t{150'000}), std::pair(kept, data.size())}) {
    ASSERT_GE(buffer->descriptor(), 0);
    void *mapped = mmap(nullptr, data.size(), PROT_READ, MAP_SHARED, buffer->descriptor(), 0);
    ASSERT_NE(mapped, MAP_FAILED);
    EXPECT_EQ(std::memcmp(mapped, data.data(), size), 0);
    munmap(mapped, data.size());
    EXPECT_NE(ftruncate(buffer->descriptor(), 0), 0) << "it keeps its size";
  }
  Caller second;
  auto adopt = [&](uint64_t value, std::vector<int64_t> dims, const std::shared_ptr<runtime::Buffer> &memory,
                   size_t received = 0, uint8_t element = static_cast<uint8_t>(runtime::Element::f32)) {
    FlatBufferBuilder builder;
    std::vector<flatbuffers::Offset<calls::AdoptedValue>> values(
        1, calls::CreateAdoptedValue(builder, value, element, builder.CreateVector(dims), received != 0, received));
    auto body = calls::CreateAdopt(builder, builder.CreateVector(values));
    return second.failure(second.send(builder, calls::CallBody_Adopt, body.Union(), {memory}));
  };
  EXPECT_NE(adopt(7, {kSize * 2}, kept).find("of another size than its memory"), std::string::npos);
  EXPECT_NE(adopt(7, {-1}, kept), "");
  EXPECT_NE(adopt(7, {int64_t{1} << 40, int64_t{1} << 40}, kept), "");
  EXPECT_NE(adopt(7, {kSize}, kept, 0, 200), "");
  EXPECT_NE(adopt(7, {kSize}, nullptr).find("no call"), std::string::npos);
  EXPECT_NE(adopt(5, {}, half, 500'000), "") << "more than it has";
  EXPECT_EQ(adopt(7, {kSize}, kept), "");
  EXPECT_NE(adopt(7, {kSize}, kept).find("numbers in use"), std::string::npos);
  EXPECT_EQ(adopt(5, {}, half, 150'000), "");
  EXPECT_EQ(second.put(5, data.size(), 150'000, data.substr(150'000)), std::to_string(data.size()));
  ASSERT_EQ(second.describe(1, keep), "");
  ASSERT_EQ(second.describe(2, doubled), "");
  ASSERT_EQ(second.run({{1, {5}, {8}}, {2, {7}, {0}}, {2, {8}, {0}}}), "");
  for (float &number : numbers) {
    number *= 2;
  }
  for (const std::string &published : second.published) {
    EXPECT_EQ(std::memcmp(published.data(), numbers.data(), data.size()), 0);
  }
  EXPECT_EQ(second.published.size(), 2u);
}

/// A value of another shape than the argument's, whose memory is smaller, is not read.
TEST(WorkerCalls, ArgumentsAreCheckedAgainstTheProgram) {
  Caller caller;
  ASSERT_EQ(caller.describe(1, keepProgram()), "");
  ASSERT_EQ(caller.describe(2, publishProgram()), "");
  ASSERT_EQ(caller.describe(3, readProgram()), "");
  EXPECT_NE(caller.run({{1, {5}, {6}}}, {5}, floats({1, 2})).find("of another type or size"), std::string::npos);
  EXPECT_NE(caller.run({{1, {}, {6}}}).find("0 arguments, the program has 1"), std::string::npos);
  EXPECT_NE(caller.run({{3, {4}, {6}}}).find("table 4, which is not mapped"), std::string::npos);
  EXPECT_NE(caller.run({{1, {5}, {6}}}, {5}, {}).find("1 uploads of 0 buffers"), std::string::npos);
  const auto pair = encode(
      moduleText("(%x: tensor<2xf32> {sojourn.kind = \"upload\"}) -> (tensor<2xf32> {sojourn.result = \"keep\"})",
                 "    return %x : tensor<2xf32>"));
  ASSERT_EQ(caller.describe(4, pair), "");
  ASSERT_EQ(caller.run({{4, {5}, {6}}}, {5}, floats({1, 2})), "");
  EXPECT_NE(caller.run({{2, {6}, {0}}}).find("of another type or size"), std::string::npos);
}

/// Numbers of a message that are published as they came, of many parts: each in memory of its own.
TEST(WorkerCalls, PublishedArgumentsOutliveTheRun) {
  Caller caller;
  ASSERT_EQ(caller.describe(1, encode(moduleText("(%s: tensor<f64> {sojourn.kind = \"slot\"}, %k: tensor<i64> "
                                                 "{sojourn.kind = \"seed\"}) -> (tensor<f64> {sojourn.result = "
                                                 "\"publish\"}, tensor<i64> {sojourn.result = \"keep\"})",
                                                 "    return %s, %k : tensor<f64>, tensor<i64>"))),
            "");
  std::vector<Caller::Part> parts;
  for (uint64_t number = 0; number < 100; ++number) {
    parts.push_back({1, {1'000 + number, 7}, {0, 10 + number}});
  }
  ASSERT_EQ(caller.run(parts), "");
  ASSERT_EQ(caller.published.size(), 100u);
  for (uint64_t number = 0; number < 100; ++number) {
    EXPECT_EQ(values<uint64_t>(caller.published[number].substr(0, 8))[0], 1'000 + number);
  }
}

/// A proof is for one module: a worker that makes another one of it does not run it.
TEST(WorkerCalls, AProofNamesItsModule) {
  Caller caller;
  const runtime::EncodedProgram sum = sumProgram();
  runtime::PrivateTerms terms;
  terms.publicArguments = {false};
  terms.tables = {{.isPrivate = true, .rows = 4, .columns = {{"a", runtime::Element::f64, runtime::Extent{0, 10}}}}};
  terms.extents.resize(1);
  terms.releases = {{.rho = 0.1}};
  auto prove = [&](uint64_t code, const std::string &text, const std::vector<uint8_t> &digest = {},
                   uint64_t operationsMost = UINT64_MAX) {
    FlatBufferBuilder builder;
    auto written = builder.CreateVector(reinterpret_cast<const uint8_t *>(text.data()), text.size());
    auto expected = digest.empty() ? 0 : builder.CreateVector(digest);
    const PriceLimits usual;
    auto limits = calls::CreatePriceLimits(builder, std::min(usual.operations, operationsMost), usual.arenaBytes,
                                           usual.scratchBytes, usual.planBytes, usual.callSeconds);
    auto body = calls::CreateProve(builder, 1, code, written, limits, expected);
    return caller.failure(caller.send(builder, calls::CallBody_Prove, body.Union()));
  };
  EXPECT_NE(prove(2, runtime::writeTerms(terms)), "");
  EXPECT_TRUE(caller.isUnknown);
  ASSERT_EQ(caller.describe(1, sum), "");
  ASSERT_EQ(prove(2, runtime::writeTerms(terms)), "");
  const auto *proved = flatbuffers::GetRoot<calls::Answer>(caller.last.bytes.data())->body_as_Proved();
  auto facts = runtime::readFacts([&] {
    FlatBufferBuilder builder;
    caller.describe(9, sum);
    const auto *described = flatbuffers::GetRoot<calls::Answer>(caller.last.bytes.data())->body_as_Described();
    return std::string(reinterpret_cast<const char *>(described->facts()->data()), described->facts()->size());
  }());
  ASSERT_TRUE(bool(facts));
  ASSERT_EQ(prove(2, runtime::writeTerms(terms)), "");
  proved = flatbuffers::GetRoot<calls::Answer>(caller.last.bytes.data())->body_as_Proved();
  auto verdict = runtime::readVerdict(
      {reinterpret_cast<const char *>(proved->verdict()->data()), proved->verdict()->size()}, *facts);
  ASSERT_TRUE(bool(verdict)) << llvm::toString(verdict.takeError());
  std::vector<uint8_t> digest(verdict->moduleDigest.begin(), verdict->moduleDigest.end());
  EXPECT_EQ(prove(3, runtime::writeTerms(terms), digest), "");
  terms.releases = {{.rho = 0.2}};
  EXPECT_NE(prove(4, runtime::writeTerms(terms), digest).find("another module than the one that was proved"),
            std::string::npos);
  EXPECT_EQ(caller.service.held().codes, 4u) << "1, 9, 2 and 3";
  EXPECT_NE(prove(5, "no terms"), "");
  ASSERT_EQ(prove(5, runtime::writeTerms(terms), {}, 1), "") << "a refusal is an answer";
  proved = flatbuffers::GetRoot<calls::Answer>(caller.last.bytes.data())->body_as_Proved();
  auto refused = runtime::readVerdict(
      {reinterpret_cast<const char *>(proved->verdict()->data()), proved->verdict()->size()}, *facts);
  ASSERT_TRUE(bool(refused)) << llvm::toString(refused.takeError());
  ASSERT_TRUE(refused->refusal.has_value());
  EXPECT_EQ(refused->refusal->code, owner::wire::ErrorCode_Limit) << refused->refusal->message;
  EXPECT_EQ(caller.service.held().codes, 4u) << "none is made of a refusal";
  terms.publicArguments = {false, true};
  terms.tables.resize(2);
  EXPECT_NE(prove(5, runtime::writeTerms(terms)).find("terms of 2 arguments, the program has 1"), std::string::npos);
}

/// Ranges of small tensors, on which a proof rests, are compared before coins are drawn.
TEST(WorkerCalls, ARunIsTheOneThatWasProved) {
  Caller caller;
  ASSERT_EQ(caller.describe(1, encode(moduleText(
                                   "(%f: tensor<4xf64> {sojourn.kind = \"upload\"}, %t: !sojourn.table<4, \"a\" : f64> "
                                   "{sojourn.kind = \"table\"}) -> (tensor<f64> {sojourn.result = \"publish\"})",
                                   "    %i = sojourn.iota dim = 0 : tensor<4xi64>\n"
                                   "    %x = sojourn.read_rows %t, %i, columns = [\"a\"] : !sojourn.table<4, \"a\" : "
                                   "f64>, tensor<4xi64> -> tensor<4xf64>\n"
                                   "    %y = sojourn.mul %x, %f : tensor<4xf64>, tensor<4xf64>\n"
                                   "    %s = sojourn.reduce_sum %y, dims = [0] : tensor<4xf64>\n"
                                   "    return %s : tensor<f64>"))),
            "");
  auto rows = std::make_shared<std::vector<double>>(std::vector<double>{1, 2, 3, 4});
  caller.service.map(
      3, std::make_shared<Dataset>(
             "t", "1", 4, std::vector<Column>{{"a", runtime::Element::f64, Bounds{0, 10}, rows->data()}}, rows));
  runtime::PrivateTerms terms;
  terms.publicArguments = {true, false};
  terms.tables = {{},
                  {.isPrivate = true, .rows = 4, .columns = {{"a", runtime::Element::f64, runtime::Extent{0, 10}}}}};
  terms.extents = {runtime::Extent{1, 2}, std::nullopt};
  terms.releases = {{.rho = 0.1}};
  const std::string text = runtime::writeTerms(terms);
  FlatBufferBuilder builder;
  auto written = builder.CreateVector(reinterpret_cast<const uint8_t *>(text.data()), text.size());
  auto body = calls::CreateProve(builder, 1, 2, written);
  ASSERT_EQ(caller.failure(caller.send(builder, calls::CallBody_Prove, body.Union())), "");
  auto run = [&](const std::vector<double> &factors) {
    return caller.run({{2, {10, 3}, {0}, {}, {5, 6}}}, {10},
                      {runtime::copyOf(factors.data(), factors.size() * sizeof(double))});
  };
  auto inspect = [&](const std::vector<double> &factors) { // as an owner does before the step is paid
    FlatBufferBuilder asked;
    auto words = asked.CreateVector(std::vector<uint64_t>{10, 3}),
         uploads = asked.CreateVector(std::vector<uint64_t>{10});
    auto look = calls::CreateInspect(asked, 2, calls::CreateBindings(asked, words, uploads));
    return caller.failure(caller.send(asked, calls::CallBody_Inspect, look.Union(),
                                      {runtime::copyOf(factors.data(), factors.size() * sizeof(double))}));
  };
  EXPECT_EQ(inspect({1, 1.5, 2, 1}), "");
  EXPECT_EQ(run({1, 1.5, 2, 1}), "");
  EXPECT_EQ(caller.published.size(), 1u);
  for (const std::vector<double> &others : {std::vector<double>{1, 1, 1, 2.5}, {0.5, 1, 1, 1}, {1, NAN, 1, 1}}) {
    EXPECT_NE(run(others).find("argument 0 is not what the proof of this step rests on"), std::string::npos);
    EXPECT_EQ(caller.ran, 0u);
    EXPECT_NE(inspect(others).find("argument 0 is not what the proof of this step rests on"), std::string::npos);
  }
}

/// Terms of every kind come back as they went.
TEST(WorkerCalls, TermsAsBytes) {
  runtime::PrivateTerms terms;
  terms.noiseMultiplier = 1.25;
  terms.clip = 0.5;
  terms.metricBound = 7;
  terms.metricShare = 0.125;
  terms.perLayer = terms.lossIsSum = true;
  terms.releases = {{1, 2, 0, false}, {3, 0, 4, true}};
  terms.publicArguments = {true, false, true};
  terms.tables = {
      {}, {true, 4, {{"a", runtime::Element::f64, runtime::Extent{-1, 1}}, {"b", runtime::Element::i64, {}}}}, {}};
  terms.slots = {5, UINT64_MAX};
  terms.extents = {runtime::Extent{-2, 2}, std::nullopt, std::nullopt};
  const std::string text = runtime::writeTerms(terms);
  auto read = runtime::readTerms(text);
  ASSERT_TRUE(bool(read)) << llvm::toString(read.takeError());
  EXPECT_EQ(read->key(), terms.key());
  EXPECT_EQ(read->tables, terms.tables);
  EXPECT_EQ(read->extents, terms.extents);
  EXPECT_EQ(read->publicArguments, terms.publicArguments);
  EXPECT_EQ(read->slots, terms.slots);
  for (size_t at = 0; at < text.size(); ++at) { // no byte harms
    for (int change : {1, 0x80, 0xFF}) {
      std::string broken = text;
      broken[at] = static_cast<char>(broken[at] ^ change);
      if (auto found = runtime::readTerms(broken); !found) {
        llvm::consumeError(found.takeError());
      }
    }
  }
}

namespace {

/// Sends its first argument, and computes with what comes in its place.
class WaitingEngine final : public runtime::test::ReferenceEngine {
  struct Rest final : runtime::Suspended {
    llvm::Expected<runtime::RunOutcome> resume(llvm::ArrayRef<std::shared_ptr<runtime::Buffer>> came,
                                               const runtime::RunOptions &) override {
      if (came.size() != 1 || came[0]->size() < arguments[0].tensor.type.bytes()) {
        return runtime::makeError(runtime::ErrorCode::Execution, "the frame is too short");
      }
      arguments[0].tensor.buffer = came[0];
      auto found = code->run(arguments, {});
      return found ? llvm::Expected<runtime::RunOutcome>(runtime::RunOutcome{std::move(*found), nullptr})
                   : found.takeError();
    }
    std::vector<runtime::Binding> arguments;
    const runtime::Code *code = nullptr;
  };
  struct Waiting final : runtime::Code {
    Waiting(const runtime::Engine &engine, std::unique_ptr<Code> inner) : Code(engine), inner(std::move(inner)) {}
    llvm::ArrayRef<runtime::ArgSpec> args() const override { return inner->args(); }
    llvm::ArrayRef<runtime::ResultSpec> results() const override { return inner->results(); }
    runtime::RunMemory runMemory() const override { return inner->runMemory(); }
    llvm::ArrayRef<runtime::LibraryCalls> libraryCalls() const override { return {}; }
    size_t bytes() const override { return inner->bytes(); }
    llvm::Expected<std::vector<runtime::HostTensor>> run(llvm::ArrayRef<runtime::Binding> arguments,
                                                         const runtime::RunOptions &options) const override {
      return inner->run(arguments, options);
    }
    llvm::Expected<runtime::RunOutcome> start(llvm::ArrayRef<runtime::Binding> arguments,
                                              const runtime::RunOptions &) const override {
      auto rest = std::make_unique<Rest>();
      rest->arguments.assign(arguments.begin(), arguments.end());
      rest->code = inner.get();
      const runtime::HostTensor &first = arguments[0].tensor;
      rest->frames = {runtime::copyOf(first.buffer->data(), first.type.bytes())};
      return runtime::RunOutcome{{}, std::move(rest)};
    }
    const std::unique_ptr<Code> inner;
  };
  llvm::Expected<std::unique_ptr<runtime::Code>> make(mlir::ModuleOp coreModule) const override {
    auto code = inner.prepare(coreModule);
    return code ? llvm::Expected<std::unique_ptr<runtime::Code>>(std::make_unique<Waiting>(*this, std::move(*code)))
                : code.takeError();
  }
  runtime::test::ReferenceEngine inner;
};

} // namespace

/// A run answers that it waits, with frames to send, and goes on with those that came: part by part.
TEST(WorkerCalls, RunsWaitForFrames) {
  WaitingEngine engine;
  Caller caller(engine);
  ASSERT_EQ(caller.describe(1, doubleProgram()), "");
  ASSERT_EQ(caller.describe(2, keepProgram()), "");
  ASSERT_EQ(caller.run({{2, {10}, {20}}, {1, {20}, {21, 0}}}, {10}, floats({1, 2, 3})), "");
  ASSERT_TRUE(caller.isWaiting);
  EXPECT_EQ(caller.numbers(0), (std::vector<float>{1, 2, 3})) << "the frame";
  EXPECT_EQ(caller.service.held().runs, 1u);
  EXPECT_NE(caller.resume(78, floats({0, 0, 0})), "") << "another run";
  ASSERT_EQ(caller.resume(77, floats({4, 5, 6})), "");
  ASSERT_TRUE(caller.isWaiting) << "the second part";
  EXPECT_EQ(caller.ran, 1u) << "the first one is told at once: a worker that ends loses nothing of it";
  ASSERT_EQ(caller.published.size(), 2u);
  EXPECT_EQ(caller.numbers(0), (std::vector<float>{4, 5, 6})) << "the value that the first one kept";
  EXPECT_EQ(caller.numbers(1), (std::vector<float>{4, 5, 6})) << "the frame of the second one, which has it";
  caller.numbers_.erase(caller.numbers_.begin()); // of the first one
  ASSERT_EQ(caller.resume(77, floats({7, 8, 9})), "");
  EXPECT_FALSE(caller.isWaiting);
  EXPECT_EQ(caller.ran, 1u) << "the second one";
  EXPECT_EQ(caller.numbers(0), (std::vector<float>{7, 8, 9})) << "published";
  EXPECT_EQ(caller.service.held().runs, 0u);
  EXPECT_NE(caller.resume(77, floats({7, 8, 9})), "") << "once";
  // A frame that is no use ends the part; one that never comes is dropped.
  ASSERT_EQ(caller.run({{1, {20}, {31, 0}}}), "");
  EXPECT_EQ(caller.resume(77, floats({1})), "the frame is too short");
  ASSERT_EQ(caller.run({{1, {20}, {31, 0}}}), "");
  caller.drop({}, {}, {77});
  EXPECT_EQ(caller.service.held().runs, 0u);
}

/// Each byte of each kind of call changed: an answer, whatever it is.
TEST(WorkerCalls, AnyBytesAreAnswered) {
  World world;
  std::vector<Parcel> recorded;
  auto hooks = std::make_shared<ProxyPort::Hooks>();
  hooks->call = [&](Parcel &parcel) { recorded.push_back(parcel); };
  Environment environment = world.environment();
  environment.worker = ProxyPort::factory(hooks);
  Owner owner(environment);
  registerNumbers(owner, "numbers", Policy::privateOnly);
  EXPECT_EQ(errorText(owner.grant(kLocalClient, "numbers", 100, 1e-5)), "");
  Client client(owner);
  StepRequest keep, sum;
  keep.uploads = {f32({3}, {1, 2, 3})};
  keep.results = {1};
  ASSERT_EQ(client.run(keepProgram(), keep).error(), "");
  sum.tables = {"numbers"};
  sum.spending.releases = {{0, 0.5, 0, false}};
  ASSERT_EQ(client.run(sumProgram(), sum).error(), "");
  client.send(releaseBytes(client.session, {1}));
  ASSERT_GE(recorded.size(), 6u);
  std::mt19937_64 random(privacy::test::freshSeed());
  WorkerService service(runtime::cpuEngine());
  size_t answered = 0;
  for (const Parcel &parcel : recorded) {
    for (size_t at = 0; at < parcel.bytes.size(); ++at) {
      Parcel changed = parcel;
      changed.bytes[at] = static_cast<char>(random());
      if (random() % 8 == 0 && !changed.memory.empty()) {
        changed.memory.pop_back();
      }
      auto kept = aligned(changed.bytes);
      WorkerCall call;
      call.bytes = {reinterpret_cast<const char *>(kept->data()), changed.bytes.size() - (random() % 16 == 0 ? 4 : 0)};
      call.memory = changed.memory;
      WorkerAnswer answer;
      try {
        answer = service.call(call);
      } catch (const std::bad_alloc &) {
        continue; // an upload of any size
      }
      flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t *>(answer.bytes.data()), answer.bytes.size());
      ASSERT_TRUE(verifier.VerifyBuffer<calls::Answer>(nullptr));
      ++answered;
    }
  }
  EXPECT_GT(answered, 500u);
}
