// SPDX-License-Identifier: Apache-2.0
// What other owners may see of a table's rows in joint steps.
#ifndef SOJOURN_OWNER_SHARING_H
#define SOJOURN_OWNER_SHARING_H

#include <optional>
#include <string>

namespace sojourn::owner {

/// By the word of the data owner, for each other member of a group.
enum class Sharing {
  none, ///< nothing: a program that would show something is refused
  clear ///< whatever the client of the group may see, too
};

inline const char *sharingName(Sharing sharing) { return sharing == Sharing::clear ? "clear" : "none"; }
inline std::optional<Sharing> parseSharing(const std::string &text) {
  return text == "clear" ? std::optional(Sharing::clear) : text == "none" ? std::optional(Sharing::none) : std::nullopt;
}

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_SHARING_H
