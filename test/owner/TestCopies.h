// SPDX-License-Identifier: Apache-2.0
// Copies of a joint step as bytes of a test.
#ifndef SOJOURN_TEST_OWNER_TESTCOPIES_H
#define SOJOURN_TEST_OWNER_TESTCOPIES_H

#include "owner/RequestError.h"
#include "owner/peers/JointMessage.h"

#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sojourn::owner::test {

class TestCopies final : public Copies {
public:
  explicit TestCopies(std::vector<uint8_t> data = {}) : data(std::move(data)) {}

  uint64_t bytes() const override { return data.size(); }
  runtime::CopiesDigest digest() const override {
    runtime::CopiesHash hash;
    hash.add(data.data(), data.size());
    return said.value_or(data.empty() ? runtime::CopiesDigest() : hash.get()); // as of a step without copies
  }
  llvm::Expected<std::shared_ptr<runtime::Buffer>> read(size_t size) override {
    if (fails) {
      return failure();
    }
    next += size;
    return runtime::copyOf(data.data() + next - size, size);
  }
  llvm::Error replace(llvm::ArrayRef<uint8_t> other) override {
    if (fails) {
      return failure();
    }
    if (!other.empty()) {
      std::memcpy(data.data() + next, other.data(), other.size());
    }
    next += other.size();
    said = saidAfter;
    return llvm::Error::success();
  }
  void tell(std::string note) override { notes.push_back(std::move(note)); }

  std::vector<uint8_t> data;
  std::vector<std::string> notes;
  std::optional<runtime::CopiesDigest> said, saidAfter; ///< in the place of the digest; once bytes were taken over
  bool fails = false;                                   ///< to read and to replace
  size_t next = 0;

private:
  static llvm::Error failure() { return requestError(sojourn_wire::ErrorCode_Internal, "copies that fail"); }
};

} // namespace sojourn::owner::test

#endif // SOJOURN_TEST_OWNER_TESTCOPIES_H
