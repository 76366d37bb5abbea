// SPDX-License-Identifier: Apache-2.0
// Tables of several owners, with the same columns and other people, as one table.
#ifndef SOJOURN_FRONTEND_TABLES_JOINEDROWS_H
#define SOJOURN_FRONTEND_TABLES_JOINEDROWS_H

#include "frontend/tables/Table.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace sojourn::frontend {

class Session;

/// What each of several tables, of `rows` rows each, adds to the batch of `size` rows at position `start` of an epoch.
/// `start` is a multiple of `batch`, the size of all batches but the last.
///
/// A batch takes rows of each table in proportion to its rows that are left (largest remainders; of equal ones the
/// first table's). Batches are alike for as long as each table has the rows, so that an epoch has few kinds of batches
/// and a step few programs. Each row is in one batch of an epoch.
std::vector<BatchShare> batchShares(const std::vector<int64_t> &rows, int64_t batch, int64_t start, int64_t size);

/// Consecutive batches of an epoch that take equal numbers of rows of each table.
struct AlikeBatches {
  int64_t count = 0;
  std::vector<int64_t> sizes; ///< per table
};
/// All batches of an epoch, by the rule of `batchShares`.
std::vector<AlikeBatches> batchesOfEpoch(const std::vector<int64_t> &rows, int64_t batch, bool dropLast);

/// `group`: the session of which the members' tables are read; null: plain tables, or tables described for
/// the parties of a step. Throws Error where the columns of
/// the tables differ, one is private or a part of a table, or is not at the member of its place.
Table joinTables(const std::shared_ptr<Session> &group, const std::vector<Table> &tables);

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_TABLES_JOINEDROWS_H
