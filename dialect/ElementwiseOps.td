// SPDX-License-Identifier: Apache-2.0
// Core ops of two and three operands that work position by position; rank-0 operands are splats.
#ifndef SOJOURN_ELEMENTWISE_OPS_TD
#define SOJOURN_ELEMENTWISE_OPS_TD

include "dialect/Types.td"

/// Operands share one shape except for rank-0 splats; the result has that shape and the operands' element type.
class SplatOp<string mnemonic, list<Trait> traits = []>
    : CoreOp<mnemonic, !listconcat([ElementwiseTrait, DeclareOpInterfaceMethods<InferTypeOpInterface>], traits)> {
  let extraClassDefinition = RowRule<rows>.definition # [{
    ::llvm::LogicalResult $cppClass::inferReturnTypes(
        ::mlir::MLIRContext *context, std::optional<::mlir::Location> location, ::mlir::ValueRange operands,
        ::mlir::DictionaryAttr, ::mlir::OpaqueProperties, ::mlir::RegionRange,
        ::llvm::SmallVectorImpl<::mlir::Type> &inferredReturnTypes) {
      return ::sojourn::inferElementwise<$cppClass>(context, location, operands, inferredReturnTypes);
    }
  }];
  let operations = "cost::elements(getResult())";
  let rows = "elementwise";
}

class BinaryOp<string mnemonic, Type type, list<Trait> traits = []> : SplatOp<mnemonic, traits> {
  let arguments = (ins type:$a, type:$b);
  let results = (outs type:$result);
  let assemblyFormat = "$a `,` $b attr-dict `:` type($a) `,` type($b)";
}

def AddOp : BinaryOp<"add", NumberTensor, [Commutative]> {
  let summary = "a + b";
  let description = [{
    Integers wrap. i1 is not allowed: use `or`.

    Example:

    ```mlir
    %y = sojourn.add %a, %b : tensor<2x3xf32>, tensor<f32>
    ```
  }];
  let hasFolder = 1;
}

def SubOp : BinaryOp<"sub", NumberTensor> {
  let summary = "a - b";
  let description = [{
    Integers wrap. i1 is not allowed: use `xor`.

    Example:

    ```mlir
    %y = sojourn.sub %a, %b : tensor<2x3xf32>, tensor<f32>
    ```
  }];
  let hasFolder = 1;
}

def MulOp : BinaryOp<"mul", NumberTensor, [Commutative]> {
  let summary = "a * b";
  let description = [{
    Integers wrap. i1 is not allowed: use `and`.

    Example:

    ```mlir
    %y = sojourn.mul %a, %b : tensor<2x3xf32>, tensor<f32>
    ```
  }];
  let hasFolder = 1;
}

def DivOp : BinaryOp<"div", NumberTensor> {
  let summary = "a / b";
  let description = [{
    Floats follow IEEE. Integers truncate toward zero; x / 0 = 0 and MIN / -1 = MIN.

    Example:

    ```mlir
    %y = sojourn.div %a, %b : tensor<2x3xf32>, tensor<f32>
    ```
  }];
  let hasFolder = 1;
  let operations = "cost::each(getResult(), 1, 4, 4)";
}

def RemOp : BinaryOp<"rem", RealTensor> {
  let summary = "remainder with the sign of the dividend";
  let description = [{
    Floats as fmod. Integers: x rem 0 = 0 and MIN rem -1 = 0.

    Example:

    ```mlir
    %y = sojourn.rem %a, %b : tensor<2x3xf32>, tensor<f32>
    ```
  }];
  let operations = "cost::each(getResult(), 64, 4, 64)";
}

def PowOp : BinaryOp<"pow", NumberTensor> {
  let summary = "a to the power b";
  let description = [{
    Floats follow IEEE. Integers wrap; a negative exponent gives 1 for base 1, ±1 for base -1, else 0.

    Example:

    ```mlir
    %y = sojourn.pow %a, %b : tensor<2x3xf32>, tensor<f32>
    ```
  }];
  let operations = "cost::each(getResult(), 4, 128, 64)";
}

def Atan2Op : BinaryOp<"atan2", FloatTensor> {
  let summary = "angle of the point (b, a)";
  let description = [{
    IEEE signs and limits.

    Example:

    ```mlir
    %y = sojourn.atan2 %a, %b : tensor<2x3xf32>, tensor<f32>
    ```
  }];
  let operations = "cost::each(getResult(), 4, 4, 4)";
}

def MaxOp : BinaryOp<"max", OrderedTensor, [Commutative]> {
  let summary = "the larger one";
  let description = [{
    NaN propagates; the sign of a zero from ±0 is not specified.

    Example:

    ```mlir
    %y = sojourn.max %a, %b : tensor<2x3xf32>, tensor<f32>
    ```
  }];
}

def MinOp : BinaryOp<"min", OrderedTensor, [Commutative]> {
  let summary = "the smaller one";
  let description = [{
    NaN propagates; the sign of a zero from ±0 is not specified.

    Example:

    ```mlir
    %y = sojourn.min %a, %b : tensor<2x3xf32>, tensor<f32>
    ```
  }];
}

def AndOp : BinaryOp<"and", BoolOrIntTensor, [Commutative]> {
  let summary = "logical and of i1, bitwise and of integers";
  let description = [{
    Example:

    ```mlir
    %y = sojourn.and %a, %b : tensor<2x3xi1>, tensor<i1>
    ```
  }];
  let hasFolder = 1;
}

def OrOp : BinaryOp<"or", BoolOrIntTensor, [Commutative]> {
  let summary = "logical or of i1, bitwise or of integers";
  let description = [{
    Example:

    ```mlir
    %y = sojourn.or %a, %b : tensor<2x3xi1>, tensor<i1>
    ```
  }];
  let hasFolder = 1;
}

def XorOp : BinaryOp<"xor", BoolOrIntTensor, [Commutative]> {
  let summary = "logical or bitwise exclusive or";
  let description = [{
    Example:

    ```mlir
    %y = sojourn.xor %a, %b : tensor<2x3xi1>, tensor<i1>
    ```
  }];
  let hasFolder = 1;
}

def ShlOp : BinaryOp<"shl", IntTensor> {
  let summary = "a shifted left by b bits";
  let description = [{
    A negative amount, or an amount of at least the width, gives 0.

    Example:

    ```mlir
    %y = sojourn.shl %a, %b : tensor<2x3xi32>, tensor<i32>
    ```
  }];
}

def ShrOp : BinaryOp<"shr", IntTensor> {
  let summary = "a shifted right by b bits, keeping the sign";
  let description = [{
    A negative amount, or an amount of at least the width, gives the sign fill: 0 or -1.

    Example:

    ```mlir
    %y = sojourn.shr %a, %b : tensor<2x3xi32>, tensor<i32>
    ```
  }];
}

def SpecialBinaryOp : BinaryOp<"special_binary", DrawTensor> {
  let summary = "a special function of two variables";
  let description = [{
    `function` is one of SpecialFunctions.def: Hurwitz's zeta (exponent, position), the regularized incomplete gamma
    functions (shape, bound), and orthogonal polynomials (position, degree: truncated, and 0 below degree 0). Edge cases
    follow torch.special. The running time depends on the values: it grows with the degree of a polynomial, and with the
    distance of a zeta position below 0. Both are bounded: above degree 4096, and for positions below -4096, the result
    is NaN.

    Example:

    ```mlir
    %y = sojourn.special_binary "zeta" %a, %b : tensor<2x3xf32>, tensor<f32>
    ```
  }];
  let arguments = (ins DrawTensor:$a, DrawTensor:$b, StrAttr:$function);
  let operations = "cost::special(getResult(), getFunction())";
  let assemblyFormat = "$function $a `,` $b attr-dict `:` type($a) `,` type($b)";
  let hasVerifier = 1;
}

def CompareOp : SplatOp<"compare"> {
  let summary = "comparison to i1";
  let description = [{
    `predicate` is one of eq, ne, lt, le, gt, ge. With NaN, ne is true and all others are false. Complex numbers have eq
    and ne only; false is less than true.

    Example:

    ```mlir
    %p = sojourn.compare "lt" %a, %b : tensor<2x3xf32>, tensor<f32>
    ```
  }];
  let arguments = (ins CoreTensor:$a, CoreTensor:$b, StrAttr:$predicate);
  let results = (outs BoolTensor:$result);
  let assemblyFormat = "$predicate $a `,` $b attr-dict `:` type($a) `,` type($b)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def SelectOp : SplatOp<"select"> {
  let summary = "a where pred holds, else b";
  let description = [{
    Both sides are always computed.

    Example:

    ```mlir
    %y = sojourn.select %pred, %a, %b : tensor<2x3xi1>, tensor<2x3xf32>, tensor<f32>
    ```
  }];
  let arguments = (ins BoolTensor:$pred, CoreTensor:$a, CoreTensor:$b);
  let results = (outs CoreTensor:$result);
  let assemblyFormat = "$pred `,` $a `,` $b attr-dict `:` type($pred) `,` type($a) `,` type($b)";
  let hasFolder = 1;
}

#endif // SOJOURN_ELEMENTWISE_OPS_TD
