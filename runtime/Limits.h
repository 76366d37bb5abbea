// SPDX-License-Identifier: Apache-2.0
// Every bound on what may arrive from outside, in one place. A reader refuses what exceeds one
// with ErrorCode::Limit and names the bound.
#pragma once
#include <cstddef>
#include <cstdint>

namespace sojourn::runtime::limits {

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
inline constexpr size_t kRank = 16;
inline constexpr size_t kTables = 64;
inline constexpr size_t kColumns = 65'536;
inline constexpr size_t kIntegers = 4'000'000;
inline constexpr size_t kLocations = 1'000'000;
inline constexpr size_t kLocationDepth = 64;

// --- Values --------------------------------------------------------------------------------------
inline constexpr int64_t kDimension = int64_t{1} << 40;
inline constexpr int64_t kValueElements = int64_t{1} << 32;
inline constexpr int64_t kValueBytes = int64_t{1} << 34;
/// Sum of the bytes of all values of one program, had none of them shared memory.
inline constexpr int64_t kSumOfValueBytes = int64_t{1} << 42;
/// What one program may ask for at once: the planned arena, and its results.
inline constexpr int64_t kArenaBytes = int64_t{1} << 36;
inline constexpr int64_t kResultBytes = int64_t{1} << 36;
inline constexpr int64_t kTableRows = int64_t{1} << 32;

// --- Messages (owner/) ---------------------------------------------------------------------------
inline constexpr size_t kRequestBytes = size_t{1} << 30;
inline constexpr size_t kReplyBytes = size_t{1} << 30;
inline constexpr size_t kNameBytes = 256;

// --- Memory kept for reuse ------------------------------------------------------------------------
inline constexpr size_t kIdlePoolBytes = size_t{1} << 30;

} // namespace sojourn::runtime::limits
