// SPDX-License-Identifier: Apache-2.0
// The state of one row analysis: draws, cuts, reasons. Rules of ops (Rules.h) write into it; passes/Rows.h walks a
// program.
#ifndef SOJOURN_DIALECT_ROWS_ANALYSIS_H
#define SOJOURN_DIALECT_ROWS_ANALYSIS_H

#include "dialect/rows/Fact.h"

#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/Twine.h"

#include <deque>
#include <set>

namespace sojourn::rows {

/// Which rows of private tables stand in which slots. Slots of one draw hold the same row wherever they are used.
///
/// Two more predicates speak of draws. *secret(D)*: v(T, c) and v(T, d) may differ where the coins of D do. It may hold
/// of every value that is not public, so what is kept has the label of D's tables. *payable(D)*: a private table is
/// read at D (`tables` is not empty), so an account pays for releases over D; others are refused.
struct Draw {
  /// The row numbers that were read; equal row numbers are one draw.
  mlir::Value index;
  /// The owner's Poisson draw with secret coins, and the expected number of rows and the rows that it draws from;
  /// else a public list of distinct rows.
  bool sampled = false;
  int64_t slots = 0, expected = 0, population = 0;
  /// The row numbers at which private tables were read; a draw whose order is composed has more than one list of them,
  /// and only one may be used.
  mlir::Value read;
  /// Numbers of the table arguments that were read with it, ascending.
  std::vector<unsigned> tables;
};

/// How a cut sums over rows; the forms that can be clipped per row.
enum class CutForm : uint8_t { ReduceSum, Dot, ConvGradWeight, Put };

/// A sum over the slots of one draw of a function of each slot's row.
struct Cut {
  mlir::Operation *op;
  CutForm form;
  /// Alignments of the operands; draw and slots agree where two are per row.
  std::vector<Fact> operands;
  unsigned draw;
  /// Terms of the sum per slot.
  int64_t tokens;
};

/// A noise op that passed: what one row moves its operands by, in units of its grid, and what the noise is.
struct Release {
  mlir::Operation *noise, *sum;
  unsigned draw;
  /// Bounds of the sum's change with all rounding: Euclidean, or of the sum of magnitudes for Laplace noise.
  double sensitivity;
  int64_t coordinates;
};

/// What is known of the arguments of a program before it is walked; made by who binds them.
struct TableBounds {
  bool isPrivate = false;
  /// How many rows it has; a type that says it says it by itself.
  std::optional<int64_t> rows = std::nullopt;
  /// Per column of the table's type: the closed range that every entry lies in.
  std::vector<Range> columns;
};

class Analysis {
public:
  /// A Mixed fact with a reason of its own.
  Fact mixed(mlir::Operation *op, const llvm::Twine &text, mlir::Value operand = {});

  /// The number of the draw that these row numbers make; `sampled` where they come from the owner's coins.
  unsigned drawOf(mlir::Value index, int64_t slots);
  unsigned sampledDraw(mlir::Value coin, int64_t slots, int64_t expected, int64_t population);
  Draw &draw(unsigned number) { return draws_[number]; }
  /// Whether these row numbers are read from a private table.
  bool isPrivateDraw(mlir::Value index) const {
    const Draw *draw = drawAt(index);
    return draw && !draw->tables.empty();
  }
  const std::deque<Draw> &draws() const { return draws_; }
  /// The draw that these row numbers are; null where they are none.
  const Draw *drawAt(mlir::Value index) const {
    auto known = drawNumbers_.find(index);
    return known == drawNumbers_.end() ? nullptr : &draws_[known->second];
  }

  /// A Sum with one new cut.
  Fact cut(Cut cut);
  const std::deque<Cut> &cuts() const { return cuts_; }

  const CutSet *unite(const CutSet *a, const CutSet *b);
  const CutSet *intern(CutSet set);

  /// Public, or derived from the cuts of the operands; a Mixed operand prevails. No operand may be per row.
  Fact derived(llvm::ArrayRef<Fact> operands);

  /// Adds the facts of the op's results. An op without a rule, and an operand without a fact, are Mixed.
  void visit(mlir::Operation &op);
  /// Visits the ops of a block in order, up to its terminator.
  void walk(mlir::Block &block);
  /// What is known of a value; Mixed where it was never visited.
  Fact factOf(mlir::Value value) const;

  void release(Release release) { releases_.push_back(std::move(release)); }
  const std::deque<Release> &releases() const { return releases_; }

  /// What `clippedSum` proved, for `noise`: the draw, and the bound of a row's share.
  struct Bounded {
    unsigned draw;
    double bound;
  };
  llvm::DenseMap<mlir::Operation *, Bounded> bounded;
  /// Values that depend on rows and are public only because their range is one number, and that number: a gate puts the
  /// number in their place, so that nothing rests on the range.
  std::vector<std::pair<mlir::Value, double>> constants;
  /// Arguments that the owner appended.
  llvm::DenseSet<mlir::Value> coins;

  /// Facts of arguments are put in before the walk.
  llvm::DenseMap<mlir::Value, Fact> facts;
  /// How many rows a table has, where it is known.
  std::optional<int64_t> rowsOf(mlir::Value table) const;
  /// Per table argument what is known of it; a table that is not here is private and without bounds.
  llvm::DenseMap<mlir::Value, TableBounds> tables;

private:
  std::deque<Reason> reasons_;
  std::deque<Draw> draws_;
  std::deque<Cut> cuts_;
  std::deque<Release> releases_;
  /// Prefixes of a long sum are as many sets; a hostile program has no more memory than this.
  static constexpr size_t kSetElements = size_t{1} << 23;
  std::set<CutSet> sets_;
  size_t setElements_ = 0;
  bool isFull_ = false;
  llvm::DenseMap<std::pair<const CutSet *, const CutSet *>, const CutSet *> unions_;
  llvm::DenseMap<mlir::Value, unsigned> drawNumbers_;
};

} // namespace sojourn::rows

#endif // SOJOURN_DIALECT_ROWS_ANALYSIS_H
