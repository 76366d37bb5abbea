// SPDX-License-Identifier: Apache-2.0
// A worker behind bytes: calls (runtime/wire/Worker.fbs) in, answers out, in this process. It holds codes, values and
// tables by the numbers that the front gives.
#ifndef SOJOURN_OWNER_WORKER_SERVICE_H
#define SOJOURN_OWNER_WORKER_SERVICE_H

#include "owner/worker/Port.h"
#include "runtime/Engine.h"

#include <memory>

namespace sojourn::runtime {
class Profile;
} // namespace sojourn::runtime

namespace sojourn::owner {

struct WorkerOptions {
  runtime::Profile *profile = nullptr; ///< gets the times of instructions, and outlives the worker
  /// Whether values lie in memory files, which another process can map (runtime::BufferPool). Within one process it
  /// would only use up descriptors.
  bool sharesMemory = false;
};

/// Bytes may be anything: what is no call is answered by a Failure of code Malformed.
class WorkerService final : public WorkerPort {
public:
  explicit WorkerService(const runtime::Engine &engine, const WorkerOptions &options = {});
  ~WorkerService() override;
  WorkerAnswer call(const WorkerCall &call) override;
  void map(uint64_t table, std::shared_ptr<const Dataset> rows) override;
  void unmap(uint64_t table) override;
  unsigned threads() const override;
  /// Of values.
  runtime::BufferPool &buffers();
  /// Gives the system memory that no value and no run uses.
  void trim();

  /// For tests: values, codes and suspended runs that it holds.
  struct Held {
    size_t values = 0, codes = 0, runs = 0;
  };
  Held held() const;

private:
  struct State;
  const std::unique_ptr<State> state;
};

/// Of workers on an engine, which outlives them.
WorkerFactory workersOn(const runtime::Engine &engine, const WorkerOptions &options = {});
/// On the engine of this process.
WorkerFactory cpuWorkers(const WorkerOptions &options = {});

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_WORKER_SERVICE_H
