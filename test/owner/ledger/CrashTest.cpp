// SPDX-License-Identifier: Apache-2.0
// Kills a child at each of its writes and syncs, over all of them, and once more while the next
// child recovers. Whatever the child drew coins for or let out before it died is charged, and
// charged once; a retry gives the very bytes; overruns that it knew of are counted. SOJOURN_TEST_SEED repeats a run.
#include "test/owner/ledger/FaultDisk.h"
#include "test/owner/ledger/Support.h"

#include <map>
#include <set>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>

namespace sojourn::owner::ledger::test {

namespace {

constexpr uint64_t kStepUnits = 7, kOverrunBits = 3;
/// Single releases of the trace: what each costs.
const std::map<std::string, uint64_t> kUnits = {{"a", 1000}, {"b", 2000}, {"c", 4000}, {"d", 8000}, {"e", 16000}};

struct Child {
  World &world;
  int pipe;

  /// To the parent, who outlives this process: a release in the sense of the rules.
  void tell(const std::string &line) {
    std::string text = line + "\n";
    if (write(pipe, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
      _exit(3);
    }
  }
  [[noreturn]] void fail(const std::string &text) {
    tell("FAIL " + text);
    _exit(4);
  }
  void must(const Status &status) {
    if (status) {
      fail(status->text);
    }
  }
  /// An attempt that may have been lost before is burnt, which is fine; anything else is not.
  void publish(Ledger &ledger, const std::string &key, bool lose) {
    ReserveAnswer answer = ledger.reserve(requestOf(key, kUnits.at(key)));
    if (auto *problem = std::get_if<Problem>(&answer)) {
      return problem->code == Code::burnt ? tell("BURNT " + key) : fail(problem->text);
    }
    if (auto *sealed = std::get_if<SealedBytes>(&answer)) {
      tell("RELEASE " + key + " " + hex(sealed->bytes));
      return must(ledger.deliver({sealed->id}));
    }
    Ticket ticket = std::get<Ticket>(answer);
    must(ledger.start(ticket));
    tell("COIN " + key);
    if (lose) {
      return must(ledger.burn(ticket, "lost on purpose"));
    }
    // Of a fixed size, so that each life has the same operations.
    std::string bytes(100 + kUnits.at(key) % 2900, static_cast<char>(std::random_device()()));
    auto sealed = ledger.seal(ticket, bytes);
    if (!sealed) {
      fail(sealed.problem().text);
    }
    tell("RELEASE " + key + " " + hex(bytes));
    must(ledger.deliver(ticket));
  }
  void train(Ledger &ledger, uint64_t steps, uint64_t plan, bool whole) {
    RunRequest request;
    request.client = "ada";
    request.items = {{"people", "v1", "", chargeOf(kStepUnits)}};
    request.steps = plan;
    request.whole = whole;
    request.blockSteps = 4;
    auto run = ledger.openRun(request);
    if (!run) {
      fail(run.problem().text);
    }
    tell("RUN " + std::to_string((*run)->id()));
    for (uint64_t step = 0; step < steps; ++step) {
      auto taken = (*run)->takeStep();
      if (!taken) {
        fail(taken.problem().text);
      }
      tell("STEP " + std::to_string((*run)->id()));
    }
    must((*run)->close());
    tell("CLOSED " + std::to_string((*run)->id()));
  }
  void trace() {
    auto options = world.options();
    options.hook = fault::operation;
    auto open = Ledger::open(options);
    if (!open) {
      fail(open.problem().text);
    }
    Ledger &ledger = **open;
    if (!ledger.clients()->contains("ada")) {
      must(ledger.addClient("ada", ""));
    }
    must(ledger.linkDataset("people", "", Relation::nullOne));
    must(ledger.setCap("people", {1, 0.5}));
    must(ledger.setGrant("ada", "people", {1, 0.5}));
    publish(ledger, "a", /*lose=*/false);
    ReserveAnswer given = ledger.reserve(requestOf("given up", 32000));
    if (auto *ticket = std::get_if<Ticket>(&given)) {
      must(ledger.cancel(*ticket, "the client left"));
    }
    publish(ledger, "b", /*lose=*/false);
    train(ledger, 6, 0, /*whole=*/false);
    publish(ledger, "c", /*lose=*/true);
    must(ledger.addOverruns("ada", "people", kOverrunBits));
    tell("OVERRUN");
    train(ledger, 5, 20, /*whole=*/true);
    publish(ledger, "d", /*lose=*/false);
    publish(ledger, "e", /*lose=*/false);
    tell("END");
  }
};

/// Runs the trace in a child that dies at operation `at`, or not at all where that is 0; returns
/// what it told, and how many operations there were where it lived.
std::vector<std::string> runChild(World &world, long at, fault::Mode mode, uint64_t seed, bool &died) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    fault::install();
    fault::arm(at, mode, seed);
    Child doing{world, ends[1]};
    doing.trace(); // closes the ledger too: that copies the log back, with writes of its own
    doing.tell("COUNT " + std::to_string(fault::count()));
    _exit(0);
  }
  close(ends[1]);
  std::string told;
  char buffer[4096];
  for (ssize_t size; (size = read(ends[0], buffer, sizeof(buffer))) > 0;) {
    told.append(buffer, static_cast<size_t>(size));
  }
  close(ends[0]);
  int state = 0;
  waitpid(child, &state, 0);
  died = WIFSIGNALED(state) && WTERMSIG(state) == SIGKILL;
  EXPECT_TRUE(died || (WIFEXITED(state) && WEXITSTATUS(state) == 0)) << told;
  std::vector<std::string> lines;
  std::istringstream stream(told);
  for (std::string line; std::getline(stream, line);) {
    lines.push_back(line);
  }
  return lines;
}

/// What the parent heard over all lives of the child.
struct Heard {
  std::set<std::string> coins, burnt;
  std::map<std::string, std::string> released;
  std::map<uint64_t, uint64_t> steps;
  std::set<uint64_t> closed;
  uint64_t overruns = 0, lives = 0;
  long count = 0;

  void add(const std::vector<std::string> &lines) {
    ++lives;
    for (const std::string &line : lines) {
      std::istringstream words(line);
      std::string kind, name, bytes;
      words >> kind >> name >> bytes;
      if (kind == "FAIL") {
        ADD_FAILURE() << line;
      } else if (kind == "COIN") {
        EXPECT_TRUE(coins.insert(name).second) << "coins were drawn twice for " << name;
      } else if (kind == "BURNT") {
        burnt.insert(name);
      } else if (kind == "RELEASE") {
        auto [found, fresh] = released.try_emplace(name, bytes);
        EXPECT_TRUE(fresh || found->second == bytes) << "other bytes for " << name;
      } else if (kind == "STEP") {
        ++steps[std::stoull(name)];
      } else if (kind == "CLOSED") {
        closed.insert(std::stoull(name));
      } else if (kind == "OVERRUN") {
        ++overruns;
      } else if (kind == "COUNT") {
        count = std::stol(name);
      }
    }
  }
};

/// Opens what is left and holds it against what was heard.
void check(World &world, const Heard &heard) {
  auto ledger = world.open();
  ASSERT_NE(ledger, nullptr);
  auto report = ledger->verify();
  ASSERT_TRUE(report) << report.problem().text;
  auto lines = ledger->entries(10'000);
  ASSERT_TRUE(lines);
  // The sum, from the entries alone, by rules written down once more.
  std::map<uint64_t, std::string> keyOf;
  std::map<uint64_t, State> states;
  std::map<uint64_t, uint64_t> taken, stepsOfBlock, runOfBlock;
  for (size_t index = lines->size(); index-- > 0;) {
    const Body &body = (*lines)[index].entry.body;
    uint64_t seq = (*lines)[index].entry.seq;
    if (auto *reserved = std::get_if<Reserved>(&body)) {
      keyOf[seq] = reserved->key;
      states[seq] = State::reserved;
    } else if (auto *started = std::get_if<Started>(&body)) {
      states[started->id] = State::started;
    } else if (auto *sealed = std::get_if<Sealed>(&body)) {
      states[sealed->id] = State::sealed;
    } else if (auto *voided = std::get_if<Voided>(&body)) {
      states[voided->id] = State::voided;
    } else if (auto *burnt = std::get_if<Burnt>(&body)) {
      states[burnt->id] = State::burnt;
    } else if (auto *block = std::get_if<BlockStarted>(&body)) {
      stepsOfBlock[seq] = block->steps;
      runOfBlock[seq] = block->run;
    } else if (auto *ended = std::get_if<BlockEnded>(&body)) {
      taken[runOfBlock[ended->block]] += ended->used;
      EXPECT_TRUE(!ended->burnt || ended->used == stepsOfBlock[ended->block]) << "a burnt block counts whole";
    }
  }
  privacy::Charge sum;
  std::set<std::string> charged;
  for (auto [id, state] : states) {
    EXPECT_TRUE(state == State::sealed || state == State::voided || state == State::burnt) << "under way: " << id;
    if (state != State::voided) {
      EXPECT_TRUE(charged.insert(keyOf[id]).second) << "charged twice: " << keyOf[id];
      sum = sum + chargeOf(kUnits.at(keyOf[id]));
    }
  }
  for (auto [run, steps] : taken) {
    sum = sum + steps * chargeOf(kStepUnits);
  }
  EXPECT_EQ(spentOn(*ledger), sum);
  const uint64_t bits = ledger->overruns("ada", "people") ? *ledger->overruns("ada", "people") : 0;
  EXPECT_GE(bits, heard.overruns * kOverrunBits) << "an overrun was forgotten";
  EXPECT_LE(bits, heard.lives * kOverrunBits) << "each life has one";
  EXPECT_EQ(bits % kOverrunBits, 0u);
  for (const std::string &key : heard.coins) {
    EXPECT_TRUE(charged.contains(key)) << "coins were drawn for nothing: " << key;
  }
  for (const auto &[key, bytes] : heard.released) {
    EXPECT_TRUE(charged.contains(key)) << "released and not charged: " << key;
    auto again = ledger->retry("ada", key, hashOf(key));
    ASSERT_TRUE(again && *again) << key;
    EXPECT_EQ(hex((*again)->bytes), bytes) << key;
  }
  for (auto [run, steps] : heard.steps) {
    EXPECT_GE(taken[run], steps) << "steps were taken and not charged";
    EXPECT_LE(taken[run], steps + 4) << "no more than a block is lost";
    EXPECT_TRUE(!heard.closed.contains(run) || taken[run] == steps) << "a closed run pays for its steps";
  }
}

void killEverywhere(fault::Mode mode) {
  uint64_t seed = freshSeed();
  SCOPED_TRACE("SOJOURN_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  long deaths = 0, total = 0;
  bool died = true;
  for (long at = 1; died && !testing::Test::HasFailure(); ++at) {
    SCOPED_TRACE("killed at operation " + std::to_string(at));
    World world;
    Heard heard;
    heard.add(runChild(world, at, mode, random(), died));
    deaths += died;
    total = heard.count;
    // Sometimes the next life dies early too, while it recovers.
    bool again = false;
    if (died && random() % 2 == 0) {
      heard.add(runChild(world, 1 + static_cast<long>(random() % 12), mode, random(), again));
    }
    check(world, heard);
    if (died) {
      heard.add(runChild(world, 0, mode, 0, again));
      EXPECT_FALSE(again);
      check(world, heard);
      EXPECT_EQ(heard.released.size() + heard.burnt.size() + (heard.coins.contains("c") && !heard.burnt.contains("c")),
                kUnits.size());
    }
  }
  std::printf("killed at each of %ld operations\n", deaths);
  EXPECT_EQ(deaths, total) << "every operation was the last one once";
  EXPECT_GT(deaths, 100);
}

} // namespace

TEST(Crashes, ByKillAtEachWriteAndSync) { killEverywhere(fault::Mode::kill); }
TEST(Crashes, ByPowerCutAtEachWriteAndSync) { killEverywhere(fault::Mode::power); }

/// A process that lives keeps what it reserved, whoever else opens the ledger; a dead one loses it.
TEST(Crashes, OnlyTheDeadAreRecovered) {
  World world;
  { admitAda(*world.open(), 1); }
  int ready[2], done[2];
  ASSERT_EQ(pipe(ready), 0);
  ASSERT_EQ(pipe(done), 0);
  pid_t child = fork();
  if (child == 0) {
    auto ledger = world.open();
    Ticket ticket = std::get<Ticket>(ledger->reserve(requestOf("k", 1000)));
    ledger->reserve(requestOf("l", 2000));
    bool good = !ledger->start(ticket);
    char byte = 0;
    good = good && write(ready[1], "x", 1) == 1 && read(done[0], &byte, 1) == 1;
    kill(getpid(), SIGKILL);
    _exit(good);
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  auto ledger = world.open();
  EXPECT_EQ(spentOn(*ledger), chargeOf(1000) + chargeOf(2000));
  EXPECT_EQ(std::get<Problem>(ledger->reserve(requestOf("k", 1000))).code, Code::inFlight);
  ASSERT_EQ(write(done[1], "x", 1), 1);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(std::get<Problem>(ledger->reserve(requestOf("k", 1000))).code, Code::burnt) << "without a restart";
  EXPECT_TRUE(std::holds_alternative<Ticket>(ledger->reserve(requestOf("l", 2000))));
  EXPECT_EQ(spentOn(*ledger), chargeOf(1000) + chargeOf(2000));
  for (int end : {ready[0], ready[1], done[0], done[1]}) {
    close(end);
  }
}

} // namespace sojourn::owner::ledger::test
