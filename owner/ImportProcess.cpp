// SPDX-License-Identifier: Apache-2.0
// A fork, its limits, and a pipe of frames: a letter, the size, the bytes.
#include "owner/ImportProcess.h"

#include "owner/Error.h"

#include "llvm/Support/Endian.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <optional>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

namespace sojourn::owner {

using llvm::Twine;
namespace endian = llvm::support::endian;

namespace {

constexpr char kProgress = 'P', kError = 'E', kResult = 'R';
constexpr size_t kHead = 1 + 8;
/// A stage or an error; and what the work returns (the categories of a table, twice escaped).
constexpr uint64_t kTextBytes = 1 << 16, kResultBytes = uint64_t{256} << 20;
/// For stacks of threads and pools that reserve addresses.
constexpr int64_t kSpareBytes = int64_t{4} << 30;

void send(int pipe, char kind, llvm::StringRef bytes) {
  std::string frame(kHead, kind);
  endian::write64le(frame.data() + 1, bytes.size());
  frame += bytes;
  for (size_t done = 0; done < frame.size();) {
    const ssize_t count = write(pipe, frame.data() + done, frame.size() - done);
    if (count < 0 && errno != EINTR) {
      _exit(1); // nobody reads any more
    }
    done += count > 0 ? static_cast<size_t>(count) : 0;
  }
}

/// Addresses in use, in bytes.
int64_t addressBytes() {
  long pages = 0;
  if (FILE *file = std::fopen("/proc/self/statm", "re")) {
    if (std::fscanf(file, "%ld", &pages) != 1) {
      pages = 0;
    }
    std::fclose(file);
  }
  return int64_t{pages} * sysconf(_SC_PAGESIZE);
}

/// Never more than it is.
void lower(__rlimit_resource resource, int64_t most) {
  struct rlimit limit {};
  if (getrlimit(resource, &limit) == 0) {
    limit.rlim_max = std::min<rlim_t>(limit.rlim_max, static_cast<rlim_t>(std::max<int64_t>(most, 0)));
    limit.rlim_cur = std::min(limit.rlim_cur, limit.rlim_max);
    setrlimit(resource, &limit);
  }
}

void confine(const ProcessLimits &limits, pid_t parent, const sigset_t &signals) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) {
    _exit(1);
  }
  if (const int file = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC); file >= 0) {
    [[maybe_unused]] const ssize_t wrote = write(file, "1000", 4);
    close(file);
  }
  // What libraries write when they abort may show a row.
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int stream : {0, 1, 2}) {
    dup2(nothing, stream);
  }
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  prctl(PR_SET_DUMPABLE, 0);
  const int64_t room = INT64_MAX - kSpareBytes - addressBytes();
  lower(RLIMIT_AS, addressBytes() + kSpareBytes + std::min(limits.memoryBytes, room));
  lower(RLIMIT_CPU, limits.seconds);
  lower(RLIMIT_FSIZE, limits.fileBytes);
  lower(RLIMIT_NOFILE, 256);
  lower(RLIMIT_CORE, 0);
  for (int each : {SIGBUS, SIGSEGV, SIGABRT, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGXCPU, SIGXFSZ, SIGPIPE}) {
    signal(each, SIG_DFL);
  }
  sigprocmask(SIG_UNBLOCK, &signals, nullptr);
}

[[noreturn]] void runChild(int pipe, llvm::function_ref<llvm::Expected<std::string>(const Progress &)> work) {
  int64_t shown = -1;
  std::string last;
  auto tell = [&](const std::string &stage, int64_t done, int64_t total) {
    if (stage != last || done != shown) {
      std::string frame(16, '\0');
      endian::write64le(frame.data(), static_cast<uint64_t>(done));
      endian::write64le(frame.data() + 8, static_cast<uint64_t>(total));
      send(pipe, kProgress, frame + stage.substr(0, kTextBytes - 16));
      last = stage;
      shown = done;
    }
  };
  try {
    auto result = work(tell);
    if (result) {
      send(pipe, kResult, *result);
    } else {
      send(pipe, kError, llvm::toString(result.takeError()).substr(0, kTextBytes));
    }
  } catch (...) { // what it says may show a row
    send(pipe, kError, "the import failed; the file is damaged, or there is not enough memory");
  }
  _exit(0); // nothing of the parent's is flushed, closed or removed
}

/// What came through the pipe.
struct Received {
  std::optional<std::string> result, error;
  std::string bytes;
  bool isWrong = false;

  void take(const char *data, size_t size, const Progress &progress) {
    bytes.append(data, size);
    size_t at = 0;
    while (bytes.size() - at >= kHead && !isWrong) {
      const char kind = bytes[at];
      const uint64_t length = endian::read64le(bytes.data() + at + 1);
      isWrong = (kind != kProgress && kind != kError && kind != kResult) ||
                length > (kind == kResult ? kResultBytes : kTextBytes) || (kind == kProgress && length < 16);
      if (isWrong || bytes.size() - at - kHead < length) {
        break;
      }
      llvm::StringRef body(bytes.data() + at + kHead, length);
      if (kind == kProgress && progress) {
        progress(body.drop_front(16).str(), static_cast<int64_t>(endian::read64le(body.data())),
                 static_cast<int64_t>(endian::read64le(body.data() + 8)));
      } else if (kind == kError) {
        error = body.str();
      } else if (kind == kResult) {
        result = body.str();
      }
      at += kHead + length;
    }
    bytes.erase(0, at);
  }
};

std::string endText(int status, const ProcessLimits &limits) {
  if (!WIFSIGNALED(status)) {
    return "ended without a result";
  }
  switch (WTERMSIG(status)) {
  case SIGKILL:
    return "was killed, by the kernel if memory ran out: leave columns out or split the file, or set a lower limit "
           "(--max-bytes)";
  case SIGXCPU:
    return "took more than " + std::to_string(limits.seconds) + " seconds of processor time; split the file";
  case SIGXFSZ: return "wrote more than " + std::to_string(limits.fileBytes) + " bytes; split the file";
  default: {
    const char *name = sigabbrev_np(WTERMSIG(status));
    return std::string("ended by SIG") + (name ? name : "NAL") +
           ": the file is damaged, or became another while it was read; write it again";
  }
  }
}

} // namespace

sigset_t HeldSignals::all() {
  sigset_t signals;
  sigemptyset(&signals);
  for (int each : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    sigaddset(&signals, each);
  }
  return signals;
}

HeldSignals::HeldSignals() {
  const sigset_t signals = all();
  pthread_sigmask(SIG_BLOCK, &signals, &before);
}

HeldSignals::~HeldSignals() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }

llvm::Expected<std::string> runApart(const std::string &file, const ProcessLimits &limits, const Progress &progress,
                                     llvm::function_ref<llvm::Expected<std::string>(const Progress &)> work) {
  auto wrong = [&](const Twine &what) { return failure("cannot import '" + file + "': " + what); };
  int pipe[2];
  if (pipe2(pipe, O_CLOEXEC) != 0) {
    return wrong(Twine("no pipe: ") + std::strerror(errno));
  }
  const sigset_t signals = HeldSignals::all();
  const int signal = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  const pid_t parent = getpid(), child = fork();
  if (child == 0) {
    close(pipe[0]);
    close(signal);
    confine(limits, parent, signals);
    runChild(pipe[1], work);
  }
  close(pipe[1]);
  Received received;
  bool isInterrupted = false;
  std::string buffer(1 << 16, '\0');
  while (child > 0 && !received.isWrong) {
    struct pollfd waiting[] = {{pipe[0], POLLIN, 0}, {signal, POLLIN, 0}};
    if (poll(waiting, signal >= 0 ? 2 : 1, -1) < 0) {
      continue;
    }
    if (signal >= 0 && waiting[1].revents != 0) { // stays pending, for the end of HeldSignals
      isInterrupted = true;
      break;
    }
    const ssize_t count = read(pipe[0], buffer.data(), buffer.size());
    if (count == 0 || (count < 0 && errno != EINTR)) {
      break;
    }
    received.take(buffer.data(), static_cast<size_t>(std::max<ssize_t>(count, 0)), progress);
  }
  close(pipe[0]);
  if (signal >= 0) {
    close(signal);
  }
  if (child < 0) {
    return wrong(Twine("no process for it: ") + std::strerror(errno));
  }
  int status = 0;
  if (isInterrupted || received.isWrong) {
    kill(child, SIGKILL);
  }
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (isInterrupted) {
    return wrong("it was interrupted, and nothing of it is left");
  }
  if (received.error) {
    return failure(*received.error);
  }
  if (!received.result || !WIFEXITED(status)) {
    return wrong("the process that reads it " + endText(status, limits));
  }
  return std::move(*received.result);
}

} // namespace sojourn::owner
