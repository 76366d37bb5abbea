// SPDX-License-Identifier: Apache-2.0
// A session's worker: its lives, and what it has learned in the present one (see WorkerStub.h).
#include "owner/Dataset.h"
#include "owner/WorkerStub.h"

#include "llvm/ADT/STLExtras.h"

namespace sojourn::owner {

std::unique_ptr<WorkerStub> WorkerStub::forSession() {
  auto own = port ? port->forSession() : nullptr;
  return own ? std::unique_ptr<WorkerStub>(new WorkerStub(std::move(own), nextId)) : nullptr;
}

llvm::Expected<bool> WorkerStub::begin(const runtime::StopFlag *stop, const Patience &patience) {
  auto begun = port->begin(stop, patience);
  if (!begun) {
    return begun.takeError();
  }
  const bool isNew = isOfSession && *begun != life;
  if (isNew) {
    taught.clear();
    admitted.clear();
    life = *begun;
  }
  return isNew;
}

/// The table as a program knows it that may not read it yet.
static std::shared_ptr<const Dataset> withoutRows(const Dataset &table) {
  std::vector<Column> columns;
  for (const Column &column : table.columns()) {
    columns.push_back({column.name, column.element, std::nullopt, nullptr, column.dims});
  }
  return std::make_shared<Dataset>(table.name(), table.version(), table.rows(), std::move(columns), nullptr);
}

void WorkerStub::admit(uint64_t table, const std::shared_ptr<const Dataset> &rows, bool isReadable) {
  if (!isOfSession) {
    return;
  }
  auto known = llvm::find_if(admitted, [&](const Admitted &each) { return each.table == table; });
  if (known != admitted.end() && (known->isReadable || !isReadable)) {
    return;
  }
  if (known == admitted.end()) {
    sweep();
    admitted.reserve(admitted.size() + 1);
  }
  port->map(table, isReadable ? rows : withoutRows(*rows));
  known = llvm::find_if(admitted, [&](const Admitted &each) { return each.table == table; });
  if (known == admitted.end()) {
    admitted.push_back({table, rows, isReadable});
  } else {
    known->isReadable = isReadable;
  }
}

void WorkerStub::sweep() {
  llvm::erase_if(taught, [&](const auto &each) {
    const bool isGone = each.second.expired();
    if (isGone) {
      drop({}, each.first);
    }
    return isGone;
  });
  llvm::erase_if(admitted, [&](const auto &each) {
    const bool isGone = each.rows.expired();
    if (isGone) {
      port->unmap(each.table);
    }
    return isGone;
  });
}

} // namespace sojourn::owner
