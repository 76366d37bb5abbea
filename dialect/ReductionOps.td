// SPDX-License-Identifier: Apache-2.0
// Core ops along dims: reductions, scans, sorting.
#ifndef SOJOURN_REDUCTION_OPS_TD
#define SOJOURN_REDUCTION_OPS_TD

include "dialect/Types.td"

/// Removes `dims` (strictly increasing).
class ReduceOp<string mnemonic, Type type> : InferredCoreOp<mnemonic> {
  let arguments = (ins type:$x, DenseI64ArrayAttr:$dims);
  let results = (outs type:$result);
  let operations = "cost::sum({cost::times({4, cost::elements(getX())}), cost::elements(getResult())})";
  let rows = "reduce";
  let scratch = "cost::times({8, cost::sum({cost::elements(getX()), cost::elements(getResult())})})";
  let assemblyFormat = "$x `,` `dims` `=` $dims attr-dict `:` type($x)";
  let hasFolder = 1;
}

/// Removes `dim`; the result is an index.
class ArgOp<string mnemonic> : InferredCoreOp<mnemonic> {
  let arguments = (ins OrderedTensor:$x, IntAttr:$dim);
  let results = (outs PositionTensor:$result);
  let operations = "cost::sum({cost::elements(getX()), cost::elements(getResult())})";
  let rows = "reduce";
  let scratch = "cost::times({8, cost::sum({cost::elements(getX()), cost::elements(getResult())})})";
  let assemblyFormat = "$x `,` `dim` `=` $dim attr-dict `:` type($x)";
}

/// Running values along `dim`.
class ScanOp<string mnemonic, Type type> : CoreOp<mnemonic, [SameOperandsAndResultType]> {
  let arguments = (ins type:$x, IntAttr:$dim);
  let results = (outs type:$result);
  let operations = "cost::times({16, cost::elements(getX())})";
  let rows = "along";
  let scratch = "cost::times({8, cost::sum({cost::elements(getX()), cost::elements(getResult())})})";
  let assemblyFormat = "$x `,` `dim` `=` $dim attr-dict `:` type($x)";
  let hasVerifier = 1;
}

def ReduceSumOp : ReduceOp<"reduce_sum", NumberTensor> {
  let summary = "sum over dims";
  let rows = "reduceSum";
  let description = [{
    f16 and bf16 accumulate in f32, others in their own type, with the error bound of a pairwise sum. Integers wrap.
    An empty sum is 0.

    Example:

    ```mlir
    %y = sojourn.reduce_sum %x, dims = [1] : tensor<2x3xf32>
    ```
  }];
}

def ReduceProdOp : ReduceOp<"reduce_prod", NumberTensor> {
  let summary = "product over dims";
  let description = [{
    Accumulates as `reduce_sum`. An empty product is 1.

    Example:

    ```mlir
    %y = sojourn.reduce_prod %x, dims = [1] : tensor<2x3xf32>
    ```
  }];
}

def ReduceMaxOp : ReduceOp<"reduce_max", OrderedTensor> {
  let summary = "largest element over dims";
  let description = [{
    NaN propagates; for i1 it is *any*. A reduced dim of size 0 is an error of the program.

    Example:

    ```mlir
    %y = sojourn.reduce_max %x, dims = [1] : tensor<2x3xf32>
    ```
  }];
}

def ReduceMinOp : ReduceOp<"reduce_min", OrderedTensor> {
  let summary = "smallest element over dims";
  let description = [{
    NaN propagates; for i1 it is *all*. A reduced dim of size 0 is an error of the program.

    Example:

    ```mlir
    %y = sojourn.reduce_min %x, dims = [1] : tensor<2x3xf32>
    ```
  }];
}

def ArgMaxOp : ArgOp<"argmax"> {
  let summary = "index of the largest element along dim";
  let description = [{
    Ties give the first index; the first NaN wins over everything. A dim of size 0 is an error of the program.

    Example:

    ```mlir
    %y = sojourn.argmax %x, dim = 1 : tensor<2x3xf32>
    ```
  }];
}

def ArgMinOp : ArgOp<"argmin"> {
  let summary = "index of the smallest element along dim";
  let description = [{
    Ties give the first index; the first NaN wins over everything. A dim of size 0 is an error of the program.

    Example:

    ```mlir
    %y = sojourn.argmin %x, dim = 1 : tensor<2x3xf32>
    ```
  }];
}

def CumSumOp : ScanOp<"cumsum", NumberTensor> {
  let summary = "running sum along dim";
  let description = [{
    f16, bf16 and f32 accumulate in f64. Integers wrap.

    Example:

    ```mlir
    %y = sojourn.cumsum %x, dim = 1 : tensor<2x3xf32>
    ```
  }];
}

def CumProdOp : ScanOp<"cumprod", NumberTensor> {
  let summary = "running product along dim";
  let description = [{
    f16, bf16 and f32 accumulate in f64. Integers wrap.

    Example:

    ```mlir
    %y = sojourn.cumprod %x, dim = 1 : tensor<2x3xf32>
    ```
  }];
}

def CumMaxOp : ScanOp<"cummax", OrderedTensor> {
  let summary = "running maximum along dim";
  let description = [{
    After a NaN all elements are NaN. Indices are derived.

    Example:

    ```mlir
    %y = sojourn.cummax %x, dim = 1 : tensor<2x3xf32>
    ```
  }];
}

def CumMinOp : ScanOp<"cummin", OrderedTensor> {
  let summary = "running minimum along dim";
  let description = [{
    After a NaN all elements are NaN. Indices are derived.

    Example:

    ```mlir
    %y = sojourn.cummin %x, dim = 1 : tensor<2x3xf32>
    ```
  }];
}

def CumLogSumExpOp : ScanOp<"cumlogsumexp", FloatOrComplexTensor> {
  let summary = "running log of the sum of e^x along dim";
  let description = [{
    Each prefix is shifted by its own maximum: [-200, 0, 200] gives no -inf. For complex numbers let m be the one of
    y[k - 1] and x[k] with the larger real part, and o the other; y[k] is m + log(1 + exp(o - m)). Imaginary parts may
    exceed pi.

    Example:

    ```mlir
    %y = sojourn.cumlogsumexp %x, dim = 1 : tensor<2x3xf32>
    ```
  }];
  let operations = "cost::each(getX(), 64, 64, 256)";
}

def SortOp : InferredCoreOp<"sort"> {
  let summary = "stable sort along dim: values and their former indices";
  let description = [{
    Ties keep their order, also when `descending`. NaN is the largest value.

    Example:

    ```mlir
    %values, %indices = sojourn.sort %x, dim = 1, descending = false : tensor<2x3xf32>
    ```
  }];
  let arguments = (ins OrderedTensor:$x, IntAttr:$dim, BoolAttr:$descending);
  let results = (outs OrderedTensor:$values, PositionTensor:$indices);
  let operations = "cost::times({4, cost::elements(getX()), cost::passes(cost::size(getX(), getDim()))})";
  let rows = "along";
  let scratch = "cost::sum({cost::times({32, cost::size(getX(), getDim())}), cost::times({8, cost::elements(getX())})})";
  let assemblyFormat = "$x `,` `dim` `=` $dim `,` `descending` `=` $descending attr-dict `:` type($x)";
}

def TopKOp : InferredCoreOp<"topk"> {
  let summary = "the first k of the stable sort along dim";
  let description = [{
    `largest` sorts descending. 0 <= k <= size.

    Example:

    ```mlir
    %values, %indices = sojourn.topk %x, dim = 1, k = 2, largest = true : tensor<2x3xf32>
    ```
  }];
  let arguments = (ins OrderedTensor:$x, IntAttr:$dim, IntAttr:$k, BoolAttr:$largest);
  let results = (outs OrderedTensor:$values, PositionTensor:$indices);
  let operations = "cost::times({4, cost::elements(getX()), cost::passes(cost::size(getX(), getDim()))})";
  let rows = "along";
  let scratch = "cost::sum({cost::times({32, cost::size(getX(), getDim())}), cost::times({8, cost::elements(getX())})})";
  let assemblyFormat = "$x `,` `dim` `=` $dim `,` `k` `=` $k `,` `largest` `=` $largest attr-dict `:` type($x)";
}

#endif // SOJOURN_REDUCTION_OPS_TD
