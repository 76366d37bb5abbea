// SPDX-License-Identifier: Apache-2.0
// The process from which worker processes are forked (tools/sojourn-worker.cpp): it has loaded their libraries, has one
// thread, and has none of this process's memory, descriptors or environment.
#ifndef SOJOURN_OWNER_PROCESS_ZYGOTE_H
#define SOJOURN_OWNER_PROCESS_ZYGOTE_H

#include "owner/process/Link.h"

#include "llvm/Support/Error.h"

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <sys/types.h>

namespace sojourn::owner {

/// Requests to the zygote, and its answers: one packet each.
struct ZygoteRequest {
  enum class Kind : uint32_t { fork, reap } kind = Kind::fork;
  int32_t pid = 0;          ///< reap: that has ended
  uint64_t dataBytes = 0;   ///< fork: the most private memory, beside what the zygote has; 0: no limit
  uint64_t descriptors = 0; ///< fork: the most open files
};
struct ZygoteReply {
  int32_t pid = 0;      ///< fork; 0: failed
  int32_t status = 0;   ///< reap: as waitpid gives it; fork: errno
  uint32_t threads = 0; ///< of the first packet, which says that the zygote is ready
};

/// A worker process, just forked. Ends with the zygote, and with the front.
struct ForkedWorker {
  pid_t pid = 0;
  Descriptor process; ///< pidfd
  Descriptor socket;  ///< to it
  std::shared_ptr<LinkFlags> flags;
};

/// Thread-safe.
class Zygote {
public:
  /// Starts `program`, a sojourn-worker, and waits until it is ready.
  static llvm::Expected<std::unique_ptr<Zygote>> start(const std::string &program);
  /// Ends it, and all workers.
  ~Zygote();
  Zygote(const Zygote &) = delete;
  Zygote &operator=(const Zygote &) = delete;

  llvm::Expected<ForkedWorker> fork(uint64_t dataBytes, uint64_t descriptors);
  /// How a worker ended that has ended, as waitpid gives it; nothing where that is not known.
  std::optional<int> reap(pid_t worker) noexcept;
  bool isGone() const;
  /// Threads that kernels can use, at least 1.
  unsigned threads() const { return threadCount; }
  pid_t pid() const { return process; }

private:
  Zygote(pid_t process, Descriptor socket) : process(process), socket(std::move(socket)) {}
  std::optional<int> reapLocked(pid_t worker) noexcept;

  std::mutex mutex;
  const pid_t process;
  Descriptor socket;
  unsigned threadCount = 1;
};

/// "signal 11 (Segmentation fault)", "exit code 1".
std::string describeEnd(std::optional<int> status);

/// sojourn-worker beside the program that runs; empty where it is not known.
std::string workerProgram();

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_PROCESS_ZYGOTE_H
