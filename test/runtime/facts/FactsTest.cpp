// SPDX-License-Identifier: Apache-2.0
// Goal: facts of a program go to bytes and come back as they were, and bytes that break a rule are refused. Method:
// random facts, facts broken by one rule each, and every byte changed.
#include "runtime/Error.h"
#include "runtime/facts/Facts_generated.h"
#include "runtime/facts/ProgramFacts.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <cmath>
#include <cstdlib>
#include <gtest/gtest.h>
#include <random>

using namespace sojourn;
using namespace sojourn::runtime;
namespace wire = sojourn_wire;

namespace {

unsigned freshSeed() {
  const char *given = std::getenv("SOJOURN_TEST_SEED");
  return given ? static_cast<unsigned>(std::strtoul(given, nullptr, 10)) : std::random_device{}();
}

class RandomFacts {
public:
  explicit RandomFacts(unsigned seed) : random(seed) {}

  size_t below(size_t count) { return std::uniform_int_distribution<size_t>(0, count - 1)(random); }

  TensorType type() {
    TensorType made;
    made.element = kElements[below(kElementCount)];
    for (size_t rank = below(4); rank > 0; --rank) {
      made.dims.push_back(static_cast<int64_t>(below(5)));
    }
    return made;
  }

  ArgSpec argument() {
    constexpr StepArg kKinds[] = {StepArg::State, StepArg::Upload, StepArg::Slot, StepArg::Seed, StepArg::Table};
    ArgSpec arg;
    arg.kind = kKinds[below(5)];
    switch (arg.kind) {
    case StepArg::Slot: arg.type = {Element::i1, {}}; break;
    case StepArg::Seed: arg.type = {Element::i64, {}}; break;
    case StepArg::Table:
      if (below(2)) {
        arg.rows = static_cast<int64_t>(below(1'000));
      }
      for (size_t k = below(4); k > 0; --k) {
        TensorType entry = type();
        for (int64_t &size : entry.dims) {
          ++size; // at least 1
        }
        arg.columns.push_back({"column " + std::to_string(k), entry.element, entry.dims});
      }
      for (size_t k = below(3); k > 0; --k) {
        arg.parts.emplace_back();
        for (size_t side = below(3); side > 0; --side) {
          arg.parts.back().push_back({(1 + static_cast<double>(below(98))) / 100, below(2) == 1});
        }
      }
      break;
    default: arg.type = type();
    }
    return arg;
  }

  ProgramFacts facts() {
    ProgramFacts made;
    for (size_t k = below(8); k > 0; --k) {
      made.args.push_back(argument());
    }
    for (size_t k = 0; k < made.args.size(); ++k) {
      if (made.args[k].kind == StepArg::State && below(2)) {
        made.results.push_back({StepResult::Commit, made.args[k].type, static_cast<uint32_t>(k), "add", "train.py:7"});
      }
    }
    for (size_t k = below(4); k > 0; --k) {
      made.results.push_back({below(2) ? StepResult::Keep : StepResult::Publish, type(), 0, "mul", ""});
    }
    DependenceSummary::Graph graph{made.args.size(), {}, {}, {}};
    for (size_t k = 0; k < below(6); ++k) {
      const size_t nodes = graph.arguments + graph.ends.size();
      for (size_t source = nodes ? below(4) : 0; source > 0; --source) {
        graph.sources.push_back(static_cast<uint32_t>(below(nodes)));
      }
      graph.ends.push_back(static_cast<uint32_t>(graph.sources.size()));
    }
    const size_t nodes = graph.arguments + graph.ends.size();
    for (size_t k = 0; k < made.results.size(); ++k) {
      const size_t node = below(nodes + 1);
      graph.returned.push_back(node == nodes ? DependenceSummary::kNothing : static_cast<uint32_t>(node));
    }
    made.dependence = DependenceSummary(std::move(graph));
    made.samplesRows = below(2);
    made.ops = below(100);
    made.operations = uint64_t{1} << below(64);
    made.memory = {below(1'000), below(1'000), below(1'000)};
    if (below(2)) {
      made.joint = joint(made);
    }
    return made;
  }

private:
  /// A joint step that has the arguments and results of the part, and others between them.
  JointFacts joint(const ProgramFacts &part) {
    JointFacts made;
    made.parties = static_cast<uint32_t>(2 + below(3));
    made.role = static_cast<uint32_t>(below(made.parties));
    for (const ArgSpec &arg : part.args) {
      uint32_t &count = made.counts[static_cast<size_t>(arg.kind)];
      count += static_cast<uint32_t>(below(3));
      made.positions.push_back(count++);
      made.shown.push_back(static_cast<Shown>(below(3)));
    }
    for (const ResultSpec &result : part.results) {
      if (result.kind == StepResult::Keep) {
        made.keeps += static_cast<uint32_t>(below(3));
        made.kept.push_back(made.keeps++);
      }
    }
    for (uint32_t index = 0; index < part.args.size(); ++index) {
      if (part.args[index].kind == StepArg::State && below(2)) {
        made.copiedStates.push_back(index);
      }
    }
    for (uint32_t index = 0; index < part.results.size(); ++index) {
      if (below(2)) {
        made.copies.push_back(index);
      }
    }
    made.exchanges.resize(below(3));
    for (Exchange &exchange : made.exchanges) {
      exchange.resize(below(3));
      for (ExchangeTerm &term : exchange) {
        const auto roles = static_cast<uint32_t>(1 + below((1u << made.parties) - 1));
        term = {Element::i64, below(1'000), roles, made.parties > 2 && roles == (1u << made.parties) - 1};
      }
    }
    if (below(2)) {
      made.leastRows = below(100);
      made.clearOp = "sojourn.add";
      made.clearLocation = "train.py:9";
    }
    return made;
  }

  std::mt19937 random;
};

std::string textOf(llvm::Error error) { return llvm::toString(std::move(error)); }

/// A state that changes, a table of which a part is drawn, and a number that is published.
ProgramFacts example() {
  ProgramFacts facts;
  facts.args = {{StepArg::State, {Element::f32, {2, 3}}, {}, {}, {}},
                {StepArg::Seed, {Element::i64, {}}, {}, {}, {}},
                {StepArg::Table, {}, 9, {{"a", Element::f64, {4}}}, {{{0.8, true}}}}};
  facts.results = {{StepResult::Commit, {Element::f32, {2, 3}}, 0, "add", "train.py:7"},
                   {StepResult::Publish, {Element::f64, {5}}, 0, "mul", "train.py:8"},
                   {StepResult::Keep, {Element::i1, {}}, 0, "eq", ""}};
  facts.dependence = DependenceSummary({3, {0, 2, 3}, {2, 3}, {4, 3, DependenceSummary::kNothing}});
  return facts;
}

/// Text of the error that the example gives after one change; empty where it is read.
std::string saidOf(llvm::function_ref<void(ProgramFacts &)> change) {
  ProgramFacts facts = example();
  change(facts);
  auto read = readFacts(writeFacts(facts));
  return read ? "" : textOf(read.takeError());
}

} // namespace

TEST(Facts, ComeBackFromBytes) {
  const unsigned seed = freshSeed();
  SCOPED_TRACE("SOJOURN_TEST_SEED=" + std::to_string(seed));
  RandomFacts random(seed);
  for (int round = 0; round < 300; ++round) {
    ProgramFacts facts = random.facts();
    ASSERT_EQ(textOf(facts.count()), "");
    auto read = readFacts(writeFacts(facts));
    ASSERT_TRUE(bool(read)) << textOf(read.takeError());
    EXPECT_TRUE(*read == facts);
  }
}

TEST(Facts, OfAPartAreThoseOfItsJointStep) {
  auto joint = [](llvm::function_ref<void(JointFacts &)> change) {
    return saidOf([&](ProgramFacts &facts) {
      facts.joint = JointFacts{.role = 1,
                               .parties = 3,
                               .keeps = 3,
                               .positions = {4, 0, 1},
                               .kept = {2},
                               .shown = {Shown::Sums, Shown::No, Shown::Clear},
                               .exchanges = {{{Element::i64, 9, 7, true}, {Element::f32, 4, 3, false}}},
                               .copies = {0, 2},
                               .copiedStates = {0},
                               .leastRows = 9,
                               .clearOp = "add",
                               .clearLocation = "train.py:9"};
      facts.joint->counts = {5, 0, 0, 1, 2};
      change(*facts.joint);
    });
  };
  EXPECT_EQ(joint([](JointFacts &) {}), "");
  const std::vector<std::function<void(JointFacts &)>> changes = {
      [](JointFacts &facts) { facts.role = 3; },
      [](JointFacts &facts) {
        facts.positions = {4, 0};
      },
      [](JointFacts &facts) { facts.positions[0] = 5; },
      [](JointFacts &facts) { facts.counts[4] = 1; },
      [](JointFacts &facts) { facts.kept = {3}; },
      [](JointFacts &facts) { facts.kept = {}; },
      [](JointFacts &facts) {
        facts.kept = {0, 1};
      },
      [](JointFacts &facts) { facts.shown[1] = static_cast<Shown>(3); },
      [](JointFacts &facts) { facts.shown = {}; },
      [](JointFacts &facts) { facts.exchanges[0][0].from = 0; },
      [](JointFacts &facts) { facts.exchanges[0][0].from = 15; },
      [](JointFacts &facts) { facts.exchanges[0][0].from = 3; }, // of two, and masked
      [](JointFacts &facts) { facts.exchanges[0][0].element = Element::f64; },
      [](JointFacts &facts) { facts.exchanges[0][1].element = Element::i1; },
      [](JointFacts &facts) { facts.exchanges[0][1].element = static_cast<Element>(kElementCount); },
      [](JointFacts &facts) { facts.exchanges[0][1].elements = uint64_t{1} << 60; },
      [](JointFacts &facts) { facts.copies[1] = 3; },
      [](JointFacts &facts) { facts.copies[1] = 0; }, // twice
      [](JointFacts &facts) {
        facts.copies = {2, 1};
      },
      [](JointFacts &facts) { facts.copies.assign(4, 0); },
      [](JointFacts &facts) { facts.copiedStates[0] = 3; },
      [](JointFacts &facts) { facts.copiedStates[0] = 1; }, // a seed
      [](JointFacts &facts) {
        facts.copiedStates = {0, 0};
      },
      [](JointFacts &facts) { facts.clearOp.assign(1'000'000, 'x'); },
  };
  for (size_t at = 0; at < changes.size(); ++at) {
    EXPECT_NE(joint(changes[at]), "") << at;
  }
}

TEST(Facts, AreCounted) {
  auto read = readFacts(writeFacts(example()));
  ASSERT_TRUE(bool(read)) << textOf(read.takeError());
  EXPECT_EQ(read->states, 1u);
  EXPECT_EQ(read->seeds, 1u);
  EXPECT_EQ(read->tables, 1u);
  EXPECT_EQ(read->uploads + read->slots, 0u);
  EXPECT_EQ(read->keeps, 1u);
  EXPECT_EQ(read->publishes, 1u);
  EXPECT_EQ(read->publishBytes, 40u);
  EXPECT_EQ(read->dependence.argumentsOf(0), (std::vector<size_t>{0, 2}));
  EXPECT_EQ(read->dependence.argumentsOf(2), std::vector<size_t>());
}

TEST(Facts, MemoryOfARunNeverWraps) {
  EXPECT_EQ((RunMemory{10, 3, 5}).bytes(4), 27u);
  EXPECT_EQ((RunMemory{UINT64_MAX - 1, 3, 5}).bytes(4), UINT64_MAX);
  EXPECT_EQ((RunMemory{0, UINT64_MAX / 2, 0}).bytes(3), UINT64_MAX);
}

TEST(Facts, EachBrokenRuleIsRefused) {
  const std::string malformed = "the facts of a program are malformed: ";
  auto expectSaid = [&](llvm::function_ref<void(ProgramFacts &)> change, const std::string &text) {
    EXPECT_EQ(saidOf(change), text);
  };
  expectSaid([](ProgramFacts &) {}, "");
  expectSaid([](ProgramFacts &facts) { facts.args[0].type.element = static_cast<Element>(77); },
             malformed + "argument 0 has element 77 and rank 2");
  expectSaid(
      [](ProgramFacts &facts) {
        facts.args[0].type.dims = {2, -3};
      },
      malformed + "argument 0 has size -3 in dim 1");
  expectSaid(
      [](ProgramFacts &facts) {
        facts.args[0].type.dims = {int64_t{1} << 39, int64_t{1} << 39};
      },
      malformed + "argument 0 has size 549755813888 in dim 1");
  expectSaid(
      [](ProgramFacts &facts) {
        facts.args[0].type.dims = {int64_t{1} << 30, int64_t{1} << 20, 0};
      },
      malformed + "argument 0 has 1125899906842624 elements");
  expectSaid([](ProgramFacts &facts) { facts.args[0].kind = static_cast<StepArg>(9); },
             malformed + "argument 0 has kind 9");
  expectSaid([](ProgramFacts &facts) { facts.args[0].rows = 4; },
             malformed + "argument 0 has 4 rows, or columns and parts without a table");
  expectSaid([](ProgramFacts &facts) { facts.args[2].rows = -7; },
             malformed + "argument 2 has -7 rows, or columns and parts without a table");
  expectSaid([](ProgramFacts &facts) { facts.args[2].columns[0].name = std::string(70'000, 'a'); },
             malformed + "argument 2, column 0 has a name of 70000 bytes");
  expectSaid([](ProgramFacts &facts) { facts.args[2].columns[0].name = std::string(60'000, 'a'); }, "");
  expectSaid(
      [](ProgramFacts &facts) {
        facts.args[2].columns[0].dims = {3, 0};
      },
      malformed + "argument 2, column 0 has size 0 in dim 1");
  expectSaid(
      [](ProgramFacts &facts) {
        facts.args[2].columns[0].dims = {1 << 13, 1 << 12};
      },
      malformed + "argument 2, column 0 has 33554432 elements");
  expectSaid([](ProgramFacts &facts) { facts.args.resize(3 + 65, facts.args[2]); },
             malformed + "more than 64 tables, or 65536 columns, up to argument 66");
  expectSaid(
      [](ProgramFacts &facts) {
        facts.args[0].type.dims = {int64_t{1} << 32, 2};
      },
      malformed + "argument 0 has 8589934592 elements");
  expectSaid([](ProgramFacts &facts) { facts.args[2].parts[0][0].fraction = 1; },
             malformed + "argument 2, part 0 has an invalid fraction or side");
  expectSaid([](ProgramFacts &facts) { facts.args[2].parts[0][0].fraction = std::nan(""); },
             malformed + "argument 2, part 0 has an invalid fraction or side");
  expectSaid([](ProgramFacts &facts) { facts.results[1].location = std::string(2'000, 'a'); },
             malformed + "result 1 has kind 2, an op of 3 bytes and a location of 2000");
  for (DependenceSummary::Graph graph : {DependenceSummary::Graph{3, {0, 3, 3}, {2, 3}, {4, 3, 3}}, // a node of itself
                                         {3, {0, 4, 3}, {2, 3}, {4, 3, 3}},                         // of a later one
                                         {3, {0, 2, 3}, {2, 4}, {4, 3, 3}}, // beyond its sources
                                         {3, {0, 2, 3}, {2, 1}, {4, 3, 3}}, // ends before it begins
                                         {3, {0, 2, 3}, {2}, {3, 3, 3}},    // sources of no node
                                         {3, {0, 2, 3}, {2, 3}, {5, 3, 3}}, // no such node
                                         {3, {0, 2, 3}, {2, 3}, {4, 3}}}) {
    expectSaid([&](ProgramFacts &facts) { facts.dependence = DependenceSummary(graph); },
               malformed + "its dependences are no graph over 3 arguments and 3 results");
  }
  ProgramFacts lacking = example();
  lacking.dependence = DependenceSummary({2, {0, 1}, {2}, {2, 2, 2}});
  EXPECT_EQ(textOf(lacking.count()), "the program has no complete record of the dependences of its results");
  expectSaid([](ProgramFacts &facts) { facts.args[1].type.element = Element::f32; },
             "argument 1 is a seed of rank 0 and element f32, expected tensor<i64>");
  expectSaid([](ProgramFacts &facts) { facts.args[1].kind = StepArg::Coin; },
             "argument 1 is a coin of rank 0 and element i64, expected none in a program");
  for (uint32_t target : {1u, 3u, UINT32_MAX}) {
    expectSaid([&](ProgramFacts &facts) { facts.results[0].target = target; },
               "result 0 commits to argument " + std::to_string(target) +
                   ", expected a state of the same type to which no other result commits");
  }
  expectSaid([](ProgramFacts &facts) { facts.results[1] = facts.results[0]; },
             "result 1 commits to argument 0, expected a state of the same type to which no other result commits");
}

/// A message may name the same bytes many times: each use counts.
TEST(Facts, PartsThatShareTheirBytes) {
  auto saidOfTable = [](flatbuffers::FlatBufferBuilder &builder,
                        const std::vector<flatbuffers::Offset<wire::ColumnFacts>> &columns,
                        const std::vector<flatbuffers::Offset<wire::PartFacts>> &parts) {
    auto columnList = builder.CreateVector(columns);
    auto partList = builder.CreateVector(parts);
    auto table = wire::CreateArgumentFacts(builder, static_cast<uint8_t>(StepArg::Table),
                                           static_cast<uint8_t>(Element::f32), 0, -1, columnList, partList);
    auto arguments = builder.CreateVector(std::vector{table});
    builder.Finish(wire::CreateFacts(builder, arguments, 0, 0, 0, 0, false, 0, 0, 0, 0, 0), wire::FactsIdentifier());
    auto read = readFacts({reinterpret_cast<const char *>(builder.GetBufferPointer()), builder.GetSize()});
    return read ? std::string() : textOf(read.takeError());
  };
  const std::string malformed = "the facts of a program are malformed: ";
  auto saidOfParts = [&](size_t count) {
    flatbuffers::FlatBufferBuilder builder;
    auto fractions = builder.CreateVector(std::vector<double>(64, 0.5));
    auto part = wire::CreatePartFacts(builder, fractions, builder.CreateVector(std::vector<uint8_t>(64)));
    return saidOfTable(builder, {}, std::vector(count, part));
  };
  EXPECT_EQ(saidOfParts(1'000), "");
  EXPECT_EQ(saidOfParts(100'000), malformed + "argument 0, part 61538 is of 64 splits and 64 sides");
  auto saidOfColumns = [&](size_t count, size_t bytes) {
    flatbuffers::FlatBufferBuilder builder;
    auto name = builder.CreateString(std::string(bytes, 'a'));
    auto column = wire::CreateColumnFacts(builder, name, static_cast<uint8_t>(Element::f32));
    return saidOfTable(builder, std::vector(count, column), {});
  };
  EXPECT_EQ(saidOfColumns(65'536, 3), "");
  EXPECT_EQ(saidOfColumns(65'537, 3), malformed + "more than 64 tables, or 65536 columns, up to argument 0");
  EXPECT_EQ(saidOfColumns(1'025, 65'536), malformed + "argument 0, column 1024 has a name of 65536 bytes");
}

TEST(Facts, BytesThatWereChanged) {
  const unsigned seed = freshSeed();
  SCOPED_TRACE("SOJOURN_TEST_SEED=" + std::to_string(seed));
  RandomFacts random(seed);
  const std::string bytes = writeFacts(example());
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (int value : {0, 1, 127, 255, static_cast<int>(random.below(256))}) {
      std::string changed = bytes;
      changed[at] = static_cast<char>(value);
      auto read = readFacts(changed);
      if (!read) {
        EXPECT_NE(textOf(read.takeError()), "");
        continue;
      }
      ProgramFacts again = *read;
      EXPECT_EQ(textOf(again.count()), "") << "byte " << at;
      EXPECT_TRUE(again.dependence.graph().isValid());
      auto twice = readFacts(writeFacts(*read));
      ASSERT_TRUE(bool(twice)) << textOf(twice.takeError());
      EXPECT_TRUE(*twice == *read);
    }
    auto cut = readFacts(llvm::StringRef(bytes).take_front(at));
    ASSERT_FALSE(bool(cut)) << at;
    llvm::consumeError(cut.takeError());
  }
}
