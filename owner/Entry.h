// SPDX-License-Identifier: Apache-2.0
// What one row of a column holds: a number, or an array of fixed sizes. How Arrow spells it.
#ifndef SOJOURN_OWNER_ENTRY_H
#define SOJOURN_OWNER_ENTRY_H

#include "runtime/HostTensor.h"

#include "llvm/Support/Error.h"

#include <memory>
#include <string>
#include <vector>

namespace arrow {
class Array;
class DataType;
class Field;
} // namespace arrow

namespace sojourn::owner {

/// Element and sizes of one row's entry; no sizes for a number.
struct Entry {
  runtime::Element element;
  std::vector<int64_t> dims;
};

/// The number of elements of an entry of these sizes.
int64_t entryElements(llvm::ArrayRef<int64_t> dims);

/// "f64", "28x28xu8".
std::string entryText(runtime::Element element, llvm::ArrayRef<int64_t> dims);

/// Holds an entry's sizes against the bounds of runtime/Limits.h; the error names the column.
llvm::Error checkEntry(const std::string &column, llvm::ArrayRef<int64_t> dims);

/// What a column of this Arrow type is kept as. Fixed-size lists, nested ones too, give the sizes;
/// narrow floats and unsigned integers widen; nothing that would lose a value is accepted.
llvm::Expected<Entry> storedEntry(const arrow::Field &field);

/// The type of nested fixed-size lists around `element`, the first size outermost.
std::shared_ptr<arrow::DataType> nestedType(std::shared_ptr<arrow::DataType> element, llvm::ArrayRef<int64_t> dims);
/// The same around an array of rows times the entry's elements.
std::shared_ptr<arrow::Array> nestedArray(std::shared_ptr<arrow::Array> elements, llvm::ArrayRef<int64_t> dims);

/// The elements of an array inside its fixed-size lists, in row-major order.
struct Elements {
  std::shared_ptr<arrow::Array> values;
  /// A list that lacks a value, with the number of elements that each of its entries covers.
  struct Gaps {
    std::shared_ptr<arrow::Array> lists;
    int64_t span = 1;
  };
  std::vector<Gaps> gaps;

  /// Whether no list around element `index` is missing.
  bool covers(int64_t index) const;
};
Elements elementsOf(std::shared_ptr<arrow::Array> array);

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_ENTRY_H
