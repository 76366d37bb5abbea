// SPDX-License-Identifier: Apache-2.0
// One process that is client, served owner and embedded owner at once: the transport is linked into
// the frontend's library and into what serves, and the two copies must not meet.
#include "frontend/Sojourn.h"
#include "owner/Server.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <filesystem>
#include <random>

namespace {

using namespace sojourn;

TEST(Transport, LocalServedAndConnectedInOneProcess) {
  auto folder = std::filesystem::temp_directory_path() / ("sojourn-" + std::to_string(std::random_device{}()));
  std::filesystem::create_directories(folder);
  owner::Owner served(owner::Environment::system(""));
  std::string url = "ipc://" + (folder / "o.sock").string();
  auto server = owner::Server::start(served, {url, 2});
  ASSERT_TRUE(bool(server)) << llvm::toString(server.takeError());
  {
    Owner near = local(), far = connect(url), again = connect(url);
    at::Tensor values = torch::randn({5, 3});
    for (int round = 0; round < 3; ++round) {
      for (const Owner &owner : {near, far, again}) {
        at::Tensor there = values.to(owner.device()) + round;
        EXPECT_TRUE(torch::equal(publish(there), values + round));
      }
    }
    EXPECT_GE(served.requests(), 6u);
    for (Owner owner : {near, far, again}) {
      owner.close();
    }
  }
  (*server)->stop();
  EXPECT_THROW(connect(url, 200), Error);
  std::filesystem::remove_all(folder);
}

} // namespace
