// SPDX-License-Identifier: Apache-2.0
// Ops of captured and functional form: what the recorder saw, as it saw it.
#ifndef SOJOURN_CAPTURED_OPS_TD
#define SOJOURN_CAPTURED_OPS_TD

include "dialect/Attrs.td"
include "dialect/Types.td"

def AtenValue : AnyTypeOf<[CoreTensor, Sojourn_Ref, Sojourn_Scalar, NoneType],
                          "tensor, !sojourn.ref, !sojourn.scalar or none">;

def AtenOp : SojournOp<"aten", [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "one call of an ATen operator, with its schema";
  let description = [{
    `args` has one attribute per schema argument, in schema order, and `names` their names. `#sojourn.operand<k>` is
    operand k; a list of tensors is an array of those, with `unit` for an undefined element; ints, bools, shape-defining
    floats, int lists, bool lists, dtypes and strings are literals; `unit` is None. A float scalar is always an operand
    (`!sojourn.scalar<f64>`), so the program contains no value of it. A random op has a pseudo argument `seed` at the
    end.

    Results are the fresh tensors only: an output that is a mutated argument or a view is not a result. An undefined
    output has type `none`. `mutates` lists the mutated operands. In functional form operands and results are tensors,
    `mutates` is empty, and the new value of each mutated operand is a result after the fresh ones.

    Example:

    ```mlir
    %r = sojourn.aten "aten.add.Tensor"(%x, %y, %s)
      {args = [#sojourn.operand<0>, #sojourn.operand<1>, #sojourn.operand<2>], names = ["self", "other", "alpha"]}
      : (!sojourn.ref<4xf32>, !sojourn.ref<4xf32>, !sojourn.scalar<f64>) -> !sojourn.ref<4xf32>
    ```
  }];
  let arguments = (ins StrAttr:$name, Variadic<AtenValue>:$inputs, ArrayAttr:$args, StrArrayAttr:$names,
                       DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$mutates);
  let results = (outs Variadic<AtenValue>:$outputs);
  let assemblyFormat = "$name `(` $inputs `)` attr-dict `:` functional-type($inputs, $outputs)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// "add" of "aten.add.Tensor".
    ::llvm::StringRef getBaseName();
    /// "Tensor" of "aten.add.Tensor"; empty when there is none.
    ::llvm::StringRef getOverload();
    /// The attribute of the schema argument of that name; null when there is none.
    ::mlir::Attribute getArg(::llvm::StringRef argument);
    /// The operand that the schema argument of that name refers to; null when it is not one operand.
    ::mlir::Value getArgOperand(::llvm::StringRef argument);
  }];
}

def ViewOp : SojournOp<"view", [Pure]> {
  let summary = "the same storage through other sizes, strides and offset";
  let description = [{
    Every view operator of ATen is recorded as this op. Strides and offset of the result are absolute in the storage of
    the root; chains of views carry no information beyond that. The result may not reach beyond its root's storage.

    Example:

    ```mlir
    %t = sojourn.view %r : !sojourn.ref<64x30xf32> -> !sojourn.ref<30x64xf32, strides = [1, 30], offset = 0>
    ```
  }];
  let arguments = (ins Sojourn_Ref:$source);
  let results = (outs Sojourn_Ref:$result);
  let assemblyFormat = "$source attr-dict `:` qualified(type($source)) `->` qualified(type($result))";
  let hasVerifier = 1;
}

def MovedViewOp : SojournOp<"moved_view", [Pure]> {
  let summary = "a view whose position in the storage is given at run time";
  let description = [{
    The storage of the root has the dims `shape`, row-major in the order of memory. Each dim of the result varies along
    one of them. `places[k]` is the start of the window along `dims[k]`, clamped so that the window stays inside. The
    offset of the result's type gives the start along the other dims, and counts these alone. So slices, `select` and
    their compositions are one program for all positions.

    Example:

    ```mlir
    %v = sojourn.moved_view %r at [%k], shape = [100, 32], dims = [0] : !sojourn.ref<100x32xf32>, !sojourn.scalar<i64>
      -> !sojourn.ref<5x32xf32>
    ```
  }];
  let arguments = (ins Sojourn_Ref:$source, Variadic<I64Number>:$places, DenseI64ArrayAttr:$shape,
                       DenseI64ArrayAttr:$dims);
  let results = (outs Sojourn_Ref:$result);
  let assemblyFormat = [{
    $source `at` `[` $places `]` `,` `shape` `=` $shape `,` `dims` `=` $dims attr-dict `:` qualified(type($source)) `,`
    type($places) `->` qualified(type($result))
  }];
  let hasVerifier = 1;
}

def AllocOp : SojournOp<"alloc"> {
  let summary = "a fresh storage with the contents of a value";
  let description = [{
    Gives identity to the result of a core op in captured form. The layout is dense at offset 0.

    Example:

    ```mlir
    %r = sojourn.alloc %value : tensor<4xf32> -> !sojourn.ref<4xf32>
    ```
  }];
  let arguments = (ins CoreTensor:$value);
  let results = (outs Res<Sojourn_Ref, "the new storage", [MemAlloc, MemWrite]>:$result);
  let assemblyFormat = "$value attr-dict `:` type($value) `->` qualified(type($result))";
  let hasVerifier = 1;
}

def LoadOp : SojournOp<"load"> {
  let summary = "the present contents of a ref, as a value";
  let description = [{
    The inverse of `sojourn.alloc`: a core op of captured form (such as `sojourn.read_rows`) uses the contents of a ref
    at this point.

    Example:

    ```mlir
    %value = sojourn.load %r : !sojourn.ref<4xf32> -> tensor<4xf32>
    ```
  }];
  let arguments = (ins Arg<Sojourn_Ref, "the storage", [MemRead]>:$source);
  let results = (outs CoreTensor:$result);
  let assemblyFormat = "$source attr-dict `:` qualified(type($source)) `->` type($result)";
  let hasVerifier = 1;
}

#endif // SOJOURN_CAPTURED_OPS_TD
