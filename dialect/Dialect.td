// SPDX-License-Identifier: Apache-2.0
// The dialect itself, the element sets and the base classes that every group of ops builds on.
#ifndef SOJOURN_DIALECT_TD
#define SOJOURN_DIALECT_TD

include "dialect/Interfaces.td"

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def SojournDialect : Dialect {
  let name = "sojourn";
  let cppNamespace = "::sojourn";
  let summary = "PyTorch steps, from the recorded trace to the program that an owner runs";
  let description = [{
    One dialect, two forms. *Captured form* has handles with identity (`!sojourn.ref`), views and mutation, and one
    generic op (`sojourn.aten`) that carries the ATen schema. *Core form* is a closed set of pure and total ops over
    builtin ranked tensors of static shape; it is the only form that an owner accepts.

    Core rules that hold for every op: operands of one op have one element type; a rank-0 operand of an elementwise op
    is a splat (the only implicit broadcast); f16 and bf16 compute in f32 and round to nearest even after every op;
    sizes of 0 are legal; no value makes an op fail (out-of-range reads give 0, out-of-range writes are dropped,
    integer division by zero gives 0, casts saturate).
  }];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let hasConstantMaterializer = 1;
  let hasCanonicalizer = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
  let extraClassDeclaration = [{
    void registerTypes();
    void registerAttributes();
    /// For the families of ops, each of which registers its own.
    template <typename... Ops>
    void add() { addOperations<Ops...>(); }
  }];
}

// Element sets, after the letters of the op tables: B bool, Z integers, F floats, X complex, N = Z + F + X.
defvar elementsB = [I1];
defvar elementsZ = [UI8, I8, I16, I32, I64];
defvar elementsF = [F16, BF16, F32, F64];
defvar elementsX = [Complex<F32>, Complex<F64>];
defvar elementsBZ = !listconcat(elementsB, elementsZ);
defvar elementsZF = !listconcat(elementsZ, elementsF);
defvar elementsBZF = !listconcat(elementsB, elementsZF);
defvar elementsFX = !listconcat(elementsF, elementsX);
defvar elementsN = !listconcat(elementsZF, elementsX);
defvar elementsAll = !listconcat(elementsB, elementsN);

class ElementTensor<list<Type> elements, string text> : StaticShapeTensorOf<elements> {
  let summary = text;
}
// Before promotion a result may be unresolved (Types.td); verifyCoreForm refuses it.
def UnresolvedElement : Type<CPred<"::sojourn::isUnresolved($_self)">, "!sojourn.unresolved">;
def CoreTensor : ElementTensor<!listconcat(elementsAll, [UnresolvedElement]),
                               "a tensor of static shape and core element">;
def BoolTensor : ElementTensor<elementsB, "an i1 tensor of static shape">;
def IntTensor : ElementTensor<elementsZ, "an integer tensor of static shape">;
def FloatTensor : ElementTensor<elementsF, "a float tensor of static shape">;
def NumberTensor : ElementTensor<elementsN, "a tensor of numbers (not i1) and static shape">;
def RealTensor : ElementTensor<elementsZF, "a tensor of integers or floats and static shape">;
def OrderedTensor : ElementTensor<elementsBZF, "a tensor of i1, integers or floats and static shape">;
def FloatOrComplexTensor : ElementTensor<elementsFX, "a float or complex tensor of static shape">;
def ComplexTensor : ElementTensor<elementsX, "a complex tensor of static shape">;
def WideTensor : ElementTensor<!listconcat([F32, F64], elementsX), "an f32, f64 or complex tensor of static shape">;
def BoolOrIntTensor : ElementTensor<elementsBZ, "an i1 or integer tensor of static shape">;
def PositionTensor : ElementTensor<[I64], "an i64 tensor of static shape">;
def DrawTensor : ElementTensor<[F32, F64], "an f32 or f64 tensor of static shape">;

/// A rank-0 i64: a seed, an epoch, a position. Buildable, so formats need not spell it.
def I64Scalar : Type<And<[IsTensorTypePred, CPred<"::sojourn::isRankZero($_self, 64)">]>, "tensor<i64>">,
    BuildableType<"::mlir::RankedTensorType::get({}, $_builder.getI64Type())">;

/// An i64 attribute read as a signed number (I64Attr would hand out uint64_t).
def IntAttr : TypedSignlessIntegerAttrBase<I64, "int64_t", "64-bit signless integer attribute"> {
  let convertFromStorage = "$_self.getInt()";
}

/// Marks the ops of core form. Its verifier bounds rank and number of elements of every operand and result.
def CoreOpTrait : NativeOpTrait<"CoreOp"> {
  let cppNamespace = "::sojourn";
}
/// Marks ops that work position by position, with rank-0 operands as splats.
def ElementwiseTrait : NativeOpTrait<"Elementwise"> {
  let cppNamespace = "::sojourn";
}

class SojournOp<string mnemonic, list<Trait> traits = []> : Op<SojournDialect, mnemonic, traits>;

/// What an op with a rule for rows declares in its class, and defines beside its family: so a new rule compiles the
/// families again and nothing that uses them.
class RowRule<string rule> {
  string declaration = "void inferRows(::llvm::ArrayRef<::sojourn::rows::Fact> operands, " #
                       "::sojourn::rows::Analysis &analysis, " #
                       "::llvm::MutableArrayRef<::sojourn::rows::Fact> results);\n";
  string definition = "void $cppClass::inferRows(::llvm::ArrayRef<::sojourn::rows::Fact> operands, " #
                      "::sojourn::rows::Analysis &analysis, " #
                      "::llvm::MutableArrayRef<::sojourn::rows::Fact> results) {\n  " #
                      "::sojourn::rows::" # rule # "(getOperation(), operands, analysis, results);\n}\n";
}

/// A core op: pure, total, and with its price and its rule for rows in its record.
class CoreOp<string mnemonic, list<Trait> traits = []>
    : SojournOp<mnemonic, !listconcat([CoreOpTrait, Pure, PricedOp, RowRuleOp], traits)> {
  /// Elementary operations of one run, an expression over the op's accessors and dialect/Cost.h. No default: an op
  /// without a formula does not build.
  string operations = ?;
  /// Bytes that live during the op alone.
  string scratch = "0";
  /// The rule of dialect/rows/Rules.h for what it does with rows. No default either.
  string rows = ?;
  let extraClassDeclaration = "uint64_t getOperations() { return " # operations #
                              "; }\nuint64_t getScratchBytes() { return " # scratch # "; }\n" #
                              RowRule<rows>.declaration;
  let extraClassDefinition = RowRule<rows>.definition;
}

/// A core op whose result types follow from its operands and attributes (dialect/*.cpp: inferReturnTypes).
class InferredCoreOp<string mnemonic, list<Trait> traits = []>
    : CoreOp<mnemonic, !listconcat([InferTypeOpAdaptor], traits)>;

#endif // SOJOURN_DIALECT_TD
