// SPDX-License-Identifier: Apache-2.0
// Entries of fixed sizes, and the nested fixed-size lists of Arrow that hold them.
#include "owner/Entry.h"

#include "dialect/Bounds.h"
#include "owner/Error.h"
#include "runtime/Limits.h"

#include <arrow/api.h>

namespace sojourn::owner {

using bounds::kEntryElements;
using bounds::kEntryRank;
using llvm::Twine;
using runtime::Element;

int64_t entryElements(llvm::ArrayRef<int64_t> dims) {
  int64_t elements = 1;
  for (int64_t dim : dims) {
    elements *= dim;
  }
  return elements;
}

std::string entryText(Element element, llvm::ArrayRef<int64_t> dims) {
  std::string text;
  for (int64_t dim : dims) {
    text += std::to_string(dim) + "x";
  }
  return text + std::string(runtime::elementName(element));
}

llvm::Error checkEntry(const std::string &column, llvm::ArrayRef<int64_t> dims) {
  if (dims.size() > kEntryRank) {
    return failure("column '" + column + "' has entries of " + Twine(dims.size()) + " dimensions, the limit is " +
                   Twine(kEntryRank) + "; reshape them");
  }
  int64_t elements = 1;
  for (int64_t dim : dims) {
    if (dim < 1) {
      return failure("column '" + column + "' has entries with a dimension of size " + Twine(dim) +
                     ", expected at least 1; leave the column out (columns, --columns)");
    }
    if (dim > kEntryElements / elements) {
      return failure("column '" + column + "' has entries of more than " + Twine(kEntryElements) +
                     " elements, the limit per row; split the column");
    }
    elements *= dim;
  }
  return llvm::Error::success();
}

static std::optional<Element> storedElement(const arrow::DataType &type) {
  switch (type.id()) {
  case arrow::Type::BOOL: return Element::i1;
  case arrow::Type::UINT8: return Element::u8;
  case arrow::Type::INT8: return Element::i8;
  case arrow::Type::INT16: return Element::i16;
  case arrow::Type::UINT16:
  case arrow::Type::INT32: return Element::i32;
  case arrow::Type::UINT32:
  case arrow::Type::INT64: return Element::i64;
  case arrow::Type::HALF_FLOAT:
  case arrow::Type::FLOAT: return Element::f32;
  case arrow::Type::NA: // a column without any value: its fill decides
  case arrow::Type::DOUBLE: return Element::f64;
  default: return std::nullopt;
  }
}

llvm::Expected<Entry> storedEntry(const arrow::Field &field) {
  const std::string &name = field.name();
  const arrow::DataType *type = field.type().get();
  if (type->id() == arrow::Type::EXTENSION ||
      (field.HasMetadata() && field.metadata()->Contains("ARROW:extension:name"))) {
    return failure("column '" + name + "' has type " + type->ToString() +
                   ", an unsupported extension type; save it as plain numbers or as nested fixed-size "
                   "lists");
  }
  Entry entry{};
  // One level more than is allowed, for the error to count.
  while (type->id() == arrow::Type::FIXED_SIZE_LIST && entry.dims.size() <= kEntryRank) {
    auto &list = static_cast<const arrow::FixedSizeListType &>(*type);
    entry.dims.push_back(list.list_size());
    type = list.value_type().get();
  }
  if (llvm::Error error = checkEntry(name, entry.dims)) {
    return error;
  }
  if (auto element = storedElement(*type)) {
    entry.element = *element;
    return entry;
  }
  switch (type->id()) {
  case arrow::Type::LIST:
  case arrow::Type::LARGE_LIST:
    return failure(
        "column '" + name + "' has type " + field.type()->ToString() +
        ", whose rows may differ in length; cast it to fixed-size lists, so that all rows have one shape, or "
        "name the columns to keep (columns, --columns)");
  default:
    return failure("column '" + name + "' has type " + field.type()->ToString() +
                   ", expected booleans, integers up to int64, floats, decimals, texts, dates or times; encode it as "
                   "numbers, or name the columns to keep (columns, --columns)");
  }
}

std::shared_ptr<arrow::DataType> nestedType(std::shared_ptr<arrow::DataType> element, llvm::ArrayRef<int64_t> dims) {
  for (int64_t dim : llvm::reverse(dims)) {
    element = arrow::fixed_size_list(arrow::field("item", element, /*nullable=*/false), static_cast<int32_t>(dim));
  }
  return element;
}

std::shared_ptr<arrow::Array> nestedArray(std::shared_ptr<arrow::Array> elements, llvm::ArrayRef<int64_t> dims) {
  for (int64_t dim : llvm::reverse(dims)) {
    auto type =
        arrow::fixed_size_list(arrow::field("item", elements->type(), /*nullable=*/false), static_cast<int32_t>(dim));
    elements =
        arrow::MakeArray(arrow::ArrayData::Make(type, elements->length() / dim, {nullptr}, {elements->data()}, 0));
  }
  return elements;
}

bool Elements::covers(int64_t index) const {
  return llvm::all_of(gaps, [&](const Gaps &gap) { return gap.lists->IsValid(index / gap.span); });
}

Elements elementsOf(std::shared_ptr<arrow::Array> array) {
  Elements elements;
  while (array->type_id() == arrow::Type::FIXED_SIZE_LIST) {
    auto &list = static_cast<const arrow::FixedSizeListArray &>(*array);
    int64_t size = list.value_length();
    for (Elements::Gaps &gap : elements.gaps) {
      gap.span *= size;
    }
    if (list.null_count() > 0) {
      elements.gaps.push_back({array, size});
    }
    array = list.values()->Slice(list.value_offset(0), list.length() * size);
  }
  elements.values = std::move(array);
  return elements;
}

} // namespace sojourn::owner
