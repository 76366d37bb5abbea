// SPDX-License-Identifier: Apache-2.0
// The step message: what goes in comes out, bytes are copied once and repeat exactly, garbage is told.
#include "runtime/wire/Step.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <random>

namespace sojourn::wire::test {

namespace {

struct TensorFields {
  uint8_t element = 0;
  std::vector<int64_t> dims;
  std::vector<uint8_t> data;
};

struct Random {
  Random() { std::printf("seed %llu\n", static_cast<unsigned long long>(seed)); }
  uint64_t seed = std::random_device{}();
  std::mt19937_64 dice{seed};

  size_t below(size_t bound) { return dice() % bound; }
  std::string text(size_t longest) {
    std::string text(below(longest), '\0');
    for (char &c : text) {
      c = static_cast<char>('a' + below(26));
    }
    return text;
  }
  std::vector<uint64_t> numbers() {
    std::vector<uint64_t> values(below(6));
    for (uint64_t &value : values) {
      value = dice();
    }
    return values;
  }
};

/// A step with everything in it, and what it borrows from.
struct Sample {
  explicit Sample(Random &random) {
    program = random.text(300);
    debug = random.text(300);
    step.session = random.dice();
    step.sequence = random.dice();
    for (uint8_t &byte : step.hash) {
      byte = static_cast<uint8_t>(random.dice());
    }
    step.program = program;
    step.debug = debug;
    for (auto *list : {&step.states, &step.slots, &step.seeds, &step.results, &step.releases}) {
      *list = random.numbers();
    }
    for (auto *list : {&step.results, &step.releases}) {
      const uint64_t first = random.dice(); // may wrap
      for (size_t i = random.below(6); i > 0; --i) {
        list->push_back(first + list->size());
      }
    }
    std::sort(step.releases.begin(), step.releases.end()); // in no order
    for (size_t i = random.below(5); i > 0; --i) {
      contents.push_back(random.text(500));
    }
    for (const std::string &content : contents) {
      TensorView tensor;
      tensor.element = static_cast<uint8_t>(random.below(kElementCount));
      tensor.dims = {static_cast<int64_t>(content.size()), 1};
      tensor.sentAhead = random.below(4) == 0 ? 1 + random.below(9) : 0;
      tensor.data = {reinterpret_cast<const uint8_t *>(content.data()), content.size()};
      step.uploads.push_back(tensor);
    }
    for (size_t i = random.below(3); i > 0; --i) {
      step.tables.push_back({random.text(9), random.text(40)});
    }
  }

  std::string program, debug;
  std::vector<std::string> contents;
  Step step;
};

std::string_view encoded(flatbuffers::FlatBufferBuilder &builder, const Step &step) {
  builder.Finish(encode(builder, step));
  return {reinterpret_cast<const char *>(builder.GetBufferPointer()), builder.GetSize()};
}

} // namespace

TEST(StepMessage, ComesBackAsItWas) {
  Random random;
  for (int repetition = 0; repetition < 200; ++repetition) {
    Sample sample(random);
    const Step &step = sample.step;
    flatbuffers::FlatBufferBuilder builder(encodedBound(step));
    std::string_view bytes = encoded(builder, step);
    EXPECT_LE(bytes.size(), encodedBound(step));
    flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size());
    ASSERT_TRUE(verifier.VerifyBuffer<sojourn_wire::Step>());
    Step back;
    ASSERT_EQ(decode(*flatbuffers::GetRoot<sojourn_wire::Step>(bytes.data()), back), "");
    EXPECT_EQ(back.session, step.session);
    EXPECT_EQ(back.sequence, step.sequence);
    EXPECT_EQ(back.hash, step.hash);
    EXPECT_EQ(back.program, step.program);
    EXPECT_EQ(back.debug, step.debug);
    EXPECT_EQ(back.states, step.states);
    EXPECT_EQ(back.slots, step.slots);
    EXPECT_EQ(back.seeds, step.seeds);
    EXPECT_EQ(back.results, step.results);
    EXPECT_EQ(back.releases, step.releases);
    ASSERT_EQ(back.uploads.size(), step.uploads.size());
    for (size_t i = 0; i < step.uploads.size(); ++i) {
      EXPECT_EQ(back.uploads[i].element, step.uploads[i].element);
      EXPECT_EQ(back.uploads[i].dims, step.uploads[i].dims);
      EXPECT_EQ(back.uploads[i].sentAhead, step.uploads[i].sentAhead);
      std::string content = step.uploads[i].sentAhead ? "" : sample.contents[i];
      EXPECT_EQ(std::string(back.uploads[i].data.begin(), back.uploads[i].data.end()), content);
    }
    ASSERT_EQ(back.tables.size(), step.tables.size());
    for (size_t i = 0; i < step.tables.size(); ++i) {
      EXPECT_EQ(back.tables[i].name, step.tables[i].name);
      EXPECT_EQ(back.tables[i].version, step.tables[i].version);
    }
  }
}

/// A verifier of FlatBuffers takes a vector of 64-bit numbers at any multiple of 4 bytes.
TEST(StepMessage, NumbersAreReadWhereverTheyStand) {
  Step step;
  step.states = {1, uint64_t{1} << 40, 3};
  flatbuffers::FlatBufferBuilder builder(encodedBound(step));
  std::string bytes(encoded(builder, step));
  bytes.resize((bytes.size() + 7) / 8 * 8); // the length goes here, the numbers 4 bytes later
  const auto *message = flatbuffers::GetRoot<flatbuffers::Table>(bytes.data());
  const char *field = reinterpret_cast<const char *>(message->GetAddressOf(sojourn_wire::Step::VT_STATES));
  std::string copy(message->GetPointer<const char *>(sojourn_wire::Step::VT_STATES), 4 + 8 * step.states.size());
  size_t at = static_cast<size_t>(field - bytes.data());
  flatbuffers::WriteScalar(bytes.data() + at, static_cast<flatbuffers::uoffset_t>(bytes.size() - at));
  bytes += copy;
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size());
  ASSERT_TRUE(verifier.VerifyBuffer<sojourn_wire::Step>());
  Step back;
  ASSERT_EQ(decode(*flatbuffers::GetRoot<sojourn_wire::Step>(bytes.data()), back), "");
  EXPECT_EQ(back.states, step.states);
}

TEST(StepMessage, ConsecutiveHandlesAreARange) {
  auto size = [](std::vector<uint64_t> results) {
    Step step;
    step.results = std::move(results);
    flatbuffers::FlatBufferBuilder builder;
    return encoded(builder, step).size();
  };
  EXPECT_LT(size({7, 8, 9, 10}), size({7, 8, 9, 11}));
  EXPECT_EQ(size({7, 8, 9, 10}), size({7, 8, 9, 10, 11, 12, 13, 14}));
  Step step;
  step.repetitions.emplace_back().releases = {12, 3, 11, 10};
  flatbuffers::FlatBufferBuilder builder;
  const auto *message = flatbuffers::GetRoot<sojourn_wire::Step>(encoded(builder, step).data());
  const HandleIds ids = HandleIds::releases(*message->repetitions()->Get(0));
  ASSERT_EQ(ids.size(), 4u);
  EXPECT_EQ(ids.count(), 3u);
  EXPECT_EQ(std::vector({ids[0], ids[1], ids[2], ids[3]}), std::vector<uint64_t>({3, 10, 11, 12}));
  Step back;
  ASSERT_EQ(decode(*message, back), "");
  EXPECT_EQ(back.repetitions[0].releases, std::vector<uint64_t>({3, 10, 11, 12}));
}

TEST(StepMessage, RepeatsByteForByte) {
  Random random;
  for (int repetition = 0; repetition < 50; ++repetition) {
    Sample sample(random);
    flatbuffers::FlatBufferBuilder first(encodedBound(sample.step)), second(encodedBound(sample.step));
    EXPECT_EQ(encoded(first, sample.step), encoded(second, sample.step));
  }
}

TEST(StepMessage, CopiesEveryTensorOnceAndAlignsIt) {
  std::vector<uint8_t> content(100003, 7);
  Step step;
  step.uploads.push_back({1, {100003}, content, 0});
  uint64_t before = copiedBytes();
  flatbuffers::FlatBufferBuilder builder(encodedBound(step), nullptr, false, 16);
  std::string_view bytes = encoded(builder, step);
  EXPECT_EQ(copiedBytes() - before, content.size());
  Step back;
  ASSERT_EQ(decode(*flatbuffers::GetRoot<sojourn_wire::Step>(bytes.data()), back), "");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(back.uploads[0].data.data()) % 16, 0u);
  EXPECT_GE(reinterpret_cast<const char *>(back.uploads[0].data.data()), bytes.data());
}

TEST(StepMessage, ImpossibleOnesAreTold) {
  auto problem = [](auto change) {
    flatbuffers::FlatBufferBuilder builder;
    std::vector<uint8_t> hash(kHashBytes);
    TensorFields tensor;
    change(hash, tensor);
    auto upload = sojourn_wire::CreateTensorDirect(builder, tensor.element, &tensor.dims, &tensor.data);
    auto uploads = builder.CreateVector(&upload, 1);
    auto bytes = builder.CreateVector(hash);
    builder.Finish(sojourn_wire::CreateStep(builder, 1, 1, bytes, 0, 0, 0, uploads));
    Step step;
    return decode(*flatbuffers::GetRoot<sojourn_wire::Step>(builder.GetBufferPointer()), step);
  };
  EXPECT_EQ(problem([](auto &, auto &) {}), "");
  {
    flatbuffers::FlatBufferBuilder builder;
    auto hash = builder.CreateVector(std::vector<uint8_t>(kHashBytes));
    sojourn_wire::StepBuilder built(builder);
    built.add_program_hash(hash);
    built.add_release_count(~uint32_t{0});
    builder.Finish(built.Finish());
    Step step;
    EXPECT_EQ(decode(*flatbuffers::GetRoot<sojourn_wire::Step>(builder.GetBufferPointer()), step),
              "a range has 4294967295 handles, expected up to 1048576 more in this message");
  }
  { // all ranges of a message have one bound
    flatbuffers::FlatBufferBuilder builder;
    auto hash = builder.CreateVector(std::vector<uint8_t>(kHashBytes));
    std::vector<flatbuffers::Offset<sojourn_wire::Repetition>> further;
    for (uint64_t first = 0; first < 3; ++first) {
      further.push_back(sojourn_wire::CreateRepetition(builder, 0, 0, 0, 0, 0, 0, first << 20, 500'000));
    }
    auto repetitions = builder.CreateVector(further);
    sojourn_wire::StepBuilder built(builder);
    built.add_program_hash(hash);
    built.add_repetitions(repetitions);
    builder.Finish(built.Finish());
    Step step;
    EXPECT_EQ(decode(*flatbuffers::GetRoot<sojourn_wire::Step>(builder.GetBufferPointer()), step),
              "a range has 500000 handles, expected up to 48576 more in this message");
  }
  EXPECT_EQ(problem([](auto &hash, auto &) { hash.pop_back(); }), "a program hash has 31 bytes, expected 32");
  EXPECT_EQ(problem([](auto &, auto &tensor) { tensor.element = 12; }), "element type 12 is unknown");
  EXPECT_EQ(problem([](auto &, auto &tensor) { tensor.dims = {3, -1}; }), "a tensor has invalid sizes");
  EXPECT_EQ(problem([](auto &, auto &tensor) { tensor.dims.assign(65, 1); }), "a tensor has invalid sizes");
}

} // namespace sojourn::wire::test
