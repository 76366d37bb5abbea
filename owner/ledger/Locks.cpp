// SPDX-License-Identifier: Apache-2.0
// Open-file-description locks of Linux: byte 0 is the writer's, byte 1 + holder each holder's.
#include "owner/ledger/Locks.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace sojourn::owner::ledger {

static struct flock byteLock(short type, uint64_t offset) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(offset);
  lock.l_len = 1;
  return lock;
}

Result<Locks> Locks::open(const std::string &path) {
  Locks locks(path, path.empty() ? -1 : ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!path.empty() && locks.file < 0) {
    return locks.failed("open");
  }
  if (!path.empty()) {
    fchmod(locks.file, 0600); // whatever the umask
  }
  return Result<Locks>(std::move(locks));
}

Locks::~Locks() {
  if (file >= 0) {
    close(file);
  }
}

Problem Locks::failed(const char *doing) const {
  return problem(Code::disk, std::string("cannot ") + doing + " '" + path + "': " + std::strerror(errno));
}

Status Locks::lockWriter(int waitMs) {
  if (file < 0) {
    return {};
  }
  // The kernel's own waiting knows no end, so this asks again and again.
  auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(waitMs);
  auto pause = std::chrono::microseconds(20);
  while (true) {
    struct flock lock = byteLock(F_WRLCK, 0);
    if (fcntl(file, F_OFD_SETLK, &lock) == 0) {
      return {};
    }
    if (errno != EAGAIN && errno != EACCES && errno != EINTR) {
      return failed("lock");
    }
    if (std::chrono::steady_clock::now() >= end) {
      return problem(Code::busy, "another process has been writing to the ledger for " + std::to_string(waitMs) +
                                     " ms ('" + path + "'); try again");
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, std::chrono::microseconds(1000));
  }
}

void Locks::unlockWriter() {
  if (file >= 0) {
    struct flock lock = byteLock(F_UNLCK, 0);
    fcntl(file, F_OFD_SETLK, &lock);
  }
}

Status Locks::hold(uint64_t holder) {
  struct flock lock = byteLock(F_WRLCK, 1 + holder);
  return file < 0 || fcntl(file, F_OFD_SETLK, &lock) == 0 ? Status() : failed("lock");
}

Result<bool> Locks::lives(uint64_t holder) {
  if (file < 0) {
    return false;
  }
  struct flock lock = byteLock(F_WRLCK, 1 + holder);
  if (fcntl(file, F_OFD_GETLK, &lock) != 0) {
    return failed("request locks of");
  }
  return lock.l_type != F_UNLCK;
}

} // namespace sojourn::owner::ledger
