// SPDX-License-Identifier: Apache-2.0
// Limits and system calls of a worker (see Confine.h).
#include "owner/process/Confine.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <seccomp.h>
#include <string>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace sojourn::owner {

namespace {

/// Memory, threads, clocks, its own signals, and descriptors that it has.
constexpr llvm::StringLiteral kAllowed =
    "brk mmap munmap mremap mprotect madvise mincore membarrier memfd_create ftruncate futex futex_waitv "
    "set_robust_list rseq set_tid_address sched_yield sched_getaffinity getcpu exit exit_group gettid getpid "
    "restart_syscall rt_sigaction rt_sigprocmask rt_sigreturn sigaltstack nanosleep clock_nanosleep "
    "clock_gettime clock_getres gettimeofday time getrandom read readv pread64 recvmsg sendmsg poll ppoll "
    "close fstat lseek dup getrusage sysinfo uname";

/// No library of a worker asks for these: who does wants out.
constexpr llvm::StringLiteral kDeadly =
    "ptrace process_vm_readv process_vm_writev process_madvise pidfd_getfd pidfd_open pidfd_send_signal "
    "io_uring_setup io_uring_enter io_uring_register execve execveat kill tkill rt_sigqueueinfo "
    "rt_tgsigqueueinfo fork vfork bpf perf_event_open userfaultfd keyctl add_key request_key mount umount2 "
    "pivot_root chroot setns unshare open_by_handle_at name_to_handle_at kexec_load init_module finit_module "
    "delete_module reboot swapon acct setuid setgid setreuid setregid setresuid setresgid setgroups capset "
    "personality socket connect bind listen accept accept4 socketpair mknod mknodat kcmp msgget shmget semget";

/// One action for these system calls; those that the machine does not have are left out.
int rules(scmp_filter_ctx filter, uint32_t action, llvm::StringRef names) {
  int wrong = 0;
  llvm::SmallVector<llvm::StringRef> all;
  names.split(all, ' ');
  for (llvm::StringRef name : all) {
    const int number = seccomp_syscall_resolve_name(name.str().c_str());
    wrong = wrong || number == __NR_SCMP_ERROR ? wrong : seccomp_rule_add(filter, action, number, 0);
  }
  return wrong;
}

void limit(__rlimit_resource resource, rlim_t most) {
  rlimit bound{most, most};
  setrlimit(resource, &bound);
}

/// Private memory of the process now, in bytes.
uint64_t dataNow() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (uint64_t kilobytes = 0; word == "VmData:" && status >> kilobytes) {
      return kilobytes << 10;
    }
  }
  return 0;
}

} // namespace

bool leaveSystem() {
  std::ofstream("/proc/self/oom_score_adj") << 1000;
  prctl(PR_SET_DUMPABLE, 0);
  limit(RLIMIT_CORE, 0);
  const uid_t user = geteuid();
  if (user == 0) {
    if (unshare(CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS) != 0) {
      errno = 0;
    }
    constexpr uid_t kNobody = 65'534;
    if (setgroups(0, nullptr) != 0 || setresgid(kNobody, kNobody, kNobody) != 0 ||
        setresuid(kNobody, kNobody, kNobody) != 0) {
      return false;
    }
  } else if (unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS) != 0) {
    errno = 0;
  }
  prctl(PR_SET_DUMPABLE, 0); // a change of the user may set it
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  __user_cap_header_struct head{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[2] = {}; // a namespace of one's own brings all of them, within it
  return syscall(SYS_capset, &head, none) == 0;
}

llvm::Error confine(uint64_t dataBytes, uint64_t descriptors) {
  limit(RLIMIT_CORE, 0);
  if (descriptors > 0) {
    limit(RLIMIT_NOFILE, descriptors);
  }
  if (dataBytes > 0) {
    limit(RLIMIT_DATA, dataNow() + dataBytes);
    signal(SIGXFSZ, SIG_IGN);
    limit(RLIMIT_FSIZE, dataBytes); // of a memory file
  }
  scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
  if (!filter) {
    return llvm::createStringError("no memory for a filter of system calls");
  }
  int wrong = rules(filter, SCMP_ACT_ALLOW, kAllowed);
  wrong = wrong ? wrong : rules(filter, SCMP_ACT_KILL_PROCESS, kDeadly);
  auto with = [&](uint32_t action, int number, scmp_arg_cmp compared) {
    wrong = wrong ? wrong : seccomp_rule_add(filter, action, number, 1, compared);
  };
  // Threads, and no other processes; libc then asks without the structure that a filter cannot look into.
  constexpr scmp_datum_t kNamespaces = 0x7e020000; // CLONE_NEW*
  with(SCMP_ACT_ALLOW, SCMP_SYS(clone), SCMP_A0(SCMP_CMP_MASKED_EQ, kNamespaces | CLONE_THREAD, CLONE_THREAD));
  with(SCMP_ACT_KILL_PROCESS, SCMP_SYS(clone), SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0));
  wrong = wrong ? wrong : seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
  // Signals to itself alone, as abort sends them.
  with(SCMP_ACT_ALLOW, SCMP_SYS(tgkill), SCMP_A0(SCMP_CMP_EQ, static_cast<scmp_datum_t>(getpid())));
  with(SCMP_ACT_KILL_PROCESS, SCMP_SYS(tgkill), SCMP_A0(SCMP_CMP_NE, static_cast<scmp_datum_t>(getpid())));
  for (int command : {F_GETFD, F_SETFD, F_GETFL, F_ADD_SEALS, F_GET_SEALS, F_DUPFD_CLOEXEC}) {
    with(SCMP_ACT_ALLOW, SCMP_SYS(fcntl), SCMP_A1(SCMP_CMP_EQ, static_cast<scmp_datum_t>(command)));
  }
  with(SCMP_ACT_ALLOW, SCMP_SYS(sched_setaffinity), SCMP_A0(SCMP_CMP_EQ, 0));
  // Its own limits, to read.
  wrong = wrong ? wrong
                : seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(prlimit64), 2, SCMP_A0(SCMP_CMP_EQ, 0),
                                   SCMP_A2(SCMP_CMP_EQ, 0));
  constexpr int kNameMapping = 0x53564d41; // PR_SET_VMA
  for (int option : {PR_SET_NAME, PR_GET_NAME, kNameMapping}) {
    with(SCMP_ACT_ALLOW, SCMP_SYS(prctl), SCMP_A0(SCMP_CMP_EQ, static_cast<scmp_datum_t>(option)));
  }
  wrong = wrong ? wrong : seccomp_load(filter);
  seccomp_release(filter);
  return wrong == 0 ? llvm::Error::success()
                    : llvm::createStringError("cannot filter system calls: " + std::string(strerror(-wrong)));
}

} // namespace sojourn::owner
