// SPDX-License-Identifier: Apache-2.0
// Goal: what a row moves a sum by is what was proved, in rounded numbers and where a rule is wrong. Method: rows whose
// squares underflow, and rows beyond the ranges and counts that were proved, against the sensitivity of the plan.
#include "dialect/Signature.h"
#include "PrivacyLayers.h"

#include "llvm/Support/FormatVariadic.h"

#include <cmath>
#include <limits>
#include <random>

using namespace sojourn;
using namespace sojourn::runtime;
using namespace sojourn::test;

namespace {

/// Rows of two numbers each.
class GivenTokens final : public RowSource {
public:
  explicit GivenTokens(std::vector<double> values) : values(std::move(values)) {}
  int64_t rows() const override { return static_cast<int64_t>(values.size()) / 2; }
  void readRows(llvm::ArrayRef<std::string>, llvm::ArrayRef<int64_t> indices, Element, void *out) const override {
    auto *to = static_cast<double *>(out);
    for (int64_t row : indices) {
      for (int64_t k = 0; k < 2; ++k) {
        *to++ = row < 0 || row >= rows() ? 0 : values[static_cast<size_t>(2 * row + k)];
      }
    }
  }
  std::vector<double> values;
};

} // namespace

// --- Sums that are clipped
// -----------------------------------------------------------------------------------------------

namespace {

/// A step and how it is released: of a published %s, or a commit of %s onto the trained state %w.
struct Clipped {
  std::string body, type;
  bool isTrained = false;
  double bound = 1;
};

std::string scaledRows(const std::string &name, const std::string &by, int tokens) {
  std::string rows = "tensor<4x" + std::to_string(tokens) + "xf64>";
  return "  %c" + name + " = sojourn.constant " + by + " : f64\n  %p" + name +
         " = sojourn.slice %r, start = [0, 0], limit = [4, " + std::to_string(tokens) +
         "], stride = [1, 1] : tensor<4x2xf64>\n  %q" + name + " = sojourn.mul %p" + name + ", %c" + name + " : " +
         rows + ", tensor<f64>\n  %" + name + " = sojourn.reshape %q" + name + " : " + rows + " -> tensor<4x" +
         std::to_string(tokens) + "x1xf64>\n";
}
/// Products of the same rows by two factors, summed over [4 slots, tokens]: one or two of them per slot.
std::string products(const std::string &a, const std::string &b, int tokens) {
  std::string rows = "tensor<4x" + std::to_string(tokens) + "x1xf64>";
  return scaledRows("y", a, tokens) + scaledRows("z", b, tokens) +
         "  %s = sojourn.dot %y, %z, lhs_batch = [], rhs_batch = [], lhs_contract = [0, 1], rhs_contract = [0, 1] : " +
         rows + ", " + rows + " -> tensor<1x1xf64>\n";
}

} // namespace

// Squares of 1e-170 are 0 in f64: a row of such numbers had no norm, and was not clipped.
TEST_F(PrivacyLayers, ClippedSumsStayClippedWhereSquaresUnderflow) {
  unsigned seed = sojourn::test::testSeed();
  SCOPED_TRACE("SOJOURN_TEST_SEED=" + std::to_string(seed));
  std::mt19937 random(seed);
  std::string rows =
      "  %j = sojourn.iota dim = 0 : tensor<4xi64>\n  %r = sojourn.read_rows %t, %j, columns = [\"v\"] : "
      "!sojourn.table<4, \"v\": 2xf64>, tensor<4xi64> -> tensor<4x2xf64>\n  %x = sojourn.reshape %r : "
      "tensor<4x2xf64> -> tensor<8xf64>\n";
  std::vector<Clipped> cases;
  for (const auto &[a, b] : {std::pair<std::string, std::string>{"1.0e-163", "1.0e153"},
                             {"1.0e-200", "1.0e190"},
                             {"1.0e-310", "1.0e300"},
                             {"4.0e-308", "1.0e307"},
                             {"1.0e-150", "1.0e-150"}}) {
    for (int tokens : {1, 2}) {
      cases.push_back({products(a, b, tokens), "tensor<1x1xf64>", true, 1e-12});
      cases.push_back({products(a, b, tokens), "tensor<1x1xf64>", false, 1e-20});
    }
  }
  // Factors near 2^-574, which would take operands of 2^-500 below the normal numbers. Rounding up there was not seen.
  for (int exponent : {888, 889, 890, 891}) {
    std::string large = llvm::formatv("{0:e17}", std::ldexp(1.0, exponent)).str();
    cases.push_back({products("3.1e-151", large, 1), "tensor<1x1xf64>", true, std::ldexp(1.41, -175)});
  }
  for (const char *scale : {"1.0e-170", "1.0e-300", "5.0e-324", "1.0e-160"}) {
    // The bound is divided by what stands behind the sum.
    cases.push_back(
        {"  %c = sojourn.constant " + std::string(scale) +
             " : f64\n  %k = sojourn.constant 1.0e110 : f64\n  %y = sojourn.mul %x, %c : tensor<8xf64>, "
             "tensor<f64>\n  %q = sojourn.reduce_sum %y, dims = [0] : tensor<8xf64>\n  %s = sojourn.mul %q, %k "
             ": tensor<f64>, tensor<f64>\n",
         "tensor<f64>"});
  }
  for (const Clipped &each : cases) {
    SCOPED_TRACE(each.body);
    auto step =
        parse("%w: " + each.type +
                  " {sojourn.kind = \"state\"}, %t: !sojourn.table<4, \"v\": 2xf64> "
                  "{sojourn.kind = \"table\"}",
              each.type + (each.isTrained ? " {sojourn.result = \"commit\", sojourn.target = 0 : i64, sojourn.trained}"
                                          : " {sojourn.result = \"publish\"}"),
              rows + each.body + "  return %s : " + each.type + "\n");
    PrivacyOptions options;
    options.clip = each.bound;
    options.lossIsMean = false;
    options.publishes[0].rho = 0.5;
    options.publishes[0].bound = each.bound;
    auto plan = makePrivate(*module, RowInputs::ofStep(step), options);
    ASSERT_TRUE(mlir::succeeded(plan));
    double most = plan->sites.at(0).sensitivity;
    auto executable = Executable::create(*module);
    ASSERT_TRUE(bool(executable)) << llvm::toString(executable.takeError());
    // The result is units of the grid times powers of two and the factor behind: what no noise gives of one row alone.
    for (int round = 0; round < 40; ++round) {
      GivenTokens with{std::vector<double>(8)}, without{std::vector<double>(8)};
      size_t row = random() % 4;
      for (size_t k = 0; k < 8; ++k) {
        without.values[k] = std::ldexp(1.0 + static_cast<double>(random() % 8), static_cast<int>(random() % 12)) *
                            (random() % 2 ? 1 : -1);
        with.values[k] = without.values[k];
      }
      without.values[2 * row] = without.values[2 * row + 1] = 0;
      auto unitsOf = [&](const GivenTokens &table) {
        auto bindings = sojourn::test::bindWith(**executable, [](Element) { return 0; });
        for (auto [binding, spec] : llvm::zip(bindings, (*executable)->args())) {
          binding.table = spec.kind == StepArg::Table ? &table : nullptr;
        }
        auto values = (*executable)->run(bindings);
        EXPECT_TRUE(bool(values)) << llvm::toString(values.takeError());
        return sojourn::test::numbersOf((*values)[0]).at(0);
      };
      double factor = each.type == "tensor<f64>" ? 1e110 : 1; // behind the noise
      double moved =
          std::ldexp(std::abs(unitsOf(with) - unitsOf(without)) / factor, -static_cast<int>(plan->sites[0].exponent));
      EXPECT_LE(moved, most * (1 + 1e-9));
    }
  }
}

// --- Sums that nobody clips
// ----------------------------------------------------------------------------------------------

namespace {

/// A step whose one release is bounded by ranges: its body makes %s of `type`.
struct Bounded {
  std::string body, type = "tensor<f64>";
};

/// %y: of row r the first k[r] + 1 elements are a[r], the others 0.
const std::string kMany =
    read("k", "i", "k", "i64") + read("a", "i", "a") +
    "  %ramp = sojourn.iota dim = 1 : tensor<8x4xi64>\n  %wide = sojourn.broadcast %k, dims = [0] : tensor<8xi64> "
    "-> tensor<8x4xi64>\n  %h = sojourn.compare \"ge\" %wide, %ramp : tensor<8x4xi64>, tensor<8x4xi64>\n"
    "  %x = sojourn.convert %h : tensor<8x4xi1> -> tensor<8x4xf64>\n"
    "  %each = sojourn.broadcast %a, dims = [0] : tensor<8xf64> -> tensor<8x4xf64>\n"
    "  %y = sojourn.mul %x, %each : tensor<8x4xf64>, tensor<8x4xf64>\n";

const std::vector<Bounded> kBounded = {
    {read("x", "i", "a") + "  %s = sojourn.reduce_sum %x, dims = [0] : tensor<8xf64>\n"},
    {read("x", "i", "a", "f32") +
     "  %q = sojourn.reduce_sum %x, dims = [0] : tensor<8xf32>\n  %s = sojourn.convert %q : "
     "tensor<f32> -> tensor<f64>\n"},
    {read("x", "i", "a") + read("y", "i", "b") +
     "  %s = sojourn.dot %x, %y, lhs_batch = [], rhs_batch = [], lhs_contract = [0], rhs_contract = [0] : "
     "tensor<8xf64>, "
     "tensor<8xf64> -> tensor<f64>\n"},
    {read("x", "i", "a") + read("k", "i", "k", "i64") +
         "  %zero = sojourn.constant 0.0 : f64\n  %z = sojourn.broadcast %zero, dims = [] : tensor<f64> -> "
         "tensor<4xf64>\n"
         "  %s = sojourn.put \"add\" %z, %k, %x, dim = 0 : tensor<4xf64>, tensor<8xi64>, tensor<8xf64>\n",
     "tensor<4xf64>"},
    // A rule that takes `ge` for `eq` would say that one element of a row is not zero.
    {kMany + "  %s = sojourn.reduce_sum %y, dims = [0] : tensor<8x4xf64>\n", "tensor<4xf64>"},
    {kMany + "  %z = sojourn.transpose %y, perm = [1, 0] : tensor<8x4xf64>\n"
             "  %s = sojourn.reduce_sum %z, dims = [1] : tensor<4x8xf64>\n",
     "tensor<4xf64>"},
    {kMany + "  %s = sojourn.dot %y, %y, lhs_batch = [], rhs_batch = [], lhs_contract = [0], rhs_contract = [0] : "
             "tensor<8x4xf64>, tensor<8x4xf64> -> tensor<4x4xf64>\n",
     "tensor<4x4xf64>"},
    {read("k", "i", "k", "i64") +
     "  %q = sojourn.reduce_sum %k, dims = [0] : tensor<8xi64>\n  %s = sojourn.convert %q : "
     "tensor<i64> -> tensor<f64>\n"},
};

} // namespace

// Ranges that are false, as those of a wrong rule would be: rows are infinite, NaN and huge where at most 1 was proved.
TEST_F(PrivacyLayers, UnclippedSumsAreClampedToWhatWasProved) {
  const double kInfinity = std::numeric_limits<double>::infinity(), kNone = std::nan("");
  const double hostile[] = {kInfinity, -kInfinity, kNone, 1.7e308, -1.7e308, 3e38, 1e6, 2, -2, 1, 0, 0.5, -1};
  unsigned seed = sojourn::test::testSeed();
  SCOPED_TRACE("SOJOURN_TEST_SEED=" + std::to_string(seed));
  std::mt19937 random(seed);
  for (const Bounded &each : kBounded) {
    SCOPED_TRACE(each.body);
    auto step = parse(kTableArgument, each.type + " {sojourn.result = \"publish\"}",
                      each.body + "  return %s : " + each.type + "\n");
    RowInputs inputs = RowInputs::ofStep(step);
    ASSERT_TRUE(mlir::succeeded(parseBounds(step, {"a=-1:1", "b=-1:1", "k=-3:3"}, inputs)));
    PrivacyOptions options;
    options.publishes[0].rho = 0.5;
    auto plan = makePrivate(*module, inputs, options);
    ASSERT_TRUE(mlir::succeeded(plan));
    ASSERT_EQ(plan->sites.size(), 1u);
    // In units of the grid: what one row moves by being away. The middle of all ranges is 0, what such a row counts as.
    const ReleaseSite &site = plan->sites[0];
    double most = std::ldexp(site.sensitivity, static_cast<int>(site.exponent)) * (1 + 1e-9);
    auto executable = Executable::create(*module);
    ASSERT_TRUE(bool(executable)) << llvm::toString(executable.takeError());
    auto valueOf = [&](const GivenRows &rows) {
      auto bindings = sojourn::test::bindWith(**executable, [](Element) { return 0; }); // no noise
      for (auto [binding, spec] : llvm::zip(bindings, (*executable)->args())) {
        binding.table = spec.kind == StepArg::Table ? &rows : nullptr;
      }
      auto values = (*executable)->run(bindings);
      EXPECT_TRUE(bool(values)) << llvm::toString(values.takeError());
      return sojourn::test::numbersOf((*values)[0]);
    };
    for (int round = 0; round < 40; ++round) {
      std::map<std::string, std::vector<double>> columns;
      for (const char *name : {"a", "b", "k"}) {
        for (int row = 0; row < 8; ++row) {
          columns[name].push_back(name[0] == 'k' ? static_cast<double>(random() % 7) - 2 : hostile[random() % 13]);
        }
      }
      if (round % 2 == 0) { // the integers, too
        columns["k"][random() % 8] = 9e18;
      }
      GivenRows with(columns), without(columns);
      for (auto &[name, values] : without.columns) {
        values[3] = 0; // the null row
      }
      std::vector<double> a = valueOf(with), b = valueOf(without);
      double moved = 0;
      for (size_t k = 0; k < a.size(); ++k) {
        EXPECT_TRUE(std::isfinite(a[k])) << k;
        moved = std::hypot(moved, a[k] - b[k]);
      }
      EXPECT_LE(moved, most);
    }
  }
}
