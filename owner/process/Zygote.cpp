// SPDX-License-Identifier: Apache-2.0
// The front's side of the zygote (see Zygote.h).
#include "owner/process/Zygote.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

extern char **environ;

namespace sojourn::owner {

using llvm::Twine;

namespace {

/// Number of the zygote's socket in its process.
constexpr int kZygoteSocket = 3;
constexpr int kStartMs = 60'000, kAnswerMs = 10'000;

llvm::Error failed(const Twine &what) {
  const int error = errno;
  return llvm::createStringError(what + ": " + strerror(error));
}

/// What libraries read; nothing else of the environment is passed on, which may hold secrets.
std::vector<char *> passedEnvironment() {
  constexpr llvm::StringLiteral kPassed[] = {
      "LD_LIBRARY_PATH=", "OMP_NUM_THREADS=", "OMP_WAIT_POLICY=", "OMP_PROC_BIND=",       "OMP_PLACES=", "OMP_DYNAMIC=",
      "GOMP_SPINCOUNT=",  "KMP_BLOCKTIME=",   "MKL_NUM_THREADS=", "ATEN_CPU_CAPABILITY=", "LANG=",       "LC_ALL=",
      "ASAN_OPTIONS=",    "UBSAN_OPTIONS=",   "TSAN_OPTIONS=",    "LSAN_OPTIONS="};
  std::vector<char *> passed;
  for (char **each = environ; *each; ++each) {
    const llvm::StringRef text(*each);
    if (llvm::any_of(kPassed, [&](llvm::StringRef prefix) { return text.starts_with(prefix); })) {
      passed.push_back(*each);
    }
  }
  passed.push_back(nullptr);
  return passed;
}

/// False where the other side is gone, or does not answer in time. Allocates nothing.
bool receiveReply(int socket, ZygoteReply &reply, Descriptor *with, int waitMs) noexcept {
  pollfd ready{socket, POLLIN, 0};
  int count = 0;
  do {
    count = poll(&ready, 1, waitMs);
  } while (count < 0 && errno == EINTR);
  if (count <= 0) {
    return false;
  }
  iovec vector{&reply, sizeof(reply)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  msghdr message{};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  ssize_t size = 0;
  do {
    size = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (size < 0 && errno == EINTR);
  if (const cmsghdr *header = size > 0 ? CMSG_FIRSTHDR(&message) : nullptr; header && header->cmsg_type == SCM_RIGHTS) {
    int number = -1;
    std::memcpy(&number, CMSG_DATA(header), sizeof(int));
    Descriptor came(number);
    if (with) {
      *with = std::move(came);
    }
  }
  return size == sizeof(reply);
}

} // namespace

llvm::Expected<std::unique_ptr<Zygote>> Zygote::start(const std::string &program) {
  if (program.empty() || access(program.c_str(), X_OK) != 0) {
    return llvm::createStringError("there is no program '" + program +
                                   "', in whose processes steps run: install sojourn-worker beside sojourn-owner");
  }
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return failed("cannot make a socket for worker processes");
  }
  Descriptor own(ends[0]), first(ends[1]);
  Descriptor other(fcntl(first.get(), F_DUPFD_CLOEXEC, kZygoteSocket)); // not one of those that become /dev/null
  first = Descriptor();
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  for (int standard = 0; standard < 3; ++standard) {
    posix_spawn_file_actions_addopen(&actions, standard, "/dev/null", O_RDWR, 0);
  }
  posix_spawn_file_actions_adddup2(&actions, other.get(), kZygoteSocket);
  posix_spawn_file_actions_addclosefrom_np(&actions, kZygoteSocket + 1);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  // A session of its own: Ctrl-C at the front's terminal is the front's to handle.
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
  std::string name = "sojourn-worker";
  char *arguments[] = {name.data(), nullptr};
  std::vector<char *> environment = passedEnvironment();
  pid_t pid = 0;
  const int error = posix_spawn(&pid, program.c_str(), &actions, &attributes, arguments, environment.data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) {
    return llvm::createStringError("cannot start '" + program + "': " + strerror(error));
  }
  std::unique_ptr<Zygote> zygote(new Zygote(pid, std::move(own)));
  other = Descriptor();
  ZygoteReply ready;
  if (!receiveReply(zygote->socket.get(), ready, nullptr, kStartMs)) {
    return llvm::createStringError("'" + program + "' did not start: it ended, or did not answer within a minute");
  }
  zygote->threadCount = std::max<unsigned>(1, ready.threads);
  return zygote;
}

Zygote::~Zygote() {
  socket = Descriptor();
  ::kill(process, SIGKILL);
  int status = 0;
  while (waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
}

llvm::Expected<ForkedWorker> Zygote::fork(uint64_t dataBytes, uint64_t descriptors) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return failed("cannot make a socket for a worker process");
  }
  ForkedWorker worker;
  worker.socket = Descriptor(ends[0]);
  Descriptor other(ends[1]);
  Descriptor memory(memfd_create("sojourn-flags", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory || ftruncate(memory.get(), sizeof(LinkFlags)) != 0 ||
      fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
    return failed("cannot make memory for a worker process");
  }
  void *mapped = mmap(nullptr, sizeof(LinkFlags), PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (mapped == MAP_FAILED) {
    return failed("cannot map memory for a worker process");
  }
  worker.flags = {new (mapped) LinkFlags, [](LinkFlags *flags) { munmap(flags, sizeof(LinkFlags)); }};
  const ZygoteRequest request{ZygoteRequest::Kind::fork, 0, dataBytes, descriptors};
  iovec vector{const_cast<ZygoteRequest *>(&request), sizeof(request)};
  msghdr message{};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  const PassedDescriptors passed(message, {other.get(), memory.get()});
  std::lock_guard lock(mutex);
  if (sendmsg(socket.get(), &message, MSG_NOSIGNAL) != sizeof(request)) {
    return failed("the process that starts worker processes is gone");
  }
  ZygoteReply reply;
  if (!receiveReply(socket.get(), reply, &worker.process, kAnswerMs)) {
    return llvm::createStringError("the process that starts worker processes has ended, or does not answer");
  }
  if (reply.pid <= 0 || !worker.process) {
    if (reply.pid > 0) { // it ends with its socket
      worker.socket = Descriptor();
      other = Descriptor();
      reapLocked(reply.pid);
    }
    return llvm::createStringError("cannot start a worker process: " +
                                   std::string(strerror(reply.pid > 0 ? EMFILE : reply.status)));
  }
  worker.pid = reply.pid;
  return worker;
}

bool Zygote::isGone() const {
  siginfo_t info{};
  return waitid(P_PID, static_cast<id_t>(process), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == process;
}

std::optional<int> Zygote::reap(pid_t worker) noexcept {
  std::lock_guard lock(mutex);
  return reapLocked(worker);
}

std::optional<int> Zygote::reapLocked(pid_t worker) noexcept {
  const ZygoteRequest request{ZygoteRequest::Kind::reap, worker, 0, 0};
  ZygoteReply reply;
  if (send(socket.get(), &request, sizeof(request), MSG_NOSIGNAL) != sizeof(request) ||
      !receiveReply(socket.get(), reply, nullptr, kAnswerMs)) {
    return std::nullopt;
  }
  return reply.status;
}

std::string describeEnd(std::optional<int> status) {
  if (!status) {
    return "how is not known";
  }
  if (WIFSIGNALED(*status)) {
    const int signal = WTERMSIG(*status);
    const char *name = sigdescr_np(signal);
    return "signal " + std::to_string(signal) + (name ? " (" + std::string(name) + ")" : "");
  }
  return "exit code " + std::to_string(WEXITSTATUS(*status));
}

std::string workerProgram() {
  std::error_code unknown;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", unknown);
  return unknown ? std::string() : (self.parent_path() / "sojourn-worker").string();
}

} // namespace sojourn::owner
