// SPDX-License-Identifier: Apache-2.0
// Convolutions and their gradients, the own ones (KernelsFrames.cpp) and the library's, of random shapes: 1 to 4
// threads give what a plain loop gives. Numbers are small integers, so that sums are exact in any order.
#include "test/runtime/Programs.h"

#include <algorithm>
#include <array>

using namespace sojourn;
using namespace sojourn::runtime;
using namespace sojourn::test;

namespace {

using Numbers = std::vector<double>;

struct Shape {
  int64_t images = 1, groups = 1, channels = 1, results = 1; ///< channels and results of a group
  int64_t rank = 2;
  std::array<int64_t, 2> size{1, 1}, kernel{1, 1}, stride{1, 1}, padding{0, 0}, dilation{1, 1};

  int64_t out(size_t d) const { return (size[d] + 2 * padding[d] - dilation[d] * (kernel[d] - 1) - 1) / stride[d] + 1; }
  std::array<int64_t, 2> outs() const { return {rank == 1 ? 1 : out(0), out(1)}; }

  /// "tensor<2x3x...xf32>" of sizes and the spatial ones.
  std::string tensor(int64_t first, int64_t second, std::array<int64_t, 2> spatial) const {
    return "tensor<" + std::to_string(first) + "x" + std::to_string(second) + "x" +
           (rank == 2 ? std::to_string(spatial[0]) + "x" : "") + std::to_string(spatial[1]) + "xf32>";
  }
  std::string image() const { return tensor(images, groups * channels, size); }
  std::string weight() const { return tensor(groups * results, channels, kernel); }
  std::string result() const { return tensor(images, groups * results, outs()); }
  std::string list(std::array<int64_t, 2> values) const {
    return "[" + (rank == 2 ? std::to_string(values[0]) + ", " : "") + std::to_string(values[1]) + "]";
  }
  std::string options() const {
    return "stride = " + list(stride) + ", padding = " + list(padding) + ", dilation = " + list(dilation) +
           ", groups = " + std::to_string(groups);
  }

  /// visit(place in images, in weights, in results) for every product.
  template <typename Visit>
  void each(Visit visit) const {
    const auto [height, width] = outs();
    for (int64_t n = 0; n < images; ++n) {
      for (int64_t o = 0; o < groups * results; ++o) {
        for (int64_t c = 0; c < channels; ++c) {
          const int64_t image = n * groups * channels + o / results * channels + c, to = n * groups * results + o;
          for (int64_t p = 0; p < kernel[0]; ++p) {
            for (int64_t q = 0; q < kernel[1]; ++q) {
              const int64_t tap = ((o * channels + c) * kernel[0] + p) * kernel[1] + q;
              for (int64_t i = 0; i < height; ++i) {
                const int64_t y = i * stride[0] - padding[0] + p * dilation[0];
                for (int64_t j = 0; j < width && y >= 0 && y < size[0]; ++j) {
                  const int64_t x = j * stride[1] - padding[1] + q * dilation[1];
                  if (x >= 0 && x < size[1]) {
                    visit((image * size[0] + y) * size[1] + x, tap, (to * height + i) * width + j);
                  }
                }
              }
            }
          }
        }
      }
    }
  }
};

struct Draw {
  std::mt19937_64 random;
  int64_t from(std::initializer_list<int64_t> values) { return *(values.begin() + random() % values.size()); }
  int64_t upTo(int64_t most) { return static_cast<int64_t>(random() % static_cast<uint64_t>(most + 1)); }
};

Shape anyShape(Draw &draw) {
  Shape shape;
  shape.rank = draw.from({1, 2, 2});
  shape.images = draw.from({1, 2, 3, 9});
  shape.groups = draw.from({1, 1, 1, 2, 3});
  shape.channels = draw.from({1, 3, 8, 10, 16, 20, 33});
  shape.results = draw.from({1, 4, 10, 13, 16, 33, 40});
  for (size_t d = shape.rank == 1 ? 1 : 0; d < 2; ++d) {
    shape.kernel[d] = draw.from({1, 2, 3, 3, 5});
    shape.stride[d] = draw.from({1, 1, 1, 2, 3});
    shape.dilation[d] = draw.from({1, 1, 2});
    const int64_t reach = shape.dilation[d] * (shape.kernel[d] - 1);
    shape.padding[d] = draw.upTo(std::min<int64_t>(reach, 2));
    shape.size[d] = reach + 1 + draw.from({0, 3, 6, 7, 13, 15, 16, 31});
  }
  return shape;
}

void agree(Context &context, Draw &draw, const Shape &shape) {
  const std::string x = shape.image(), w = shape.weight(), y = shape.result(), options = shape.options();
  SCOPED_TRACE(x + " " + w + " " + options);
  const std::string body = "%y = sojourn.conv %0, %1, " + options + " : " + x + ", " + w +
                           "\n%x = sojourn.conv_grad_input %2, %1, " + options + " : " + y + ", " + w + " -> " + x +
                           "\n%w = sojourn.conv_grad_weight %2, %0, " + options + " : " + y + ", " + x + " -> " + w;
  auto plan = compileText(context, programText({x, w, y}, body, {{"%y", y}, {"%x", x}, {"%w", w}}));
  ASSERT_TRUE(plan);
  auto inputs = bindWith(*plan, [&](Element) { return static_cast<double>(draw.upTo(4)) - 2; });
  const Numbers image = numbersOf(inputs[0].tensor), weight = numbersOf(inputs[1].tensor),
                gradient = numbersOf(inputs[2].tensor);
  std::array<Numbers, 3> expected{Numbers(gradient.size()), Numbers(image.size()), Numbers(weight.size())};
  shape.each([&](int64_t at, int64_t tap, int64_t to) {
    expected[0][to] += image[at] * weight[tap];
    expected[1][at] += gradient[to] * weight[tap];
    expected[2][tap] += gradient[to] * image[at];
  });
  for (unsigned threads : {1u, 2u, 4u}) {
    auto found = llvm::cantFail(plan->run(inputs, {.threads = threads}));
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_TRUE(numbersOf(found[i]) == expected[i]) << "result " << i << " on " << threads << " threads";
    }
  }
}

TEST(Convolution, RandomShapesAgreeWithPlainLoops) {
  Draw draw{freshRandom()};
  Context context;
  for (int number = 0; number < 60; ++number) {
    agree(context, draw, anyShape(draw));
  }
}

/// Bands along both dims, sums longer than one chain of additions, lines longer than a vector's.
TEST(Convolution, LargeShapesAgreeWithPlainLoops) {
  Draw draw{freshRandom()};
  Context context;
  const int64_t stride = draw.from({1, 2, 3});
  agree(context, draw, {1, 1, 16, 16, 2, {7, 1500}, {3, 3}, {1, stride}, {1, 1}, {1, 1}});
  agree(context, draw, {2, 1, 12, 17, 1, {1, 4000}, {1, 5}, {1, stride}, {0, 4}, {1, 2}});
  agree(context, draw, {2, 1, 90, 40, 2, {19, 23}, {3, 3}, {stride, 1}, {1, 1}, {1, 1}});
  agree(context, draw, {3, 1, 16, 24, 2, {70, 75}, {3, 2}, {1, 1}, {0, 0}, {1, 1}});
  agree(context, draw, {40, 1, 16, 16, 2, {20, 20}, {3, 3}, {1, 1}, {1, 1}, {1, 1}});
}

/// Frames as large as strides, dilations and padding say are left to the library, which refuses or copes: planning
/// ends, and plans are small.
TEST(Convolution, HugeOptionsAreNotFramed) {
  Context context;
  const int64_t big = int64_t{1} << 30, span = (int64_t{1} << 32) - 4;
  const Shape shapes[] = {
      {1, 1, 16, 16, 2, {1, 1}, {2, 2}, {big, big}, {2 * big, 2 * big}, {big, big}},
      {1, 1, 16, 16, 2, {2, 2}, {2, 2}, {1, 1}, {(int64_t{1} << 31) - 1, (int64_t{1} << 31) - 1}, {span, span}},
      {1, 1, 16, 16, 2, {1, 8}, {1, 1}, {int64_t{1} << 40, 1}, {0, 0}, {1, 1}},
      {4096, 1, 16, 16, 2, {1, 4}, {2, 1}, {1, 1}, {1 << 19, 0}, {1 << 20, 1}},
      {1, 1, 4096, 4096, 2, {8, 8}, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
      {2, 1, 4096, 16, 2, {1, 4}, {5, 5}, {1, 1}, {2, 2}, {1, 1}},
  };
  for (const Shape &shape : shapes) {
    const std::string x = shape.image(), w = shape.weight(), y = shape.result(), options = shape.options();
    SCOPED_TRACE(x + " " + w + " " + options);
    const std::string ops[] = {"conv %0, %1, " + options + " : " + x + ", " + w,
                               "conv_grad_input %2, %1, " + options + " : " + y + ", " + w + " -> " + x,
                               "conv_grad_weight %2, %0, " + options + " : " + y + ", " + x + " -> " + w};
    const std::string types[] = {y, x, w};
    for (size_t i = 0; i < 3; ++i) {
      auto plan = compileText(context, programText({x, w, y}, "%r = sojourn." + ops[i], {{"%r", types[i]}}));
      ASSERT_TRUE(plan);
      EXPECT_LT(plan->runMemory().scratch, size_t{32} << 20);
      EXPECT_LT(plan->planBytes(), size_t{16} << 10);
    }
  }
}

} // namespace
