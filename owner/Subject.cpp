// SPDX-License-Identifier: Apache-2.0
// Subjects are read, and rows that share one are found, before anything else is done with a table.
#include "owner/Subject.h"

#include "owner/Error.h"

#include <arrow/api.h>
#include <charconv>
#include <limits>
#include <sodium.h>
#include <unordered_map>

namespace sojourn::owner {

using llvm::Twine;

Subjects &Subjects::operator=(Subjects &&other) noexcept {
  std::swap(texts, other.texts); // the other one wipes what was here
  std::swap(ends, other.ends);
  return *this;
}

void Subjects::wipe() { sodium_memzero(texts.data(), texts.size()); }

std::string_view Subjects::operator[](int64_t row) const {
  auto at = static_cast<size_t>(row);
  size_t begin = at == 0 ? 0 : ends[at - 1];
  return {texts.data() + begin, ends[at] - begin};
}

void Subjects::add(std::string_view text) {
  size_t size = texts.size() + text.size();
  if (size > texts.capacity()) { // by hand, as a vector would leave the old copy behind
    std::vector<char> larger;
    larger.reserve(std::max<size_t>(2 * size, 4096));
    larger.assign(texts.begin(), texts.end());
    wipe();
    texts = std::move(larger);
  }
  texts.insert(texts.end(), text.begin(), text.end());
  ends.push_back(size);
}

namespace {

/// Without white space around it, whatever the locale says of that.
std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\n\v\f\r";
  size_t begin = text.find_first_not_of(kSpaces);
  return begin == std::string_view::npos ? std::string_view()
                                         : text.substr(begin, text.find_last_not_of(kSpaces) + 1 - begin);
}

template <class Array>
llvm::Expected<Subjects> read(const arrow::ChunkedArray &values, const std::string &column) {
  Subjects subjects;
  for (const auto &chunk : values.chunks()) {
    auto &typed = static_cast<const Array &>(*chunk);
    for (int64_t index = 0; index < typed.length(); ++index) {
      char digits[std::numeric_limits<uint64_t>::digits10 + 2];
      std::string_view text;
      if (typed.IsValid(index)) {
        if constexpr (requires { typed.Value(index) + 1; }) {
          text = {digits, std::to_chars(digits, std::end(digits), typed.Value(index)).ptr};
        } else {
          text = trimmed(typed.GetView(index));
        }
      }
      if (text.empty()) { // as CSV spells that there is none
        return failure("row " + Twine(subjects.size()) + " (counting from 0) has no subject in column '" + column +
                       "'; every row needs one");
      }
      subjects.add(text);
    }
  }
  return subjects;
}

llvm::Expected<Subjects> readTyped(const arrow::ChunkedArray &values, const std::string &column) {
  switch (values.type()->id()) {
  case arrow::Type::INT8: return read<arrow::Int8Array>(values, column);
  case arrow::Type::INT16: return read<arrow::Int16Array>(values, column);
  case arrow::Type::INT32: return read<arrow::Int32Array>(values, column);
  case arrow::Type::INT64: return read<arrow::Int64Array>(values, column);
  case arrow::Type::UINT8: return read<arrow::UInt8Array>(values, column);
  case arrow::Type::UINT16: return read<arrow::UInt16Array>(values, column);
  case arrow::Type::UINT32: return read<arrow::UInt32Array>(values, column);
  case arrow::Type::UINT64: return read<arrow::UInt64Array>(values, column);
  case arrow::Type::STRING: return read<arrow::StringArray>(values, column);
  case arrow::Type::LARGE_STRING: return read<arrow::LargeStringArray>(values, column);
  default:
    return failure("column '" + column + "' has type " + values.type()->ToString() +
                   ", expected whole numbers or texts as subjects");
  }
}

} // namespace

llvm::Expected<Subjects> readSubjects(const arrow::Table &table, const std::string &column) {
  auto values = table.GetColumnByName(column);
  if (!values) {
    return failure("unknown column '" + column + "' for the subject of each row (subject, --subject)");
  }
  auto subjects = readTyped(*values, column);
  if (!subjects) {
    return subjects.takeError();
  }
  std::unordered_map<std::string_view, int64_t> seen;
  seen.reserve(static_cast<size_t>(subjects->size()));
  for (int64_t row = 0; row < subjects->size(); ++row) {
    if (auto [at, fresh] = seen.try_emplace((*subjects)[row], row); !fresh) {
      return failure("rows " + Twine(at->second) + " and " + Twine(row) +
                     " (counting from 0) have the same subject in column '" + column +
                     "'; policy private needs one row per subject: combine the rows of each subject into one, or keep "
                     "one of them");
    }
  }
  return subjects;
}

} // namespace sojourn::owner
