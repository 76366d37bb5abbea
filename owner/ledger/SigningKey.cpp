// SPDX-License-Identifier: Apache-2.0
// Ed25519 by libsodium; the key's file holds the seed as hexadecimal digits.
#include "owner/ledger/SigningKey.h"

#include "owner/ledger/Bytes.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

namespace sojourn::owner::ledger {

static constexpr std::string_view kFirstLine = "sojourn owner key 1\n";
static constexpr size_t kFileBytes = kFirstLine.size() + 64 + 1;

static Problem failed(const std::string &doing, const std::string &path) {
  return problem(Code::disk, "cannot " + doing + " '" + path + "': " + std::strerror(errno));
}

SigningKey::SigningKey(const std::array<uint8_t, 32> &seed) {
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

/// Writes a new key beside `path` and links it there, unless another process was quicker: no reader
/// ever sees half a key.
static Status makeFile(const std::string &path) {
  std::array<uint8_t, 32> seed;
  randombytes_buf(seed.data(), seed.size());
  std::string temporary = path + ".XXXXXX";
  int file = mkostemp(temporary.data(), O_CLOEXEC); // mode 0600
  if (file < 0) {
    return failed("make", temporary);
  }
  std::string text =
      std::string(kFirstLine) + hex(std::string_view(reinterpret_cast<const char *>(seed.data()), seed.size())) + "\n";
  bool wrote = write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()) && fsync(file) == 0;
  Status status = wrote ? Status() : failed("write", temporary);
  close(file);
  if (!status && link(temporary.c_str(), path.c_str()) != 0 && errno != EEXIST) {
    status = failed("make", path);
  }
  unlink(temporary.c_str());
  sodium_memzero(text.data(), text.size());
  sodium_memzero(seed.data(), seed.size());
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

Result<SigningKey> SigningKey::open(const std::string &path) {
  int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0 && errno == ENOENT) {
    if (Status status = makeFile(path)) {
      return *status;
    }
    file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  }
  if (file < 0) {
    return failed("open", path);
  }
  struct stat facts {};
  char text[kFileBytes + 1];
  bool statted = fstat(file, &facts) == 0;
  ssize_t size = read(file, text, sizeof(text));
  close(file);
  if (!statted || size < 0) {
    return failed("read", path);
  }
  if ((facts.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return problem(Code::badRequest,
                   "others may read the owner's key '" + path + "'; make it yours alone with: chmod 600 " + path);
  }
  std::array<uint8_t, 32> seed;
  size_t seedBytes = 0;
  bool good =
      size == static_cast<ssize_t>(kFileBytes) && std::string_view(text, kFirstLine.size()) == kFirstLine &&
      text[kFileBytes - 1] == '\n' &&
      sodium_hex2bin(seed.data(), seed.size(), text + kFirstLine.size(), 64, nullptr, &seedBytes, nullptr) == 0 &&
      seedBytes == seed.size();
  sodium_memzero(text, sizeof(text));
  if (!good) {
    return problem(Code::damaged, "'" + path + "' is not an owner's key of this release; put its copy back");
  }
  SigningKey key(seed);
  sodium_memzero(seed.data(), seed.size());
  return key;
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
  std::string message = framed(context, bytes);
  return crypto_sign_verify_detached(signature.data(), reinterpret_cast<const unsigned char *>(message.data()),
                                     message.size(), key.data()) == 0;
}

} // namespace sojourn::owner::ledger
