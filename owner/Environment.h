// SPDX-License-Identifier: Apache-2.0
// Everything that the owner takes from the world: its clock, its randomness, its files, its log.
#ifndef SOJOURN_OWNER_ENVIRONMENT_H
#define SOJOURN_OWNER_ENVIRONMENT_H

#include "owner/worker/Port.h"

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace sojourn::owner {

/// What a step is about to do outside of every lock.
enum class Phase { planning, proving, running };

/// A line of the log. The fields beside the text are for a log that machines read; unknown ones are empty.
struct LogLine {
  template <class Text>
  requires std::convertible_to<const Text &, std::string_view> LogLine(const Text &text) : text(text) {}
  operator std::string_view() const { return text; }

  std::string_view text, event, client, request, tables, code;
};

/// The owner calls all but `entering` and the clocks one at a time.
struct Environment {
  /// Milliseconds since the epoch; leases, the programs log and the ledger read it, the ledger at any time.
  std::function<int64_t()> clockMs;
  /// Milliseconds since a fixed moment in the past, asleep or awake: a clock that nobody sets. Ages of challenges.
  std::function<int64_t()> elapsedMs;
  /// Nanoseconds of a clock that nobody sets: what runs on private rows take (ReplyTime.h).
  std::function<int64_t()> steadyNs = systemSteadyNs;
  /// Returns when `steadyNs` is `untilNs`, or the flag is set.
  std::function<void(int64_t untilNs, const std::atomic<bool> &stop)> waitUntil = systemWaitUntil;
  /// Fills a buffer with unpredictable bytes: session ids, dataset versions.
  std::function<void(void *, size_t)> randomBytes;
  /// Folder of the catalogue and of the tables; empty keeps both in memory.
  std::string storeDirectory;
  /// Told of sessions, new programs and refusals; never of a value. May be empty.
  std::function<void(const LogLine &)> log;
  /// Told of each phase of each step, on the thread that enters it; a test can hold a step here.
  /// May be empty.
  std::function<void(Phase)> entering;
  /// Makes the worker that decodes, proves and runs (owner/worker/Service.h). An owner without one answers nothing.
  WorkerFactory worker;

  /// Whether other owners of this process that are neighbours know it, and it knows them (peers/Peers.h).
  bool isNeighbour = false;

  static int64_t systemSteadyNs();
  static void systemWaitUntil(int64_t untilNs, const std::atomic<bool> &stop);
  /// The machine's own clocks and libsodium's random generator; no worker.
  static Environment system(std::string storeDirectory);
};

/// `$SOJOURN_STORE`, else `$XDG_DATA_HOME/sojourn`, else `~/.local/share/sojourn`.
std::string defaultStoreDirectory();

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_ENVIRONMENT_H
