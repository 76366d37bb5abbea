// SPDX-License-Identifier: Apache-2.0
// What the owner knows about where a value comes from; only the owner computes it.
#ifndef SOJOURN_OWNER_LABEL_H
#define SOJOURN_OWNER_LABEL_H

#include "passes/DependenceSummary.h"
#include "runtime/signing/SigningKey.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace sojourn::owner {

/// What may be done with values computed from a dataset.
enum class Policy {
  open,       ///< values may be published
  privateOnly ///< values leave with noise only, paid from a budget
};

const char *policyName(Policy policy);
std::optional<Policy> parsePolicy(const std::string &text);

/// One version of one owner's dataset that a value was computed from: names are each owner's own, so equal ones at two
/// owners are two sources. It carries no policy: that is looked up when something is published, so that a change
/// reaches values computed before it.
struct Source {
  signing::PublicKey owner;
  std::string name;
  std::string version;

  friend auto operator<=>(const Source &, const Source &) = default;
};

/// Owners that may be sent a value; nothing: any that its sources are shared with.
using Audience = std::optional<std::set<signing::PublicKey>>;

/// An extensible record, kept per handle and joined over everything a value depends on.
/// Join, covering and order go over `members()`, which does not compile while a field is missing
/// from it, and each field's type needs a rule in Label.cpp: what is added later cannot be dropped
/// silently. A label that is not there (null) is the most careful one: it is never releasable and
/// covers nothing, and what is computed from it has no label either.
class Label {
public:
  /// Of values that the client itself brought: uploads, slots, seeds.
  static std::shared_ptr<const Label> client();
  /// Of rows of a dataset.
  static std::shared_ptr<const Label> of(Source source);
  /// Of a value of a group, outside of it: as it was, and for the group's members alone. Null stays null.
  static std::shared_ptr<const Label> within(const std::shared_ptr<const Label> &label,
                                             const std::set<signing::PublicKey> &members);
  /// Of what noise releases: without sources, and for the same owners; of null, for none.
  static std::shared_ptr<const Label> released(const std::shared_ptr<const Label> &label);

  const std::set<Source> &sources() const { return sources_; }
  /// Of a value that follows from what members of a group showed each other: those members. It may be computed from
  /// rows of theirs, which the sources do not name.
  const Audience &audience() const { return audience_; }

  /// The label of a value computed from this one and `other`.
  void join(const Label &other);
  /// Whether joining `part` changes nothing.
  bool covers(const Label &part) const;

private:
  Label() = default;
  auto members() const {
    const auto &[sources, audience] = *this; // fails to compile unless every field is named
    return std::tie(sources, audience);
  }
  auto members() {
    auto &[sources, audience] = *this;
    return std::tie(sources, audience);
  }

  std::set<Source> sources_;
  Audience audience_;

public:
  friend bool operator==(const Label &a, const Label &b) { return a.members() == b.members(); }
  friend auto operator<=>(const Label &a, const Label &b) { return a.members() <=> b.members(); }
};

using LabelPtr = std::shared_ptr<const Label>;

/// The label of what is computed from both; one of the two where it covers the other.
LabelPtr joinLabels(const LabelPtr &a, const LabelPtr &b);

/// Per result the join over the arguments that it depends on; `Label::client()` where there are none.
std::vector<LabelPtr> joinLabels(llvm::ArrayRef<LabelPtr> arguments, const DependenceSummary &dependence);

/// Sources for messages of the owner with key `own`: `private dataset 'a', 'b'`; those of another owner with the first
/// digits of its key. Empty if there are none.
std::string privateDatasets(const std::set<Source> &sources, const signing::PublicKey &own);

/// What keeps a value here, for messages; empty if it may leave. `policyOf` tells the present policy of a source.
std::string blockers(const LabelPtr &label, const signing::PublicKey &own,
                     llvm::function_ref<Policy(const Source &)> policyOf);

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_LABEL_H
