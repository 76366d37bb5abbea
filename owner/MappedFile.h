// SPDX-License-Identifier: Apache-2.0
// Tables that rest in mapped files. A file that becomes shorter while it is mapped, or whose disk fails, would end the
// process with SIGBUS at the next read.
#ifndef SOJOURN_OWNER_MAPPEDFILE_H
#define SOJOURN_OWNER_MAPPEDFILE_H

#include <cstddef>
#include <memory>

namespace sojourn::owner {

/// Guards bytes of a mapped file: where they cannot be read they are zeros from then on, and known to be damaged. The
/// owner of the mapping is kept as long as the guard. Thread-safe. The first call installs a handler of SIGBUS, which
/// passes signals for any other address on to the handler before it.
///
/// Null if more than 65,536 files are guarded.
std::shared_ptr<void> guardMapped(const void *bytes, size_t size, std::shared_ptr<void> mapping);

/// Whether bytes at this address were found to be damaged.
bool isDamaged(const void *address);

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_MAPPEDFILE_H
