// SPDX-License-Identifier: Apache-2.0
// What the open trace knows of tables: one argument per dataset version, and which draws and reads
// it has recorded already.
#ifndef SOJOURN_FRONTEND_TABLES_TABLERECORDS_H
#define SOJOURN_FRONTEND_TABLES_TABLERECORDS_H

#include "frontend/wire/Client.h"
#include "frontend/recording/Trace.h"
#include "runtime/wire/Step.h"

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace sojourn::frontend {

/// Guarded by the session's lock. `stream` is the trace's `tables` throughout: it is written from
/// here alone.
class TableRecords {
public:
  /// Per table its columns, and whether its number of rows is in the program, at the moment when a step began.
  using Mark = std::vector<std::pair<size_t, bool>>;

  /// Number of the table argument of this dataset version. Its columns are the union of all that
  /// were asked for in this trace. `isWhole`: shapes follow from its number of rows, which the program then says.
  /// `role`: of the member of a group that has it; -1: of a single owner.
  int64_t argument(const DatasetInfo &dataset, const std::vector<ColumnInfo> &columns, bool isWhole, int64_t role,
                   std::vector<Word> &stream);
  /// Name and version of each table argument, in order.
  const std::vector<wire::TableBinding> &bindings() const { return bindings_; }
  /// Whether any of them is private.
  bool holdPrivate() const;

  /// The value that an equal request got in this trace, by its id.
  std::optional<int64_t> find(const std::vector<Word> &request) const;
  void remember(std::vector<Word> request, int64_t value) { values_.emplace(std::move(request), value); }
  /// The request for what a storage at the owner was read from, by the storage's serial.
  static std::vector<Word> again(uint64_t serial) { return {-1, static_cast<Word>(serial)}; }

  Mark mark() const;
  /// Takes back columns and tables since the mark, and requests whose values are among the taken back
  /// ones: those from id `storages` on.
  void cut(const Mark &mark, int64_t storages, std::vector<Word> &stream);
  /// Another id, none of theirs, is gone: later ones are one less.
  void dropId(int64_t id);
  /// Forgets the requests: ids of values are about to change. Tables and columns stay.
  void forgetValues() { values_.clear(); }
  void clear();

private:
  struct Record {
    int64_t rows;
    int64_t role;
    bool isWhole, isPrivate;
    std::vector<ColumnInfo> columns;
  };
  void write(std::vector<Word> &stream) const;

  std::vector<wire::TableBinding> bindings_;
  std::vector<Record> records_; ///< beside `bindings_`
  std::map<std::vector<Word>, int64_t> values_;
};

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_TABLES_TABLERECORDS_H
