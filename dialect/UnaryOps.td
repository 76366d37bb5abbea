// SPDX-License-Identifier: Apache-2.0
// Core ops of one operand that work position by position.
#ifndef SOJOURN_UNARY_OPS_TD
#define SOJOURN_UNARY_OPS_TD

include "dialect/Types.td"

class UnaryOp<string mnemonic, Type type> : CoreOp<mnemonic, [ElementwiseTrait, SameOperandsAndResultType]> {
  let arguments = (ins type:$x);
  let results = (outs type:$result);
  let operations = "cost::elements(getResult())";
  let rows = "elementwise";
  let assemblyFormat = "$x attr-dict `:` type($x)";
}

/// One that takes longer than arithmetic: operations of an element, and of a complex one.
class FunctionOp<string mnemonic, Type type, string ofReal, string ofComplex> : UnaryOp<mnemonic, type> {
  let operations = "cost::each(getResult(), " # ofReal # ", 1, " # ofComplex # ")";
}

def ConvertOp : CoreOp<"convert", [ElementwiseTrait, SameOperandsAndResultShape]> {
  let summary = "change of element type";
  let description = [{
    Integer to integer wraps. Float to integer truncates toward zero, saturates, and NaN gives 0. To i1: x != 0, and
    NaN is true. From i1: 0 or 1. Float to float rounds to nearest even. Real to complex sets the imaginary part to 0;
    complex to real is not allowed.

    Example:

    ```mlir
    %y = sojourn.convert %x : tensor<2x3xf32> -> tensor<2x3xi32>
    ```
  }];
  let arguments = (ins CoreTensor:$x);
  let results = (outs CoreTensor:$result);
  let operations = "cost::elements(getResult())";
  let rows = "elementwise";
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def BitcastOp : CoreOp<"bitcast", [ElementwiseTrait, SameOperandsAndResultShape]> {
  let summary = "the same bits as another element type of equal width";
  let description = [{
    Not for i1 and complex.

    Example:

    ```mlir
    %y = sojourn.bitcast %x : tensor<2x3xf32> -> tensor<2x3xi32>
    ```
  }];
  let arguments = (ins RealTensor:$x);
  let results = (outs RealTensor:$result);
  let operations = "cost::elements(getResult())";
  let rows = "elementwise";
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def NegOp : UnaryOp<"neg", NumberTensor> {
  let summary = "-x";
  let description = [{
    Integers wrap at their minimum; the sign of a float zero flips.

    Example:

    ```mlir
    %y = sojourn.neg %x : tensor<2x3xf32>
    ```
  }];
  let hasFolder = 1;
}

def AbsOp : UnaryOp<"abs", RealTensor> {
  let summary = "|x|";
  let description = [{
    Integers wrap at their minimum. The magnitude of a complex number is derived, not an op.

    Example:

    ```mlir
    %y = sojourn.abs %x : tensor<2x3xf32>
    ```
  }];
  let hasFolder = 1;
}

def SignOp : UnaryOp<"sign", RealTensor> {
  let summary = "-1, 0 or 1";
  let description = [{
    sign(NaN) = 0 and sign(±0) = 0, as in torch.

    Example:

    ```mlir
    %y = sojourn.sign %x : tensor<2x3xf32>
    ```
  }];
}

def FloorOp : UnaryOp<"floor", FloatTensor> {
  let summary = "largest integer not above x";
  let description = [{
    Infinities and NaN are unchanged.

    Example:

    ```mlir
    %y = sojourn.floor %x : tensor<2x3xf32>
    ```
  }];
}

def CeilOp : UnaryOp<"ceil", FloatTensor> {
  let summary = "smallest integer not below x";
  let description = [{
    Infinities and NaN are unchanged.

    Example:

    ```mlir
    %y = sojourn.ceil %x : tensor<2x3xf32>
    ```
  }];
}

def RoundOp : UnaryOp<"round", FloatTensor> {
  let summary = "nearest integer, halves to even";
  let description = [{
    Infinities and NaN are unchanged.

    Example:

    ```mlir
    %y = sojourn.round %x : tensor<2x3xf32>
    ```
  }];
}

def NotOp : UnaryOp<"not", BoolOrIntTensor> {
  let summary = "logical not of i1, bitwise not of integers";
  let description = [{
    Example:

    ```mlir
    %y = sojourn.not %x : tensor<2x3xi1>
    ```
  }];
  let hasFolder = 1;
}

def ExpOp : FunctionOp<"exp", FloatOrComplexTensor, "4", "64"> {
  let summary = "e^x";
  let description = [{
    IEEE limits; within 4 ulp in f32.

    Example:

    ```mlir
    %y = sojourn.exp %x : tensor<2x3xf32>
    ```
  }];
}

def Expm1Op : FunctionOp<"expm1", FloatTensor, "4", "64"> {
  let summary = "e^x - 1, accurate near 0";
  let description = [{
    Example:

    ```mlir
    %y = sojourn.expm1 %x : tensor<2x3xf32>
    ```
  }];
}

def LogOp : FunctionOp<"log", FloatOrComplexTensor, "4", "64"> {
  let summary = "natural logarithm";
  let description = [{
    log(±0) = -inf, log of a negative is NaN.

    Example:

    ```mlir
    %y = sojourn.log %x : tensor<2x3xf32>
    ```
  }];
}

def Log1pOp : FunctionOp<"log1p", FloatTensor, "4", "64"> {
  let summary = "log(1 + x), accurate near 0";
  let description = [{
    Example:

    ```mlir
    %y = sojourn.log1p %x : tensor<2x3xf32>
    ```
  }];
}

def SqrtOp : FunctionOp<"sqrt", FloatOrComplexTensor, "1", "16"> {
  let summary = "square root";
  let description = [{
    Correctly rounded; NaN below 0; sqrt(-0) = -0.

    Example:

    ```mlir
    %y = sojourn.sqrt %x : tensor<2x3xf32>
    ```
  }];
}

def SinOp : FunctionOp<"sin", FloatOrComplexTensor, "4", "64"> {
  let summary = "sine";
  let description = [{
    NaN at the infinities.

    Example:

    ```mlir
    %y = sojourn.sin %x : tensor<2x3xf32>
    ```
  }];
}

def CosOp : FunctionOp<"cos", FloatOrComplexTensor, "4", "64"> {
  let summary = "cosine";
  let description = [{
    NaN at the infinities.

    Example:

    ```mlir
    %y = sojourn.cos %x : tensor<2x3xf32>
    ```
  }];
}

def TanhOp : FunctionOp<"tanh", FloatOrComplexTensor, "4", "64"> {
  let summary = "hyperbolic tangent";
  let description = [{
    Example:

    ```mlir
    %y = sojourn.tanh %x : tensor<2x3xf32>
    ```
  }];
}

def LogisticOp : FunctionOp<"logistic", FloatTensor, "4", "64"> {
  let summary = "1 / (1 + e^-x)";
  let description = [{
    logistic(-inf) = 0, without overflow in between.

    Example:

    ```mlir
    %y = sojourn.logistic %x : tensor<2x3xf32>
    ```
  }];
}

def ErfOp : FunctionOp<"erf", FloatTensor, "4", "64"> {
  let summary = "error function";
  let description = [{
    Example:

    ```mlir
    %y = sojourn.erf %x : tensor<2x3xf32>
    ```
  }];
}

def ErfcOp : FunctionOp<"erfc", FloatTensor, "4", "64"> {
  let summary = "complementary error function";
  let description = [{
    Accurate where 1 - erf(x) would cancel.

    Example:

    ```mlir
    %y = sojourn.erfc %x : tensor<2x3xf32>
    ```
  }];
}

def ErfinvOp : FunctionOp<"erfinv", FloatTensor, "8", "64"> {
  let summary = "inverse of the error function";
  let description = [{
    ±inf at ±1, NaN beyond.

    Example:

    ```mlir
    %y = sojourn.erfinv %x : tensor<2x3xf32>
    ```
  }];
}

def LgammaOp : FunctionOp<"lgamma", FloatTensor, "8", "64"> {
  let summary = "logarithm of |gamma(x)|";
  let description = [{
    +inf at 0 and the negative integers.

    Example:

    ```mlir
    %y = sojourn.lgamma %x : tensor<2x3xf32>
    ```
  }];
}

def DigammaOp : FunctionOp<"digamma", FloatTensor, "64", "64"> {
  let summary = "derivative of lgamma";
  let description = [{
    -inf at +0, +inf at -0, NaN at the negative integers, as in torch.

    Example:

    ```mlir
    %y = sojourn.digamma %x : tensor<2x3xf32>
    ```
  }];
}

def SpecialOp : UnaryOp<"special", DrawTensor> {
  let summary = "a special function of one variable";
  let description = [{
    `function` is one of SpecialFunctions.def: Airy's Ai, Bessel functions of the first, second and modified kinds (those
    named `scaled_` or ending in `e` without their exponential), the scaled complementary error function and the inverse
    of the normal distribution. Edge cases follow torch.special. The running time depends on the values, within a small
    factor.

    Example:

    ```mlir
    %y = sojourn.special "bessel_j0" %x : tensor<2x3xf32>
    ```
  }];
  let arguments = (ins DrawTensor:$x, StrAttr:$function);
  let operations = "cost::times({128, cost::elements(getResult())})";
  let assemblyFormat = "$function $x attr-dict `:` type($x)";
  let hasVerifier = 1;
}

#endif // SOJOURN_UNARY_OPS_TD
