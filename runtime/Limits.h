// SPDX-License-Identifier: Apache-2.0
// Bounds on programs and on what a run of one may take; of types and values: dialect/Bounds.h, of an owner:
// owner/Limits.h. A reader refuses what exceeds one with ErrorCode::Limit and names the bound.
#ifndef SOJOURN_RUNTIME_LIMITS_H
#define SOJOURN_RUNTIME_LIMITS_H
#include "dialect/Bounds.h"
#include <cstddef>
#include <cstdint>

namespace sojourn::runtime::limits {

using namespace sojourn::bounds;

// --- Program bytes -------------------------------------------------------------------------------
inline constexpr size_t kProgramBytes = 64u << 20;
inline constexpr size_t kDebugBytes = 64u << 20;
inline constexpr uint32_t kFlatBufferDepth = 16;
inline constexpr uint32_t kFlatBufferTables = 70'000;

// --- Program counts ------------------------------------------------------------------------------
inline constexpr size_t kOps = 200'000;
inline constexpr size_t kValues = 400'000;
inline constexpr size_t kArguments = 65'536;
inline constexpr size_t kResults = 65'536;
inline constexpr size_t kOperandsPerOp = 4'096;
inline constexpr size_t kAttributesPerOp = 32;
inline constexpr size_t kStrings = 65'536;
inline constexpr size_t kStringBytes = 65'536;
inline constexpr size_t kTypes = 400'000;
inline constexpr size_t kTables = 64;
/// Of all arguments in parts together: lists of segments, and segments.
inline constexpr size_t kPartsOfArguments = 65'536;
inline constexpr size_t kIntegers = 4'000'000;
inline constexpr size_t kLocations = 1'000'000;
inline constexpr size_t kLocationDepth = 64;
/// Texts of one program, counted at every use; texts of one debug table.
inline constexpr size_t kTextBytes = 64u << 20;
/// Names of ops and attributes.
inline constexpr size_t kOpNameBytes = 256;
/// A list of integers has one per dim.
inline constexpr size_t kIntegersPerAttribute = 64;
/// One file name or hint of a debug table (encoders cut longer ones), and one place as text.
inline constexpr size_t kFileNameBytes = 4'096;
inline constexpr size_t kLocationTextBytes = 1'000;

// --- Values --------------------------------------------------------------------------------------
/// Sum of the bytes of all values of one program, had none of them shared memory.
inline constexpr int64_t kSumOfValueBytes = int64_t{1} << 42;
/// What one program may ask for at once: the planned arena, and its results.
inline constexpr int64_t kArenaBytes = int64_t{1} << 36;
inline constexpr int64_t kResultBytes = int64_t{1} << 36;

// --- Messages, for both sides ----------------------------------------------------------------------
/// Names of datasets, columns and clients.
inline constexpr size_t kNameBytes = 256;
/// One text of an Error reply; longer ones are cut.
inline constexpr size_t kErrorTextBytes = 4'000;

// --- Memory kept for reuse ------------------------------------------------------------------------
inline constexpr size_t kIdlePoolBytes = size_t{1} << 30;
/// Arenas that no run uses, and run contexts (never arenas) that one plan keeps.
inline constexpr size_t kIdleArenaBytes = size_t{512} << 20;
inline constexpr size_t kIdleContexts = 4;

} // namespace sojourn::runtime::limits

#endif // SOJOURN_RUNTIME_LIMITS_H
