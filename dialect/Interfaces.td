// SPDX-License-Identifier: Apache-2.0
// What every core op can be asked: what one run of it costs at most, from types and attributes alone, and what it does
// with the rows of private tables.
#ifndef SOJOURN_INTERFACES_TD
#define SOJOURN_INTERFACES_TD

include "mlir/IR/OpBase.td"

def PricedOp : OpInterface<"PricedOp"> {
  let cppNamespace = "::sojourn";
  let description = [{
    The price of one run, computed from shapes before anything is built. Both methods come from the formulas in the op's
    record (`operations` and `scratch` of the class `CoreOp`), have no default, and saturate at 2^64 - 1.
  }];
  let methods = [
    InterfaceMethod<"Elementary operations: elements computed, combined or moved.", "uint64_t", "getOperations">,
    InterfaceMethod<"Bytes of memory that lives during the op alone.", "uint64_t", "getScratchBytes">
  ];
}

def RowRuleOp : OpInterface<"RowRuleOp"> {
  let cppNamespace = "::sojourn";
  let description = [{
    The effect of the op on the rows of private tables (dialect/rows/Rules.h): the rule that its record names in `rows`.
    An op without this interface counts as letting rows interact.
  }];
  let methods = [
    InterfaceMethod<"Facts of the results from those of the operands.", "void", "inferRows",
                    (ins "::llvm::ArrayRef<::sojourn::rows::Fact>":$operands, "::sojourn::rows::Analysis &":$analysis,
                         "::llvm::MutableArrayRef<::sojourn::rows::Fact>":$results)>
  ];
}

#endif // SOJOURN_INTERFACES_TD
