// SPDX-License-Identifier: Apache-2.0
// Facts about a release that ledger and receipts share: the relation of neighbours, and the noise.
#ifndef SOJOURN_RUNTIME_SIGNING_RELEASE_H
#define SOJOURN_RUNTIME_SIGNING_RELEASE_H

#include <cstdint>
#include <string>

namespace sojourn::signing {

/// Which tables are neighbours: one subject's row becomes the null row, or any row at all.
enum class Relation : uint8_t { nullOne = 1, replaceOne = 2 };
constexpr bool isKnown(Relation relation) { return relation == Relation::nullOne || relation == Relation::replaceOne; }
/// "null_one" or "replace_one".
constexpr const char *relationName(Relation relation) {
  return relation == Relation::nullOne ? "null_one" : "replace_one";
}

/// Noise that a program adds: discrete Gaussian of scale `sigmaInt` onto values whose L2 norm moves
/// by at most `sensitivityInt`, both in grid units of 2^gridExponent.
struct Site {
  uint64_t sigmaInt = 0, sensitivityInt = 0;
  int32_t gridExponent = 0;
  std::string what;
  static void fields(auto &archive, auto &site) {
    archive(site.sigmaInt, site.sensitivityInt, site.gridExponent, site.what);
  }
  friend bool operator==(const Site &, const Site &) = default;
};

} // namespace sojourn::signing

#endif // SOJOURN_RUNTIME_SIGNING_RELEASE_H
