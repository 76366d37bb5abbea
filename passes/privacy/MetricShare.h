// SPDX-License-Identifier: Apache-2.0
// A default that owners and clients know without the passes.
#ifndef SOJOURN_PASSES_PRIVACY_METRICSHARE_H
#define SOJOURN_PASSES_PRIVACY_METRICSHARE_H

namespace sojourn {

/// Part of a step's price that its metrics take together, where the step says nothing.
inline constexpr double kMetricShare = 0.05;

} // namespace sojourn

#endif // SOJOURN_PASSES_PRIVACY_METRICSHARE_H
