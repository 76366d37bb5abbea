// SPDX-License-Identifier: Apache-2.0
// Links between owners: frames as they were sent, handshakes with those that are not who they say, hostile bytes, ends.
#include "owner/Accounts.h"
#include "owner/links/Introduce.h"
#include "owner/links/PeerLinks.h"
#include "owner/links/Talk.h"
#include "owner/peers/FrameBytes.h"
#include "owner/peers/Group.h"
#include "runtime/Buffer.h"
#include "runtime/signing/Bytes.h"
#include "runtime/signing/SigningKey.h"
#include "runtime/stream/Outgoing.h"
#include "test/owner/RawStream.h"
#include "test/owner/Support.h"

#include <chrono>
#include <functional>
#include <thread>

namespace sojourn::owner::test {

using std::chrono::milliseconds;

namespace {

std::string textOf(llvm::Error error) { return llvm::toString(std::move(error)); }

bool comesTrue(const std::function<bool()> &condition, milliseconds most = milliseconds(8'000)) {
  const auto until = std::chrono::steady_clock::now() + most;
  while (!condition() && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(milliseconds(5));
  }
  return condition();
}

/// Owners that have registered each other, and listen.
class Links : public testing::TestWithParam<const char *> {
protected:
  void SetUp() override {
    for (size_t at = 0; at < 2; ++at) {
      worlds[at].random.seed(seed() + at);
      owners.push_back(std::make_unique<Owner>(worlds[at].environment(), limits));
      keys.push_back(*signing::parseKey(owners[at]->key()));
      addresses.push_back(addressOf(at));
    }
  }
  void TearDown() override {
    groups.clear();
    links.clear();
  }
  static unsigned seed() {
    static const unsigned drawn = std::random_device()();
    return drawn;
  }
  std::string addressOf(size_t at) {
    if (std::string(GetParam()) == "tls") {
      return "tls+tcp://127.0.0.1:" + std::to_string(freePort());
    }
    return "ipc://" + folder.file("peer" + std::to_string(at) + ".sock");
  }
  /// Of owner 1 with one that reads nothing yet, and their group.
  void linkSlowly(stream::OwnedStream &stream, std::shared_ptr<Group> &group) {
    auto key = signing::SigningKey::generate();
    while (!(key.publicKey() < keys[1])) { // it dials
      key = signing::SigningKey::generate();
    }
    ASSERT_EQ(textOf(owners[1]->addPeer({"slow", key.publicKey(), addresses[0]})), "");
    start(1);
    stream = llvm::cantFail(dialPeer({"peer1", keys[1], addresses[1]}, key, LinkPurpose::link, stop));
    ASSERT_TRUE(comesTrue([&] { return owners[1]->figures().linkedPeers == 1; }));
    group = llvm::cantFail(owners[1]->groups()->join({1}, 1, {key.publicKey(), keys[1]}));
  }
  static uint16_t freePort() {
    nng_stream_listener *listener = nullptr;
    nng_stream_listener_alloc(&listener, "tcp://127.0.0.1:0");
    nng_stream_listener_listen(listener);
    int port = 0;
    nng_stream_listener_get_int(listener, NNG_OPT_TCP_BOUND_PORT, &port);
    nng_stream_listener_free(listener);
    return static_cast<uint16_t>(port);
  }
  void registerEach(size_t at, size_t other) {
    ASSERT_EQ(textOf(owners[at]->addPeer({"peer" + std::to_string(other), keys[other], addresses[other]})), "");
  }
  void registerAll() {
    registerEach(0, 1);
    registerEach(1, 0);
  }
  void start(size_t at) {
    links.resize(2);
    links[at] = llvm::cantFail(PeerLinks::start(*owners[at], addresses[at]));
  }
  void startAll() {
    start(0);
    start(1);
  }
  std::string join(size_t role, const GroupId &id = {1}) {
    groups.resize(2);
    auto group = owners[role]->groups()->join(id, static_cast<unsigned>(role), keys);
    if (!group) {
      return textOf(group.takeError());
    }
    groups[role] = *group;
    return "";
  }
  void joinAll(const GroupId &id = {1}) {
    ASSERT_EQ(join(0, id), "");
    ASSERT_EQ(join(1, id), "");
  }
  std::string awaited(size_t role, StepPoint point, PeerFrame::Kind kind, std::string *terms = nullptr,
                      milliseconds most = milliseconds(5'000)) {
    auto came = groups[role]->await(point, kind, 0, {}, &stop, most);
    if (!came) {
      return textOf(came.takeError());
    }
    const auto &frame = came->frames[1 - role];
    if (terms && frame && frame->terms) {
      terms->assign(static_cast<const char *>(frame->terms->data()), frame->terms->size());
    }
    return came->endedBy ? "ended" : "";
  }
  static PeerFrame termsFrame(StepPoint point, const std::string &bytes) {
    PeerFrame frame;
    frame.point = point;
    frame.terms = runtime::copyOf(bytes.data(), bytes.size());
    return frame;
  }

  Limits limits;
  TemporaryFolder folder;
  World worlds[2];
  std::vector<std::unique_ptr<Owner>> owners;
  std::vector<signing::PublicKey> keys;
  std::vector<std::string> addresses;
  std::vector<std::unique_ptr<PeerLinks>> links;
  std::vector<std::shared_ptr<Group>> groups;
  runtime::StopFlag stop{false};
};

INSTANTIATE_TEST_SUITE_P(Each, Links, testing::Values("ipc", "tls"), [](const auto &info) { return info.param; });

TEST_P(Links, FramesComeAsTheyWereSent) {
  registerAll();
  startAll();
  joinAll();
  std::mt19937_64 random(seed());
  uint64_t sequence = 0;
  for (size_t size : {0, 1, 100, 3'967, 3'968, 4'096, 70'000, 5'000'000}) {
    std::string sent[2];
    for (std::string &each : sent) {
      each.resize(size);
      for (char &byte : each) {
        byte = static_cast<char>(random());
      }
    }
    const StepPoint point{++sequence, random(), static_cast<uint32_t>(random() % 100)};
    groups[0]->send(termsFrame(point, sent[0]));
    groups[1]->send(termsFrame(point, sent[1]));
    for (size_t role : {0, 1}) {
      std::string terms = "nothing";
      EXPECT_EQ(awaited(role, point, PeerFrame::Kind::Terms, &terms), "") << size << " bytes, seed " << seed();
      EXPECT_TRUE(terms == sent[1 - role]) << size << " bytes, seed " << seed();
    }
  }
  EXPECT_EQ(owners[0]->figures().linkedPeers, 1u);
  EXPECT_EQ(owners[0]->figures().groups, 1u);
  EXPECT_TRUE(comesTrue([&] { return owners[0]->figures().peerBytesWaiting == 0; }));
}

TEST_P(Links, AnEndOfTheLinkIsTheEndOfItsGroups) {
  registerAll();
  startAll();
  joinAll();
  groups[1]->send(termsFrame({1, 0, 0}, "sent before"));
  ASSERT_TRUE(comesTrue([&] { return owners[0]->figures().peerBytesWaiting > 0; }));
  links[1].reset();
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(awaited(0, {1, 0, 0}, PeerFrame::Kind::Terms), "") << "what came before counts";
  EXPECT_NE(awaited(0, {1, 0, 1}, PeerFrame::Kind::Terms).find("is not reachable any more"), std::string::npos);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, milliseconds(1'000));
  start(1); // a link comes again, and the group does not
  ASSERT_TRUE(comesTrue([&] { return owners[0]->figures().linkedPeers == 1; }));
  groups[1]->send(termsFrame({2, 0, 0}, "after"));
  EXPECT_NE(awaited(0, {2, 0, 0}, PeerFrame::Kind::Terms, nullptr, milliseconds(300)).find("is not reachable any more"),
            std::string::npos);
  EXPECT_NE(join(0).find("has left it; make another group"), std::string::npos);
  joinAll({2});
  groups[1]->send(termsFrame({1, 0, 0}, "new"));
  EXPECT_EQ(awaited(0, {1, 0, 0}, PeerFrame::Kind::Terms), "");
}

TEST_P(Links, OwnersThatAreNotRegisteredAreRefused) {
  const size_t dialer = keys[0] < keys[1] ? 0 : 1;
  registerEach(dialer, 1 - dialer);
  startAll();
  EXPECT_NE(join(1 - dialer).find("sojourn-owner peer add NAME --key " + owners[dialer]->key()), std::string::npos);
  const std::string refused = join(dialer);
  EXPECT_NE(refused.find("and owner peer" + std::to_string(1 - dialer) +
                         "; its data owner sees the reason with: sojourn-owner peer check peer" +
                         std::to_string(1 - dialer)),
            std::string::npos)
      << refused;
  registerEach(1 - dialer, dialer); // in running servers
  EXPECT_EQ(join(1 - dialer), "");
  EXPECT_EQ(join(dialer), "");
  EXPECT_EQ(owners[dialer]->figures().linkedPeers, 1u);
}

/// By either side, for good, and for all groups.
TEST_P(Links, ARemovedOwnerIsNoMemberAnyMore) {
  for (size_t remover : {0, 1}) {
    links.clear();
    groups.clear();
    for (size_t at : {0, 1}) {
      llvm::consumeError(owners[at]->removePeer("peer" + std::to_string(1 - at)));
    }
    registerAll();
    startAll();
    const auto number = static_cast<uint8_t>(10 * remover);
    joinAll({static_cast<uint8_t>(100 + number)});
    ASSERT_EQ(textOf(owners[remover]->removePeer("peer" + std::to_string(1 - remover))), "");
    ASSERT_TRUE(comesTrue([&] { return owners[1 - remover]->figures().linkedPeers == 0; }));
    EXPECT_NE(awaited(1 - remover, {1, 0, 0}, PeerFrame::Kind::Terms).find("is not reachable any more"),
              std::string::npos);
    for (uint8_t attempt = 0; attempt < 2; ++attempt) {
      EXPECT_NE(join(remover, {static_cast<uint8_t>(1 + number + attempt)}).find("does not know"), std::string::npos);
      std::this_thread::sleep_for(milliseconds(600));
      EXPECT_EQ(owners[remover]->figures().linkedPeers, 0u);
    }
  }
}

/// Connections that say nothing do not keep another owner out.
TEST_P(Links, SilentConnectionsKeepNoOwnerOut) {
  registerAll();
  start(1);
  if (addresses[1].starts_with("ipc")) {
    std::vector<stream::OwnedStream> silent;
    for (int at = 0; at < 100; ++at) {
      Talk talk(std::chrono::steady_clock::now() + milliseconds(2'000), stop);
      ASSERT_EQ(talk.dial(addresses[1], nullptr), 0);
      silent.push_back(talk.release());
    }
    EXPECT_EQ(textOf(checkPeer(*owners[0], {"peer1", keys[1], addresses[1]})), "");
  }
}

/// Steps under steady traffic end with their links, whoever stops.
TEST_P(Links, AStopEndsWaitsForReadyMembers) {
  registerAll();
  for (uint8_t round = 0; round < 6; ++round) {
    startAll();
    joinAll({static_cast<uint8_t>(round + 101)});
    const auto others = groups; // of another group, whose frames keep the link busy
    joinAll({static_cast<uint8_t>(round + 1)});
    std::atomic<bool> isOver = false, isDone = false;
    std::thread traffic([&] {
      for (uint64_t sequence = 1; !isOver; ++sequence) {
        others[1]->send(termsFrame({sequence, 0, 0}, std::string(5'000, 'x')));
        std::this_thread::yield();
      }
    });
    std::string waited;
    std::thread waits([&] { // as JointMessage::ready, without a flag
      auto came = groups[0]->await({1, 0, 0}, PeerFrame::Kind::Ready, 0, {}, nullptr, milliseconds(0));
      waited = came ? "came" : textOf(came.takeError());
      isDone = true;
    });
    std::this_thread::sleep_for(milliseconds(20));
    links[0].reset();
    EXPECT_TRUE(comesTrue([&] { return isDone.load(); }, milliseconds(3'000)));
    owners[0]->groups()->lose(keys[1]);
    waits.join();
    EXPECT_NE(waited.find("is not reachable any more"), std::string::npos) << waited;
    isOver = true;
    traffic.join();
    links.clear();
    groups.clear();
  }
}

TEST_P(Links, ChecksSayWhatIsWrong) {
  const PeerRecord peer{"bob", keys[1], addresses[1]};
  auto check = [&] { return textOf(checkPeer(*owners[0], peer)); };
  EXPECT_NE(check().find("no server listens at " + addresses[1]), std::string::npos) << check();
  start(1);
  EXPECT_NE(check().find("does not know this one"), std::string::npos) << check();
  registerEach(1, 0);
  EXPECT_EQ(check(), "");
  EXPECT_NE(textOf(checkPeer(*owners[0], {"bob", signing::SigningKey::generate().publicKey(), addresses[1]}))
                .find("has the key " + owners[1]->key() + ", and bob is registered with"),
            std::string::npos);
  links[1].reset();
  // Something else that listens there.
  std::atomic<bool> over = false;
  nng_stream_listener *listener = nullptr;
  const std::string plain = "ipc://" + folder.file("other.sock");
  ASSERT_EQ(nng_stream_listener_alloc(&listener, plain.c_str()), 0);
  ASSERT_EQ(nng_stream_listener_listen(listener), 0);
  nng_aio *aio = nullptr;
  ASSERT_EQ(nng_aio_alloc(&aio, nullptr, nullptr), 0);
  nng_stream_listener_accept(listener, aio);
  std::thread closes([&] {
    nng_aio_wait(aio);
    if (nng_aio_result(aio) == 0) {
      nng_stream_free(static_cast<nng_stream *>(nng_aio_get_output(aio, 0)));
    }
    over = true;
  });
  const std::string other = textOf(checkPeer(*owners[0], {"bob", keys[1], plain}));
  EXPECT_NE(other.find("closed the connection: it stops, has too many at once, or is no owner's address"),
            std::string::npos)
      << other;
  closes.join();
  nng_stream_listener_free(listener);
  nng_aio_free(aio);
}

/// Links without a key's holder: who relays or guesses signs with another key.
TEST_P(Links, AKeyIsProvedByItsHolderAlone) {
  registerAll();
  start(1);
  if (addresses[1].starts_with("ipc")) { // names the other one's key, and signs with its own
    Talk talk(std::chrono::steady_clock::now() + milliseconds(2'000), stop);
    ASSERT_EQ(talk.dial(addresses[1], nullptr), 0);
    signing::Writer hello;
    hello(kLinkVersion, keys[0], keys[1], std::array<uint8_t, 32>{}, LinkPurpose::check);
    auto kind = stream::FrameKind::message;
    std::string bytes;
    ASSERT_EQ(talk.send(kind, hello.bytes), 0);
    ASSERT_EQ(talk.receive(kind, bytes, 4'096), 0);
    signing::Writer proof;
    proof(signing::SigningKey::generate().sign("sojourn peer dialer 1", bytes));
    ASSERT_EQ(talk.send(kind, proof.bytes), 0);
    EXPECT_NE(talk.receive(kind, bytes, 4'096), 0) << "no word on whether the key is registered";
  }
  const auto stranger = signing::SigningKey::generate();
  EXPECT_NE(textOf(dialPeer({"peer1", keys[1], addresses[1]}, stranger, LinkPurpose::check, stop).takeError())
                .find("does not know this one"),
            std::string::npos);
  EXPECT_EQ(owners[1]->figures().linkedPeers, 0u);
}

/// Who answers at the address, and has seen the key that is expected, does not hold it.
TEST_P(Links, AnOwnerIsWhoHoldsItsKey) {
  const std::string address = "ipc://" + folder.file("impostor.sock");
  nng_stream_listener *listener = nullptr;
  ASSERT_EQ(nng_stream_listener_alloc(&listener, address.c_str()), 0);
  ASSERT_EQ(nng_stream_listener_listen(listener), 0);
  nng_aio *aio = nullptr;
  ASSERT_EQ(nng_aio_alloc(&aio, nullptr, nullptr), 0);
  nng_stream_listener_accept(listener, aio);
  std::thread impostor([&] {
    nng_aio_wait(aio);
    Talk talk(std::chrono::steady_clock::now() + milliseconds(2'000), stop);
    talk.take(stream::OwnedStream(static_cast<nng_stream *>(nng_aio_get_output(aio, 0))));
    auto kind = stream::FrameKind::message;
    std::string bytes;
    talk.receive(kind, bytes, 4'096);
    signing::Writer answer;
    answer(kLinkVersion, keys[1], std::array<uint8_t, 32>{}, signing::Signature{});
    talk.send(kind, answer.bytes);
    talk.receive(kind, bytes, 4'096);
    signing::Writer verdict;
    verdict(std::string());
    talk.send(kind, verdict.bytes);
    talk.awaitEnd();
  });
  auto stream = dialPeer({"peer1", keys[1], address}, owners[0]->accounts().key(), LinkPurpose::link, stop);
  EXPECT_FALSE(bool(stream)) << "linked with an impostor";
  if (!stream) {
    const std::string text = textOf(stream.takeError());
    EXPECT_NE(text.find("does not hold the key of peer1"), std::string::npos) << text;
  }
  impostor.join();
  nng_stream_listener_free(listener);
  nng_aio_free(aio);
}

/// Whatever bytes come, before and after a handshake, the owner goes on.
TEST_P(Links, HostileBytesEndTheirOwnConnectionAlone) {
  // The dialer is a key of the test's, smaller than the owner's.
  auto key = signing::SigningKey::generate();
  while (!(key.publicKey() < keys[1])) {
    key = signing::SigningKey::generate();
  }
  ASSERT_EQ(textOf(owners[1]->addPeer({"hostile", key.publicKey(), addresses[0]})), "");
  start(1);
  std::mt19937_64 random(seed());
  const bool isTls = std::string(GetParam()) == "tls";
  for (int round = 0; round < 60; ++round) {
    auto stream = dialPeer({"peer1", keys[1], addresses[1]}, key, LinkPurpose::link, stop);
    ASSERT_TRUE(bool(stream)) << round << ": " << textOf(stream.takeError());
    ASSERT_TRUE(comesTrue([&] { return owners[1]->figures().linkedPeers == 1; }));
    std::string bytes;
    for (int frame = 0; frame < 3; ++frame) {
      stream::FrameHead head;
      head.kind = random() % 8 ? stream::FrameKind::peer : stream::FrameKind::message;
      FrameFields fields;
      fields.kind = static_cast<uint8_t>(random() % 6);
      fields.hasTerms = static_cast<uint8_t>(random() % 3);
      fields.code = static_cast<uint8_t>(random());
      fields.readyExchange = random() % 4 ? 0 : 1;
      fields.exchange = random() % 2;
      fields.step = random() % 2;
      const size_t size = random() % 3 ? random() % 200 : 0;
      head.bytes = sizeof fields + size;
      head.bytes = random() % 4 ? head.bytes : random() >> (random() % 64);
      head.reserved = random() % 16 ? 0 : 7;
      bytes.append(reinterpret_cast<const char *>(&head), sizeof head);
      bytes.append(reinterpret_cast<const char *>(&fields), sizeof fields);
      bytes.append(size, 'x');
    }
    sendRaw(std::move(*stream), std::string_view(bytes).substr(0, random() % (bytes.size() + 1)));
  }
  if (!isTls) { // and before a handshake
    for (int round = 0; round < 60; ++round) {
      Talk talk(std::chrono::steady_clock::now() + milliseconds(2'000), stop);
      ASSERT_EQ(talk.dial(addresses[1], nullptr), 0);
      std::string bytes(random() % 300, '\0');
      for (char &byte : bytes) {
        byte = static_cast<char>(random());
      }
      stream::FrameHead head;
      head.bytes = bytes.size();
      bytes.insert(0, reinterpret_cast<const char *>(&head), random() % 2 ? sizeof head : 0);
      sendRaw(talk.release(), bytes);
    }
  }
  EXPECT_TRUE(comesTrue([&] { return owners[1]->figures().linkedPeers == 0; }));
  registerEach(1, 0);
  EXPECT_EQ(textOf(checkPeer(*owners[0], {"peer1", keys[1], addresses[1]})), "") << "seed " << seed();
}

/// A member that takes nothing does not hold the terms of steps that have ended.
TEST_P(Links, TermsOfEndedStepsDoNotWaitToBeSent) {
  stream::OwnedStream stream;
  std::shared_ptr<Group> group;
  linkSlowly(stream, group);
  std::vector<PeerFrame> frames;
  for (uint64_t attempt = 0; attempt < 4; ++attempt) {
    frames.push_back(termsFrame({1, attempt, 0}, std::string(5'000'000, 'x')));
    group->send(frames.back());
    EXPECT_GE(frames.back().terms.use_count(), 2);
    PeerFrame end;
    end.kind = PeerFrame::Kind::End;
    end.point = frames.back().point;
    group->send(end);
  }
  size_t held = 0;
  for (const PeerFrame &frame : frames) {
    held += frame.terms.use_count() > 1 ? 1 : 0;
  }
  EXPECT_LE(held, 1u) << "but for the one that is on its way";
}

/// Terms that are taken back leave their Ready: the step before has committed, perhaps at all others.
TEST_P(Links, TheReadyOfTermsThatAreTakenBackIsSent) {
  stream::OwnedStream stream;
  std::shared_ptr<Group> group;
  linkSlowly(stream, group);
  group->send(termsFrame({1, 0, 0}, std::string(5'000'000, 'x'))); // is on its way
  PeerFrame terms = termsFrame({1, 0, 1}, std::string(100, 'y'));
  terms.readyExchange = 4;
  terms.readyDigest[5] = 9;
  group->send(terms);
  PeerFrame end;
  end.kind = PeerFrame::Kind::End;
  end.point = terms.point;
  group->send(end);
  EXPECT_EQ(terms.terms.use_count(), 1) << "taken back";
  std::vector<PeerFrame> came;
  while (came.size() < 3 && !HasFailure()) {
    const std::string headBytes = receiveBytes(stream.get(), sizeof(stream::FrameHead));
    const stream::FrameHead head = stream::FrameHead::read(reinterpret_cast<const std::byte *>(headBytes.data()));
    const std::string body = receiveBytes(stream.get(), head.bytes);
    if (body.empty()) { // a sign of life
      continue;
    }
    FrameFields fields;
    std::memcpy(&fields, body.data(), sizeof fields);
    auto frame = readFields(fields, body.size() - sizeof fields);
    ASSERT_TRUE(frame);
    came.push_back(*frame);
  }
  ASSERT_EQ(came.size(), 3u);
  EXPECT_EQ(came[0].kind, PeerFrame::Kind::Terms);
  EXPECT_EQ(came[1].kind, PeerFrame::Kind::Ready);
  EXPECT_EQ(came[1].point, (StepPoint{1, 0, 0}));
  EXPECT_EQ(came[1].exchange, 4u);
  EXPECT_EQ(came[1].digest, terms.readyDigest);
  EXPECT_EQ(came[2].kind, PeerFrame::Kind::End);
}

/// Bytes of others' values that wait are bounded, and what is for no group takes no memory.
class FullLinks : public Links {
protected:
  void SetUp() override {
    limits.peerBytes = 40'000; // a quarter for each group
    Links::SetUp();
    registerAll();
    startAll();
    joinAll();
  }
};

INSTANTIATE_TEST_SUITE_P(Each, FullLinks, testing::Values("ipc"), [](const auto &info) { return info.param; });

TEST_P(FullLinks, WhatWaitsIsBounded) {
  groups[1]->send(termsFrame({1, 0, 0}, std::string(9'000, 'a')));
  ASSERT_TRUE(comesTrue([&] { return owners[0]->figures().peerBytesWaiting == 9'000; }));
  groups[1]->send(termsFrame({1, 0, 1}, std::string(2'000, 'b')));
  ASSERT_TRUE(comesTrue([&] { return owners[0]->figures().peerBytesReceived > 11'000; }));
  EXPECT_EQ(awaited(0, {1, 0, 0}, PeerFrame::Kind::Terms), "");
  EXPECT_NE(awaited(0, {1, 0, 1}, PeerFrame::Kind::Terms).find("sent more than this owner keeps"), std::string::npos);
  EXPECT_TRUE(comesTrue([&] { return owners[0]->figures().peerBytesWaiting == 0; }));
  groups[1]->send(termsFrame({2, 0, 0}, std::string(2'000, 'c'))); // the next message is heard
  EXPECT_EQ(awaited(0, {2, 0, 0}, PeerFrame::Kind::Terms), "");
}

/// One client has half, all without an identity have a quarter together, and no client fills the room of others.
TEST_P(FullLinks, WhatWaitsForOneClientIsBounded) {
  const auto joined = [&](uint8_t number, const std::string &account) {
    std::vector<std::shared_ptr<Group>> sides;
    for (unsigned role = 0; role < 2; ++role) {
      sides.push_back(llvm::cantFail(owners[role]->groups()->join({number}, role, keys, account)));
    }
    return sides;
  };
  size_t waiting = 0;
  const auto send = [&](const std::vector<std::shared_ptr<Group>> &sides, size_t bytes, bool fits) {
    const uint64_t before = owners[0]->figures().peerBytesReceived;
    sides[1]->send(termsFrame({1, 0, 0}, std::string(bytes, 'a')));
    waiting += fits ? bytes : 0;
    EXPECT_TRUE(comesTrue([&] { return owners[0]->figures().peerBytesReceived >= before + bytes; }));
    EXPECT_TRUE(comesTrue([&] { return owners[0]->figures().peerBytesWaiting == waiting; }));
  };
  const auto textAt = [&](const std::vector<std::shared_ptr<Group>> &sides) {
    auto came = sides[0]->await({1, 0, 0}, PeerFrame::Kind::Terms, 0, {}, &stop, milliseconds(5'000));
    return came ? "" : textOf(came.takeError());
  };
  std::vector<std::vector<std::shared_ptr<Group>>> ada, nobody;
  for (uint8_t number = 10; number < 13; ++number) {
    ada.push_back(joined(number, "ada"));
    nobody.push_back(joined(static_cast<uint8_t>(number + 10), ""));
  }
  const auto bob = joined(30, "bob");
  send(ada[0], 9'000, true);
  send(ada[1], 9'000, true);
  send(ada[2], 9'000, false); // of 20,000
  send(nobody[0], 6'000, true);
  send(nobody[1], 6'000, false); // of 10,000
  send(bob, 9'000, true);
  EXPECT_NE(textAt(ada[2]).find("the groups of one client, half of its setting groups.waiting_bytes"),
            std::string::npos);
  EXPECT_NE(textAt(nobody[1]).find("clients without an identity, a quarter of its setting"), std::string::npos);
  EXPECT_EQ(textAt(bob), "");
  EXPECT_EQ(textAt(ada[0]), "");
  waiting -= 18'000;
  EXPECT_TRUE(comesTrue([&] { return owners[0]->figures().peerBytesWaiting == waiting; }));
  ada[0].clear();
  nobody.clear(); // and what waits for them
  waiting -= 6'000;
  ada[2][1]->send(termsFrame({1, 0, 1}, std::string(9'000, 'b')));
  EXPECT_TRUE(comesTrue([&] { return owners[0]->figures().peerBytesWaiting == waiting + 9'000; }))
      << owners[0]->figures().peerBytesWaiting;
}

} // namespace

} // namespace sojourn::owner::test
