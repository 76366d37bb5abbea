// SPDX-License-Identifier: Apache-2.0
// Core ops without tensor operands: constants, index ramps, random draws.
#ifndef SOJOURN_SOURCE_OPS_TD
#define SOJOURN_SOURCE_OPS_TD

include "dialect/Types.td"

def ConstantOp : InferredCoreOp<"constant", [ConstantLike]> {
  let summary = "one number, rank 0";
  let description = [{
    Constants are splats. Matrices come from `iota`, `compare` and `select`; contents of tensors are inputs.

    Example:

    ```mlir
    %one = sojourn.constant 1.0 : f32
    ```
  }];
  let arguments = (ins TypedAttrInterface:$value);
  let results = (outs CoreTensor:$result);
  let operations = "1";
  let rows = "source";
  let assemblyFormat = "$value attr-dict";
  let hasFolder = 1;
}

def IotaOp : CoreOp<"iota"> {
  let summary = "each element is its own index along `dim`";
  let description = [{
    Integers wrap, floats round to nearest even from the exact index.

    Example:

    ```mlir
    %i = sojourn.iota dim = 1 : tensor<2x3xi64>
    ```
  }];
  let arguments = (ins IntAttr:$dim);
  let results = (outs RealTensor:$result);
  let operations = "cost::elements(getResult())";
  let rows = "source";
  let assemblyFormat = "`dim` `=` $dim attr-dict `:` type($result)";
  let hasVerifier = 1;
}

class RngOp<string mnemonic, Type resultType> : CoreOp<mnemonic> {
  let arguments = (ins I64Scalar:$seed, IntAttr:$stream);
  let results = (outs resultType:$result);
  let operations = "cost::times({16, cost::elements(getResult())})";
  let rows = "source";
  let assemblyFormat = "$seed `,` `stream` `=` $stream attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def RngBitsOp : RngOp<"rng_bits", PositionTensor> {
  let summary = "32 random bits per element, as i64 in [0, 2^32)";
  let description = [{
    Philox4x32-10 with key = (seed low, seed high) and counter = (i/4 low, i/4 high, stream, 0); element i of the
    row-major order is word i mod 4. `stream` separates draws that share a seed.

    Example:

    ```mlir
    %bits = sojourn.rng_bits %seed, stream = 0 : tensor<4x3xi64>
    ```
  }];
}

def RngUniformOp : RngOp<"rng_uniform", DrawTensor> {
  let summary = "uniform in [0, 1)";
  let description = [{
    f32: (word i >> 8) * 2^-24. f64: the upper 53 bits of words 2i (low) and 2i+1 (high), times 2^-53. Exact.

    Example:

    ```mlir
    %u = sojourn.rng_uniform %seed, stream = 1 : tensor<4x3xf32>
    ```
  }];
}

def RngNormalOp : RngOp<"rng_normal", DrawTensor> {
  let summary = "standard normal, by Box-Muller";
  let description = [{
    z = sqrt(-2 log(1 - u1)) cos(2 pi u2). f32: u1, u2 are the uniforms of words 2i and 2i+1; f64: u1 of words 4i and
    4i+1, u2 of words 4i+2 and 4i+3. Within 4 ulp, not bit-exact.

    Example:

    ```mlir
    %z = sojourn.rng_normal %seed, stream = 2 : tensor<4x3xf32>
    ```
  }];
}

#endif // SOJOURN_SOURCE_OPS_TD
