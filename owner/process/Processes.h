// SPDX-License-Identifier: Apache-2.0
// Worker processes: how they begin, take a call and end, and how many there are.
#ifndef SOJOURN_OWNER_PROCESS_PROCESSES_H
#define SOJOURN_OWNER_PROCESS_PROCESSES_H

#include "owner/Patience.h"
#include "owner/RequestError.h"
#include "owner/process/Link.h"
#include "owner/process/Zygote.h"

#include "llvm/Support/Error.h"

#include <chrono>
#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace sojourn::owner {

class Dataset;

struct ProcessOptions {
  std::string program = workerProgram();
  /// Worker processes at once, at least 2; 0: as many as a quarter of the memory holds, at 16 MiB each.
  size_t most = 0;
  /// Memory of one of them beside its program and tables, in bytes; 0: three quarters of what the machine has.
  size_t bytes = 0;
  /// How long a session waits for a process where all are busy, in milliseconds.
  int64_t waitMs = 60'000;
};

class WorkerProcesses;

/// One process. One thread at a time.
class WorkerProcess {
public:
  WorkerProcess(std::shared_ptr<WorkerProcesses> house, std::shared_ptr<Zygote> parent, ForkedWorker worker);
  /// Ends it.
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess &) = delete;
  WorkerProcess &operator=(const WorkerProcess &) = delete;

  /// RequestErrors: Execution where the process ended, Limit where it took too much memory, Stopped where it did not
  /// end in time, Internal where it broke a rule. It has ended then. Throws std::bad_alloc.
  llvm::Expected<WorkerAnswer> call(const WorkerCall &call, bool isOnce = false);
  /// A call that is not answered, before the next one that is. Ends the process where it takes no more of them.
  void notice(std::string_view bytes) noexcept;
  /// While it is idle: sends what is queued; `trims`: and has both sides give back memory that nothing uses. False
  /// where that cannot be sent: it is to end.
  bool flush(bool trims, Link::Waiting waiting) noexcept;
  /// Rows of a table, from now on; null: no longer.
  llvm::Error map(uint64_t table, const Dataset *rows);
  /// Memory for a call. Throws std::bad_alloc.
  std::shared_ptr<runtime::Buffer> room(size_t size) { return link->room(size); }
  bool isOver() const { return isEnded; }
  /// Whether it still runs, as the system says: one may have ended between calls.
  bool isAlive() const;
  pid_t pid() const { return worker.pid; }

private:
  /// Ends it; how it ended, as waitpid gives it.
  std::optional<int> end() noexcept;
  bool isTooLarge() const;
  llvm::Error problem(llvm::Error error);

  const std::shared_ptr<WorkerProcesses> house;
  const std::shared_ptr<Zygote> parent;
  ForkedWorker worker;
  std::unique_ptr<Link> link; ///< null once it has ended
  bool isEnded = false;
  enum class Why { itself, stop, memory, silence } why = Why::itself;
};

/// Whose process may be ended while it is idle: it gets another one.
class WorkerHolder {
public:
  virtual ~WorkerHolder() = default;
  /// Its process, if it is idle and no thread uses it; else null. Waits for nothing.
  virtual std::unique_ptr<WorkerProcess> giveUp() noexcept = 0;
  /// About once a second: what there is to do for an idle process. Waits for nothing. Its process, if it has to end.
  virtual std::unique_ptr<WorkerProcess> tidy(std::chrono::steady_clock::time_point now) noexcept = 0;
};

/// Thread-safe. Lives as long as one of its processes.
class WorkerProcesses : public std::enable_shared_from_this<WorkerProcesses> {
public:
  /// Starts the zygote. Before the owner's store is opened: the zygote has none of it.
  static llvm::Expected<std::shared_ptr<WorkerProcesses>> start(const ProcessOptions &options = {});
  ~WorkerProcesses();

  /// A process for the holder. Where all are in use, that of the holder that was idle longest ends; where all are
  /// busy, waits. Some are for proofs alone, for which sessions wait that have processes. RequestErrors: Limit,
  /// Stopped, Busy where the patience ends.
  llvm::Expected<std::unique_ptr<WorkerProcess>> take(WorkerHolder &holder, const runtime::StopFlag *stop,
                                                      bool isForProof = false, const Patience &patience = {});
  /// The holder has no process any more.
  void forget(WorkerHolder &holder) noexcept;
  /// The holder's process was used now.
  void used(WorkerHolder &holder) noexcept;

  unsigned threads() const { return threadCount; }
  size_t most() const { return options.most; }
  /// Processes that run now.
  size_t count() const;
  /// For tests: all of them, and the zygote.
  std::vector<pid_t> pids() const;
  pid_t zygote() const;

private:
  friend class WorkerProcess;
  explicit WorkerProcesses(const ProcessOptions &options) : options(options) {}
  /// Of the thread that looks after idle processes.
  struct Tidy {
    std::mutex mutex;
    std::condition_variable changed;
    bool isOver = false;
  };
  static void keepTidy(const std::weak_ptr<WorkerProcesses> &house, const std::shared_ptr<Tidy> &tidy);
  /// Another zygote in place of one that is gone; null where none can be started.
  std::shared_ptr<Zygote> restarted(const std::shared_ptr<Zygote> &gone);
  void ended(pid_t pid) noexcept;

  ProcessOptions options;
  unsigned threadCount = 1;
  LinkLimits links;
  mutable std::mutex mutex;
  std::condition_variable changed;
  std::mutex restart; ///< before `mutex`
  std::shared_ptr<Zygote> parent;
  std::list<WorkerHolder *> recent; ///< used last first
  std::vector<pid_t> running;
  size_t starting = 0;
  const std::shared_ptr<Tidy> tidy = std::make_shared<Tidy>();
  std::thread tidying;
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_PROCESS_PROCESSES_H
