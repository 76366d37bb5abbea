// SPDX-License-Identifier: Apache-2.0
// The owner's own passes: how a received program that was analysed (passes/Rows.h) is made differentially private. The
// client runs the same ones on its own copy, to refuse early and to quote; the owner trusts none of it.
//
// publicDivisors → rewrite (clipped_sum and noise at the noise points) → prove (analysis from scratch) → lower (core
// ops again, with coins as arguments)
#ifndef SOJOURN_PASSES_PRIVACY_PRIVACY_H
#define SOJOURN_PASSES_PRIVACY_PRIVACY_H

#include "passes/Rows.h"
#include "passes/privacy/MetricShare.h"
#include "passes/privacy/NoiseForm.h"
#include "passes/privacy/SecondReading.h"

#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/DenseSet.h"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace sojourn {

/// How a step spends: options of the message, never of the program.
struct PrivacyOptions {
  /// Noise over sensitivity of a step that releases one thing; a step's price follows from it alone.
  double noiseMultiplier = 1;
  /// Bound of a row's gradient, all parameters together, in the convention of `lossIsMean`.
  double clip = 1;
  bool perLayer = false;
  /// The loss is a mean over the batch: a row's gradient is the number of slots times its part of the gradient, and
  /// what is released is divided by the expected number of rows instead of the slots.
  bool lossIsMean = true;
  /// Part of a step's rho that published metrics share.
  double metricShare = kMetricShare;
  /// Bound of what a row adds to a metric whose range is not proved.
  double metricBound = 10;

  /// Of a published result.
  struct Publish {
    std::optional<double> bound;
    /// A price of its own, beside the step's: a Gaussian of this rho, or Laplace noise of this epsilon.
    std::optional<double> rho, laplaceEpsilon;
    /// Results of the same number share it.
    unsigned price = 0;
  };
  /// By number of the result; what is not there shares the metrics' part.
  std::map<unsigned, Publish> publishes;
  /// Asked between the parts of the work where it is set: true ends it, and nothing is proved.
  std::function<bool()> isStopped = {};
};

/// What the owner draws before a run, in the order of the coin arguments.
struct CoinSpec {
  enum class Kind : uint8_t { Draw, Gaussian, Laplace } kind;
  /// i64 of this shape.
  std::vector<int64_t> shape;
  /// Of a draw: each of `rows` rows with probability expected / rows.
  int64_t rows = 0, expected = 0;
  /// Of noise: sigma of the discrete Gaussian or scale of the discrete Laplace distribution, in units of the grid.
  int64_t scale = 0;
  /// Of noise: the number of the release in PrivacyPlan::sites.
  size_t site = 0;
};

/// One release: one vector, one noise.
struct ReleaseSite {
  /// "gradient of 4 tensors", "published result 0"; and the op that sums over rows, for errors.
  std::string what, op;
  /// Whether it is paid beside the step.
  bool isBeside = false;
  bool isLaplace = false;
  /// Bound of a row's share in the program's own units, and sensitivity with all rounding in units of the grid.
  double bound = 0, sensitivity = 0;
  int64_t exponent = 0, scale = 0, coordinates = 0;
  /// sensitivity^2 / (2 scale^2), or epsilon of Laplace noise; rounded up.
  double cost = 0;
  std::optional<unsigned> result;
  /// Numbers of the private tables that pay for it: those of its draw.
  std::vector<unsigned> tables = {};
  mlir::Location location;
};

/// What a result may hold of private tables: numbers of their arguments, ascending. Nothing is the most careful
/// reading.
using ResultTables = std::optional<std::vector<unsigned>>;

/// All releases fed by one draw are one charge.
struct DrawUse {
  bool isSampled = false;
  int64_t slots = 0, expected = 0, rows = 0;
  /// Numbers of the table arguments.
  std::vector<unsigned> tables;
  /// Numbers of PrivacyPlan::sites.
  std::vector<size_t> sites;
};

/// On a noise op the number of its site, to find its description again; no proof rests on it.
inline constexpr llvm::StringLiteral kSiteAttr = "sojourn.site";

struct PrivacyPlan {
  std::vector<DrawUse> draws;
  std::vector<ReleaseSite> sites;
  std::vector<CoinSpec> coins;
  /// Per result whether it may leave: released or public.
  std::vector<bool> released;
  /// Per result the private tables whose labels it has beside those of its private arguments; empty where it may leave.
  std::vector<ResultTables> tables;
  /// Per result whether rows or draws reach it without noise, by data flow alone (Taint.h): such a result never leaves.
  std::vector<bool> tainted;
  /// What of it a second reading of the slots followed.
  SecondReading secondReading;
  /// Programs that give the lists of row numbers that are known with the program, and with the message (RowLists.h);
  /// null where there are none.
  mlir::OwningOpRef<mlir::ModuleOp> fixedLists, sentLists;
  /// Per result that is published how noise arrives in it, where that is linear.
  std::vector<std::optional<NoiseForm>> forms;
  /// What was changed that a scientist should know: "the loss's divisor became 64".
  std::vector<std::string> notes;
};

/// Puts public constants in place of private scalars that divide per-row values (the number of valid labels, a sum of
/// class weights) where parameters are trained with the quotient: the largest that they can be over all slots, and
/// returns these. In `notes` stands what is divided by
/// in the end: where rows are drawn, means over slots become means over the rows expected (see rewriteForPrivacy).
llvm::DenseSet<mlir::Value> publicDivisors(mlir::func::FuncOp step, const RowInputs &inputs,
                                           std::vector<std::string> &notes);

/// Makes what is committed and published releasable, or reports with op, reasons and way out. Afterwards the module
/// holds clipped_sum and noise, with a coin argument per noise.
llvm::FailureOr<PrivacyPlan> rewriteForPrivacy(mlir::func::FuncOp step, const RowInputs &inputs,
                                               const PrivacyOptions &options);

/// Analyses the rewritten step from scratch and fills draws, sensitivities and costs, what is released, and labels,
/// from the proof alone. Values whose range is one number are replaced by it first. Reports what is committed or
/// published and not released.
llvm::LogicalResult provePrivacy(mlir::func::FuncOp step, const RowInputs &inputs, rows::Analysis &analysis,
                                 PrivacyPlan &plan);

/// Replaces clipped_sum, noise and the owner's draws by core ops and coins; `analysis` is that of the proof. What the
/// proof rests on is enforced where it can be: every sum is clipped or clamped, no list of rows names one twice. Fails
/// where a release rests on a draw that no coin replaces.
llvm::LogicalResult lowerPrivacy(mlir::func::FuncOp step, const RowInputs &inputs, const rows::Analysis &analysis,
                                 PrivacyPlan &plan);

/// All of it, and what it leaves behind is cleaned up. Where it fails, the module is of no more use.
llvm::FailureOr<PrivacyPlan> makePrivate(mlir::ModuleOp module, const RowInputs &inputs, const PrivacyOptions &options);

} // namespace sojourn

#endif // SOJOURN_PASSES_PRIVACY_PRIVACY_H
