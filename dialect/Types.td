// SPDX-License-Identifier: Apache-2.0
// Types: tensors with identity, run-time scalars, datasets.
#ifndef SOJOURN_TYPES_TD
#define SOJOURN_TYPES_TD

include "dialect/Dialect.td"

class SojournType<string name, string typeMnemonic> : TypeDef<SojournDialect, name> {
  let mnemonic = typeMnemonic;
}

def RefType : SojournType<"Ref", "ref"> {
  let summary = "a tensor with identity: a strided window on a storage";
  let description = [{
    Captured form only. Two refs made by `sojourn.view` from one root share a storage, so a write through one is seen
    through the other. Strides and offset count elements from the start of the storage and are printed only when they
    differ from the dense row-major layout at offset 0.

    ```mlir
    !sojourn.ref<64x30xf32>
    !sojourn.ref<30x64xf32, strides = [1, 30], offset = 0>
    ```
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$shape, "::mlir::Type":$elementType,
                        ArrayRefParameter<"int64_t">:$strides, "int64_t":$offset);
  let builders = [
    TypeBuilderWithInferredContext<(ins "::llvm::ArrayRef<int64_t>":$shape, "::mlir::Type":$elementType), [{
      return $_get(elementType.getContext(), shape, elementType, RefType::denseStrides(shape), 0);
    }]>,
    TypeBuilderWithInferredContext<(ins "::llvm::ArrayRef<int64_t>":$shape, "::mlir::Type":$elementType,
                                        "::llvm::ArrayRef<int64_t>":$strides, "int64_t":$offset), [{
      return $_get(elementType.getContext(), shape, elementType, strides, offset);
    }]>
  ];
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Row-major strides of a dense tensor, as ATen counts them (a size of 0 counts as 1).
    static ::llvm::SmallVector<int64_t> denseStrides(::llvm::ArrayRef<int64_t> shape);
    int64_t getRank() const { return static_cast<int64_t>(getShape().size()); }
    int64_t getNumElements() const;
    /// Row-major without gaps (strides of dims of size 1 do not matter), at any offset.
    bool isContiguous() const;
    /// Each element at its own place and no gaps, in some order of the dims, at offset 0: the layout of a root.
    bool isDenseRoot() const;
    /// One past the last storage element that is reached; 0 for an empty tensor, nullopt on overflow.
    std::optional<int64_t> getExtent() const;
    /// The builtin tensor with the same shape and element type.
    ::mlir::RankedTensorType getTensorType() const;
  }];
}

def UnresolvedType : SojournType<"Unresolved", "unresolved"> {
  let summary = "the element type of a result that promotion has yet to find";
  let description = [{
    Captured and functional form only. A front end that knows shapes but not types gives the results of its calls this
    element; `sojourn-promote` replaces it by the element of the module's promotion rules.

    ```mlir
    tensor<4x!sojourn.unresolved>
    !sojourn.ref<4x!sojourn.unresolved>
    ```
  }];
}

def ScalarType : SojournType<"Scalar", "scalar"> {
  let summary = "a Python number that is filled in at run time";
  let description = [{
    Captured and functional form only: a *wrapped number*, which takes part in promotion by category alone. After
    promotion it is a `tensor<f64>`, `tensor<i64>` or `tensor<i1>`.

    ```mlir
    !sojourn.scalar<f64>
    ```
  }];
  let parameters = (ins "::mlir::Type":$elementType);
  let assemblyFormat = "`<` $elementType `>`";
  let genVerifyDecl = 1;
  let builders = [TypeBuilderWithInferredContext<(ins "::mlir::Type":$elementType), [{
    return $_get(elementType.getContext(), elementType);
  }]>];
}

def TableType : SojournType<"Table", "table"> {
  let summary = "a dataset: named, typed columns, and the number of rows if a program depends on it";
  let description = [{
    Only `sojourn.read_rows` reads a dataset, and `sojourn.sample_rows` asks for its number of rows. The type does not
    locate the rows; they need not be resident. `?` means any number of rows: the program runs on tables of any size. A
    program that reads whole tables has shapes that depend on the number and states it; it cannot be bound to a table
    with another number of rows. A column's type is an element type, for plain numbers, or a ranked tensor type without
    encoding, for entries of that shape: at most 8 sizes of at least 1 each, at most 2^24 elements.

    ```mlir
    !sojourn.table<?, "age" : f64, "image" : 28x28xui8>
    !sojourn.table<569, "age" : f64>
    ```
  }];
  let parameters = (ins "int64_t":$rows, ArrayRefParameter<"::mlir::StringAttr">:$names,
                        ArrayRefParameter<"::mlir::Type">:$types);
  let genStorageClass = 0; // holds an index of the names, too
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Whether the program says how many rows there are; else `getRows()` is ShapedType::kDynamic.
    bool hasStaticRows() const { return !::mlir::ShapedType::isDynamic(getRows()); }
    /// Type of the column of that name, a RankedTensorType for a shaped one; null when there is none.
    ::mlir::Type getColumnType(::llvm::StringRef name) const;
  }];
}

def Sojourn_Ref : DialectType<SojournDialect, CPred<"::llvm::isa<::sojourn::RefType>($_self)">, "!sojourn.ref",
                              "::sojourn::RefType">;
def Sojourn_Scalar : DialectType<SojournDialect, CPred<"::llvm::isa<::sojourn::ScalarType>($_self)">,
                                 "!sojourn.scalar", "::sojourn::ScalarType">;
def Sojourn_Table : DialectType<SojournDialect, CPred<"::llvm::isa<::sojourn::TableType>($_self)">,
                                "!sojourn.table", "::sojourn::TableType">;
/// A rank-0 i64, or the scalar slot that becomes one in promotion.
def I64Number : AnyTypeOf<[I64Scalar,
    Type<CPred<"::sojourn::isScalarOf($_self, 64)">, "!sojourn.scalar<i64>">], "tensor<i64>">;

#endif // SOJOURN_TYPES_TD
