// SPDX-License-Identifier: Apache-2.0
// Values with names in a terminal, as the running servers of a store tell of them.
#include "owner/Error.h"
#include "owner/StatusServer.h"
#include "owner/Text.h"
#include "owner/TextTable.h"

#include "llvm/ADT/StringExtras.h"

#include <nlohmann/json.hpp>

namespace sojourn::owner {

using llvm::Twine;
using nlohmann::json;

/// The answers that have this key; an error where no server of the store knows the request.
static llvm::Expected<std::vector<json>> ask(const std::string &store, const json &request, const char *key) {
  auto answers = askServers(store, request.dump());
  if (!answers) {
    return answers.takeError();
  }
  std::vector<json> found;
  for (const std::string &text : *answers) {
    json parsed = json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (parsed.is_object() && parsed.contains(key)) {
      found.push_back(std::move(parsed[key]));
    }
  }
  if (found.empty()) {
    return failure(answers->empty() ? "no server runs on the store '" + printableName(store) +
                                          "', and values with names are in a server's memory: they end with it; "
                                          "'sojourn-owner serve' starts one"
                                    : "the server of this store is of a release without names for values; start it "
                                      "again with this one");
  }
  return found;
}

/// "6 d 23 h", "14 min", "30 s".
static std::string spanText(int64_t milliseconds) {
  const int64_t seconds = std::max<int64_t>(0, milliseconds / 1000), minutes = seconds / 60, hours = minutes / 60;
  return hours >= 24   ? std::to_string(hours / 24) + " d " + std::to_string(hours % 24) + " h"
         : hours > 0   ? std::to_string(hours) + " h " + std::to_string(minutes % 60) + " min"
         : minutes > 0 ? std::to_string(minutes) + " min"
                       : std::to_string(seconds) + " s";
}

llvm::Error printNamedValues(const std::string &store, const std::string &client, bool asJson, llvm::raw_ostream &out) {
  auto servers = ask(store, {{"ask", "values"}, {"client", client}}, "named_values");
  if (!servers) {
    return servers.takeError();
  }
  json all = json::array();
  for (const json &values : *servers) {
    all.insert(all.end(), values.begin(), values.end());
  }
  if (asJson) {
    out << json{{"values", all}}.dump(2) << '\n';
    return llvm::Error::success();
  }
  if (all.empty()) {
    out << "no values with names\n";
    return llvm::Error::success();
  }
  std::vector<std::vector<std::string>> rows{
      {"client", "name", "tags", "dtype", "shape", "bytes", "named", "last used", "lease"}};
  for (const json &value : all) {
    std::vector<std::string> tags, sizes;
    for (const json &tag : value["tags"]) {
      tags.push_back(tag.get<std::string>());
    }
    for (const json &size : value["shape"]) {
      sizes.push_back(size.dump());
    }
    const bool isInUse = value.value("sessions", uint64_t{0}) > 0;
    rows.push_back({value.value("client", ""), value.value("name", ""), tags.empty() ? "-" : llvm::join(tags, ", "),
                    value.value("dtype", ""), "[" + llvm::join(sizes, ", ") + "]",
                    std::to_string(value.value("bytes", uint64_t{0})), timeText(value.value("named_ms", int64_t{0})),
                    timeText(value.value("used_ms", int64_t{0})),
                    isInUse ? "in use" : spanText(value.value("lease_ms", int64_t{0}))});
  }
  printTable(rows, out);
  return llvm::Error::success();
}

llvm::Error releaseNamedValue(const std::string &store, const std::string &client, const std::string &name,
                              llvm::raw_ostream &out) {
  auto servers = ask(store, {{"ask", "release"}, {"client", client}, {"name", name}}, "released");
  if (!servers) {
    return servers.takeError();
  }
  bool isReleased = false;
  for (const json &problem : *servers) {
    isReleased |= problem.is_string() && problem.get<std::string>().empty();
  }
  if (!isReleased) {
    return failure(servers->front().get<std::string>());
  }
  out << "value '" << printableName(name) << "' of client '" << printableName(client) << "' released\n";
  return llvm::Error::success();
}

} // namespace sojourn::owner
