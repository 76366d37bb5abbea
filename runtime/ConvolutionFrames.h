// SPDX-License-Identifier: Apache-2.0
// Own convolutions (KernelsFrames.cpp), and where they are chosen over the library's.
#ifndef SOJOURN_RUNTIME_CONVOLUTIONFRAMES_H
#define SOJOURN_RUNTIME_CONVOLUTIONFRAMES_H
#include "runtime/ConvolutionPieces.h"

namespace sojourn::runtime {

/// What is computed: the convolution's result, its gradient by the images, or that by the weights.
enum class Convolved { forward, gradInput, gradWeight };

/// Whether own loops compute it, by shapes alone: where they are faster than the library, and what they hold and take
/// is bounded. Types of images [n, c, ...], weights [o, c / groups, ...] and results.
bool ownsConvolution(Convolved what, const TensorType &images, const TensorType &weight, const TensorType &results,
                     const ConvOptions &options);

void lowerFrameConvolution(Lowering &lowering, const GraphOp &op);
void lowerFrameGradInput(Lowering &lowering, const GraphOp &op);
void lowerFrameGradWeight(Lowering &lowering, const GraphOp &op);

} // namespace sojourn::runtime

#endif // SOJOURN_RUNTIME_CONVOLUTIONFRAMES_H
