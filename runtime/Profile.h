// SPDX-License-Identifier: Apache-2.0
// Where the time of runs goes: count, time and bytes per instruction, as a table and as a Chrome trace.
#ifndef SOJOURN_RUNTIME_PROFILE_H
#define SOJOURN_RUNTIME_PROFILE_H
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace sojourn::runtime {

/// What a profile tells of one instruction beside its times: by the program's shapes alone.
struct ProfiledInstruction {
  std::string name, op, location;
  size_t bytes = 0; ///< read and written by one run
};

/// Collects the times of runs. Thread-safe. Of runs on private tables it has counts and bytes alone, which are
/// functions of shapes: times may depend on rows.
class Profile {
public:
  Profile();
  /// As above; writes plan-<number>.txt per plan and trace.json to the folder when it goes, or else
  /// when the process exits.
  explicit Profile(std::string folder);
  ~Profile();
  Profile(const Profile &) = delete;
  Profile &operator=(const Profile &) = delete;

  /// The profile that SOJOURN_PROFILE=folder asks for, null without it. The variable is read once.
  static Profile *fromEnvironment();

  /// Per plan: its runs, then its instructions with percent, time, count and bytes, the slowest first.
  std::string table() const;
  /// One event per instruction and run, for chrome://tracing; the first million of them.
  llvm::Error writeChromeTrace(const std::string &path) const;
  /// Writes the files of a folder, which is made where it is missing.
  llvm::Error write(const std::string &folder) const;

  /// Adds one run of a plan: instruction k took from times[k] to times[k + 1], in `now`'s nanoseconds;
  /// a run that failed has fewer times, one on private tables has none. `describe` is asked once per plan.
  void add(uint64_t plan, llvm::ArrayRef<int64_t> times,
           llvm::function_ref<std::vector<ProfiledInstruction>()> describe);
  /// Nanoseconds of a steady clock.
  static int64_t now();

private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace sojourn::runtime

#endif // SOJOURN_RUNTIME_PROFILE_H
