// SPDX-License-Identifier: Apache-2.0
// Results of a joint step that all members have, between its run and its commit.
#ifndef SOJOURN_OWNER_STEPCOPIES_H
#define SOJOURN_OWNER_STEPCOPIES_H

#include "owner/WorkerStub.h"
#include "owner/peers/JointMessage.h"

#include <string>
#include <vector>

namespace sojourn::owner {

/// In the worker, under the numbers of their new values, or published.
class StepCopies final : public Copies {
public:
  /// `numbers`: per result that of its new value. All of them outlive this.
  StepCopies(WorkerStub &worker, const runtime::ProgramFacts &facts, llvm::ArrayRef<uint64_t> numbers,
             RanParts::Part &ran, std::vector<std::string> &notes);

  /// Memory that reading takes, in bytes: the largest one of a joint step.
  static size_t memoryOf(const runtime::ProgramFacts &facts);

  uint64_t bytes() const override { return all_; }
  runtime::CopiesDigest digest() const override { return done_ == all_ && isReplaced_ ? hash_.get() : ran_.copies; }
  llvm::Expected<std::shared_ptr<runtime::Buffer>> read(size_t bytes) override;
  llvm::Error replace(llvm::ArrayRef<uint8_t> bytes) override;
  void tell(std::string note) override { notes_.push_back(std::move(note)); }

private:
  /// Bytes of one result.
  struct Piece {
    uint32_t result;
    size_t offset, bytes;
    bool isFirst() const { return offset == 0; }
  };
  Piece next(size_t most);
  const runtime::TensorType &typeOf(const Piece &piece) const { return facts_.results[piece.result].type; }
  runtime::HostTensor *publishedOf(const Piece &piece) const;
  llvm::Error replaceKept(const Piece &piece, const uint8_t *from);
  llvm::Error replacePublished(const Piece &piece, runtime::HostTensor &published, const uint8_t *from);

  WorkerStub &worker_;
  const runtime::ProgramFacts &facts_;
  llvm::ArrayRef<uint64_t> numbers_;
  RanParts::Part &ran_;
  std::vector<std::string> &notes_;
  uint64_t all_ = 0, done_ = 0;              ///< bytes
  size_t copy_ = 0, offset_ = 0;             ///< of the next byte
  std::shared_ptr<runtime::Buffer> current_; ///< of the result that is read or replaced
  runtime::CopiesHash hash_;
  bool isReplaced_ = false;
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_STEPCOPIES_H
