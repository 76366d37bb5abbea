// SPDX-License-Identifier: Apache-2.0
// Rules called directly: storage-less tensors of our device get the same answers as CPU tensors, fused
// RNN cells (no CPU kernel) have their documented shapes, names resolve, and a rule's cost is printed.
#include "dialect/elements/OperatorName.h"
#include "dialect/elements/TypeRule.h"
#include "frontend/shapes/Shapes.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <random>
#include <set>

namespace sojourn::test {

using namespace sojourn::frontend;
using at::Tensor;

namespace {

/// Storage-less tensors of the device, as the recorder's are.
Tensor remote(const Tensor &cpu) {
  auto impl = c10::make_intrusive<c10::TensorImpl>(c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), cpu.dtype(),
                                                   c10::Device(c10::DeviceType::PrivateUse1, 0));
  impl->set_storage_access_should_throw();
  impl->set_sizes_and_strides(cpu.sizes(), cpu.strides(), cpu.storage_offset());
  return Tensor(std::move(impl));
}

std::vector<OutputMeta> rule(const char *name, std::vector<c10::IValue> args) {
  std::string text(name);
  size_t dot = text.find('.');
  auto op = c10::Dispatcher::singleton().findSchemaOrThrow(
      text.substr(0, dot).c_str(), dot == std::string::npos ? "" : text.substr(dot + 1).c_str());
  for (size_t i = args.size(); i < op.schema().arguments().size(); ++i) {
    args.push_back(op.schema().arguments()[i].default_value().value_or(c10::IValue()));
  }
  c10::SmallVector<OutputMeta, 4> outputs;
  const ShapeRule *found = findShapeRule(name);
  EXPECT_NE(found, nullptr) << name;
  (*found)(args, outputs);
  return {outputs.begin(), outputs.end()};
}

TEST(ShapeRules, storagelessTensors) {
  Tensor x = at::rand({4, 6, 5, 5}), flat = at::rand({4, 6});
  struct Case {
    const char *name;
    std::vector<c10::IValue> cpu;
  };
  const std::vector<Case> cases{
      {"aten::add.Tensor", {x, flat.select(0, 0).select(0, 0)}},
      {"aten::sum.dim_IntList", {x, std::vector<int64_t>{1, 2}}},
      {"aten::_softmax", {x, 1, false}},
      {"aten::cat", {std::vector<Tensor>{flat, flat}, 1}},
      {"aten::topk", {flat, 2}},
      {"aten::sort.stable", {flat, true}},
      {"aten::addmm", {flat.select(1, 0), flat, flat.t()}},
      {"aten::max_pool2d_with_indices", {x, std::vector<int64_t>{2, 2}}},
      {"aten::avg_pool2d", {x, std::vector<int64_t>{2, 2}}},
      {"aten::native_layer_norm", {flat, std::vector<int64_t>{6}, c10::IValue(), c10::IValue(), 1e-5}},
      {"aten::nll_loss_forward", {flat, at::zeros({4}, at::kLong), c10::IValue(), 1, -100}},
      {"aten::gather", {flat, 1, at::zeros({4, 2}, at::kLong)}},
      {"aten::scatter_add", {flat, 1, at::zeros({4, 2}, at::kLong), flat}},
      {"aten::upsample_bilinear2d", {x, std::vector<int64_t>{7, 7}, false}},
      {"aten::tril", {flat}},
      {"aten::linalg_vector_norm", {flat}},
      {"aten::cumsum", {flat, 1}},
      {"aten::argmax", {flat, 1}},
      {"aten::max.dim", {flat, 1}},
  };
  for (const Case &test : cases) {
    std::vector<c10::IValue> device;
    for (const c10::IValue &value : test.cpu) {
      if (value.isTensor()) {
        device.push_back(remote(value.toTensor()));
      } else if (value.isTensorList()) {
        std::vector<Tensor> list;
        for (const Tensor &tensor : value.toTensorVector()) {
          list.push_back(remote(tensor));
        }
        device.push_back(list);
      } else {
        device.push_back(value);
      }
    }
    auto expected = rule(test.name, test.cpu), actual = rule(test.name, device);
    ASSERT_EQ(expected.size(), actual.size()) << test.name;
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(expected[i].sizes, actual[i].sizes) << test.name;
      EXPECT_EQ(expected[i].strides, actual[i].strides) << test.name;
      EXPECT_EQ(expected[i].dtype, actual[i].dtype) << test.name;
    }
  }
}

TEST(ShapeRules, fusedCells) {
  const int64_t batch = std::random_device{}() % 5 + 1, hidden = std::random_device{}() % 7 + 1;
  Tensor state = at::rand({batch, hidden}), gates = at::rand({batch, 4 * hidden}), gru = at::rand({batch, 3 * hidden});
  auto lstm = rule("aten::_thnn_fused_lstm_cell", {gates, gates, state});
  ASSERT_EQ(lstm.size(), 3u);
  EXPECT_EQ(lstm[0].sizes, Dims({batch, hidden}));
  EXPECT_EQ(lstm[1].sizes, Dims({batch, hidden}));
  EXPECT_EQ(lstm[2].sizes, Dims({batch, 4 * hidden}));
  auto back = rule("aten::_thnn_fused_lstm_cell_backward_impl", {state, c10::IValue(), state, state, gates, true});
  ASSERT_EQ(back.size(), 3u);
  EXPECT_EQ(back[0].sizes, Dims({batch, 4 * hidden}));
  EXPECT_EQ(back[1].sizes, Dims({batch, hidden}));
  EXPECT_EQ(back[2].sizes, Dims({4 * hidden}));
  auto cell = rule("aten::_thnn_fused_gru_cell", {gru, gru, state});
  ASSERT_EQ(cell.size(), 2u);
  EXPECT_EQ(cell[0].sizes, Dims({batch, hidden}));
  EXPECT_EQ(cell[1].sizes, Dims({batch, 5 * hidden}));
  auto gruBack = rule("aten::_thnn_fused_gru_cell_backward", {state, at::rand({batch, 5 * hidden}), false});
  ASSERT_EQ(gruBack.size(), 5u);
  EXPECT_EQ(gruBack[0].sizes, Dims({batch, 3 * hidden}));
  EXPECT_EQ(gruBack[2].sizes, Dims({batch, hidden}));
  EXPECT_FALSE(gruBack[3].defined);
}

TEST(ShapeRules, recurrentNetworks) {
  const int64_t length = std::random_device{}() % 4 + 1, batch = std::random_device{}() % 5 + 1;
  const int64_t width = std::random_device{}() % 7 + 1, hidden = std::random_device{}() % 7 + 1;
  Tensor x = at::rand({length, batch, width}), state = at::rand({4, batch, hidden}); // two layers, both ways
  auto made = [&](int64_t mode, bool train) {
    return rule("aten::_cudnn_rnn", {x, c10::List<Tensor>({x}), 4, c10::IValue(), state, state, mode, hidden, 0, 2,
                                     false, 0.0, train, true, c10::List<int64_t>(), c10::IValue()});
  };
  for (auto [mode, parts] : {std::pair<int64_t, int64_t>{0, 1}, {1, 1}, {2, 6}, {3, 5}}) {
    auto network = made(mode, true);
    ASSERT_EQ(network.size(), 5u);
    EXPECT_EQ(network[0].sizes, Dims({length, batch, 2 * hidden}));
    EXPECT_EQ(network[1].sizes, Dims({4, batch, hidden}));
    EXPECT_EQ(network[2].defined, mode == 2);
    EXPECT_EQ(network[3].sizes, Dims({4, length, batch, parts * hidden}));
    EXPECT_FALSE(made(mode, false)[3].defined);
  }
  EXPECT_ANY_THROW(made(4, true));
  Tensor weight = at::rand({4 * hidden, width});
  auto back = rule("aten::_cudnn_rnn_backward", {x,
                                                 c10::List<Tensor>({weight, state}),
                                                 4,
                                                 x,
                                                 state,
                                                 state,
                                                 x,
                                                 x,
                                                 c10::IValue(),
                                                 c10::IValue(),
                                                 2,
                                                 hidden,
                                                 0,
                                                 2,
                                                 false,
                                                 0.0,
                                                 true,
                                                 true,
                                                 c10::List<int64_t>(),
                                                 c10::IValue(),
                                                 x,
                                                 c10::List<bool>()});
  ASSERT_EQ(back.size(), 5u);
  EXPECT_EQ(back[0].sizes, Dims({length, batch, width}));
  EXPECT_EQ(back[2].sizes, Dims({4, batch, hidden}));
  EXPECT_EQ(back[3].sizes, Dims({4 * hidden, width}));
}

/// In-place and out overloads answer with the functional rule.
TEST(ShapeRules, namesResolve) {
  for (auto [name, functional] : {std::pair{"aten::add_.Tensor", "aten::add.Tensor"},
                                  {"aten::add.out", "aten::add.Tensor"},
                                  {"aten::sum.IntList_out", "aten::sum.dim_IntList"},
                                  {"aten::sum.out", "aten::sum"},
                                  {"aten::mm.out", "aten::mm"},
                                  {"aten::normal_", "aten::normal_functional"},
                                  {"aten::cat.out", "aten::cat"},
                                  {"aten::fill_.Scalar", "aten::fill.Scalar"},
                                  {"aten::zero_", "aten::zero"}}) {
    EXPECT_NE(findShapeRule(name), nullptr) << name;
    EXPECT_EQ(findShapeRule(name)->function(), findShapeRule(functional)->function()) << name;
  }
  EXPECT_EQ(findViewRule("aten::transpose_"), findViewRule("aten::transpose.int"));
  EXPECT_NE(findViewRule("aten::squeeze_.dim"), nullptr);
  EXPECT_NE(findViewRule("aten::view"), nullptr);
  EXPECT_NE(findViewRule("aten::view.dtype"), findViewRule("aten::view"));
  EXPECT_EQ(findShapeRule("aten::nonzero"), nullptr);
  EXPECT_EQ(findShapeRule("aten::no_such_op"), nullptr);
  for (const char *name :
       {"aten::_fused_adam_", "aten::_fused_adamw_.tensor_lr", "aten::_fused_sgd_", "aten::_foreach_add_.List",
        "aten::bernoulli_.float", "aten::random_.from", "aten::_foreach_addcdiv_.ScalarList"}) {
    EXPECT_NE(findShapeRule(name), nullptr) << name;
  }
}

/// Not a gate: prints what a rule costs.
/// A misspelt operator or argument in the table of types would be silent: nothing would be cast.
TEST(ShapeRules, rowsOfTypesNameOperatorsAndTheirArguments) {
  std::map<std::string, std::set<std::string>> known;
  for (const c10::OperatorName &name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (name.name.starts_with("aten::")) {
      auto &arguments = known[functionalBase(name.name.substr(std::string_view("aten::").size()))];
      for (const c10::Argument &argument : c10::Dispatcher::singleton().findSchema(name)->schema().arguments()) {
        arguments.insert(argument.name());
      }
    }
  }
  std::set<std::string_view> seen;
  for (const TypeRow &row : typeTable()) {
    EXPECT_TRUE(seen.insert(row.base).second) << row.base << " has two rows";
    auto found = known.find(std::string(row.base));
    ASSERT_NE(found, known.end()) << "torch has no operator " << row.base;
    const TypeRule rule(row);
    for (const std::string &argument : rule.arguments()) {
      EXPECT_TRUE(found->second.contains(argument)) << row.base << " has no argument " << argument;
    }
  }
  EXPECT_GT(seen.size(), 200u);
}

TEST(ShapeRules, cost) {
  Tensor x = at::rand({64, 256}), w = at::rand({256, 256}), bias = at::rand({256});
  auto measure = [](const char *name, const std::vector<c10::IValue> &args) {
    const ShapeRule *found = findShapeRule(name);
    c10::SmallVector<OutputMeta, 4> outputs;
    constexpr int kRepeats = 2000;
    double best = 1e9;
    for (int round = 0; round < 20; ++round) {
      auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < kRepeats; ++i) {
        outputs.clear();
        (*found)(args, outputs);
      }
      std::chrono::duration<double, std::micro> spent = std::chrono::steady_clock::now() - start;
      best = std::min(best, spent.count() / kRepeats);
    }
    std::cout << name << " " << best << " us\n";
  };
  measure("aten::add.Tensor", {x, x, 1});
  measure("aten::mul.Scalar", {x, 2.5});
  measure("aten::relu", {x});
  measure("aten::mm", {x, w});
  measure("aten::addmm", {bias, x, w, 1, 1});
  measure("aten::sum.dim_IntList", {x, std::vector<int64_t>{0}, false, c10::IValue()});
  measure("aten::_log_softmax", {x, 1, false});
  measure("aten::threshold_backward", {x, x, 0});
}

} // namespace
} // namespace sojourn::test
