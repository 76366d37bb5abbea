// SPDX-License-Identifier: Apache-2.0
// One group of noise points: how it is clipped, what it costs, and the ops that make it releasable.
#ifndef SOJOURN_PASSES_PRIVACY_NOISEGROUP_H
#define SOJOURN_PASSES_PRIVACY_NOISEGROUP_H

#include "passes/privacy/Privacy.h"
#include "dialect/OwnerOps.h"
#include "passes/privacy/SlotMeans.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"

#include <optional>
#include <string>
#include <vector>

namespace sojourn {

/// Points of one draw that one noise serves.
struct NoiseGroup {
  /// Number of the analysis's draw.
  unsigned draw = 0;
  /// One of a metric, all of a gradient.
  std::vector<NoisePoint> points;
  /// Of metrics: the published result.
  std::optional<unsigned> result;
  /// Into how many groups the sums behind that result were parted.
  unsigned parts = 1;

  mlir::Operation &firstOp() const { return *points.front().value.getDefiningOp(); }
};

/// Puts a clipped sum and a noise in place of the points of each group of a step.
class GroupNoise {
public:
  /// The plan's sites and coins grow with each group.
  GroupNoise(mlir::func::FuncOp step, const PrivacyOptions &options, PrivacyPlan &plan)
      : step(step), options(options), plan(plan), builder(step.getContext()) {}

  /// `analysis`: of the step as it is now. Refused with op and line where no bound or no price follows. New ops stand
  /// at the end of the step: it has to be sorted afterwards.
  mlir::LogicalResult insert(const NoiseGroup &group, const rows::Analysis &analysis);

  /// Constants that stand for sums over the slots of a draw.
  void addSlotDivisors(const llvm::DenseSet<mlir::Value> &divisors) {
    slotMeans.divisors.insert(divisors.begin(), divisors.end());
  }

  /// Once all groups are in: gives each its noise. Of a draw the gradients share what metrics leave of the step's rho,
  /// and the metrics share their part, so that the price of a step never depends on the program.
  void settle();

private:
  /// How a group is clipped and what becomes of it after the noise.
  struct Treatment {
    std::string clip = "flat";
    std::vector<double> bounds;
    int64_t norm = 2;
    double scale = 1;
    /// Without the others that share it.
    double rho = 0;
    std::optional<double> laplaceEpsilon;
  };
  /// What `settle` needs of a group.
  struct Inserted {
    mlir::Value draw; ///< its row numbers
    bool isGradient = false, isBeside = false;
    unsigned price = 0; ///< that it shares, if it is beside the step's
    double part = 1;    ///< of the price of its result
    Treatment treatment;
    double slack = 0; ///< of adding up, see rows::Accumulation
    NoiseOp noise;
    size_t site = 0, firstCoin = 0;
  };
  PrivacyOptions::Publish publishOf(const NoiseGroup &group) const;
  Treatment treat(const NoiseGroup &group);
  Treatment treatGradient(const NoiseGroup &group);
  Treatment treatMetric(const NoiseGroup &group);
  std::optional<double> factorTo(mlir::Value point, unsigned result);
  void scaleMeans(const NoiseGroup &group);
  bool meetsUnknownNumbers(mlir::Value value) const;
  static double boundOf(const Treatment &treatment);
  static bool chooseNoise(const Treatment &treatment, double slack, ReleaseSite &site);

  ClippedSumOp insertSum(const NoiseGroup &group, const Treatment &treatment, llvm::ArrayRef<mlir::Type> types);
  bool isNeverNegative(mlir::Value point);
  void replacePoints(const NoiseGroup &group, const Treatment &treatment, NoiseOp noise);
  const rows::Draw &drawOf(const NoiseGroup &group) const { return analysis->draws()[group.draw]; }
  mlir::Value addCoin(mlir::Type type, mlir::Location location);
  mlir::Block &body() { return step.getBody().front(); }

  mlir::func::FuncOp step;
  const rows::Analysis *analysis = nullptr;
  const PrivacyOptions &options;
  PrivacyPlan &plan;
  mlir::OpBuilder builder;
  std::vector<Inserted> all;
  SlotMeans slotMeans;
};

} // namespace sojourn

#endif // SOJOURN_PASSES_PRIVACY_NOISEGROUP_H
