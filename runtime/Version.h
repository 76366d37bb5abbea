// SPDX-License-Identifier: Apache-2.0
// The version of the program format, for encoder, decoder and client. The other two: dialect/Version.h and
// runtime/wire/Protocol.h; owner/numpy reads all from sojourn_wire.format, which the build writes.
#ifndef SOJOURN_RUNTIME_VERSION_H
#define SOJOURN_RUNTIME_VERSION_H
#include <cstdint>

namespace sojourn::runtime {

/// Version of the envelope and of the generic op record. See runtime/README.md for the promise.
inline constexpr uint32_t kFormatVersion = 3;
/// Bits of a program's `features`: what a reader must understand.
inline constexpr uint64_t kFeatureParties = 1;
/// Oldest format that decodeProgram reads.
inline constexpr uint32_t kOldestFormatVersion = 3;

} // namespace sojourn::runtime

#endif // SOJOURN_RUNTIME_VERSION_H
