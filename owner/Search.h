// SPDX-License-Identifier: Apache-2.0
// Tables that a client looks for.
#ifndef SOJOURN_OWNER_SEARCH_H
#define SOJOURN_OWNER_SEARCH_H

#include "owner/Catalogue.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace sojourn::owner {

/// The search that a client asks for.
class Search {
public:
  static constexpr size_t kTextBytes = 1'024, kWords = 16, kColumns = 64;

  Search() = default;
  /// `text`: words, each part of the name, the description, a tag or the name of a column, in upper or lower case (of
  /// ASCII letters). `tag`: one of the tags; empty: any. `columns`: all of these.
  static llvm::Expected<Search> of(llvm::StringRef text, llvm::StringRef tag, std::vector<std::string> columns);
  bool isEmpty() const { return words.empty() && tag.empty() && columns.empty(); }
  bool finds(const DatasetRecord &record) const;

private:
  std::vector<std::string> words, columns;
  std::string tag;
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_SEARCH_H
