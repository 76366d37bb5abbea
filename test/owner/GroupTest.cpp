// SPDX-License-Identifier: Apache-2.0
// Frames between members of a group: their order, ends, and what is not taken; digests of messages.
#include "owner/RequestError.h"
#include "owner/peers/Digest.h"
#include "owner/peers/Group.h"
#include "owner/peers/JointMessage.h"
#include "owner/peers/Peers.h"
#include "runtime/signing/SigningKey.h"
#include "test/owner/Support.h"
#include "test/owner/TestCopies.h"

#include <chrono>
#include <thread>

namespace sojourn::owner::test {

using std::chrono::milliseconds;

static std::string textOf(llvm::Error error) { return llvm::toString(std::move(error)); }

/// Sides of a group without owners around them.
class Groups : public testing::Test {
protected:
  void SetUp() override {
    for (size_t role = 0; role < 3; ++role) {
      keys.push_back(signing::SigningKey::generate().publicKey());
      peers.push_back(Peers::open(keys[role], /*isNeighbour=*/true));
    }
    for (unsigned role = 0; role < 3; ++role) {
      groups.push_back(llvm::cantFail(peers[role]->join(id, role, keys)));
    }
  }
  PeerFrame frame(PeerFrame::Kind kind, StepPoint point, uint32_t exchange = 0) const {
    PeerFrame made;
    made.kind = kind;
    made.point = point;
    made.exchange = exchange;
    return made;
  }
  std::string awaited(StepPoint point, PeerFrame::Kind kind, uint32_t exchange = 0, int waitMs = 50) {
    auto came = groups[0]->await(point, kind, exchange, {}, &stop, milliseconds(waitMs));
    return came ? came->endedBy ? "ended by " + std::to_string(*came->endedBy) : "" : textOf(came.takeError());
  }

  GroupId id{1, 2, 3};
  std::vector<signing::PublicKey> keys;
  std::vector<std::shared_ptr<Peers>> peers;
  std::vector<std::shared_ptr<Group>> groups;
  runtime::StopFlag stop{false};
};

TEST_F(Groups, FramesAreTakenInTheirOrder) {
  using Kind = PeerFrame::Kind;
  groups[1]->send(frame(Kind::Terms, {1, 0, 0}, 0));
  groups[2]->send(frame(Kind::Terms, {1, 0, 0}, 0));
  groups[2]->send(frame(Kind::Ready, {1, 0, 0}, 1)); // ahead
  EXPECT_EQ(awaited({1, 0, 0}, Kind::Terms), "");
  EXPECT_NE(awaited({1, 0, 0}, Kind::Ready, 1).find("for member 1"), std::string::npos);
  groups[1]->send(frame(Kind::Ready, {1, 0, 0}, 1));
  EXPECT_EQ(awaited({1, 0, 0}, Kind::Ready, 1), "");
  groups[1]->send(frame(Kind::Ready, {1, 0, 0}, 1)); // twice: of a step that is over
  groups[1]->send(frame(Kind::Terms, {2, 0, 0}));
  groups[2]->send(frame(Kind::Terms, {2, 0, 0}));
  EXPECT_EQ(awaited({2, 0, 0}, Kind::Terms), "");
}

TEST_F(Groups, OfAnAttemptThatFailedNothingIsTaken) {
  using Kind = PeerFrame::Kind;
  groups[1]->send(frame(Kind::Terms, {1, 0, 0}));
  groups[1]->send(frame(Kind::End, {1, 0, 0}));
  groups[1]->send(frame(Kind::Terms, {1, 1, 0}));
  groups[2]->send(frame(Kind::Terms, {1, 1, 0}));
  EXPECT_EQ(awaited({1, 1, 0}, Kind::Terms), "");
}

TEST_F(Groups, WhatNoMemberSendsIsRefused) {
  using Kind = PeerFrame::Kind;
  groups[1]->send(frame(Kind::Ready, {1, 0, 0}));
  EXPECT_NE(awaited({1, 0, 0}, Kind::Terms).find("member 1 (the owner with key"), std::string::npos);
  EXPECT_NE(awaited({1, 0, 0}, Kind::Terms).find("sent a frame of another exchange"), std::string::npos);
  groups[1]->send(frame(Kind::Terms, {2, 0, 0}, 1));
  EXPECT_NE(awaited({2, 0, 0}, Kind::Terms).find("sent a frame of another exchange"), std::string::npos);
  PeerFrame other = frame(Kind::Terms, {3, 0, 0});
  other.digest[31] = 1;
  groups[2]->send(other);
  EXPECT_NE(awaited({3, 0, 0}, Kind::Terms).find("was sent another message of this step"), std::string::npos);
  EXPECT_NE(awaited({4, 0, 0}, Kind::Terms).find("for member 1"), std::string::npos);
  for (size_t at = 0; at <= Group::kWaitingMost; ++at) {
    groups[1]->send(frame(Kind::Terms, {5, 0, 0}, static_cast<uint32_t>(at)));
  }
  EXPECT_NE(awaited({4, 0, 0}, Kind::Terms).find("more frames than a step has"), std::string::npos);
}

TEST_F(Groups, AnAttemptBeginsOnce) {
  using Kind = PeerFrame::Kind;
  const auto begun = [&](StepPoint point) { return textOf(groups[0]->begin(point)); };
  EXPECT_EQ(begun({1, 0, 0}), "");
  EXPECT_NE(begun({1, 0, 0}).find("attempt 0 at message 1 of the group has begun here before"), std::string::npos);
  groups[1]->send(frame(Kind::Terms, {1, 1, 0})); // before this member begins it
  EXPECT_EQ(begun({1, 1, 0}), "");
  groups[2]->send(frame(Kind::Terms, {1, 1, 0}));
  EXPECT_EQ(awaited({1, 1, 0}, Kind::Terms), "");
  EXPECT_NE(begun({1, 0, 0}), "") << "an earlier one";
  { // one that fails before it begins
    JointMessage message(*groups[0], {1, 2, 0}, {}, 1, /*hasMasks=*/false, stop, milliseconds(10));
  }
  EXPECT_NE(begun({1, 2, 0}), "");
  JointMessage message(*groups[0], {1, 3, 0}, {}, 1, /*hasMasks=*/false, stop, milliseconds(10));
  EXPECT_EQ(textOf(message.begin({})), "");
  EXPECT_NE(textOf(message.begin({})), "");
}

TEST_F(Groups, FramesOfFailedAttemptsFillNoInbox) {
  using Kind = PeerFrame::Kind;
  auto terms = frame(Kind::Terms, {1, 0, 0});
  terms.terms = runtime::copyOf("a term", 6);
  const std::weak_ptr<runtime::Buffer> memory = terms.terms;
  for (uint64_t attempt = 0; attempt < 3 * Group::kWaitingMost; ++attempt) {
    terms.point.attempt = attempt;
    groups[1]->send(terms);
    groups[1]->send(frame(Kind::End, {1, attempt, 0}));
  }
  terms.terms = nullptr;
  EXPECT_TRUE(memory.expired()) << "terms of a step that has ended";
  EXPECT_NE(awaited({1, 0, 0}, Kind::Terms).find("has gone on to another message, or another attempt"),
            std::string::npos);
  EXPECT_EQ(awaited({1, 3 * Group::kWaitingMost - 1, 0}, Kind::Terms), "ended by 1");
  const StepPoint next{1, 3 * Group::kWaitingMost, 0};
  groups[1]->send(frame(Kind::Terms, next));
  groups[2]->send(frame(Kind::Terms, next));
  EXPECT_EQ(awaited(next, Kind::Terms), "");
}

/// Terms of step 1, with the Ready of step 0 before them.
TEST_F(Groups, TermsCarryTheReadyOfTheStepBefore) {
  using Kind = PeerFrame::Kind;
  std::weak_ptr<runtime::Buffer> memory;
  const auto sendAll = [&](uint64_t sequence) {
    PeerFrame terms = frame(Kind::Terms, {sequence, 0, 1});
    terms.terms = runtime::copyOf("a term", 6);
    terms.readyExchange = 3;
    terms.readyDigest[0] = 7;
    memory = terms.terms;
    groups[1]->sendTo(0, terms);
    groups[2]->sendTo(0, terms);
  };
  sendAll(1);
  auto came = groups[0]->await({1, 0, 0}, Kind::Ready, 3, {}, &stop, milliseconds(50));
  ASSERT_TRUE(bool(came)) << textOf(came.takeError());
  EXPECT_EQ(came->frames[1]->digest[0], 7);
  EXPECT_EQ(awaited({1, 0, 1}, Kind::Terms), "");
  EXPECT_TRUE(memory.expired());
  sendAll(2);
  EXPECT_NE(awaited({2, 0, 0}, Kind::Ready, 2).find("another exchange"), std::string::npos);
  sendAll(3); // the next step ends; this one has committed
  groups[1]->sendTo(0, frame(Kind::End, {3, 0, 1}));
  EXPECT_EQ(awaited({3, 0, 0}, Kind::Ready, 3), "");
  EXPECT_EQ(awaited({3, 0, 1}, Kind::Terms), "ended by 1");
  sendAll(4); // this one ends, and with it the next one
  groups[1]->sendTo(0, frame(Kind::End, {4, 0, 0}));
  groups[2]->sendTo(0, frame(Kind::End, {4, 0, 0}));
  EXPECT_TRUE(memory.expired());
  EXPECT_EQ(awaited({4, 0, 0}, Kind::Ready, 3), "ended by 1");
  sendAll(5);
  EXPECT_EQ(awaited({5, 0, 0}, Kind::Ready, 3), "");
  groups[0]->dropLater({5, 0, 0});
  EXPECT_TRUE(memory.expired());
}

TEST_F(Groups, ReadyOfTheStepBeforeOutlivesAnEnd) {
  using Kind = PeerFrame::Kind;
  for (size_t role : {1, 2}) {
    groups[role]->send(frame(Kind::Ready, {1, 0, 0}, 1));
    groups[role]->send(frame(Kind::End, {1, 0, 1}));
    groups[role]->send(frame(Kind::Terms, {2, 0, 0}));
  }
  EXPECT_EQ(awaited({1, 0, 0}, Kind::Ready, 1), "") << "the step has committed at the others";
  EXPECT_EQ(awaited({1, 0, 1}, Kind::Terms), "ended by 1");
  EXPECT_EQ(awaited({2, 0, 0}, Kind::Terms), "");
}

TEST_F(Groups, AnEndIsHandedOn) {
  using Kind = PeerFrame::Kind;
  PeerFrame end = frame(Kind::End, {1, 0, 0});
  end.endedBy = 1;
  peers[1]->send(keys[0], id, end);
  {
    JointMessage message(*groups[0], {1, 0, 0}, {}, 1, /*hasMasks=*/false, stop, milliseconds(10));
    const runtime::Exchange none;
    EXPECT_EQ(textOf(message.begin(none)), "");
    EXPECT_NE(textOf(message.exchange({runtime::copyOf("", 0)}).takeError()).find("ended the step"), std::string::npos);
    EXPECT_TRUE(message.isOver()) << "no failure";
  }
  auto left = groups[2]->await({1, 0, 0}, Kind::Terms, 0, {}, &stop, milliseconds(10));
  ASSERT_TRUE(bool(left));
  EXPECT_EQ(left->endedBy, 1u) << "the first to end it";
  EXPECT_EQ(left->code, PeerFrame::kNoFailure);
}

TEST_F(Groups, WhoHasLeftDoesNotComeBack) {
  using Kind = PeerFrame::Kind;
  const auto join = [&](unsigned role) {
    auto group = peers[role]->join(id, role, keys);
    return group ? "" : textOf(group.takeError());
  };
  EXPECT_NE(join(1).find("in the group already"), std::string::npos);
  groups[1].reset();
  EXPECT_NE(join(1).find("or has left it; make another group"), std::string::npos);
  peers[0]->take(keys[1], id, frame(Kind::Terms, {1, 0, 0})); // whatever it sends
  groups[2]->send(frame(Kind::Terms, {1, 0, 0}));
  EXPECT_NE(awaited({1, 0, 0}, Kind::Terms).find("has left the group"), std::string::npos);
  groups[0].reset();
  groups[2].reset();
  EXPECT_NE(join(1).find("or has left it; make another group"), std::string::npos);
}

TEST_F(Groups, ALostMembersLastFramesCount) {
  using Kind = PeerFrame::Kind;
  groups[1]->send(frame(Kind::Terms, {1, 0, 0}));
  groups[2]->send(frame(Kind::Terms, {1, 0, 0}));
  peers[0]->lose(keys[1]);
  EXPECT_EQ(awaited({1, 0, 0}, Kind::Terms), "");
  EXPECT_NE(awaited({1, 0, 0}, Kind::Ready).find("is not reachable any more: the link with it has ended"),
            std::string::npos);
  groups[1]->send(frame(Kind::Ready, {1, 0, 0}));
  EXPECT_NE(awaited({1, 0, 0}, Kind::Ready).find("is not reachable any more"), std::string::npos);
}

TEST_F(Groups, StrangersAreNotHeard) {
  using Kind = PeerFrame::Kind;
  const auto stranger = Peers::open(signing::SigningKey::generate().publicKey(), /*isNeighbour=*/true);
  stranger->send(keys[0], id, frame(Kind::End, {1, 0, 0}));
  peers[0]->take(keys[0], id, frame(Kind::End, {1, 0, 0})); // in its own name
  peers[1]->send(keys[0], GroupId{9}, frame(Kind::End, {1, 0, 0}));
  groups[1]->send(frame(Kind::Terms, {1, 0, 0}));
  groups[2]->send(frame(Kind::Terms, {1, 0, 0}));
  EXPECT_EQ(awaited({1, 0, 0}, Kind::Terms), "");
}

TEST_F(Groups, TermsOfAnotherSizeAreRefused) {
  const runtime::Exchange one = {{Element::f32, 3, 7}};
  for (size_t size : {size_t{0}, size_t{63}, size_t{65}}) {
    const uint64_t attempt = size;
    for (size_t role : {1, 2}) {
      PeerFrame terms = frame(PeerFrame::Kind::Terms, {1, attempt, 0});
      terms.terms = runtime::copyOf(std::string(64, 'x').data(), 64);
      if (role == 2) {
        terms.terms = runtime::copyOf(std::string(65, 'x').data(), size);
      }
      groups[role]->send(terms);
    }
    JointMessage message(*groups[0], {1, attempt, 0}, {}, 1, /*hasMasks=*/false, stop, milliseconds(10));
    EXPECT_EQ(textOf(message.begin(one)), "");
    auto sums = message.exchange({runtime::copyOf(std::string(64, 'x').data(), 64)});
    ASSERT_FALSE(bool(sums)) << size;
    const std::string text = textOf(sums.takeError());
    EXPECT_EQ(text.find("member 2 (the owner with key"), 0u) << text;
    EXPECT_NE(text.find("sent " + std::to_string(size) + " bytes in an exchange, expected 64"), std::string::npos);
  }
}

TEST_F(Groups, MasksWaitForTheKeysOfAll) {
  const runtime::Exchange one = {{Element::i64, 3, 7, true}};
  const auto run = [&](uint64_t attempt) {
    JointMessage message(*groups[0], {1, attempt, 0}, {}, 1, /*hasMasks=*/true, stop, milliseconds(10));
    EXPECT_EQ(textOf(message.begin(one)), "");
    auto sums = message.exchange({runtime::copyOf(std::string(64, 'x').data(), 64)});
    return sums ? std::string("sums") : textOf(sums.takeError());
  };
  groups[1]->offerKey();
  EXPECT_NE(run(0).find("waited 0 s for member 1"), std::string::npos) << "member 2 has sent no key";
  PeerFrame key = frame(PeerFrame::Kind::Key, {});
  peers[2]->send(keys[0], id, key);
  EXPECT_NE(run(1).find("member 2 (the owner with key"), std::string::npos);
  EXPECT_NE(run(2).find("sent bytes that are no key for masks"), std::string::npos);
  key.digest = MaskKeyPair().publicKey();
  peers[2]->send(keys[0], id, key);
  groups[1]->send(frame(PeerFrame::Kind::End, {1, 4, 0}));
  EXPECT_NE(run(4), "sums");
}

/// A member that is ready cannot turn back, whatever its client sends again.
TEST_F(Groups, ARepetitionEndsNoStepThatHasBegun) {
  using Kind = PeerFrame::Kind;
  EXPECT_EQ(textOf(groups[1]->begin({1, 0, 0})), "");
  for (unsigned role : {1, 2}) {
    groups[role]->send(frame(Kind::Ready, {1, 0, 0}, 1));
  }
  groups[1]->refuse({1, 0, 0}, wire::ErrorCode_Busy);
  { JointMessage repeated(*groups[1], {1, 0, 0}, {}, 1, /*hasMasks=*/false, stop, milliseconds(10)); } // fails early
  EXPECT_EQ(awaited({1, 0, 0}, Kind::Ready, 1), "");
  groups[1]->refuse({1, 1, 0}, wire::ErrorCode_Busy);
  EXPECT_EQ(awaited({1, 1, 0}, Kind::Terms), "ended by 1");
  EXPECT_NE(textOf(groups[1]->begin({1, 1, 0})), "") << "what it has refused";
  { JointMessage repeated(*groups[2], {1, 2, 0}, {}, 1, /*hasMasks=*/false, stop, milliseconds(10)); }
  EXPECT_EQ(awaited({1, 2, 0}, Kind::Terms), "ended by 2");
}

TEST_F(Groups, AStopEndsAWaitButNotThatForACommit) {
  using Kind = PeerFrame::Kind;
  stop = true;
  EXPECT_NE(awaited({1, 0, 0}, Kind::Terms, 0, 60'000).find("was stopped"), std::string::npos);
  groups[1]->send(frame(Kind::Terms, {1, 0, 0}));
  groups[2]->send(frame(Kind::Terms, {1, 0, 0}));
  stop = false;
  JointMessage message(*groups[0], {1, 0, 0}, {}, 1, /*hasMasks=*/false, stop, milliseconds(10));
  std::thread others([&] {
    stop = true;
    std::this_thread::sleep_for(milliseconds(100));
    groups[1]->send(frame(Kind::Ready, {1, 0, 0}, 1));
    groups[2]->send(frame(Kind::Ready, {1, 0, 0}, 1));
  });
  TestCopies copies;
  EXPECT_EQ(textOf(message.ready(copies)), "");
  others.join();
}

TEST_F(Groups, AStepWithoutExchangesHasABarrier) {
  JointMessage message(*groups[0], {1, 0, 0}, {}, 1, /*hasMasks=*/false, stop, milliseconds(50));
  std::thread others([&] { // of a member that waits without end
    std::this_thread::sleep_for(milliseconds(500));
    for (size_t role : {1, 2}) {
      groups[role]->send(frame(PeerFrame::Kind::End, {1, 0, 0}));
    }
  });
  TestCopies copies;
  EXPECT_NE(textOf(message.ready(copies)).find("waited 0 s for member 1"), std::string::npos);
  others.join();
}

TEST_F(Groups, AMemberThatIsReadyAndGoesHasCommitted) {
  using Kind = PeerFrame::Kind;
  groups[1]->send(frame(Kind::Ready, {1, 0, 0}));
  groups[2]->send(frame(Kind::Ready, {1, 0, 0}));
  groups.resize(1);
  EXPECT_EQ(awaited({1, 0, 0}, Kind::Ready), "");
  EXPECT_NE(awaited({2, 0, 0}, Kind::Terms).find("has left the group"), std::string::npos);
}

TEST_F(Groups, AMessageThatIsDroppedTellsTheOthers) {
  using Kind = PeerFrame::Kind;
  { JointMessage message(*groups[1], {1, 0, 0}, {}, 2, /*hasMasks=*/false, stop, milliseconds(10)); }
  EXPECT_EQ(awaited({1, 0, 0}, Kind::Terms), "ended by 1");
  {
    JointMessage message(*groups[2], {2, 0, 0}, {}, 1, /*hasMasks=*/false, stop, milliseconds(10));
    message.cancel();
  }
  EXPECT_NE(awaited({2, 0, 0}, Kind::Terms).find("for member 1"), std::string::npos) << "nothing came";
}

TEST(GroupIds, TellClientsNoncesAndOrdersApart) {
  const signing::PublicKey a{1}, b{2};
  const GroupId id = groupIdOf("nonce", "client", {a, b});
  EXPECT_EQ(id, groupIdOf("nonce", "client", {a, b}));
  for (const GroupId &other : {groupIdOf("noncf", "client", {a, b}), groupIdOf("nonce", "cliens", {a, b}),
                               groupIdOf("nonce", "client", {b, a}), groupIdOf("nonceclient", "", {a, b}),
                               groupIdOf("nonce", "client", {a, b, b})}) {
    EXPECT_NE(id, other);
  }
}

namespace {

/// A message with repetitions that all have one vector of results, and an upload that was sent ahead.
std::string repeating(size_t repetitions, size_t results) {
  flatbuffers::FlatBufferBuilder builder;
  const auto shared = builder.CreateVector(std::vector<uint64_t>(results, 7));
  std::vector<flatbuffers::Offset<wire::Repetition>> further;
  for (size_t at = 0; at < repetitions; ++at) {
    further.push_back(wire::CreateRepetition(builder, 0, 0, 0, 0, shared));
  }
  const auto list = builder.CreateVector(further);
  wire::TensorBuilder tensor(builder);
  tensor.add_sent_ahead(3);
  const auto uploads = builder.CreateVector({tensor.Finish()});
  wire::StepBuilder step(builder);
  step.add_repetitions(list);
  step.add_uploads(uploads);
  builder.Finish(step.Finish());
  return {reinterpret_cast<const char *>(builder.GetBufferPointer()), builder.GetSize()};
}

std::string digestText(const std::string &message, const MessageDigest &content = {}) {
  auto digest = digestOf(*flatbuffers::GetRoot<wire::Step>(message.data()), message.size(), [&](uint64_t number) {
    EXPECT_EQ(number, 3u);
    return content;
  });
  return digest ? std::string(digest->begin(), digest->end()) : textOf(digest.takeError());
}

} // namespace

TEST(MessageDigests, BytesOfAMessageAreTakenAFewTimesAtMost) {
  EXPECT_EQ(digestText(repeating(2, 10'000)).size(), sizeof(MessageDigest));
  EXPECT_NE(digestText(repeating(50, 10'000)).find("vectors of the message share their bytes"), std::string::npos);
}

TEST(MessageDigests, UploadsThatWereSentAheadCount) {
  ContentDigest whole, parts, other;
  whole.add("an upload", 9);
  parts.add("an up", 5);
  parts.add("load", 4);
  other.add("an uploae", 9);
  EXPECT_EQ(whole.get(), parts.get());
  EXPECT_NE(whole.get(), other.get());
  const std::string message = repeating(1, 1);
  EXPECT_EQ(digestText(message, whole.get()), digestText(message, parts.get()));
  EXPECT_NE(digestText(message, whole.get()), digestText(message, other.get()));
}

} // namespace sojourn::owner::test
