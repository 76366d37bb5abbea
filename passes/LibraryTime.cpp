// SPDX-License-Identifier: Apache-2.0
// Time in the kernel library (see Price.h). Rates are the largest of those that tools/prices.py measures for the cases
// of tools/price_long.py, rounded up.
#include "dialect/ContractionOps.h"
#include "passes/Price.h"

#include "llvm/ADT/TypeSwitch.h"

#include <algorithm>

using namespace mlir;
using namespace sojourn;

namespace {

ArrayRef<int64_t> shapeOf(Value value) { return cast<RankedTensorType>(value.getType()).getShape(); }
Type elementOf(Value value) { return cast<RankedTensorType>(value.getType()).getElementType(); }

double product(ArrayRef<int64_t> sizes) {
  double all = 1;
  for (int64_t size : sizes) {
    all *= static_cast<double>(size);
  }
  return all;
}

/// Nanoseconds per priced operation.
double rate(Value value, double ofReal, double ofComplex) {
  return isa<ComplexType>(elementOf(value)) ? ofComplex : ofReal;
}

/// Matrices whose blocks keep the library's products busy.
bool isBroad(Value matrices) {
  return llvm::all_of(shapeOf(matrices).take_back(2), [](int64_t side) { return side >= 256; });
}

double rateOf(DotOp op) {
  // Below these sides the operands go through memory for few products each.
  constexpr double kSide = 32, kThinSide = 8;
  double contracted = 1, batches = 1;
  for (int64_t dim : op.getLhsContract()) {
    contracted *= static_cast<double>(shapeOf(op.getA())[static_cast<size_t>(dim)]);
  }
  for (int64_t dim : op.getLhsBatch()) {
    batches *= static_cast<double>(shapeOf(op.getA())[static_cast<size_t>(dim)]);
  }
  const double shared = std::max(1.0, contracted * batches);
  const double side =
      std::min({contracted, product(shapeOf(op.getA())) / shared, product(shapeOf(op.getB())) / shared});
  if (isa<IntegerType>(elementOf(op.getA()))) {
    return side >= kSide ? 0.002 : side >= 4 ? 0.08 : 1;
  }
  return side >= kSide ? 0.03 : side >= kThinSide ? 0.1 : 0.3;
}

/// Images by weights [o, c, ...].
double rateOfConvolution(Value images, ArrayRef<int64_t> weight) {
  // Few channels or large windows: loops that are not blocked.
  const bool isThin = weight[1] < 3 || product(weight.drop_front(2)) > 49;
  return elementOf(images).isF64() ? (isThin ? 1.5 : 0.7) : (isThin ? 1 : 0.2);
}

} // namespace

double sojourn::librarySeconds(Operation *op) {
  const double nanoseconds =
      llvm::TypeSwitch<Operation *, double>(op)
          .Case<DotOp>([](auto dot) { return rateOf(dot); })
          .Case<ConvOp>([](auto conv) { return rateOfConvolution(conv.getX(), shapeOf(conv.getW())); })
          .Case<ConvGradInputOp>([](auto conv) { return rateOfConvolution(conv.getG(), shapeOf(conv.getW())); })
          .Case<ConvGradWeightOp>([](auto conv) { return rateOfConvolution(conv.getG(), shapeOf(conv.getResult())); })
          .Case<CholeskyOp>([](auto f) { return rate(f.getX(), 0.05, 0.15); })
          .Case<LuOp>([](auto f) { return isBroad(f.getX()) ? rate(f.getX(), 0.03, 0.1) : rate(f.getX(), 0.06, 0.2); })
          .Case<QrOp>(
              [](auto f) { return isBroad(f.getX()) ? rate(f.getX(), 0.015, 0.05) : rate(f.getX(), 0.05, 0.15); })
          .Case<SvdOp>([](auto f) { return rate(f.getX(), 0.015, 0.05); })
          .Case<EighOp>([](auto f) { return rate(f.getX(), 0.01, 0.03); })
          .Case<EigOp>([](auto f) { return rate(f.getX(), 0.02, 0.06); })
          .Case<LdlOp>([](auto f) { return rate(f.getX(), 0.03, 0.09); })
          .Case<TriangularSolveOp>([](auto solve) { return rate(solve.getA(), 0.04, 0.16); })
          .Case<LdlSolveOp>([](auto solve) { return rate(solve.getB(), 0.2, 0.7); })
          .Case<FftC2cOp, FftR2cOp, FftC2rOp>([](auto) { return 1; })
          .Default([](Operation *) { return 0; });
  return nanoseconds == 0 ? 0 : 1e-9 * nanoseconds * static_cast<double>(cast<PricedOp>(op).getOperations());
}
