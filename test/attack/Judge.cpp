// SPDX-License-Identifier: Apache-2.0
// Comparison of worlds (see Judge.h).
#include "test/attack/Judge.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Error.h"

using namespace sojourn;
using namespace sojourn::attack;

void Judge::refresh(uint64_t seed) {
  if (!worlds.empty() && played < attacksPerOwner) {
    return;
  }
  played = 0;
  worlds.clear();
  for (size_t kind = 0; kind < 3; ++kind) {
    worlds.push_back(std::make_unique<World>(seed));
  }
}

/// Replies, log and budgets of a world against those of the first.
static std::optional<Violation> difference(const Transcript &first, const Transcript &other, WorldKind kind) {
  std::string property = kind == WorldKind::Neighbour ? "neighbours" : "draws";
  std::string where = kind == WorldKind::Neighbour ? " where one row is another" : " where other rows are drawn";
  for (auto [number, one, two] : llvm::enumerate(first.replies, other.replies)) {
    if (one != two) {
      std::string errors = first.errors[number] == other.errors[number]
                               ? (first.errors[number].empty() ? "published values or notes" : "more than the message")
                               : "'" + first.errors[number] + "' and '" + other.errors[number] + "'";
      return Violation{property, "the reply to step " + std::to_string(number) + " differs" + where + ": " + errors};
    }
  }
  if (first.log != other.log) {
    return Violation{property, "the log differs" + where};
  }
  if (first.budgets != other.budgets) {
    return Violation{property,
                     "what is left of budgets differs" + where + ": " + first.budgets + "and " + other.budgets};
  }
  return std::nullopt;
}

Verdict Judge::judge(const Attack &attack) {
  Verdict verdict;
  std::vector<runtime::EncodedProgram> programs;
  for (const AttackStep &step : attack.steps) {
    auto program = runtime::encodeProgram(step.module.get());
    if (!program) {
      verdict.errors.push_back(llvm::toString(program.takeError()));
      return verdict;
    }
    programs.push_back(std::move(*program));
  }
  verdict.isEncodable = true;
  refresh(attack.seed);
  ++played;
  Trial trial(attack.seed);
  observe(&trial);
  auto play = [&](WorldKind kind) {
    trial.enter(kind);
    return worlds[static_cast<size_t>(kind)]->play(attack, programs);
  };
  Transcript first = play(WorldKind::First);
  verdict.steps = attack.steps.size();
  verdict.accepted = static_cast<size_t>(llvm::count(first.accepted, true));
  verdict.errors = first.errors;
  verdict.violation = trial.violation();
  verdict.privateRuns = trial.privateRuns();
  verdict.comparisons = trial.comparisons();
  // All worlds play on, so that their pasts stay equal.
  for (WorldKind kind : {WorldKind::Neighbour, WorldKind::Redrawn}) {
    if (kind == WorldKind::Redrawn) {
      verdict.wasRedrawn = trial.hasDraws();
    }
    Transcript other = play(kind);
    if (!verdict.violation) {
      verdict.violation = difference(first, other, kind);
    }
  }
  observe(nullptr);
  if (verdict.violation) {
    renew();
  }
  return verdict;
}
