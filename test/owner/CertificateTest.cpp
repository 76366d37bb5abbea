// SPDX-License-Identifier: Apache-2.0
// The certificate of an owner: what is in it, where it is kept, and files that are not one.
#include "owner/Certificate.h"

#include "test/owner/Support.h"

#include <filesystem>
#include <fstream>
#include <mbedtls/pk.h>
#include <mbedtls/x509_crt.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace sojourn::owner::test {

namespace {

struct Certificates : testing::Test {
  TemporaryFolder folder;
  World world;
  std::unique_ptr<Owner> owner;

  void SetUp() override {
    world.store = folder.file("store");
    restart();
  }
  void restart() {
    owner.reset();
    owner = std::make_unique<Owner>(world.environment());
    ASSERT_EQ(owner->status(), "");
  }
  std::string path() const { return certificatePath(world.store); }
  Certificate take(bool renew = false) {
    auto certificate = owner->certificate(renew);
    EXPECT_TRUE(bool(certificate)) << errorText(certificate.takeError());
    return certificate ? std::move(*certificate) : Certificate();
  }
  std::string problem() {
    auto certificate = owner->certificate();
    return certificate ? "" : errorText(certificate.takeError());
  }
  std::string text() const {
    std::ifstream in(path());
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void write(const std::string &text) const { std::ofstream(path(), std::ios::trunc) << text; }
};

void expectHas(const std::string &text, const std::string &part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

} // namespace

TEST_F(Certificates, HaveTheNameAndTheOwnersWord) {
  const Certificate made = take();
  mbedtls_x509_crt read;
  mbedtls_x509_crt_init(&read);
  ASSERT_EQ(
      mbedtls_x509_crt_parse(&read, reinterpret_cast<const unsigned char *>(made.pem.c_str()), made.pem.size() + 1), 0);
  EXPECT_EQ(std::string(reinterpret_cast<const char *>(read.raw.p), read.raw.len), made.der);
  char name[100];
  mbedtls_x509_dn_gets(name, sizeof name, &read.subject);
  EXPECT_STREQ(name, "CN=sojourn-owner");
  EXPECT_EQ(read.valid_from.year, 2020);
  EXPECT_EQ(read.valid_to.year, 2099);
  EXPECT_EQ(mbedtls_pk_get_type(&read.pk), MBEDTLS_PK_ECKEY);
  EXPECT_EQ(mbedtls_pk_get_bitlen(&read.pk), 256u);
  // As its own authority, for this name alone.
  uint32_t flags = 0;
  EXPECT_EQ(mbedtls_x509_crt_verify(&read, &read, nullptr, "sojourn-owner", &flags, nullptr, nullptr), 0) << flags;
  EXPECT_NE(mbedtls_x509_crt_verify(&read, &read, nullptr, "another", &flags, nullptr, nullptr), 0);
  EXPECT_EQ(flags, static_cast<uint32_t>(MBEDTLS_X509_BADCERT_CN_MISMATCH));
  mbedtls_x509_crt_free(&read);
  auto introduction = signing::readIntroduction(made.introduction);
  ASSERT_TRUE(introduction);
  EXPECT_TRUE(signing::isGenuine(*introduction));
  EXPECT_EQ(introduction->certificate, made.der);
  EXPECT_EQ(signing::keyText(introduction->owner), owner->key());
  EXPECT_EQ(made.digest, signing::digestOf(made.der));
}

TEST_F(Certificates, AreKeptWithTheStore) {
  const mode_t before = umask(0);
  const Certificate made = take();
  umask(before);
  struct stat facts {};
  ASSERT_EQ(stat(path().c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 07777, 0600u);
  EXPECT_EQ(text(), made.pem + made.keyPem);
  EXPECT_EQ(take().der, made.der);
  restart();
  const Certificate again = take();
  EXPECT_EQ(again.pem, made.pem);
  EXPECT_EQ(again.keyPem, made.keyPem);
  EXPECT_EQ(again.introduction, made.introduction); // Ed25519 has one signature for one text
  for (const auto &entry : std::filesystem::directory_iterator(world.store)) {
    EXPECT_EQ(entry.path().string().find(".pem."), std::string::npos) << "what was written is left: " << entry.path();
  }
}

TEST_F(Certificates, ARenewedOneIsAnother) {
  const Certificate made = take(), renewed = take(/*renew=*/true);
  EXPECT_NE(renewed.der, made.der);
  EXPECT_NE(renewed.keyPem, made.keyPem);
  EXPECT_NE(renewed.digest, made.digest);
  EXPECT_EQ(take().der, renewed.der);
  restart();
  EXPECT_EQ(take().der, renewed.der);
}

TEST_F(Certificates, OfOwnersWithoutAFolderGoWithThem) {
  world.store.clear();
  restart();
  const Certificate made = take();
  EXPECT_EQ(take().der, made.der);
  EXPECT_TRUE(signing::isGenuine(*signing::readIntroduction(made.introduction)));
  const Certificate renewed = take(/*renew=*/true);
  EXPECT_NE(renewed.der, made.der);
  EXPECT_EQ(take().der, renewed.der);
  restart();
  EXPECT_NE(take().der, renewed.der);
}

TEST_F(Certificates, OfOwnersThatStartTogetherAreOne) {
  std::vector<std::unique_ptr<Owner>> owners;
  for (int i = 0; i < 8; ++i) {
    owners.push_back(std::make_unique<Owner>(world.environment()));
  }
  std::vector<std::string> made(owners.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < owners.size(); ++i) {
    threads.emplace_back([&, i] {
      if (auto certificate = owners[i]->certificate()) {
        made[i] = certificate->der;
      } else {
        made[i] = errorText(certificate.takeError());
      }
    });
  }
  for (std::thread &thread : threads) {
    thread.join();
  }
  for (const std::string &der : made) {
    EXPECT_EQ(der, made[0]);
  }
  EXPECT_EQ(take().der, made[0]);
}

TEST_F(Certificates, FilesThatOthersMayReadAreRefused) {
  const Certificate made = take();
  for (const mode_t mode : {0640, 0604, 0610}) {
    ASSERT_EQ(chmod(path().c_str(), mode), 0);
    EXPECT_EQ(problem(),
              "other users may read the certificate's key '" + path() + "'; restrict it with: chmod 600 " + path());
  }
  ASSERT_EQ(chmod(path().c_str(), 0600), 0);
  EXPECT_EQ(take().der, made.der);
  ASSERT_EQ(chmod(path().c_str(), 0644), 0);
  EXPECT_NE(take(/*renew=*/true).der, made.der) << "what others may have read is not kept";
  EXPECT_EQ(problem(), "");
}

TEST_F(Certificates, OtherFilesAreRefusedWithTheWayOut) {
  const Certificate made = take(), other = *makeCertificate(signing::SigningKey::generate());
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"", "no certificate as PEM"},
      {"nonsense\n", "no certificate as PEM"},
      {std::string(20'000, 'x'), "no certificate as PEM"},
      {made.keyPem, "no certificate as PEM"},
      {made.pem, "no secret key as PEM"},
      {made.pem + made.keyPem.substr(0, made.keyPem.size() / 2), "no secret key as PEM"},
      {made.pem + other.keyPem, "a secret key that does not belong to its certificate"},
      {made.pem + other.pem + made.keyPem, "more than one certificate"},
  };
  for (const auto &[contents, part] : wrong) {
    write(contents);
    expectHas(problem(), "'" + path() + "' has " + part);
    expectHas(problem(), "; create another one with: sojourn-owner cert --renew");
    EXPECT_EQ(text(), contents) << "a file that is there is not replaced unasked";
  }
  const Certificate renewed = take(/*renew=*/true);
  EXPECT_EQ(problem(), "");
  write(made.pem + made.keyPem);
  EXPECT_EQ(take().der, made.der) << "a copy that was put back";
  ASSERT_EQ(unlink(path().c_str()), 0);
  ASSERT_EQ(mkdir(path().c_str(), 0700), 0);
  expectHas(problem(), "cannot read '" + path() + "': ");
}

TEST_F(Certificates, ACertificateOfAnotherNameIsRefused) {
  // Made by another tool: self-signed for the name "another".
  const std::string files = folder.file("other");
  const std::string made = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj "
                           "/CN=another -keyout " +
                           files + ".key -out " + files + ".crt 2>/dev/null && cat " + files + ".crt " + files +
                           ".key > " + path() + " && chmod 600 " + path();
  if (system(made.c_str()) != 0) {
    GTEST_SKIP() << "openssl is not here";
  }
  expectHas(problem(), "' has a certificate that is not its own authority for the name sojourn-owner; ");
}

} // namespace sojourn::owner::test
