// SPDX-License-Identifier: Apache-2.0
// Which rows the steps of a run take, by the numbers of rows of its tables.
#include "frontend/ahead/Artifact.h"

#include "frontend/tables/JoinedRows.h"

#include <algorithm>
#include <numeric>

namespace sojourn {

using namespace frontend;

namespace {

int64_t sum(const std::vector<int64_t> &numbers) { return std::accumulate(numbers.begin(), numbers.end(), int64_t{0}); }

std::vector<int64_t> sizesOf(const std::vector<BatchShare> &shares) {
  std::vector<int64_t> sizes;
  for (const BatchShare &share : shares) {
    sizes.push_back(share.size);
  }
  return sizes;
}

/// What each table of a joined one adds to batch `at` of an epoch.
std::vector<BatchShare> sharesOf(const std::vector<int64_t> &rows, int64_t batch, int64_t at) {
  const int64_t start = at * batch;
  return batchShares(rows, batch, start, std::min(batch, sum(rows) - start));
}

} // namespace

void frontend::requireFull(const std::string &table, int64_t rows, int64_t size, int64_t shortRows) {
  const int64_t rest = rows % size;
  if (rest != 0 && rest != shortRows) {
    raise(ErrorKind::Error,
          "the last batch of each epoch has " + std::to_string(rest) + " of " + std::to_string(size) +
              " rows (table '" + table + "' has " + std::to_string(rows) + "), but a compiled step has one shape" +
              (shortRows == 0 ? "" : ", and its short step has " + std::to_string(shortRows) + " rows") + ": " +
              kLeaveOut);
  }
}

std::vector<int64_t> Artifact::rowsOfBatches() const {
  std::vector<int64_t> rows;
  for (const ArtifactBatches &entry : batches) {
    rows.push_back(rowsOfPart(tables.at(entry.table).rows.value_or(0), entry.part).rows);
  }
  return rows;
}

std::optional<int64_t> Artifact::perEpoch(const ArtifactBatches &entry) const {
  const bool isJoint = entry.joint > 0;
  std::string name = tables.at(entry.table).name;
  if (isJoint) {
    name.clear();
    for (const ArtifactBatches &each : batches) {
      name += (name.empty() ? "" : "+") + tables.at(each.table).name;
    }
  }
  const bool isKnown = std::all_of(batches.begin(), batches.end(),
                                   [&](const ArtifactBatches &each) { return tables.at(each.table).rows || !isJoint; });
  if (!isKnown || !tables.at(entry.table).rows) {
    return std::nullopt;
  }
  const int64_t rows = isJoint ? sum(rowsOfBatches()) : rowsOfPart(*tables[entry.table].rows, entry.part).rows;
  const int64_t size = isJoint ? entry.joint : entry.size;
  if (tables[entry.table].policy == "private") {
    return (rows + size - 1) / size;
  }
  if (rows < size) {
    raise(ErrorKind::Error, "table '" + name + "' has " + std::to_string(rows) + " rows, too few for a batch of " +
                                std::to_string(size) +
                                "; use a table with more rows, or compile the step for smaller batches");
  }
  if (!entry.dropLast) {
    requireFull(name, rows, size, shortRows);
  }
  return rows / size + (!entry.dropLast && rows % size != 0 ? 1 : 0);
}

bool Artifact::isShort(int64_t at) const {
  if (shortRows == 0) {
    return false;
  }
  const ArtifactBatches &entry = batches.front();
  const int64_t each = perEpoch(entry).value_or(1), rows = rowsOfPart(*tables[entry.table].rows, entry.part).rows;
  return rows % entry.size != 0 && at % each == each - 1;
}

const ArtifactCall &Artifact::callOf(int64_t at) const {
  if (at == 0) {
    return calls[1];
  }
  if (batches.empty() || batches.front().joint == 0) {
    return isShort(at) ? calls[3] : calls[2];
  }
  const int64_t each = *perEpoch(batches.front());
  const std::vector<int64_t> sizes = sizesOf(sharesOf(rowsOfBatches(), batches.front().joint, at % each));
  const auto fits = [&](const ArtifactVariant &variant) { return variant.sizes == sizes; };
  const auto variant = std::find_if(variants.begin(), variants.end(), fits);
  return variant == variants.end() ? calls[2] : variant->call;
}

int64_t Artifact::startOf(size_t index, int64_t at) const {
  const ArtifactBatches &entry = batches.at(index);
  const int64_t each = *perEpoch(entry);
  return entry.joint == 0 ? at % each * entry.size : sharesOf(rowsOfBatches(), entry.joint, at % each).at(index).start;
}

void Artifact::checkBatches() const {
  static_cast<void>(steps()); // numbers of rows that leave a batch short
  if (batches.empty() || batches.front().joint == 0) {
    return;
  }
  std::vector<int64_t> steady;
  for (const ArtifactBatches &entry : batches) {
    steady.push_back(entry.size);
  }
  int64_t first = 0;
  for (const AlikeBatches &alike : batchesOfEpoch(rowsOfBatches(), batches.front().joint, batches.front().dropLast)) {
    const bool isVariant = std::any_of(variants.begin(), variants.end(),
                                       [&](const ArtifactVariant &variant) { return variant.sizes == alike.sizes; });
    if (alike.sizes != steady && (!isVariant || first == 0)) {
      const auto listed = [&](const std::vector<int64_t> &sizes) {
        std::string text;
        for (size_t at = 0; at < sizes.size(); ++at) {
          text += (at == 0                  ? ""
                   : at + 1 == sizes.size() ? " and "
                                            : ", ") +
                  std::to_string(sizes[at]) + " of '" + tables.at(batches[at].table).name + "'";
        }
        return text;
      };
      raise(ErrorKind::Error, "batch " + std::to_string(first) + " of an epoch takes " + listed(alike.sizes) +
                                  ", but the step was compiled for tables in other proportions (first " +
                                  listed(steady) +
                                  "); compile it with the numbers of rows of these tables, or over batches of each "
                                  "table by itself (batches=lambda a, b: [a.batches(...), b.batches(...)]), which fit "
                                  "tables of any size");
    }
    first += alike.count;
  }
}

std::optional<int64_t> Artifact::steps() const {
  std::optional<int64_t> fewest;
  for (const ArtifactBatches &entry : batches) {
    std::optional<int64_t> each = perEpoch(entry);
    if (!each) {
      return std::nullopt;
    }
    int64_t count;
    if (__builtin_mul_overflow(*each, entry.epochs, &count)) {
      raise(ErrorKind::Error, std::to_string(entry.epochs) + " epochs have too many batches, expected fewer than 2^63");
    }
    fewest = fewest ? std::min(*fewest, count) : count;
  }
  return fewest;
}

} // namespace sojourn
