// SPDX-License-Identifier: Apache-2.0
// The list of targets, and what they share (see Target.h).
#include "test/fuzz/Target.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <unistd.h>

namespace sojourn::fuzz {

namespace {

constexpr size_t kSoundMost = 256;

using Makers = std::map<std::string, std::unique_ptr<Target> (*)(), std::less<>>;

Makers &makers() {
  static Makers all;
  return all;
}

struct Scratch {
  std::string path;
  Scratch() {
    const std::filesystem::path shared = "/dev/shm";
    std::error_code ignored;
    auto parent = std::filesystem::is_directory(shared, ignored) ? shared : std::filesystem::temp_directory_path();
    std::string pattern = (parent / "sojourn-fuzz-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) {
      broken("cannot make a folder below " + parent.string());
    }
    path = pattern;
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
};

} // namespace

Target::~Target() = default;

/// With some room above what is asked for.
bool Target::isWanting() const { return counts.units() > 100 && counts.doneShare() < kLeastDone + 0.1; }

void Target::run(std::string_view input) {
  const Tally before = counts;
  ++counts.inputs;
  play(input);
  if (counts.done == before.done || counts.late != before.late || counts.refused != before.refused) {
    return;
  }
  if (sound.size() < kSoundMost) {
    sound.emplace_back(input);
  } else if (counts.inputs % 16 == 0) {
    sound[counts.inputs / 16 % kSoundMost] = input;
  }
}

std::string Target::mutate(std::string input, size_t most, Dice &dice) {
  if (isWanting() && !sound.empty() && dice.chance(0.8)) {
    input = sound[dice.below(sound.size())];
  }
  return change(std::move(input), most, dice);
}

Registered::Registered(const char *name, std::unique_ptr<Target> (*make)()) { makers().emplace(name, make); }

std::vector<std::string> targetNames() {
  std::vector<std::string> names;
  for (const auto &[name, make] : makers()) {
    names.push_back(name);
  }
  return names;
}

std::unique_ptr<Target> makeTarget(std::string_view name) {
  auto found = makers().find(name);
  return found == makers().end() ? nullptr : found->second();
}

void broken(const std::string &what) {
  std::fprintf(stderr, "\nbroken: %s\n", what.c_str());
  std::abort();
}

const std::string &scratchFolder() {
  static const Scratch scratch;
  return scratch.path;
}

void writeFile(const std::string &path, std::string_view contents) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(contents.data(), static_cast<std::streamsize>(contents.size()));
  if (!file.flush()) {
    broken("cannot write " + path);
  }
}

} // namespace sojourn::fuzz
