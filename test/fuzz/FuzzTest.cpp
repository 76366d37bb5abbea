// SPDX-License-Identifier: Apache-2.0
// Every corpus is played, and mutants of it, without coverage and with the kernels that are shipped. Too few that are
// done to the end are a failure: then hardly anything was tested. SOJOURN_FUZZ_SECONDS: time for the mutants of each
// target.
#include "test/fuzz/Target.h"
#include "test/fuzz/Traffic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

using namespace sojourn::fuzz;

namespace {

constexpr size_t kInputBytes = size_t{1} << 18;
constexpr double kSecondsEach = 2;
/// After the first hundred, a target keeps the share up by what it changes (Target::wildness).
constexpr size_t kInputsLeast = 2000;
Dice *plainDice = nullptr;

std::vector<std::string> corpusOf(const std::string &target) {
  std::vector<std::filesystem::path> files;
  for (const auto &entry : std::filesystem::directory_iterator(std::string(SOJOURN_FUZZ_CORPUS) + "/" + target)) {
    files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<std::string> inputs;
  for (const std::filesystem::path &path : files) {
    std::ifstream file(path, std::ios::binary);
    inputs.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return inputs;
}

uint64_t freshSeed() {
  const char *given = std::getenv("SOJOURN_TEST_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  std::printf("SOJOURN_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

std::string text(const Tally &tally) {
  return std::to_string(tally.inputs) + " inputs: " + std::to_string(tally.done) + " done, " +
         std::to_string(tally.late) + " refused late, " + std::to_string(tally.refused) + " malformed";
}

class Fuzz : public testing::TestWithParam<std::string> {};

} // namespace

/// Bytes are changed without any knowledge of what they do.
extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most) { // NOLINT: libFuzzer's name
  if (size == 0 || (size < most && plainDice->chance(0.2))) {
    const size_t at = plainDice->below(size + 1);
    std::memmove(data + at + 1, data + at, size - at);
    data[at] = static_cast<uint8_t>(plainDice->word());
    return size + 1;
  }
  const size_t at = plainDice->below(size);
  if (plainDice->chance(0.2)) {
    std::memmove(data + at, data + at + 1, size - at - 1);
    return size - 1;
  }
  data[at] = plainDice->chance(0.5) ? static_cast<uint8_t>(data[at] ^ (1u << plainDice->below(8)))
                                    : static_cast<uint8_t>(plainDice->word());
  return size;
}

TEST_P(Fuzz, CorpusIsDone) {
  auto target = makeTarget(GetParam());
  const std::vector<std::string> corpus = corpusOf(GetParam());
  ASSERT_GE(corpus.size(), 3u);
  for (const std::string &input : corpus) {
    target->run(input);
  }
  EXPECT_GE(target->tally().doneShare(), Target::kLeastDone) << text(target->tally());
}

TEST(FuzzMessages, KindsWithoutABodyArePlayed) {
  auto target = makeTarget("messages");
  for (auto kind : sojourn_wire::EnumValuesRequestBody()) {
    flatbuffers::FlatBufferBuilder builder;
    sojourn_wire::FinishRequestBuffer(builder, sojourn_wire::CreateRequest(builder, kind));
    target->run(
        writeTraffic({{0, 0, {reinterpret_cast<const char *>(builder.GetBufferPointer()), builder.GetSize()}}}));
  }
  EXPECT_EQ(target->tally().done, 0u);
}

TEST_P(Fuzz, MutantsAreDone) {
  const char *given = std::getenv("SOJOURN_FUZZ_SECONDS");
  const std::chrono::duration<double> time(given != nullptr ? std::strtod(given, nullptr) : kSecondsEach);
  Dice dice(freshSeed());
  plainDice = &dice;
  auto target = makeTarget(GetParam());
  const std::vector<std::string> seeds = corpusOf(GetParam());
  std::vector<std::string> pool = seeds;
  const auto begin = std::chrono::steady_clock::now();
  for (size_t number = 0; number < kInputsLeast || std::chrono::steady_clock::now() - begin < time; ++number) {
    // A few mutations on top of each other.
    if (number % 4 == 0) {
      pool[number / 4 % pool.size()] = seeds[dice.below(seeds.size())];
    }
    std::string &input = pool[dice.below(pool.size())];
    input = target->mutate(input, kInputBytes, dice);
    target->run(input);
  }
  std::printf("%s\n", text(target->tally()).c_str());
  EXPECT_GE(target->tally().doneShare(), Target::kLeastDone) << text(target->tally());
}

INSTANTIATE_TEST_SUITE_P(Targets, Fuzz, testing::ValuesIn(targetNames()),
                         [](const testing::TestParamInfo<std::string> &name) { return name.param; });
