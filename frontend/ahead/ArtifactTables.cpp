// SPDX-License-Identifier: Apache-2.0
// Tables of artifacts: specified without data, bound to an owner's datasets at the start of a run.
#include "frontend/ahead/Artifact.h"
#include "frontend/ahead/TableSpec.h"
#include "frontend/compile/Names.h"
#include "frontend/tables/Rows.h"
#include "frontend/session/Session.h"
#include "runtime/Limits.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <tuple>

namespace sojourn {

namespace frontend {

namespace {

namespace limits = runtime::limits;

/// Notes which columns are read: a run checks these.
class SpecifiedRows final : public RowReader, public std::enable_shared_from_this<SpecifiedRows> {
public:
  SpecifiedRows(std::shared_ptr<SpecifiedTables> tables, size_t position, std::shared_ptr<RowReader> recorded,
                int64_t role)
      : tables_(std::move(tables)), position_(position), recorded_(std::move(recorded)), role_(role) {}

  std::shared_ptr<RowReader> ofMember(const std::shared_ptr<Session> &group, unsigned) override {
    const std::string &name = (*tables_)[position_].spec.name;
    if (group) {
      raise(ErrorKind::Error, "table '" + name +
                                  "' is described ahead of time, and a group has tables of its members; sojourn.pooled "
                                  "joins described ones");
    }
    if (role_ < 0) {
      raise(ErrorKind::Error, "table '" + name +
                                  "' is described for one owner, and sojourn.pooled joins tables of several parties; "
                                  "say whose it is: table_spec(..., party=\"a\")");
    }
    return shared_from_this();
  }
  int64_t role() const override { return role_; }
  at::Tensor rows(const std::vector<std::string> &columns, bool alone, at::ScalarType dtype,
                  const RowNumbers &numbers) override {
    (*tables_)[position_].read.insert(columns.begin(), columns.end());
    (*tables_)[position_].isWhole |= numbers.isWhole;
    return recorded_->rows(columns, alone, dtype, numbers);
  }

private:
  std::shared_ptr<SpecifiedTables> tables_;
  size_t position_;
  std::shared_ptr<RowReader> recorded_;
  int64_t role_;
};

/// The role of the party that has a table; -1 on a device for one owner.
int64_t roleOf(const Offline &offline, const Dataset &spec) {
  const std::vector<std::string> &parties = offline.parties();
  if (parties.empty() && !spec.party.empty()) {
    raise(ErrorKind::Error, "table '" + spec.name + "' is of party '" + spec.party +
                                "', but the device records for one owner; name the parties of the step: Offline "
                                "offline({\"a\", \"b\"})");
  }
  if (parties.empty()) {
    return -1;
  }
  if (spec.party.empty()) {
    raise(ErrorKind::Error, "table '" + spec.name + "' is of no party, but the step is one of the parties " +
                                partiesText(parties) + "; say whose table it is: table_spec(..., party=\"" +
                                parties[0] + "\")");
  }
  const auto found = std::find(parties.begin(), parties.end(), spec.party);
  if (found == parties.end()) {
    raise(ErrorKind::Error, "table '" + spec.name + "' is of party '" + spec.party + "'" +
                                nearestNames(spec.party, parties, "the parties of the step"));
  }
  return found - parties.begin();
}

/// What of the categories differs from those that a step was compiled for, or an empty text.
std::string otherCategories(const Meaning &compiled, const Meaning &there) {
  if (compiled.hasSameCategories(there)) {
    return {};
  }
  const size_t count = compiled.categories();
  if (there.categories() != count) {
    return std::to_string(there.categories()) + " categories, but the step was compiled for " + std::to_string(count);
  }
  size_t code = 0;
  while (code + 1 < count && compiled.category(code) == there.category(code)) {
    ++code;
  }
  return "category " + std::to_string(code) + " '" + there.category(code) + "', but the step was compiled for '" +
         compiled.category(code) + "'";
}

/// What of a dataset differs from what a table was specified as, or an empty text. `isCounted`: the programs say the
/// number of rows.
std::string difference(const Dataset &table, bool isCounted, const Dataset &found) {
  if (isCounted && *found.rows != table.rows) {
    return "it has " + std::to_string(*found.rows) + " rows, but the step reads whole columns of " +
           std::to_string(table.rows.value_or(0)) + " rows";
  }
  if (!table.policy.empty() && found.policy != table.policy) {
    return "its policy is " + found.policy + ", but the step was compiled for " + table.policy;
  }
  if (statesDefaults(table) && found.defaults != table.defaults) {
    return "its defaults are " + defaultsText(*found.defaults) + ", but the step was compiled for " +
           defaultsText(*table.defaults);
  }
  std::vector<std::string> known;
  for (const Column &column : found.columns) {
    known.push_back(column.name);
  }
  for (const Column &column : table.columns) {
    auto named = [&](const Column &candidate) { return candidate.name == column.name; };
    auto there = std::find_if(found.columns.begin(), found.columns.end(), named);
    if (there == found.columns.end()) {
      return "it has no column '" + column.name + "'" + nearestNames(column.name, known, "its columns");
    }
    if (there->dtype != column.dtype || there->shape != column.shape) {
      return "its column '" + column.name + "' is " + typeText(*there) + ", but the step was compiled for " +
             typeText(column);
    }
    static const Meaning none; // before bounds, which are those of the codes
    if (column.meaning && column.meaning->categories() > 0) {
      std::string other = otherCategories(*column.meaning, there->meaning ? *there->meaning : none);
      if (!other.empty()) {
        return "its column '" + column.name + "' has " + other;
      }
    }
    if (column.bounds && there->bounds != column.bounds) {
      return "its column '" + column.name + "' has " + boundsText(*there) + ", but the step was compiled for " +
             boundsText(column);
    }
  }
  return {};
}

} // namespace

DatasetInfo infoOf(const Dataset &spec) {
  // Of any number what does not depend on it is known: that of the largest table.
  DatasetInfo info{spec.name,    spec.rows.value_or(limits::kTableRows),
                   {},           spec.policy.empty() ? "open" : spec.policy,
                   spec.version, spec.defaults.value_or(terms::Defaults())};
  for (const Column &column : spec.columns) {
    info.columns.push_back({column.name, elementOf(column.dtype), column.bounds, column.shape, column.meaning});
  }
  return info;
}

namespace {

/// The sessions of those that have the tables, per role; one if a single owner has all.
std::vector<Session *> holdersOf(const Artifact &artifact, Session &session) {
  std::vector<Session *> holders;
  for (const auto &member : session.members()) {
    holders.push_back(member.get());
  }
  if (holders.empty()) {
    return {&session};
  }
  if (artifact.parties.empty()) {
    raise(ErrorKind::Error, "the program was compiled for one owner, but runs at " + session.address() +
                                "; run it at one of these, or compile it for parties: table_spec(..., party=\"a\")");
  }
  if (holders.size() != artifact.parties.size()) {
    raise(ErrorKind::Error, "the program has " + std::to_string(artifact.parties.size()) + " parties (" +
                                partiesText(artifact.parties) + "), but " + session.address() + " has " +
                                std::to_string(holders.size()) + " members; make a group of as many owners");
  }
  return holders;
}

} // namespace

std::vector<wire::TableBinding> bindTables(Artifact &artifact, Session &session,
                                           const std::map<std::string, std::string> &names) {
  std::vector<std::string> tables;
  for (const Dataset &table : artifact.tables) {
    tables.push_back(table.name);
  }
  for (const auto &[name, dataset] : names) {
    if (std::find(tables.begin(), tables.end(), name) == tables.end()) {
      raise(ErrorKind::Error,
            "the compiled step reads no table '" + name + "'" + nearestNames(name, tables, "its tables"));
    }
  }
  const std::vector<Session *> holders = holdersOf(artifact, session);
  std::vector<wire::TableBinding> bindings;
  if (tables.empty()) {
    return bindings;
  }
  std::map<Session *, std::vector<DatasetInfo>> all;
  for (Session *holder : holders) {
    all.emplace(holder, holder->datasets());
  }
  for (Dataset &table : artifact.tables) {
    const auto role = std::find(artifact.parties.begin(), artifact.parties.end(), table.party);
    Session &holder = *holders.at(holders.size() == 1 ? 0 : static_cast<size_t>(role - artifact.parties.begin()));
    const std::vector<DatasetInfo> &datasets = all.at(&holder);
    const std::string of = table.party.empty() ? "" : " of party '" + table.party + "'";
    std::vector<std::string> known;
    for (const DatasetInfo &info : datasets) {
      known.push_back(info.name);
    }
    auto renamed = names.find(table.name);
    const std::string &name = renamed == names.end() ? table.name : renamed->second;
    auto info = std::find_if(datasets.begin(), datasets.end(), [&](const DatasetInfo &i) { return i.name == name; });
    if (info == datasets.end()) {
      raise(ErrorKind::Error, holder.address() + " has no dataset '" + name + "' for table '" + table.name + "'" + of +
                                  " of the compiled step" + nearestNames(name, known, "its datasets") +
                                  accessHint(holder, name) + "; name the dataset of each table when you start the run");
    }
    std::string problem = difference(table, artifact.wholeTables.contains(table.name), describe(*info));
    if (problem.empty() && table.policy.empty() && info->policy == "private" && !artifact.batches.empty()) {
      problem = "it is private, but the batches were compiled for an open table (describe it with policy \"private\")";
    }
    if (!problem.empty()) {
      raise(ErrorKind::Error, "dataset '" + name + "' at " + holder.address() + " is not table '" + table.name + "'" +
                                  of + " of the compiled step: " + problem +
                                  "; name another dataset for the table, or compile the step again for this one");
    }
    table.rows = info->rows;
    bindings.push_back({info->name, info->version});
  }
  return bindings;
}

} // namespace frontend

using namespace frontend;

Table specTable(const Offline &offline, Dataset spec) {
  if (spec.name.empty() || spec.name.size() > limits::kNameBytes) {
    raise(ErrorKind::Error, "the name of a table has " + std::to_string(spec.name.size()) + " bytes; expected 1 to " +
                                std::to_string(limits::kNameBytes));
  }
  if (std::string problem = checkTableSpec(spec); !problem.empty()) {
    raise(ErrorKind::Error, "table '" + spec.name + "' is invalid: " + problem);
  }
  const int64_t role = roleOf(offline, spec);
  // The version tells two specifications of one name apart within a trace.
  spec.version = std::to_string(offline.tables_->size() + 1);
  offline.tables_->push_back({spec, {}});
  spec.policy = spec.policy.empty() ? "of its owner" : spec.policy;
  DatasetInfo info = infoOf(spec);
  spec.defaults = info.defaults;
  auto rows = std::make_shared<SpecifiedRows>(offline.tables_, offline.tables_->size() - 1,
                                              remoteRows(offline.session(), info, role), role);
  return {rows, std::move(spec)};
}

} // namespace sojourn
