// SPDX-License-Identifier: Apache-2.0
// Ed25519 by libsodium. A file holds one line that says whose key it is, and the seed, or the public half, in digits.
#include "owner/ledger/SigningKey.h"

#include "owner/ledger/Bytes.h"

#include <cctype>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sodium.h>
#include <stdexcept>
#include <sys/stat.h>
#include <unistd.h>

namespace sojourn::owner::ledger {

static constexpr std::string_view kOwnerLine = "sojourn owner key 1\n", kClientLine = "sojourn client key 1\n",
                                  kPublicLine = "sojourn client public key 1\n";
/// Larger than any of these files.
static constexpr size_t kFileBytesMost = 128;

static Problem failed(const std::string &doing, const std::string &path) {
  return problem(Code::disk, "cannot " + doing + " '" + path + "': " + std::strerror(errno));
}

/// Once is enough, more often is fine; it fails where there is no randomness at all.
static void startCrypto() {
  if (sodium_init() < 0) {
    throw std::runtime_error("libsodium could not be initialised");
  }
}

SigningKey::SigningKey(const std::array<uint8_t, 32> &seed) {
  startCrypto();
  crypto_sign_seed_keypair(half.data(), secret.data(), seed.data());
}

SigningKey::~SigningKey() { sodium_memzero(secret.data(), secret.size()); }

SigningKey SigningKey::generate() {
  std::array<uint8_t, 32> seed;
  randombytes_buf(seed.data(), seed.size());
  SigningKey key(seed);
  sodium_memzero(seed.data(), seed.size());
  return key;
}

static std::string_view viewOf(const std::array<uint8_t, 32> &bytes) {
  return {reinterpret_cast<const char *>(bytes.data()), bytes.size()};
}

/// Writes a new file beside `path` and links it there: no reader ever sees half a key. Where a file is there already,
/// it stays; that is a problem unless it may be.
static Status makeFile(const std::string &path, std::string_view text, mode_t mode, bool mayBeThere) {
  std::string temporary = path + ".XXXXXX";
  int file = mkostemp(temporary.data(), O_CLOEXEC); // mode 0600
  if (file < 0) {
    return failed("make", temporary);
  }
  bool wrote = write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()) && fchmod(file, mode) == 0 &&
               fsync(file) == 0;
  Status status = wrote ? Status() : failed("write", temporary);
  close(file);
  if (!status && link(temporary.c_str(), path.c_str()) != 0 && !(mayBeThere && errno == EEXIST)) {
    status = errno == EEXIST ? problem(Code::badRequest, "'" + path + "' is there already, and a key is never " +
                                                             "overwritten; choose another name, or move it away")
                             : failed("make", path);
  }
  unlink(temporary.c_str());
  if (status) {
    return status;
  }
  size_t slash = path.rfind('/');
  std::string folderPath = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  int folder = ::open(folderPath.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0 || fsync(folder) != 0) {
    status = failed("sync", folderPath);
  }
  if (folder >= 0) {
    close(folder);
  }
  return status;
}

static std::array<uint8_t, 32> newSeed() {
  std::array<uint8_t, 32> seed;
  randombytes_buf(seed.data(), seed.size());
  return seed;
}

static Status makeSeedFile(const std::string &path, std::string_view firstLine, std::array<uint8_t, 32> &seed,
                           bool mayBeThere) {
  std::string text = std::string(firstLine) + hex(viewOf(seed)) + "\n";
  Status status = makeFile(path, text, S_IRUSR | S_IWUSR, mayBeThere);
  sodium_memzero(text.data(), text.size());
  return status;
}

/// A file's first line and the 32 bytes whose digits follow it; `facts` of the file.
static Status readFile(const std::string &path, std::string_view firstLine, std::array<uint8_t, 32> &out,
                       struct stat &facts, bool &isGood) {
  int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) {
    return failed("open", path);
  }
  char text[kFileBytesMost + 1];
  bool statted = fstat(file, &facts) == 0;
  ssize_t size = read(file, text, sizeof(text));
  Status status = !statted || size < 0 ? failed("read", path) : Status();
  close(file);
  size_t expected = firstLine.size() + 65, outBytes = 0;
  isGood = !status && size == static_cast<ssize_t>(expected) && std::string_view(text, firstLine.size()) == firstLine &&
           text[expected - 1] == '\n' &&
           sodium_hex2bin(out.data(), out.size(), text + firstLine.size(), 64, nullptr, &outBytes, nullptr) == 0 &&
           outBytes == out.size();
  sodium_memzero(text, sizeof(text));
  return status;
}

/// `article` and `noun` name the key in errors.
static Status readSeed(const std::string &path, std::string_view firstLine, const std::string &article,
                       const std::string &noun, const std::string &wayOut, std::array<uint8_t, 32> &seed) {
  struct stat facts {};
  bool isGood = false;
  if (Status status = readFile(path, firstLine, seed, facts, isGood)) {
    return status;
  }
  if ((facts.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return problem(Code::badRequest,
                   "others may read the " + noun + " '" + path + "'; make it yours alone with: chmod 600 " + path);
  }
  return isGood
             ? Status()
             : problem(Code::damaged, "'" + path + "' is not " + article + " " + noun + " of this release; " + wayOut);
}

Result<SigningKey> SigningKey::open(const std::string &path) {
  std::array<uint8_t, 32> seed;
  if (access(path.c_str(), F_OK) != 0 && errno == ENOENT) {
    seed = newSeed();
    if (Status status = makeSeedFile(path, kOwnerLine, seed, /*mayBeThere=*/true)) {
      return *status;
    }
  }
  if (Status status = readSeed(path, kOwnerLine, "an", "owner's key", "put its copy back", seed)) {
    return *status;
  }
  SigningKey key(seed);
  sodium_memzero(seed.data(), seed.size());
  return key;
}

Result<SigningKey> SigningKey::openClient(const std::string &path) {
  if (access(path.c_str(), F_OK) != 0 && errno == ENOENT) {
    return problem(Code::badRequest, "there is no identity '" + path + "'; make one with: sojourn keygen " + path);
  }
  std::array<uint8_t, 32> seed;
  if (Status status =
          readSeed(path, kClientLine, "a", "client's secret key", "make one with: sojourn keygen FILE", seed)) {
    return *status;
  }
  SigningKey key(seed);
  sodium_memzero(seed.data(), seed.size());
  return key;
}

Result<SigningKey> SigningKey::makeClient(const std::string &path) {
  std::string publicPath = path + ".pub";
  if (access(publicPath.c_str(), F_OK) == 0) {
    return problem(Code::badRequest, "'" + publicPath + "' is there already, and a key is never overwritten; choose " +
                                         "another name, or move it away");
  }
  std::array<uint8_t, 32> seed = newSeed();
  if (Status status = makeSeedFile(path, kClientLine, seed, /*mayBeThere=*/false)) {
    return *status;
  }
  SigningKey key(seed);
  sodium_memzero(seed.data(), seed.size());
  std::string text = std::string(kPublicLine) + keyText(key.half) + "\n";
  if (Status status = makeFile(publicPath, text, S_IRUSR | S_IWUSR | S_IRGRP | S_IROTH, /*mayBeThere=*/false)) {
    unlink(path.c_str()); // half a pair is of no use to anyone
    return *status;
  }
  return key;
}

std::string keyText(const PublicKey &key) { return hex(viewOf(key)); }

std::optional<PublicKey> parseKey(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) {
    text.remove_prefix(1);
  }
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) {
    text.remove_suffix(1);
  }
  PublicKey key{};
  size_t bytes = 0;
  bool good = text.size() == 2 * key.size() &&
              sodium_hex2bin(key.data(), key.size(), text.data(), text.size(), nullptr, &bytes, nullptr) == 0 &&
              bytes == key.size();
  return good ? std::optional(key) : std::nullopt;
}

Result<PublicKey> readPublicKey(const std::string &path) {
  PublicKey key{};
  struct stat facts {};
  bool isGood = false, isSecret = false;
  if (Status status = readFile(path, kPublicLine, key, facts, isGood)) {
    return *status;
  }
  if (isGood && crypto_core_ed25519_is_valid_point(key.data()) == 1) {
    return key;
  }
  std::array<uint8_t, 32> seed;
  readFile(path, kClientLine, seed, facts, isSecret);
  sodium_memzero(seed.data(), seed.size());
  return isSecret
             ? problem(Code::badRequest, "'" + path + "' is a secret key, which is its client's alone; ask for " +
                                             "the public one, '" + path + ".pub'")
             : problem(Code::badRequest, "'" + path + "' is not the public key of a client; the client makes one " +
                                             "with 'sojourn keygen FILE' and gives you FILE.pub");
}

/// Bytes that are signed: the length keeps a context from running into the bytes.
static std::string framed(std::string_view context, std::string_view bytes) {
  Writer writer;
  writer(std::string(context), std::string(bytes));
  return std::move(writer.bytes);
}

Signature SigningKey::sign(std::string_view context, std::string_view bytes) const {
  std::string message = framed(context, bytes);
  Signature signature;
  crypto_sign_detached(signature.data(), nullptr, reinterpret_cast<const unsigned char *>(message.data()),
                       message.size(), secret.data());
  return signature;
}

bool isSigned(const PublicKey &key, std::string_view context, std::string_view bytes, const Signature &signature) {
  startCrypto();
  std::string message = framed(context, bytes);
  return crypto_sign_verify_detached(signature.data(), reinterpret_cast<const unsigned char *>(message.data()),
                                     message.size(), key.data()) == 0;
}

} // namespace sojourn::owner::ledger
