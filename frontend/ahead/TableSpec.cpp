// SPDX-License-Identifier: Apache-2.0
// Checks of a table's description. Without sessions, because the reader of artifact files uses them.
#include "frontend/ahead/TableSpec.h"

#include "frontend/ahead/Artifact.h"
#include "runtime/Limits.h"

#include <cmath>
#include <cstdio>
#include <set>

namespace sojourn::frontend {

namespace limits = runtime::limits;

namespace {

/// The problem with the name of a party, or an empty text.
std::string checkParty(const std::string &party) {
  if (party.empty() || party.size() > limits::kNameBytes) {
    return "the name of a party has " + std::to_string(party.size()) + " bytes; expected 1 to " +
           std::to_string(limits::kNameBytes);
  }
  return isUtf8(party) ? "" : "the name of a party is not UTF-8 text";
}

} // namespace

std::string typeText(const Column &column) {
  std::string text(c10::getDtypeNames(column.dtype).first);
  return column.shape.empty() ? text : text + " " + c10::str(c10::IntArrayRef(column.shape));
}

std::string boundsText(const Column &column) {
  if (!column.bounds) {
    return "no bounds";
  }
  char text[80];
  std::snprintf(text, sizeof(text), "bounds [%.17g, %.17g]", column.bounds->first, column.bounds->second);
  return text;
}

std::string defaultsText(const terms::Defaults &defaults) {
  char text[120];
  std::snprintf(text, sizeof(text), "noise multiplier %g, clip %g and metric bound %g", defaults.noiseMultiplier,
                defaults.clip, defaults.metricBound);
  return text;
}

std::string partiesText(const std::vector<std::string> &parties) {
  std::string text;
  for (const std::string &party : parties) {
    text += (text.empty() ? "" : ", ") + party;
  }
  return text;
}

std::string checkParties(const std::vector<std::string> &parties) {
  if (parties.empty()) {
    return "";
  }
  const auto count = static_cast<int64_t>(parties.size());
  if (count < limits::kPartiesLeast || count > limits::kPartiesMost) {
    return "a step of several owners has " + std::to_string(limits::kPartiesLeast) + " to " +
           std::to_string(limits::kPartiesMost) + " parties, got " + std::to_string(count) + " (" +
           partiesText(parties) + "); for one owner, leave party out of the descriptions of tables";
  }
  std::set<std::string> names;
  for (const std::string &party : parties) {
    if (std::string problem = checkParty(party); !problem.empty()) {
      return problem;
    }
    if (!names.insert(party).second) {
      return "two parties are named '" + party + "'";
    }
  }
  return "";
}

bool statesDefaults(const Dataset &table) { return table.policy == "private" && table.defaults; }

namespace {

/// The problem with the policy of a description, or an empty text: private columns have bounds, from which their noise
/// follows.
std::string checkPolicy(const Dataset &spec) {
  bool isPrivate = spec.policy == "private";
  if (!isPrivate && spec.policy != "open" && !spec.policy.empty()) {
    return "its policy is '" + spec.policy + "', expected 'open', 'private' or none";
  }
  if (isPrivate && !spec.party.empty()) {
    return "it is private and of party '" + spec.party +
           "', and private tables do not take part in steps of several owners yet; compile the step for its owner "
           "alone";
  }
  if (std::string problem = spec.party.empty() ? "" : checkParty(spec.party); !problem.empty()) {
    return problem;
  }
  for (const Column &column : spec.columns) {
    if (isPrivate && !column.bounds && column.dtype != at::kBool) {
      return "it is private, but column '" + column.name +
             "' has no bounds; declare bounds for each column of a private table";
    }
  }
  if (!statesDefaults(spec)) {
    return "";
  }
  bool isPossible = true;
  for (double number : {spec.defaults->noiseMultiplier, spec.defaults->clip, spec.defaults->metricBound}) {
    isPossible = isPossible && std::isfinite(number) && number > 0;
  }
  return isPossible ? ""
                    : "its defaults are " + defaultsText(*spec.defaults) + ", expected three numbers above 0, or none";
}

/// The problem with one column of a description, or an empty text.
std::string checkColumn(const Column &column) {
  std::string where = "column '" + column.name + "' has ";
  switch (column.dtype) {
  case at::kBool:
  case at::kByte:
  case at::kChar:
  case at::kShort:
  case at::kInt:
  case at::kLong:
  case at::kHalf:
  case at::kFloat:
  case at::kDouble: break;
  default:
    return where + "type " + std::string(c10::getDtypeNames(column.dtype).first) +
           "; a table holds bool, uint8, int8 to int64, float16, float32 and float64";
  }
  int64_t elements = 1;
  bool large = column.shape.size() > limits::kEntryRank;
  for (int64_t size : column.shape) {
    large = large || size < 1 || __builtin_mul_overflow(elements, size, &elements) || elements > limits::kEntryElements;
  }
  if (large) {
    return where + "entries of shape " + c10::str(c10::IntArrayRef(column.shape)) + "; expected at most " +
           std::to_string(limits::kEntryRank) + " sizes of at least 1, and at most " +
           std::to_string(limits::kEntryElements) + " elements";
  }
  if (column.bounds) {
    auto [lower, upper] = *column.bounds;
    if (!std::isfinite(lower) || !std::isfinite(upper) || lower > upper) {
      return where + boundsText(column) + "; expected two finite numbers, the lower one first";
    }
  }
  if (column.meaning && column.meaning->categories() > 0 && (column.dtype != at::kLong || !column.shape.empty())) {
    return where + "categories and is " + typeText(column) + "; codes of categories are plain numbers of type int64";
  }
  std::string problem = column.meaning ? problemOf(*column.meaning) : "";
  return problem.empty() ? "" : "column '" + column.name + "' " + problem;
}

} // namespace

std::string checkTableSpec(const Dataset &spec) {
  if (spec.rows && (*spec.rows < 1 || *spec.rows > limits::kTableRows)) {
    return "it has " + std::to_string(*spec.rows) + " rows; expected a number in [1, " +
           std::to_string(limits::kTableRows) + "], or none if any number of rows fits";
  }
  if (spec.columns.empty() || spec.columns.size() > limits::kColumns) {
    return "it has " + std::to_string(spec.columns.size()) + " columns; expected 1 to " +
           std::to_string(limits::kColumns);
  }
  std::set<std::string> names;
  size_t bytes = 0;
  for (const Column &column : spec.columns) {
    bytes += column.meaning ? categoryBytes(*column.meaning) : 0;
    if (bytes > kTableCategoryBytes) {
      return "its categories have more than " + std::to_string(kTableCategoryBytes) + " bytes, the limit of a table";
    }
    if (column.name.empty() || column.name.size() > limits::kNameBytes) {
      return "a column's name has " + std::to_string(column.name.size()) + " bytes; expected 1 to " +
             std::to_string(limits::kNameBytes);
    }
    if (!isUtf8(column.name)) {
      return "the name of column " + std::to_string(names.size()) + " (counting from 0) is not UTF-8 text";
    }
    if (!names.insert(column.name).second) {
      return "two columns are named '" + column.name + "'";
    }
    if (std::string problem = checkColumn(column); !problem.empty()) {
      return problem;
    }
  }
  return checkPolicy(spec);
}

} // namespace sojourn::frontend
