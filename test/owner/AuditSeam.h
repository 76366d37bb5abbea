// SPDX-License-Identifier: Apache-2.0
// Goal: positive controls of audits break the owner as a bug in it would. Method: the linker puts functions of
// AuditSeam.cpp in front of two of the owner's own, which do what these do unless a test asks for something worse.
#ifndef SOJOURN_TEST_OWNER_AUDITSEAM_H
#define SOJOURN_TEST_OWNER_AUDITSEAM_H

#include <cstddef>
#include <cstdint>

namespace sojourn::owner::test {

/// Defects of plans made from now on, and of draws.
struct Broken {
  bool halvesNoise = false;  ///< noise of half the scale that was proved and is charged
  bool forgetsClip = false;  ///< every row counts with factor 1
  bool drawsInFront = false; ///< drawn rows fill the slots from the first on
  int64_t nullRow = -1;      ///< no bug: this row is the null row, whose slot reads zeros and is not counted
};

void breakOwner(const Broken &how);
Broken seamState();

/// How often what was broken was met: plans, factors of rows, draws.
struct SeamUses {
  size_t plans = 0, factors = 0, draws = 0;
};
SeamUses seamUses();

} // namespace sojourn::owner::test

#endif // SOJOURN_TEST_OWNER_AUDITSEAM_H
