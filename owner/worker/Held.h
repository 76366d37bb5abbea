// SPDX-License-Identifier: Apache-2.0
// Codes, values, tables and suspended runs of a worker, by number. Internal to owner/worker.
#ifndef SOJOURN_OWNER_WORKER_HELD_H
#define SOJOURN_OWNER_WORKER_HELD_H

#include "owner/worker/Port.h"
#include "owner/worker/TableRows.h"
#include "owner/worker/Worker.h"
#include "runtime/facts/PrivateTerms.h"

#include "llvm/ADT/ArrayRef.h"

#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

namespace sojourn::owner {

/// One of both.
struct HeldCode {
  std::shared_ptr<const ProgramCode> program;
  struct Private {
    std::shared_ptr<const PrivateCode> code;
    runtime::PrivateTerms terms;
    bool hasVaryingErrors = false; ///< whether an argument changes a standard error
  };
  std::shared_ptr<const Private> proved;
};

/// A value, or an upload of which parts have come: its type is that of the argument that it is bound to.
struct HeldValue {
  runtime::HostTensor tensor;
  bool isUpload = false, isBits = true;
  size_t received = 0; ///< of an upload
};

/// Each kind by the front's numbers. Guards itself; what goes is freed outside of the locks.
class HeldThings {
public:
  HeldCode code(uint64_t id) const;
  void insertCode(uint64_t id, HeldCode code);

  std::shared_ptr<const TableRows> table(uint64_t id) const;
  void insertTable(uint64_t id, std::shared_ptr<const TableRows> rows);
  void removeTable(uint64_t id);

  /// The memory of a value of this type, or of a whole upload; null where there is none.
  std::shared_ptr<runtime::Buffer> buffer(uint64_t id, const runtime::TensorType &type) const;
  /// The memory of values; null where one is dropped, or its number is 0.
  Memory memoryOf(llvm::ArrayRef<uint64_t> ids) const;
  /// False where one of the numbers is in use; then none is inserted.
  bool insertValues(std::vector<std::pair<uint64_t, HeldValue>> values);
  /// Takes in a part of an upload: the upload as it stands then; nothing where the part lies outside of it, or the
  /// number is that of another value.
  std::optional<HeldValue> put(uint64_t id, size_t size, size_t offset, llvm::ArrayRef<uint8_t> part,
                               runtime::BufferPool &buffers);

  /// Needs no memory.
  void drop(llvm::ArrayRef<uint64_t> values, llvm::ArrayRef<uint64_t> codes) noexcept;
  size_t valueCount() const;
  size_t codeCount() const;

private:
  mutable std::shared_mutex codesMutex;
  std::unordered_map<uint64_t, HeldCode> codes;
  std::unordered_map<uint64_t, std::shared_ptr<const TableRows>> tables; ///< under `codesMutex`
  mutable std::mutex valuesMutex;
  std::unordered_map<uint64_t, HeldValue> values;
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_WORKER_HELD_H
