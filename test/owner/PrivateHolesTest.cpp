// SPDX-License-Identifier: Apache-2.0
// Goal: programs that once went around the privacy proof give nothing away at the wire. Method: each is sent as a
// client may send it, none of which any recorder writes; what must hold is that no value of a row leaves and that
// nothing leaves unpaid, whatever refuses it. So the tests hold too where one of the walls is taken down
// (test/mutants).
#include "owner/Accounts.h"
#include "test/owner/Support.h"

#include <cmath>

namespace sojourn::owner::test {

namespace {

constexpr int kRows = 64;
constexpr int kWideRows = 256;
const std::string kTable = "!sojourn.table<64, \"age\" : i64, \"a\" : f64, \"v\" : 64xf64>";
/// Of a row for every age that there can be.
const std::string kWideTable = "!sojourn.table<256, \"age\" : i64>";

std::string typed(const std::string &name, const std::string &type) { return "%" + name + ": " + type; }
std::string kind(const char *what) { return std::string(" {sojourn.kind = \"") + what + "\"}"; }
std::string result(const std::string &type, const char *what) { return type + " {sojourn.result = \"" + what + "\"}"; }
const std::string kSeed = typed("seed", "tensor<i64>") + kind("seed");
const std::string kTableArgument = typed("t", kTable) + kind("table");
const std::string kWideArgument = typed("wide", kWideTable) + kind("table");

/// Rows [*] of a column at a list of row numbers.
std::string read(const std::string &name, const std::string &list, int64_t slots, const std::string &column,
                 const std::string &type, const std::string &table = "t") {
  return "    %" + name + " = sojourn.read_rows %" + table + ", %" + list + ", columns = [\"" + column +
         "\"] : " + kTable + ", tensor<" + std::to_string(slots) + "xi64> -> " + type + "\n";
}
std::string iota(const std::string &name, int64_t slots) {
  return "    %" + name + " = sojourn.iota dim = 0 : tensor<" + std::to_string(slots) + "xi64>\n";
}
/// `what`: a part and how many rows are expected, each behind a comma.
std::string sample(const std::string &name, const std::string &positions, int64_t slots, const std::string &what,
                   const std::string &table = "t") {
  std::string list = "tensor<" + std::to_string(slots) + "xi64>";
  return "    %" + name + " = sojourn.sample_rows %" + positions + ", %seed, %seed of %" + table + what + " : " + list +
         ", tensor<i64>, tensor<i64>, " + (table == "wide" ? kWideTable : kTable) + " -> " + list + "\n";
}
std::string sum(const std::string &name, const std::string &of, const std::string &type) {
  return "    %" + name + " = sojourn.reduce_sum %" + of + ", dims = [0] : " + type + "\n";
}

/// A sum of drawn rows that may leave, and the draw.
std::string sumAndDraw() {
  return iota("p", 24) + sample("i", "p", 24, ", expected = 2") + read("x", "i", 24, "a", "tensor<24xf64>") +
         sum("s", "x", "tensor<24xf64>") + "    return %s, %i : tensor<f64>, tensor<24xi64>";
}

/// An owner with two private tables of 64 people, an open one of the same columns and a wide one, and a budget.
struct PrivateHoles : testing::Test {
  World world;
  TemporaryFolder folder;
  std::unique_ptr<Owner> owner;
  int64_t ages[kRows];

  void SetUp() override {
    world.store = folder.file("store");
    owner = std::make_unique<Owner>(world.environment());
    ASSERT_EQ(owner->status(), "");
    std::mt19937_64 random(std::random_device{}());
    for (int64_t &age : ages) {
      age = 18 + static_cast<int64_t>(random() % 70);
    }
    add("people", Policy::privateOnly);
    add("others", Policy::privateOnly);
    add("open", Policy::open);
    add("wide", Policy::open, kWideRows);
    for (const char *name : {"people", "others"}) {
      EXPECT_EQ(errorText(owner->grant(kLocalClient, name, 50, 1e-5)), "");
    }
  }

  void add(const std::string &name, Policy policy, int rows = kRows) {
    std::vector<int64_t> age(static_cast<size_t>(rows));
    std::vector<double> a(age.size()), v(age.size() * 64);
    for (size_t row = 0; row < age.size(); ++row) {
      age[row] = ages[row % kRows];
      a[row] = static_cast<double>(age[row]);
      for (size_t bit = 0; bit < 64; ++bit) { // ages in ones and minus ones
        v[row * 64 + bit] = (age[row] >> (bit % 7)) & 1 ? 1.0 : -1.0;
      }
    }
    RegisterOptions options;
    options.name = name;
    options.policy = policy;
    options.bounds = {{"age", {0, 255}}, {"a", {0, 255}}, {"v", {-1, 1}}};
    options.subject = "";
    DatasetSource source{"",
                         {{"age", runtime::Element::i64, rows, age.data()},
                          {"a", runtime::Element::f64, rows, a.data()},
                          {"v", runtime::Element::f64, rows, v.data(), {64}}}};
    EXPECT_EQ(errorText(owner->registerDataset(source, options)), "");
  }

  double left(const char *table = "people", const char *client = kLocalClient) {
    auto budget = owner->accounts().budget(client, table);
    EXPECT_TRUE(bool(budget));
    return budget ? budget->epsilonLeft : -1;
  }
  static StepRequest priced(double epsilon, double bound = 0) {
    StepRequest step;
    step.tables = {"people"};
    step.spending.releases = {{bound, epsilon, 0, false}};
    return step;
  }
  /// A refusal of any kind, and nothing paid.
  void expectNothing(Reply reply, double before) {
    EXPECT_NE(reply.error(), "") << "something left";
    EXPECT_EQ(left(), before) << reply.error();
  }
  /// A handle that was kept or committed comes out neither as it is nor through another step.
  void expectStays(Client &client, uint64_t handle, const std::string &type) {
    StepRequest step;
    step.states = {handle};
    Reply reply =
        client.run(encode(moduleText("(" + typed("x", type) + kind("state") + ") -> (" + result(type, "publish") + ")",
                                     "    return %x : " + type)),
                   step);
    EXPECT_NE(reply.error().find("may not leave the owner"), std::string::npos) << reply.error();
    step.results = {handle + 1000};
    reply = client.run(encode(moduleText("(" + typed("x", type) + kind("state") + ") -> (" + result(type, "keep") + ")",
                                         "    %y = sojourn.neg %x : " + type + "\n    return %y : " + type)),
                       step);
    ASSERT_EQ(reply.error(), "");
    step.states = {handle + 1000};
    step.results = {};
    reply =
        client.run(encode(moduleText("(" + typed("x", type) + kind("state") + ") -> (" + result(type, "publish") + ")",
                                     "    return %x : " + type)),
                   step);
    EXPECT_NE(reply.error().find("may not leave the owner"), std::string::npos) << reply.error();
  }
};

} // namespace

// 1. A list of -1 plus a constant is one row in every slot. Of 64 rows these parts have one, two and one; the last is
// one position of all rows' order.
TEST_F(PrivateHoles, ARowReadInManySlots) {
  for (const char *move : {"add", "sub"}) {
    for (const char *part : {", part = [first 0.015625]", ", part = [first 0.03125]", ", part = [other 0.984375]",
                             ", split = [first 0.015625]"}) {
      std::string body = iota("p", 1000) + sample("i", "p", 1000, part) + "    %k = sojourn.constant " +
                         (move == std::string("add") ? "8" : "-8") + " : i64\n    %j = sojourn." + move +
                         " %i, %k : tensor<1000xi64>, tensor<i64>\n" + read("x", "j", 1000, "a", "tensor<1000xf32>") +
                         sum("s", "x", "tensor<1000xf32>") + "    return %s : tensor<f32>";
      auto program = encode(
          moduleText("(" + kSeed + ", " + kTableArgument + ") -> (" + result("tensor<f32>", "publish") + ")", body));
      Client client(*owner);
      StepRequest step = priced(0.01);
      step.seeds = {7};
      double before = left();
      expectNothing(client.run(program, step), before);
    }
  }
}

// The same with numbers that the client uploads, and with ones that follow from a slot.
TEST_F(PrivateHoles, ARowNamedTwiceByTheClient) {
  std::string read8 =
      read("x", "i", 8, "a", "tensor<8xf64>") + sum("s", "x", "tensor<8xf64>") + "    return %s : tensor<f64>";
  Client client(*owner);
  StepRequest step = priced(0.5);
  step.uploads = {{static_cast<uint8_t>(runtime::Element::i64), {8}, bytes<int64_t>({1, 2, 3, 4, 5, 6, 7, 2})}};
  double before = left();
  expectNothing(client.run(encode(moduleText("(" + typed("i", "tensor<8xi64>") + kind("upload") + ", " +
                                                 kTableArgument + ") -> (" + result("tensor<f64>", "publish") + ")",
                                             read8)),
                           step),
                before);
}

// 2. Ages as positions of a draw whose order the client knows: a client without any identity undid it.
TEST_F(PrivateHoles, PrivatePositionsOfADraw) {
  std::string column = read("p", "i", 64, "age", "tensor<64xi64>");
  std::string release = "    %f = sojourn.convert %r : tensor<64xi64> -> tensor<64xf64>\n"
                        "    %y = sojourn.mul %f, %w : tensor<64xf64>, tensor<64xf64>\n" +
                        sum("s", "y", "tensor<64xf64>") + "    return %s : tensor<f64>";
  std::string signature = "(" + typed("w", "tensor<64xf64>") + kind("upload") + ", " + kSeed + ", " + kTableArgument +
                          ", " + kWideArgument + ") -> (" + result("tensor<f64>", "publish") + ")";
  std::vector<std::string> positions = {
      // per row; a sum over rows; derived from one; the secret draw itself; in another order first
      sample("r", "p", 64, ", expected = 1", "wide"),
      "    %m = sojourn.reduce_sum %p, dims = [0] : tensor<64xi64>\n    %q = sojourn.add %i, %m : tensor<64xi64>, "
      "tensor<i64>\n" +
          sample("r", "q", 64, ", expected = 1", "wide"),
      "    %m = sojourn.reduce_sum %p, dims = [0] : tensor<64xi64>\n    %n = sojourn.mul %m, %m : tensor<i64>, "
      "tensor<i64>\n    %q = sojourn.add %i, %n : tensor<64xi64>, tensor<i64>\n" +
          sample("r", "q", 64, ", expected = 1", "wide"),
      sample("d", "i", 64, ", expected = 8") + sample("r", "d", 64, ", expected = 1", "wide"),
      sample("q", "p", 64, "", "wide") + sample("r", "q", 64, ", expected = 1", "wide"),
      sample("r", "i", 64, ", expected = 1", "wide"), // no table is read at it, so no budget can be charged
  };
  const auto key = signing::SigningKey::generate();
  ASSERT_EQ(errorText(owner->accounts().addClient("mallory", key.publicKey())), "");
  ASSERT_EQ(errorText(owner->setCap("people", 200, 1e-4)), "");
  ASSERT_EQ(errorText(owner->grant("mallory", "people", 50, 1e-5)), "");
  ASSERT_EQ(errorText(owner->setAccess("wide", {true, {}})), "");
  for (const char *name : {"mallory", kLocalClient}) {
    for (const std::string &drawn : positions) {
      Client client = name == std::string("mallory") ? identified(*owner, key) : Client(*owner);
      const double granted = left("people", name);
      StepRequest step;
      step.tables = {"people", "wide"};
      step.seeds = {3};
      std::vector<double> weights(64);
      weights[5] = 1;
      step.uploads = {{static_cast<uint8_t>(runtime::Element::f64), {64}, bytes(weights)}};
      step.spending.noiseMultiplier = 0x1p-10;
      step.spending.metricShare = 0.95;
      step.spending.run = 1;
      step.spending.steps = 1;
      step.spending.releases = {{256, 0, 0, false}};
      double before = left();
      Reply reply = client.run(encode(moduleText(signature, iota("i", 64) + column + drawn + release)), step);
      expectNothing(reply, before);
      EXPECT_EQ(left("people", name), granted);
      EXPECT_EQ(reply.error().find("access"), std::string::npos) << "the proof refuses it: " << reply.error();
    }
  }
}

// 3. The secret draw, kept or committed and then published: amplification would be void.
TEST_F(PrivateHoles, TheSecretDrawStays) {
  std::string draw = iota("p", 24) + sample("i", "p", 24, ", expected = 2") +
                     read("x", "i", 24, "a", "tensor<24xf64>") + sum("s", "x", "tensor<24xf64>");
  std::string open = typed("o", kTable) + kind("table");
  struct Leak {
    std::string value, type;
  };
  std::vector<Leak> leaks = {
      {"    %k = sojourn.neg %i : tensor<24xi64>\n", "tensor<24xi64>"},
      {"    %k = sojourn.sort %i, dim = 0, descending = true : tensor<24xi64>\n", "sorted"},
      {"    %z = sojourn.constant 0 : i64\n    %m = sojourn.compare \"ge\" %i, %z : tensor<24xi64>, tensor<i64>\n"
       "    %c = sojourn.convert %m : tensor<24xi1> -> tensor<24xi64>\n"
       "    %k = sojourn.reduce_sum %c, dims = [0] : tensor<24xi64>\n",
       "tensor<i64>"},
      {"    %k = sojourn.reduce_max %i, dims = [0] : tensor<24xi64>\n", "tensor<i64>"},
      {read("k", "i", 24, "a", "tensor<24xf64>", "o"), "tensor<24xf64>"},
      {read("v", "i", 24, "a", "tensor<24xf64>", "o") + sum("k", "v", "tensor<24xf64>"), "tensor<f64>"},
      {"    %w = sojourn.cumsum %i, dim = 0 : tensor<24xi64>\n    %k = sojourn.convert %w : tensor<24xi64> -> "
       "tensor<24xf64>\n",
       "tensor<24xf64>"},
  };
  for (const Leak &leak : leaks) {
    bool isSorted = leak.type == "sorted";
    std::string type = isSorted ? "tensor<24xi64>" : leak.type;
    std::string value =
        isSorted ? "    %k, %q = sojourn.sort %i, dim = 0, descending = true : tensor<24xi64>\n" : leak.value;
    for (bool commits : {false, true}) {
      SCOPED_TRACE(value + (commits ? " committed" : " kept"));
      Client client(*owner);
      uint64_t handle = 5;
      StepRequest step;
      step.tables = {"people", "open"};
      step.seeds = {3};
      step.spending.releases = {{0, 0, 0, false}};
      step.spending.run = 1;
      step.spending.steps = 8;
      std::string state;
      if (commits) { // onto an open state of that type
        std::string upload = typed("x", type) + kind("upload");
        StepRequest first;
        bool isFloat = type.find("f64") != std::string::npos;
        int64_t count = type.find("24x") != std::string::npos ? 24 : 1;
        std::vector<int64_t> dims = count == 24 ? std::vector<int64_t>{24} : std::vector<int64_t>{};
        first.uploads = {{static_cast<uint8_t>(isFloat ? runtime::Element::f64 : runtime::Element::i64), dims,
                          std::string(static_cast<size_t>(8 * count), '\0')}};
        first.results = {handle};
        ASSERT_EQ(client
                      .run(encode(moduleText("(" + upload + ") -> (" + result(type, "keep") + ")",
                                             "    return %x : " + type)),
                           first)
                      .error(),
                  "");
        state = typed("b", type) + kind("state") + ", ";
        step.states = {handle};
      } else {
        step.results = {handle};
      }
      std::string leaving =
          commits ? type + " {sojourn.result = \"commit\", sojourn.target = 0 : i64}" : result(type, "keep");
      Reply reply = client.run(encode(moduleText("(" + state + kSeed + ", " + kTableArgument + ", " + open + ") -> (" +
                                                     result("tensor<f64>", "publish") + ", " + leaving + ")",
                                                 draw + value + "    return %s, %k : tensor<f64>, " + type)),
                               step);
      if (!reply.error().empty()) {
        continue; // refused as a whole: nothing stayed
      }
      expectStays(client, handle, type);
    }
  }
}

// Such a step is no error: the draw may be kept, and is worth keeping for the owner's own steps.
TEST_F(PrivateHoles, ASecretDrawMayBeKept) {
  Client client(*owner);
  StepRequest step;
  step.tables = {"people"};
  step.seeds = {3};
  step.results = {5};
  step.spending.run = 1;
  step.spending.steps = 8;
  Reply reply =
      client.run(encode(moduleText("(" + kSeed + ", " + kTableArgument + ") -> (" + result("tensor<f64>", "publish") +
                                       ", " + result("tensor<24xi64>", "keep") + ")",
                                   sumAndDraw())),
                 step);
  ASSERT_EQ(reply.error(), "");
  expectStays(client, 5, "tensor<24xi64>");
}

// A private state that is overwritten with row numbers does not become open.
TEST_F(PrivateHoles, APrivateStateOverwrittenWithTheDraw) {
  Client client(*owner);
  StepRequest step;
  step.tables = {"people"};
  step.results = {9};
  std::string rows = iota("i", 24) + read("x", "i", 24, "age", "tensor<24xi64>") + "    return %x : tensor<24xi64>";
  ASSERT_EQ(
      client
          .run(encode(moduleText("(" + kTableArgument + ") -> (" + result("tensor<24xi64>", "keep") + ")", rows)), step)
          .error(),
      "");
  step = StepRequest();
  step.tables = {"people"};
  step.states = {9};
  step.seeds = {3};
  step.spending.run = 1;
  step.spending.steps = 8;
  Reply reply = client.run(encode(moduleText("(" + typed("b", "tensor<24xi64>") + kind("state") + ", " + kSeed + ", " +
                                                 kTableArgument + ") -> (" + result("tensor<f64>", "publish") +
                                                 ", tensor<24xi64> {sojourn.result = \"commit\", sojourn.target = 0 : "
                                                 "i64})",
                                             sumAndDraw())),
                           step);
  if (reply.error().empty()) {
    expectStays(client, 9, "tensor<24xi64>");
  }
}

// 5. A sum of finite numbers is NaN where two lanes overflow: "always 1" was NaN where a bit of the row is set.
TEST_F(PrivateHoles, AConstantThatIsNoConstant) {
  std::string lanes = iota("i", 64) + read("x", "i", 64, "v", "tensor<64x64xf64>") +
                      "    %big = sojourn.constant 1.7e308 : f64\n"
                      "    %m = sojourn.mul %x, %big : tensor<64x64xf64>, tensor<f64>\n";
  std::vector<std::string> sums = {
      "    %q = sojourn.reduce_sum %m, dims = [1] : tensor<64x64xf64>\n",
      "    %c = sojourn.cumsum %m, dim = 1 : tensor<64x64xf64>\n"
      "    %l = sojourn.slice %c, start = [0, 63], limit = [64, 64], stride = [1, 1] : tensor<64x64xf64>\n"
      "    %q = sojourn.reshape %l : tensor<64x1xf64> -> tensor<64xf64>\n",
      "    %q = sojourn.dot %m, %x, lhs_batch = [0], rhs_batch = [0], lhs_contract = [1], rhs_contract = [1] : "
      "tensor<64x64xf64>, tensor<64x64xf64> -> tensor<64xf64>\n",
  };
  for (const std::string &total : sums) {
    std::string one = "    %one = sojourn.constant 1.0 : f64\n    %y = sojourn.max %q, %one : tensor<64xf64>, "
                      "tensor<f64>\n    %z = sojourn.min %y, %one : tensor<64xf64>, tensor<f64>\n";
    for (const char *what : {"publish", "keep"}) {
      Client client(*owner);
      StepRequest step;
      step.tables = {"people"};
      step.results = what == std::string("keep") ? std::vector<uint64_t>{4} : std::vector<uint64_t>{};
      Reply reply = client.run(encode(moduleText("(" + kTableArgument + ") -> (" + result("tensor<64xf64>", what) + ")",
                                                 lanes + total + one + "    return %z : tensor<64xf64>")),
                               step);
      if (!reply.error().empty()) {
        continue;
      }
      if (step.results.empty()) {
        EXPECT_EQ(values<double>(reply.published(0)), std::vector<double>(64, 1.0)) << total;
        continue;
      }
      step = StepRequest();
      step.states = {4};
      Reply out = client.run(encode(moduleText("(" + typed("x", "tensor<64xf64>") + kind("state") + ") -> (" +
                                                   result("tensor<64xf64>", "publish") + ")",
                                               "    return %x : tensor<64xf64>")),
                             step);
      if (out.error().empty()) {
        EXPECT_EQ(values<double>(out.published(0)), std::vector<double>(64, 1.0)) << total;
      }
    }
  }
}

// The same clamped and summed over rows: its noise covered "at most 1", and NaN told of one person.
TEST_F(PrivateHoles, ANotANumberBehindABound) {
  std::string body = iota("i", 64) + read("x", "i", 64, "v", "tensor<64x64xf64>") +
                     "    %big = sojourn.constant 1.7e308 : f64\n"
                     "    %m = sojourn.mul %x, %big : tensor<64x64xf64>, tensor<f64>\n"
                     "    %q = sojourn.reduce_sum %m, dims = [1] : tensor<64x64xf64>\n"
                     "    %one = sojourn.constant 1.0 : f64\n    %low = sojourn.constant -1.0 : f64\n"
                     "    %y = sojourn.max %q, %low : tensor<64xf64>, tensor<f64>\n"
                     "    %z = sojourn.min %y, %one : tensor<64xf64>, tensor<f64>\n" +
                     sum("s", "z", "tensor<64xf64>") + "    return %s : tensor<f64>";
  Client client(*owner);
  Reply reply = client.run(
      encode(moduleText("(" + kTableArgument + ") -> (" + result("tensor<f64>", "publish") + ")", body)), priced(0.5));
  if (reply.error().empty()) {
    EXPECT_TRUE(std::isfinite(values<double>(reply.published(0)).at(0)));
  }
}

} // namespace sojourn::owner::test
