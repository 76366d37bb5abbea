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
  let operations = "cost::times({cost::each(getResult(), 2, 64, 8), cost::sum({1, cost::sizes(getA(), getLhsContract())})})";
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
  let operations = "cost::convolution(getX(), getW(), getResult(), getGroups(), 4)";
  let rows = "convolution";
  let scratch = "cost::convolutionBytes(getX(), getW(), getResult())";
  let assemblyFormat = [{
    $x `,` $w `,` `stride` `=` $stride `,` `padding` `=` $padding `,` `dilation` `=` $dilation `,` `groups` `=` $groups
    attr-dict `:` type($x) `,` type($w)
  }];
}

def ConvGradInputOp : CoreOp<"conv_grad_input"> {
  let summary = "the gradient of conv with respect to x; also the transposed convolution";
  let description = [{
    g has the type that `conv` of the result with w would have. The result type gives the shape of x, which does not
    follow from the attributes.

    Example:

    ```mlir
    %dx = sojourn.conv_grad_input %g, %w, stride = [2, 2], padding = [1, 1], dilation = [1, 1], groups = 1
      : tensor<2x4x4x4xf32>, tensor<4x3x3x3xf32> -> tensor<2x3x8x8xf32>
    ```
  }];
  let arguments = (ins FloatTensor:$g, FloatTensor:$w, DenseI64ArrayAttr:$stride, DenseI64ArrayAttr:$padding,
                       DenseI64ArrayAttr:$dilation, IntAttr:$groups);
  let results = (outs FloatTensor:$result);
  let operations = "cost::convolution(getResult(), getW(), getG(), getGroups(), 16)";
  let rows = "convolution";
  let scratch = "cost::convolutionBytes(getResult(), getW(), getG())";
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
  let operations = "cost::convolution(getX(), getResult(), getG(), getGroups(), 4)";
  let rows = "convolutionWeightGradient";
  let scratch = "cost::convolutionBytes(getX(), getResult(), getG())";
  let assemblyFormat = [{
    $g `,` $x `,` `stride` `=` $stride `,` `padding` `=` $padding `,` `dilation` `=` $dilation `,` `groups` `=` $groups
    attr-dict `:` type($g) `,` type($x) `->` type($result)
  }];
  let hasVerifier = 1;
}

def CholeskyOp : InferredCoreOp<"cholesky"> {
  let summary = "the lower triangular factor of symmetric positive definite matrices, and the order of failure";
  let description = [{
    x is [..., n, n]; only the lower triangle of each matrix is read. The factor L has a positive diagonal, zeros above
    it, and L times its adjoint is the matrix; imaginary parts on the diagonal of x count as 0. `order` [...] is 0 for a
    positive definite matrix. Otherwise (also if a NaN occurs) it is the order, from 1, of the first leading minor that
    is not positive definite, and all of L is NaN. f16 and bf16 compute in f32.

    Example:

    ```mlir
    %l, %order = sojourn.cholesky %x : tensor<4x3x3xf32>
    ```
  }];
  let arguments = (ins FloatOrComplexTensor:$x);
  let results = (outs FloatOrComplexTensor:$factor, PositionTensor:$order);
  let operations = "cost::factors(getOperation(), 64, 1, 0)";
  let rows = "matrices";
  let scratch = "cost::times({3, cost::width(getX()), cost::elements(getX())})";
  let assemblyFormat = "$x attr-dict `:` type($x)";
}

def TriangularSolveOp : CoreOp<"triangular_solve", [AllTypesMatch<["b", "result"]>]> {
  let summary = "x with a x = b for triangular matrices a";
  let description = [{
    a is [..., n, n] and b [..., n, k] with equal leading dims. Only the lower triangle of a is read, or only the upper
    one; with `unit` its diagonal counts as ones. Substitution row by row: a zero on the diagonal divides as IEEE floats
    do. f16 and bf16 compute in f32.

    Example:

    ```mlir
    %x = sojourn.triangular_solve %a, %b, lower = true, unit = false : tensor<4x3x3xf32>, tensor<4x3x2xf32>
    ```
  }];
  let arguments = (ins FloatOrComplexTensor:$a, FloatOrComplexTensor:$b, BoolAttr:$lower, BoolAttr:$unit);
  let results = (outs FloatOrComplexTensor:$result);
  let operations = "cost::solve(getA(), getB(), 4096)";
  let rows = "matrixPairs";
  let scratch = "cost::times({3, cost::width(getB()), cost::sum({cost::elements(getA()), cost::elements(getB())})})";
  let assemblyFormat = "$a `,` $b `,` `lower` `=` $lower `,` `unit` `=` $unit attr-dict `:` type($a) `,` type($b)";
  let hasVerifier = 1;
}

/// `call`: of one matrix, whatever its size; `times`, `made`: see cost::factors.
class FactorOp<string mnemonic, string call, string times, string made> : InferredCoreOp<mnemonic> {
  let operations = "cost::factors(getOperation(), " # call # ", " # times # ", " # made # ")";
  let rows = "matrices";
  let scratch = "cost::times({8, cost::width(getX()), cost::sum({cost::elements(getX()), cost::results(getOperation())})})";
  let assemblyFormat = "$x attr-dict `:` type($x)";
}

def LuOp : FactorOp<"lu", "4096", "1", "0"> {
  let summary = "triangular factors of matrices with exchanged rows, both in one matrix";
  let description = [{
    x is [..., m, n], k = min(m, n). f16 and bf16 compute in f32.

    * `factors`: U [k, n] in its upper triangle and, below the diagonal, L [m, k], whose diagonal is ones.
    * `pivots` [..., k]: at step i, row i was exchanged with row pivots[i], counted from 0. That row has the largest
      magnitude in column i from row i on, the first of equals. The magnitude of a complex number is the sum of those of
      its parts.
    * `permutation` [..., m]: row i of L U is row permutation[i] of x.
    * `order` [...]: 0, or the first step, from 1, whose pivot is zero.

    Example:

    ```mlir
    %lu, %pivots, %rows, %order = sojourn.lu %x : tensor<4x3x3xf32>
    ```
  }];
  let arguments = (ins FloatOrComplexTensor:$x);
  let results = (outs FloatOrComplexTensor:$factors, PositionTensor:$pivots, PositionTensor:$permutation, PositionTensor:$order);
}

def QrOp : FactorOp<"qr", "8192", "4", "4"> {
  let summary = "orthogonal and triangular factors of matrices";
  let description = [{
    x is [..., m, n], k = min(m, n), or m if `full`: q [..., m, k] has orthonormal columns, r [..., k, n] is upper
    triangular, and q r is x, by Householder reflections as in LAPACK's geqrf. f16 and bf16 compute in f32.

    Example:

    ```mlir
    %q, %r = sojourn.qr %x full = false : tensor<4x5x3xf32>
    ```
  }];
  let arguments = (ins FloatOrComplexTensor:$x, BoolAttr:$full);
  let results = (outs FloatOrComplexTensor:$q, FloatOrComplexTensor:$r);
  let assemblyFormat = "$x `full` `=` $full attr-dict `:` type($x)";
}

def EighOp : FactorOp<"eigh", "8192", "24", "0"> {
  let summary = "eigenvalues and eigenvectors of symmetric, or Hermitian, matrices";
  let description = [{
    x is [..., n, n]; only the lower triangle of each matrix is read, and only the real part of its diagonal. `values`
    [..., n] are real and ascending. The columns of `vectors` are orthonormal, and the entry of the largest magnitude in
    each column (the first within 2^-12 of it) is real and not negative. If x has an entry that is not finite, or the
    iteration does not converge, both are NaN. f16 and bf16 compute in f32. The running time depends on the entries.

    Example:

    ```mlir
    %values, %vectors = sojourn.eigh %x : tensor<4x3x3xf32>
    ```
  }];
  let arguments = (ins FloatOrComplexTensor:$x);
  let results = (outs FloatTensor:$values, FloatOrComplexTensor:$vectors);
}

def SvdOp : FactorOp<"svd", "8192", "32", "4"> {
  let summary = "singular values and vectors of matrices";
  let description = [{
    x is [..., m, n], k = min(m, n): u [..., m, k], s [..., k] real and descending, vt [..., k, n], and u diag(s) vt is
    x; if `full`, u is [..., m, m] and vt [..., n, n]. The entry of the largest magnitude in each column of u (the first
    within 2^-12 of it) is real and not negative; the same holds for the rows of vt beyond k. If x has an entry that is
    not finite, or the iteration does not converge, all are NaN. f16 and bf16 compute in f32. The running time depends
    on the entries.

    Example:

    ```mlir
    %u, %s, %vt = sojourn.svd %x full = false : tensor<4x5x3xf32>
    ```
  }];
  let arguments = (ins FloatOrComplexTensor:$x, BoolAttr:$full);
  let results = (outs FloatOrComplexTensor:$u, FloatTensor:$s, FloatOrComplexTensor:$vt);
  let assemblyFormat = "$x `full` `=` $full attr-dict `:` type($x)";
}

def LdlOp : FactorOp<"ldl", "4096", "1", "0"> {
  let summary = "factors of symmetric, or Hermitian, matrices, with rows and columns exchanged";
  let description = [{
    x is [..., n, n]; only the lower triangle of each matrix is read. `factors`, `pivots` [..., n] and `order` [...] are
    those of LAPACK's sytrf, or of hetrf if `hermitian`: L D L^T, or L D times the adjoint of L. D has blocks of one and
    two; pivots count from 1 and are negative for blocks of two; `order` is the first zero block, or 0. Entries above
    the diagonal are zeros. For real numbers `hermitian` has no effect. f16 and bf16 compute in f32.

    Example:

    ```mlir
    %ld, %pivots, %order = sojourn.ldl %x hermitian = false : tensor<4x3x3xf32>
    ```
  }];
  let arguments = (ins FloatOrComplexTensor:$x, BoolAttr:$hermitian);
  let results = (outs FloatOrComplexTensor:$factors, PositionTensor:$pivots, PositionTensor:$order);
  let assemblyFormat = "$x `hermitian` `=` $hermitian attr-dict `:` type($x)";
}

def LdlSolveOp : CoreOp<"ldl_solve", [AllTypesMatch<["b", "result"]>]> {
  let summary = "x with a x = b for symmetric matrices a by their factors";
  let description = [{
    factors [..., n, n] and pivots [..., n] are those of `ldl`, b is [..., n, k] with equal leading dims. If the pivots
    are invalid for n rows, x is NaN. f16 and bf16 compute in f32.

    Example:

    ```mlir
    %x = sojourn.ldl_solve %ld, %pivots, %b, hermitian = false : tensor<4x3x3xf32>, tensor<4x3xi64>, tensor<4x3x2xf32>
    ```
  }];
  let arguments = (ins FloatOrComplexTensor:$factors, PositionTensor:$pivots, FloatOrComplexTensor:$b, BoolAttr:$hermitian);
  let results = (outs FloatOrComplexTensor:$result);
  let operations = "cost::solve(getFactors(), getB(), 16384)";
  let rows = "matrixPairs";
  let scratch = "cost::times({3, cost::width(getB()), cost::sum({cost::elements(getFactors()), cost::elements(getB())})})";
  let assemblyFormat = "$factors `,` $pivots `,` $b `,` `hermitian` `=` $hermitian attr-dict `:` type($factors) `,` type($pivots) `,` type($b)";
  let hasVerifier = 1;
}

def EigOp : FactorOp<"eig", "32768", "64", "0"> {
  let summary = "eigenvalues and eigenvectors of square matrices";
  let description = [{
    x is [..., n, n], real or complex. The columns of `vectors` [..., n, n] have length 1, and the entry of the largest
    magnitude in each column (the first within 2^-12 of it) is real and not negative. The order of `values` [..., n] is
    the library's. If x has an entry that is not finite, or the iteration does not converge, both are NaN. The running
    time depends on the entries.

    Example:

    ```mlir
    %values, %vectors = sojourn.eig %x : tensor<4x3x3xf32>
    ```
  }];
  let arguments = (ins WideTensor:$x);
  let results = (outs ComplexTensor:$values, ComplexTensor:$vectors);
}

// Discrete Fourier transforms along `dims`, which are distinct and not empty; nothing is scaled. How long they take
// does not depend on the entries.
class FourierOp<string mnemonic> : InferredCoreOp<mnemonic> {
  let operations = "cost::times({16, cost::sum({4, getDims().size()}), cost::sum({cost::elements(getX()), cost::elements(getResult())})})";
  let rows = "transform";
  let scratch = "cost::times({4, cost::sum({cost::bytes(getX()), cost::bytes(getResult())})})";
}

def FftC2cOp : FourierOp<"fft_c2c"> {
  let summary = "the discrete Fourier transform of complex numbers";
  let description = [{
    Along each of `dims`, of size n: y[k] = sum over j of x[j] exp(-2 pi i j k / n), with the opposite sign if
    `inverse`.

    Example:

    ```mlir
    %y = sojourn.fft_c2c %x, dims = [1], inverse = false : tensor<2x8xcomplex<f32>>
    ```
  }];
  let arguments = (ins ComplexTensor:$x, DenseI64ArrayAttr:$dims, BoolAttr:$inverse);
  let results = (outs ComplexTensor:$result);
  let assemblyFormat = "$x `,` `dims` `=` $dims `,` `inverse` `=` $inverse attr-dict `:` type($x)";
}

def FftR2cOp : FourierOp<"fft_r2c"> {
  let summary = "the discrete Fourier transform of real numbers, without the entries that follow by symmetry";
  let description = [{
    As fft_c2c of x as complex numbers, but only the first n / 2 + 1 entries along the last of `dims`, of size n.

    Example:

    ```mlir
    %y = sojourn.fft_r2c %x, dims = [0, 1] : tensor<4x8xf32>
    ```
  }];
  let arguments = (ins DrawTensor:$x, DenseI64ArrayAttr:$dims);
  let results = (outs ComplexTensor:$result);
  let assemblyFormat = "$x `,` `dims` `=` $dims attr-dict `:` type($x)";
}

def FftC2rOp : FourierOp<"fft_c2r"> {
  let summary = "the inverse of fft_r2c, times the number of transformed elements";
  let description = [{
    The inverse transform along `dims`. The last of these has size / 2 + 1 entries; the others are the conjugates that
    make the result real. Once the other dims are transformed, imaginary parts of entry 0 of that dim count as 0, and so
    do those of entry size / 2 if `size` is even.

    Example:

    ```mlir
    %y = sojourn.fft_c2r %x, dims = [0, 1], size = 8 : tensor<4x5xcomplex<f32>>
    ```
  }];
  let arguments = (ins ComplexTensor:$x, DenseI64ArrayAttr:$dims, IntAttr:$size);
  let results = (outs DrawTensor:$result);
  let assemblyFormat = "$x `,` `dims` `=` $dims `,` `size` `=` $size attr-dict `:` type($x)";
}

#endif // SOJOURN_CONTRACTION_OPS_TD
