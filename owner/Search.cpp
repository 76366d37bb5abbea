// SPDX-License-Identifier: Apache-2.0
#include "owner/Search.h"

#include "owner/RequestError.h"
#include "runtime/Limits.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace sojourn::owner {

using llvm::Twine;

llvm::Expected<Search> Search::of(llvm::StringRef text, llvm::StringRef tag, std::vector<std::string> columns) {
  const auto tooLong = [](const Twine &what, size_t bytes, size_t most) {
    return requestError(wire::ErrorCode_Limit, what + " has " + Twine(bytes) + " bytes, expected up to " + Twine(most));
  };
  if (text.size() > kTextBytes) {
    return tooLong("the text of a search", text.size(), kTextBytes);
  }
  if (tag.size() > Description::kTagBytes) {
    return tooLong("the tag of a search", tag.size(), Description::kTagBytes);
  }
  if (columns.size() > kColumns) {
    return requestError(wire::ErrorCode_Limit,
                        "a search names " + Twine(columns.size()) + " columns, expected up to " + Twine(kColumns));
  }
  for (const std::string &column : columns) {
    if (column.size() > runtime::limits::kNameBytes) {
      return tooLong("a column of a search", column.size(), runtime::limits::kNameBytes);
    }
  }
  Search search;
  llvm::SmallVector<llvm::StringRef> words;
  llvm::SplitString(text, words);
  // Each word is looked for in all texts of all tables.
  if (words.size() > kWords) {
    return requestError(wire::ErrorCode_Limit,
                        "a search has " + Twine(words.size()) + " words, expected up to " + Twine(kWords));
  }
  search.words.assign(words.begin(), words.end());
  search.tag = tag.str();
  search.columns = std::move(columns);
  return search;
}

bool Search::finds(const DatasetRecord &record) const {
  const auto has = [](llvm::StringRef where) {
    return [where](llvm::StringRef word) { return where.contains_insensitive(word); };
  };
  const auto stands = [&](const std::string &word) {
    return has(record.name)(word) || has(record.description.text)(word) ||
           llvm::any_of(record.description.tags, [&](const std::string &tag) { return has(tag)(word); }) ||
           llvm::any_of(record.columns, [&](const Column &column) { return has(column.name)(word); });
  };
  const auto isColumn = [&](const std::string &name) {
    return llvm::any_of(record.columns, [&](const Column &column) { return column.name == name; });
  };
  return (tag.empty() || llvm::is_contained(record.description.tags, tag)) && llvm::all_of(columns, isColumn) &&
         llvm::all_of(words, stands);
}

} // namespace sojourn::owner
