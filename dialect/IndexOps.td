// SPDX-License-Identifier: Apache-2.0
// Core ops that read and write at computed positions. Out of range (negatives included) reads 0 and drops writes.
#ifndef SOJOURN_INDEX_OPS_TD
#define SOJOURN_INDEX_OPS_TD

include "dialect/Types.td"

def TakeOp : InferredCoreOp<"take"> {
  let summary = "slices of x along dim at indices of any rank";
  let description = [{
    The result's shape is x's with `dim` replaced by the shape of i. An index outside [0, size), negative ones
    included, gives 0; Python's negative indices must be wrapped first.

    Example:

    ```mlir
    %y = sojourn.take %x, %i, dim = 0 : tensor<5x3xf32>, tensor<2x2xi64>
    ```
  }];
  let arguments = (ins CoreTensor:$x, IntTensor:$i, IntAttr:$dim);
  let results = (outs CoreTensor:$result);
  let operations = "cost::elements(getResult())";
  let rows = "take";
  let assemblyFormat = "$x `,` $i `,` `dim` `=` $dim attr-dict `:` type($x) `,` type($i)";
}

def TakeAlongOp : InferredCoreOp<"take_along"> {
  let summary = "one element per index along dim (torch.gather)";
  let description = [{
    i has the rank of x and, outside `dim`, its sizes; a smaller index takes from a slice of x. The result has the shape
    of i. Out of range gives 0.

    Example:

    ```mlir
    %y = sojourn.take_along %x, %i, dim = 1 : tensor<5x3xf32>, tensor<5x1xi64>
    ```
  }];
  let arguments = (ins CoreTensor:$x, IntTensor:$i, IntAttr:$dim);
  let results = (outs CoreTensor:$result);
  let operations = "cost::times({32, cost::elements(getResult())})";
  let rows = "takeAlong";
  let assemblyFormat = "$x `,` $i `,` `dim` `=` $dim attr-dict `:` type($x) `,` type($i)";
}

def PutOp : CoreOp<"put", [AllTypesMatch<["x", "result"]>]> {
  let summary = "x with slices of u combined in at indices of any rank";
  let description = [{
    u has the shape that `take` of x at i would have. `kind` is one of set, add, mul, max, min. Out of range is
    dropped. set: the last in row-major order of i wins; add: any order, f16 and bf16 accumulate in f32.

    Example:

    ```mlir
    %y = sojourn.put "add" %x, %i, %u, dim = 0 : tensor<5x3xf32>, tensor<2xi64>, tensor<2x3xf32>
    ```
  }];
  let arguments = (ins CoreTensor:$x, IntTensor:$i, CoreTensor:$u, IntAttr:$dim, StrAttr:$kind);
  let results = (outs CoreTensor:$result);
  let operations = "cost::sum({cost::elements(getX()), cost::times({2, cost::elements(getU())})})";
  let rows = "put";
  let scratch = "cost::times({8, cost::sum({cost::elements(getX()), cost::elements(getU())})})";
  let assemblyFormat = "$kind $x `,` $i `,` $u `,` `dim` `=` $dim attr-dict `:` type($x) `,` type($i) `,` type($u)";
  let hasVerifier = 1;
}

def PutAlongOp : CoreOp<"put_along", [AllTypesMatch<["x", "result"]>]> {
  let summary = "x with one element per index combined in along dim (torch.scatter)";
  let description = [{
    i and u have one shape: the rank of x and, outside `dim`, its sizes. A smaller index writes into a slice of x, which
    `update_slice` writes back. `kind` and edge cases as in `put`.

    Example:

    ```mlir
    %y = sojourn.put_along "set" %x, %i, %u, dim = 1 : tensor<5x3xf32>, tensor<5x1xi64>, tensor<5x1xf32>
    ```
  }];
  let arguments = (ins CoreTensor:$x, IntTensor:$i, CoreTensor:$u, IntAttr:$dim, StrAttr:$kind);
  let results = (outs CoreTensor:$result);
  let operations = "cost::sum({cost::elements(getX()), cost::times({32, cost::elements(getU())})})";
  let rows = "putAlong";
  let scratch = "cost::times({8, cost::sum({cost::elements(getX()), cost::elements(getU())})})";
  let assemblyFormat = "$kind $x `,` $i `,` $u `,` `dim` `=` $dim attr-dict `:` type($x) `,` type($i) `,` type($u)";
  let hasVerifier = 1;
}

#endif // SOJOURN_INDEX_OPS_TD
