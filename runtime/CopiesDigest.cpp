// SPDX-License-Identifier: Apache-2.0
// XXH3 of blocks, then of their digests (see CopiesDigest.h).
#include "runtime/CopiesDigest.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/xxhash.h"

#include <algorithm>

namespace sojourn::runtime {

static CopiesDigest digestOf(const void *bytes, size_t size) {
  const llvm::XXH128_hash_t hash = llvm::xxh3_128bits({static_cast<const uint8_t *>(bytes), size});
  return {hash.low64, hash.high64};
}

void CopiesHash::add(const void *bytes, size_t size) {
  const auto *from = static_cast<const uint8_t *>(bytes);
  while (size > 0) {
    const bool isWhole = rest.empty() && size >= kBlock; // and need not be copied
    const size_t taken = isWhole ? kBlock : std::min(size, kBlock - rest.size());
    if (isWhole) {
      digests.push_back(digestOf(from, kBlock));
    } else {
      rest.insert(rest.end(), from, from + taken);
    }
    if (rest.size() == kBlock) {
      digests.push_back(digestOf(rest.data(), kBlock));
      rest.clear();
    }
    from += taken;
    size -= taken;
  }
}

CopiesDigest CopiesHash::get() const {
  std::vector<CopiesDigest> all = digests;
  all.push_back(digestOf(rest.data(), rest.size()));
  all.push_back({digests.size(), rest.size()});
  return digestOf(all.data(), all.size() * sizeof(CopiesDigest));
}

} // namespace sojourn::runtime
