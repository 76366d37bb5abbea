// SPDX-License-Identifier: Apache-2.0
// libsodium's secretbox over a whole table's subjects.
#include "owner/SealedSubjects.h"

#include "owner/Error.h"

#include "llvm/Support/Endian.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

namespace sojourn::owner {

namespace endian = llvm::support::endian;

// A box is: head, nonce, tag, and the encrypted rest: bytes of the version and it, rows, per row where its subject
// ends, and all subjects. Numbers have 64 bits, little-endian.
static constexpr std::string_view kHead("SJSB\1", 5), kKeyLine = "sojourn subjects key 1\n";
static constexpr size_t kNonce = kHead.size(), kTag = kNonce + crypto_secretbox_NONCEBYTES,
                        kBody = kTag + crypto_secretbox_MACBYTES;
static_assert(crypto_secretbox_KEYBYTES == sizeof(signing::KeyBytes));

static unsigned char *at(std::vector<char> &bytes, size_t place) {
  return reinterpret_cast<unsigned char *>(bytes.data()) + place;
}

llvm::Expected<signing::KeyBytes> subjectsKey(const std::string &path, bool make) {
  if (!signing::isFileThere(path)) {
    if (!make) {
      return failure("the key '" + path +
                     "', which seals the subjects of this store's tables, is missing; restore its copy, or import the "
                     "tables again");
    }
    signing::KeyBytes key = signing::newKeyBytes();
    signing::Status status = signing::makeKeyFile(path, kKeyLine, key, 0600, /*mayBeThere=*/true);
    sodium_memzero(key.data(), key.size());
    if (status) {
      return failure(status->text);
    }
  }
  auto key = signing::readSecretKey(path, kKeyLine, "a key of subjects", "restore its copy");
  if (!key) {
    return failure(key.problem().text);
  }
  return *key;
}

std::vector<char> sealSubjects(const Subjects &subjects, const std::string &version, const signing::KeyBytes &key) {
  size_t texts = 0;
  for (int64_t row = 0; row < subjects.size(); ++row) {
    texts += subjects[row].size();
  }
  size_t numbers = 2 + static_cast<size_t>(subjects.size());
  std::vector<char> sealed(kBody + version.size() + 8 * numbers + texts);
  std::memcpy(at(sealed, 0), kHead.data(), kHead.size());
  randombytes_buf(at(sealed, kNonce), crypto_secretbox_NONCEBYTES);
  unsigned char *next = at(sealed, kBody);
  auto put = [&](uint64_t number) {
    endian::write64le(next, number);
    next += 8;
  };
  put(version.size());
  std::memcpy(next, version.data(), version.size());
  next += version.size();
  put(static_cast<uint64_t>(subjects.size()));
  uint64_t end = 0;
  for (int64_t row = 0; row < subjects.size(); ++row) {
    put(end += subjects[row].size());
  }
  for (int64_t row = 0; row < subjects.size(); ++row) {
    std::memcpy(next, subjects[row].data(), subjects[row].size());
    next += subjects[row].size();
  }
  crypto_secretbox_detached(at(sealed, kBody), at(sealed, kTag), at(sealed, kBody), sealed.size() - kBody,
                            at(sealed, kNonce), key.data());
  return sealed;
}

llvm::Expected<Subjects> openSealed(std::vector<char> sealed, const std::string &version, int64_t rows,
                                    const signing::KeyBytes &key, const std::string &whose) {
  std::string_view head(sealed.data(), std::min(sealed.size(), kHead.size()));
  if (sealed.size() < kBody || head != kHead) {
    return failure(whose +
                   " have a format unknown to this release; restore the file's copy, or import the table again");
  }
  size_t size = sealed.size() - kBody;
  if (crypto_secretbox_open_detached(at(sealed, kBody), at(sealed, kBody), at(sealed, kTag), size, at(sealed, kNonce),
                                     key.data()) != 0) {
    return failure(whose + " cannot be opened: the file was changed, or sealed with a key other than the store's; "
                           "restore matching copies of file and key, or import the table again");
  }
  // From here on the bytes are ours; they may be those of another table.
  const unsigned char *next = at(sealed, kBody);
  auto number = [&] {
    uint64_t value = size < 8 ? 0 : endian::read64le(next);
    next += std::min<size_t>(size, 8);
    size -= std::min<size_t>(size, 8);
    return value;
  };
  Subjects subjects;
  bool isIts =
      number() == version.size() && size >= version.size() && std::memcmp(next, version.data(), version.size()) == 0;
  if (isIts) {
    next += version.size();
    size -= version.size();
    isIts = number() == static_cast<uint64_t>(rows) && size / 8 >= static_cast<uint64_t>(rows);
  }
  if (isIts) {
    const unsigned char *texts = next + 8 * static_cast<size_t>(rows);
    uint64_t begin = 0, most = size - 8 * static_cast<size_t>(rows);
    for (int64_t row = 0; row < rows && isIts; ++row) {
      uint64_t end = number();
      isIts = end >= begin && end <= most;
      if (isIts) {
        subjects.add({reinterpret_cast<const char *>(texts) + begin, end - begin});
        begin = end;
      }
    }
    isIts = isIts && begin == most;
  }
  sodium_memzero(sealed.data(), sealed.size());
  if (!isIts) {
    return failure(
        whose +
        " belong to another table; restore matching copies of the table and its subjects, or import the table again");
  }
  return subjects;
}

llvm::Error writeSealed(const std::vector<char> &sealed, const std::string &path) {
  std::string unfinished = path + ".unfinished";
  int file = open(unfinished.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  bool wrote = file >= 0 && fchmod(file, 0600) == 0; // whatever the umask
  for (size_t done = 0; wrote && done < sealed.size();) {
    ssize_t count = write(file, sealed.data() + done, sealed.size() - done);
    wrote = count >= 0 || errno == EINTR;
    done += count > 0 ? static_cast<size_t>(count) : 0;
  }
  wrote = wrote && fsync(file) == 0 && rename(unfinished.c_str(), path.c_str()) == 0;
  int code = errno;
  if (file >= 0) {
    close(file);
  }
  if (!wrote) {
    unlink(unfinished.c_str());
    return failure("cannot write '" + path + "': " + std::strerror(code));
  }
  return llvm::Error::success();
}

llvm::Expected<std::vector<char>> readSealed(const std::string &path, const std::string &whose) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  auto size = file ? static_cast<std::streamoff>(file.tellg()) : -1;
  std::vector<char> sealed(size > 0 ? static_cast<size_t>(size) : 0);
  file.seekg(0);
  if (size < 0 || !file.read(sealed.data(), size)) {
    return failure(whose + " cannot be read; restore the file's copy, or import the table again");
  }
  return sealed;
}

} // namespace sojourn::owner
