// SPDX-License-Identifier: Apache-2.0
// Numbers that a client may choose for steps on private tables (Spending of Step.fbs): the owner refuses others, the
// client says so before anything is recorded, in Python by the constants of frontend/BindPrivacy.cpp.
#ifndef SOJOURN_RUNTIME_WIRE_TERMS_H
#define SOJOURN_RUNTIME_WIRE_TERMS_H

namespace sojourn::wire {

/// Both ends belong to it.
struct Range {
  double least, most;
};

/// Above 0 and at most this.
inline constexpr double kEpsilonMost = 0x1p20;
/// Above 0 and below this.
inline constexpr double kDeltaMost = 1;
inline constexpr Range kNoiseMultipliers{0x1p-10, 0x1p20};
/// Clips, and bounds of published numbers: what an owner takes.
inline constexpr Range kBounds{0x1p-100, 0x1p100};
/// The same, as clients take them: a little narrower, so that they can be said shortly.
inline constexpr Range kSaidBounds{1e-30, 1e30};
static_assert(kBounds.least <= kSaidBounds.least && kSaidBounds.most <= kBounds.most);
/// From 0 to this.
inline constexpr double kMetricShareMost = 0.95;

} // namespace sojourn::wire

#endif // SOJOURN_RUNTIME_WIRE_TERMS_H
