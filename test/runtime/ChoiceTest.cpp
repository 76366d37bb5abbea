// SPDX-License-Identifier: Apache-2.0
// Kernels that choose without branches give the bits of plain loops that branch: with NaN in several places, ties,
// zeros of both signs, infinities and the least and largest integers.
#include "test/runtime/Programs.h"

#include <cmath>
#include <limits>

using namespace sojourn;
using namespace sojourn::runtime;
using namespace sojourn::test;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();
constexpr int64_t kLeast = std::numeric_limits<int64_t>::min(), kMost = std::numeric_limits<int64_t>::max();

std::string typeOf(const std::vector<int64_t> &dims, const std::string &element) {
  std::string text = "tensor<";
  for (int64_t dim : dims) {
    text += std::to_string(dim) + "x";
  }
  return text + element + ">";
}

class Choice : public ::testing::Test {
protected:
  const unsigned seed = testSeed();
  ::testing::ScopedTrace trace{__FILE__, __LINE__, "SOJOURN_TEST_SEED=" + std::to_string(seed)};
  std::mt19937 random{seed};
  Context context;

  int64_t pick(std::initializer_list<int64_t> sizes) { return *(sizes.begin() + random() % sizes.size()); }
  bool often(double part) { return std::uniform_real_distribution<>()(random) < part; }

  /// Few numbers, so that many are equal; some are special if the element type has such.
  double draw(bool isReal, double special) {
    if (!isReal || !often(special)) {
      return static_cast<double>(random() % 5) - 2;
    }
    const double values[] = {kNan, kNan, -kNan, kInfinity, -kInfinity, -0.0};
    return values[random() % std::size(values)];
  }
  int64_t drawInteger() {
    const int64_t edges[] = {kLeast,
                             kLeast + 1,
                             kMost,
                             kMost - 1,
                             0,
                             1,
                             -1,
                             2,
                             -2,
                             int64_t{1} << 62,
                             -(int64_t{1} << 62),
                             (int64_t{1} << 62) + 1,
                             int64_t{1} << 53,
                             (int64_t{1} << 53) + 1,
                             63,
                             64};
    if (often(0.4)) {
      return edges[random() % std::size(edges)];
    }
    const uint64_t bits = (static_cast<uint64_t>(random()) << 32 | random()) >> random() % 64;
    return static_cast<int64_t>(often(0.5) ? 0 - bits : bits);
  }

  /// Runs `body` over arguments with these contents and gives its one result, %y.
  template <typename Out, typename In>
  std::vector<Out> run(const std::vector<std::vector<In>> &arguments, const std::vector<std::string> &types,
                       const std::string &body, const std::string &result) {
    auto plan = compileText(context, programText(types, body, {{"%y", result}}));
    if (!plan) {
      return {};
    }
    std::vector<Binding> bindings = bindWith(*plan, [](Element) { return 0; });
    for (size_t k = 0; k < arguments.size(); ++k) {
      std::memcpy(bindings[k].tensor.buffer->data(), arguments[k].data(), arguments[k].size() * sizeof(In));
    }
    const HostTensor value = llvm::cantFail(plan->run(bindings, {.threads = 2}))[0];
    const Out *data = static_cast<const Out *>(value.buffer->data());
    return {data, data + value.type.numel()};
  }
};

template <typename T>
std::string bytesOf(const std::vector<T> &values) {
  return {reinterpret_cast<const char *>(values.data()), values.size() * sizeof(T)};
}

/// Bits where both are numbers: which NaN an extreme is, is nobody's promise of lines that the library takes.
template <typename T>
void expectSame(const std::vector<T> &found, const std::vector<T> &expected, const std::string &what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (size_t k = 0; k < found.size(); ++k) {
    EXPECT_TRUE(found[k] == expected[k] || (found[k] != found[k] && expected[k] != expected[k]))
        << what << ": " << found[k] << " instead of " << expected[k] << " at " << k;
  }
}

template <typename T>
struct Named;
template <>
struct Named<float> {
  static constexpr const char *name = "f32";
};
template <>
struct Named<double> {
  static constexpr const char *name = "f64";
};
template <>
struct Named<int64_t> {
  static constexpr const char *name = "i64";
};

template <typename T>
class ChoiceOf : public Choice {
protected:
  static constexpr bool isReal = !std::is_same_v<T, int64_t>;

  std::vector<T> drawMany(int64_t count, double special = 0.1) {
    std::vector<T> values(static_cast<size_t>(count));
    for (T &value : values) {
      value = static_cast<T>(draw(isReal, special));
    }
    return values;
  }
};

using Numbers = ::testing::Types<float, double, int64_t>;
TYPED_TEST_SUITE(ChoiceOf, Numbers);

/// The first NaN, else the first of the largest: as a loop that ends at the first NaN finds it.
template <typename T>
int64_t placeOf(const T *line, int64_t size, int64_t step, bool largest) {
  T best = line[0];
  int64_t place = 0;
  for (int64_t k = 0; k < size && best == best; ++k) {
    const T value = line[k * step];
    if (value != value || (largest ? value > best : value < best)) {
      best = value;
      place = k;
    }
  }
  return place;
}

TYPED_TEST(ChoiceOf, PlacesOfExtremes) {
  for (int round = 0; round < 60; ++round) {
    const int64_t outer = this->pick({1, 3, 16, 37}), size = this->pick({1, 2, 10, 15, 16, 17, 33, 100, 512, 1000}),
                  inner = this->pick({1, 1, 2, 15, 16, 17, 40});
    const bool largest = this->often(0.5);
    const std::string x = typeOf({outer, size, inner}, Named<TypeParam>::name), y = typeOf({outer, inner}, "i64");
    const auto values = this->drawMany(outer * size * inner, this->often(0.5) ? 0.02 : 0);
    const auto found = this->template run<int64_t>(
        std::vector<std::vector<TypeParam>>{values}, {x},
        std::string("%y = sojourn.arg") + (largest ? "max" : "min") + " %0, dim = 1 : " + x, y);
    std::vector<int64_t> expected;
    for (int64_t line = 0; line < outer * inner; ++line) {
      expected.push_back(placeOf(values.data() + line / inner * size * inner + line % inner, size, inner, largest));
    }
    EXPECT_EQ(found, expected) << x;
  }
}

TYPED_TEST(ChoiceOf, Extremes) {
  for (int round = 0; round < 40; ++round) {
    const int64_t count = this->pick({1, 3, 16, 33, 700});
    const std::string x = typeOf({count}, Named<TypeParam>::name);
    const auto a = this->drawMany(count), b = this->drawMany(count);
    std::vector<TypeParam> largest, smallest;
    for (size_t k = 0; k < a.size(); ++k) {
      largest.push_back(a[k] != a[k] ? a[k] : a[k] > b[k] ? a[k] : b[k]);
      smallest.push_back(a[k] != a[k] ? a[k] : a[k] < b[k] ? a[k] : b[k]);
    }
    auto of = [&](const std::string &op) {
      return bytesOf(this->template run<TypeParam>(std::vector<std::vector<TypeParam>>{a, b}, {x, x},
                                                   "%y = sojourn." + op + " %0, %1 : " + x + ", " + x, x));
    };
    EXPECT_EQ(of("max"), bytesOf(largest));
    EXPECT_EQ(of("min"), bytesOf(smallest));
  }
}

TYPED_TEST(ChoiceOf, RunningAndReducedExtremes) {
  for (int round = 0; round < 40; ++round) {
    const int64_t rows = this->pick({1, 5, 40}), size = this->pick({1, 2, 7, 15, 16, 40, 300});
    const std::string x = typeOf({rows, size}, Named<TypeParam>::name), y = typeOf({rows}, Named<TypeParam>::name);
    const auto values = this->drawMany(rows * size, this->often(0.5) ? 0.05 : 0);
    std::vector<TypeParam> running, reduced;
    for (size_t k = 0; k < values.size(); ++k) {
      const TypeParam value = values[k];
      const bool isFirst = k % static_cast<size_t>(size) == 0;
      const TypeParam was = isFirst ? value : running.back();
      running.push_back(was != was ? was : was > value ? was : value);
      if ((k + 1) % static_cast<size_t>(size) == 0) {
        reduced.push_back(running.back());
      }
    }
    expectSame(this->template run<TypeParam>(std::vector<std::vector<TypeParam>>{values}, {x},
                                             "%y = sojourn.cummax %0, dim = 1 : " + x, x),
               running, x);
    expectSame(this->template run<TypeParam>(std::vector<std::vector<TypeParam>>{values}, {x},
                                             "%y = sojourn.reduce_max %0, dims = [1] : " + x, y),
               reduced, x);
  }
}

/// In pools of all kinds: whole lines, borders, and windows that share their work. The last NaN wins, else the first of
/// the largest.
TYPED_TEST(ChoiceOf, PoolsAndTheirPlaces) {
  for (int round = 0; round < 40; ++round) {
    const bool isLarge = this->often(0.2);
    const int64_t planes = this->pick({1, 2}), height = isLarge ? 60 : this->pick({5, 8, 13}),
                  width = isLarge ? 60 : this->pick({5, 16, 37}), window = isLarge ? 40 : this->pick({1, 2, 3, 5}),
                  stride = this->pick({1, 2, 3}), padding = window / 2 * this->pick({0, 1});
    const int64_t rows = (height + 2 * padding - window) / stride + 1,
                  columns = (width + 2 * padding - window) / stride + 1;
    const auto values = this->drawMany(planes * height * width, this->often(0.5) ? 0.02 : 0);
    std::vector<TypeParam> expected;
    std::vector<int64_t> places;
    for (int64_t at = 0; at < planes * rows * columns; ++at) {
      const int64_t plane = at / (rows * columns), row = at / columns % rows, column = at % columns;
      TypeParam best = 0;
      int64_t place = -1;
      for (int64_t k = 0; k < window * window; ++k) {
        const int64_t y = row * stride - padding + k / window, x = column * stride - padding + k % window;
        if (y < 0 || y >= height || x < 0 || x >= width) {
          continue;
        }
        const TypeParam value = values[static_cast<size_t>((plane * height + y) * width + x)];
        if (place < 0 || value > best || value != value) {
          best = value;
          place = y * width + x;
        }
      }
      expected.push_back(best);
      places.push_back(place);
    }
    auto pair = [](int64_t size) { return "[" + std::to_string(size) + ", " + std::to_string(size) + "]"; };
    const std::string type = typeOf({planes, 1, height, width}, Named<TypeParam>::name),
                      result = typeOf({planes, 1, rows, columns}, Named<TypeParam>::name),
                      pool = "sojourn.pool_max %0, window = " + pair(window) + ", stride = " + pair(stride) +
                             ", padding = " + pair(padding) + ", dilation = [1, 1] : " + type;
    expectSame(
        this->template run<TypeParam>(std::vector<std::vector<TypeParam>>{values}, {type}, "%y, %i = " + pool, result),
        expected, pool);
    EXPECT_EQ(this->template run<int64_t>(std::vector<std::vector<TypeParam>>{values}, {type}, "%v, %y = " + pool,
                                          typeOf({planes, 1, rows, columns}, "i64")),
              places)
        << pool;
  }
}

TYPED_TEST(ChoiceOf, Signs) {
  const std::string x = typeOf({203}, Named<TypeParam>::name);
  const auto values = this->drawMany(203, 0.3);
  std::vector<TypeParam> expected;
  for (TypeParam value : values) {
    expected.push_back(static_cast<TypeParam>((value > 0) - (value < 0)));
  }
  EXPECT_EQ(bytesOf(this->template run<TypeParam>(std::vector<std::vector<TypeParam>>{values}, {x},
                                                  "%y = sojourn.sign %0 : " + x, x)),
            bytesOf(expected));
}

TEST_F(Choice, QuotientsOfIntegers) {
  constexpr int64_t kCount = 20'000;
  std::vector<int64_t> a, b, quotients, left, right;
  for (int64_t k = 0; k < kCount; ++k) {
    a.push_back(drawInteger());
    b.push_back(drawInteger());
    if (k % 4 == 0) { // a multiple, or a little beside one
      const int64_t factor = drawInteger() % (int64_t{1} << random() % 62);
      a.back() =
          static_cast<int64_t>(static_cast<uint64_t>(b.back()) * static_cast<uint64_t>(factor) + random() % 3 - 1);
    }
    const int64_t x = a.back(), y = b.back();
    quotients.push_back(y == 0 ? 0 : y == -1 ? static_cast<int64_t>(0 - static_cast<uint64_t>(x)) : x / y);
    const bool isFar = y < 0 || y > 63;
    left.push_back(isFar ? 0 : static_cast<int64_t>(static_cast<uint64_t>(x) << y));
    right.push_back(x >> (isFar ? 63 : y));
  }
  const std::string x = typeOf({kCount}, "i64");
  auto of = [&](const std::string &op) {
    return run<int64_t>(std::vector<std::vector<int64_t>>{a, b}, {x, x},
                        "%y = sojourn." + op + " %0, %1 : " + x + ", " + x, x);
  };
  const auto found = of("div");
  for (size_t k = 0; k < found.size(); ++k) {
    EXPECT_EQ(found[k], quotients[k]) << a[k] << " / " << b[k];
  }
  EXPECT_EQ(of("shl"), left);
  EXPECT_EQ(of("shr"), right);
}

TEST_F(Choice, IntegersOfReals) {
  std::vector<double> values = {kNan,       kInfinity,   -kInfinity, -0.0,          0x1p31,        -0x1p31,
                                0x1p31 - 1, -0x1p31 - 1, 0x1p63,     -0x1p63,       0x1p63 - 1024, 2.5,
                                -2.5,       1e300,       -1e300,     0x1p31 - 0.25, 0.75};
  while (values.size() < 213) {
    values.push_back(std::ldexp(std::normal_distribution<>()(random), static_cast<int>(random() % 70)));
  }
  std::vector<int64_t> expected;
  std::vector<int32_t> narrow;
  for (double value : values) {
    expected.push_back(value != value     ? 0
                       : value >= 0x1p63  ? kMost
                       : value <= -0x1p63 ? kLeast
                                          : static_cast<int64_t>(value));
    narrow.push_back(value != value     ? 0
                     : value >= 0x1p31  ? std::numeric_limits<int32_t>::max()
                     : value <= -0x1p31 ? std::numeric_limits<int32_t>::min()
                                        : static_cast<int32_t>(value));
  }
  const std::string x = typeOf({213}, "f64"), wide = typeOf({213}, "i64"), small = typeOf({213}, "i32");
  EXPECT_EQ(run<int64_t>(std::vector<std::vector<double>>{values}, {x},
                         "%y = sojourn.convert %0 : " + x + " -> " + wide, wide),
            expected);
  EXPECT_EQ(run<int32_t>(std::vector<std::vector<double>>{values}, {x},
                         "%y = sojourn.convert %0 : " + x + " -> " + small, small),
            narrow);
}

TEST_F(Choice, RunningSumsOfExponentials) {
  for (int round = 0; round < 40; ++round) {
    const int64_t size = pick({1, 2, 9, 100});
    std::vector<double> values, expected;
    for (int64_t k = 0; k < size; ++k) {
      values.push_back(often(0.2) ? draw(true, 1) : std::normal_distribution<>()(random) * 20);
    }
    double sum = values[0];
    for (int64_t k = 0; k < size; ++k) {
      const double x = values[static_cast<size_t>(k)];
      if (k > 0) {
        const double low = std::min(sum, x), high = std::max(sum, x);
        sum = sum != sum || x != x             ? sum + x
              : low == high && std::isinf(low) ? high
                                               : high + std::log1p(std::exp(low - high));
      }
      expected.push_back(sum);
    }
    const std::string x = typeOf({size}, "f64");
    EXPECT_EQ(bytesOf(run<double>(std::vector<std::vector<double>>{values}, {x},
                                  "%y = sojourn.cumlogsumexp %0, dim = 0 : " + x, x)),
              bytesOf(expected));
  }
}

} // namespace
