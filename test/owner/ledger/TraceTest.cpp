// SPDX-License-Identifier: Apache-2.0
// Random operations on the ledger and on a plain model of it: every answer and every sum is the
// same. SOJOURN_TEST_SEED repeats a run.
#include "test/owner/ledger/Model.h"

namespace sojourn::owner::ledger::test {

namespace {

class Trace {
public:
  Trace(uint64_t seed, bool inMemory) : random(seed), inMemory(inMemory), ledger(world.open(inMemory)) {}

  void run(size_t operations) {
    for (size_t count = 0; count < operations && !testing::Test::HasFailure(); ++count) {
      SCOPED_TRACE("operation " + std::to_string(count));
      step();
      if (count % 16 == 0 || count + 1 == operations) {
        compareSums();
      }
    }
    auto report = ledger->verify();
    ASSERT_TRUE(report) << report.problem().text;
    EXPECT_EQ(report->publishes, model.publishes.size());
    EXPECT_EQ(report->runs, model.runs.size());
  }
  std::map<std::string, int> answers;

private:
  size_t below(size_t count) { return random() % count; }
  std::string client() { return std::string("client") + static_cast<char>('a' + below(4)); }
  std::string dataset() { return std::string("data") + static_cast<char>('a' + below(5)); }
  Grant grant() { return {static_cast<double>(below(400)) / 100, below(15) == 0 ? 0.0 : 0.25}; }
  std::vector<Item> items() {
    std::vector<Item> items(below(8) == 0 ? 2 : below(40) == 0 ? 0 : 1);
    for (Item &item : items) {
      item = {dataset(), "v1", "", chargeOf(below(50'000))};
    }
    return items;
  }
  Relation relation() { return below(30) == 0 ? Relation::replaceOne : Relation::nullOne; }

  void expect(const char *what, const Expected &expected, const Status &got) {
    ++answers[std::string(what) + (expected ? " refused" : " done")];
    EXPECT_EQ(expected.has_value(), got.has_value()) << what << ": " << (got ? got->text : "done");
    if (expected && got) {
      EXPECT_EQ(*expected, got->code) << what << ": " << got->text;
    }
  }

  void step() {
    // Budgets come first, and change now and then.
    if (stepped++ < 80 || below(12) == 0) {
      size_t which = below(6);
      return which == 0 ? addClient() : which == 1 ? link() : which == 2 ? cap() : give();
    }
    switch (below(28)) {
    case 0:
    case 1:
    case 2: return reserve();
    case 3:
    case 4: return advance();
    case 5: return restart();
    case 6: world.nowMs += static_cast<int64_t>(below(kKeepSealedMs / 40)); return;
    case 7: return openRun();
    case 8: return closeRun();
    case 9:
    case 10:
    case 11:
    case 12: return takeSteps();
    case 13:
    case 14:
    case 15: return reserve();
    case 16: return below(4) == 0 ? forgive() : overrun();
    default: return advance();
    }
  }
  void addClient() {
    std::string name = client();
    expect("add client", model.clients.insert(name).second ? Expected() : Code::badRequest,
           ledger->addClient(name, ""));
  }
  void link() {
    std::string name = dataset(), population = below(2) == 0 ? "" : dataset();
    Relation under = below(20) == 0 ? Relation::replaceOne : Relation::nullOne;
    Expected expected;
    std::string wanted = population.empty() ? name : population;
    if (auto found = model.populationOf.find(name); found != model.populationOf.end()) {
      bool same = (population.empty() || population == found->second) && model.relations[found->second] == under;
      expected = same ? Expected() : Code::badRequest;
    } else if (model.relations.contains(wanted) && model.relations[wanted] != under) {
      expected = Code::otherRelation;
    } else {
      model.populationOf[name] = wanted;
      model.relations[wanted] = under;
    }
    expect("link", expected, ledger->linkDataset(name, population, under));
  }
  void cap() {
    std::string name = dataset();
    Grant amount = grant();
    bool known = model.populationOf.contains(name);
    if (known) {
      model.caps[model.populationOf[name]] = amount;
    }
    expect("cap", known ? Expected() : Code::unknownDataset, ledger->setCap(name, amount));
  }
  void give() {
    std::string who = client(), name = dataset();
    Grant amount = grant();
    Expected expected = !model.clients.contains(who)                        ? Expected(Code::unknownClient)
                        : !model.populationOf.contains(name)                ? Expected(Code::unknownDataset)
                        : !model.caps.contains(model.populationOf.at(name)) ? Expected(Code::noCap)
                                                                            : Expected();
    if (!expected) {
      model.grants[{who, name}] = amount;
    }
    expect("grant", expected, ledger->setGrant(who, name, amount));
  }
  void restart() {
    if (inMemory || below(3) != 0) {
      return;
    }
    runs.assign(runs.size(), nullptr);
    ledger.reset();
    ledger = world.open();
    model.restart();
  }
  void reserve() {
    ReserveRequest request = requestOf("key" + std::to_string(below(60)), 1, client());
    if (below(20) == 0) {
      request.moduleHash = hashNumber(below(3));
    }
    request.items = items();
    request.relation = relation();
    const Model::Publish *sealed = nullptr;
    bool asked = below(3) == 0;
    auto early = asked ? ledger->retry(request.client, request.key, request.moduleHash)
                       : Result<std::optional<SealedBytes>>(std::optional<SealedBytes>());
    ReserveAnswer answer = ledger->reserve(request);
    Expected expected = model.reserve(request, world.nowMs, sealed);
    auto *problem = std::get_if<Problem>(&answer);
    expect("reserve", expected, problem ? Status(*problem) : Status());
    if (auto *ticket = std::get_if<Ticket>(&answer)) {
      tickets.push_back(*ticket);
    }
    auto *bytes = std::get_if<SealedBytes>(&answer);
    ASSERT_EQ(bytes != nullptr, sealed != nullptr);
    if (bytes) {
      ++answers["sealed again"];
      EXPECT_EQ(bytes->bytes, sealed->bytes);
      if (asked) {
        ASSERT_TRUE(early && *early);
        EXPECT_EQ((*early)->bytes, sealed->bytes);
      }
    }
  }
  void advance() {
    ASSERT_EQ(tickets.size(), model.publishes.size());
    if (tickets.empty()) {
      return;
    }
    // Mostly the newest, which are under way.
    size_t index =
        below(3) == 0 ? below(tickets.size()) : tickets.size() - 1 - below(std::min<size_t>(6, tickets.size()));
    Model::Publish &publish = model.publishes[index];
    // Of another life of the process, what did not end already belongs to nobody.
    switch (below(6)) {
    case 0:
    case 1: {
      Status got = ledger->start(tickets[index]);
      return expect("start", model.advance(index, State::reserved, State::started), got);
    }
    case 2: {
      std::string bytes(below(100), static_cast<char>(random()));
      auto got = ledger->seal(tickets[index], bytes);
      Expected expected = model.advance(index, State::started, State::sealed);
      if (!expected) {
        publish.bytes = bytes;
        publish.sealedMs = world.nowMs;
      }
      return expect("seal", expected, got ? Status() : Status(got.problem()));
    }
    case 3: {
      Status got = ledger->deliver(tickets[index]);
      return expect(
          "deliver",
          publish.state == State::delivered ? Expected() : model.advance(index, State::sealed, State::delivered), got);
    }
    case 4:
      return expect("cancel", model.advance(index, State::reserved, State::voided),
                    ledger->cancel(tickets[index], "x"));
    default:
      return expect("burn", model.advance(index, State::started, State::burnt), ledger->burn(tickets[index], "x"));
    }
  }
  void openRun() {
    RunRequest request;
    request.client = client();
    request.items = items();
    for (Item &item : request.items) {
      item.charge = chargeOf(below(3000));
    }
    request.relation = relation();
    request.steps = below(3) == 0 ? 0 : 1 + below(60);
    request.whole = below(2) == 0;
    request.blockSteps = 1 + below(20);
    auto run = ledger->openRun(request);
    Expected expected = model.openRun(request);
    if (run) {
      runs.push_back(*run);
    }
    expect("open run", expected, run ? Status() : Status(run.problem()));
  }
  void closeRun() {
    if (runs.empty()) {
      return;
    }
    size_t index = below(runs.size());
    if (runs[index]) {
      expect("close run", Expected(), runs[index]->close());
      model.close(index);
    }
  }
  void takeSteps() {
    if (runs.empty()) {
      return;
    }
    size_t index = below(3) == 0 ? below(runs.size()) : runs.size() - 1;
    for (size_t count = below(25); runs[index] && count > 0; --count) {
      std::vector<privacy::Charge> price;
      for (const Item &item : model.runs[index].request.items) {
        price.push_back(item.charge);
      }
      bool other = below(20) == 0;
      if (other) {
        price[0] = chargeOf(below(5000));
      }
      auto got = runs[index]->takeStep(other || below(2) == 0 ? price : std::vector<privacy::Charge>());
      expect("step", model.takeStep(index, price), got ? Status() : Status(got.problem()));
      EXPECT_EQ(runs[index]->taken(), model.runs[index].taken());
    }
  }
  void overrun() {
    std::string who = client(), name = dataset();
    const uint64_t bits = below(50) == 0 ? UINT64_MAX - below(3) : below(10);
    expect("overrun", model.addOverruns(who, name, bits), ledger->addOverruns(who, name, bits));
  }
  void forgive() {
    std::string who = client(), name = dataset();
    expect("forgive", model.forgiveOverruns(who, name), ledger->forgiveOverruns(who, name));
  }
  void compareSums() {
    size_t counted = 0;
    for (const std::string who : {"clienta", "clientb", "clientc", "clientd"}) {
      for (const std::string name : {"dataa", "datab", "datac", "datad", "datae"}) {
        auto bits = ledger->overruns(who, name);
        ASSERT_TRUE(bits);
        EXPECT_EQ(*bits, model.bitsOf(who, name)) << who << " on " << name;
        counted += *bits != 0;
      }
    }
    auto overruns = ledger->overrunsLines();
    ASSERT_TRUE(overruns);
    EXPECT_EQ(overruns->size(), counted);

    auto accounts = ledger->accounts();
    ASSERT_TRUE(accounts);
    ASSERT_EQ(accounts->size(), model.grants.size());
    for (const AccountLine &line : *accounts) {
      EXPECT_EQ(line.grant, (model.grants[{line.client, line.dataset}]));
      EXPECT_EQ(line.spent, model.spent(line.client, line.dataset, "")) << line.client << " on " << line.dataset;
    }
    auto populations = ledger->populations();
    ASSERT_TRUE(populations);
    EXPECT_EQ(populations->size(), model.relations.size());
    for (const PopulationLine &line : *populations) {
      EXPECT_EQ(line.spent, model.spent("", "", line.population)) << line.population;
      EXPECT_EQ(line.cap.has_value(), model.caps.contains(line.population));
    }
  }

  World world;
  size_t stepped = 0;
  std::mt19937_64 random;
  const bool inMemory;
  std::unique_ptr<Ledger> ledger;
  Model model;
  std::vector<Ticket> tickets;
  std::vector<std::shared_ptr<Run>> runs;
};

void compare(bool inMemory, size_t traces, size_t operations) {
  std::map<std::string, int> answers;
  uint64_t seed = freshSeed();
  for (size_t trace = 0; trace < traces && !testing::Test::HasFailure(); ++trace) {
    SCOPED_TRACE("SOJOURN_TEST_SEED=" + std::to_string(seed + trace) + " (its first trace)");
    Trace next(seed + trace, inMemory);
    next.run(operations);
    for (auto [name, count] : next.answers) {
      answers[name] += count;
    }
  }
  for (const char *name :
       {"reserve done", "reserve refused", "sealed again", "start done", "seal done", "deliver done", "cancel done",
        "burn done", "open run done", "open run refused", "step done", "step refused", "close run done", "grant done",
        "link refused", "overrun done", "overrun refused", "forgive done", "forgive refused"}) {
    EXPECT_GT(answers[name], 10) << "hardly a trace had '" << name << "'";
  }
}

} // namespace

TEST(Traces, InMemoryLikeTheModel) { compare(/*inMemory=*/true, 30, 800); }
TEST(Traces, OnDiskWithRestartsLikeTheModel) { compare(/*inMemory=*/false, 24, 800); }

} // namespace sojourn::owner::ledger::test
