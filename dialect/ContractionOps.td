// SPDX-License-Identifier: Apache-2.0
// Core ops that multiply and sum: dot and the three convolutions, closed under differentiation; factors of matrices.
#ifndef SOJOURN_CONTRACTION_OPS_TD
#define SOJOURN_CONTRACTION_OPS_TD

include "dialect/Types.td"

def DotOp : CoreOp<"dot"> {
  let summary = "general matrix product";
  let description = [{
    Result dims: the batch dims, then the free dims of a, then those of b, each in operand order. Floats accumulate in
    f32 (f64 for f64) and integers wrap. The result's element type is that of the operands, or f32 for f16 and bf16
    operands, so that an addition can follow before the one rounding. No contracted element gives 0. Never TF32.

    Example:

    ```mlir
    %y = sojourn.dot %a, %b, lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [0]
      : tensor<2x3xf32>, tensor<3x4xf32> -> tensor<2x4xf32>
    ```
  }];
  let arguments = (ins NumberTensor:$a, NumberTensor:$b, DenseI64ArrayAttr:$lhs_batch, DenseI64ArrayAttr:$rhs_batch,
                       DenseI64ArrayAttr:$lhs_contract, DenseI64ArrayAttr:$rhs_contract);
  let results = (outs NumberTensor:$result);
  let operations = "cost::times({2, cost::elements(getResult()), cost::sizes(getA(), getLhsContract())})";
  let rows = "dot";
  let scratch = "cost::times({3, cost::sum({cost::bytes(getA()), cost::bytes(getB()), cost::bytes(getResult())})})";
  let assemblyFormat = [{
    $a `,` $b `,` `lhs_batch` `=` $lhs_batch `,` `rhs_batch` `=` $rhs_batch `,` `lhs_contract` `=` $lhs_contract `,`
    `rhs_contract` `=` $rhs_contract attr-dict `:` type($a) `,` type($b) `->` type($result)
  }];
  let builders = [
    // Computes the result shape; the result's element type is `element`, by default that of the operands.
    OpBuilder<(ins "::mlir::Value":$a, "::mlir::Value":$b, "::llvm::ArrayRef<int64_t>":$lhsBatch,
                   "::llvm::ArrayRef<int64_t>":$rhsBatch, "::llvm::ArrayRef<int64_t>":$lhsContract,
                   "::llvm::ArrayRef<int64_t>":$rhsContract, CArg<"::mlir::Type", "{}">:$element)>
  ];
  let hasVerifier = 1;
}

def ConvOp : InferredCoreOp<"conv"> {
  let summary = "convolution (cross-correlation), 1 to 3 spatial dims";
  let description = [{
    x is [N, C, spatial], w is [O, C / groups, kernel], the result [N, O, out] with
    out = (size + 2 padding - dilation (kernel - 1) - 1) / stride + 1. Padding is symmetric zeros. Accumulates as `dot`.

    Example:

    ```mlir
    %y = sojourn.conv %x, %w, stride = [1, 1], padding = [1, 1], dilation = [1, 1], groups = 1
      : tensor<2x3x8x8xf32>, tensor<4x3x3x3xf32>
    ```
  }];
  let arguments = (ins FloatTensor:$x, FloatTensor:$w, DenseI64ArrayAttr:$stride, DenseI64ArrayAttr:$padding,
                       DenseI64ArrayAttr:$dilation, IntAttr:$groups);
  let results = (outs FloatTensor:$result);
  let operations = "cost::times({2, cost::elements(getResult()), cost::size(getW(), 1), cost::spatial(getW())})";
  let rows = "convolution";
  let scratch = "cost::times({3, cost::sum({cost::bytes(getX()), cost::bytes(getW()), cost::bytes(getResult())})})";
  let assemblyFormat = [{
    $x `,` $w `,` `stride` `=` $stride `,` `padding` `=` $padding `,` `dilation` `=` $dilation `,` `groups` `=` $groups
    attr-dict `:` type($x) `,` type($w)
  }];
}

def ConvGradInputOp : CoreOp<"conv_grad_input"> {
  let summary = "the gradient of conv with respect to x; also the transposed convolution";
  let description = [{
    g has the type that `conv` of the result with w would have. The result type gives the shape of x, which the
    attributes alone do not.

    Example:

    ```mlir
    %dx = sojourn.conv_grad_input %g, %w, stride = [2, 2], padding = [1, 1], dilation = [1, 1], groups = 1
      : tensor<2x4x4x4xf32>, tensor<4x3x3x3xf32> -> tensor<2x3x8x8xf32>
    ```
  }];
  let arguments = (ins FloatTensor:$g, FloatTensor:$w, DenseI64ArrayAttr:$stride, DenseI64ArrayAttr:$padding,
                       DenseI64ArrayAttr:$dilation, IntAttr:$groups);
  let results = (outs FloatTensor:$result);
  let operations = "cost::times({2, cost::elements(getG()), cost::size(getW(), 1), cost::spatial(getW())})";
  let rows = "convolution";
  let scratch = "cost::times({3, cost::sum({cost::bytes(getG()), cost::bytes(getW()), cost::bytes(getResult())})})";
  let assemblyFormat = [{
    $g `,` $w `,` `stride` `=` $stride `,` `padding` `=` $padding `,` `dilation` `=` $dilation `,` `groups` `=` $groups
    attr-dict `:` type($g) `,` type($w) `->` type($result)
  }];
  let hasVerifier = 1;
}

def ConvGradWeightOp : CoreOp<"conv_grad_weight"> {
  let summary = "the gradient of conv with respect to w";
  let description = [{
    g has the type that `conv` of x with the result would have. Sums over the batch.

    Example:

    ```mlir
    %dw = sojourn.conv_grad_weight %g, %x, stride = [2, 2], padding = [1, 1], dilation = [1, 1], groups = 1
      : tensor<2x4x4x4xf32>, tensor<2x3x8x8xf32> -> tensor<4x3x3x3xf32>
    ```
  }];
  let arguments = (ins FloatTensor:$g, FloatTensor:$x, DenseI64ArrayAttr:$stride, DenseI64ArrayAttr:$padding,
                       DenseI64ArrayAttr:$dilation, IntAttr:$groups);
  let results = (outs FloatTensor:$result);
  let operations = "cost::times({2, cost::elements(getG()), cost::size(getResult(), 1), cost::spatial(getResult())})";
  let rows = "convolutionWeightGradient";
  let scratch = "cost::times({3, cost::sum({cost::bytes(getG()), cost::bytes(getX()), cost::bytes(getResult())})})";
  let assemblyFormat = [{
    $g `,` $x `,` `stride` `=` $stride `,` `padding` `=` $padding `,` `dilation` `=` $dilation `,` `groups` `=` $groups
    attr-dict `:` type($g) `,` type($x) `->` type($result)
  }];
  let hasVerifier = 1;
}

def CholeskyOp : InferredCoreOp<"cholesky"> {
  let summary = "the lower triangular factor of symmetric positive definite matrices, and where there is none";
  let description = [{
    x is [..., n, n]; of each matrix the lower triangle alone is read. The factor L has a positive diagonal, zeros above
    it, and L L^T is the matrix. `order` [...] is 0; or, of a matrix that is not positive definite (a NaN on the way
    counts as that), the order, from 1, of the first leading minor that is not, and then all of L is NaN. f16 and bf16
    compute in f32.

    Example:

    ```mlir
    %l, %order = sojourn.cholesky %x : tensor<4x3x3xf32>
    ```
  }];
  let arguments = (ins FloatTensor:$x);
  let results = (outs FloatTensor:$factor, PositionTensor:$order);
  let operations = "cost::times({cost::elements(getX()), cost::size(getX(), getX().getType().getRank() - 1)})";
  let rows = "matrices";
  let scratch = "cost::times({24, cost::elements(getX())})";
  let assemblyFormat = "$x attr-dict `:` type($x)";
}

#endif // SOJOURN_CONTRACTION_OPS_TD
