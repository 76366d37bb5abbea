// SPDX-License-Identifier: Apache-2.0
// Who a session belongs to: proofs of identity, and what a hostile client can make of them. The other side of the
// handshake is written down here once more, from the description in runtime/signing/Proof.h.
#include "dialect/Version.h"
#include "owner/Accounts.h"
#include "owner/Handshake.h"
#include "owner/Openings.h"
#include "test/owner/Support.h"

namespace sojourn::owner::test {

namespace {

using signing::SigningKey;

flatbuffers::Offset<flatbuffers::Vector<uint8_t>> vector(flatbuffers::FlatBufferBuilder &builder,
                                                         const std::string &data) {
  return builder.CreateVector(reinterpret_cast<const uint8_t *>(data.data()), data.size());
}

std::string helloWith(const std::string &identity, const std::string &nonce) {
  flatbuffers::FlatBufferBuilder builder;
  auto name = builder.CreateString("pid 1");
  auto key = vector(builder, identity), drawn = vector(builder, nonce);
  return finish(builder, wire::RequestBody_Hello,
                wire::CreateHello(builder, sojourn::wire::kProtocolVersion, runtime::kFormatVersion, kDialectVersion,
                                  name, key, drawn)
                    .Union());
}

struct Proof {
  std::string identity, nonce, challenge, signature;
  std::string bytes() const {
    flatbuffers::FlatBufferBuilder builder;
    auto name = builder.CreateString("pid 1");
    auto key = vector(builder, identity), drawn = vector(builder, nonce), given = vector(builder, challenge),
         signed_ = vector(builder, signature);
    return finish(builder, wire::RequestBody_Prove,
                  wire::CreateProve(builder, name, key, drawn, given, signed_).Union());
  }
};

std::string budgetBytes(uint64_t session, const std::string &dataset) {
  flatbuffers::FlatBufferBuilder builder;
  auto name = builder.CreateString(dataset);
  return finish(builder, wire::RequestBody_GetBudget, wire::CreateGetBudget(builder, session, name).Union());
}

std::string textOf(const flatbuffers::Vector<uint8_t> *bytes) {
  return {reinterpret_cast<const char *>(bytes->data()), bytes->size()};
}

template <class Bytes>
std::string textOf(const Bytes &bytes) {
  return {reinterpret_cast<const char *>(bytes.data()), bytes.size()};
}

struct Handshakes : testing::Test {
  World world;
  Limits limits;
  std::unique_ptr<Owner> owner;
  SigningKey ada = SigningKey::generate(), bob = SigningKey::generate();
  std::string nonce = std::string(32, 'n');
  std::string certificate; ///< digest of the channel's; empty without TLS

  void SetUp() override { restart(); }
  void restart() {
    owner = std::make_unique<Owner>(world.environment(), limits);
    ASSERT_EQ(owner->status(), "");
    ASSERT_EQ(errorText(owner->accounts().addClient("ada", ada.publicKey())), "");
    ASSERT_EQ(errorText(owner->accounts().addClient("bob", bob.publicKey())), "");
  }
  Reply send(const std::string &bytes) {
    return Reply(std::string(owner->answer(bytes, Peer::client, 0, certificate).bytes));
  }

  /// What `key` signs: the owner's and its own public key, nonce and challenge, each text after its length; over TLS
  /// the certificate's digest, too.
  static std::string statement(const std::string &ownerKey, const SigningKey &key, const std::string &nonce,
                               const std::string &challenge, const std::string &digest = "") {
    auto length = [](size_t size) {
      std::string bytes;
      for (int shift : {0, 8, 16, 24}) {
        bytes += static_cast<char>(size >> shift);
      }
      return bytes;
    };
    return ownerKey + textOf(key.publicKey()) + length(nonce.size()) + nonce + length(challenge.size()) + challenge +
           (digest.empty() ? "" : length(digest.size()) + digest);
  }
  /// A proof of the holder of `key`; `owner` is the key that it signs for, by default the one that the owner shows.
  Proof prove(const SigningKey &key, std::string ownerKey = "") {
    Reply reply = send(helloWith(textOf(key.publicKey()), nonce));
    const auto *challenge = reply.root->body_as_Challenge();
    if (!challenge) {
      ADD_FAILURE() << reply.error();
      return {};
    }
    std::string bytes = textOf(challenge->challenge()), shown = textOf(challenge->owner_key());
    EXPECT_EQ(signing::hex(shown), owner->key());
    signing::Signature ownerSignature;
    std::copy_n(challenge->signature()->data(), ownerSignature.size(), ownerSignature.begin());
    signing::PublicKey ownerPublic;
    std::copy_n(shown.begin(), ownerPublic.size(), ownerPublic.begin());
    EXPECT_TRUE(signing::isSigned(ownerPublic, "sojourn owner proof 1",
                                  statement(shown, key, nonce, bytes, certificate), ownerSignature));
    ownerKey = ownerKey.empty() ? shown : ownerKey;
    return {textOf(key.publicKey()), nonce, bytes,
            textOf(key.sign("sojourn client proof 1", statement(ownerKey, key, nonce, bytes, certificate)))};
  }
  uint64_t connect(const SigningKey &key, const std::string &account) {
    Reply reply = send(prove(key).bytes());
    const auto *welcome = reply.root->body_as_Welcome();
    EXPECT_TRUE(welcome) << reply.error();
    EXPECT_EQ(welcome && welcome->account() ? welcome->account()->str() : "", account);
    return welcome ? welcome->session() : 0;
  }
  void expectRefused(const Proof &proof, const std::string &part, wire::ErrorCode code = wire::ErrorCode_Refused) {
    size_t before = owner->liveSessions();
    Reply reply = send(proof.bytes());
    ASSERT_EQ(reply.kind(), wire::ReplyBody_Error);
    EXPECT_EQ(reply.asError().code(), code) << reply.error();
    EXPECT_NE(reply.error().find(part), std::string::npos) << reply.error();
    EXPECT_EQ(owner->liveSessions(), before);
  }
};

} // namespace

TEST_F(Handshakes, EachSessionHasTheAccountOfItsKey) {
  registerNumbers(*owner, "people", Policy::privateOnly);
  ASSERT_EQ(errorText(owner->setCap("people", 8, 1e-5)), "");
  ASSERT_EQ(errorText(owner->grant("ada", "people", 1, 1e-5)), "");
  ASSERT_EQ(errorText(owner->grant("bob", "people", 2, 1e-6)), "");
  Reply hello = send(helloBytes("ada")); // a name that it gives itself
  uint64_t nobody = hello.root->body_as_Welcome()->session();
  EXPECT_EQ(hello.root->body_as_Welcome()->account(), nullptr);
  uint64_t first = connect(ada, "ada"), second = connect(bob, "bob"), third = connect(ada, "ada");
  auto budget = [&](uint64_t session, const std::string &dataset = "people") {
    Reply reply = send(budgetBytes(session, dataset));
    const auto *body = reply.root->body_as_Budget();
    return body && body->granted() ? body->epsilon() : 0;
  };
  EXPECT_EQ(budget(first), 1);
  EXPECT_EQ(budget(second), 2);
  EXPECT_EQ(budget(third), 1);
  EXPECT_EQ(budget(nobody), 0) << "nobody's session sees nobody's budget";
  EXPECT_EQ(budget(second, ""), 0);
  ASSERT_EQ(errorText(owner->accounts().revoke("bob", "people")), "");
  EXPECT_EQ(budget(second), 0);
  EXPECT_NE(errorText(owner->accounts().revoke("bob", "nowhere")).find("has no grant"), std::string::npos);
}

TEST_F(Handshakes, AProofOpensOneSession) {
  Proof proof = prove(ada);
  EXPECT_EQ(send(proof.bytes()).error(), "");
  expectRefused(proof, "this challenge was already answered");
  // Another proof for the same challenge is none either: Ed25519 signatures are one per text, but others may not be.
  connect(ada, "ada");
  expectRefused(proof, "this challenge was already answered");
}

TEST_F(Handshakes, AWrongKeyProvesNothing) {
  Proof proof = prove(ada), other = prove(bob);
  Proof signedByOther = proof;
  signedByOther.signature = textOf(bob.sign("sojourn client proof 1", "anything"));
  expectRefused(signedByOther, "is not signed with the secret key of this identity");
  Proof otherContext = proof;
  otherContext.signature = textOf(ada.sign(
      "sojourn owner proof 1", statement(textOf(*signing::parseKey(owner->key())), ada, nonce, proof.challenge)));
  expectRefused(otherContext, "is not signed with the secret key of this identity");
  Proof swapped = proof;
  swapped.identity = other.identity;
  expectRefused(swapped, "has issued no such challenge to this key");
  swapped.challenge = other.challenge;
  expectRefused(swapped, "is not signed with the secret key of this identity");
  // None of this used anything up.
  EXPECT_EQ(send(proof.bytes()).error(), "");
  EXPECT_EQ(send(other.bytes()).error(), "");
}

TEST_F(Handshakes, AnUnknownKeyIsToldSoOnceItIsProved) {
  SigningKey stranger = SigningKey::generate();
  Proof proof = prove(stranger);
  Proof unsigned_ = proof;
  unsigned_.signature[0] ^= 1;
  expectRefused(unsigned_, "is not signed");
  expectRefused(proof, "no client of this owner has the key " + signing::keyText(stranger.publicKey()));
  expectRefused(proof, "sojourn-owner client add NAME --key FILE.pub");
  // Added meanwhile, perhaps by another process.
  ASSERT_EQ(errorText(owner->accounts().addClient("stranger", stranger.publicKey())), "");
  EXPECT_EQ(send(proof.bytes()).root->body_as_Welcome()->account()->str(), "stranger");
}

TEST_F(Handshakes, AProofForAnotherOwnerIsRefused) {
  // Who passes this owner's challenge on as its own gets a signature for its own key.
  Proof relayed = prove(ada, textOf(SigningKey::generate().publicKey()));
  expectRefused(relayed, "or was made for another owner or connection");
}

TEST_F(Handshakes, AProofCountsForTheCertificateOfItsChannel) {
  // Who sits between two channels has two digests: neither side's signature is of use at the other.
  const std::vector<std::string> digests = {"", std::string(32, 'd'), std::string(31, 'd') + "e", std::string(33, 'd')};
  for (const std::string &made : digests) {
    certificate = made;
    const Proof proof = prove(ada);
    for (const std::string &other : digests) {
      certificate = other;
      if (other != made) {
        expectRefused(proof, "is not signed with the secret key of this identity, or was made for another owner or "
                             "connection");
      }
    }
    certificate = made;
    EXPECT_EQ(send(proof.bytes()).error(), "");
  }
}

TEST_F(Handshakes, TheStatementGrowsByTheDigestAlone) {
  const signing::PublicKey key = *signing::parseKey(owner->key());
  const std::string shown = textOf(key), drawn(32, 'n'), given(56, 'c'), digest(32, 'd');
  EXPECT_EQ(signing::statement(key, ada.publicKey(), drawn, given), statement(shown, ada, drawn, given));
  EXPECT_EQ(signing::statement(key, ada.publicKey(), drawn, given, ""), statement(shown, ada, drawn, given));
  EXPECT_EQ(signing::statement(key, ada.publicKey(), drawn, given, digest),
            statement(shown, ada, drawn, given, digest));
}

TEST_F(Handshakes, ChallengesGrowOldAndDieWithTheOwner) {
  Proof late = prove(ada);
  world.elapsed += kChallengeMs;
  Proof young = prove(ada);
  EXPECT_EQ(send(late.bytes()).error(), "");
  world.elapsed += 1;
  expectRefused(late, "older than 60 seconds");
  Proof ready = prove(ada);
  EXPECT_EQ(send(young.bytes()).error(), "");
  for (int64_t set : {-1000 * kChallengeMs, 2000 * kChallengeMs}) { // the machine's clock is set, and no age changes
    world.now += set;
    expectRefused(young, "this challenge was already answered");
    expectRefused(late, "older than 60 seconds");
  }
  EXPECT_EQ(send(ready.bytes()).error(), "");
  connect(ada, "ada");
  Proof before = prove(ada);
  restart();
  expectRefused(before, "since its start");
}

TEST_F(Handshakes, AnyChangedByteAndLengthIsRefused) {
  Proof good = prove(ada);
  auto fields = {&Proof::identity, &Proof::nonce, &Proof::challenge, &Proof::signature};
  for (auto field : fields) {
    for (size_t byte = 0; byte < (good.*field).size(); ++byte) {
      Proof changed = good;
      (changed.*field)[byte] ^= static_cast<char>(1 << (byte % 8));
      expectRefused(changed, "");
    }
    for (size_t size : {size_t{0}, size_t{1}, (good.*field).size() - 1, (good.*field).size() + 1, size_t{100'000}}) {
      Proof changed = good;
      (changed.*field).resize(size);
      expectRefused(changed, " bytes, expected ", wire::ErrorCode_Malformed);
    }
  }
  for (auto [identity, drawn] : {std::pair{31, 32}, std::pair{33, 32}, std::pair{32, 0}, std::pair{32, 1000}}) {
    Reply reply =
        send(helloWith(std::string(static_cast<size_t>(identity), 'k'), std::string(static_cast<size_t>(drawn), 'n')));
    EXPECT_EQ(reply.asError().code(), wire::ErrorCode_Malformed);
  }
  EXPECT_EQ(send(good.bytes()).error(), "");
}

TEST_F(Handshakes, AskingForChallengesOpensNothing) {
  for (int round = 0; round < 5000; ++round) {
    prove(ada);
  }
  EXPECT_EQ(owner->liveSessions(), 0u);
  connect(ada, "ada");
}

TEST_F(Handshakes, AFloodOfOneClientLeavesTheOthersAlone) {
  for (size_t round = 0; round < kAnsweredChallenges; ++round) {
    uint64_t session = connect(ada, "ada");
    ASSERT_EQ(send(byeBytes(session)).error(), "");
  }
  expectRefused(prove(ada),
                "this client has connected 1024 times within 60 seconds, the limit; connect again in 61 seconds",
                wire::ErrorCode_Limit);
  connect(bob, "bob");
  world.elapsed += kChallengeMs + 1;
  connect(ada, "ada");
}

TEST_F(Handshakes, SessionsOfNobodyLockOutNoClient) {
  limits.sessions = limits.anonymousSessions = 3;
  restart();
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(send(helloBytes("anyone")).error(), "");
    connect(ada, "ada");
  }
  EXPECT_NE(send(helloBytes("anyone")).error().find("3 open sessions of clients without an identity"),
            std::string::npos);
  EXPECT_NE(send(prove(ada).bytes()).error().find("3 open sessions of client 'ada'"), std::string::npos);
  connect(bob, "bob");
}

TEST_F(Handshakes, ClientsWithoutAnIdentityBeginSoOftenAMinute) {
  limits.anonymousSessionsPerMinute = 60;
  restart();
  auto open = [&] {
    Reply reply = send(helloBytes("anyone"));
    if (const auto *welcome = reply.root->body_as_Welcome()) {
      EXPECT_EQ(send(byeBytes(welcome->session())).error(), "");
    }
    return reply.error();
  };
  for (int round = 0; round < 60; ++round) {
    ASSERT_EQ(open(), "") << round;
  }
  for (int round = 0; round < 100; ++round) {
    ASSERT_EQ(open(),
              "Limit: clients without an identity have opened 60 sessions within a minute, their share; connect "
              "again in 1 second, or with an identity that the data owner knows");
  }
  connect(ada, "ada"); // others are not concerned
  Client local(*owner);
  EXPECT_NE(local.session, 0u);
  world.elapsed += 1'000;
  EXPECT_EQ(open(), "");
  EXPECT_NE(open(), "");
  world.elapsed += 10 * 60'000; // no more than a minute's is saved up
  for (int round = 0; round < 60; ++round) {
    ASSERT_EQ(open(), "") << round;
  }
  EXPECT_NE(open(), "");
  limits.anonymousSessionsPerMinute = 2;
  restart();
  open();
  open();
  EXPECT_NE(open().find("connect again in 30 seconds"), std::string::npos);
}

TEST_F(Handshakes, AConnectionAsksForSoManyChallengesAMinute) {
  const std::string hello = helloWith(textOf(ada.publicKey()), nonce);
  auto ask = [&](uint64_t connection) {
    return Reply(std::string(owner->answer(hello, Peer::client, connection).bytes)).error();
  };
  for (size_t round = 0; round < kChallengesPerMinute; ++round) {
    ASSERT_EQ(ask(7), "");
  }
  EXPECT_EQ(ask(7),
            "Limit: this connection has asked for 120 challenges within a minute, the limit; connect again in 1 "
            "second");
  EXPECT_EQ(ask(8), "");
  world.elapsed += 500;
  EXPECT_EQ(ask(7), "");
  EXPECT_NE(ask(7), "");
  owner->disconnected(7);
  EXPECT_EQ(ask(7), "") << "nothing is kept of connections that are gone";
}

TEST_F(Handshakes, TheLogCountsSessionsThatComeInMasses) {
  auto lines = [&](const std::string &part) {
    size_t found = 0;
    for (const std::string &line : world.logged) {
      found += line.find(part) != std::string::npos;
    }
    return found;
  };
  limits.goneMs = 1'000;
  restart();
  world.logged.clear();
  for (uint64_t round = 0; round < 200; ++round) {
    ASSERT_EQ(Reply(std::string(owner->answer(helloBytes("anyone"), Peer::client, 7).bytes)).error(), "");
  }
  EXPECT_EQ(lines("session opened for a client without an identity, which calls itself 'anyone'"), kSessionLines);
  EXPECT_EQ(lines("session"), kSessionLines);
  connect(ada, "ada");
  EXPECT_EQ(lines("session opened for ada"), 1u);
  owner->disconnected(7);
  world.elapsed += 2'001; // a line for each account, and the sessions are over
  connect(ada, "ada");
  EXPECT_EQ(lines("sessions opened: 170 more for clients without an identity"), 1u);
  EXPECT_EQ(lines("ended: its connection is gone"), kSessionLines);
  owner.reset();
  EXPECT_EQ(lines("sessions ended: 170 more of clients without an identity"), 1u);
}

TEST_F(Handshakes, NamesAreInTheLogAsTheyWereProved) {
  uint64_t proved = connect(ada, "ada");
  uint64_t claimed = send(helloBytes("ada")).root->body_as_Welcome()->session();
  for (uint64_t session : {proved, claimed}) {
    auto program = keepProgram();
    StepRequest step;
    step.session = session;
    step.hash.assign(program.hash.begin(), program.hash.end());
    step.program = program.program;
    step.debug = program.debug;
    step.uploads = {f32({3}, {1, 2, 3})};
    step.results = {1};
    EXPECT_EQ(send(stepBytes(step)).error(), "");
  }
  auto records = owner->programs(false);
  ASSERT_TRUE(bool(records));
  ASSERT_EQ(records->size(), 2u);
  EXPECT_EQ((*records)[0].client, "ada");
  EXPECT_EQ((*records)[1].client, "'ada'");
  ASSERT_EQ(world.logged.size(), 2u);
  EXPECT_EQ(world.logged[0], "session opened for ada, which calls itself 'pid 1'");
  EXPECT_EQ(world.logged[1], "session opened for a client without an identity, which calls itself 'ada'");
}

TEST_F(Handshakes, ClientsHaveOneNameAndOneKey) {
  Accounts &accounts = owner->accounts();
  auto fresh = [] { return SigningKey::generate().publicKey(); };
  EXPECT_NE(errorText(accounts.addClient("eve", ada.publicKey())).find("this key already belongs to client 'ada'"),
            std::string::npos);
  EXPECT_NE(errorText(accounts.addClient("ada", fresh())).find("a client named 'ada' already exists"),
            std::string::npos);
  EXPECT_NE(errorText(accounts.addClient("local", fresh())).find("data owner's own process"), std::string::npos);
  for (const std::string &name : {std::string(), std::string("two words"), std::string("'x'"), std::string(300, 'x')}) {
    EXPECT_NE(errorText(accounts.addClient(name, fresh())).find("is not a valid name for a client"), std::string::npos)
        << name;
  }
}

} // namespace sojourn::owner::test
