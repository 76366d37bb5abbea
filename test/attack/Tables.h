// SPDX-License-Identifier: Apache-2.0
// The tables of every attack: two private ones and two open ones, and contents that their bounds admit.
#ifndef SOJOURN_TEST_ATTACK_TABLES_H
#define SOJOURN_TEST_ATTACK_TABLES_H

#include "owner/Owner.h"
#include "owner/worker/TableRows.h"
#include "test/attack/Dice.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sojourn::attack {

struct ColumnShape {
  std::string name;
  runtime::Element element;
  std::vector<int64_t> dims;
  double lower, upper;
  int64_t numbers() const;
};

struct TableShape {
  std::string name;
  bool isPrivate;
  int64_t rows;
  std::vector<ColumnShape> columns;
  const ColumnShape *column(llvm::StringRef columnName) const;
};

/// In the order in which they are registered.
const std::vector<TableShape> &tableShapes();
const TableShape *findShape(llvm::StringRef name);

/// Rows of a table in memory, which remember which of them were read.
class Contents final : public runtime::RowSource {
public:
  /// Any rows that the bounds admit, extremes more often.
  Contents(const TableShape &shape, Dice &dice);
  /// The same but for one row.
  Contents(const Contents &other, int64_t row, Dice &dice);

  const TableShape &shape() const { return is; }
  const owner::Dataset &dataset() const { return *held; }
  int64_t rows() const override { return is.rows; }
  void readRows(llvm::ArrayRef<std::string> columns, llvm::ArrayRef<int64_t> indices, runtime::Element element,
                void *out) const override;
  void enter(owner::Owner &owner) const;
  /// Per row in how many places of lists it stood.
  std::map<int64_t, size_t> &read() const { return readings; }

private:
  void setRow(int64_t row, Dice &dice, std::optional<double> all = std::nullopt);

  const TableShape &is;
  std::vector<std::vector<uint8_t>> data; ///< per column, row by row
  std::shared_ptr<owner::Dataset> held;
  void wrap();
  mutable std::map<int64_t, size_t> readings;
};

} // namespace sojourn::attack

#endif // SOJOURN_TEST_ATTACK_TABLES_H
