// SPDX-License-Identifier: Apache-2.0
#include "owner/Description.h"

#include "owner/Error.h"
#include "owner/Text.h"

#include "llvm/ADT/STLExtras.h"

namespace sojourn::owner {

using llvm::Twine;

llvm::Expected<Description> checkedDescription(llvm::StringRef text, llvm::ArrayRef<std::string> tags) {
  Description description{text.trim().str(), {}};
  if (description.text.size() > Description::kTextBytes) {
    return failure("the description has " + Twine(description.text.size()) + " bytes, the limit is " +
                   Twine(Description::kTextBytes));
  }
  if (printable(description.text, description.text.size() + 3) != description.text) { // 3: of a cut text
    return failure("the description has characters that cannot be shown; write it as plain UTF-8 text");
  }
  for (llvm::StringRef tag : tags) {
    tag = tag.trim();
    if (tag.empty() || tag.size() > Description::kTagBytes || printableName(tag) != tag || tag.contains(',')) {
      return failure("a tag is '" + printableName(tag) + "', expected 1 to " + Twine(Description::kTagBytes) +
                     " bytes of one line without commas");
    }
    description.tags.push_back(tag.str());
  }
  llvm::sort(description.tags);
  description.tags.erase(std::unique(description.tags.begin(), description.tags.end()), description.tags.end());
  if (description.tags.size() > Description::kTags) {
    return failure("the table has " + Twine(description.tags.size()) + " tags, the limit is " +
                   Twine(Description::kTags));
  }
  return description;
}

} // namespace sojourn::owner
