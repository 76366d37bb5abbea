// SPDX-License-Identifier: Apache-2.0
// Numbers that a client may choose for steps on private tables (Spending of Step.fbs): the owner refuses others, the
// client does before anything is recorded, in Python through frontend/bind/BindPrivacy.cpp. All say so by these.
#ifndef SOJOURN_RUNTIME_WIRE_TERMS_H
#define SOJOURN_RUNTIME_WIRE_TERMS_H

#include <string>

namespace sojourn::wire {

/// The numbers that a term may be, up to its ends; an open end does not belong to it, and NaN never does.
struct Interval {
  double least, most;
  bool openBelow = false, openAbove = false;

  constexpr bool admits(double number) const {
    return (openBelow ? number > least : number >= least) && (openAbove ? number < most : number <= most);
  }
  /// "a number from 0 to 0.95", "a number above 0 and at most 8", "a number above 0 and below 1".
  std::string expected() const;
};

inline constexpr Interval kEpsilon{0, 0x1p20, /*openBelow=*/true};
inline constexpr Interval kDelta{0, 1, /*openBelow=*/true, /*openAbove=*/true};
inline constexpr Interval kNoiseMultiplier{0x1p-10, 0x1p20};
/// Clips, and bounds of published numbers: what an owner takes.
inline constexpr Interval kBound{0x1p-100, 0x1p100};
/// The same, as clients take them: a little narrower, so that they can be said shortly.
inline constexpr Interval kSaidBound{1e-30, 1e30};
static_assert(kBound.admits(kSaidBound.least) && kBound.admits(kSaidBound.most));
inline constexpr Interval kMetricShare{0, 0.95};

/// At most six digits, as "%g".
std::string shortNumber(double number);

} // namespace sojourn::wire

#endif // SOJOURN_RUNTIME_WIRE_TERMS_H
