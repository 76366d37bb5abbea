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
  CLI::App app("Attacks owners with core-form programs that are generated from a seed.", "attack");
  app.add_option("--seed", options.seed, "seed of the first attack; the next attacks use the following seeds");
  app.add_option("--programs", options.programs, "number of attacks; 1000 without this option and --seconds");
  app.add_option("--seconds", options.seconds, "time limit; 0: no limit");
  app.add_option("--resume", options.journal, "a file with the last finished seed; continues after it");
  app.add_option("--counts", options.counts, "writes passed and failed as JSON");
  app.add_option("--out", options.folder, "the folder for successful attacks");
  app.add_option("--failures", options.failuresMost, "stops after this many successful attacks");
  app.add_flag("--shrink,!--no-shrink", options.shrinks, "reduces successful attacks");
  app.add_flag("--errors", options.tellsErrors, "counts refusals by their texts");
  app.add_option("--jobs", options.jobs,
                 "number of processes; they share the seeds, one journal and one count; texts of refusals are counted "
                 "only with one process")
      ->check(CLI::Range(1, 256));
  app.add_option("--play", played, "plays an attack from a file");
  auto *print = app.add_option("--print", printed, "prints the attack of this seed and its outcome");
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
