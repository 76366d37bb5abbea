// SPDX-License-Identifier: Apache-2.0
// Proofs of a client's identity, and the owners that it knows (see Identity.h).
#include "frontend/wire/Identity.h"

#include "frontend/Error.h"
#include "runtime/signing/Proof.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <sodium.h>
#include <unistd.h>

namespace sojourn::frontend {

namespace {

[[noreturn]] void refuse(const std::string &text) { throw Error(ErrorKind::Refused, text); }

signing::SigningKey openKey(const std::string &file) {
  auto key = signing::SigningKey::openClient(file);
  if (!key) {
    throw Error(ErrorKind::Error, key.problem().text);
  }
  return *key;
}

} // namespace

Identity::Identity(std::string file, const std::string &ownerKey, std::string address)
    : file_(std::move(file)), address_(std::move(address)), key_(openKey(file_)) {
  if (!ownerKey.empty()) {
    auto key = signing::parseKey(ownerKey);
    if (!key) {
      throw Error(ErrorKind::Error, "owner_key has " + std::to_string(ownerKey.size()) +
                                        " characters, expected the 64 hexadecimal digits that 'sojourn-owner key' "
                                        "prints");
    }
    expected_ = signing::keyText(*key);
  }
}

std::string_view Identity::publicKey() const {
  return {reinterpret_cast<const char *>(key_.publicKey().data()), key_.publicKey().size()};
}

std::string Identity::draw() const {
  std::string nonce(signing::kNonceBytes, '\0');
  randombytes_buf(nonce.data(), nonce.size());
  return nonce;
}

std::string Identity::answer(std::string_view nonce, std::string_view challenge, std::string_view ownerKey,
                             std::string_view ownerSignature) {
  signing::PublicKey owner;
  signing::Signature signature;
  if (ownerKey.size() != owner.size() || ownerSignature.size() != signature.size() || challenge.empty() ||
      challenge.size() > signing::kChallengeBytesMost) {
    throw Error(ErrorKind::OwnerError, "the challenge of the owner at " + address_ + " is malformed");
  }
  std::memcpy(owner.data(), ownerKey.data(), owner.size());
  std::memcpy(signature.data(), ownerSignature.data(), signature.size());
  std::string said = signing::statement(owner, key_.publicKey(), nonce, challenge);
  ownerText_ = signing::keyText(owner);
  if (!signing::isSigned(owner, signing::kOwnerProof, said, signature)) {
    refuse("the server at " + address_ + " does not hold the key " + ownerText_ +
           " that it presents; ask the data owner");
  }
  checkKnown();
  signing::Signature own = key_.sign(signing::kClientProof, said);
  return {reinterpret_cast<const char *>(own.data()), own.size()};
}

/// One line for each owner: its key, a blank, the address.
void Identity::checkKnown() {
  if (!expected_.empty()) {
    if (ownerText_ != expected_) {
      refuse("the owner at " + address_ + " has the key " + ownerText_ + ", expected " + expected_ +
             "; ask the data owner which key is right");
    }
    return;
  }
  std::string known = file_ + ".owners", line, elsewhere;
  std::ifstream in(known);
  while (std::getline(in, line)) {
    if (line.size() <= 65 || line[64] != ' ') {
      continue;
    }
    std::string key = line.substr(0, 64), address = line.substr(65);
    if (address == address_) {
      if (key != ownerText_) {
        refuse("the owner at " + address_ + " has the key " + ownerText_ + ", but had " + key +
               " before; another server may answer at this address. Ask the data owner: if the key is right, connect "
               "with owner_key=, or remove the line from '" +
               known + "'");
      }
      return;
    }
    elsewhere = key == ownerText_ ? address : elsewhere;
  }
  if (!elsewhere.empty()) {
    refuse("the owner at " + address_ + " is known from another address, " + elsewhere +
           "; a server in between may relay messages to it. If the address is right, connect with owner_key=\"" +
           ownerText_ + "\"");
  }
  isNew_ = true;
}

void Identity::remember() const {
  if (!isNew_) {
    return;
  }
  // One write of a line at the end: several processes may do it at once.
  std::string path = file_ + ".owners", line = ownerText_ + " " + address_ + "\n";
  int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, S_IRUSR | S_IWUSR);
  bool wrote = file >= 0 && ::write(file, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  int wrong = errno;
  if (file >= 0) {
    ::close(file);
  }
  if (!wrote) {
    throw Error(ErrorKind::Error, "cannot store the owner's key in '" + path + "': " + std::strerror(wrong) +
                                      "; connect with owner_key=\"" + ownerText_ + "\"");
  }
}

} // namespace sojourn::frontend
