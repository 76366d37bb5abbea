// SPDX-License-Identifier: Apache-2.0
// Where each value of a joint step lies: which role of several owners computes it, and where roles meet.
#ifndef SOJOURN_PASSES_PARTIES_PLACEMENT_H
#define SOJOURN_PASSES_PARTIES_PLACEMENT_H

#include "passes/parties/Where.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <memory>
#include <set>
#include <string>

namespace sojourn::parties {

/// The placement of one step. A value of roles that differ is refused, unless it is a sum.
class Placement {
public:
  /// Walks a step with `sojourn.parties` in core form; cost is linear in ops and operands. Failure has been reported at
  /// the op, with the reason.
  static mlir::FailureOr<std::unique_ptr<Placement>> of(mlir::func::FuncOp step);

  unsigned parties() const { return parties_; }
  const Where &whereOf(mlir::Value value) const { return where_.find(value)->second; }
  /// The roles whose terms the op's result sums, bit by bit; 0: it is no meeting. A meeting is a sum over rows in
  /// parts, or the sum or difference of values of two roles.
  int64_t meetingOf(mlir::Operation *op) const { return meetings_.lookup(op); }
  /// Of a meeting that sums rows in parts: those rows. Null for other ops.
  const Segments *rowsSummed(mlir::Operation *op) const;
  /// How many exchanges come before an op, at least: its operands wait for so many. The results of a meeting come one
  /// later.
  unsigned levelOf(mlir::Operation *op) const { return levels_.lookup(op); }
  unsigned exchanges() const { return exchanges_; }
  /// Whether the op concatenates along rows of several roles.
  bool isJoin(mlir::Operation *op) const { return joins_.contains(op); }
  /// The place of a result: that of the tensor that it is written to, else where its value lies; rows of one role lie
  /// at that role.
  Where whereOfResult(unsigned result) const;
  /// Results of one role that are written to tensors of all, to which they are sent after all other exchanges; in
  /// order.
  llvm::ArrayRef<unsigned> told() const { return told_; }
  /// Of a join: the role that adds operand `index`, which all roles know.
  unsigned adderOf(mlir::Operation *op, unsigned index) const { return adders_.find({op, index})->second; }

private:
  friend class PlacementWalk;
  Placement() = default;

  unsigned parties_ = 0, exchanges_ = 0;
  std::set<Segments> segments_;
  llvm::DenseMap<mlir::Value, Where> where_;
  llvm::DenseMap<mlir::Operation *, int64_t> meetings_;
  llvm::DenseMap<mlir::Operation *, unsigned> levels_;
  llvm::DenseSet<mlir::Operation *> joins_;
  std::vector<unsigned> told_;
  mlir::func::FuncOp step_;
  llvm::DenseMap<std::pair<mlir::Operation *, unsigned>, unsigned> adders_;
};

/// Where each result of an op lies, and the exchange that it comes from, for people; empty without results.
std::string noteOf(const Placement &placement, mlir::Operation *op);
/// Lines about what roles send each other in a step, by exchange: of each value its type and the scientist's line
/// (`lineOf`), and whether masks hide it (`isMasked`). At most about `limit` bytes.
std::string exchangesText(const Placement &placement, mlir::func::FuncOp step, size_t limit,
                          llvm::function_ref<bool(mlir::Operation *)> isMasked,
                          llvm::function_ref<std::string(mlir::Location)> lineOf);

} // namespace sojourn::parties

#endif // SOJOURN_PASSES_PARTIES_PLACEMENT_H
