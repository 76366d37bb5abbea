// SPDX-License-Identifier: Apache-2.0
// The file of known owners (see KnownOwners.h).
#include "frontend/wire/KnownOwners.h"

#include "frontend/Error.h"
#include "runtime/signing/SigningKey.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

namespace sojourn::frontend {

namespace {

[[noreturn]] void refuse(const std::string &text) { throw Error(ErrorKind::Refused, text); }

/// Folders that are missing, for the user alone.
bool makeFolderOf(const std::string &file) {
  std::string made;
  for (const auto &part : std::filesystem::path(file).parent_path()) {
    made = made.empty() ? part.string() : (std::filesystem::path(made) / part).string();
    if (mkdir(made.c_str(), S_IRWXU) != 0 && errno != EEXIST && access(made.c_str(), F_OK) != 0) {
      return false;
    }
  }
  return true;
}

} // namespace

std::string defaultOwnersFile() {
  if (const char *folder = std::getenv("XDG_CONFIG_HOME"); folder && *folder) {
    return std::string(folder) + "/sojourn/owners";
  }
  const char *home = std::getenv("HOME");
  return std::string(home && *home ? home : ".") + "/.config/sojourn/owners";
}

KnownOwners::KnownOwners(std::string file, const std::string &ownerKey, std::string address)
    : file_(std::move(file)), address_(std::move(address)) {
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

void KnownOwners::check(const std::string &key, bool isRelayed) {
  std::lock_guard lock(mutex_);
  if (!expected_.empty()) {
    if (key != expected_) {
      refuse("the owner at " + address_ + " has the key " + key + ", expected " + expected_ +
             "; ask the data owner which key is right");
    }
    return;
  }
  std::string line, elsewhere;
  bool isHere = false;
  std::ifstream in(file_);
  if (!in && access(file_.c_str(), F_OK) == 0) {
    throw Error(ErrorKind::Error, "cannot read the known owners in '" + file_ + "': " + std::strerror(errno) +
                                      "; make the file readable, or connect with owner_key=");
  }
  while (!isHere && std::getline(in, line)) {
    if (line.size() <= 65 || line[64] != ' ') {
      continue;
    }
    std::string known = line.substr(0, 64), address = line.substr(65);
    isHere = address == address_;
    if (isHere && known != key) {
      refuse("the owner at " + address_ + " has the key " + key + ", but had " + known +
             " before; another server may answer at this address. Ask the data owner: if the key is right, connect "
             "with owner_key=, or remove the line from '" +
             file_ + "'");
    }
    elsewhere = known == key ? address : elsewhere;
  }
  if (!isHere && isRelayed && !elsewhere.empty()) {
    refuse("the owner at " + address_ + " is known from another address, " + elsewhere +
           "; a server in between may relay messages to it. If the address is right, connect with owner_key=\"" + key +
           "\"");
  }
  expected_ = key;
  isNew_ = !isHere;
}

void KnownOwners::remember() {
  std::lock_guard lock(mutex_);
  if (!isNew_) {
    return;
  }
  // One write of a line at the end: several processes may do it at once.
  std::string line = expected_ + " " + address_ + "\n";
  int file =
      makeFolderOf(file_) ? ::open(file_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, S_IRUSR | S_IWUSR) : -1;
  bool wrote = file >= 0 && ::write(file, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  int wrong = errno;
  if (file >= 0) {
    ::close(file);
  }
  if (!wrote) {
    throw Error(ErrorKind::Error, "cannot store the owner's key in '" + file_ + "': " + std::strerror(wrong) +
                                      "; connect with owner_key=\"" + expected_ + "\"");
  }
  isNew_ = false;
}

} // namespace sojourn::frontend
