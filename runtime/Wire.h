// SPDX-License-Identifier: Apache-2.0
// Shared by encoder and decoder: a checked program, and the debug side table. Internal to sojourn_program.
#ifndef SOJOURN_RUNTIME_WIRE_H
#define SOJOURN_RUNTIME_WIRE_H
#include "runtime/Debug_generated.h"
#include "runtime/Program.h"
#include "runtime/Program_generated.h"
#include "runtime/Tensor.h"
#include "mlir/IR/Location.h"
#include <cstring>
#include <vector>

namespace sojourn::runtime {

/// A flatbuffers vector that may be absent: absent is empty.
template <typename T>
uint32_t countOf(const flatbuffers::Vector<T> *vector) {
  return vector == nullptr ? 0 : vector->size();
}

/// Proves every rule that Program.fbs states. On success no accessor of the decoder can leave a
/// vector, and no id, range, count or number is out of bounds.
llvm::Error checkProgram(const sojourn_wire::Program &program);

/// Locations of the ops of a module, as the side table stores them.
std::string encodeDebug(llvm::ArrayRef<mlir::Location> opLocations);

/// One location per op; unknown where the table says nothing. Any inconsistency is an error.
llvm::Expected<std::vector<mlir::Location>> decodeDebug(mlir::MLIRContext &context, llvm::StringRef debug,
                                                        size_t opCount);

/// The bytes at an address that flatbuffers may read from; copied only where misaligned.
class AlignedBytes {
public:
  explicit AlignedBytes(llvm::StringRef bytes) : data_(reinterpret_cast<const uint8_t *>(bytes.data())) {
    if (reinterpret_cast<uintptr_t>(bytes.data()) % 8 != 0) {
      copy_.resize((bytes.size() + 7) / 8);
      std::memcpy(copy_.data(), bytes.data(), bytes.size());
      data_ = reinterpret_cast<const uint8_t *>(copy_.data());
    }
  }
  const uint8_t *data() const { return data_; }

private:
  std::vector<uint64_t> copy_;
  const uint8_t *data_;
};

} // namespace sojourn::runtime

#endif // SOJOURN_RUNTIME_WIRE_H
