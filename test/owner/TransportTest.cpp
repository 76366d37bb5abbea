// SPDX-License-Identifier: Apache-2.0
// Goal: no peer and no second owner stops a listening owner. Method: bare sockets that say nothing or
// nonsense, and mistaken listeners, thirty times each; then a client asks. Every transport, TLS among them.
#include "owner/Certificate.h"
#include "owner/Server.h"
#include "runtime/signing/Introduction.h"
#include "test/owner/Requester.h"
#include "test/owner/Support.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <filesystem>
#include <iterator>
#include <netinet/in.h>
#include <random>
#include <thread>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace sojourn::owner::test {

namespace {

constexpr int kTimes = 30;

/// Asks once over a new connection; the kind of reply.
wire::ReplyBody ask(const std::string &url) {
  Requester requester(url);
  EXPECT_EQ(requester.status(), 0) << nng_strerror(requester.status());
  return requester.send(helloBytes("alice")).kind();
}

struct Address {
  std::string url;
  sockaddr_storage bare{};
  socklen_t size = 0;
};

Address ipcAddress(const TemporaryFolder &folder) {
  Address address{"ipc://" + folder.file("o.sock")};
  auto &bare = reinterpret_cast<sockaddr_un &>(address.bare);
  bare.sun_family = AF_UNIX;
  std::strncpy(bare.sun_path, folder.file("o.sock").c_str(), sizeof bare.sun_path - 1);
  address.size = sizeof bare;
  return address;
}

/// A port that was free a moment ago.
Address tcpAddress() {
  Address address;
  auto &bare = reinterpret_cast<sockaddr_in &>(address.bare);
  bare.sin_family = AF_INET;
  bare.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.size = sizeof bare;
  int probe = socket(AF_INET, SOCK_STREAM, 0);
  EXPECT_EQ(bind(probe, reinterpret_cast<sockaddr *>(&bare), address.size), 0);
  EXPECT_EQ(getsockname(probe, reinterpret_cast<sockaddr *>(&bare), &address.size), 0);
  close(probe);
  address.url = "tcp://127.0.0.1:" + std::to_string(ntohs(bare.sin_port));
  return address;
}

/// Connects without nng, writes `bytes` and closes at once.
void knock(const Address &address, const std::string &bytes) {
  int bare = socket(address.bare.ss_family, SOCK_STREAM, 0);
  ASSERT_EQ(connect(bare, reinterpret_cast<const sockaddr *>(&address.bare), address.size), 0) << strerror(errno);
  if (!bytes.empty()) {
    EXPECT_EQ(send(bare, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  close(bare);
}

/// By scheme.
Address addressOf(const std::string &scheme, const TemporaryFolder &folder) {
  if (scheme == "ipc") {
    return ipcAddress(folder);
  }
  if (scheme == "inproc") {
    return {"inproc://" + folder.file("name")};
  }
  Address address = tcpAddress();
  address.url = scheme == "tls" ? "tls+" + address.url : address.url;
  return address;
}

ServerOptions options(const std::string &url) { return {url, 2, /*plainTcp=*/true}; }

class Transport : public testing::TestWithParam<const char *> {
protected:
  void SetUp() override { address = addressOf(GetParam(), folder); }
  World world;
  TemporaryFolder folder;
  Address address;
};

} // namespace

TEST_P(Transport, ServesOneAfterAnotherWhateverArrivesTogether) {
  Owner owner(world.environment());
  auto server = Server::start(owner, options(address.url));
  ASSERT_TRUE(bool(server)) << llvm::toString(server.takeError());
  Requester requester(address.url);
  const uint64_t session = requester.send(helloBytes("alice")).root->body_as_Welcome()->session();
  // Several at once, from one byte to more than any buffer; each has its own reply, in order.
  std::mt19937 random(std::random_device{}());
  for (int round = 0; round < 20; ++round) {
    std::string bytes;
    std::vector<size_t> sizes;
    for (int index = 0; index < 5; ++index) {
      const size_t size = random() % 2 ? random() % 5'000 : random() % 300'000;
      stream::FrameHead head;
      head.session = session;
      head.bytes = size;
      bytes.append(reinterpret_cast<const char *>(&head), sizeof head);
      bytes.append(size, static_cast<char>(random()));
      sizes.push_back(size);
    }
    stream::FrameHead first = stream::FrameHead::read(reinterpret_cast<const std::byte *>(bytes.data()));
    std::thread writer([&] { EXPECT_TRUE(requester.write(first, bytes.substr(sizeof first))); });
    writer.join();
    for (size_t size : sizes) {
      auto reply = requester.read();
      ASSERT_TRUE(reply.has_value());
      EXPECT_NE(Reply(reply->second).error().find("these " + std::to_string(size) + " bytes are not a request"),
                std::string::npos)
          << Reply(reply->second).error();
    }
  }
  EXPECT_EQ((*server)->requests(), 101u);
}

TEST_P(Transport, LargeMessagesAreForSessions) {
  Owner owner(world.environment());
  auto server = Server::start(owner, options(address.url));
  ASSERT_TRUE(bool(server)) << llvm::toString(server.takeError());
  Requester requester(address.url);
  const std::string large(stream::kSmallBytes + 1, 'x');
  EXPECT_EQ(requester.send(large).asError().code(), wire::ErrorCode_Session);
  const uint64_t session = requester.send(helloBytes("alice")).root->body_as_Welcome()->session();
  EXPECT_EQ(requester.send(large, session).asError().code(), wire::ErrorCode_Malformed);
  EXPECT_EQ(requester.send(large, session + 1).asError().code(), wire::ErrorCode_Session);
  EXPECT_EQ(requester.send(large, session).asError().code(), wire::ErrorCode_Malformed);
  EXPECT_EQ((*server)->requests(), 3u) << "refused messages are not taken in";
}

/// Over TLS their handshakes share mbedTLS's keys and random numbers, which need its locks.
TEST_P(Transport, ManyConnectAtOnce) {
  Owner owner(world.environment());
  ServerOptions given = options(address.url);
  given.workers = 8;
  auto server = Server::start(owner, given);
  ASSERT_TRUE(bool(server)) << llvm::toString(server.takeError());
  for (int round = 0; round < 8; ++round) {
    std::vector<std::thread> threads;
    for (int index = 0; index < 48; ++index) {
      threads.emplace_back([&] {
        Requester requester(address.url);
        ASSERT_EQ(requester.status(), 0) << nng_strerror(requester.status());
        for (int time = 0; time < 3; ++time) {
          EXPECT_EQ(requester.send(std::string(1'000, 'x')).kind(), wire::ReplyBody_Error);
        }
      });
    }
    for (std::thread &thread : threads) {
      thread.join();
    }
  }
}

size_t descriptors() {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

/// Over TLS nng lost the end of a connection that came behind bytes; it stayed for a minute.
TEST_P(Transport, TheEndShowsBehindWhatCameBefore) {
  Owner owner(world.environment());
  auto server = Server::start(owner, options(address.url));
  ASSERT_TRUE(bool(server)) << llvm::toString(server.takeError());
  EXPECT_EQ(ask(address.url), wire::ReplyBody_Welcome);
  const unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  const size_t before = descriptors();
  for (int round = 0; round < 60; ++round) {
    Requester requester(address.url);
    for (unsigned left = random() % 12; left > 0; --left) {
      stream::FrameHead head;
      head.bytes = random() % 4'000;
      requester.write(head, std::string(head.bytes, 'x'), random() % 4 ? std::string::npos : head.bytes / 2);
    }
  }
  for (int time = 0; descriptors() > before + 4 && time < 200; ++time) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_LE(descriptors(), before + 4) << "seed " << seed;
  EXPECT_EQ(ask(address.url), wire::ReplyBody_Welcome);
}

TEST_P(Transport, PeersThatStallAreLeft) {
  Owner owner(world.environment());
  ServerOptions given = options(address.url);
  given.times.silence = given.times.stall = std::chrono::milliseconds(300);
  auto server = Server::start(owner, given);
  ASSERT_TRUE(bool(server)) << llvm::toString(server.takeError());
  Requester silent(address.url), half(address.url), session(address.url);
  const uint64_t id = session.send(helloBytes("alice")).root->body_as_Welcome()->session();
  stream::FrameHead head;
  head.bytes = 1'000;
  EXPECT_TRUE(half.write(head, std::string(1'000, 'x'), 500));
  EXPECT_FALSE(silent.read().has_value());
  EXPECT_FALSE(half.read().has_value());
  std::this_thread::sleep_for(std::chrono::milliseconds(900));
  EXPECT_EQ(session.send("x", id).kind(), wire::ReplyBody_Error) << "a session may be silent";
}

TEST_P(Transport, TheOldestConnectionWithoutASessionMakesRoom) {
  Owner owner(world.environment());
  ServerOptions given = options(address.url);
  given.connections = 3;
  auto server = Server::start(owner, given);
  ASSERT_TRUE(bool(server)) << llvm::toString(server.takeError());
  Requester session(address.url);
  const uint64_t id = session.send(helloBytes("alice")).root->body_as_Welcome()->session();
  Requester oldest(address.url);
  EXPECT_EQ(oldest.send("x").kind(), wire::ReplyBody_Error);
  Requester older(address.url);
  EXPECT_EQ(older.send("x").kind(), wire::ReplyBody_Error);
  EXPECT_EQ(ask(address.url), wire::ReplyBody_Welcome);
  EXPECT_FALSE(oldest.read().has_value());
  EXPECT_EQ(session.send("x", id).kind(), wire::ReplyBody_Error);
}

TEST_P(Transport, SurvivesPeersThatSayNothingOrNonsense) {
  if (address.size == 0) {
    return; // within a process there is no such peer
  }
  Owner owner(world.environment());
  auto server = Server::start(owner, options(address.url));
  ASSERT_TRUE(bool(server)) << llvm::toString(server.takeError());
  stream::FrameHead head;
  head.bytes = uint64_t{1} << 60;
  const std::string greeting(reinterpret_cast<const char *>(&head), sizeof head);
  // Nothing; a part of a head; a message longer than any; something else altogether.
  for (const std::string &bytes : {std::string(), greeting.substr(0, 3), greeting, std::string(100, '\0'),
                                   std::string("GET / HTTP/1.1\r\n\r\n")}) {
    for (int time = 0; time < kTimes; ++time) {
      knock(address, bytes);
    }
    ASSERT_EQ(ask(address.url), wire::ReplyBody_Welcome) << "after " << bytes.size() << " bytes";
  }
}

TEST_P(Transport, SurvivesMistakenSecondOwners) {
  Owner owner(world.environment()), other(world.environment());
  auto first = Server::start(owner, options(address.url));
  ASSERT_TRUE(bool(first)) << llvm::toString(first.takeError());
  for (int time = 0; time < kTimes; ++time) {
    auto second = Server::start(other, options(address.url));
    ASSERT_FALSE(bool(second)) << "time " << time;
    std::string text = llvm::toString(second.takeError());
    EXPECT_NE(text.find("cannot listen on '" + address.url), std::string::npos) << text;
    EXPECT_NE(text.find("another server already listens at this address"), std::string::npos) << text;
    ASSERT_EQ(ask(address.url), wire::ReplyBody_Welcome) << "after " << time + 1;
  }
  EXPECT_EQ(owner.requests(), static_cast<uint64_t>(kTimes));
  EXPECT_EQ(other.requests(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Sockets, Transport, testing::Values("ipc", "tls", "inproc", "tcp"),
                         [](const auto &info) { return std::string(info.param); });

TEST(Transport, TakesOverTheSocketOfAnOwnerThatDied) {
  World world;
  TemporaryFolder folder;
  Address address = ipcAddress(folder);
  int dead = socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(bind(dead, reinterpret_cast<sockaddr *>(&address.bare), address.size), 0);
  close(dead); // the file stays, and nobody listens
  Owner owner(world.environment());
  auto server = Server::start(owner, options(address.url));
  ASSERT_TRUE(bool(server)) << llvm::toString(server.takeError());
  EXPECT_EQ(ask(address.url), wire::ReplyBody_Welcome);
}

TEST(Tls, AServerShowsTheCertificateThatItsKeyVouchesFor) {
  World world;
  Address address = addressOf("tls", TemporaryFolder());
  Owner owner(world.environment());
  auto server = Server::start(owner, options(address.url));
  ASSERT_TRUE(bool(server)) << llvm::toString(server.takeError());
  Requester first(address.url);
  stream::FrameHead head;
  head.kind = stream::FrameKind::introduction;
  ASSERT_TRUE(first.write(head, ""));
  auto reply = first.read();
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->first.kind, stream::FrameKind::introduction);
  auto introduction = signing::readIntroduction(reply->second);
  ASSERT_TRUE(introduction.has_value());
  EXPECT_TRUE(signing::isGenuine(*introduction));
  EXPECT_EQ(signing::keyText(introduction->owner), owner.key());
  // That connection has nothing more to say.
  EXPECT_TRUE(first.write({}, ""));
  EXPECT_FALSE(first.read().has_value());
  Requester second(address.url, signing::pemOf(introduction->certificate));
  EXPECT_EQ(second.send(helloBytes("alice")).kind(), wire::ReplyBody_Welcome);
  // A client that trusts another certificate does not talk.
  World elsewhere;
  auto other = Owner(elsewhere.environment()).certificate();
  ASSERT_TRUE(bool(other)) << llvm::toString(other.takeError());
  Requester third(address.url, other->pem);
  EXPECT_FALSE(third.write({}, "") && third.read().has_value());
}

} // namespace sojourn::owner::test
