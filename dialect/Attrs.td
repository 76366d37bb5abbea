// SPDX-License-Identifier: Apache-2.0
// Attributes: operands of captured calls, and where the parts of a value of several owners lie.
#ifndef SOJOURN_ATTRS_TD
#define SOJOURN_ATTRS_TD

include "dialect/Dialect.td"

def OperandAttr : AttrDef<SojournDialect, "Operand"> {
  let mnemonic = "operand";
  let summary = "reference to operand k of a `sojourn.aten`";
  let description = [{
    An entry of `args` of `sojourn.aten` for a schema argument that is a tensor or a run-time scalar:
    `#sojourn.operand<0>`.
  }];
  let parameters = (ins "int64_t":$index);
  let assemblyFormat = "`<` $index `>`";
  let genVerifyDecl = 1;
}

def PartsAttr : AttrDef<SojournDialect, "Parts"> {
  let mnemonic = "parts";
  let summary = "the rows of a value that lies in parts at several owners";
  let description = [{
    The rows of the value, one after another, are segments: `rows[i]` of them at role `roles[i]`. The element at
    position p of the row-major order belongs to row (p / stride) mod n, where n is the number of all rows. For a
    `tensor<96x30xf32>` with 12 rows at role 0 and 84 at role 1:

    ```mlir
    #sojourn.parts<roles = [0, 1], rows = [12, 84], stride = 30>
    ```
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$roles, ArrayRefParameter<"int64_t">:$rows, "int64_t":$stride);
  let assemblyFormat = "`<` `roles` `=` `[` $roles `]` `,` `rows` `=` `[` $rows `]` `,` `stride` `=` $stride `>`";
  let genVerifyDecl = 1;
}

#endif // SOJOURN_ATTRS_TD
