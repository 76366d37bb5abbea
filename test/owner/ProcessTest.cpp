// SPDX-License-Identifier: Apache-2.0
// Goal: a step runs in a process that has the tables of its session and nothing else. Method: what the system says of
// the processes of an owner; a search of their memory; system calls, each tried.
#include "owner/WorkerStub.h"
#include "owner/process/Confine.h"
#include "test/owner/ProcessSupport.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace sojourn;
using namespace sojourn::owner;
using namespace sojourn::owner::test;

namespace {

std::string linkOf(const std::string &path) {
  std::error_code ignored;
  return std::filesystem::read_symlink(path, ignored).string();
}

/// How a process ends that confines itself and then asks the system for something.
int statusAfter(const std::function<long()> &ask) {
  const pid_t child = fork();
  if (child == 0) {
    if (llvm::Error error = confine(0, 0)) {
      llvm::consumeError(std::move(error));
      _exit(99);
    }
    errno = 0;
    const long result = ask();
    _exit(result == -1 && errno == EPERM ? 1 : result == -1 ? 2 : 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

} // namespace

TEST_F(Processes, HaveNoDescriptorsButTheirSocketAndTables) {
  if (geteuid() != 0) {
    GTEST_SKIP() << "only root may look into a process that cannot be traced";
  }
  start({}, /*onDisk=*/true);
  registerNumbers(*owner, "numbers", Policy::open);
  registerNumbers(*owner, "others", Policy::open);
  Client client(*owner);
  StepRequest step;
  step.tables = {"numbers"};
  ASSERT_EQ(client.run(sumProgram(), step).error(), "");
  ASSERT_FALSE(house->pids().empty());
  size_t sockets = 0, tables = 0;
  for (pid_t pid : house->pids()) {
    for (const auto &entry : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd")) {
      const std::string target = linkOf(entry.path());
      const bool isSocket = target.starts_with("socket:");
      sockets += isSocket ? 1 : 0;
      if (target.starts_with(world.store + "/datasets/")) {
        ++tables;
        std::ifstream info("/proc/" + std::to_string(pid) + "/fdinfo/" + entry.path().filename().string());
        const std::string text((std::istreambuf_iterator<char>(info)), {});
        EXPECT_NE(text.find("0\nmnt_id"), std::string::npos) << "to be read alone: " << text;
        continue;
      }
      EXPECT_TRUE(isSocket || target == "/dev/null" || target.starts_with("/memfd:sojourn")) << target;
    }
    std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
    for (std::string line; std::getline(maps, line);) {
      EXPECT_EQ(line.find("catalogue"), std::string::npos) << line;
      EXPECT_EQ(line.find("ledger"), std::string::npos) << line;
      EXPECT_EQ(line.find("rw-s /memfd:sojourn-table"), std::string::npos) << line;
    }
  }
  EXPECT_EQ(sockets, house->pids().size()) << "one each";
  EXPECT_EQ(tables, 0U) << "what is mapped needs no descriptor";
}

TEST_F(Processes, MapTablesOfPaidStepsAlone) {
  if (geteuid() != 0) {
    GTEST_SKIP() << "only root may look into a process that cannot be traced";
  }
  start({}, /*onDisk=*/true);
  registerNumbers(*owner, "paid", Policy::open);
  registerNumbers(*owner, "secret", Policy::privateOnly); // no grant
  auto mapped = [&] {
    std::set<std::string> found;
    for (pid_t pid : house->pids()) {
      std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
      for (std::string line; std::getline(maps, line);) {
        if (const size_t at = line.find(folder.path); at != std::string::npos) {
          EXPECT_NE(line.find(" r--s "), std::string::npos) << "to be read alone: " << line;
          found.insert(line.substr(at));
        }
      }
    }
    return found.size();
  };
  Client client(*owner);
  StepRequest step;
  step.tables = {"secret"};
  EXPECT_NE(client.run(sumProgram(), step).error(), "");
  EXPECT_EQ(mapped(), 0U);
  step.tables = {"paid"};
  ASSERT_EQ(client.run(sumProgram(), step).error(), "");
  EXPECT_EQ(mapped(), 1U);
}

TEST_F(Processes, HaveNoKeysInTheirMemory) {
  if (geteuid() != 0) {
    GTEST_SKIP() << "only root may read the memory of another process";
  }
  setenv("SOJOURN_STORE_PASSWORD", "a secret of the environment 7d1f", 1);
  setenv("OWNER_TOKEN", "a token of the environment 91ac", 1);
  start({}, /*onDisk=*/true);
  registerNumbers(*owner, "numbers", Policy::open);
  Client client(*owner);
  StepRequest step;
  step.tables = {"numbers"};
  ASSERT_EQ(client.run(sumProgram(), step).error(), "");
  std::ifstream file(world.store + "/owner.key", std::ios::binary);
  const std::string key((std::istreambuf_iterator<char>(file)), {});
  ASSERT_GE(key.size(), 32U);
  std::vector<std::pair<std::string, std::string>> secrets = {{"key of the owner", key.substr(0, 32)},
                                                              {"variable", "a token of the environment 91ac"},
                                                              {"own variable", "a secret of the environment 7d1f"}};
  std::vector<pid_t> all = house->pids();
  all.push_back(house->zygote());
  all.push_back(getpid());
  for (pid_t pid : all) {
    std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
    std::ifstream memory("/proc/" + std::to_string(pid) + "/mem", std::ios::binary);
    ASSERT_TRUE(memory.is_open());
    std::set<std::string> found;
    for (std::string line; std::getline(maps, line);) {
      uint64_t from = 0, to = 0;
      char mode[8] = {};
      if (std::sscanf(line.c_str(), "%lx-%lx %7s", &from, &to, mode) != 3 || mode[1] != 'w' || to - from > (1u << 28)) {
        continue; // what cannot be written has been in a file
      }
      std::string bytes(to - from, '\0');
      memory.clear();
      memory.seekg(static_cast<std::streamoff>(from));
      memory.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
      bytes.resize(static_cast<size_t>(memory.gcount()));
      for (const auto &[name, secret] : secrets) {
        if (bytes.find(secret) != std::string::npos) {
          found.insert(name);
        }
      }
    }
    if (pid == getpid()) {
      EXPECT_EQ(found.size(), secrets.size()) << "the search finds what is there";
    } else {
      EXPECT_TRUE(found.empty()) << *found.begin() << " in process " << pid;
    }
  }
}

TEST_F(Processes, AreKilledForWhatNoLibraryNeeds) {
  const long self = getpid(), parent = getppid();
  const std::pair<const char *, std::function<long()>> deadly[] = {
      {"ptrace", [&] { return syscall(SYS_ptrace, 16, parent, 0, 0); }},
      {"process_vm_readv", [&] { return syscall(SYS_process_vm_readv, parent, nullptr, 0, nullptr, 0, 0); }},
      {"process_vm_writev", [&] { return syscall(SYS_process_vm_writev, parent, nullptr, 0, nullptr, 0, 0); }},
      {"pidfd_getfd", [] { return syscall(SYS_pidfd_getfd, 3, 0, 0); }},
      {"io_uring_setup", [] { return syscall(SYS_io_uring_setup, 1, nullptr); }},
      {"execve", [] { return syscall(SYS_execve, "/bin/true", nullptr, nullptr); }},
      {"kill", [&] { return syscall(SYS_kill, self, 0); }},
      {"tgkill", [&] { return syscall(SYS_tgkill, self, self, 0); }},
      {"fork", [] { return syscall(SYS_fork); }},
      {"clone", [] { return syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); }},
      {"socket", [] { return syscall(SYS_socket, 2, 1, 0); }},
      {"connect", [] { return syscall(SYS_connect, 3, nullptr, 0); }},
      {"unshare", [] { return syscall(SYS_unshare, 0x10000000); }},
      {"setuid", [] { return syscall(SYS_setuid, 0); }},
      {"bpf", [] { return syscall(SYS_bpf, 0, nullptr, 0); }},
      {"userfaultfd", [] { return syscall(SYS_userfaultfd, 0); }},
      {"mount", [] { return syscall(SYS_mount, "", "", "", 0, nullptr); }},
  };
  for (const auto &[name, ask] : deadly) {
    const int status = statusAfter(ask);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS) << name << ": status " << status;
  }
  const std::pair<const char *, std::function<long()>> refused[] = {
      {"open", [] { return syscall(SYS_openat, -100, "/etc/passwd", 0); }},
      {"stat", [] { return syscall(SYS_stat, "/etc/passwd", nullptr); }},
      {"readlink", [] { return syscall(SYS_readlink, "/proc/self/exe", nullptr, 0); }},
      {"unlink", [] { return syscall(SYS_unlink, "/tmp/none"); }},
      {"write", [] { return syscall(SYS_write, 2, "x", 1); }},
      {"ioctl", [] { return syscall(SYS_ioctl, 2, 0x5412, "x"); }},
      {"dumpable", [] { return syscall(SYS_prctl, 4, 1, 0, 0, 0); }},
      {"limits", [] { return syscall(SYS_prlimit64, getppid(), 7, nullptr, nullptr); }},
      {"inotify", [] { return syscall(SYS_inotify_init1, 0); }},
      {"settimeofday", [] { return syscall(SYS_settimeofday, nullptr, nullptr); }},
      {"unknown", [] { return syscall(5'000); }},
  };
  for (const auto &[name, ask] : refused) {
    const int status = statusAfter(ask);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1) << name << ": status " << status;
  }
  const int status = statusAfter([] { return std::thread([] {}).join(), 0L; });
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "threads: status " << status;
}

TEST_F(Processes, CannotBeLookedInto) {
  start();
  counter(3);
  for (pid_t pid : house->pids()) {
    std::ifstream status("/proc/" + std::to_string(pid) + "/status");
    std::string text((std::istreambuf_iterator<char>(status)), {});
    EXPECT_NE(text.find("Seccomp:\t2"), std::string::npos) << text;
    EXPECT_NE(text.find("NoNewPrivs:\t1"), std::string::npos) << text;
    std::ifstream limits("/proc/" + std::to_string(pid) + "/limits");
    for (std::string line; std::getline(limits, line);) {
      if (line.starts_with("Max core file size")) {
        EXPECT_NE(line.find(" 0 "), std::string::npos) << line;
      }
    }
    if (geteuid() == 0) {
      EXPECT_NE(text.find("Uid:\t65534\t65534\t65534"), std::string::npos) << text;
      EXPECT_NE(text.find("CapEff:\t0000000000000000"), std::string::npos) << text;
    }
  }
}

TEST_F(Processes, DescribeEachProgramInOneOfItsOwn) {
  start();
  WorkerStub programs(processWorkers(house)());
  std::vector<DescribedCode> codes;
  std::set<pid_t> seen;
  for (size_t elements = 1; elements <= 3; ++elements) {
    const auto program = countProgram(elements);
    auto described = programs.describe({program.program.data(), program.program.size()},
                                       {program.debug.data(), program.debug.size()}, {});
    ASSERT_TRUE(bool(described)) << errorText(described.takeError());
    EXPECT_EQ(described->facts.results.size(), 2U);
    codes.push_back(std::move(*described));
    const std::vector<pid_t> now = house->pids();
    EXPECT_EQ(now.size(), elements);
    seen.insert(now.begin(), now.end());
  }
  EXPECT_EQ(seen.size(), 3U);
  codes.clear();
  EXPECT_EQ(house->count(), 0U) << "they end with their programs";
}

/// While all are busy, a session waits as long as its patience lasts, and gets that of an idle one.
TEST_F(Processes, AreWaitedForWithPatience) {
  Limits limits;
  limits.processes = 2; // one of which is for proofs
  start(limits);
  SessionPort one(house), other(house);
  ASSERT_TRUE(bool(one.begin(nullptr, {})));
  auto begun = other.begin(nullptr, std::chrono::milliseconds(50));
  ASSERT_FALSE(bool(begun));
  const RequestError error = takeRequestError(begun.takeError());
  EXPECT_EQ(error.code, sojourn_wire::ErrorCode_Busy);
  EXPECT_NE(error.message.find("this owner had no worker process within 50 ms"), std::string::npos) << error.message;
  {
    auto proves = house->take(one, nullptr, /*isForProof=*/true);
    ASSERT_TRUE(bool(proves)) << errorText(proves.takeError());
    const auto program = countProgram(1);
    auto described =
        WorkerStub(processWorkers(house)())
            .describe({program.program.data(), program.program.size()}, {program.debug.data(), program.debug.size()},
                      {}, nullptr, {}, std::chrono::milliseconds(50));
    ASSERT_FALSE(bool(described)) << "nor does a program wait longer that is described";
    EXPECT_EQ(takeRequestError(described.takeError()).code, sojourn_wire::ErrorCode_Busy);
  }
  one.rest();
  begun = other.begin(nullptr, std::chrono::seconds(20));
  EXPECT_TRUE(bool(begun)) << llvm::toString(begun.takeError());
}
