// SPDX-License-Identifier: Apache-2.0
// What a session remembers is bounded; what a trace recorded can be cut back exactly.
#include "dialect/Signature.h"
#include "frontend/RecentlyUsed.h"
#include "frontend/compile/Cache.h"
#include "frontend/recording/Trace.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace sojourn::test {

using namespace sojourn::frontend;

namespace {

/// y = relu(x) for x of `size` elements; y is kept.
Trace reluOf(int64_t size) {
  static const Word relu = OpTable::get().intern({"aten.relu", {"self"}, {false}});
  Trace trace;
  Word f32 = static_cast<Word>(Element::f32);
  trace.inputs = {0, static_cast<Word>(InputKind::Upload), f32, 1, size, 1};
  trace.push(Record::Op);
  for (Word word :
       {relu, Word{1}, static_cast<Word>(Tag::Whole), Word{0}, Word{1}, f32, Word{1}, Word{size}, Word{1}}) {
    trace.push(word);
  }
  trace.origins.emplace_back();
  trace.storageCount = 2;
  trace.push(Record::Outputs);
  for (Word word : {1, 1, 0, 0}) { // keep storage 1; publish and train nothing
    trace.push(word);
  }
  return trace;
}

TEST(Caches, aTraceCacheForgetsTheOldest) {
  TraceCache cache(/*traces=*/2);
  bool hit = true;
  auto first = cache.find(reluOf(3), hit).compiled;
  ASSERT_TRUE(first);
  EXPECT_FALSE(hit);
  ASSERT_TRUE(cache.find(reluOf(4), hit).compiled);
  EXPECT_EQ(cache.find(reluOf(3), hit).compiled, first); // used: now the other one is the oldest
  EXPECT_TRUE(hit);
  ASSERT_TRUE(cache.find(reluOf(5), hit).compiled);
  EXPECT_FALSE(hit);
  EXPECT_EQ(cache.size(), 2u);
  EXPECT_EQ(cache.find(reluOf(3), hit).compiled, first);
  EXPECT_TRUE(hit);
  cache.find(reluOf(4), hit);
  EXPECT_FALSE(hit);
}

TEST(Caches, aTraceCacheIsBoundedInBytes) {
  TraceCache cache(TraceCache::kTraces, /*bytes=*/1);
  bool hit = true;
  cache.find(reluOf(3), hit);
  cache.find(reluOf(4), hit);
  EXPECT_EQ(cache.size(), 1u); // the last one stays, however large
  cache.find(reluOf(4), hit);
  EXPECT_TRUE(hit);
}

TEST(Caches, tracesThatCollideAreToldApart) {
  forceHashCollisions(true);
  TraceCache cache;
  bool hit = true;
  auto three = cache.find(reluOf(3), hit).compiled, four = cache.find(reluOf(4), hit).compiled;
  EXPECT_FALSE(hit);
  EXPECT_NE(three->hash, four->hash);
  EXPECT_EQ(cache.find(reluOf(3), hit).compiled, three);
  EXPECT_EQ(cache.find(reluOf(4), hit).compiled, four);
  EXPECT_TRUE(hit);
  forceHashCollisions(false);
}

/// Against a map and the times of use.
TEST(Caches, recentlyUsedIsTheLast) {
  const unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  constexpr size_t kCount = 5, kBytes = 40;
  RecentlyUsed<int, int> cache(kCount, kBytes);
  struct Known {
    int value;
    size_t bytes, used;
  };
  std::map<int, Known> known;
  for (size_t clock = 0; clock < 5000; ++clock) {
    int key = static_cast<int>(random() % 9), value = static_cast<int>(random());
    size_t bytes = random() % 15;
    auto oldest = [&] {
      return std::min_element(known.begin(), known.end(),
                              [](const auto &a, const auto &b) { return a.second.used < b.second.used; });
    };
    switch (random() % 4) {
    case 0:
      cache.erase(key);
      known.erase(key);
      break;
    case 1:
      cache.insert(key, value, bytes);
      known[key] = {value, bytes, clock};
      for (;;) {
        size_t sum = 0;
        for (const auto &[other, entry] : known) {
          sum += entry.bytes;
        }
        if (known.size() <= 1 || (known.size() <= kCount && sum <= kBytes)) {
          break;
        }
        known.erase(oldest());
      }
      break;
    default:
      const int *found = cache.find(key);
      ASSERT_EQ(found != nullptr, known.contains(key)) << "seed " << seed << " clock " << clock;
      if (found) {
        EXPECT_EQ(*found, known[key].value) << "seed " << seed;
        known[key].used = clock;
      }
    }
    ASSERT_EQ(cache.size(), known.size()) << "seed " << seed << " clock " << clock;
  }
}

TEST(Traces, truncateForgetsWhatCameSince) {
  Trace trace = reluOf(3);
  trace.slots = {1, 2};
  trace.slotOps = {0, 0};
  trace.seeds = {7};
  const Trace before = trace;
  Trace::Mark mark = trace.mark();
  trace.setDefaultFloat(Element::f64);
  trace.inputs.push_back(1);
  trace.slots.push_back(3);
  trace.slotOps.push_back(1);
  trace.seeds.push_back(8);
  trace.origins.emplace_back();
  ++trace.storageCount;
  EXPECT_FALSE(hashTrace(trace) == hashTrace(before));
  trace.truncate(mark);
  EXPECT_EQ(trace.words, before.words);
  EXPECT_EQ(trace.inputs, before.inputs);
  EXPECT_EQ(trace.slots, before.slots);
  EXPECT_EQ(trace.slotOps, before.slotOps);
  EXPECT_EQ(trace.seeds, before.seeds);
  EXPECT_EQ(trace.origins.size(), before.origins.size());
  EXPECT_EQ(trace.storageCount, before.storageCount);
  EXPECT_EQ(trace.defaultFloat, before.defaultFloat);
}

} // namespace

} // namespace sojourn::test
