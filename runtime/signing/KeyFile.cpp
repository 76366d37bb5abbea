// SPDX-License-Identifier: Apache-2.0
// Files of keys: a line, 64 digits and a line's end.
#include "runtime/signing/KeyFile.h"

#include "runtime/signing/Bytes.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sodium.h>
#include <unistd.h>

namespace sojourn::signing {

/// Larger than any of these files.
static constexpr size_t kFileBytesMost = 128;

static Problem failed(const std::string &doing, const std::string &path) {
  return problem(Code::disk, "cannot " + doing + " '" + path + "': " + std::strerror(errno));
}

KeyBytes newKeyBytes() {
  KeyBytes key;
  randombytes_buf(key.data(), key.size());
  return key;
}

bool isFileThere(const std::string &path) { return access(path.c_str(), F_OK) == 0 || errno != ENOENT; }

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
    status = errno == EEXIST ? problem(Code::badRequest, "'" + path + "' already exists, and a key is never " +
                                                             "overwritten; choose another name, or move the file away")
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

Status makeKeyFile(const std::string &path, std::string_view firstLine, const KeyBytes &key, mode_t mode,
                   bool mayBeThere) {
  std::string text(firstLine);
  text += hex(std::string_view(reinterpret_cast<const char *>(key.data()), key.size())) + "\n";
  Status status = makeFile(path, text, mode, mayBeThere);
  sodium_memzero(text.data(), text.size());
  return status;
}

Status readKeyFile(const std::string &path, std::string_view firstLine, KeyBytes &key, struct stat &facts,
                   bool &isGood) {
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
           sodium_hex2bin(key.data(), key.size(), text + firstLine.size(), 64, nullptr, &outBytes, nullptr) == 0 &&
           outBytes == key.size();
  sodium_memzero(text, sizeof(text));
  return status;
}

Result<KeyBytes> readSecretKey(const std::string &path, std::string_view firstLine, const std::string &name,
                               const std::string &wayOut) {
  struct stat facts {};
  bool isGood = false;
  KeyBytes key;
  if (Status status = readKeyFile(path, firstLine, key, facts, isGood)) {
    return *status;
  }
  if ((facts.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return problem(Code::badRequest, "other users may read the " + name.substr(name.find(' ') + 1) + " '" + path +
                                         "'; restrict it with: chmod 600 " + path);
  }
  return isGood ? Result<KeyBytes>(key)
                : problem(Code::damaged, "'" + path + "' is not " + name + " of this release; " + wayOut);
}

} // namespace sojourn::signing
