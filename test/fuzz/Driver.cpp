// SPDX-License-Identifier: Apache-2.0
// What libFuzzer calls. The environment says which target, and where counts and histories go (tools/fuzz sets it):
//   SOJOURN_FUZZ_TARGET   name of the target
//   SOJOURN_FUZZ_COUNTS   file of counts, as JSON; written every second and at the end
//   SOJOURN_FUZZ_HISTORY  file of the inputs that the running input's state rests on
//   SOJOURN_FUZZ_REPLAY   plays such a file, and ends
#include "test/fuzz/Frame.h"
#include "test/fuzz/Target.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

using namespace sojourn::fuzz;

namespace {

std::string variable(const char *name) {
  const char *value = std::getenv(name);
  return value != nullptr ? value : "";
}

struct Driver {
  std::unique_ptr<Target> target = makeTarget(variable("SOJOURN_FUZZ_TARGET"));
  const std::string counts = variable("SOJOURN_FUZZ_COUNTS"), history = variable("SOJOURN_FUZZ_HISTORY");
  std::chrono::steady_clock::time_point told;

  void run(std::string_view input) {
    if (!history.empty()) {
      const bool isNew = target->beginsAnew();
      std::ofstream file(history, isNew ? std::ios::binary | std::ios::trunc : std::ios::binary | std::ios::app);
      file << lengthBytes(input.size()) << input;
    }
    target->run(input);
    if (const auto now = std::chrono::steady_clock::now(); now - told > std::chrono::seconds(1)) {
      told = now;
      tell();
    }
  }

  void tell() const {
    if (counts.empty()) {
      return;
    }
    const Tally &tally = target->tally();
    std::ofstream(counts) << "{\"inputs\": " << tally.inputs << ", \"done\": " << tally.done
                          << ", \"late\": " << tally.late << ", \"refused\": " << tally.refused << "}\n";
  }
};

Driver &driver() {
  static Driver one;
  return one;
}

} // namespace

// NOLINTBEGIN(readability-identifier-naming): libFuzzer's names
extern "C" int LLVMFuzzerInitialize(int * /*count*/, char *** /*arguments*/) {
  if (!driver().target) {
    std::fprintf(stderr, "no target '%s'; set SOJOURN_FUZZ_TARGET to one of", variable("SOJOURN_FUZZ_TARGET").c_str());
    for (const std::string &name : targetNames()) {
      std::fprintf(stderr, " %s", name.c_str());
    }
    std::fprintf(stderr, ", or run tools/fuzz\n");
    std::exit(2);
  }
  if (const std::string replay = variable("SOJOURN_FUZZ_REPLAY"); !replay.empty()) {
    std::ifstream file(replay, std::ios::binary);
    const std::string all{std::istreambuf_iterator<char>(file), {}};
    for (std::string_view rest = all; !rest.empty();) {
      driver().target->run(takeFrame(rest));
    }
    std::exit(0);
  }
  std::atexit([] { driver().tell(); });
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  driver().run({reinterpret_cast<const char *>(data), size});
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
  Dice dice(seed);
  const std::string mutant = driver().target->mutate({reinterpret_cast<const char *>(data), size}, most, dice);
  const size_t kept = std::min(mutant.size(), most);
  std::copy_n(mutant.begin(), kept, data);
  return kept;
}
// NOLINTEND(readability-identifier-naming)
