// SPDX-License-Identifier: Apache-2.0
// Kernels that workers share: each fitting shape has more than one row, and 1 to 4 threads give what a
// plain loop written here gives. Numbers are small integers, so that sums are exact.
#include "test/runtime/Programs.h"

#include <algorithm>
#include <functional>
#include <numeric>

using namespace sojourn;
using namespace sojourn::runtime;
using namespace sojourn::test;

namespace {

using Numbers = std::vector<double>;

/// x of the cases below: [A, B, C].
constexpr int64_t A = 48, B = 40, C = 30, kCount = 50;
constexpr const char *kX = "tensor<48x40x30xf32>";

int64_t at(int64_t a, int64_t b, int64_t c, int64_t size = B) { return (a * size + b) * C + c; }

struct Case {
  std::string name;
  std::vector<std::string> args;
  std::string body;
  std::vector<std::pair<std::string, std::string>> results;
  std::function<std::vector<Numbers>(const std::vector<Numbers> &)> oracle;
};

/// visit(a, b, c) over [A, size, C].
template <typename Visit>
void each(int64_t size, Visit visit) {
  for (int64_t a = 0; a < A; ++a) {
    for (int64_t b = 0; b < size; ++b) {
      for (int64_t c = 0; c < C; ++c) {
        visit(a, b, c);
      }
    }
  }
}

bool inside(double index, int64_t size) { return index >= 0 && index < static_cast<double>(size); }

/// Positions along the middle dim, ordered by value, equal ones by position.
std::vector<int64_t> order(const Numbers &x, int64_t a, int64_t c) {
  std::vector<int64_t> positions(B);
  std::iota(positions.begin(), positions.end(), 0);
  std::stable_sort(positions.begin(), positions.end(),
                   [&](int64_t p, int64_t q) { return x[at(a, p, c)] < x[at(a, q, c)]; });
  return positions;
}

std::vector<Case> cases() {
  std::vector<Case> all;
  all.push_back({"take",
                 {kX, "tensor<50xi64>"},
                 "%y = sojourn.take %0, %1, dim = 1 : tensor<48x40x30xf32>, tensor<50xi64>",
                 {{"%y", "tensor<48x50x30xf32>"}},
                 [](const std::vector<Numbers> &in) {
                   Numbers y(A * kCount * C);
                   each(kCount, [&](int64_t a, int64_t b, int64_t c) {
                     bool known = inside(in[1][b], B);
                     y[at(a, b, c, kCount)] = known ? in[0][at(a, static_cast<int64_t>(in[1][b]), c)] : 0;
                   });
                   return std::vector<Numbers>{y};
                 }});
  all.push_back({"take_along",
                 {kX, "tensor<48x40x30xi64>"},
                 "%y = sojourn.take_along %0, %1, dim = 1 : tensor<48x40x30xf32>, tensor<48x40x30xi64>",
                 {{"%y", kX}},
                 [](const std::vector<Numbers> &in) {
                   Numbers y(in[0].size());
                   each(B, [&](int64_t a, int64_t b, int64_t c) {
                     double i = in[1][at(a, b, c)];
                     y[at(a, b, c)] = inside(i, B) ? in[0][at(a, static_cast<int64_t>(i), c)] : 0;
                   });
                   return std::vector<Numbers>{y};
                 }});
  for (const char *kind : {"add", "set", "max"}) {
    all.push_back({"put",
                   {kX, "tensor<50xi64>", "tensor<48x50x30xf32>"},
                   "%y = sojourn.put \"" + std::string(kind) +
                       "\" %0, %1, %2, dim = 1 : tensor<48x40x30xf32>, tensor<50xi64>, tensor<48x50x30xf32>",
                   {{"%y", kX}},
                   [kind = std::string(kind)](const std::vector<Numbers> &in) {
                     Numbers y = in[0];
                     each(kCount, [&](int64_t a, int64_t b, int64_t c) {
                       if (inside(in[1][b], B)) {
                         double &target = y[at(a, static_cast<int64_t>(in[1][b]), c)];
                         double u = in[2][at(a, b, c, kCount)];
                         target = kind == "add" ? target + u : kind == "set" ? u : std::max(target, u);
                       }
                     });
                     return std::vector<Numbers>{y};
                   }});
  }
  all.push_back({"put", // few lines, many rows: workers share the targets
                 {"tensor<40x600xi32>", "tensor<50xi64>", "tensor<50x600xi32>"},
                 "%n = sojourn.neg %0 : tensor<40x600xi32>\n"
                 "%y = sojourn.put \"add\" %n, %1, %2, dim = 0 : tensor<40x600xi32>, tensor<50xi64>, "
                 "tensor<50x600xi32>",
                 {{"%y", "tensor<40x600xi32>"}},
                 [](const std::vector<Numbers> &in) {
                   Numbers y(in[0].size());
                   std::transform(in[0].begin(), in[0].end(), y.begin(), [](double x) { return -x; });
                   for (int64_t k = 0; k < kCount; ++k) {
                     for (int64_t c = 0; c < 600 && inside(in[1][k], 40); ++c) {
                       y[static_cast<int64_t>(in[1][k]) * 600 + c] += in[2][k * 600 + c];
                     }
                   }
                   return std::vector<Numbers>{y};
                 }});
  for (int64_t dim : {0, 1, 2}) {
    all.push_back({"put_along",
                   {kX, "tensor<48x40x30xi64>", kX},
                   "%y = sojourn.put_along \"add\" %0, %1, %2, dim = " + std::to_string(dim) +
                       " : tensor<48x40x30xf32>, tensor<48x40x30xi64>, tensor<48x40x30xf32>",
                   {{"%y", kX}},
                   [dim](const std::vector<Numbers> &in) {
                     Numbers y = in[0];
                     int64_t sizes[3] = {A, B, C};
                     each(B, [&](int64_t a, int64_t b, int64_t c) {
                       int64_t to[3] = {a, b, c};
                       double i = in[1][at(a, b, c)];
                       if (inside(i, sizes[dim])) {
                         to[dim] = static_cast<int64_t>(i);
                         y[at(to[0], to[1], to[2])] += in[2][at(a, b, c)];
                       }
                     });
                     return std::vector<Numbers>{y};
                   }});
  }
  all.push_back({"put_along", // one line
                 {"tensor<40xf32>", "tensor<60000xi64>", "tensor<60000xf32>"},
                 "%y = sojourn.put_along \"add\" %0, %1, %2, dim = 0 : tensor<40xf32>, tensor<60000xi64>, "
                 "tensor<60000xf32>",
                 {{"%y", "tensor<40xf32>"}},
                 [](const std::vector<Numbers> &in) {
                   Numbers y = in[0];
                   for (size_t k = 0; k < in[1].size(); ++k) {
                     if (inside(in[1][k], 40)) {
                       y[static_cast<size_t>(in[1][k])] += in[2][k];
                     }
                   }
                   return std::vector<Numbers>{y};
                 }});
  all.push_back({"pad",
                 {kX, "tensor<f32>"},
                 "%y = sojourn.pad %0, %1, low = [1, -1, 2], high = [0, 3, -1], interior = [1, 0, 2] : "
                 "tensor<48x40x30xf32>, tensor<f32>",
                 {{"%y", "tensor<96x42x89xf32>"}},
                 [](const std::vector<Numbers> &in) {
                   Numbers y(96 * 42 * 89, in[1][0]);
                   each(B, [&](int64_t a, int64_t b, int64_t c) {
                     int64_t p = 1 + 2 * a, q = b - 1, r = 2 + 3 * c;
                     if (p < 96 && q >= 0 && q < 42 && r < 89) {
                       y[(p * 42 + q) * 89 + r] = in[0][at(a, b, c)];
                     }
                   });
                   return std::vector<Numbers>{y};
                 }});
  all.push_back({"concat",
                 {kX, "tensor<30x7x48xf32>", kX},
                 "%t = sojourn.transpose %1, perm = [2, 1, 0] : tensor<30x7x48xf32>\n"
                 "%y = sojourn.concat %0, %t, %2 dim = 1 : tensor<48x40x30xf32>, tensor<48x7x30xf32>, "
                 "tensor<48x40x30xf32>",
                 {{"%y", "tensor<48x87x30xf32>"}},
                 [](const std::vector<Numbers> &in) {
                   Numbers y(A * 87 * C);
                   each(87, [&](int64_t a, int64_t b, int64_t c) {
                     y[at(a, b, c, 87)] = b < 40   ? in[0][at(a, b, c)]
                                          : b < 47 ? in[1][(c * 7 + b - 40) * 48 + a]
                                                   : in[2][at(a, b - 47, c)];
                   });
                   return std::vector<Numbers>{y};
                 }});
  all.push_back({"update_slice",
                 {kX, "tensor<20x13x30xf32>"},
                 "%y = sojourn.update_slice %0, %1, start = [3, 1, 0], stride = [2, 3, 1] : tensor<48x40x30xf32>, "
                 "tensor<20x13x30xf32>",
                 {{"%y", kX}},
                 [](const std::vector<Numbers> &in) {
                   Numbers y = in[0];
                   for (int64_t a = 0; a < 20; ++a) {
                     for (int64_t b = 0; b < 13; ++b) {
                       for (int64_t c = 0; c < C; ++c) {
                         y[at(3 + 2 * a, 1 + 3 * b, c)] = in[1][(a * 13 + b) * C + c];
                       }
                     }
                   }
                   return std::vector<Numbers>{y};
                 }});
  all.push_back(
      {"dynamic_update_slice", // clamped at the end of dim 0, inside along dim 1
       {kX, "tensor<20x13x30xf32>"},
       "%c = sojourn.constant 99 : i64\n"
       "%d = sojourn.constant 5 : i64\n"
       "%s = sojourn.dynamic_slice %1 from [%d], dims = [1], sizes = [7] : tensor<20x13x30xf32>, tensor<i64>\n"
       "%y = sojourn.dynamic_update_slice %0, %s from [%c, %d], dims = [0, 1] : tensor<48x40x30xf32>, "
       "tensor<20x7x30xf32>, tensor<i64>, tensor<i64>",
       {{"%y", kX}},
       [](const std::vector<Numbers> &in) {
         Numbers y = in[0];
         for (int64_t a = 0; a < 20; ++a) {
           for (int64_t b = 0; b < 7; ++b) {
             for (int64_t c = 0; c < C; ++c) {
               y[at(28 + a, 5 + b, c)] = in[1][(a * 13 + 5 + b) * C + c];
             }
           }
         }
         return std::vector<Numbers>{y};
       }});
  all.push_back({"cumsum",
                 {kX},
                 "%y = sojourn.cumsum %0, dim = 1 : tensor<48x40x30xf32>",
                 {{"%y", kX}},
                 [](const std::vector<Numbers> &in) {
                   Numbers y = in[0];
                   each(B, [&](int64_t a, int64_t b, int64_t c) { y[at(a, b, c)] += b > 0 ? y[at(a, b - 1, c)] : 0; });
                   return std::vector<Numbers>{y};
                 }});
  all.push_back({"argmax",
                 {kX},
                 "%y = sojourn.argmax %0, dim = 1 : tensor<48x40x30xf32>",
                 {{"%y", "tensor<48x30xi64>"}},
                 [](const std::vector<Numbers> &in) {
                   Numbers y(A * C, 0);
                   each(B, [&](int64_t a, int64_t b, int64_t c) {
                     double &best = y[a * C + c];
                     best = in[0][at(a, b, c)] > in[0][at(a, static_cast<int64_t>(best), c)] ? static_cast<double>(b)
                                                                                             : best;
                   });
                   return std::vector<Numbers>{y};
                 }});
  for (int64_t keep : {B, int64_t{7}}) {
    std::string type = "tensor<48x" + std::to_string(keep) + "x30x";
    all.push_back({keep == B ? "sort" : "topk",
                   {kX},
                   keep == B ? "%y, %i = sojourn.sort %0, dim = 1, descending = false : tensor<48x40x30xf32>"
                             : "%y, %i = sojourn.topk %0, dim = 1, k = 7, largest = false : tensor<48x40x30xf32>",
                   {{"%y", type + "f32>"}, {"%i", type + "i64>"}},
                   [keep](const std::vector<Numbers> &in) {
                     Numbers y(A * keep * C), i(y.size());
                     for (int64_t a = 0; a < A; ++a) {
                       for (int64_t c = 0; c < C; ++c) {
                         std::vector<int64_t> positions = order(in[0], a, c);
                         for (int64_t b = 0; b < keep; ++b) {
                           i[at(a, b, c, keep)] = static_cast<double>(positions[b]);
                           y[at(a, b, c, keep)] = in[0][at(a, positions[b], c)];
                         }
                       }
                     }
                     return std::vector<Numbers>{y, i};
                   }});
  }
  all.push_back({"cholesky", // of products of factors of small whole numbers, which come back exactly
                 {"tensor<96x16x16xf32>"},
                 R"(%row = sojourn.iota dim = 1 : tensor<96x16x16xi64>
  %column = sojourn.iota dim = 2 : tensor<96x16x16xi64>
  %below = sojourn.compare "gt" %row, %column : tensor<96x16x16xi64>, tensor<96x16x16xi64>
  %diagonal = sojourn.compare "eq" %row, %column : tensor<96x16x16xi64>, tensor<96x16x16xi64>
  %zero = sojourn.constant 0.0 : f32
  %one = sojourn.constant 1.0 : f32
  %size = sojourn.abs %0 : tensor<96x16x16xf32>
  %pivot = sojourn.add %size, %one : tensor<96x16x16xf32>, tensor<f32>
  %rest = sojourn.select %below, %0, %zero : tensor<96x16x16xi1>, tensor<96x16x16xf32>, tensor<f32>
  %l = sojourn.select %diagonal, %pivot, %rest : tensor<96x16x16xi1>, tensor<96x16x16xf32>, tensor<96x16x16xf32>
  %x = sojourn.dot %l, %l, lhs_batch = [0], rhs_batch = [0], lhs_contract = [2], rhs_contract = [2]
    : tensor<96x16x16xf32>, tensor<96x16x16xf32> -> tensor<96x16x16xf32>
  %y, %order = sojourn.cholesky %x : tensor<96x16x16xf32>)",
                 {{"%y", "tensor<96x16x16xf32>"}, {"%order", "tensor<96xi64>"}},
                 [](const std::vector<Numbers> &in) {
                   Numbers y = in[0];
                   for (size_t k = 0; k < y.size(); ++k) {
                     size_t row = k / 16 % 16, column = k % 16;
                     y[k] = row > column ? y[k] : row == column ? std::abs(y[k]) + 1 : 0;
                   }
                   return std::vector<Numbers>{y, Numbers(96, 0)};
                 }});
  // Many planes, and one large image.
  for (auto [planes, height, width] : {std::array<int64_t, 3>{48, 40, 30}, {1, 400, 300}}) {
    for (bool sum : {true, false}) {
      int64_t rows = height / 2, columns = width - 1;
      std::string leading = "tensor<1x" + std::to_string(planes) + "x";
      std::string type = leading + std::to_string(height) + "x" + std::to_string(width) + "xf32>";
      all.push_back({sum ? "pool_sum" : "pool_max",
                     {type},
                     std::string(sum ? "%y = sojourn.pool_sum" : "%y, %i = sojourn.pool_max") +
                         " %0, window = [3, 2], stride = [2, 1], padding = [1, 0], dilation = [1, 1] : " + type,
                     {{"%y", leading + std::to_string(rows) + "x" + std::to_string(columns) + "xf32>"}},
                     [=](const std::vector<Numbers> &in) {
                       Numbers y(static_cast<size_t>(planes * rows * columns));
                       for (int64_t k = 0; k < planes * rows * columns; ++k) {
                         int64_t plane = k / (rows * columns), p = k / columns % rows, q = k % columns;
                         double value = sum ? 0 : -1e9;
                         for (int64_t b = std::max<int64_t>(0, 2 * p - 1); b < std::min(height, 2 * p + 2); ++b) {
                           for (int64_t c = q; c < q + 2; ++c) {
                             double x = in[0][static_cast<size_t>((plane * height + b) * width + c)];
                             value = sum ? value + x : std::max(value, x);
                           }
                         }
                         y[static_cast<size_t>(k)] = value;
                       }
                       return std::vector<Numbers>{y};
                     }});
    }
  }
  for (const char *kind : {"sum", "max"}) {
    for (const char *element : {"f32", "i32"}) {
      for (bool whole : {true, false}) {
        std::string x = "tensor<48x40x30x" + std::string(element) + ">";
        std::string y = (whole ? "tensor<" : "tensor<40x") + std::string(element) + ">";
        // Of floats a chain reduces the last dims, and the kernel of the op what is left.
        std::string chain = std::string("chain of 1 over 57600, rows of ") + (whole ? "1200" : "30");
        all.push_back(
            {std::string(element) == "f32" ? chain : "reduce_" + std::string(kind),
             {x},
             "%y = sojourn.reduce_" + std::string(kind) + " %0, dims = " + (whole ? "[0, 1, 2]" : "[0, 2]") + " : " + x,
             {{"%y", y}},
             [whole, sum = std::string(kind) == "sum"](const std::vector<Numbers> &in) {
               Numbers y(whole ? 1 : B, sum ? 0 : -1e9);
               each(B, [&](int64_t a, int64_t b, int64_t c) {
                 double x = in[0][at(a, b, c)], &result = y[whole ? 0 : b];
                 result = sum ? result + x : std::max(result, x);
               });
               return std::vector<Numbers>{y};
             }});
      }
    }
  }
  all.push_back({"dot",
                 {"tensor<300x128xf32>", "tensor<300x200xf32>"},
                 "%y = sojourn.dot %0, %1, lhs_batch = [], rhs_batch = [], lhs_contract = [0], rhs_contract = [0] : "
                 "tensor<300x128xf32>, tensor<300x200xf32> -> tensor<128x200xf32>",
                 {{"%y", "tensor<128x200xf32>"}},
                 [](const std::vector<Numbers> &in) {
                   Numbers y(128 * 200, 0);
                   for (int64_t k = 0; k < 300; ++k) {
                     for (int64_t r = 0; r < 128; ++r) {
                       for (int64_t c = 0; c < 200; ++c) {
                         y[r * 200 + c] += in[0][k * 128 + r] * in[1][k * 200 + c];
                       }
                     }
                   }
                   return std::vector<Numbers>{y};
                 }});
  all.push_back({"conv_grad_weight",
                 {"tensor<512x8x12x12xf32>", "tensor<512x4x12x12xf32>"},
                 "%y = sojourn.conv_grad_weight %0, %1, stride = [1, 1], padding = [2, 2], dilation = [1, 1], groups "
                 "= 1 : tensor<512x8x12x12xf32>, tensor<512x4x12x12xf32> -> tensor<8x4x5x5xf32>",
                 {{"%y", "tensor<8x4x5x5xf32>"}},
                 [](const std::vector<Numbers> &in) {
                   Numbers y(8 * 4 * 25, 0);
                   for (int64_t n = 0; n < 512; ++n) {
                     for (int64_t k = 0; k < 8 * 4 * 25; ++k) {
                       int64_t o = k / 100, i = k / 25 % 4, p = k / 5 % 5, q = k % 5;
                       for (int64_t h = std::max<int64_t>(0, 2 - p); h < std::min<int64_t>(12, 14 - p); ++h) {
                         for (int64_t w = std::max<int64_t>(0, 2 - q); w < std::min<int64_t>(12, 14 - q); ++w) {
                           y[k] += in[0][((n * 8 + o) * 12 + h) * 12 + w] *
                                   in[1][((n * 4 + i) * 12 + h + p - 2) * 12 + w + q - 2];
                         }
                       }
                     }
                   }
                   return std::vector<Numbers>{y};
                 }});
  return all;
}

TEST(Rows, EveryKernelThatCanBeSplitIsAndAgreesWithPlainLoops) {
  unsigned seed = testSeed();
  SCOPED_TRACE("SOJOURN_TEST_SEED=" + std::to_string(seed));
  std::mt19937 random(seed);
  Context context;
  for (const Case &each : cases()) {
    SCOPED_TRACE(each.name);
    auto plan = compileText(context, programText(each.args, each.body, each.results));
    ASSERT_TRUE(plan);
    EXPECT_GT(rowsOf(*plan, each.name), 1) << plan->describePlan();
    auto inputs = bindWith(*plan, [&](Element element) {
      return element == Element::i64 ? static_cast<double>(random() % 46) - 3 : static_cast<double>(random() % 9) - 4;
    });
    std::vector<Numbers> numbers;
    for (const Binding &binding : inputs) {
      numbers.push_back(numbersOf(binding.tensor));
    }
    std::vector<Numbers> expected = each.oracle(numbers);
    for (unsigned threads : {1u, 2u, 3u, 4u}) {
      auto found = llvm::cantFail(plan->run(inputs, {.threads = threads}));
      ASSERT_EQ(found.size(), expected.size());
      for (size_t i = 0; i < found.size(); ++i) {
        EXPECT_TRUE(numbersOf(found[i]) == expected[i]) << "result " << i << " on " << threads << " threads";
      }
    }
  }
}

/// Row r of column k is 10 r + k; calls may come from several threads.
class CountingRows final : public RowSource {
public:
  int64_t rows() const override { return 30'000; }
  void readRows(llvm::ArrayRef<std::string> columns, llvm::ArrayRef<int64_t> indices, Element element,
                void *out) const override {
    ++calls;
    EXPECT_EQ(element, Element::f32);
    for (size_t i = 0; i < indices.size(); ++i) {
      for (size_t k = 0; k < columns.size(); ++k) {
        static_cast<float *>(out)[i * columns.size() + k] = static_cast<float>(10 * indices[i] + static_cast<int>(k));
      }
    }
  }
  mutable std::atomic<int> calls{0};
};

TEST(Rows, TablesAreReadInRanges) {
  unsigned seed = testSeed();
  SCOPED_TRACE("SOJOURN_TEST_SEED=" + std::to_string(seed));
  std::mt19937 random(seed);
  Context context;
  std::string table = "!sojourn.table<30000, \"age\" : f64, \"height\" : f64>";
  auto plan =
      compileText(context, programText({table, "tensor<20000xi64>"},
                                       "%r = sojourn.read_rows %0, %1, columns = [\"height\", \"age\"] : " + table +
                                           ", tensor<20000xi64> -> tensor<20000x2xf32>",
                                       {{"%r", "tensor<20000x2xf32>"}}));
  ASSERT_TRUE(plan);
  EXPECT_GT(rowsOf(*plan, "read_rows"), 1);
  CountingRows source;
  auto inputs = bindWith(*plan, [&](Element) { return static_cast<double>(random() % 30'000); });
  inputs[0].table = &source;
  auto values = numbersOf(llvm::cantFail(plan->run(inputs, {.threads = 2}))[0]);
  auto indices = numbersOf(inputs[1].tensor);
  for (size_t k = 0; k < values.size(); ++k) {
    ASSERT_EQ(values[k], 10 * indices[k / 2] + static_cast<double>(k % 2));
  }
  EXPECT_EQ(source.calls, 2);
}

} // namespace
