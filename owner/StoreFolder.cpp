// SPDX-License-Identifier: Apache-2.0
// Modes of folders and files, and locks on marks.
#include "owner/StoreFolder.h"

#include "owner/Error.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Support/Format.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <pwd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace sojourn::owner {

using llvm::Twine;
namespace fs = std::filesystem;

namespace {

constexpr mode_t kOthers = S_IRWXG | S_IRWXO;
constexpr llvm::StringRef kMark = ".importing";

std::string modeText(mode_t mode) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%04o", static_cast<unsigned>(mode & 07777));
  return text;
}

/// The name of an account, or its number.
std::string accountOf(uid_t number) {
  std::vector<char> memory(16'384);
  passwd entry{}, *found = nullptr;
  const int status = getpwuid_r(number, &entry, memory.data(), memory.size(), &found);
  return status == 0 && found ? std::string(found->pw_name) : std::to_string(number);
}

/// A new folder of mode 0700, whatever the umask; one that is there stays.
llvm::Error makeFolder(const std::string &path) {
  const bool isMade = mkdir(path.c_str(), S_IRWXU) == 0;
  if ((isMade && chmod(path.c_str(), S_IRWXU) != 0) || (!isMade && errno != EEXIST)) {
    return failure("cannot create the store '" + path + "': " + std::strerror(errno));
  }
  return llvm::Error::success();
}

/// Files and folders of ours: not what else somebody keeps there, and not keys, which are refused if others may read
/// them.
bool isOurs(const fs::path &path) {
  const std::string name = path.filename().string();
  const llvm::StringRef text = name;
  return text.starts_with("catalogue.db") || text.starts_with("ledger.sqlite") || text == "ledger.head" ||
         text == "datasets" || text == "head" || text.ends_with(".arrow") || text.ends_with(".subjects");
}

/// Older releases left the modes to the umask.
void closeToOthers(const std::string &folder) {
  std::error_code code;
  for (const auto &entry : fs::directory_iterator(folder, code)) {
    struct stat facts {};
    const std::string path = entry.path().string();
    if (isOurs(entry.path()) && lstat(path.c_str(), &facts) == 0 && (facts.st_mode & kOthers) != 0 &&
        (S_ISREG(facts.st_mode) || S_ISDIR(facts.st_mode))) {
      chmod(path.c_str(), facts.st_mode & S_IRWXU);
    }
  }
}

std::string tablesOf(const std::string &directory) { return directory + "/datasets/"; }

/// An open file with a lock, which goes with it.
struct Mark {
  std::string path;
  int file;

  ~Mark() {
    unlink(path.c_str());
    close(file);
  }
};

} // namespace

llvm::Error openStoreFolder(const std::string &directory) {
  std::error_code code;
  fs::path path = fs::path(directory);
  if (!path.has_filename()) { // "store/"
    path = path.parent_path();
  }
  if (path.has_parent_path()) {
    fs::create_directories(path.parent_path(), code);
  }
  if (code) {
    return failure("cannot create the store '" + directory + "': " + code.message());
  }
  if (llvm::Error error = makeFolder(directory)) {
    return error;
  }
  struct stat facts {};
  if (stat(directory.c_str(), &facts) != 0) {
    return failure("cannot create the store '" + directory + "': " + std::strerror(errno));
  }
  if (!S_ISDIR(facts.st_mode)) {
    return failure("cannot create the store '" + directory + "': it is a file, expected a folder");
  }
  if (facts.st_uid != geteuid()) { // files that root makes in it are not readable for its server
    const std::string owner = accountOf(facts.st_uid);
    return failure("the store '" + directory + "' belongs to the account '" + owner + "', and this is '" +
                   accountOf(geteuid()) + "'; run the command as '" + owner + "', for example with: sudo -u '#" +
                   std::to_string(facts.st_uid) + "' ... (in a container: --user " + std::to_string(facts.st_uid) +
                   ")");
  }
  if ((facts.st_mode & kOthers) != 0) {
    return failure("the store '" + directory + "' has mode " + modeText(facts.st_mode) +
                   ", so that other accounts may enter it, expected 0700: restrict it with: chmod 700 '" + directory +
                   "' (if it keeps its mode, its file system has none: choose another folder)");
  }
  for (const char *inner : {"/datasets", "/head"}) {
    if (llvm::Error error = makeFolder(directory + inner)) {
      return error;
    }
  }
  for (const char *inner : {"", "/datasets", "/head"}) {
    closeToOthers(directory + inner);
  }
  return llvm::Error::success();
}

llvm::Expected<std::shared_ptr<void>> markImport(const std::string &directory, const std::string &version) {
  const std::string path = tablesOf(directory) + version + kMark.str();
  for (;;) {
    const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR);
    struct stat facts {};
    if (file < 0 || fchmod(file, S_IRUSR | S_IWUSR) != 0 || flock(file, LOCK_EX) != 0 || fstat(file, &facts) != 0) {
      const int problem = errno;
      if (file >= 0) {
        close(file);
      }
      return failure("cannot write '" + path + "': " + std::strerror(problem));
    }
    if (facts.st_nlink > 0) {
      return std::shared_ptr<void>(new Mark{path, file});
    }
    close(file); // swept by another process between both calls
  }
}

void removeImported(const std::string &directory, const std::string &version) {
  for (const char *kind : {".arrow", ".subjects"}) {
    for (const char *state : {"", ".unfinished"}) {
      unlink((tablesOf(directory) + version + kind + state).c_str());
    }
  }
}

llvm::Error sweepImports(const std::string &directory,
                         llvm::function_ref<llvm::Expected<bool>(const std::string &version)> isEntered) {
  std::error_code code;
  std::vector<std::string> marks;
  for (const auto &entry : fs::directory_iterator(tablesOf(directory), code)) {
    if (entry.path().extension() == kMark.str()) {
      marks.push_back(entry.path().string());
    }
  }
  for (const std::string &path : marks) {
    const int file = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0) {
      continue; // its import has ended meanwhile
    }
    if (flock(file, LOCK_EX | LOCK_NB) != 0) {
      close(file);
      continue; // under way
    }
    Mark mark{path, file};
    const std::string version = fs::path(path).stem().string();
    auto isThere = isEntered(version); // asked under the lock: no import enters it any more
    if (!isThere) {
      mark.path.clear(); // for the next one
      return isThere.takeError();
    }
    if (!*isThere) {
      removeImported(directory, version);
    }
  }
  return llvm::Error::success();
}

} // namespace sojourn::owner
