// SPDX-License-Identifier: Apache-2.0
// What a joint step shows to other members, against what this owner shares with them (see StepShares.h).
#include "owner/StepShares.h"

#include "owner/RequestError.h"

#include <map>
#include <set>

namespace sojourn::owner {

using llvm::Twine;
using runtime::Shown;

namespace {

class ShareCheck {
public:
  ShareCheck(const OwnerBooks &books, const Group &group, const runtime::JointFacts &facts, bool isMasked,
             uint64_t rowsLeast)
      : books(books), group(group), facts(facts), isMasked(isMasked), rowsLeast(rowsLeast) {}

  llvm::Error check(const Source &source, Shown shown) const {
    for (unsigned role = 0; role < group.parties(); ++role) {
      if (role == group.role()) {
        continue;
      }
      auto sharing = books.store->sharing(source, group.member(role));
      if (!sharing) {
        return sharing.takeError();
      }
      if (*sharing == Sharing::none) {
        return refuse("this step shows other members of the group what rows of dataset '" + source.name +
                      "' sum up to, and its data owner does not share it with " + group.nameOf(role) +
                      "; the data owner does so with owner.share('" + source.name +
                      "', with_=[...], level='sums') or level='clear'");
      }
      if (*sharing == Sharing::sums) {
        const std::string shared = "dataset '" + source.name + "' is shared with " + group.nameOf(role) + " as sums";
        if (llvm::Error error = shown == Shown::Clear ? refuseClear(shared) : checkRows(shared)) {
          return error;
        }
      }
    }
    return llvm::Error::success();
  }

  /// A value that is bound as one that all members have, and came from elsewhere: members compare digests of it, and
  /// take over its bytes where these differ.
  llvm::Error checkCompared(const Source &source) const {
    for (unsigned role = 0; role < group.parties(); ++role) {
      auto sharing = role == group.role() ? Sharing::clear : books.store->sharing(source, group.member(role));
      if (!sharing) {
        return sharing.takeError();
      }
      if (*sharing != Sharing::clear) {
        return refuse("this step takes a value that is computed from dataset '" + source.name +
                      "' for one that all members of the group have, which they compare, and its data owner does not "
                      "share it in clear with " +
                      group.nameOf(role) + "; send it as a value of its owner, or make it in a step of the group");
      }
    }
    return llvm::Error::success();
  }

private:
  llvm::Error refuse(const Twine &text) const { return requestError(wire::ErrorCode_Refused, text); }

  llvm::Error refuseClear(const Twine &shared) const {
    if (group.parties() < bounds::kMaskedRolesLeast) {
      return refuse(shared + " alone, and of a sum of two members each knows the other one's part; make a group of "
                             "three or more, or its data owner shares it with level='clear'");
    }
    if (!isMasked) {
      return refuse(shared + " alone, and this group shows sums without masks; make it anew, with sums='masked' or "
                             "without saying");
    }
    return requestError(wire::ErrorCode_Refused,
                        shared + " alone, and this step shows a value that is no sum over rows of all members "
                                 "(the first such value is named here); compute it from such sums (parties.rows), or "
                                 "its data owner shares it with level='clear'",
                        facts.clearOp, facts.clearLocation);
  }

  llvm::Error checkRows(const Twine &shared) const {
    const uint64_t rows = facts.leastRows.value_or(0);
    return rows >= rowsLeast ? llvm::Error::success()
                             : refuse(shared + " over at least " + Twine(rowsLeast) +
                                      " rows (groups.least_rows), and this step has "
                                      "one over " +
                                      Twine(rows) + " of this owner; take larger batches");
  }

  const OwnerBooks &books;
  const Group &group;
  const runtime::JointFacts &facts;
  const bool isMasked;
  const uint64_t rowsLeast;
};

} // namespace

llvm::Error checkShares(const OwnerBooks &books, const Session &session, const runtime::JointFacts &facts,
                        const StepBindings &bound, bool isMasked, uint64_t rowsLeast) {
  llvm::ArrayRef<LabelPtr> labels = bound.labels;
  std::map<Source, Shown> sources;
  for (size_t index = 0; index < labels.size(); ++index) {
    if (!labels[index]) {
      return requestError(wire::ErrorCode_Refused, "a value of unknown origin cannot take part in a joint step");
    }
    for (const Source &source : labels[index]->sources()) {
      Shown &shown = sources[source];
      shown = std::max(shown, facts.shown[index]);
    }
  }
  std::set<Source> compared;
  for (uint32_t index : facts.copiedStates) {
    if (bound.states[index]->copiesAt != session.group->number) {
      compared.insert(labels[index]->sources().begin(), labels[index]->sources().end());
    }
  }
  std::lock_guard lock(books.mutex);
  for (const auto &[source, shown] : sources) {
    auto policy = books.store->policy(source);
    if (!policy) {
      return policy.takeError();
    }
    if (*policy != Policy::open) {
      return requestError(wire::ErrorCode_Refused, "dataset '" + source.name +
                                                       "' is private, and private tables do not take part in steps of "
                                                       "several owners yet; use it at its owner alone");
    }
  }
  const ShareCheck check(books, *session.group, facts, isMasked, rowsLeast);
  for (const auto &[source, shown] : sources) {
    if (llvm::Error error = shown == Shown::No ? llvm::Error::success() : check.check(source, shown)) {
      return error;
    }
  }
  for (const Source &source : compared) {
    if (llvm::Error error = check.checkCompared(source)) {
      return error;
    }
  }
  return llvm::Error::success();
}

} // namespace sojourn::owner
