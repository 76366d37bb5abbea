// SPDX-License-Identifier: Apache-2.0
// An owner that is short of memory: each allocation of a request fails once. What it tells has to be what it did.
#include "test/owner/Support.h"

#include <bit>
#include <cstdlib>
#include <new>

namespace {

/// Of this thread: allocations until one fails, and how many fail then; negative: none.
thread_local int64_t untilFailure = -1, failures = 0;
thread_local bool failed = false;

void *allocate(size_t size) {
  if (untilFailure >= 0 && untilFailure-- <= 0) {
    failed = true;
    if (--failures > 0) {
      untilFailure = 0;
    }
    throw std::bad_alloc();
  }
  if (void *memory = std::malloc(size > 0 ? size : 1)) {
    return memory;
  }
  throw std::bad_alloc();
}

} // namespace

void *operator new(size_t size) { return allocate(size); }
void *operator new[](size_t size) { return allocate(size); }
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete[](void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, size_t) noexcept { std::free(memory); }
void operator delete[](void *memory, size_t) noexcept { std::free(memory); }

namespace sojourn::owner::test {

namespace {

/// Adds a slot to a state of three numbers; commits, keeps and publishes the sum.
runtime::EncodedProgram addProgram() {
  const std::string type = "tensor<3xf32>";
  return encode(
      moduleText("(%x: " + type + " {sojourn.kind = \"state\"}, %s: tensor<f64> {sojourn.kind = \"slot\"}) -> (" +
                     type + " {sojourn.result = \"commit\", sojourn.target = 0 : i64}, " + type +
                     " {sojourn.result = \"keep\"}, " + type + " {sojourn.result = \"publish\"})",
                 "    %one = sojourn.convert %s : tensor<f64> -> tensor<f32>\n    %y = sojourn.add %x, %one : " + type +
                     ", tensor<f32>\n    return %y, %y, %y : " + type + ", " + type + ", " + type));
}

struct ShortOfMemory : testing::Test {
  static constexpr uint32_t kSteps = 4;
  World world;
  std::unique_ptr<Owner> owner;
  std::unique_ptr<Client> client;
  float value = 0;       ///< of the state, as the replies have told
  uint64_t nextKept = 2; ///< handles

  void SetUp() override {
    Limits limits;
    limits.threads = 1;
    owner = std::make_unique<Owner>(world.environment(), limits);
    client = std::make_unique<Client>(*owner);
    StepRequest keep;
    keep.uploads = {f32({3}, {0, 0, 0})};
    keep.results = {1};
    ASSERT_EQ(client->run(keepProgram(), keep).error(), "");
  }
  std::string message() {
    StepRequest step;
    step.states = {1};
    step.slots = {std::bit_cast<uint64_t>(1.0)};
    step.results = {nextKept};
    for (uint32_t at = 1; at < kSteps; ++at) {
      StepRequest next;
      next.results = {nextKept + at};
      step.repetitions.push_back(next);
    }
    return client->request(addProgram(), step);
  }
  /// Steps that a reply says have committed; -1: nothing was said.
  int64_t told(const std::string &bytes) {
    if (bytes.empty()) {
      return -1;
    }
    Reply reply(bytes);
    if (const auto *done = reply.root->body_as_Done()) {
      EXPECT_EQ(done->published()->size(), done->steps());
      for (uint32_t at = 0; at < done->steps(); ++at) {
        EXPECT_EQ(values<float>(reply.published(at)), std::vector<float>(3, value + 1 + static_cast<float>(at)));
      }
      EXPECT_EQ(done->failure() != nullptr, done->steps() < kSteps);
      return done->steps();
    }
    if (const auto *committed = reply.root->body_as_Committed()) {
      return committed->steps();
    }
    EXPECT_EQ(reply.asError().code(), wire::ErrorCode_Limit) << reply.error();
    return 0;
  }
  /// By a step of its own.
  float stateNow() {
    StepRequest step;
    step.states = {1};
    Reply reply = client->run(publishProgram(), step);
    EXPECT_EQ(reply.error(), "");
    return values<float>(reply.published(0))[0];
  }
};

} // namespace

TEST_F(ShortOfMemory, WhatCommittedIsTold) {
  stateNow();
  ASSERT_EQ(told(owner->handle(message())), kSteps); // the plan is cached
  value += kSteps;
  ++client->steps;
  nextKept += kSteps;
  size_t kept = 1 + kSteps, refused = 0, partly = 0, forgotten = 0;
  for (int64_t burst : {1, 4}) {
    for (int64_t at = 0;; ++at) {
      const std::string bytes = message();
      untilFailure = at;
      failures = burst;
      failed = false;
      sojourn::wire::Message reply = owner->answer(bytes);
      untilFailure = -1;
      if (!failed) {
        EXPECT_GT(at, 10 * kSteps);
        const int64_t steps = told(std::string(reply.bytes));
        ASSERT_EQ(steps, kSteps);
        value += kSteps;
        kept += kSteps;
        ++client->steps;
        nextKept += kSteps;
        break;
      }
      int64_t steps = told(std::string(reply.bytes));
      if (steps < 0) { // the client asks again, with the same bytes
        ++forgotten;
        steps = told(owner->handle(bytes));
        ASSERT_GE(steps, 0);
      }
      value += static_cast<float>(steps);
      kept += static_cast<size_t>(steps);
      client->steps += steps > 0;
      nextKept += kSteps;
      refused += steps == 0;
      partly += steps > 0 && steps < kSteps;
      ASSERT_EQ(stateNow(), value) << "allocation " << at << " failed, and " << steps << " steps were told";
      ASSERT_EQ(owner->liveHandles(), kept) << "allocation " << at;
    }
  }
  EXPECT_GT(refused, 0u);
  EXPECT_GT(partly, 0u);
  RecordProperty("forgotten", static_cast<int>(forgotten));
}

} // namespace sojourn::owner::test
