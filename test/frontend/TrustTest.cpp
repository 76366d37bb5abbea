// SPDX-License-Identifier: Apache-2.0
// Which owner a client takes over TLS: introductions, known owners, and the handshake over a channel with a
// certificate.
#include "frontend/Error.h"
#include "frontend/wire/Identity.h"
#include "frontend/wire/Trust.h"
#include "runtime/signing/Proof.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace sojourn::frontend::test {

using signing::SigningKey;

namespace {

constexpr const char *kAddress = "tls+tcp://hospital.example:7443";

struct Trusting : testing::Test {
  std::string folder = testing::TempDir() + "trust-XXXXXX";
  SigningKey owner = SigningKey::generate(), other = SigningKey::generate();

  void SetUp() override { ASSERT_NE(mkdtemp(folder.data()), nullptr); }
  void TearDown() override { std::filesystem::remove_all(folder); }
  std::string file() const { return folder + "/a/b/owners"; }
  std::string contents() const {
    std::ifstream in(file());
    return {std::istreambuf_iterator<char>(in), {}};
  }
  Trust trust(const std::string &ownerKey = "", const std::string &address = kAddress) const {
    return Trust(std::make_shared<KnownOwners>(file(), ownerKey, address));
  }
  static std::string key(const SigningKey &key) { return signing::keyText(key.publicKey()); }
  static std::string introduction(const SigningKey &key, const std::string &der = "a certificate") {
    return signing::write(signing::introduce(key, der));
  }
  /// The text of an error of this kind.
  static std::string refusal(const std::function<void()> &work, ErrorKind kind = ErrorKind::Refused) {
    try {
      work();
    } catch (const Error &error) {
      EXPECT_EQ(error.kind(), kind) << error.text();
      return error.text();
    }
    ADD_FAILURE() << "no error";
    return "";
  }
};

} // namespace

TEST_F(Trusting, TheFirstOwnerIsRememberedOnceASessionIsOpen) {
  Trust first = trust();
  EXPECT_EQ(first.ownerKey(), "");
  EXPECT_EQ(first.certificateOf(introduction(owner)), signing::pemOf("a certificate"));
  EXPECT_EQ(first.ownerKey(), key(owner));
  EXPECT_EQ(first.digest(), signing::digestOf("a certificate"));
  EXPECT_FALSE(std::filesystem::exists(file())) << "it may not hold the certificate's key";
  first.remember();
  first.remember();
  EXPECT_EQ(contents(), key(owner) + " " + kAddress + "\n");
  struct stat facts {};
  for (const auto &[path, mode] : {std::pair(file(), 0600u), std::pair(folder + "/a/b", 0700u)}) {
    ASSERT_EQ(stat(path.c_str(), &facts), 0);
    EXPECT_EQ(facts.st_mode & 07777, mode) << path;
  }
  // A renewed certificate of the same owner, in this connection and in others.
  for (Trust *again : {&first, new Trust(trust())}) {
    EXPECT_EQ(again->certificateOf(introduction(owner, "another")), signing::pemOf("another"));
    EXPECT_EQ(again->digest(), signing::digestOf("another"));
    again->remember();
    if (again != &first) {
      delete again;
    }
  }
  EXPECT_EQ(contents(), key(owner) + " " + kAddress + "\n");
  EXPECT_EQ(refusal([&] { trust().certificateOf(introduction(other)); }),
            std::string("the owner at ") + kAddress + " has the key " + key(other) + ", but had " + key(owner) +
                " before; another server may answer at this address. Ask the data owner: if the key is right, connect "
                "with owner_key=, or remove the line from '" +
                file() + "'");
}

TEST_F(Trusting, AConnectionKeepsItsOwner) {
  Trust mine = trust();
  mine.certificateOf(introduction(owner)); // and it breaks before anything is remembered
  EXPECT_EQ(refusal([&] { mine.certificateOf(introduction(other, "more")); }),
            std::string("the owner at ") + kAddress + " has the key " + key(other) + ", expected " + key(owner) +
                "; ask the data owner which key is right");
  EXPECT_EQ(mine.ownerKey(), key(owner));
  EXPECT_EQ(mine.digest(), signing::digestOf("a certificate"));
}

TEST_F(Trusting, AnExpectedOwnerIsTakenAndNoOther) {
  Trust told = trust(key(owner));
  EXPECT_NE(refusal([&] { told.certificateOf(introduction(other)); }).find("expected " + key(owner)),
            std::string::npos);
  EXPECT_EQ(told.ownerKey(), "");
  told.certificateOf(introduction(owner));
  told.remember();
  EXPECT_FALSE(std::filesystem::exists(file())) << "told, not met";
  EXPECT_NE(refusal([&] { trust("abc"); }, ErrorKind::Error).find("owner_key has 3 characters"), std::string::npos);
}

TEST_F(Trusting, AnotherAddressOfAKnownOwnerIsFine) {
  Trust first = trust();
  first.certificateOf(introduction(owner));
  first.remember();
  Trust moved = trust("", "tls+tcp://10.0.0.5:7443"); // its certificate cannot be relayed, unlike a proof
  moved.certificateOf(introduction(owner));
  moved.remember();
  EXPECT_EQ(contents(), key(owner) + " " + kAddress + "\n" + key(owner) + " tls+tcp://10.0.0.5:7443\n");
  // Without a channel that the owner's key vouches for, it may be.
  EXPECT_NE(refusal([&] {
              KnownOwners(file(), "", "ipc://o.sock").check(key(owner), /*isRelayed=*/true);
            }).find("is known from another address"),
            std::string::npos);
}

TEST_F(Trusting, WhatTheKeyHasNotSignedIsRefused) {
  signing::Introduction forged = signing::introduce(other, "mine");
  forged.owner = owner.publicKey();
  for (const std::string &expected : {std::string(), key(owner)}) {
    Trust mine = trust(expected);
    EXPECT_EQ(refusal([&] { mine.certificateOf(signing::write(forged)); }),
              std::string("the server at ") + kAddress + " shows a certificate that the key " + key(owner) +
                  " has not signed; ask the data owner");
    for (const std::string &bytes : {std::string(), std::string("HTTP/1.1 400 Bad Request\r\n"),
                                     introduction(owner).substr(0, 100), introduction(owner) + "x"}) {
      EXPECT_NE(refusal([&] { mine.certificateOf(bytes); }, ErrorKind::OwnerError).find("does not introduce itself"),
                std::string::npos);
    }
    mine.certificateOf(introduction(owner));
  }
}

TEST_F(Trusting, AFileThatCannotBeUsedIsAnError) {
  std::filesystem::create_directories(file()); // a folder in its place
  EXPECT_NE(refusal(
                [&] {
                  Trust mine = trust();
                  mine.certificateOf(introduction(owner));
                  mine.remember();
                },
                ErrorKind::Error)
                .find("connect with owner_key="),
            std::string::npos);
  std::filesystem::remove_all(folder + "/a");
  std::ofstream(folder + "/a") << "a file";
  Trust mine = trust();
  mine.certificateOf(introduction(owner));
  EXPECT_EQ(refusal([&] { mine.remember(); }, ErrorKind::Error), "cannot store the owner's key in '" + file() +
                                                                     "': Not a directory; connect with owner_key=\"" +
                                                                     key(owner) + "\"");
}

TEST_F(Trusting, TheFileIsInTheUsersFolder) {
  const char *home = std::getenv("HOME"), *config = std::getenv("XDG_CONFIG_HOME");
  const std::string before = home ? home : "", configBefore = config ? config : "";
  setenv("HOME", "/somewhere/ada", 1);
  unsetenv("XDG_CONFIG_HOME");
  EXPECT_EQ(defaultOwnersFile(), "/somewhere/ada/.config/sojourn/owners");
  setenv("XDG_CONFIG_HOME", "/etc/ada", 1);
  EXPECT_EQ(defaultOwnersFile(), "/etc/ada/sojourn/owners");
  home ? setenv("HOME", before.c_str(), 1) : unsetenv("HOME");
  config ? setenv("XDG_CONFIG_HOME", configBefore.c_str(), 1) : unsetenv("XDG_CONFIG_HOME");
}

TEST_F(Trusting, AProofNamesTheChannel) {
  const std::string secret = folder + "/ada.key";
  auto made = SigningKey::makeClient(secret);
  ASSERT_TRUE(bool(made));
  const SigningKey &ada = *made;
  auto bytesOf = [](const auto &bytes) {
    return std::string(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  };
  const std::string nonce(32, 'n'), challenge(56, 'c'), digest(32, 'd'), shown = bytesOf(owner.publicKey());
  auto signedBy = [&](const std::string &certificate) {
    return bytesOf(owner.sign(signing::kOwnerProof,
                              signing::statement(owner.publicKey(), ada.publicKey(), nonce, challenge, certificate)));
  };
  auto identity = [&] {
    return Identity(secret, std::make_shared<KnownOwners>(Identity::ownersFile(secret), "", kAddress));
  };
  for (const std::string &certificate : {std::string(), digest}) {
    signing::Signature proof;
    const std::string given = identity().answer(nonce, challenge, shown, signedBy(certificate), certificate,
                                                certificate.empty() ? "" : key(owner));
    ASSERT_EQ(given.size(), proof.size());
    std::copy(given.begin(), given.end(), proof.begin());
    for (const std::string &channel : {std::string(), digest, std::string(32, 'e')}) {
      EXPECT_EQ(signing::isSigned(ada.publicKey(), signing::kClientProof,
                                  signing::statement(owner.publicKey(), ada.publicKey(), nonce, challenge, channel),
                                  proof),
                channel == certificate);
    }
    // The owner has signed for another channel.
    const std::string elsewhere = certificate.empty() ? digest : "";
    EXPECT_NE(refusal([&] {
                identity().answer(nonce, challenge, shown, signedBy(elsewhere), certificate);
              }).find("does not hold the key " + key(owner)),
              std::string::npos);
  }
  EXPECT_EQ(refusal([&] { identity().answer(nonce, challenge, shown, signedBy(digest), digest, key(other)); }),
            std::string("the server at ") + kAddress + " presents the key " + key(owner) +
                ", but its certificate is that of " + key(other) + "; ask the data owner");
}

} // namespace sojourn::frontend::test
