// SPDX-License-Identifier: Apache-2.0
// What other owners may see of a table's rows in joint steps.
#ifndef SOJOURN_OWNER_SHARING_H
#define SOJOURN_OWNER_SHARING_H

#include <array>
#include <optional>
#include <string>

namespace sojourn::owner {

/// By the word of the data owner, for each other member of a group.
enum class Sharing {
  none, ///< nothing: a program that would show something is refused
  sums, ///< sums over rows of three members or more
  clear ///< whatever the client of the group may see, too
};

inline constexpr std::array kSharings = {Sharing::none, Sharing::sums, Sharing::clear};

inline const char *sharingName(Sharing sharing) {
  return sharing == Sharing::clear ? "clear" : sharing == Sharing::sums ? "sums" : "none";
}
inline std::optional<Sharing> parseSharing(const std::string &text) {
  for (Sharing sharing : kSharings) {
    if (text == sharingName(sharing)) {
      return sharing;
    }
  }
  return std::nullopt;
}

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_SHARING_H
