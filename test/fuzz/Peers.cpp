// SPDX-License-Identifier: Apache-2.0
// Frames between members of a group, on their way to an owner: real sessions, of which some frames are changed. An
// input is a list of changes.
#include "test/fuzz/PeerWorld.h"
#include "test/fuzz/Peers.h"
#include "test/fuzz/Quiet.h"

namespace sojourn::fuzz {

namespace {

/// Owners remember sessions and programs: inputs share them, so that they are many, and they are renewed, so that a
/// finding needs few of them.
constexpr size_t kInputsPerWorld = 50;

class Peers final : public Target {
public:
  Peers() { leaveLogOut(); }
  bool beginsAnew() const override { return used == kInputsPerWorld || !world; }

protected:
  void play(std::string_view input) override;
  std::string change(std::string input, size_t most, Dice &dice) override;

private:
  PeerScript script;
  std::unique_ptr<PeerWorld> world;
  size_t used = 0;
};

std::vector<std::string> errorsOfLast;

void Peers::play(std::string_view input) {
  if (beginsAnew()) {
    world.reset();
    world = std::make_unique<PeerWorld>(script);
    used = 0;
  }
  ++used;
  errorsOfLast.clear();
  world->renew();
  script.begin(readChanges(input), world->honestGroup());
  for (uint8_t message = 0; message < kPeerMessages; ++message) {
    for (const PeerChange &each : script.connections(message)) {
      world->connect(each);
    }
    const PeerWorld::Outcome outcome = world->step(message);
    const std::string &error = outcome.ofOwner();
    ++(error.empty() ? counts.done : outcome.isLinkEnded ? counts.refused : counts.late);
    errorsOfLast.push_back(error);
  }
  script.begin({}, world->honestGroup());
  world->honestStep(static_cast<unsigned>(used) % PeerWorld::kPrograms);
}

std::string Peers::change(std::string input, size_t most, Dice &dice) {
  std::vector<PeerChange> changes = readChanges(input);
  if (changes.empty() || (changes.size() < kPeerChangesMost && dice.chance(0.25))) {
    PeerChange more = changes.empty() ? PeerChange() : changes[dice.below(changes.size())]; // of one message, mostly
    more.what = static_cast<uint8_t>(dice.below(PeerChange::count));
    changes.push_back(more);
  }
  if (changes.size() > 2 && dice.chance(0.4)) {
    changes.erase(changes.begin() + static_cast<std::ptrdiff_t>(dice.below(changes.size())));
  }
  PeerChange &one = changes[dice.below(changes.size())];
  switch (dice.below(5)) {
  case 0: one.message = static_cast<uint8_t>(dice.below(kPeerMessages)); break;
  case 1: one.member = static_cast<uint8_t>(dice.below(PeerScript::kMembers)); break;
  case 2: one.frame = static_cast<uint8_t>(dice.below(6)); break;
  case 3:
    one.what = static_cast<uint8_t>(dice.below(PeerChange::count));
    one.place = static_cast<uint16_t>(dice.word());
    [[fallthrough]];
  default:
    one.value = dice.of<uint8_t>({0, 1, 2, 3, 4, 5, 127, 255, static_cast<uint8_t>(dice.word())});
    one.index = static_cast<uint8_t>(dice.below(8));
  }
  std::string made = writeChanges(changes);
  made.resize(std::min(made.size(), most));
  return made;
}

const Registered known("frames", []() -> std::unique_ptr<Target> { return std::make_unique<Peers>(); });

} // namespace

const std::vector<std::string> &errorsOfFrames() { return errorsOfLast; }

} // namespace sojourn::fuzz
