// SPDX-License-Identifier: Apache-2.0
// All that crosses between members of a masked exchange: words that are uniform and of equal number whatever the terms
// are, and the total.
#include "owner/peers/JointMessage.h"
#include "test/owner/TestCopies.h"

#include <array>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <map>
#include <random>
#include <thread>

namespace sojourn::owner::test {

namespace {

using std::chrono::milliseconds;
using Words = std::vector<uint64_t>;

struct Crossed {
  unsigned from, to;
  PeerFrame frame;
};

/// Three members whose frames are written down.
class Recorded {
public:
  static constexpr unsigned kMembers = 3;

  Recorded() {
    for (uint8_t role = 0; role < kMembers; ++role) {
      keys.push_back({static_cast<uint8_t>(role + 1)});
    }
    for (unsigned role = 0; role < kMembers; ++role) {
      groups.push_back(std::make_unique<Group>(std::make_shared<Port>(*this, role), GroupId{}, role, keys));
    }
  }
  ~Recorded() {
    for (const auto &group : groups) {
      group->forget();
    }
  }

  /// Terms of each member, in so many steps of one message; the sums, which all get in each of them.
  Words exchange(const std::vector<Words> &terms, uint64_t sequence, uint32_t steps = 1) {
    crossed.clear();
    const runtime::Exchange layout = {{Element::i64, terms[0].size(), 7, true}};
    std::vector<Words> sums(kMembers);
    std::vector<std::thread> threads;
    for (unsigned role = 0; role < kMembers; ++role) {
      threads.emplace_back([&, role] {
        JointMessage message(*groups[role], {sequence, 0, 0}, {}, steps, /*hasMasks=*/true, stop, milliseconds(10'000));
        llvm::cantFail(message.begin(layout));
        for (uint32_t step = 0; step < steps; ++step) {
          auto frame = runtime::BufferPool::global().allocate(placesOfTerms(layout, role).bytes);
          std::memcpy(frame->data(), terms[role].data(), 8 * terms[role].size());
          TestCopies copies;
          const auto commit = [] {};
          const RanStep before{copies, commit};
          const Memory came =
              llvm::cantFail(message.exchange({std::move(frame)}, JointMessage::ownRoom, step > 0 ? &before : nullptr));
          const auto *words = static_cast<const uint64_t *>(came[0]->data());
          EXPECT_TRUE(step == 0 || std::equal(sums[role].begin(), sums[role].end(), words));
          sums[role].assign(words, words + terms[role].size());
        }
        message.cancel();
      });
    }
    for (std::thread &thread : threads) {
      thread.join();
    }
    EXPECT_EQ(sums[1], sums[0]);
    EXPECT_EQ(sums[2], sums[0]);
    return sums[0];
  }

  std::vector<Crossed> crossed; ///< of the last exchange

private:
  class Port final : public GroupPort {
  public:
    Port(Recorded &all, unsigned own) : all(all), own(own) {}
    void send(const signing::PublicKey &to, const GroupId &, const PeerFrame &frame) const override {
      const unsigned role = to[0] - 1u;
      if (frame.kind == PeerFrame::Kind::Terms) {
        std::lock_guard lock(all.mutex);
        all.crossed.push_back({own, role, frame});
      }
      all.groups[role]->take(all.keys[own], frame);
    }

  private:
    Recorded &all;
    const unsigned own;
  };

  std::mutex mutex;
  runtime::StopFlag stop{false};
  std::vector<signing::PublicKey> keys;
  std::vector<std::unique_ptr<Group>> groups;
};

Words wordsOf(const PeerFrame &frame, uint64_t count) {
  const auto *words = static_cast<const uint64_t *>(frame.terms->data());
  return {words, words + count};
}

/// Bytes of uniform words, by chi-square of 255 degrees of freedom.
void expectUniform(const std::vector<Crossed> &crossed) {
  std::array<double, 256> counts{};
  double all = 0;
  for (const Crossed &each : crossed) {
    const auto *bytes = static_cast<const uint8_t *>(each.frame.terms->data());
    const runtime::Share share{each.to, Recorded::kMembers};
    for (uint64_t at = 0; at < 8 * share.count(6'000) && each.frame.exchange == 0; ++at, ++all) {
      ++counts[bytes[at]];
    }
  }
  double chi = 0;
  for (double count : counts) {
    chi += (count - all / 256) * (count - all / 256) / (all / 256);
  }
  EXPECT_NEAR(chi, 255, 8 * std::sqrt(2.0 * 255));
}

} // namespace

TEST(MaskedFrames, TellNothingOfATermButTheTotal) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 dice(seed);
  Recorded members;
  uint64_t sequence = 0;
  for (size_t elements : {size_t{100}, size_t{6'000}}) { // in one frame, and in shares
    std::vector<std::pair<size_t, size_t>> sizes;        // of the first run: frames and bytes
    for (bool isZero : {true, false, true}) {
      std::vector<Words> terms(Recorded::kMembers, Words(elements));
      Words total(elements);
      for (Words &own : terms) {
        for (size_t at = 0; at < elements; ++at) {
          own[at] = isZero ? 0 : dice() % 1'000;
          total[at] += own[at];
        }
      }
      EXPECT_EQ(members.exchange(terms, ++sequence), total);
      size_t bytes = 0;
      for (const Crossed &each : members.crossed) {
        bytes += each.frame.terms->size();
        const bool isShared = elements == 6'000;
        const bool isSum = each.frame.exchange == 1;
        const runtime::Share share = isShared ? runtime::Share{isSum ? each.from : each.to, 3} : runtime::Share();
        const Words words = wordsOf(each.frame, share.count(elements));
        const Words &plain = isSum ? total : terms[each.from];
        size_t equal = 0;
        for (size_t at = 0; at < words.size(); ++at) {
          equal += words[at] == plain[share.first(elements) + at];
        }
        EXPECT_EQ(equal, isSum ? words.size() : 0u) << "from " << each.from << " to " << each.to;
      }
      sizes.emplace_back(members.crossed.size(), bytes);
      EXPECT_EQ(sizes.back(), sizes.front()) << "traffic tells nothing";
      if (elements == 6'000) {
        expectUniform(members.crossed);
      }
    }
  }
}

/// Each step of a message has the same terms, and other masks.
TEST(MaskedFrames, AMaskIsUsedInOneStep) {
  constexpr uint32_t kSteps = 6;
  Recorded members;
  for (size_t elements : {size_t{100}, size_t{6'000}}) {
    const std::vector<Words> terms(Recorded::kMembers, Words(elements, 1));
    EXPECT_EQ(members.exchange(terms, elements, kSteps), Words(elements, 3));
    std::map<std::pair<unsigned, unsigned>, std::vector<Words>> sent;
    for (const Crossed &each : members.crossed) {
      if (each.frame.exchange == 0) {
        const runtime::Share share = elements == 6'000 ? runtime::Share{each.to, 3} : runtime::Share();
        sent[{each.from, each.to}].push_back(wordsOf(each.frame, share.count(elements)));
      }
    }
    for (const auto &[way, frames] : sent) {
      ASSERT_EQ(frames.size(), kSteps);
      for (size_t at = 0; at < kSteps; ++at) {
        for (size_t other = 0; other < at; ++other) {
          size_t equal = 0;
          for (size_t word = 0; word < frames[at].size(); ++word) {
            equal += frames[at][word] == frames[other][word];
          }
          EXPECT_EQ(equal, 0u) << "steps " << other << " and " << at << " from " << way.first << " to " << way.second;
        }
      }
    }
  }
}

} // namespace sojourn::owner::test
