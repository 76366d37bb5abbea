// SPDX-License-Identifier: Apache-2.0
// One group of noise points: how it is clipped, what it costs, and the ops that make it releasable.
#ifndef SOJOURN_PASSES_PRIVACY_NOISEGROUP_H
#define SOJOURN_PASSES_PRIVACY_NOISEGROUP_H

#include "passes/privacy/Privacy.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/SetVector.h"

#include <optional>
#include <string>
#include <vector>

namespace sojourn {

/// Points of one draw that one noise serves.
struct NoiseGroup {
  /// Number of the analysis's draw.
  unsigned draw = 0;
  std::vector<NoisePoint> points;
  /// Of metrics: the published result.
  std::optional<unsigned> result;
  /// Groups that share its part of the step's rho, this one included.
  int sharers = 1;

  mlir::Operation &firstOp() const { return *points.front().value.getDefiningOp(); }
};

/// Puts a clipped sum and a noise in place of the points of a group.
class GroupNoise {
public:
  /// `plan` has the draws; its sites and coins grow with each group.
  GroupNoise(mlir::func::FuncOp step, const rows::Analysis &analysis, const PrivacyOptions &options, PrivacyPlan &plan)
      : step(step), analysis(analysis), options(options), plan(plan), builder(step.getContext()) {}

  /// Refused with op and line where no bound or no price follows. New ops stand at the end of the step: it has to be
  /// sorted afterwards.
  mlir::LogicalResult insert(const NoiseGroup &group);

  /// What the message says of a group's result.
  PrivacyOptions::Publish publishOf(const NoiseGroup &group) const;
  bool isBeside(const NoiseGroup &group) const {
    PrivacyOptions::Publish publish = publishOf(group);
    return publish.rho || publish.laplaceEpsilon;
  }

private:
  /// How a group is clipped and what becomes of it after the noise.
  struct Treatment {
    std::string clip = "flat";
    std::vector<double> bounds;
    int64_t norm = 2;
    double scale = 1;
    /// What the published result is times the noised value, where that is all it is.
    std::optional<double> factor;
    double rho = 0;
    std::optional<double> laplaceEpsilon;
  };
  Treatment treat(const NoiseGroup &group);
  Treatment treatGradient(const NoiseGroup &group);
  Treatment treatMetric(const NoiseGroup &group);
  std::optional<double> factorTo(mlir::Value point, unsigned result);
  static void chooseNoise(const Treatment &treatment, double slack, int64_t coordinates, ReleaseSite &site);

  llvm::SetVector<mlir::Operation *> chainOf(const NoiseGroup &group);
  ClippedSumOp insertSum(const NoiseGroup &group, const Treatment &treatment, llvm::ArrayRef<mlir::Type> types);
  void replacePoints(const NoiseGroup &group, const Treatment &treatment, NoiseOp noise);
  mlir::Value addCoin(mlir::Type type, mlir::Location location);
  mlir::Block &body() { return step.getBody().front(); }

  mlir::func::FuncOp step;
  const rows::Analysis &analysis;
  const PrivacyOptions &options;
  PrivacyPlan &plan;
  mlir::OpBuilder builder;
};

} // namespace sojourn

#endif // SOJOURN_PASSES_PRIVACY_NOISEGROUP_H
