// SPDX-License-Identifier: Apache-2.0
// What an owner's key vouches for before TLS begins, and what hostile bytes make of it. mbedTLS reads once more what
// libsodium wrote.
#include "runtime/signing/Introduction.h"

#include "test/owner/Support.h"

#include <mbedtls/sha256.h>
#include <mbedtls/pem.h>
#include <random>
#include <sstream>

namespace sojourn::owner::test {

using signing::Introduction;
using signing::SigningKey;

namespace {

struct Introductions : testing::Test {
  const uint64_t seed = std::random_device()();
  std::mt19937_64 dice{seed};
  SigningKey owner = SigningKey::generate();

  void SetUp() override { RecordProperty("seed", std::to_string(seed)); }
  std::string randomBytes(size_t size) {
    std::string bytes(size, '\0');
    for (char &byte : bytes) {
      byte = static_cast<char>(dice());
    }
    return bytes;
  }
};

} // namespace

TEST_F(Introductions, AreReadAsTheyWereWritten) {
  for (size_t size : {size_t{1}, size_t{300 + dice() % 1000}, signing::kCertificateBytesMost}) {
    const Introduction made = signing::introduce(owner, randomBytes(size));
    EXPECT_EQ(made.owner, owner.publicKey());
    EXPECT_TRUE(signing::isGenuine(made));
    auto read = signing::readIntroduction(signing::write(made));
    ASSERT_TRUE(read) << size;
    EXPECT_EQ(*read, made);
    EXPECT_TRUE(signing::isGenuine(*read));
  }
  EXPECT_FALSE(
      signing::readIntroduction(signing::write(signing::introduce(owner, std::string(4097, 'c'))))); // DER beyond 4096
  EXPECT_FALSE(signing::readIntroduction(signing::write(signing::introduce(owner, ""))));
}

TEST_F(Introductions, NeedTheKeyAndTheCertificate) {
  const Introduction good = signing::introduce(owner, randomBytes(400));
  Introduction other = good;
  other.owner = SigningKey::generate().publicKey();
  EXPECT_FALSE(signing::isGenuine(other)) << "another owner's name on it";
  other = good;
  other.certificate[dice() % other.certificate.size()] ^= static_cast<char>(1 << (dice() % 8));
  EXPECT_FALSE(signing::isGenuine(other)) << "another certificate";
  other = good;
  other.certificate += '\0';
  EXPECT_FALSE(signing::isGenuine(other)) << "a longer certificate";
  other = good;
  other.signature[dice() % other.signature.size()] ^= static_cast<uint8_t>(1 << (dice() % 8));
  EXPECT_FALSE(signing::isGenuine(other)) << "another signature";
  // What the owner signs elsewhere vouches for no certificate, and the other way around.
  other = good;
  const auto digest = signing::digestOf(good.certificate);
  const std::string_view bytes(reinterpret_cast<const char *>(digest.data()), digest.size());
  other.signature = owner.sign("sojourn owner proof 1", bytes);
  EXPECT_FALSE(signing::isGenuine(other));
  other.signature = owner.sign("sojourn owner certificate 1", good.certificate);
  EXPECT_FALSE(signing::isGenuine(other)) << "the digest is signed";
  other.signature = owner.sign("sojourn owner certificate 1", bytes);
  EXPECT_TRUE(signing::isGenuine(other));
}

TEST_F(Introductions, HostileBytesAreNone) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  const std::string good = signing::write(signing::introduce(owner, randomBytes(500)));
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(signing::readIntroduction(std::string_view(good).substr(0, size))) << size;
  }
  EXPECT_FALSE(signing::readIntroduction(good + '\0'));
  EXPECT_FALSE(signing::readIntroduction(std::string(size_t{1} << 20, 's')));
  for (int round = 0; round < 20'000; ++round) {
    std::string changed = good;
    for (uint64_t times = 1 + dice() % 3; times > 0; --times) {
      changed[dice() % changed.size()] = static_cast<char>(dice());
    }
    if (auto read = signing::readIntroduction(changed); read && changed != good) {
      EXPECT_FALSE(signing::isGenuine(*read));
    }
    EXPECT_FALSE(signing::readIntroduction(randomBytes(dice() % 800)));
  }
}

TEST_F(Introductions, DigestsAreSha256) {
  for (size_t size : {0, 1, 55, 56, 64, 1000}) {
    const std::string der = randomBytes(size);
    std::array<uint8_t, 32> expected{};
    ASSERT_EQ(mbedtls_sha256(reinterpret_cast<const unsigned char *>(der.data()), der.size(), expected.data(), 0), 0);
    EXPECT_EQ(signing::digestOf(der), expected);
  }
}

TEST_F(Introductions, PemHasTheBytes) {
  for (size_t size = 0; size < 200; ++size) {
    const std::string der = randomBytes(size), pem = signing::pemOf(der);
    mbedtls_pem_context read;
    mbedtls_pem_init(&read);
    size_t used = 0;
    const int status = mbedtls_pem_read_buffer(&read, "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----",
                                               reinterpret_cast<const unsigned char *>(pem.c_str()), nullptr, 0, &used);
    EXPECT_EQ(status, size ? 0 : MBEDTLS_ERR_PEM_INVALID_DATA) << pem;
    size_t length = 0;
    const unsigned char *data = mbedtls_pem_get_buffer(&read, &length);
    EXPECT_EQ(std::string(reinterpret_cast<const char *>(data), length), der);
    mbedtls_pem_free(&read);
    std::istringstream lines(pem);
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(line.size(), 64u);
    }
  }
}

} // namespace sojourn::owner::test
