// SPDX-License-Identifier: Apache-2.0
// The matrices [out, in] of resampling along one dimension. `name` is the argument that may give the scale.
#ifndef SOJOURN_PASSES_DECOMPOSE_RESAMPLINGMATRICES_H
#define SOJOURN_PASSES_DECOMPOSE_RESAMPLINGMATRICES_H

#include "passes/decompose/Call.h"

namespace sojourn::decompose {

/// Row i averages the positions from floor(i in / out) to
/// ceil((i + 1) in / out).
Term averageMatrix(Emitter &e, int64_t out, int64_t in, mlir::Type element);
Term nearestMatrix(Call &c, llvm::StringRef name, int64_t out, int64_t in, mlir::Type element);
Term linearMatrix(Call &c, llvm::StringRef name, int64_t out, int64_t in, mlir::Type element);
/// Four taps around the source position, the outer ones repeated at the edge.
Term cubicMatrix(Call &c, llvm::StringRef name, int64_t out, int64_t in, mlir::Type element);
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
