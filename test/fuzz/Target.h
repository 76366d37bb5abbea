// SPDX-License-Identifier: Apache-2.0
// What every fuzz target is: bytes in, a count of what was done with them, and mutants of which most are valid.
#ifndef SOJOURN_TEST_FUZZ_TARGET_H
#define SOJOURN_TEST_FUZZ_TARGET_H

#include "test/attack/Dice.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace sojourn::fuzz {

using attack::Dice;

/// What became of the units of all inputs: messages, programs, files.
struct Tally {
  uint64_t inputs = 0;
  uint64_t done = 0;    ///< to the end: the message was answered, the program ran, the file was taken
  uint64_t late = 0;    ///< refused by a check of meaning: policy, budget, limits, types of values
  uint64_t refused = 0; ///< refused as malformed

  uint64_t units() const { return done + late + refused; }
  double doneShare() const { return units() ? static_cast<double>(done) / static_cast<double>(units()) : 0; }
};

class Target {
public:
  /// The share of units that must be done; less of it says that hardly anything is tested.
  static constexpr double kLeastDone = 0.5;

  virtual ~Target();
  void run(std::string_view input);
  /// Another input of at most `most` bytes, nearby. Where too few units were done so far, mostly near one that was.
  std::string mutate(std::string input, size_t most, Dice &dice);
  /// Whether the next input meets nothing that an earlier one has left.
  virtual bool beginsAnew() const { return true; }
  const Tally &tally() const { return counts; }

protected:
  virtual void play(std::string_view input) = 0;
  virtual std::string change(std::string input, size_t most, Dice &dice) = 0;
  /// How often an input should be changed as bytes, which mostly ends it early.
  double wildness() const { return isWanting() ? 0.05 : 0.25; }

  Tally counts;

private:
  bool isWanting() const;
  std::vector<std::string> sound; ///< inputs of which all was done
};

/// The names of the targets of this program, in order.
std::vector<std::string> targetNames();
/// Null where no target has this name.
std::unique_ptr<Target> makeTarget(std::string_view name);

/// One object in the file of each target makes it known.
struct Registered {
  Registered(const char *name, std::unique_ptr<Target> (*make)());
};

/// An input after which something is as it must never be: ends the process.
[[noreturn]] void broken(const std::string &what);

/// A folder in memory that goes with the process; for files that a target reads.
const std::string &scratchFolder();
void writeFile(const std::string &path, std::string_view contents);

} // namespace sojourn::fuzz

#endif // SOJOURN_TEST_FUZZ_TARGET_H
