// SPDX-License-Identifier: Apache-2.0
// What each op does with rows, one function per family. A record names its rule (`rows` in dialect/*.td); the rule
// gives a fact per result from the facts of the operands and the attributes, never from what a client says of them.
// A rule that is not sure says Mixed.
//
// Soundness of each: if the operands are as their facts say in both runs, so are the results, bit for bit, of the
// kernels that run. Kernels may choose their ways by shapes alone, and a result of a slot may depend on that slot's
// operands and on public ones only.
#ifndef SOJOURN_DIALECT_ROWS_RULES_H
#define SOJOURN_DIALECT_ROWS_RULES_H

#include "mlir/IR/Operation.h"
#include "llvm/ADT/ArrayRef.h"

namespace sojourn::rows {

struct Fact;
class Analysis;
using Results = llvm::MutableArrayRef<Fact>;
using Operands = llvm::ArrayRef<Fact>;

// No operand, or operands that only public values may be.
void source(mlir::Operation *op, Operands operands, Analysis &analysis, Results results);
void sampleRows(mlir::Operation *op, Operands operands, Analysis &analysis, Results results);
void readRows(mlir::Operation *op, Operands operands, Analysis &analysis, Results results);

// Position by position.
void elementwise(mlir::Operation *op, Operands operands, Analysis &analysis, Results results);

// Layout.
void reshape(mlir::Operation *op, Operands operands, Analysis &analysis, Results results);
/// Complex numbers to pairs in a new last dim, and back.
void parts(mlir::Operation *op, Operands operands, Analysis &analysis, Results results);
void pairs(mlir::Operation *op, Operands operands, Analysis &analysis, Results results);
void transpose(mlir::Operation *op, Operands operands, Analysis &analysis, Results results);
void broadcast(mlir::Operation *op, Operands operands, Analysis &analysis, Results results);
void slice(mlir::Operation *op, Operands operands, Analysis &analysis, Results results);
void reverse(mlir::Operation *op, Operands operands, Analysis &analysis, Results results);
void pad(mlir::Operation *op, Operands operands, Analysis &analysis, Results results);
void concat(mlir::Operation *op, Operands operands, Analysis &analysis, Results results);
void updateSlice(mlir::Operation *op, Operands operands, Analysis &analysis, Results results);
void dynamicSlice(mlir::Operation *op, Operands operands, Analysis &analysis, Results results);
void dynamicUpdateSlice(mlir::Operation *op, Operands operands, Analysis &analysis, Results results);

// Contractions and windows.
void dot(mlir::Operation *op, Operands operands, Analysis &analysis, Results results);
void convolution(mlir::Operation *op, Operands operands, Analysis &analysis, Results results);
void convolutionWeightGradient(mlir::Operation *op, Operands operands, Analysis &analysis, Results results);
void pool(mlir::Operation *op, Operands operands, Analysis &analysis, Results results);
/// Matrices in the last two dims, each on its own.
void matrices(mlir::Operation *op, Operands operands, Analysis &analysis, Results results);
/// The same of two operands whose leading dims are equal.
void matrixPairs(mlir::Operation *op, Operands operands, Analysis &analysis, Results results);

// Along dims.
void reduceSum(mlir::Operation *op, Operands operands, Analysis &analysis, Results results);
void reduce(mlir::Operation *op, Operands operands, Analysis &analysis, Results results);
void along(mlir::Operation *op, Operands operands, Analysis &analysis, Results results);
/// Along several dims, which stay.
void transform(mlir::Operation *op, Operands operands, Analysis &analysis, Results results);

// The owner's own form.
void clippedSum(mlir::Operation *op, Operands operands, Analysis &analysis, Results results);
void noise(mlir::Operation *op, Operands operands, Analysis &analysis, Results results);
/// Stands in no program that is analysed: lowering puts it in.
void firstRows(mlir::Operation *op, Operands operands, Analysis &analysis, Results results);
/// Stands in the module of one role alone, which is not analysed.
void acrossSum(mlir::Operation *op, Operands operands, Analysis &analysis, Results results);

// Index.
void take(mlir::Operation *op, Operands operands, Analysis &analysis, Results results);
void takeAlong(mlir::Operation *op, Operands operands, Analysis &analysis, Results results);
void put(mlir::Operation *op, Operands operands, Analysis &analysis, Results results);
void putAlong(mlir::Operation *op, Operands operands, Analysis &analysis, Results results);

} // namespace sojourn::rows

#endif // SOJOURN_DIALECT_ROWS_RULES_H
