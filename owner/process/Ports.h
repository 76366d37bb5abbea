// SPDX-License-Identifier: Apache-2.0
// Workers behind processes: one for each session, and one for each program that is described and proved.
#ifndef SOJOURN_OWNER_PROCESS_PORTS_H
#define SOJOURN_OWNER_PROCESS_PORTS_H

#include "owner/process/Processes.h"
#include "owner/worker/Port.h"

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace sojourn::owner {

/// The process of a session. Begins with its first message; where it has ended, `begin` starts another one, and the
/// caller has it adopt the values.
class SessionPort final : public WorkerPort, public WorkerHolder {
public:
  explicit SessionPort(std::shared_ptr<WorkerProcesses> house) : house(std::move(house)) {}
  ~SessionPort() override;
  llvm::Expected<uint64_t> begin(const runtime::StopFlag *stop, const Patience &patience) override;
  void rest() noexcept override;
  void end() noexcept override;
  WorkerAnswer call(const WorkerCall &call) override;
  void map(uint64_t table, std::shared_ptr<const Dataset> rows) override;
  void unmap(uint64_t table) override;
  unsigned threads() const override { return house->threads(); }
  std::shared_ptr<runtime::Buffer> taken(std::shared_ptr<runtime::Buffer> value, size_t size) override;
  std::shared_ptr<runtime::Buffer> room(size_t size) override;
  std::unique_ptr<WorkerProcess> tidy(std::chrono::steady_clock::time_point now) noexcept override;
  std::unique_ptr<WorkerProcess> giveUp() noexcept override;
  /// For tests: its process; 0: none.
  pid_t pid() const;

private:
  const std::shared_ptr<WorkerProcesses> house;
  mutable std::mutex mutex;
  std::unique_ptr<WorkerProcess> process;
  uint64_t life = 0;
  bool isBusy = false; ///< from `begin` to `rest`
  bool isTrimmed = false;
  std::chrono::steady_clock::time_point rested; ///< since when it is idle
};

/// Describes and proves, each program in a process that has seen no other one and runs none: what a program does to its
/// process changes facts and verdicts of no other. A few processes stay, for the proof that follows a description.
class ProgramPort final : public WorkerPort, public WorkerHolder {
public:
  explicit ProgramPort(std::shared_ptr<WorkerProcesses> house) : house(std::move(house)) {}
  ~ProgramPort() override;
  WorkerAnswer call(const WorkerCall &call) override;
  /// Rows are the sessions'.
  void map(uint64_t, std::shared_ptr<const Dataset>) override {}
  void unmap(uint64_t) override {}
  unsigned threads() const override { return house->threads(); }
  std::unique_ptr<WorkerPort> forSession() override { return std::make_unique<SessionPort>(house); }
  std::unique_ptr<WorkerProcess> giveUp() noexcept override;
  std::unique_ptr<WorkerProcess> tidy(std::chrono::steady_clock::time_point) noexcept override { return nullptr; }

private:
  struct Kept {
    uint64_t program; ///< its code
    std::unique_ptr<WorkerProcess> process;
  };
  std::unique_ptr<WorkerProcess> find(uint64_t program);
  void keep(uint64_t program, std::unique_ptr<WorkerProcess> process);

  const std::shared_ptr<WorkerProcesses> house;
  std::mutex mutex;
  std::list<Kept> kept; ///< used last first
};

/// Of an owner that answers no client: every call fails.
WorkerFactory noWorkers();
/// Of owners that share these processes.
WorkerFactory processWorkers(std::shared_ptr<WorkerProcesses> house);

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_PROCESS_PORTS_H
