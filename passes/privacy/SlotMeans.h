// SPDX-License-Identifier: Apache-2.0
// Means over the slots of a batch: an owner's draw has more slots than rows, so what a step divides by them is too
// small by a public factor, which is made good where the division stands.
#ifndef SOJOURN_PASSES_PRIVACY_SLOTMEANS_H
#define SOJOURN_PASSES_PRIVACY_SLOTMEANS_H

#include "dialect/rows/Analysis.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SmallVector.h"

namespace sojourn {

/// Of one step. No proof rests on it: what follows the noise is public, whatever it is times.
class SlotMeans {
public:
  /// The ops that make a sum over so many slots a mean over them: products with constants of at most 1 / slots, or with
  /// one over a slot less as variances have it, along ops that keep a sum a sum.
  llvm::SmallVector<mlir::Operation *> of(mlir::Value sum, int64_t slots, const rows::Analysis &analysis);
  /// Multiplies what an op gives, once.
  void scale(mlir::Operation *mean, double factor);

  /// Constants that stand for sums over the slots (publicDivisors).
  llvm::DenseSet<mlir::Value> divisors;

private:
  /// Of a hostile program's ops no more are looked at, and its means stay what they are.
  static constexpr size_t kWorkMost = size_t{1} << 22;

  llvm::DenseSet<mlir::Operation *> scaled;
  size_t work = 0;
};

} // namespace sojourn

#endif // SOJOURN_PASSES_PRIVACY_SLOTMEANS_H
