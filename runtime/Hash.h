// SPDX-License-Identifier: Apache-2.0
// Hashes of content. Knows neither MLIR nor torch.
#ifndef SOJOURN_RUNTIME_HASH_H
#define SOJOURN_RUNTIME_HASH_H
#include "llvm/ADT/StringRef.h"
#include <array>
#include <cstdint>
#include <string>

namespace sojourn::runtime {

/// BLAKE2b-256.
using ProgramHash = std::array<uint8_t, 32>;

ProgramHash hashProgram(llvm::StringRef bytes);

/// Lower-case hexadecimal text of a hash.
std::string toHex(const ProgramHash &hash);

} // namespace sojourn::runtime

#endif // SOJOURN_RUNTIME_HASH_H
