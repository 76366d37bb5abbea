// SPDX-License-Identifier: Apache-2.0
// Who gets the next place: counts of a model kept here, and random traffic of several accounts.
#include "owner/StepQueue.h"
#include "owner/RequestError.h"

#include "test/owner/Support.h"

#include <atomic>
#include <future>
#include <map>
#include <optional>
#include <thread>
#include <vector>

namespace sojourn::owner::test {

namespace {

using namespace std::chrono_literals;
using Lane = StepQueue::Lane;

struct Queue : testing::Test {
  RunningSteps steps{0};
  RunningStep step;
  StepQueue queue{2}; // 8 small places, 4 large ones

  std::optional<StepQueue::Place> enter(const std::string &account, Lane lane) {
    auto place = queue.enter(account, lane, steps, step);
    if (!place) {
      ADD_FAILURE() << llvm::toString(place.takeError());
      return std::nullopt;
    }
    return std::optional<StepQueue::Place>(std::move(*place));
  }
  auto later(const std::string &account, Lane lane) {
    return std::async(std::launch::async, [=, this] { return enter(account, lane); });
  }
};

template <class T>
bool pending(const std::future<T> &future) {
  return future.wait_for(50ms) == std::future_status::timeout;
}

TEST_F(Queue, LanesAreOfTheirOwnSize) {
  EXPECT_EQ(StepQueue::laneOf(1), Lane::small);
  EXPECT_EQ(StepQueue::laneOf(kSmallOperations), Lane::small);
  EXPECT_EQ(StepQueue::laneOf(kSmallOperations + 1), Lane::large);
}

TEST_F(Queue, SmallWorkDoesNotWaitForLargeWork) {
  std::vector<std::optional<StepQueue::Place>> large;
  for (const char *account : {"ada", "ada", "bob", "bob"}) {
    large.push_back(enter(account, Lane::large));
  }
  auto waits = later("carol", Lane::large);
  for (int round = 0; round < 100; ++round) {
    EXPECT_TRUE(enter("dave", Lane::small));
  }
  EXPECT_TRUE(pending(waits));
  large.pop_back();
  EXPECT_TRUE(waits.get());
}

TEST_F(Queue, NobodyTakesAllPlacesForLargeWork) {
  auto first = enter("ada", Lane::large), second = enter("ada", Lane::large);
  auto third = later("ada", Lane::large);
  EXPECT_TRUE(pending(third)) << "half of them";
  auto anonymous = enter("", Lane::large);
  auto another = later("", Lane::large);
  EXPECT_TRUE(pending(another)) << "a quarter of them";
  EXPECT_TRUE(enter("bob", Lane::large)) << "with an identity";
  first.reset();
  EXPECT_TRUE(third.get());
  EXPECT_TRUE(pending(another));
  anonymous.reset();
  EXPECT_TRUE(another.get());
}

TEST_F(Queue, TheDataOwnersProcessWaitsForNobody) {
  std::vector<std::optional<StepQueue::Place>> places;
  for (int at = 0; at < 50; ++at) {
    places.push_back(enter(kLocalClient, Lane::large));
  }
  EXPECT_TRUE(enter("ada", Lane::large));
}

TEST_F(Queue, AnAccountWithFewPlacesComesFirst) {
  std::vector<std::optional<StepQueue::Place>> places;
  for (const char *account : {"ada", "ada", "ada", "ada", "carol", "carol", "dave", "dave"}) {
    places.push_back(enter(account, Lane::small));
  }
  std::vector<std::future<bool>> more; // they give their places back at once
  for (int at = 0; at < 20; ++at) {
    more.push_back(std::async(std::launch::async, [&] { return enter("ada", Lane::small).has_value(); }));
  }
  EXPECT_TRUE(pending(more.back()));
  auto bob = later("bob", Lane::small);
  EXPECT_TRUE(pending(bob));
  places.pop_back();
  EXPECT_TRUE(bob.get()) << "though twenty of ada's came before";
  places.clear();
  for (auto &place : more) {
    EXPECT_TRUE(place.get());
  }
}

TEST_F(Queue, StoppedStepsLeaveIt) {
  RunningSteps watched(200);
  auto first = enter("ada", Lane::large), second = enter("ada", Lane::large);
  RunningStep waiting;
  watched.add(waiting);
  watched.renew(waiting);
  auto place = queue.enter("ada", Lane::large, watched, waiting);
  ASSERT_FALSE(bool(place));
  EXPECT_NE(llvm::toString(place.takeError()).find("deadline"), std::string::npos);
  watched.remove(waiting);
  first.reset();
  EXPECT_TRUE(enter("ada", Lane::large)) << "the place of the step that left is nobody's";
}

TEST_F(Queue, PatienceEndsAWait) {
  auto first = enter("ada", Lane::large), second = enter("ada", Lane::large);
  RunningStep step;
  const auto begin = std::chrono::steady_clock::now();
  auto place = queue.enter("ada", Lane::large, steps, step, std::chrono::milliseconds(50));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  ASSERT_FALSE(bool(place));
  const RequestError error = takeRequestError(place.takeError());
  EXPECT_EQ(error.code, wire::ErrorCode_Busy);
  EXPECT_NE(error.message.find("this owner had no place among its steps within 50 ms"), std::string::npos);
  EXPECT_EQ(queue.counts(Lane::large), (std::pair<size_t, size_t>(2, 0))) << "it waits no longer";
  first.reset();
  auto third = queue.enter("ada", Lane::large, steps, step, std::chrono::milliseconds(50));
  EXPECT_TRUE(bool(third)) << llvm::toString(third.takeError());
}

/// Two accounts with unequal numbers of threads get about the same time.
TEST_F(Queue, TimeIsSharedByAccount) {
  std::map<std::string, std::atomic<int>> done;
  for (const char *name : {"ada", "bob", "carol"}) {
    done[name] = 0;
  }
  std::atomic<bool> isOver = false;
  std::vector<std::thread> threads;
  auto work = [&](const std::string &account) {
    while (!isOver) {
      auto place = enter(account, Lane::large);
      std::this_thread::sleep_for(2ms);
      done.at(account) += !isOver;
    }
  };
  for (int at = 0; at < 12; ++at) {
    threads.emplace_back(work, at < 8 ? "ada" : at < 10 ? "bob" : "carol");
  }
  std::this_thread::sleep_for(2s);
  isOver = true;
  for (std::thread &thread : threads) {
    thread.join();
  }
  // Of four places in turn, whoever has more threads.
  EXPECT_LT(done["ada"], 2 * done["bob"]);
  EXPECT_LT(done["ada"], 2 * done["carol"]);
}

} // namespace

} // namespace sojourn::owner::test
