// SPDX-License-Identifier: Apache-2.0
// Bad arguments: a rule's error text is eager's, word for word. The checker compares the two whenever
// eager throws; each case here must throw and must have been compared.
#include "test/frontend/ShapesCheck.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>

namespace sojourn::test {
namespace {

using Cases = std::vector<std::pair<const char *, std::function<void()>>>;

void expectSameErrors(const Cases &cases) {
  for (const auto &[name, body] : cases) {
    CheckShapes checking;
    EXPECT_THROW(body(), c10::Error) << name;
    EXPECT_EQ(checking.report().errorsChecked, 1) << name;
    EXPECT_TRUE(checking.report().failures.empty()) << name << "\n" << checking.report().text();
  }
}

at::Tensor of(std::vector<int64_t> sizes, at::ScalarType type = at::kFloat) { return at::ones(sizes, type); }

TEST(ShapesErrors, elementwise) {
  expectSameErrors({
      {"broadcast",
       [] {
         at::add(of({2, 3}), of({4}));
       }},
      {"broadcast in place",
       [] {
         at::mul(of({2, 1}), of({3, 4}));
       }},
      {"subtract bools", [] { at::sub(of({2}, at::kBool), of({2}, at::kBool)); }},
      {"subtract a bool", [] { at::sub(of({2}), of({2}, at::kBool)); }},
      {"negate a bool", [] { at::neg(of({2}, at::kBool)); }},
      {"float alpha of integers", [] { at::add(of({2}, at::kLong), of({2}, at::kLong), 0.5); }},
      {"bitwise on floats", [] { at::bitwise_and(of({2}), of({2})); }},
      {"bitwise_not on floats", [] { at::bitwise_not(of({2})); }},
      {"negative integer power", [] { at::pow(of({2}, at::kLong), -1); }},
      {"lerp dtypes", [] { at::lerp(of({2}), of({2}, at::kDouble), 0.5); }},
      {"clamp without bounds", [] { at::clamp(of({2}), std::optional<at::Scalar>(), std::optional<at::Scalar>()); }},
      {"where condition", [] { at::where(of({2}), of({2}), of({2})); }},
      {"masked_fill mask", [] { at::masked_fill(of({2}), of({2}), 1); }},
      {"rounding mode", [] { at::div(of({2}), of({2}), "up"); }},
      {"relu of bool", [] { at::relu(of({2}, at::kBool)); }},
      {"glu of odd size", [] { at::glu(of({3})); }},
  });
}

TEST(ShapesErrors, linear) {
  expectSameErrors({
      {"mm sizes",
       [] {
         at::mm(of({2, 3}), of({4, 5}));
       }},
      {"mm rank",
       [] {
         at::mm(of({2}), of({4, 5}));
       }},
      {"mm rank right",
       [] {
         at::mm(of({2, 4}), of({4}));
       }},
      {"mm dtypes",
       [] {
         at::mm(of({2, 3}), of({3, 2}, at::kDouble));
       }},
      {"addmm sizes",
       [] {
         at::addmm(of({5}), of({2, 3}), of({4, 5}));
       }},
      {"addmm dtypes",
       [] {
         at::addmm(of({5}), of({2, 3}), of({3, 5}, at::kDouble));
       }},
      {"addmm bias",
       [] {
         at::addmm(of({4}), of({2, 3}), of({3, 5}));
       }},
      {"bmm sizes",
       [] {
         at::bmm(of({2, 3, 4}), of({2, 5, 6}));
       }},
      {"bmm rank",
       [] {
         at::bmm(of({2, 3}), of({2, 5, 6}));
       }},
      {"bmm dtypes",
       [] {
         at::bmm(of({2, 3, 4}), of({2, 4, 6}, at::kDouble));
       }},
      {"baddbmm bias",
       [] {
         at::baddbmm(of({7}), of({2, 3, 4}), of({2, 4, 6}));
       }},
      {"mv sizes",
       [] {
         at::mv(of({2, 3}), of({4}));
       }},
      {"dot sizes", [] { at::dot(of({2}), of({3})); }},
      {"dot dtypes", [] { at::dot(of({2}), of({2}, at::kDouble)); }},
  });
}

TEST(ShapesErrors, reductions) {
  expectSameErrors({
      {"sum dim",
       [] {
         at::sum(of({2, 3}), 2);
       }},
      {"sum dim twice",
       [] {
         at::sum(of({2, 3}), {0, 0});
       }},
      {"mean of integers", [] { at::mean(of({2}, at::kLong)); }},
      {"mean of integers, dim", [] { at::mean(of({2}, at::kLong), 0); }},
      {"max of nothing", [] { at::max(of({0})); }},
      {"amax of nothing",
       [] {
         at::amax(of({2, 0}), 1);
       }},
      {"argmax of nothing",
       [] {
         at::argmax(of({2, 0}), 1);
       }},
      {"softmax dim",
       [] {
         at::_softmax(of({2, 3}), 5, false);
       }},
      {"topk k", [] { at::topk(of({3}), 4); }},
      {"sort dim", [] { at::sort(of({3}), 1); }},
      {"cumsum dim", [] { at::cumsum(of({3}), 1); }},
      {"kthvalue k", [] { at::kthvalue(of({3}), 4); }},
      {"var of integers", [] { at::var(of({3}, at::kLong), {0}, true); }},
  });
}

TEST(ShapesErrors, viewsAndArrangement) {
  expectSameErrors({
      {"view size",
       [] {
         of({2, 3}).view({4});
       }},
      {"view of transposed",
       [] {
         of({2, 3}).t().view({6});
       }},
      {"view two -1",
       [] {
         of({2, 3}).view({-1, -1});
       }},
      {"transpose dim",
       [] {
         of({2, 3}).transpose(0, 2);
       }},
      {"permute count",
       [] {
         of({2, 3}).permute({0});
       }},
      {"permute twice",
       [] {
         of({2, 3}).permute({0, 0});
       }},
      {"squeeze dim",
       [] {
         of({2, 3}).squeeze(3);
       }},
      {"unsqueeze dim", [] { of({2}).unsqueeze(4); }},
      {"expand size",
       [] {
         of({2, 3}).expand({4, 3});
       }},
      {"slice of a scalar", [] { of({}).slice(0); }},
      {"select index",
       [] {
         of({2, 3}).select(1, 3);
       }},
      {"split sizes",
       [] {
         of({5}).split_with_sizes({2, 2});
       }},
      {"diagonal dims",
       [] {
         of({2, 3}).diagonal(0, 1, 1);
       }},
      {"unfold size", [] { of({2}).unfold(0, 3, 1); }},
      {"t of rank 3",
       [] {
         of({2, 2, 2}).t();
       }},
      {"cat sizes",
       [] {
         at::cat({of({2, 3}), of({2, 4})}, 0);
       }},
      {"cat ranks",
       [] {
         at::cat({of({2, 3}), of({2})}, 0);
       }},
      {"cat dim",
       [] {
         at::cat({of({2, 3})}, 2);
       }},
      {"stack sizes",
       [] {
         at::stack({of({2}), of({3})});
       }},
      {"repeat rank",
       [] {
         of({2, 3}).repeat({2});
       }},
      {"tril rank", [] { at::tril(of({2})); }},
      {"pad odd", [] { at::constant_pad_nd(of({2}), {1}); }},
      {"pad negative",
       [] {
         at::constant_pad_nd(of({2}), {-2, -1});
       }},
      {"pixel_shuffle",
       [] {
         at::pixel_shuffle(of({1, 3, 2, 2}), 2);
       }},
  });
}

TEST(ShapesErrors, networks) {
  const std::vector<int64_t> one{1, 1}, zero{0, 0};
  auto convolution = [=](const at::Tensor &x, const at::Tensor &w, const at::Tensor &b = {}, int64_t groups = 1) {
    at::convolution(x, w, b, one, zero, one, false, zero, groups);
  };
  expectSameErrors({
      {"conv channels",
       [=] {
         convolution(of({1, 3, 8, 8}), of({4, 2, 3, 3}));
       }},
      {"conv kernel",
       [=] {
         convolution(of({1, 3, 2, 8}), of({4, 3, 3, 3}));
       }},
      {"conv groups",
       [=] {
         convolution(of({1, 4, 8, 8}), of({3, 2, 3, 3}), {}, 2);
       }},
      {"conv bias",
       [=] {
         convolution(of({1, 3, 8, 8}), of({4, 3, 3, 3}), of({3}));
       }},
      {"conv rank",
       [=] {
         convolution(of({3, 8, 8}), of({4, 3, 3, 3}));
       }},
      {"layer_norm shape",
       [] {
         at::native_layer_norm(of({2, 3}), {4}, {}, {}, 1e-5);
       }},
      {"layer_norm weight",
       [] {
         at::native_layer_norm(of({2, 3}), {3}, of({4}), {}, 1e-5);
       }},
      {"embedding rank", [] { at::embedding(of({2}), at::zeros({2}, at::kLong)); }},
      {"max_pool output",
       [] {
         at::max_pool2d_with_indices(of({1, 2, 2}), {3, 3});
       }},
      {"max_pool padding",
       [] {
         at::max_pool2d_with_indices(of({1, 4, 4}), {2, 2}, {2, 2}, {2, 2});
       }},
      {"avg_pool rank",
       [] {
         at::avg_pool2d(of({4, 4}), 2);
       }},
      {"adaptive pool rank",
       [] {
         at::_adaptive_avg_pool2d(of({4, 4}), {2, 2});
       }},
      {"nll batch",
       [] {
         at::nll_loss_forward(of({3, 4}), at::zeros({2}, at::kLong), {}, 1, -100);
       }},
      {"nll rank",
       [] {
         at::nll_loss_forward(of({3, 4, 5}), at::zeros({2}, at::kLong), {}, 1, -100);
       }},
      {"nll dtype",
       [] {
         at::nll_loss_forward(of({3, 4}), at::zeros({3}), {}, 1, -100);
       }},
      {"nll weight",
       [] {
         at::nll_loss_forward(of({3, 4}), at::zeros({3}, at::kLong), of({3}), 1, -100);
       }},
      {"upsample rank",
       [] {
         at::upsample_nearest2d(of({3, 4}), {2, 2});
       }},
  });
}

TEST(ShapesErrors, indexing) {
  auto longs = [](std::vector<int64_t> sizes) { return at::zeros(sizes, at::kLong); };
  expectSameErrors({
      {"too many indices",
       [=] {
         at::index(of({2}), {longs({1}), longs({1})});
       }},
      {"float index", [] { at::index(of({2}), {of({1})}); }},
      {"index shapes",
       [=] {
         at::index(of({2, 3}), {longs({2}), longs({3})});
       }},
      {"index_put values",
       [=] {
         at::index_put(of({4, 3}), {longs({2})}, of({4}));
       }},
      {"index_put dtype", [=] { at::index_put(of({4}), {longs({2})}, of({2}, at::kDouble)); }},
      {"index_select rank",
       [=] {
         at::index_select(of({2, 3}), 0, longs({1, 1}));
       }},
      {"index_select dtype",
       [] {
         at::index_select(of({2, 3}), 0, of({1}));
       }},
      {"gather rank",
       [=] {
         at::gather(of({2, 3}), 0, longs({1}));
       }},
      {"gather dtype",
       [] {
         at::gather(of({2, 3}), 0, of({1, 1}));
       }},
      {"scatter sizes",
       [=] {
         at::scatter_add(of({2, 3}), 0, longs({5, 3}), of({2, 3}));
       }},
      {"scatter dtype",
       [=] {
         at::scatter(of({2, 3}), 0, longs({1, 1}), of({1, 1}, at::kDouble));
       }},
      {"index_add count",
       [=] {
         at::index_add(of({2, 3}), 0, longs({2}), of({3, 3}));
       }},
      {"take dtype", [] { at::take(of({2}), of({1})); }},
  });
}

TEST(ShapesErrors, factoriesAndLists) {
  expectSameErrors({
      {"arange step", [] { at::arange(0, 1, 0); }},
      {"arange direction", [] { at::arange(3, 1); }},
      {"linspace steps", [] { at::linspace(0, 1, -1); }},
      {"eye size", [] { at::eye(-1); }},
      {"list lengths",
       [] {
         c10::InferenceMode belowAutograd;
         at::_foreach_add(std::vector{of({1})}, std::vector{of({1}), of({1})});
       }},
      {"empty list", [] { at::_foreach_neg(std::vector<at::Tensor>()); }},
      {"scalar list length",
       [] {
         at::_foreach_mul(std::vector{of({1})}, std::vector<at::Scalar>{1.0, 2.0});
       }},
  });
}

} // namespace
} // namespace sojourn::test
