// SPDX-License-Identifier: Apache-2.0
// A reader of NumPy's .npz archives: numeric arrays, stored or deflated. The first dimension
// counts rows.
#ifndef SOJOURN_OWNER_NPZ_H
#define SOJOURN_OWNER_NPZ_H

#include "owner/Dataset.h"
#include "owner/ImportMemory.h"

#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace sojourn::owner {

/// The arrays of an archive in file order. They point into `memory`, which lives as long.
struct NpzArrays {
  std::vector<NamedArray> arrays;
  std::vector<std::vector<uint64_t>> memory;
};

/// Sizes are held against the import's memory, and members that overlap are refused, before anything is unpacked.
llvm::Expected<NpzArrays> readNpz(const std::string &path, ImportMemory &memory);

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_NPZ_H
