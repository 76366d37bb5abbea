// SPDX-License-Identifier: Apache-2.0
// Reading rows of a loaded table (see TableRows.h).
#include "owner/worker/TableRows.h"

#include <algorithm>
#include <cstring>

namespace sojourn::owner {

namespace {

/// Rows are read in blocks that stay in the first cache.
constexpr size_t kBlock = 256;
constexpr size_t kWidest = 16;

template <class Word>
void gatherWords(const void *column, int64_t rows, llvm::ArrayRef<int64_t> indices, void *out) {
  auto *source = static_cast<const Word *>(column);
  auto *target = static_cast<Word *>(out);
  for (int64_t row : indices) {
    *target++ = row >= 0 && row < rows ? source[row] : Word(0);
  }
}

/// out[i] = column[indices[i]], or zero bytes, which are zero in every element.
void gather(const Column &column, int64_t rows, llvm::ArrayRef<int64_t> indices, void *out) {
  switch (runtime::byteWidth(column.element)) {
  case 1: return gatherWords<uint8_t>(column.data, rows, indices, out);
  case 2: return gatherWords<uint16_t>(column.data, rows, indices, out);
  case 4: return gatherWords<uint32_t>(column.data, rows, indices, out);
  case 8: return gatherWords<uint64_t>(column.data, rows, indices, out);
  default: std::memset(out, 0, indices.size() * kWidest); // no column is complex
  }
}

template <class Word>
void scatterWords(const void *values, size_t count, void *out, size_t stride) {
  auto *source = static_cast<const Word *>(values);
  auto *target = static_cast<Word *>(out);
  for (size_t index = 0; index < count; ++index) {
    target[index * stride] = source[index];
  }
}

/// out[i * stride] = values[i], both of `width` bytes per element.
void scatter(const void *values, size_t count, size_t width, void *out, size_t stride) {
  switch (width) {
  case 1: return scatterWords<uint8_t>(values, count, out, stride);
  case 2: return scatterWords<uint16_t>(values, count, out, stride);
  case 4: return scatterWords<uint32_t>(values, count, out, stride);
  case 8: return scatterWords<uint64_t>(values, count, out, stride);
  default:
    for (size_t index = 0; index < count; ++index) {
      std::memcpy(static_cast<uint8_t *>(out) + index * stride * width,
                  static_cast<const uint8_t *>(values) + index * width, width);
    }
  }
}

/// Entries of a shaped column, one after another, converted as they are copied.
void readEntries(const Column &column, int64_t rows, llvm::ArrayRef<int64_t> indices, runtime::Element element,
                 void *out) {
  int64_t count = 1;
  for (int64_t dim : column.dims) {
    count *= dim;
  }
  size_t from = static_cast<size_t>(count) * runtime::byteWidth(column.element);
  size_t to = static_cast<size_t>(count) * runtime::byteWidth(element);
  auto *target = static_cast<uint8_t *>(out);
  for (int64_t row : indices) {
    if (row < 0 || row >= rows || !column.data || runtime::isComplex(element)) {
      std::memset(target, 0, to);
    } else {
      const uint8_t *source = static_cast<const uint8_t *>(column.data) + static_cast<size_t>(row) * from;
      if (column.element == element) {
        std::memcpy(target, source, to);
      } else {
        runtime::convertElements(column.element, source, element, target, count);
      }
    }
    target += to;
  }
}

} // namespace

void TableRows::readRows(llvm::ArrayRef<std::string> columnNames, llvm::ArrayRef<int64_t> indices,
                         runtime::Element element, void *out) const {
  const int64_t rowCount = dataset->rows();
  alignas(64) uint8_t stored[kBlock * kWidest], converted[kBlock * kWidest];
  size_t width = runtime::byteWidth(element), stride = columnNames.size();
  if (const Column *single = stride == 1 ? dataset->column(columnNames[0]) : nullptr; single && !single->dims.empty()) {
    return readEntries(*single, rowCount, indices, element, out);
  }
  for (size_t position = 0; position < stride; ++position) {
    const Column *found = dataset->column(columnNames[position]);
    for (size_t begin = 0; begin < indices.size(); begin += kBlock) {
      auto block = indices.slice(begin, std::min(kBlock, indices.size() - begin));
      const uint8_t *values = stored;
      // The owner checks the columns of every step, no column converts to complex numbers, and shaped
      // columns are read alone: zeros keep the read total all the same.
      if (!found || !found->data || !found->dims.empty() || runtime::isComplex(element)) {
        std::memset(stored, 0, sizeof(stored));
      } else {
        gather(*found, rowCount, block, stored);
        if (found->element != element) {
          runtime::convertElements(found->element, stored, element, converted, static_cast<int64_t>(block.size()));
          values = converted;
        }
      }
      scatter(values, block.size(), width, static_cast<uint8_t *>(out) + (begin * stride + position) * width, stride);
    }
  }
}

} // namespace sojourn::owner
