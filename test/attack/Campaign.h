// SPDX-License-Identifier: Apache-2.0
// Attack after attack, with a journal to go on from, counts, and a file for each that succeeds.
#ifndef SOJOURN_TEST_ATTACK_CAMPAIGN_H
#define SOJOURN_TEST_ATTACK_CAMPAIGN_H

#include <cstdint>
#include <optional>
#include <string>

namespace sojourn::attack {

struct CampaignOptions {
  uint64_t seed = 1;        ///< of the first attack; the others follow
  uint64_t programs = 0;    ///< 0: no bound
  double seconds = 0;       ///< 0: no bound
  std::string journal;      ///< goes on behind the last seed in it
  std::string counts;       ///< JSON, for tools/check
  std::string folder = "."; ///< of attacks that succeed
  bool shrinks = true;
  bool tellsErrors = false; ///< a histogram of refusals
  uint64_t failuresMost = 1;
  unsigned jobs = 1; ///< processes; each takes every so many-th seed
};

/// Exit code: 0, or 1 where an attack succeeded, or 2 where the tool itself is broken.
int campaign(CampaignOptions options);
/// The attack of one seed and what becomes of it, for people.
int show(uint64_t seed);
/// The same of an attack that was written to a file.
int play(const std::string &path);

} // namespace sojourn::attack

#endif // SOJOURN_TEST_ATTACK_CAMPAIGN_H
