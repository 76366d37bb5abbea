// SPDX-License-Identifier: Apache-2.0
// Sends programs as an attacker would write them to owners of neighbouring tables, and compares all that leaves.
#include "test/attack/Campaign.h"

#include <CLI/CLI.hpp>
#include <malloc.h>

int main(int argc, char **argv) {
  // Thousands of small programs a minute: memory that is given back to the system is soon asked for again.
  mallopt(M_TRIM_THRESHOLD, 1 << 28);
  mallopt(M_MMAP_THRESHOLD, 1 << 26);
  mallopt(M_MXFAST, 0);
  sojourn::attack::CampaignOptions options;
  uint64_t printed = 0;
  std::string played;
  CLI::App app("Attacks owners with programs in core form that are made up from a seed.", "attack");
  app.add_option("--seed", options.seed, "the first attack's; the others follow it");
  app.add_option("--programs", options.programs, "how many attacks; without it and without --seconds 1000");
  app.add_option("--seconds", options.seconds, "for how long; 0: no bound");
  app.add_option("--resume", options.journal, "a file with the last seed that is done; goes on behind it");
  app.add_option("--counts", options.counts, "writes passed and failed as JSON");
  app.add_option("--out", options.folder, "the folder for attacks that succeed");
  app.add_option("--failures", options.failuresMost, "ends after so many attacks that succeed");
  app.add_flag("--shrink,!--no-shrink", options.shrinks, "makes them small");
  app.add_flag("--errors", options.tellsErrors, "counts refusals by their texts");
  app.add_option("--jobs", options.jobs,
                 "how many processes; seeds are dealt out in turn, one journal and one count are of all; texts of "
                 "refusals are counted in one process only")
      ->check(CLI::Range(1, 256));
  app.add_option("--play", played, "plays an attack that was written to a file");
  auto *print = app.add_option("--print", printed, "prints the attack of that seed, and what becomes of it");
  CLI11_PARSE(app, argc, argv);
  if (!played.empty()) {
    return sojourn::attack::play(played);
  }
  if (*print) {
    return sojourn::attack::show(printed);
  }
  if (options.programs == 0 && options.seconds == 0) {
    options.programs = 1000;
  }
  return sojourn::attack::campaign(options);
}
