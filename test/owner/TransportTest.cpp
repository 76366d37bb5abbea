// SPDX-License-Identifier: Apache-2.0
// Goal: no peer and no second owner stops a listening owner. Method: bare sockets that say nothing or
// nonsense, and mistaken listeners, thirty times each; then a client asks. Also: TLS is in the build.
#include "owner/Server.h"
#include "test/owner/Support.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <mbedtls/ctr_drbg.h>
#include <mbedtls/ecp.h>
#include <mbedtls/entropy.h>
#include <mbedtls/pk.h>
#include <mbedtls/x509_crt.h>
#include <netinet/in.h>
#include <nng/nng.h>
#include <nng/protocol/reqrep0/rep.h>
#include <nng/protocol/reqrep0/req.h>
#include <nng/supplemental/tls/tls.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace sojourn::owner::test {

namespace {

constexpr int kTimes = 30;

/// Asks once over a new connection; the kind of reply.
wire::ReplyBody ask(const std::string &url) {
  nng_socket socket = NNG_SOCKET_INITIALIZER;
  EXPECT_EQ(nng_req0_open(&socket), 0);
  nng_socket_set_ms(socket, NNG_OPT_RECVTIMEO, 20'000);
  nng_socket_set_ms(socket, NNG_OPT_SENDTIMEO, 20'000);
  int status = nng_dial(socket, url.c_str(), nullptr, 0);
  std::string hello = helloBytes("alice");
  status = status ? status : nng_send(socket, hello.data(), hello.size(), 0);
  void *data = nullptr;
  size_t size = 0;
  status = status ? status : nng_recv(socket, &data, &size, NNG_FLAG_ALLOC);
  EXPECT_EQ(status, 0) << nng_strerror(status);
  wire::ReplyBody kind = wire::ReplyBody_NONE;
  if (status == 0) {
    kind = Reply(std::string(static_cast<const char *>(data), size)).kind();
    nng_free(data, size);
  }
  nng_close(socket);
  return kind;
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

class Transport : public testing::TestWithParam<const char *> {
protected:
  void SetUp() override { address = GetParam() == std::string("ipc") ? ipcAddress(folder) : tcpAddress(); }
  World world;
  TemporaryFolder folder;
  Address address;
};

} // namespace

TEST_P(Transport, SurvivesPeersThatSayNothingOrNonsense) {
  Owner owner(world.environment());
  auto server = Server::start(owner, {address.url, 2});
  ASSERT_TRUE(bool(server)) << llvm::toString(server.takeError());
  // Nothing; half a greeting; a greeting and a message longer than any; something else altogether.
  std::string greeting("\0SP\0\0\x30\0\0", 8);
  std::string ipc = GetParam() == std::string("ipc") ? "\1" : "";
  for (const std::string &bytes : {std::string(), greeting.substr(0, 3), greeting + ipc + std::string(8, '\x7f'),
                                   greeting + ipc + std::string(8, '\0'), std::string("GET / HTTP/1.1\r\n\r\n")}) {
    for (int time = 0; time < kTimes; ++time) {
      knock(address, bytes);
    }
    ASSERT_EQ(ask(address.url), wire::ReplyBody_Welcome) << "after " << bytes.size() << " bytes";
  }
}

TEST_P(Transport, SurvivesMistakenSecondOwners) {
  Owner owner(world.environment()), other(world.environment());
  auto first = Server::start(owner, {address.url, 2});
  ASSERT_TRUE(bool(first)) << llvm::toString(first.takeError());
  for (int time = 0; time < kTimes; ++time) {
    auto second = Server::start(other, {address.url, 2});
    ASSERT_FALSE(bool(second)) << "time " << time;
    std::string text = llvm::toString(second.takeError());
    EXPECT_NE(text.find("cannot listen on '" + address.url), std::string::npos) << text;
    EXPECT_NE(text.find("another server already listens at this address"), std::string::npos) << text;
    ASSERT_EQ(ask(address.url), wire::ReplyBody_Welcome) << "after " << time + 1;
  }
  EXPECT_EQ(owner.requests(), static_cast<uint64_t>(kTimes));
  EXPECT_EQ(other.requests(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Sockets, Transport, testing::Values("ipc", "tcp"),
                         [](const auto &info) { return std::string(info.param); });

TEST(Transport, TakesOverTheSocketOfAnOwnerThatDied) {
  World world;
  TemporaryFolder folder;
  Address address = ipcAddress(folder);
  int dead = socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(bind(dead, reinterpret_cast<sockaddr *>(&address.bare), address.size), 0);
  close(dead); // the file stays, and nobody listens
  Owner owner(world.environment());
  auto server = Server::start(owner, {address.url, 1});
  ASSERT_TRUE(bool(server)) << llvm::toString(server.takeError());
  EXPECT_EQ(ask(address.url), wire::ReplyBody_Welcome);
}

namespace {

/// A key and a certificate that it signed for itself, both as PEM.
std::pair<std::string, std::string> throwawayCertificate() {
  mbedtls_entropy_context entropy;
  mbedtls_ctr_drbg_context random;
  mbedtls_pk_context key;
  mbedtls_x509write_cert writer;
  mbedtls_entropy_init(&entropy);
  mbedtls_ctr_drbg_init(&random);
  mbedtls_pk_init(&key);
  mbedtls_x509write_crt_init(&writer);
  EXPECT_EQ(mbedtls_ctr_drbg_seed(&random, mbedtls_entropy_func, &entropy, nullptr, 0), 0);
  EXPECT_EQ(mbedtls_pk_setup(&key, mbedtls_pk_info_from_type(MBEDTLS_PK_ECKEY)), 0);
  EXPECT_EQ(mbedtls_ecp_gen_key(MBEDTLS_ECP_DP_SECP256R1, mbedtls_pk_ec(key), mbedtls_ctr_drbg_random, &random), 0);
  unsigned char serial[] = {1};
  mbedtls_x509write_crt_set_version(&writer, MBEDTLS_X509_CRT_VERSION_3);
  mbedtls_x509write_crt_set_md_alg(&writer, MBEDTLS_MD_SHA256);
  mbedtls_x509write_crt_set_subject_key(&writer, &key);
  mbedtls_x509write_crt_set_issuer_key(&writer, &key);
  EXPECT_EQ(mbedtls_x509write_crt_set_serial_raw(&writer, serial, sizeof serial), 0);
  EXPECT_EQ(mbedtls_x509write_crt_set_subject_name(&writer, "CN=owner"), 0);
  EXPECT_EQ(mbedtls_x509write_crt_set_issuer_name(&writer, "CN=owner"), 0);
  EXPECT_EQ(mbedtls_x509write_crt_set_validity(&writer, "20200101000000", "20991231235959"), 0);
  EXPECT_EQ(mbedtls_x509write_crt_set_basic_constraints(&writer, 1, -1), 0);
  std::string certificate(4096, '\0'), secret(4096, '\0');
  EXPECT_EQ(mbedtls_x509write_crt_pem(&writer, reinterpret_cast<unsigned char *>(certificate.data()),
                                      certificate.size(), mbedtls_ctr_drbg_random, &random),
            0);
  EXPECT_EQ(mbedtls_pk_write_key_pem(&key, reinterpret_cast<unsigned char *>(secret.data()), secret.size()), 0);
  mbedtls_x509write_crt_free(&writer);
  mbedtls_pk_free(&key);
  mbedtls_ctr_drbg_free(&random);
  mbedtls_entropy_free(&entropy);
  return {certificate.c_str(), secret.c_str()};
}

/// A client's view of one TLS endpoint: 0 if a message arrived whole, else nng's error.
int talk(const std::string &url, const std::string &trusted, nng_socket server) {
  nng_socket client = NNG_SOCKET_INITIALIZER;
  nng_tls_config *trust = nullptr;
  nng_dialer dialer = NNG_DIALER_INITIALIZER;
  EXPECT_EQ(nng_req0_open(&client), 0);
  nng_socket_set_ms(client, NNG_OPT_SENDTIMEO, 20'000);
  EXPECT_EQ(nng_tls_config_alloc(&trust, NNG_TLS_MODE_CLIENT), 0);
  EXPECT_EQ(nng_tls_config_auth_mode(trust, NNG_TLS_AUTH_MODE_REQUIRED), 0);
  EXPECT_EQ(nng_tls_config_server_name(trust, "owner"), 0);
  EXPECT_EQ(nng_tls_config_ca_chain(trust, trusted.c_str(), nullptr), 0);
  EXPECT_EQ(nng_dialer_create(&dialer, client, url.c_str()), 0);
  EXPECT_EQ(nng_dialer_set_ptr(dialer, NNG_OPT_TLS_CONFIG, trust), 0);
  int status = nng_dialer_start(dialer, 0);
  std::string sent(100'000, 'x'), got;
  if (status == 0) {
    EXPECT_EQ(nng_send(client, sent.data(), sent.size(), 0), 0);
    void *data = nullptr;
    size_t size = 0;
    status = nng_recv(server, &data, &size, NNG_FLAG_ALLOC);
    if (status == 0) {
      got.assign(static_cast<const char *>(data), size);
      nng_free(data, size);
    }
    EXPECT_TRUE(got == sent);
  }
  nng_close(client);
  nng_tls_config_free(trust);
  return status;
}

} // namespace

TEST(Transport, TlsIsInTheBuild) {
  EXPECT_NE(std::string(nng_tls_engine_name()), "none");
  auto [certificate, key] = throwawayCertificate();
  std::string url = "tls+" + tcpAddress().url;
  nng_socket server = NNG_SOCKET_INITIALIZER;
  nng_tls_config *identity = nullptr;
  nng_listener listener = NNG_LISTENER_INITIALIZER;
  ASSERT_EQ(nng_rep0_open(&server), 0);
  nng_socket_set_ms(server, NNG_OPT_RECVTIMEO, 20'000);
  ASSERT_EQ(nng_tls_config_alloc(&identity, NNG_TLS_MODE_SERVER), 0);
  ASSERT_EQ(nng_tls_config_own_cert(identity, certificate.c_str(), key.c_str(), nullptr), 0);
  ASSERT_EQ(nng_listener_create(&listener, server, url.c_str()), 0);
  ASSERT_EQ(nng_listener_set_ptr(listener, NNG_OPT_TLS_CONFIG, identity), 0);
  ASSERT_EQ(nng_listener_start(listener, 0), 0);
  EXPECT_EQ(talk(url, certificate, server), 0);
  // A client that trusts another certificate does not talk.
  EXPECT_NE(talk(url, throwawayCertificate().first, server), 0);
  nng_close(server);
  nng_tls_config_free(identity);
}

} // namespace sojourn::owner::test
