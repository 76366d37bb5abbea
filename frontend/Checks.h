// SPDX-License-Identifier: Apache-2.0
// Numbers that a program gives: what they may be, told before anything is recorded; as sojourn/checks.py has them.
#ifndef SOJOURN_FRONTEND_CHECKS_H
#define SOJOURN_FRONTEND_CHECKS_H

namespace sojourn::frontend {

/// Both ends belong to it.
struct Range {
  double least, most;
};
/// As owner/PrivateStep.cpp has them; a bound's are a little narrower, so that they can be said shortly.
inline constexpr double kEpsilonMost = 0x1p20;
inline constexpr Range kBounds{1e-30, 1e30}, kNoiseMultipliers{0x1p-10, 0x1p20};

/// Each throws Error, with the name, what was expected and what was given.
void requireEpsilon(double epsilon);
/// Above 0 and below 1.
void requireDelta(double delta);
/// Above 0 and at most `granted`.
void requireDelta(double delta, double granted);
void requireWithin(const char *name, double number, Range range);

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_CHECKS_H
