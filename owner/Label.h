// SPDX-License-Identifier: Apache-2.0
// What the owner knows about where a value comes from; only the owner computes it.
#ifndef SOJOURN_OWNER_LABEL_H
#define SOJOURN_OWNER_LABEL_H

#include <optional>
#include <set>
#include <string>

namespace sojourn::owner {

/// What may be done with values computed from a dataset.
enum class Policy {
  open,       ///< values may be published
  privateOnly ///< nothing computed from it leaves (proofs of privacy come later)
};

const char *policyName(Policy policy);
std::optional<Policy> parsePolicy(const std::string &text);

/// One version of one dataset that a value was computed from.
struct Source {
  std::string name;
  std::string version;
  Policy policy = Policy::privateOnly;

  friend auto operator<=>(const Source &, const Source &) = default;
};

/// An extensible record, kept per handle and joined over everything a value depends on. A value
/// without sources was computed from the client's own uploads, slots and seeds.
/// Later releases append what they prove (population, row dimension, sensitivity); a field that
/// is absent must always mean the most careful reading.
struct Label {
  std::set<Source> sources;

  /// True if every source is open: the value may leave.
  bool releasable() const;
  /// The sources that keep the value here, for messages: `'a', 'b'`.
  std::string blockers() const;
  /// The label of a value computed from this one and `other`.
  void join(const Label &other) { sources.insert(other.sources.begin(), other.sources.end()); }
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_LABEL_H
