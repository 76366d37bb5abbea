// SPDX-License-Identifier: Apache-2.0
// Labels and release policies.
#include "owner/Label.h"

#include <algorithm>

namespace sojourn::owner {

const char *policyName(Policy policy) { return policy == Policy::open ? "open" : "private"; }

std::optional<Policy> parsePolicy(const std::string &text) {
  if (text == "open") {
    return Policy::open;
  }
  if (text == "private") {
    return Policy::privateOnly;
  }
  return std::nullopt;
}

bool Label::releasable() const {
  return std::all_of(sources.begin(), sources.end(),
                     [](const Source &source) { return source.policy == Policy::open; });
}

std::string Label::blockers() const {
  std::set<std::string> names;
  for (const Source &source : sources) {
    if (source.policy != Policy::open) {
      names.insert(source.name);
    }
  }
  std::string text;
  for (const std::string &name : names) {
    text += (text.empty() ? "'" : ", '") + name + "'";
  }
  return text;
}

} // namespace sojourn::owner
