// SPDX-License-Identifier: Apache-2.0
#include "frontend/compile/Names.h"

#include "llvm/ADT/StringRef.h"

#include <algorithm>

namespace sojourn::frontend {

namespace {

constexpr size_t kSuggested = 3, kListed = 20;

} // namespace

std::string nearestNames(const std::string &wanted, const std::vector<std::string> &known, const char *what) {
  // Two edits, or a third of the name.
  auto most = static_cast<unsigned>(std::max<size_t>(2, wanted.size() / 3));
  std::vector<std::pair<unsigned, const std::string *>> near;
  for (const std::string &name : known) {
    unsigned distance = llvm::StringRef(wanted).edit_distance_insensitive(name, /*AllowReplacements=*/true, most);
    if (distance <= most && distance < name.size()) {
      near.emplace_back(distance, &name);
    }
  }
  std::stable_sort(near.begin(), near.end(), [](auto &a, auto &b) { return a.first < b.first; });
  std::string text;
  for (size_t i = 0; i < std::min(near.size(), kSuggested); ++i) {
    text += (i == 0 ? "; did you mean '" : " or '") + *near[i].second + "'";
  }
  text += near.empty() ? "" : "?";
  text += std::string(" (") + what + ": ";
  for (size_t i = 0; i < std::min(known.size(), kListed); ++i) {
    text += (i == 0 ? "'" : ", '") + known[i] + "'";
  }
  return text + (known.empty() ? "none)" : known.size() > kListed ? ", ...)" : ")");
}

} // namespace sojourn::frontend
