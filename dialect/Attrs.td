// SPDX-License-Identifier: Apache-2.0
// Attributes of captured form.
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

#endif // SOJOURN_ATTRS_TD
