// SPDX-License-Identifier: Apache-2.0
// The data owner's words about a table.
#ifndef SOJOURN_OWNER_DESCRIPTION_H
#define SOJOURN_OWNER_DESCRIPTION_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace sojourn::owner {

/// Shown to each client that has access to the table.
struct Description {
  static constexpr size_t kTextBytes = 4'096, kTags = 32, kTagBytes = 64;

  std::string text;
  std::vector<std::string> tags; ///< in ascending order, each once
  bool operator==(const Description &) const = default;
};

/// The text in lines, and the tags in order, each once. Fails for what is too long, empty tags, and characters that
/// steer a terminal.
llvm::Expected<Description> checkedDescription(llvm::StringRef text, llvm::ArrayRef<std::string> tags);

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_DESCRIPTION_H
