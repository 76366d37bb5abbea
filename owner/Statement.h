// SPDX-License-Identifier: Apache-2.0
// Prepared statements of SQLite.
#ifndef SOJOURN_OWNER_STATEMENT_H
#define SOJOURN_OWNER_STATEMENT_H

#include "runtime/Hash.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <sqlite3.h>
#include <string>

namespace sojourn::owner {

/// A prepared statement; parameters count from 1, columns from 0.
class Statement {
public:
  Statement(sqlite3 *database, const char *sql) { sqlite3_prepare_v2(database, sql, -1, &statement, nullptr); }
  ~Statement() { sqlite3_finalize(statement); }
  Statement(const Statement &) = delete;
  Statement &operator=(const Statement &) = delete;

  Statement &bind(const std::string &text) {
    sqlite3_bind_text(statement, ++bound, text.data(), static_cast<int>(text.size()), SQLITE_TRANSIENT);
    return *this;
  }
  Statement &bind(int64_t value) {
    sqlite3_bind_int64(statement, ++bound, value);
    return *this;
  }
  Statement &bind(const std::optional<std::string> &text) {
    if (text) {
      return bind(*text);
    }
    ++bound; // NULL
    return *this;
  }
  Statement &bind(double value) { return bind(std::optional<double>(value)); }
  Statement &bind(std::optional<double> value) {
    ++bound;
    if (value) {
      sqlite3_bind_double(statement, bound, *value);
    }
    return *this;
  }
  Statement &bind(const runtime::ProgramHash &hash) {
    sqlite3_bind_blob(statement, ++bound, hash.data(), static_cast<int>(hash.size()), SQLITE_TRANSIENT);
    return *this;
  }
  /// Ready for other parameters; ends what it read.
  void reset() {
    sqlite3_reset(statement);
    bound = 0;
  }
  int step() { return statement ? sqlite3_step(statement) : SQLITE_ERROR; }
  std::string text(int column) {
    auto *data = sqlite3_column_text(statement, column);
    return data ? std::string(reinterpret_cast<const char *>(data),
                              static_cast<size_t>(sqlite3_column_bytes(statement, column)))
                : std::string();
  }
  bool isNull(int column) { return sqlite3_column_type(statement, column) == SQLITE_NULL; }
  int columns() { return sqlite3_column_count(statement); }
  int64_t integer(int column) { return sqlite3_column_int64(statement, column); }
  std::optional<double> real(int column) {
    return sqlite3_column_type(statement, column) == SQLITE_NULL
               ? std::nullopt
               : std::optional(sqlite3_column_double(statement, column));
  }
  runtime::ProgramHash hash(int column) {
    runtime::ProgramHash hash{};
    auto bytes = static_cast<size_t>(sqlite3_column_bytes(statement, column));
    if (const void *data = sqlite3_column_blob(statement, column)) {
      std::memcpy(hash.data(), data, std::min(bytes, hash.size()));
    }
    return hash;
  }

private:
  sqlite3_stmt *statement = nullptr;
  int bound = 0;
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_STATEMENT_H
