// SPDX-License-Identifier: Apache-2.0
// Core ops on sliding windows over the spatial dims of [N, C, spatial].
#ifndef SOJOURN_WINDOW_OPS_TD
#define SOJOURN_WINDOW_OPS_TD

include "dialect/Types.td"

def PoolSumOp : InferredCoreOp<"pool_sum"> {
  let summary = "sum over each window";
  let description = [{
    out = (size + 2 padding - dilation (window - 1) - 1) / stride + 1 per spatial dim, 1 to 3 of them; padding adds 0.
    An average is a product with a constant or with a map of counts.

    Example:

    ```mlir
    %y = sojourn.pool_sum %x, window = [2, 2], stride = [2, 2], padding = [0, 0], dilation = [1, 1]
      : tensor<2x3x8x8xf32>
    ```
  }];
  let arguments = (ins RealTensor:$x, DenseI64ArrayAttr:$window, DenseI64ArrayAttr:$stride,
                       DenseI64ArrayAttr:$padding, DenseI64ArrayAttr:$dilation);
  let results = (outs RealTensor:$result);
  let operations = "cost::times({cost::elements(getResult()), cost::sum({1, cost::windowElements(getX(), getWindow())})})";
  let rows = "pool";
  let scratch = "cost::times({40, cost::sum({cost::elements(getX()), cost::elements(getResult())})})";
  let assemblyFormat = [{
    $x `,` `window` `=` $window `,` `stride` `=` $stride `,` `padding` `=` $padding `,` `dilation` `=` $dilation
    attr-dict `:` type($x)
  }];
}

def PoolMaxOp : InferredCoreOp<"pool_max"> {
  let summary = "largest element of each window and its position";
  let description = [{
    Sizes as in `pool_sum`; padding never wins. `indices` is the flat position in the unpadded spatial dims of the first
    largest element; NaN wins over everything, the last one over the others. Every window holds an element:
    2 padding <= dilation (window - 1) + 1, and with padding the size is at least the dilation.

    Example:

    ```mlir
    %values, %indices = sojourn.pool_max %x, window = [2, 2], stride = [2, 2], padding = [0, 0], dilation = [1, 1]
      : tensor<2x3x8x8xf32>
    ```
  }];
  let arguments = (ins RealTensor:$x, DenseI64ArrayAttr:$window, DenseI64ArrayAttr:$stride,
                       DenseI64ArrayAttr:$padding, DenseI64ArrayAttr:$dilation);
  let results = (outs RealTensor:$values, PositionTensor:$indices);
  let operations = "cost::times({cost::elements(getValues()), cost::sum({1, cost::windowElements(getX(), getWindow())})})";
  let rows = "pool";
  let scratch = "cost::times({56, cost::sum({cost::elements(getX()), cost::elements(getValues())})})";
  let assemblyFormat = [{
    $x `,` `window` `=` $window `,` `stride` `=` $stride `,` `padding` `=` $padding `,` `dilation` `=` $dilation
    attr-dict `:` type($x)
  }];
}

#endif // SOJOURN_WINDOW_OPS_TD
