// SPDX-License-Identifier: Apache-2.0
// Two slots, a disk block apart, of one line of text each.
#include "owner/ledger/Head.h"

#include <cerrno>
#include <cinttypes>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

namespace sojourn::owner::ledger {

/// Slots lie in different blocks of the disk, so that one write never touches both.
static constexpr size_t kSlotBytes = 4096;
/// "sojourn ledger head 1 ", twenty digits, the hash, a digest of all before it.
static constexpr size_t kLineBytes = 22 + 20 + 1 + 64 + 1 + 16 + 1;

static std::string lineOf(const HeadValue &value) {
  char number[24];
  std::snprintf(number, sizeof(number), "%020" PRIu64, value.seq);
  std::string line = std::string("sojourn ledger head 1 ") + number + " " + hex(value.hash) + " ";
  return line + hex(hashOf(line)).substr(0, 16) + "\n";
}

static bool parseLine(const std::string &line, HeadValue &value) {
  size_t read = 0;
  value.seq = std::strtoull(line.c_str() + 22, nullptr, 10);
  sodium_hex2bin(value.hash.data(), value.hash.size(), line.c_str() + 43, 64, nullptr, &read, nullptr);
  return lineOf(value) == line; // one value has one line
}

HeadFile::~HeadFile() {
  if (file >= 0) {
    close(file);
  }
}

Problem HeadFile::failed(const std::string &doing) const {
  return problem(Code::disk, "cannot " + doing + " the ledger's head '" + path + "': " + std::strerror(errno));
}

Status HeadFile::openFile(bool make) {
  if (file >= 0) {
    return {};
  }
  file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file >= 0 || (errno == ENOENT && !make)) {
    return {};
  }
  if (errno != ENOENT) {
    return failed("open");
  }
  std::filesystem::path folderPath = std::filesystem::path(path).parent_path();
  std::error_code ignored; // open tells
  std::filesystem::create_directories(folderPath, ignored);
  if (hook) {
    hook("make", path, 0, 0);
  }
  file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) {
    return failed("make");
  }
  fchmod(file, 0600); // whatever the umask
  if (hook) {
    hook("sync", path, 0, 0);
  }
  int folder = open(folderPath.empty() ? "." : folderPath.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  bool synced = folder >= 0 && fsync(file) == 0 && fsync(folder) == 0;
  Status status = synced ? Status() : failed("sync the folder of");
  if (folder >= 0) {
    close(folder);
  }
  return status;
}

Result<HeadValue> HeadFile::read() {
  if (Status status = openFile(/*make=*/false)) {
    return *status;
  }
  HeadValue newest;
  newer = 1;
  if (file < 0) {
    return newest;
  }
  char bytes[2 * kSlotBytes];
  ssize_t size = pread(file, bytes, sizeof(bytes), 0);
  if (size < 0) {
    return failed("read");
  }
  bool found = false;
  for (unsigned slot = 0; slot < 2; ++slot) {
    HeadValue value;
    if (static_cast<size_t>(size) >= slot * kSlotBytes + kLineBytes &&
        parseLine(std::string(bytes + slot * kSlotBytes, kLineBytes), value) && (!found || value.seq > newest.seq)) {
      newest = value;
      newer = slot;
      found = true;
    }
  }
  // The very first write may have been cut short, so that one bad slot alone proves nothing.
  if (!found && static_cast<size_t>(size) > kSlotBytes) {
    return problem(Code::damaged, "the ledger's head '" + path + "' is damaged; restore its newest copy");
  }
  return newest;
}

Status HeadFile::write(const HeadValue &value) {
  if (Status status = openFile(/*make=*/true)) {
    return status;
  }
  std::string line = lineOf(value);
  unsigned slot = 1 - newer;
  auto offset = static_cast<off_t>(slot * kSlotBytes);
  if (hook) {
    hook("write", path, offset, line.size());
  }
  if (pwrite(file, line.data(), line.size(), offset) != static_cast<ssize_t>(line.size())) {
    return failed("write");
  }
  if (hook) {
    hook("sync", path, 0, 0);
  }
  if (fdatasync(file) != 0) {
    return failed("sync");
  }
  newer = slot;
  return {};
}

} // namespace sojourn::owner::ledger
