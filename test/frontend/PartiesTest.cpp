// SPDX-License-Identifier: Apache-2.0
// Groups of owners from C++: a training step over three tables beside plain tensors.
#include "frontend/Sojourn.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdio>
#include <random>

namespace {

using namespace sojourn;

TEST(Parties, TrainAsOnAllRows) {
  const auto seed = std::random_device{}();
  std::printf("seed %u\n", seed);
  torch::manual_seed(seed);
  std::vector<Owner> owners;
  std::vector<Table> plains;
  for (int64_t rows : {30, 18, 42}) {
    const std::vector<std::pair<std::string, at::Tensor>> data = {
        {"a", torch::randn({rows})}, {"b", torch::randn({rows})}, {"y", torch::randint(0, 2, {rows}, at::kLong)}};
    owners.push_back(local());
    owners.back().registerDataset("t", data, {.policy = "open", .bounds = {}, .fills = {}});
    plains.push_back(plain(data, {.name = "t"}));
  }
  for (size_t at = 0; at < owners.size(); ++at) {
    owners[at].share("t", {owners[(at + 1) % 3], owners[(at + 2) % 3]});
  }
  const Parties group = parties(owners);
  const at::Tensor start = torch::randn({2, 2}) / 2;

  auto train = [&](const Table &table, at::Tensor weight) {
    for (auto [x, y] : table.batches({.features = {"a", "b"}, .label = "y", .size = 15, .epochs = 2, .seed = 7})) {
      weight = weight.detach().requires_grad_();
      at::Tensor loss = torch::nn::functional::cross_entropy(x.mm(weight), y);
      loss.backward();
      weight = weight.detach() - 0.3 * weight.grad();
    }
    return weight;
  };
  const at::Tensor found = publish(train(group.rows("t"), start.to(group.device())));
  EXPECT_TRUE(torch::allclose(found, train(pooled(plains), start), 1e-4, 1e-5)) << found;
  EXPECT_EQ(group.rows("t").rows(), 90);
  EXPECT_THROW(group.rows(std::vector<Table>{owners[0].dataset("t")}), Error);
  EXPECT_THROW(parties({}), Error);
  owners[2].share("t", {owners[0]}, "none");
  EXPECT_THROW(publish(group.rows("t")["a"].sum()), Error);
  group.close();
  for (const Owner &owner : owners) {
    owner.close();
  }
}

} // namespace
