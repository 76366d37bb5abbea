// SPDX-License-Identifier: Apache-2.0
// One process that is client, served owner and embedded owner at once: the transport is linked into
// the frontend's library and into what serves, and the two copies must not meet.
#include "frontend/Sojourn.h"
#include "owner/Accounts.h"
#include "owner/Server.h"
#include "owner/worker/Service.h"
#include "runtime/wire/Step.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <filesystem>
#include <random>

namespace {

using namespace sojourn;

static owner::Environment environment() {
  owner::Environment environment = owner::Environment::system("");
  environment.worker = owner::cpuWorkers();
  return environment;
}

TEST(Transport, LocalServedAndConnectedInOneProcess) {
  auto folder = std::filesystem::temp_directory_path() / ("sojourn-" + std::to_string(std::random_device{}()));
  std::filesystem::create_directories(folder);
  owner::Owner served(environment());
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

TEST(Transport, CredentialsSayWhoConnects) {
  auto folder = std::filesystem::temp_directory_path() / ("sojourn-" + std::to_string(std::random_device{}()));
  std::filesystem::create_directories(folder);
  owner::Owner served(environment());
  std::string url = "ipc://" + (folder / "o.sock").string(), identity = folder / "me.key";
  auto key = signing::SigningKey::makeClient(identity);
  ASSERT_TRUE(key);
  auto server = owner::Server::start(served, {url, 2});
  ASSERT_TRUE(bool(server)) << llvm::toString(server.takeError());
  EXPECT_THROW(connect(url, 5000, {.identity = identity}), Error) << "not added yet";
  ASSERT_FALSE(bool(served.accounts().addClient("me", key->publicKey())));
  Owner nobody = connect(url), me = connect(url, 5000, {.identity = identity, .ownerKey = served.key()});
  EXPECT_EQ(nobody.account(), "");
  EXPECT_EQ(nobody.key(), "");
  EXPECT_EQ(me.account(), "me");
  EXPECT_EQ(me.key(), served.key());
  EXPECT_EQ(local().account(), "local");
  nobody.close();
  me.close();
  (*server)->stop();
  std::filesystem::remove_all(folder);
}

/// Client: into the message and out of the reply. Owner: at most twice each way, for nng's messages lie where nng wants
/// them, and not at all what is only read.
TEST(Transport, CopiesOfAServedOwner) {
  auto folder = std::filesystem::temp_directory_path() / ("sojourn-" + std::to_string(std::random_device{}()));
  std::filesystem::create_directories(folder);
  owner::Owner served(environment());
  std::string url = "ipc://" + (folder / "o.sock").string();
  auto server = owner::Server::start(served, {url, 2});
  ASSERT_TRUE(bool(server)) << llvm::toString(server.takeError());
  Owner far = connect(url);
  at::Tensor values = torch::randn({1'000'000}), there = values.to(far.device());
  uint64_t bytes = values.nbytes(), messages = 4096, before = wire::copiedBytes();
  flush();
  uint64_t up = wire::copiedBytes() - before;
  EXPECT_GE(up, 2 * bytes);
  EXPECT_LE(up, 3 * bytes + messages);
  before = wire::copiedBytes();
  EXPECT_TRUE(torch::equal(publish(there), values));
  uint64_t down = wire::copiedBytes() - before;
  EXPECT_GE(down, 2 * bytes);
  EXPECT_LE(down, 3 * bytes + messages);
  // What a step uses up is read where it came in.
  before = wire::copiedBytes();
  at::Tensor sum = values.to(far.device()).sum();
  flush();
  EXPECT_LE(wire::copiedBytes() - before, bytes + messages);
  EXPECT_NEAR(publish(sum).item<double>(), values.sum().item<double>(), 1e-2);
  far.close();
  (*server)->stop();
  std::filesystem::remove_all(folder);
}

} // namespace
