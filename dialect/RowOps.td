// SPDX-License-Identifier: Apache-2.0
// Core ops on datasets: which rows, and the only way to them.
#ifndef SOJOURN_ROW_OPS_TD
#define SOJOURN_ROW_OPS_TD

include "dialect/Types.td"

def SampleRowsOp : CoreOp<"sample_rows"> {
  let summary = "a batch of row numbers out of an epoch's random order";
  let description = [{
    Row i of [0, rows) gets the 64-bit key word 0 + 2^32 word 1 of Philox4x32-10 with key = seed and counter =
    (i low, i high, epoch low, epoch high xor 0x534A524F). The epoch's order is the stable ascending sort of the rows
    by key; element b of the result is order[start + b], or -1 where that is outside [0, rows).

    Before promotion seed, epoch and start may be `!sojourn.scalar<i64>`.

    Example:

    ```mlir
    %i = sojourn.sample_rows %seed, %epoch, %start, rows = 569
      : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<64xi64>
    ```
  }];
  let arguments = (ins I64Number:$seed, I64Number:$epoch, I64Number:$start, IntAttr:$rows);
  let results = (outs PositionTensor:$result);
  let operations = "cost::times({64, cost::elements(getResult())})";
  let assemblyFormat = [{
    $seed `,` $epoch `,` $start `,` `rows` `=` $rows attr-dict `:`
    functional-type(operands, $result)
  }];
  let hasVerifier = 1;
}

def ReadRowsOp : CoreOp<"read_rows"> {
  let summary = "columns of a table at row numbers";
  let description = [{
    Element [b, f] is column `columns[f]` at row `indices[b]`, converted to the result's element type as `convert`
    does. A row number outside [0, rows) gives a row of zeros.

    Example:

    ```mlir
    %x = sojourn.read_rows %table, %i, columns = ["age"]
      : !sojourn.table<569, "age" : f64, "y" : i64>, tensor<64xi64> -> tensor<64x1xf32>
    ```
  }];
  let arguments = (ins Sojourn_Table:$table, PositionTensor:$indices, StrArrayAttr:$columns);
  let results = (outs OrderedTensor:$result);
  let operations = "cost::sum({cost::elements(getIndices()), cost::elements(getResult())})";
  let assemblyFormat = [{
    $table `,` $indices `,` `columns` `=` $columns attr-dict `:` qualified(type($table)) `,` type($indices) `->`
    type($result)
  }];
  let hasVerifier = 1;
}

#endif // SOJOURN_ROW_OPS_TD
