// SPDX-License-Identifier: Apache-2.0
// What a data owner declares about columns: from the command line and from TOML files.
#include "owner/Error.h"
#include "owner/Import.h"

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

namespace sojourn::owner {

using llvm::Twine;

namespace {

std::optional<double> number(toml::node_view<const toml::node> node) { return node.value<double>(); }

llvm::Error addRule(const std::string &path, const std::string &column, const toml::node &rule,
                    RegisterOptions &options) {
  if (const toml::array *pair = rule.as_array(); pair && pair->size() == 2) {
    auto lower = pair->get(0)->value<double>(), upper = pair->get(1)->value<double>();
    if (lower && upper) {
      options.bounds[column] = {*lower, *upper};
      return llvm::Error::success();
    }
  }
  if (const toml::table *table = rule.as_table()) {
    auto lower = number((*table)["lower"]), upper = number((*table)["upper"]), fill = number((*table)["fill"]);
    size_t known = (lower ? 1 : 0) + (upper ? 1 : 0) + (fill ? 1 : 0);
    if (known == table->size() && known > 0 && lower.has_value() == upper.has_value()) {
      if (lower) {
        options.bounds[column] = {*lower, *upper};
      }
      if (fill) {
        options.fills[column] = *fill;
      }
      return llvm::Error::success();
    }
  }
  return failure("'" + path + "', line " + Twine(rule.source().begin.line) + ": column '" + column +
                 "' expects [lower, upper] or {lower = .., upper = .., fill = ..} with numbers");
}

/// Splits `column=rest`; the name may itself contain '='.
llvm::Expected<std::pair<std::string, llvm::StringRef>> splitColumn(llvm::StringRef text, const char *form) {
  auto [column, rest] = text.rsplit('=');
  if (column.empty() || rest.empty() || column.size() == text.size()) {
    return failure("'" + text + "' is not of the form " + form);
  }
  return std::pair(column.str(), rest);
}

} // namespace

llvm::Error readBoundsFile(const std::string &path, RegisterOptions &options) {
  toml::parse_result parsed = toml::parse_file(path);
  if (!parsed) {
    const toml::parse_error &error = parsed.error();
    return failure("cannot read '" + path + "': " + std::string(error.description()) + " (line " +
                   Twine(error.source().begin.line) + ")");
  }
  const toml::table *rules = &parsed.table();
  if (const toml::table *inner = rules->get_as<toml::table>("bounds");
      inner && rules->size() == 1 && !inner->contains("lower")) {
    rules = inner;
  }
  for (auto &&[column, rule] : *rules) {
    if (llvm::Error error = addRule(path, std::string(column.str()), rule, options)) {
      return error;
    }
  }
  return llvm::Error::success();
}

llvm::Error parseBound(const std::string &text, RegisterOptions &options) {
  constexpr const char *form = "column=lower:upper";
  auto split = splitColumn(text, form);
  if (!split) {
    return split.takeError();
  }
  auto [lower, upper] = split->second.split(':');
  Bounds bounds;
  if (lower.getAsDouble(bounds.lower) || upper.getAsDouble(bounds.upper)) {
    return failure("'" + text + "' is not of the form " + form);
  }
  options.bounds[split->first] = bounds;
  return llvm::Error::success();
}

llvm::Error parseFill(const std::string &text, RegisterOptions &options) {
  constexpr const char *form = "column=value";
  auto split = splitColumn(text, form);
  if (!split) {
    return split.takeError();
  }
  double fill = 0;
  if (split->second.getAsDouble(fill)) {
    return failure("'" + text + "' is not of the form " + form);
  }
  options.fills[split->first] = fill;
  return llvm::Error::success();
}

} // namespace sojourn::owner
