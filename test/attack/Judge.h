// SPDX-License-Identifier: Apache-2.0
// Plays an attack in its worlds and says what differs that must not.
#ifndef SOJOURN_TEST_ATTACK_JUDGE_H
#define SOJOURN_TEST_ATTACK_JUDGE_H

#include "test/attack/Program.h"
#include "test/attack/Trial.h"
#include "test/attack/World.h"

#include <map>
#include <memory>
#include <optional>

namespace sojourn::attack {

/// What became of one attack.
struct Verdict {
  std::optional<Violation> violation;
  bool isEncodable = false;
  size_t steps = 0, accepted = 0;
  size_t privateRuns = 0, comparisons = 0;
  bool wasRedrawn = false;
  std::vector<std::string> errors; ///< by step
};

class Judge {
public:
  /// Owners live for that many attacks; they remember programs, and budgets are spent.
  explicit Judge(size_t attacksPerOwner = 100) : attacksPerOwner(attacksPerOwner) {}
  Verdict judge(const Attack &attack);
  /// The next attack finds owners without a past.
  void renew();

private:
  /// Owners with one past: three of them play attacks that draw rows, and two the others.
  struct Group {
    std::vector<WorldKind> kinds;
    std::vector<std::unique_ptr<World>> worlds;
    size_t played = 0;
  };
  void refresh(Group &group, uint64_t seed) const;

  size_t attacksPerOwner;
  Group drawing{{WorldKind::First, WorldKind::Neighbour, WorldKind::Redrawn}, {}};
  Group plain{{WorldKind::First, WorldKind::Neighbour}, {}};
};

} // namespace sojourn::attack

#endif // SOJOURN_TEST_ATTACK_JUDGE_H
