// SPDX-License-Identifier: Apache-2.0
// A disk that kills the process at its n-th write, sync, truncation, removal or creation: SQLite's
// through a layer under it, the head's through its hook.
#ifndef SOJOURN_TEST_OWNER_LEDGER_FAULTDISK_H
#define SOJOURN_TEST_OWNER_LEDGER_FAULTDISK_H

#include <cstddef>
#include <cstdint>
#include <string>

namespace sojourn::owner::ledger::test::fault {

enum class Mode {
  kill, ///< SIGKILL: what was written stays
  power ///< a power cut: of what was written since a file's last sync, a random part stays
};

/// Makes the layer SQLite's default. Once per process.
void install();
/// Dies before the `at`-th operation from now on; 0: never, but counts.
void arm(long at, Mode mode, uint64_t seed);
/// Operations since `arm`.
long count();
/// A DiskHook.
void operation(const char *kind, const std::string &path, int64_t offset, size_t size);

} // namespace sojourn::owner::ledger::test::fault

#endif // SOJOURN_TEST_OWNER_LEDGER_FAULTDISK_H
