// SPDX-License-Identifier: Apache-2.0
// Joint messages over a network in memory that delivers frames in any order between pairs of members, cuts links at any
// frame, and loses members: each step is committed by all members, with the first one's copies, or by none, or the
// client is told that the group has ended. SOJOURN_NETWORK_RUNS: how many networks (2,000).
#include "owner/RequestError.h"
#include "owner/peers/JointMessage.h"
#include "owner/peers/Peers.h"
#include "runtime/signing/SigningKey.h"
#include "test/owner/TestCopies.h"

#include <bit>
#include <chrono>
#include <cstring>
#include <deque>
#include <gtest/gtest.h>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <thread>

namespace sojourn::owner::test {

namespace {

using signing::PublicKey;
using std::chrono::milliseconds;

/// Delivers frames by a thread, one at a time, from a pair drawn at random; in order for each pair.
class Network {
public:
  Network(unsigned members, unsigned seed) : random(seed) {
    for (unsigned role = 0; role < members; ++role) {
      keys.push_back({static_cast<uint8_t>(role + 1)});
      peers.push_back(Peers::open(keys[role], /*isNeighbour=*/false));
      peers[role]->attach(std::make_shared<Routes>(*this, role));
    }
    const bool hasFault = random() % 2 == 0;
    faultAt = hasFault ? random() % 60 : ~size_t{0};
    victim = static_cast<unsigned>(random() % members);
    other = (victim + 1 + static_cast<unsigned>(random() % (members - 1))) % members;
    isKill = random() % 2 == 0;
    thread = std::thread([this] { deliver(); });
  }
  ~Network() {
    for (const auto &each : peers) {
      each->attach(nullptr);
    }
    {
      std::lock_guard lock(mutex);
      isOver = true;
    }
    changed.notify_all();
    thread.join();
  }

  std::vector<PublicKey> keys;
  std::vector<std::shared_ptr<Peers>> peers;
  bool wasFaulty() {
    std::lock_guard lock(mutex);
    return faulted;
  }

private:
  class Routes final : public PeerRoutes {
  public:
    Routes(Network &network, unsigned own) : network(network), own(own) {}
    llvm::Error await(const PublicKey &) override { return llvm::Error::success(); }
    bool isLinked(const PublicKey &) override { return true; }
    void send(const PublicKey &to, const GroupId &group, const PeerFrame &frame) noexcept override {
      network.send(own, static_cast<unsigned>(to[0] - 1), group, frame);
    }
    LinkFigures figures() override { return {}; }

  private:
    Network &network;
    const unsigned own;
  };
  struct Sent {
    GroupId group;
    PeerFrame frame;
    bool isEnd = false; ///< of the link, as the receiver sees it
  };
  using Pair = std::pair<unsigned, unsigned>;

  void send(unsigned from, unsigned to, const GroupId &group, const PeerFrame &frame) {
    std::lock_guard lock(mutex);
    if (!cut.count({from, to})) {
      queues[{from, to}].push_back({group, frame});
      changed.notify_all();
    }
  }
  /// Both ways: of what is on its way, a part arrives, then the end shows. Under the lock.
  void end(unsigned a, unsigned b) {
    for (const Pair &pair : {Pair(a, b), Pair(b, a)}) {
      if (cut.insert({pair, true}).second) {
        auto &queue = queues[pair];
        queue.resize(random() % (queue.size() + 1));
        queue.push_back({{}, {}, true});
      }
    }
  }
  void deliver() {
    std::unique_lock lock(mutex);
    size_t delivered = 0;
    while (!isOver) {
      std::vector<Pair> waiting;
      for (const auto &[pair, queue] : queues) {
        if (!queue.empty()) {
          waiting.push_back(pair);
        }
      }
      if (waiting.empty()) {
        changed.wait(lock);
        continue;
      }
      if (delivered++ == faultAt) {
        faulted = true;
        for (unsigned each = 0; each < peers.size(); ++each) {
          if (each != victim && (isKill || each == other)) {
            end(victim, each);
          }
        }
        continue;
      }
      const Pair pair = waiting[random() % waiting.size()];
      const Sent next = std::move(queues[pair].front());
      queues[pair].pop_front();
      lock.unlock();
      if (next.isEnd) {
        peers[pair.second]->lose(keys[pair.first]);
      } else {
        peers[pair.second]->take(keys[pair.first], next.group, next.frame);
      }
      lock.lock();
    }
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::mt19937 random;
  std::map<Pair, std::deque<Sent>> queues;
  std::map<Pair, bool> cut;
  size_t faultAt = 0;
  unsigned victim = 0, other = 0;
  bool isKill = false, faulted = false, isOver = false;
  std::thread thread;
};

/// A step that has committed, the sum of all words of its sums, and its copies.
struct Committed {
  StepPoint point;
  uint64_t sum;
  std::vector<uint8_t> copies;
  friend bool operator==(const Committed &, const Committed &) = default;
};

/// Members learn of ends by frames, or by the end of a link.
void expectNoLateEnd(llvm::Error error) {
  const std::string text = llvm::toString(std::move(error));
  EXPECT_EQ(text.find("the step waited"), std::string::npos) << text;
}

class Member {
public:
  /// `common`: the seed of what is equal at all.
  Member(Network &network, unsigned role, unsigned seed, unsigned common)
      : group(llvm::cantFail(network.peers[role]->join({7}, role, network.keys))), random(seed), common(common) {}

  struct Reply {
    uint32_t steps = 0;
    bool failed = false;
  };
  /// As StepBatch does: each step exchanges terms, then all are ready, some of them with the first terms of the next
  /// step; a step may fail before.
  Reply run(StepPoint point, uint32_t steps, const std::vector<runtime::Exchange> &exchanges, bool mayFail) {
    Reply reply;
    JointMessage message(*group, point, {}, steps, /*hasMasks=*/group->parties() > 2, stop, milliseconds(5'000));
    if (llvm::Error error = message.begin(exchanges)) {
      llvm::consumeError(std::move(error));
      return {0, true};
    }
    std::optional<Ran> ran;
    for (uint32_t step = 0; step < steps && !message.isOver(); ++step) {
      const bool isBusy = mayFail && random() % 8 == 0, fails = mayFail && random() % 8 == 0;
      if ((isBusy || fails) && ran && !land(message, *ran, reply)) {
        return reply;
      }
      if (isBusy) { // no failure of the steps before
        message.end(reply.steps == 0 ? static_cast<uint8_t>(wire::ErrorCode_Busy) : PeerFrame::kNoFailure);
        reply.failed = reply.steps == 0;
        return reply;
      }
      const StepPoint now{point.sequence, point.attempt, step};
      auto sum = fails ? llvm::createStringError("failed") : exchangeAll(message, now, exchanges, ran, reply);
      if (!sum) {
        expectNoLateEnd(sum.takeError());
        reply.failed = true;
        return reply;
      }
      ready.push_back(now);
      ran.emplace(Ran{now, *sum, copiesOf(now, mayFail)});
      copies[now] = ran->copies.data;
      const bool isLast = step + 1 == steps || !message.letsStepsFollow() || random() % 2 == 0; // by its own clock
      if (isLast && !land(message, *ran, reply)) {
        return reply;
      }
      followed += isLast ? 0 : 1;
      if (isLast) {
        ran.reset();
      }
    }
    return reply;
  }

  std::vector<Committed> committed;
  std::vector<StepPoint> ready;                     ///< steps that have run here
  std::map<StepPoint, uint64_t> terms;              ///< the sum of this member's own words
  std::map<StepPoint, std::vector<uint8_t>> copies; ///< as this member computed them
  size_t followed = 0;                              ///< steps whose Ready went with terms of the next one

private:
  struct Ran {
    StepPoint point;
    uint64_t sum;
    TestCopies copies;
  };
  void commit(const Ran &ran, Reply &reply) {
    committed.push_back({ran.point, ran.sum, ran.copies.data});
    ++reply.steps;
  }
  bool land(JointMessage &message, Ran &ran, Reply &reply) {
    if (llvm::Error error = message.ready(ran.copies)) {
      expectNoLateEnd(std::move(error));
      reply.failed = true;
      return false;
    }
    commit(ran, reply);
    return true;
  }
  /// The sum of all words of a step's sums. `before`: the step before it, which has not committed.
  llvm::Expected<uint64_t> exchangeAll(JointMessage &message, const StepPoint &now,
                                       const std::vector<runtime::Exchange> &exchanges, std::optional<Ran> &before,
                                       Reply &reply) {
    uint64_t sum = 0, &own = terms[now];
    for (const runtime::Exchange &exchange : exchanges) {
      const auto commitBefore = [&] { commit(*before, reply); };
      std::optional<RanStep> step;
      if (before) {
        step.emplace(RanStep{before->copies, commitBefore});
      }
      auto came = message.exchange({frameOf(exchange, own)}, JointMessage::ownRoom, step ? &*step : nullptr);
      if (!came) {
        return came.takeError();
      }
      before.reset();
      const auto *words = static_cast<const uint64_t *>(came->at(0)->data());
      const runtime::FramePlaces places = runtime::placesOfSums(exchange);
      for (size_t term = 0; term < exchange.size(); ++term) {
        const uint64_t *first = words + places.offsets[term] / sizeof(uint64_t);
        sum = std::accumulate(first, first + exchange[term].elements, sum);
      }
    }
    return sum;
  }
  /// Of the size that all have; a member in four has other bits.
  TestCopies copiesOf(const StepPoint &point, bool mayFail) {
    std::mt19937 sizes(static_cast<unsigned>(common + 31 * point.sequence + 7 * point.attempt + point.step));
    const size_t most = sizes() % 64 == 0 ? 9'000'000 : 3'000, size = sizes() % 3 == 0 ? 0 : sizes() % most;
    TestCopies made(std::vector<uint8_t>(size, 7));
    if (size > 0 && random() % 4 == 0) {
      made.data[random() % size] = static_cast<uint8_t>(random());
    }
    made.fails = mayFail && random() % 16 == 0;
    return made;
  }
  /// Random words, which are added to `all`.
  std::shared_ptr<runtime::Buffer> frameOf(const runtime::Exchange &exchange, uint64_t &all) {
    const runtime::FramePlaces places = runtime::placesOfTerms(exchange, group->role());
    auto frame = runtime::BufferPool::global().allocate(places.bytes);
    std::memset(frame->data(), 0, places.bytes);
    for (size_t term = 0; term < exchange.size(); ++term) {
      if (!exchange[term].isOf(group->role())) {
        continue;
      }
      auto *word = static_cast<uint64_t *>(frame->data()) + places.offsets[term] / sizeof(uint64_t);
      for (uint64_t at = 0; at < exchange[term].elements; ++at) {
        word[at] = random();
        all += word[at];
      }
    }
    return frame;
  }

  const std::shared_ptr<Group> group;
  std::mt19937_64 random;
  const unsigned common;
  runtime::StopFlag stop{false};
};

/// Sums of some of the members, under masks and not, in one frame or in shares.
runtime::Exchange randomExchange(std::mt19937 &random, unsigned members) {
  runtime::Exchange exchange(random() % 4);
  for (runtime::ExchangeTerm &term : exchange) {
    const uint32_t all = (1u << members) - 1;
    term = {.element = Element::i64, .elements = random() % 8 == 0 ? 4'000 + random() % 3'000 : random() % 20};
    term.from = random() % 3 ? all : 1 + random() % all;
    term.isMasked = std::popcount(term.from) >= 3 && random() % 4 != 0;
  }
  return exchange;
}

/// Steps that committed with terms of the next one are added to `followed`.
void runNetwork(unsigned seed, size_t &followed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const unsigned count = 2 + random() % 3;
  Network network(count, random());
  std::vector<std::unique_ptr<Member>> members;
  for (unsigned role = 0; role < count; ++role) {
    members.push_back(std::make_unique<Member>(network, role, random(), seed));
  }
  const bool mayFail = random() % 2 == 0;
  bool isLost = false;
  StepPoint point{1, 0, 0};
  for (int message = 0; message < 5 && !isLost; ++message) {
    const uint32_t steps = 1 + random() % 5;
    std::vector<runtime::Exchange> exchanges(random() % 3);
    for (runtime::Exchange &exchange : exchanges) {
      exchange = randomExchange(random, count);
    }
    std::vector<Member::Reply> replies(count);
    std::vector<std::thread> threads;
    for (unsigned role = 0; role < count; ++role) {
      threads.emplace_back([&, role] { replies[role] = members[role]->run(point, steps, exchanges, mayFail); });
    }
    for (std::thread &thread : threads) {
      thread.join();
    }
    // A client compares what members have committed (frontend/session/JointReply.cpp).
    for (const Member::Reply &reply : replies) {
      isLost |= reply.steps != replies[0].steps;
    }
    const bool isRepeated = replies[0].failed && replies[0].steps == 0;
    point =
        isRepeated ? StepPoint{point.sequence, point.attempt + 1, 0} : StepPoint{point.sequence + 1, point.attempt, 0};
  }
  ASSERT_TRUE(!isLost || network.wasFaulty()) << "members differ, and no link has ended";
  std::vector<Committed> longest, shortest = members[0]->committed;
  for (const auto &member : members) {
    longest = member->committed.size() > longest.size() ? member->committed : longest;
    shortest = member->committed.size() < shortest.size() ? member->committed : shortest;
  }
  ASSERT_LE(longest.size(), shortest.size() + (isLost ? 1 : 0));
  for (const Committed &each : longest) { // and has run everywhere
    for (const auto &member : members) {
      ASSERT_TRUE(std::count(member->ready.begin(), member->ready.end(), each.point) == 1);
    }
    uint64_t all = 0; // what members have sent, without masks
    for (const auto &member : members) {
      all += member->terms[each.point];
    }
    ASSERT_EQ(each.sum, all);
    ASSERT_EQ(each.copies, members[0]->copies[each.point]);
  }
  for (const auto &member : members) { // what is committed is the same everywhere
    followed += member->followed;
    ASSERT_TRUE(std::equal(member->committed.begin(), member->committed.end(), longest.begin()));
  }
}

} // namespace

TEST(JointNetwork, StepsAreCommittedByAllOrTheGroupIsLost) {
  const unsigned first = std::random_device()();
  const char *asked = std::getenv("SOJOURN_NETWORK_RUNS");
  const unsigned runs = asked ? static_cast<unsigned>(std::strtoul(asked, nullptr, 10)) : 2'000;
  size_t followed = 0;
  for (unsigned run = 0; run < runs && !testing::Test::HasFailure(); ++run) {
    runNetwork(first + run, followed);
  }
  EXPECT_GT(followed, runs / 8);
}

} // namespace sojourn::owner::test
