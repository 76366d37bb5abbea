// SPDX-License-Identifier: Apache-2.0
// Core ops that move elements without computing on them.
#ifndef SOJOURN_LAYOUT_OPS_TD
#define SOJOURN_LAYOUT_OPS_TD

include "dialect/Types.td"

def BroadcastOp : CoreOp<"broadcast"> {
  let summary = "repetition along new dims and dims of size 1";
  let description = [{
    Operand dim k becomes result dim `dims[k]`; `dims` is strictly increasing; a dim of size 1 may grow, others keep
    their size.

    Example:

    ```mlir
    %y = sojourn.broadcast %x, dims = [1] : tensor<3xf32> -> tensor<2x3xf32>
    ```
  }];
  let arguments = (ins CoreTensor:$x, DenseI64ArrayAttr:$dims);
  let results = (outs CoreTensor:$result);
  let operations = "cost::elements(getResult())";
  let rows = "broadcast";
  let assemblyFormat = "$x `,` `dims` `=` $dims attr-dict `:` type($x) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def ReshapeOp : CoreOp<"reshape"> {
  let summary = "the same elements, in row-major order, under another shape";
  let description = [{
    Example:

    ```mlir
    %y = sojourn.reshape %x : tensor<2x3xf32> -> tensor<6xf32>
    ```
  }];
  let arguments = (ins CoreTensor:$x);
  let results = (outs CoreTensor:$result);
  let operations = "cost::elements(getResult())";
  let rows = "reshape";
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def PartsOp : InferredCoreOp<"parts"> {
  let summary = "complex numbers as pairs of their real and imaginary parts";
  let description = [{
    x is [...], complex; the result [..., 2] holds the parts of each number, the real part first. It is the same memory,
    read as floats.

    Example:

    ```mlir
    %y = sojourn.parts %x : tensor<2x3xcomplex<f32>>
    ```
  }];
  let arguments = (ins ComplexTensor:$x);
  let results = (outs DrawTensor:$result);
  let operations = "cost::elements(getResult())";
  let rows = "parts";
  let assemblyFormat = "$x attr-dict `:` type($x)";
  let hasFolder = 1;
}

def ComplexOp : InferredCoreOp<"complex"> {
  let summary = "pairs of real and imaginary parts as complex numbers";
  let description = [{
    The inverse of `parts`: x is [..., 2].

    Example:

    ```mlir
    %y = sojourn.complex %x : tensor<2x3x2xf32>
    ```
  }];
  let arguments = (ins DrawTensor:$x);
  let results = (outs ComplexTensor:$result);
  let operations = "cost::elements(getX())";
  let rows = "pairs";
  let assemblyFormat = "$x attr-dict `:` type($x)";
  let hasFolder = 1;
}

def TransposeOp : InferredCoreOp<"transpose"> {
  let summary = "permutation of dims";
  let description = [{
    Result dim i is operand dim `perm[i]`.

    Example:

    ```mlir
    %y = sojourn.transpose %x, perm = [1, 0] : tensor<2x3xf32>
    ```
  }];
  let arguments = (ins CoreTensor:$x, DenseI64ArrayAttr:$perm);
  let results = (outs CoreTensor:$result);
  let operations = "cost::elements(getResult())";
  let rows = "transpose";
  let assemblyFormat = "$x `,` `perm` `=` $perm attr-dict `:` type($x)";
  let hasFolder = 1;
}

def SliceOp : InferredCoreOp<"slice"> {
  let summary = "elements start, start + stride, ... below limit, per dim";
  let description = [{
    0 <= start <= limit <= size and stride > 0 in every dim.

    Example:

    ```mlir
    %y = sojourn.slice %x, start = [0, 1], limit = [2, 3], stride = [1, 2] : tensor<2x3xf32>
    ```
  }];
  let arguments = (ins CoreTensor:$x, DenseI64ArrayAttr:$start, DenseI64ArrayAttr:$limit,
                       DenseI64ArrayAttr:$stride);
  let results = (outs CoreTensor:$result);
  let operations = "cost::elements(getResult())";
  let rows = "slice";
  let assemblyFormat = [{
    $x `,` `start` `=` $start `,` `limit` `=` $limit `,` `stride` `=` $stride attr-dict `:` type($x)
  }];
  let hasFolder = 1;
}

def ReverseOp : CoreOp<"reverse", [SameOperandsAndResultType]> {
  let summary = "opposite order along dims";
  let description = [{
    Example:

    ```mlir
    %y = sojourn.reverse %x, dims = [1] : tensor<2x3xf32>
    ```
  }];
  let arguments = (ins CoreTensor:$x, DenseI64ArrayAttr:$dims);
  let results = (outs CoreTensor:$result);
  let operations = "cost::elements(getResult())";
  let rows = "reverse";
  let assemblyFormat = "$x `,` `dims` `=` $dims attr-dict `:` type($x)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def UpdateSliceOp : CoreOp<"update_slice", [AllTypesMatch<["x", "result"]>]> {
  let summary = "x with the elements of u written at start, start + stride, ...";
  let description = [{
    A write through a view, as a value. Every written position is inside x.

    Example:

    ```mlir
    %y = sojourn.update_slice %x, %u, start = [0, 1], stride = [1, 1] : tensor<2x3xf32>, tensor<2x2xf32>
    ```
  }];
  let arguments = (ins CoreTensor:$x, CoreTensor:$u, DenseI64ArrayAttr:$start, DenseI64ArrayAttr:$stride);
  let results = (outs CoreTensor:$result);
  let operations = "cost::sum({cost::elements(getX()), cost::elements(getU())})";
  let rows = "updateSlice";
  let assemblyFormat = [{
    $x `,` $u `,` `start` `=` $start `,` `stride` `=` $stride attr-dict `:` type($x) `,` type($u)
  }];
  let hasVerifier = 1;
  let hasFolder = 1;
}

def DynamicSliceOp : InferredCoreOp<"dynamic_slice"> {
  let summary = "a part of x of fixed size, with start positions given by operands";
  let description = [{
    `sizes[k]` elements along `dims[k]` from `starts[k]` on, all elements along other dims; `dims` is strictly
    increasing. A start is clamped to [0, size of the dim - sizes[k]], so the part is always inside.

    Example:

    ```mlir
    %y = sojourn.dynamic_slice %x from [%k], dims = [0], sizes = [2] : tensor<5x3xf32>, tensor<i64>
    ```
  }];
  let arguments = (ins CoreTensor:$x, Variadic<I64Number>:$starts, DenseI64ArrayAttr:$dims, DenseI64ArrayAttr:$sizes);
  let results = (outs CoreTensor:$result);
  let operations = "cost::elements(getResult())";
  let rows = "dynamicSlice";
  let assemblyFormat = [{
    $x `from` `[` $starts `]` `,` `dims` `=` $dims `,` `sizes` `=` $sizes attr-dict `:`
    type($x) (`,` type($starts)^)?
  }];
  let hasFolder = 1;
}

def DynamicUpdateSliceOp : CoreOp<"dynamic_update_slice", [AllTypesMatch<["x", "result"]>]> {
  let summary = "x with u written at start positions given by operands";
  let description = [{
    u has the sizes of x, except along `dims`, where it may be smaller. Along `dims[k]` it is written from `starts[k]`
    on, clamped so that u is inside x. `dims` is strictly increasing.

    Example:

    ```mlir
    %y = sojourn.dynamic_update_slice %x, %u from [%k], dims = [0] : tensor<5x3xf32>, tensor<2x3xf32>, tensor<i64>
    ```
  }];
  let arguments = (ins CoreTensor:$x, CoreTensor:$u, Variadic<I64Number>:$starts, DenseI64ArrayAttr:$dims);
  let results = (outs CoreTensor:$result);
  let operations = "cost::sum({cost::elements(getX()), cost::elements(getU())})";
  let rows = "dynamicUpdateSlice";
  let assemblyFormat = [{
    $x `,` $u `from` `[` $starts `]` `,` `dims` `=` $dims attr-dict `:` type($x) `,` type($u) (`,` type($starts)^)?
  }];
  let hasVerifier = 1;
  let hasFolder = 1;
}

def ConcatOp : InferredCoreOp<"concat"> {
  let summary = "operands one after another along dim";
  let description = [{
    At least one operand; all other dims agree.

    Example:

    ```mlir
    %y = sojourn.concat %a, %b dim = 1 : tensor<2x3xf32>, tensor<2x1xf32>
    ```
  }];
  let arguments = (ins Variadic<CoreTensor>:$inputs, IntAttr:$dim);
  let results = (outs CoreTensor:$result);
  let operations = "cost::elements(getResult())";
  let rows = "concat";
  let assemblyFormat = "$inputs `dim` `=` $dim attr-dict `:` type($inputs)";
  let hasFolder = 1;
}

def PadOp : InferredCoreOp<"pad"> {
  let summary = "value around and between the elements";
  let description = [{
    Per dim: `low` and `high` elements of `value` at the ends, `interior` between neighbours. Negative `low` and `high`
    crop; `interior` is at least 0.

    Example:

    ```mlir
    %y = sojourn.pad %x, %value, low = [0, 1], high = [0, 1], interior = [1, 0] : tensor<2x3xf32>, tensor<f32>
    ```
  }];
  let arguments = (ins CoreTensor:$x, CoreTensor:$value, DenseI64ArrayAttr:$low, DenseI64ArrayAttr:$high,
                       DenseI64ArrayAttr:$interior);
  let results = (outs CoreTensor:$result);
  let operations = "cost::elements(getResult())";
  let rows = "pad";
  let assemblyFormat = [{
    $x `,` $value `,` `low` `=` $low `,` `high` `=` $high `,` `interior` `=` $interior attr-dict `:`
    type($x) `,` type($value)
  }];
  let hasFolder = 1;
}

#endif // SOJOURN_LAYOUT_OPS_TD
