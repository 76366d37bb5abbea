// SPDX-License-Identifier: Apache-2.0
// Intervals of terms: which numbers belong to them, and what is said of those that do not.
#include "runtime/wire/Terms.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

using namespace sojourn::wire;

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();

TEST(Intervals, EndsBelongUnlessTheyAreOpen) {
  const Interval closed{-1, 2}, above{-1, 2, /*openBelow=*/true}, between{-1, 2, true, /*openAbove=*/true};
  for (const Interval &interval : {closed, above, between}) {
    EXPECT_TRUE(interval.admits(std::nextafter(-1, 0)) && interval.admits(std::nextafter(2, 0)));
    for (double number : {std::nextafter(-1, -2), std::nextafter(2, 3), -kInfinity, kInfinity, kNaN}) {
      EXPECT_FALSE(interval.admits(number)) << number;
    }
  }
  EXPECT_TRUE(closed.admits(-1) && closed.admits(2));
  EXPECT_TRUE(!above.admits(-1) && above.admits(2));
  EXPECT_TRUE(!between.admits(-1) && !between.admits(2));
}

TEST(Intervals, AreSaidInWords) {
  EXPECT_EQ((Interval{0, 0.95}.expected()), "a number from 0 to 0.95");
  EXPECT_EQ((Interval{0, 8, true}.expected()), "a number above 0 and at most 8");
  EXPECT_EQ((Interval{0, 1, true, true}.expected()), "a number above 0 and below 1");
  EXPECT_EQ((Interval{0.5, 1, false, true}.expected()), "a number of at least 0.5 and below 1");
}

TEST(Intervals, OfTermsAreThoseOfTheProof) {
  for (double number : {0.0, -1.0, 0x1p20 * 2, kNaN, kInfinity}) {
    EXPECT_FALSE(kEpsilon.admits(number)) << number;
  }
  EXPECT_TRUE(kEpsilon.admits(5e-324) && kEpsilon.admits(0x1p20));
  // A delta of 1 promises nothing.
  EXPECT_TRUE(kDelta.admits(std::nextafter(1, 0)) && !kDelta.admits(1) && !kDelta.admits(0));
  EXPECT_TRUE(kNoiseMultiplier.admits(0x1p-10) && !kNoiseMultiplier.admits(std::nextafter(0x1p-10, 0)));
  EXPECT_TRUE(kBound.admits(0x1p-100) && kBound.admits(0x1p100) && !kBound.admits(0));
  EXPECT_TRUE(kMetricShare.admits(0) && kMetricShare.admits(0.95) && !kMetricShare.admits(std::nextafter(0.95, 1)));
}

} // namespace
