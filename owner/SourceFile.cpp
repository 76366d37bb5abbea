// SPDX-License-Identifier: Apache-2.0
// What a path leads to is looked at before it is opened, and again after.
#include "owner/SourceFile.h"

#include "owner/Error.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace sojourn::owner {

/// Empty for a file.
static std::string kindOf(const struct stat &facts) {
  return S_ISREG(facts.st_mode)    ? ""
         : S_ISDIR(facts.st_mode)  ? "a folder"
         : S_ISFIFO(facts.st_mode) ? "a FIFO"
         : S_ISSOCK(facts.st_mode) ? "a socket"
                                   : "a device";
}

llvm::Expected<SourceFile> SourceFile::open(const std::string &path, const std::string &doing) {
  auto wrong = [&](const std::string &what) { return failure(doing + " '" + path + "': " + what); };
  struct stat link {
  }, facts{};
  if (lstat(path.c_str(), &link) != 0 || stat(path.c_str(), &facts) != 0) {
    return wrong(errno == ENOENT ? "no such file" : std::strerror(errno));
  }
  if (std::string kind = kindOf(facts); !kind.empty()) { // to open it may wait, or wind a tape
    return wrong("it is " + kind + ", expected a file");
  }
  if (S_ISLNK(link.st_mode) && link.st_uid != geteuid() && link.st_uid != 0 && link.st_uid != facts.st_uid) {
    return wrong("it is a link that another account has made to a file that is not its own; give the path of the "
                 "file itself");
  }
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file < 0) {
    return wrong(std::strerror(errno));
  }
  struct stat opened {};
  if (fstat(file, &opened) != 0 || opened.st_dev != facts.st_dev || opened.st_ino != facts.st_ino) {
    close(file);
    return wrong("another file took its place while it was opened; try again");
  }
  return SourceFile(path, file, opened.st_size);
}

SourceFile::~SourceFile() {
  if (file >= 0) {
    close(file);
  }
}

llvm::Expected<std::string> SourceFile::read(int64_t offset, int64_t count) const {
  std::string text(static_cast<size_t>(std::clamp<int64_t>(bytes - offset, 0, count)), '\0');
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t got = pread(file, text.data() + done, text.size() - done, offset + static_cast<int64_t>(done));
    if (got < 0 && errno != EINTR) {
      return failure("cannot read '" + path + "': " + std::strerror(errno));
    }
    if (got == 0) {
      break;
    }
    done += got > 0 ? static_cast<size_t>(got) : 0;
  }
  text.resize(done);
  return text;
}

llvm::Error SourceFile::readInto(char *out, int64_t offset, int64_t count) const {
  while (count > 0) {
    const ssize_t got = pread(file, out, static_cast<size_t>(count), offset);
    if (got < 0 && errno != EINTR) {
      return failure("cannot read '" + path + "': " + std::strerror(errno));
    }
    if (got == 0) {
      return failure("cannot read '" + path + "': it became shorter while it was read; import it when it is complete");
    }
    const int64_t more = std::max<int64_t>(got, 0);
    out += more;
    offset += more;
    count -= more;
  }
  return llvm::Error::success();
}

llvm::Expected<int> SourceFile::descriptor() const {
  // By the descriptor, for another file may have taken the place of the path; with an offset of its own.
  const int again = ::open(("/proc/self/fd/" + std::to_string(file)).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  return again >= 0 ? llvm::Expected<int>(again) : failure("cannot read '" + path + "': " + std::strerror(errno));
}

} // namespace sojourn::owner
