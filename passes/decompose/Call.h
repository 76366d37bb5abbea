// SPDX-License-Identifier: Apache-2.0
// Call: one recorded ATen call as a decomposition sees it, with arguments by
// schema name; and the table from base name to decomposition.
#ifndef SOJOURN_PASSES_DECOMPOSE_CALL_H
#define SOJOURN_PASSES_DECOMPOSE_CALL_H

#include "passes/decompose/Term.h"

#include "llvm/ADT/StringMap.h"

#include <optional>
#include <string>

namespace sojourn::decompose {

/// What a decomposition gives: one term per result (an absent term for a
/// result of type `none`), or failure with the reason left in the call.
/// Shape and element type are adjusted to the recorded result by the driver:
/// halves are rounded once, splats expanded.
class Results {
public:
  Results(Term term) : terms{term} {}
  Results(std::initializer_list<Term> list) : terms(list) {}
  Results(llvm::SmallVector<Term, 4> list) : terms(std::move(list)) {}
  Results(llvm::LogicalResult result) : good(llvm::succeeded(result)) {}
  explicit operator bool() const { return good; }
  llvm::SmallVector<Term, 4> terms;

private:
  bool good = true;
};

class Call;
using Decomposition = Results (*)(Call &);

class Call {
public:
  Call(mlir::Operation *op, Emitter &emitter, llvm::StringRef base) : op(op), emitter(emitter), base(base) {}

  /// An AtenOp; its class is left to Call.cpp, so that an edit of captured ops compiles no decomposition.
  mlir::Operation *op;
  Emitter &emitter;
  /// `add` of `aten.add_.Tensor`.
  llvm::StringRef base;
  /// Why the decomposition declined, for the error of the pass.
  std::string reason;

  llvm::LogicalResult fail(const llvm::Twine &why) {
    reason = why.str();
    return llvm::failure();
  }

  /// Given and not None.
  bool has(llvm::StringRef name) const;
  /// The first of the names that is given: foreach ops and their plain forms
  /// call the same argument differently.
  llvm::StringRef anyOf(std::initializer_list<llvm::StringRef> names) const;
  /// A tensor argument, absent when None.
  Term in(llvm::StringRef name);
  /// The same in the type that a composite computes in.
  Term wide(llvm::StringRef name);
  /// A tensor or number in the given element type; absent when None.
  Term number(llvm::StringRef name, mlir::Type element);
  Term number(llvm::StringRef name, mlir::Type element, double otherwise);
  llvm::SmallVector<Term, 4> list(llvm::StringRef name);
  /// A tensor or number of a list in the given element type; absent where the list has none there.
  Term entry(llvm::StringRef name, size_t index, mlir::Type element);
  /// Elements of a list of optional tensors, absent ones included.
  llvm::SmallVector<Term, 4> optionalList(llvm::StringRef name);

  /// The value of a number that is known while compiling.
  std::optional<double> literal(llvm::StringRef name) const;
  bool isLiteral(llvm::StringRef name, double value) const { return literal(name) == value; }
  /// Refuses a number of the run; so do the accessors below that give integers.
  int64_t integer(llvm::StringRef name, int64_t otherwise = 0) const;
  /// An integer that only the run knows, as i64; absent for a literal. `entry`: of a list.
  Term runInteger(llvm::StringRef name, size_t entry = 0);
  /// An entry of an int list; a single int counts as a list of one.
  int64_t entryInteger(llvm::StringRef name, size_t entry) const;
  bool boolean(llvm::StringRef name, bool otherwise = false) const;
  llvm::StringRef string(llvm::StringRef name) const;
  /// An int list; a single int counts as a list of one.
  Shape ints(llvm::StringRef name) const;
  /// An int list of one entry per spatial dimension; one entry serves all,
  /// an empty list gives `otherwise`.
  Shape spatial(llvm::StringRef name, int64_t rank, Dims otherwise) const;
  /// Sorted non-negative dimensions; all of x's when none are given.
  Shape dims(llvm::StringRef name, Term x) const;
  bool flag(llvm::StringRef name, size_t index) const;

  size_t resultCount() const { return op->getNumResults(); }
  bool wants(size_t i) const;
  mlir::RankedTensorType result(size_t i = 0) const;
  Dims shape(size_t i = 0) const { return result(i).getShape(); }
  mlir::Type element(size_t i = 0) const { return result(i).getElementType(); }
  /// Seed of a random op.
  Term seed() { return in("seed"); }
  /// Runs the decomposition and brings each term into the recorded type of its result: halves round here, splats expand
  /// here. Failure leaves the reason in the call; no Refusal passes.
  Results decompose(Decomposition decomposition);
  mlir::Type i64() const { return emitter.builder.getI64Type(); }
  mlir::Type f64() const { return emitter.builder.getF64Type(); }

private:
  mlir::Attribute find(llvm::StringRef name) const;
  Term operand(mlir::Attribute attribute);
  Term number(mlir::Attribute attribute, mlir::Type element);
  llvm::LogicalResult record(Results &results);
};

/// Base name to decomposition. Overloads share one: arguments are found by
/// name, so that an added overload costs nothing.
class Table {
public:
  void add(std::initializer_list<llvm::StringRef> names, Decomposition d);
  Decomposition lookup(llvm::StringRef base) const;

private:
  llvm::StringMap<Decomposition> entries;
};

/// `steps` numbers from `start` to `end`, both included, as linspace makes them.
Term ramp(Term start, Term end, int64_t steps);

/// Norm over `dims` (removed) of what is at least 0; its order is the argument of that name, 2 when it is not given.
Term normOver(Call &c, Term magnitude, Dims dims, llvm::StringRef order);

void addElementwise(Table &table);
void addComparisons(Table &table);
void addMath(Table &table);
void addSpecial(Table &table);
void addBits(Table &table);
void addComplex(Table &table);
void addActivations(Table &table);
void addActivationGradients(Table &table);
void addReductions(Table &table);
void addOrder(Table &table);
void addSoftmax(Table &table);
void addNormalization(Table &table);
void addLosses(Table &table);
void addCtc(Table &table);
void addLinear(Table &table);
void addLinearAlgebra(Table &table);
void addReflections(Table &table);
void addConvolution(Table &table);
void addPooling(Table &table);
void addResampling(Table &table);
void addHistograms(Table &table);
void addIndexing(Table &table);
void addScatter(Table &table);
void addSegments(Table &table);
void addLayout(Table &table);
void addPadding(Table &table);
void addFactories(Table &table);
void addRandom(Table &table);
void addRecurrent(Table &table);
void addRecurrentNetworks(Table &table);
void addEmbedding(Table &table);
void addDistances(Table &table);
void addGridSampling(Table &table);
void addCopies(Table &table);

} // namespace sojourn::decompose

#endif // SOJOURN_PASSES_DECOMPOSE_CALL_H
