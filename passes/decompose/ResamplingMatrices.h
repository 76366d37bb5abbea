// SPDX-License-Identifier: Apache-2.0
// Resampling along one dimension: what each position reads, and matrices [out, in]. `name` is the argument that may
// give the scale.
#ifndef SOJOURN_PASSES_DECOMPOSE_RESAMPLINGMATRICES_H
#define SOJOURN_PASSES_DECOMPOSE_RESAMPLINGMATRICES_H

#include "passes/decompose/Call.h"

namespace sojourn::decompose {

/// What each position of a result reads: the positions `source` [out] of i64, each times `weight` [out].
struct Tap {
  Term source, weight;
};
using Taps = llvm::SmallVector<Tap, 4>;

Taps linearTaps(Call &c, llvm::StringRef name, int64_t out, int64_t in, mlir::Type element);
/// Four around the source position, the outer ones repeated at the edge.
Taps cubicTaps(Call &c, llvm::StringRef name, int64_t out, int64_t in, mlir::Type element);
/// x with a dim read so. What is not read has no part, infinities and NaN included: a product with the matrix of them
/// has 0 times infinity.
Term readTaps(Term x, const Taps &taps, int64_t dim);
/// Their matrix [out, in].
Term matrixOf(const Taps &taps, int64_t in);

/// x with a dim of which position i averages those from floor(i in / out) to ceil((i + 1) in / out); and the matrix.
Term averaged(Term x, int64_t dim, int64_t out);
Term averageMatrix(Emitter &e, int64_t out, int64_t in, mlir::Type element);
/// The position [out] of i64 that each one takes. `isIndexed`: by the rule of eager's kernels over small images, and of
/// its gradients.
Term nearestPositions(Call &c, llvm::StringRef name, int64_t out, int64_t in, mlir::Type element, bool isIndexed);
/// Antialiased: a filter as wide as the step, where the image shrinks; what lies outside the image has no part.
Term smoothMatrix(Call &c, llvm::StringRef name, int64_t out, int64_t in, mlir::Type element);

/// Weights for bytes: whole numbers of f64 in units of 1 / unit, a power of two.
struct ByteMatrix {
  Term weights, unit;
};
/// As eager's kernels round them: with as many bits as let the largest weight fit into 15.
ByteMatrix byteMatrix(Call &c, llvm::StringRef name, int64_t out, int64_t in);

} // namespace sojourn::decompose

#endif // SOJOURN_PASSES_DECOMPOSE_RESAMPLINGMATRICES_H
