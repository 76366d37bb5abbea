// SPDX-License-Identifier: Apache-2.0
// A loaded table (see Dataset.h).
#include "owner/Dataset.h"

#include <unistd.h>

namespace sojourn::owner {

TableFile::~TableFile() { close(descriptor); }

Dataset::Dataset(std::string name, std::string version, int64_t rows, std::vector<Column> columns,
                 std::shared_ptr<void> storage, std::shared_ptr<const TableFile> file)
    : tableName(std::move(name)), tableVersion(std::move(version)), rowCount(rows), tableColumns(std::move(columns)),
      storage(std::move(storage)), ownFile(std::move(file)) {
  for (size_t index = 0; index < tableColumns.size(); ++index) {
    columnIndex.emplace(tableColumns[index].name, index);
  }
}

const Column *Dataset::column(const std::string &columnName) const {
  auto found = columnIndex.find(columnName);
  return found == columnIndex.end() ? nullptr : &tableColumns[found->second];
}

} // namespace sojourn::owner
