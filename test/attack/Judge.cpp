// SPDX-License-Identifier: Apache-2.0
// Comparison of worlds (see Judge.h).
#include "test/attack/Judge.h"

#include "dialect/RowOps.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Error.h"

using namespace sojourn;
using namespace sojourn::attack;

void Judge::renew() {
  drawing.worlds.clear();
  plain.worlds.clear();
}

void Judge::refresh(Group &group, uint64_t seed) const {
  if (!group.worlds.empty() && group.played < attacksPerOwner) {
    return;
  }
  group.played = 0;
  group.worlds.clear();
  for (size_t kind = 0; kind < group.kinds.size(); ++kind) {
    group.worlds.push_back(std::make_unique<World>(seed));
  }
}

/// Whether the owner may draw rows by secret coins.
static bool draws(const Attack &attack) {
  return llvm::any_of(attack.steps, [](const AttackStep &step) {
    return llvm::any_of(step.function().getOps<SampleRowsOp>(),
                        [](SampleRowsOp sample) { return sample.getExpected().has_value(); });
  });
}

/// Replies, log and books of a world against those of the first.
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
  if (first.spent != other.spent) {
    return Violation{property, "what was charged differs" + where + ": " + first.spent + "and " + other.spent};
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
  Group &group = draws(attack) ? drawing : plain;
  refresh(group, attack.seed);
  ++group.played;
  Trial trial(attack.seed);
  observe(&trial);
  auto play = [&](WorldKind kind) {
    trial.enter(kind);
    return group.worlds[static_cast<size_t>(kind)]->play(attack, programs);
  };
  Transcript first = play(WorldKind::First);
  verdict.steps = attack.steps.size();
  verdict.accepted = static_cast<size_t>(llvm::count(first.accepted, true));
  verdict.errors = first.errors;
  verdict.violation = trial.violation();
  if (!verdict.violation && !first.meddled.empty()) {
    verdict.violation = Violation{"clients", first.meddled};
  }
  verdict.privateRuns = trial.privateRuns();
  verdict.comparisons = trial.comparisons();
  // All worlds play on, so that their pasts stay equal.
  for (WorldKind kind : llvm::drop_begin(group.kinds)) {
    verdict.wasRedrawn |= kind == WorldKind::Redrawn && trial.hasDraws();
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
