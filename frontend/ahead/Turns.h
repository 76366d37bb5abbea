// SPDX-License-Identifier: Apache-2.0
// How the values of a compiled step take each other's places from one repetition to the next.
#ifndef SOJOURN_FRONTEND_AHEAD_TURNS_H
#define SOJOURN_FRONTEND_AHEAD_TURNS_H

#include "runtime/wire/Step.h"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

namespace sojourn::frontend {

/// A run calls values by their handles in the recorded second call. Before each further repetition the value of one
/// name goes to another: results of the second call replace its states, two states change places, the oldest of a
/// list comes back as its newest.
class Turns {
public:
  /// Both were recorded, one right after the other.
  Turns(const wire::Step &second, const wire::Step &third);
  /// Learns from a further repetition of the steady step, the next one.
  void learn(const wire::Step &next);
  /// A further call with as many results, of another kind of batch: it does not say how values move.
  void pass(const wire::Step &next);
  /// Whether every name that gives its value away gets one. Until then there is more to learn.
  bool isWhole() const;
  /// Values that calls release in no regular way stay until the run ends.
  void forgetReleases();
  /// Whether the calls so far take the values that they would take in a run.
  bool isRegular() const;
  /// The name of a value after the calls so far; nullopt for a value that moves and has none.
  std::optional<uint64_t> nameOf(uint64_t handle) const;
  /// The values of `from` go to `to`, all at once.
  void store(std::vector<uint64_t> &from, std::vector<uint64_t> &to) const;

private:
  /// Per name the handle that it stands for, after the first `calls` of the results.
  std::map<uint64_t, uint64_t> valuesAfter(size_t calls) const;
  bool isKnown(uint64_t name) const { return made_.contains(name) || sources_.contains(name); }
  void followAll();
  void nameValues();
  /// Follows one position of the calls as far as it is not known where its values come from.
  void follow(const std::vector<std::vector<uint64_t>> &calls, size_t position);

  std::set<uint64_t> made_;                              ///< by the second call
  std::map<uint64_t, std::optional<uint64_t>> names_;    ///< of the handles that move
  std::map<uint64_t, uint64_t> sources_;                 ///< to -> from
  std::vector<std::vector<uint64_t>> states_, releases_; ///< of the second call and of those learnt from
  std::vector<std::vector<uint64_t>> results_;           ///< of all calls from the second one
  bool isRegular_ = true;
};

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_AHEAD_TURNS_H
