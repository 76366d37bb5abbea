// SPDX-License-Identifier: Apache-2.0
// Goal: before a step commits, all members have the first member's bits of what all have, and equal bits cost no frame.
// Method: sides of a group without owners, whose frames are written down; peers that send what no member sends.
#include "owner/peers/Peers.h"
#include "runtime/signing/SigningKey.h"
#include "test/owner/TestCopies.h"

#include <chrono>
#include <gtest/gtest.h>
#include <random>
#include <thread>

namespace sojourn::owner::test {

namespace {

using std::chrono::milliseconds;
using Kind = PeerFrame::Kind;
using Bytes = std::vector<uint8_t>;

struct Crossed {
  unsigned from, to;
  PeerFrame frame;
};

class CopiesOfGroups : public testing::Test {
protected:
  static constexpr unsigned kMembers = 4;

  void SetUp() override {
    for (uint8_t role = 0; role < kMembers; ++role) {
      keys.push_back({static_cast<uint8_t>(role + 1)});
    }
    for (unsigned role = 0; role < kMembers; ++role) {
      ports.push_back(std::make_shared<Port>(*this, role));
      groups.push_back(std::make_unique<Group>(ports[role], GroupId{}, role, keys));
      copies.emplace_back();
    }
  }
  void TearDown() override {
    for (const auto &group : groups) {
      group->forget();
    }
  }

  Bytes randomBytes(size_t size) {
    Bytes bytes(size);
    for (uint8_t &byte : bytes) {
      byte = static_cast<uint8_t>(dice());
    }
    return bytes;
  }
  void setAll(const Bytes &bytes) {
    for (TestCopies &each : copies) {
      each = TestCopies(bytes);
    }
  }
  /// One step of one message at each of `roles`; the error of each.
  std::vector<std::string> step(const std::vector<unsigned> &roles = {0, 1, 2, 3}, int waitMs = 10'000) {
    crossed.clear();
    for (TestCopies &each : copies) {
      each.next = 0;
    }
    std::vector<std::string> errors(kMembers);
    std::vector<std::thread> threads;
    const StepPoint point{++sequence, 0, 0};
    for (unsigned role : roles) {
      threads.emplace_back([&, role] {
        JointMessage message(*groups[role], point, {}, 1, /*hasMasks=*/false, stop, milliseconds(waitMs));
        llvm::Error error = message.begin({});
        error = error ? std::move(error) : message.ready(copies[role]);
        errors[role] = llvm::toString(std::move(error));
      });
    }
    for (std::thread &thread : threads) {
      thread.join();
    }
    return errors;
  }
  /// A frame of a member that the test plays, of the next step.
  void sendFrom(unsigned role, Kind kind, uint32_t exchange, const Bytes &terms = {}, uint8_t digest = 0) {
    PeerFrame frame;
    frame.kind = kind;
    frame.point = {sequence + 1, 0, 0};
    frame.exchange = exchange;
    frame.digest[0] = digest;
    frame.terms = kind == Kind::Terms ? runtime::copyOf(terms.data(), terms.size()) : nullptr;
    groups[role]->send(frame);
  }

  class Port final : public GroupPort {
  public:
    Port(CopiesOfGroups &all, unsigned own) : all(all), own(own) {}
    void send(const signing::PublicKey &to, const GroupId &, const PeerFrame &frame) const override {
      const unsigned role = to[0] - 1u;
      {
        std::lock_guard lock(all.mutex);
        all.crossed.push_back({own, role, frame});
      }
      all.groups[role]->take(all.keys[own], frame);
    }
    void tookOver(uint64_t bytes) const noexcept override { taken.push_back(bytes); }
    mutable std::vector<uint64_t> taken; ///< of each step

  private:
    CopiesOfGroups &all;
    const unsigned own;
  };

  const std::vector<std::string> kNone = std::vector<std::string>(kMembers);
  const unsigned seed = std::random_device()();
  std::mt19937 dice{seed};
  const testing::ScopedTrace trace{__FILE__, __LINE__, "seed " + std::to_string(seed)};
  std::mutex mutex;
  std::vector<Crossed> crossed; ///< of the last step
  uint64_t sequence = 0;
  runtime::StopFlag stop{false};
  std::vector<signing::PublicKey> keys;
  std::vector<std::shared_ptr<Port>> ports;
  std::vector<std::unique_ptr<Group>> groups;
  std::vector<TestCopies> copies;
};

} // namespace

TEST(CopiesHashes, AreThoseOfTheBytesInPiecesOfAnySize) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 dice(seed);
  for (size_t size : {0u, 1u, 65'535u, 65'536u, 65'537u, 131'072u, 200'000u}) {
    Bytes bytes(size);
    for (uint8_t &byte : bytes) {
      byte = static_cast<uint8_t>(dice());
    }
    const auto whole = [&] {
      runtime::CopiesHash hash;
      hash.add(bytes.data(), bytes.size());
      return hash.get();
    };
    const runtime::CopiesDigest expected = whole();
    for (int round = 0; round < 5; ++round) {
      runtime::CopiesHash pieces;
      for (size_t at = 0; at < size;) {
        const size_t count = std::min<size_t>(size - at, dice() % (dice() % 2 ? 100'000 : 5'000));
        pieces.add(bytes.data() + at, count);
        at += count;
      }
      EXPECT_EQ(pieces.get(), expected) << size;
    }
    for (int round = 0; round < 20 && size > 0; ++round) {
      uint8_t &byte = bytes[round == 0 ? 0 : round == 1 ? size - 1 : dice() % size];
      byte ^= 1;
      EXPECT_NE(whole(), expected) << size;
      byte ^= 1;
    }
    bytes.push_back(0);
    EXPECT_NE(whole(), expected) << size;
  }
}

TEST_F(CopiesOfGroups, EqualOnesCostNoFrame) {
  setAll(randomBytes(100'000));
  EXPECT_EQ(step(), kNone);
  size_t terms = 0;
  for (const Crossed &each : crossed) {
    terms += each.frame.terms ? each.frame.terms->size() : 0;
  }
  EXPECT_EQ(crossed.size(), 2 * kMembers * (kMembers - 1)) << "of the beginning, and ready";
  EXPECT_EQ(terms, 0u);
  for (unsigned role = 0; role < kMembers; ++role) {
    EXPECT_TRUE(copies[role].notes.empty());
    EXPECT_TRUE(ports[role]->taken.empty());
  }
}

TEST_F(CopiesOfGroups, ThoseThatDifferBecomeThoseOfTheFirstMember) {
  size_t told = 0;
  std::vector<std::vector<uint64_t>> taken(kMembers);
  for (int round = 0; round < 12; ++round) {
    const Bytes bytes = randomBytes(1 + dice() % 100'000);
    setAll(bytes);
    const unsigned others = 1 + dice() % ((1 << kMembers) - 1); // the first one may be among them
    for (unsigned role = 0; role < kMembers; ++role) {
      if (others >> role & 1) {
        copies[role].data[dice() % bytes.size()] ^= static_cast<uint8_t>(1 + role);
      }
    }
    const Bytes first = copies[0].data;
    size_t expected = 0;
    for (unsigned role = 1; role < kMembers; ++role) {
      if (copies[role].data != first) {
        expected += bytes.size();
        taken[role].push_back(bytes.size());
      }
    }
    EXPECT_EQ(step(), kNone);
    size_t sent = 0;
    for (const Crossed &each : crossed) {
      const size_t size = each.frame.terms ? each.frame.terms->size() : 0;
      EXPECT_TRUE(size == 0 || each.from == 0) << "from " << each.from;
      sent += size;
    }
    EXPECT_EQ(sent, expected);
    for (unsigned role = 0; role < kMembers; ++role) {
      EXPECT_EQ(copies[role].data, first) << role;
      EXPECT_EQ(ports[role]->taken, taken[role]);
      told += copies[role].notes.size();
    }
    if (round == 0) {
      ASSERT_EQ(copies[0].notes.size(), 1u);
      const std::string &note = copies[0].notes[0];
      EXPECT_NE(note.find("The first member's " + std::to_string(bytes.size()) + " bytes"), std::string::npos) << note;
      const std::string named = note.substr(0, note.find(" computed other bits than " + groups[0]->nameOf(0)));
      for (unsigned role = 1; role < kMembers; ++role) {
        EXPECT_EQ(named.find(groups[role]->nameOf(role)) != std::string::npos, !taken[role].empty()) << note;
      }
    }
  }
  EXPECT_EQ(told, 1u) << "once for a group";
}

TEST_F(CopiesOfGroups, LargeOnesGoInPieces) {
  const size_t size = (size_t{9} << 20) + 5;
  const Bytes bytes = randomBytes(size);
  setAll(bytes);
  copies[2].data[size - 1] ^= 1;
  EXPECT_EQ(step(), kNone);
  EXPECT_EQ(copies[2].data, bytes);
  std::vector<size_t> pieces;
  for (const Crossed &each : crossed) {
    if (each.frame.terms && each.frame.terms->size() > 0) {
      EXPECT_EQ(each.to, 2u);
      pieces.push_back(each.frame.terms->size());
    }
  }
  EXPECT_EQ(pieces, (std::vector<size_t>{size_t{4} << 20, size_t{4} << 20, (size_t{1} << 20) + 5}));
}

TEST_F(CopiesOfGroups, AMemberThatCannotTakeThemOverFailsTheStepForAll) {
  for (unsigned role : {0u, 2u}) {
    setAll(randomBytes(1'000));
    copies[2].data[7] ^= 1;
    copies[3].data[8] ^= 1;
    copies[role].fails = true;
    const auto errors = step();
    for (unsigned each = 0; each < kMembers; ++each) {
      EXPECT_NE(errors[each].find(each == role ? "copies that fail" : groups[each]->nameOf(role) + " ended the step"),
                std::string::npos)
          << each << ": " << errors[each];
    }
  }
  setAll(randomBytes(1'000));
  EXPECT_EQ(step(), kNone) << "the next attempt";
}

TEST_F(CopiesOfGroups, ALieAboutADigestChangesNothing) {
  const Bytes bytes = randomBytes(500);
  setAll(bytes);
  copies[1].said = runtime::CopiesDigest{1, 2};
  EXPECT_EQ(step(), kNone);
  for (const TestCopies &each : copies) {
    EXPECT_EQ(each.data, bytes);
  }
  setAll({}); // and where there are none
  copies[1].said = runtime::CopiesDigest{1, 2};
  EXPECT_EQ(step(), kNone);
  for (const unsigned liar : {1u, 0u}) { // twice, or as the first member, whose bytes have another digest
    setAll(bytes);
    copies[liar].said = copies[liar].saidAfter = runtime::CopiesDigest{1, 2};
    size_t named = 0;
    for (const std::string &error : step()) {
      named += error.find("still differ at member 1") != std::string::npos;
      EXPECT_TRUE(error.find("Peer") != std::string::npos || error.find("member") != std::string::npos) << error;
    }
    EXPECT_GE(named, 1u) << "others hear that it ended the step";
  }
}

TEST_F(CopiesOfGroups, OtherSizesAreRefused) {
  struct Case {
    unsigned role;
    size_t bytes;
    std::string expected;
  };
  for (const Case &each : std::vector<Case>{{0, 99, "member 0 (the owner with key 01"},
                                            {0, 0, "member 0 (the owner with key 01"},
                                            {0, 101, "member 0 (the owner with key 01"},
                                            {3, 1, "member 3 (the owner with key 04"}}) {
    setAll(randomBytes(100));
    sendFrom(each.role, Kind::Terms, 0);
    sendFrom(each.role, Kind::Ready, 1, {}, 77);
    sendFrom(each.role, Kind::Terms, 1, randomBytes(each.bytes));
    std::vector<unsigned> rest;
    for (unsigned role = 0; role < kMembers; ++role) {
      if (role != each.role) {
        rest.push_back(role);
      }
    }
    const auto errors = step(rest);
    EXPECT_TRUE(copies[1].next == 0 && copies[2].next == 0) << "nothing is taken over";
    size_t named = 0;
    for (unsigned role : rest) {
      EXPECT_NE(errors[role], "");
      named += errors[role].find("sent " + std::to_string(each.bytes) + " bytes of values that all members have") !=
                   std::string::npos &&
               errors[role].find(each.expected) != std::string::npos;
    }
    EXPECT_GE(named, 1u) << errors[1];
  }
}

TEST_F(CopiesOfGroups, FramesOutOfOrderAreRefused) {
  const auto rest = [&](const std::string &expected, int waitMs = 10'000) {
    const auto errors = step({0, 1, 2}, waitMs);
    size_t named = 0;
    for (unsigned role : {0, 1, 2}) {
      EXPECT_NE(errors[role], "");
      named += errors[role].find(expected) != std::string::npos;
    }
    EXPECT_GE(named, 1u) << errors[0] << " | " << errors[1] << " | " << errors[2];
  };
  setAll(randomBytes(100));
  sendFrom(3, Kind::Ready, 0, {}, 77); // before it has begun
  rest("member 3 (the owner with key 0400000000000000) sent a frame of another exchange");
  sendFrom(3, Kind::Terms, 0);
  sendFrom(3, Kind::Ready, 1, {}, 77);
  sendFrom(3, Kind::Ready, 1, {}, 77); // twice
  rest("member 3 (the owner with key 0400000000000000) sent a frame of another exchange");
  sendFrom(3, Kind::Terms, 0);
  sendFrom(3, Kind::Ready, 1, {}, 77); // and then nothing
  rest("waited 0 s for member 3", 100);
  sendFrom(3, Kind::Terms, 0);
  sendFrom(3, Kind::Ready, 1, {}, 77);
  sendFrom(3, Kind::Terms, 1);
  sendFrom(3, Kind::Terms, 2); // a piece more than there are
  rest("member 3 (the owner with key 0400000000000000) sent a frame of another exchange");
  sendFrom(3, Kind::Terms, 0);
  sendFrom(3, Kind::Ready, 1, {}, 77);
  sendFrom(3, Kind::Terms, 1);
  sendFrom(3, Kind::End, 0); // none of the others commits
  rest("ended the step");
}

TEST_F(CopiesOfGroups, AStopEndsATakeOver) {
  setAll(randomBytes(100));
  sendFrom(3, Kind::Terms, 0);
  sendFrom(3, Kind::Ready, 1, {}, 77);
  std::thread later([&] {
    for (bool isUnderWay = false; !isUnderWay; std::this_thread::sleep_for(milliseconds(1))) {
      std::lock_guard lock(mutex);
      isUnderWay = llvm::any_of(crossed, [](const Crossed &each) {
        return each.frame.kind == Kind::Terms && each.frame.exchange == 1 && each.to == 3 && each.from == 0;
      });
    }
    stop = true;
  });
  const auto errors = step({0, 1, 2}, 60'000);
  later.join();
  for (unsigned role : {0, 1, 2}) {
    EXPECT_TRUE(errors[role].find("was stopped") != std::string::npos ||
                errors[role].find("ended the step") != std::string::npos)
        << errors[role];
  }
}

} // namespace sojourn::owner::test
