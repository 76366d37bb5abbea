// SPDX-License-Identifier: Apache-2.0
// Columns side by side.
#include "owner/TextTable.h"

#include "llvm/ADT/StringRef.h"

#include <algorithm>
#include <cstdio>
#include <ctime>

namespace sojourn::owner {

void printTable(llvm::ArrayRef<std::vector<std::string>> rows, llvm::raw_ostream &out) {
  std::vector<size_t> widths(rows.front().size());
  for (const auto &row : rows) {
    for (size_t index = 0; index < row.size(); ++index) {
      widths[index] = std::max(widths[index], row[index].size());
    }
  }
  for (const auto &row : rows) {
    std::string line;
    for (size_t index = 0; index < row.size(); ++index) {
      line += row[index] + std::string(widths[index] + 2 - row[index].size(), ' ');
    }
    out << llvm::StringRef(line).rtrim() << '\n';
    if (&row == &rows.front()) {
      size_t total = 0;
      for (size_t width : widths) {
        total += width + 2;
      }
      out << std::string(total - 2, '-') << '\n';
    }
  }
}

std::string timeText(int64_t milliseconds) {
  auto seconds = static_cast<std::time_t>(milliseconds / 1000);
  std::tm local{};
  localtime_r(&seconds, &local);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &local);
  return text;
}

std::string shortText(double number) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g", number);
  return text;
}

} // namespace sojourn::owner
