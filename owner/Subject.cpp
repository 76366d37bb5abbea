// SPDX-License-Identifier: Apache-2.0
// Rows that share a subject are found before anything else is done with a table.
#include "owner/Subject.h"

#include "owner/Error.h"

#include <arrow/api.h>
#include <unordered_map>

namespace sojourn::owner {

using llvm::Twine;

namespace {

llvm::Error twice(const std::string &column, int64_t first, int64_t second) {
  return failure("rows " + Twine(first) + " and " + Twine(second) +
                 " (counting from 0) have the same subject in "
                 "column '" +
                 column +
                 "'; policy private protects subjects of one row: combine the rows of each "
                 "subject into one, or keep one of them");
}

template <class Array, class Key>
llvm::Error check(const arrow::ChunkedArray &values, const std::string &column) {
  std::unordered_map<Key, int64_t> seen;
  seen.reserve(static_cast<size_t>(values.length()));
  int64_t row = 0;
  for (const auto &chunk : values.chunks()) {
    auto &typed = static_cast<const Array &>(*chunk);
    for (int64_t index = 0; index < typed.length(); ++index, ++row) {
      bool isThere = typed.IsValid(index);
      if constexpr (!std::is_integral_v<Key>) {
        isThere = isThere && !typed.GetView(index).empty(); // as CSV spells it
      }
      if (!isThere) {
        return failure("row " + Twine(row) + " (counting from 0) has no subject in column '" + column +
                       "'; every row needs one");
      }
      Key key;
      if constexpr (std::is_integral_v<Key>) {
        key = static_cast<Key>(typed.Value(index));
      } else {
        key = typed.GetView(index);
      }
      if (auto [at, fresh] = seen.try_emplace(key, row); !fresh) {
        return twice(column, at->second, row);
      }
    }
  }
  return llvm::Error::success();
}

} // namespace

llvm::Error checkSubjects(const arrow::Table &table, const std::string &column) {
  auto values = table.GetColumnByName(column);
  if (!values) {
    return failure("no column '" + column + "' names the subject of each row (subject, --subject)");
  }
  switch (values->type()->id()) {
  case arrow::Type::INT8: return check<arrow::Int8Array, int64_t>(*values, column);
  case arrow::Type::INT16: return check<arrow::Int16Array, int64_t>(*values, column);
  case arrow::Type::INT32: return check<arrow::Int32Array, int64_t>(*values, column);
  case arrow::Type::INT64: return check<arrow::Int64Array, int64_t>(*values, column);
  case arrow::Type::UINT8: return check<arrow::UInt8Array, uint64_t>(*values, column);
  case arrow::Type::UINT16: return check<arrow::UInt16Array, uint64_t>(*values, column);
  case arrow::Type::UINT32: return check<arrow::UInt32Array, uint64_t>(*values, column);
  case arrow::Type::UINT64: return check<arrow::UInt64Array, uint64_t>(*values, column);
  case arrow::Type::STRING: return check<arrow::StringArray, std::string_view>(*values, column);
  case arrow::Type::LARGE_STRING: return check<arrow::LargeStringArray, std::string_view>(*values, column);
  default:
    return failure("column '" + column + "' has type " + values->type()->ToString() +
                   ", expected whole numbers or texts to tell subjects by");
  }
}

} // namespace sojourn::owner
