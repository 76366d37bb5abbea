// SPDX-License-Identifier: Apache-2.0
// A pool of Arrow with a limit.
#include "owner/ImportMemory.h"

#include "owner/Budget.h"
#include "owner/Error.h"

#include <algorithm>
#include <deque>
#include <mutex>

namespace sojourn::owner {

using llvm::Twine;

/// No allocation for a block of text is larger.
static constexpr int64_t kBlockMost = int64_t{1} << 30;

static int64_t defaultLimit() {
  return static_cast<int64_t>(std::min<size_t>(machineBytes() / 4 * 3, static_cast<size_t>(INT64_MAX)));
}

ImportMemory::ImportMemory(int64_t limit)
    : base(*arrow::default_memory_pool()), most(limit > 0 ? limit : defaultLimit()) {}

ImportMemory &ImportMemory::lasting(int64_t limit) {
  static auto &all = *new std::deque<ImportMemory>;
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  return all.emplace_back(limit);
}

bool ImportMemory::charge(int64_t bytes) {
  int64_t before = used;
  do {
    if (bytes < 0 || bytes > most - before) {
      return false;
    }
  } while (!used.compare_exchange_weak(before, before + bytes));
  total += bytes;
  ++allocations;
  int64_t high = highest;
  while (high < before + bytes && !highest.compare_exchange_weak(high, before + bytes)) {
  }
  return true;
}

bool ImportMemory::admit(int64_t bytes) {
  if (charge(bytes)) {
    return true;
  }
  if (!stops || bytes < 0 || bytes > kBlockMost) {
    return false;
  }
  used += bytes;
  stop.RequestStop(arrow::Status::OutOfMemory("the limit of an import"));
  return true;
}

llvm::Error ImportMemory::check(int64_t bytes, const Twine &what) const {
  const int64_t now = used;
  if (bytes >= 0 && bytes <= most - now) {
    return llvm::Error::success();
  }
  return failure(what + " " + Twine(bytes) + " bytes of memory" +
                 (now > 0 ? " beside " + std::to_string(now) + " in use" : std::string()) +
                 ", the limit of an import is " + Twine(most) +
                 "; leave columns out or split the file, or set another limit (--max-bytes)");
}

llvm::Error ImportMemory::take(int64_t bytes, const Twine &what) {
  return charge(bytes) ? llvm::Error::success() : check(bytes, what);
}

std::string ImportMemory::full() const {
  return "it takes more than " + std::to_string(most) +
         " bytes of memory, the limit of an import; leave columns out or split the file, or set another limit "
         "(--max-bytes)";
}

arrow::Status ImportMemory::Allocate(int64_t size, int64_t alignment, uint8_t **out) {
  if (!admit(size)) {
    return arrow::Status::OutOfMemory("the limit of an import");
  }
  arrow::Status status = base.Allocate(size, alignment, out);
  if (!status.ok()) {
    used -= size;
  }
  return status;
}

arrow::Status ImportMemory::Reallocate(int64_t before, int64_t after, int64_t alignment, uint8_t **memory) {
  const int64_t more = std::max<int64_t>(after - before, 0);
  if (!admit(more)) {
    return arrow::Status::OutOfMemory("the limit of an import");
  }
  arrow::Status status = base.Reallocate(before, after, alignment, memory);
  used -= !status.ok() ? more : std::max<int64_t>(before - after, 0);
  return status;
}

void ImportMemory::Free(uint8_t *memory, int64_t size, int64_t alignment) {
  base.Free(memory, size, alignment);
  used -= size;
}

} // namespace sojourn::owner
