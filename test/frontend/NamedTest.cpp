// SPDX-License-Identifier: Apache-2.0
// Values with names from C++: two connections to one embedded owner, against CPU tensors.
#include "frontend/Sojourn.h"
#include "frontend/local/Local.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace {

using namespace sojourn;

TEST(Named, AnotherConnectionFindsTheValueAsItWasLeft) {
  frontend::EmbeddedOwner embedded("", "");
  auto open = [&] { return connect("embedded", [&](std::string_view request) { return embedded.handle(request); }); };
  Owner first = open();
  const at::Tensor value = torch::randn({2, 3}, at::kDouble);
  {
    at::Tensor weight = value.to(first.device());
    nameValues({{"weight", weight}, {"twice", weight * 2}}, {"trial"});
    weight.add_(1);
    first.flush();
  }
  first.close();
  Owner second = open();
  const std::vector<ValueInfo> found = second.values("trial");
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].name + found[1].name, "twiceweight");
  EXPECT_EQ(found[1].dtype, at::kDouble);
  EXPECT_EQ(found[1].shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(found[1].bytes, 48u);
  EXPECT_TRUE(second.values("other").empty());
  const std::vector<at::Tensor> taken = second.takeValues({"weight", "twice"});
  EXPECT_TRUE(torch::equal(taken[0].cpu(), value + 1));
  EXPECT_TRUE(torch::equal(taken[1].cpu(), value * 2));
  second.releaseNames({"weight", "twice"});
  EXPECT_THROW(second.takeValues({"weight"}), Error);
  second.close();
}

} // namespace
