// SPDX-License-Identifier: Apache-2.0
// The target `frames` reaches what went wrong once between members: each as a change of a real session, and by mutants
// alone.
#include "test/fuzz/Peers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>

using namespace sojourn::fuzz;

namespace {

using What = PeerChange::What;
constexpr uint8_t kMasked = 1; ///< the message whose sums are masked: its frames are key, terms, ready

struct Hole {
  const char *name, *error;
  std::vector<PeerChange> changes;
};

PeerChange change(uint8_t message, uint8_t frame, What what, uint8_t value = 0, uint8_t index = 0) {
  return {message, 0, frame, what, value, index, 0};
}

/// The frames of a member in each of the first two messages are its key, its terms and its ready.
const Hole kHoles[] = {
    {"a key that doubles",
     "sent two keys for masks",
     {change(kMasked, 1, What::insert, 4, 0), change(kMasked, 1, What::insert, 4, 0), change(kMasked, 1, What::drop)}},
    {"the key of another member", "sent the key for masks of another member", {{0, 1, 0, What::key, 0, 0, 0}}},
    {"bytes that are no key", "sent bytes that are no key for masks", {change(0, 0, What::key, 2)}},
    {"terms of a wrong size", "bytes in an exchange, expected", {change(0, 1, What::size, 8)}},
    {"no terms", "sent 0 bytes in an exchange, expected", {change(0, 1, What::size, 8, 3)}},
    {"ready before terms", "sent a frame of another exchange of this step", {change(0, 1, What::insert, 1)}},
    {"an end of a later step", "has gone on to another message", {change(0, 1, What::insert, 2, 4)}},
    {"an end of a later message", "has gone on to another message", {change(0, 1, What::insert, 2, 1)}},
    {"a point that falls", "is not reachable any more", {change(kMasked, 1, What::sequence, 255)}},
    {"exchanges out of order", "sent a frame of another exchange of this step", {change(0, 1, What::exchange, 1)}},
    {"terms of the next step, with a ready that comes too early",
     "sent a frame of another exchange of this step",
     {change(0, 1, What::step, 1), change(0, 1, What::exchange, 1, 1)}},
    {"a ready with terms of the first step", "is not reachable any more", {change(0, 1, What::exchange, 1, 1)}},
    {"another message", "was sent another message of this step", {change(0, 1, What::digest, 1)}},
    {"bytes that are no frame", "is not reachable any more", {change(0, 1, What::head, 255, 1)}},
};

bool isFound(const Hole &hole) {
  return std::any_of(errorsOfFrames().begin(), errorsOfFrames().end(),
                     [&](const std::string &error) { return error.find(hole.error) != std::string::npos; });
}

} // namespace

TEST(FuzzFrames, HolesOfThePastAreSaid) {
  auto target = makeTarget("frames");
  for (const Hole &hole : kHoles) {
    // Some need an order of the members' frames that is chance: another member's key must have been sent.
    for (unsigned tries = 0; tries == 0 || (tries < 100 && !isFound(hole)); ++tries) {
      target->run(writeChanges(hole.changes));
    }
    std::string all;
    for (const std::string &error : errorsOfFrames()) {
      all += "\n  " + error;
    }
    EXPECT_TRUE(isFound(hole)) << hole.name << ":" << all;
  }
}

/// From nothing: the generator needs no seed for them.
TEST(FuzzFrames, HolesOfThePastAreFound) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  Dice dice(seed);
  auto target = makeTarget("frames");
  std::vector<bool> found(std::size(kHoles));
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(300);
  std::string input;
  size_t number = 0;
  for (; std::count(found.begin(), found.end(), false) > 0 && std::chrono::steady_clock::now() < until; ++number) {
    input = target->mutate(number % 4 ? input : "", 1'024, dice);
    target->run(input);
    for (size_t at = 0; at < found.size(); ++at) {
      found[at] = found[at] || isFound(kHoles[at]);
    }
  }
  for (size_t at = 0; at < found.size(); ++at) {
    EXPECT_TRUE(found[at]) << kHoles[at].name << " in " << number << " inputs";
  }
}
