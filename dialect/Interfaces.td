// SPDX-License-Identifier: Apache-2.0
// What every core op can be asked: what one run of it costs at most, from types and attributes alone.
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

#endif // SOJOURN_INTERFACES_TD
