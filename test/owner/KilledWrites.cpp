// SPDX-License-Identifier: Apache-2.0
// For LD_PRELOAD: kills its process right before its durable write number SOJOURN_TEST_KILL_AT, from 1; 0 or none:
// never. Counts the durable writes in the file SOJOURN_TEST_WRITES, one byte each.
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

namespace {

using Sync = int (*)(int);

int durable(const char *name, int file) {
  static std::atomic<long> count{0};
  static const char *const at = std::getenv("SOJOURN_TEST_KILL_AT");
  static const long last = at ? std::atol(at) : 0;
  if (++count == last) {
    kill(getpid(), SIGKILL);
  }
  if (const char *path = std::getenv("SOJOURN_TEST_WRITES")) {
    if (const int out = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600); out >= 0) {
      (void)!write(out, "x", 1);
      close(out);
    }
  }
  return reinterpret_cast<Sync>(dlsym(RTLD_NEXT, name))(file);
}

} // namespace

extern "C" int fsync(int file) { return durable("fsync", file); }
extern "C" int fdatasync(int file) { return durable("fdatasync", file); }
