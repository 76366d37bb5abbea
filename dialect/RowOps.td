// SPDX-License-Identifier: Apache-2.0
// Core ops on datasets: which rows, and the only way to them.
#ifndef SOJOURN_ROW_OPS_TD
#define SOJOURN_ROW_OPS_TD

include "dialect/Types.td"

def SampleRowsOp : InferredCoreOp<"sample_rows"> {
  let summary = "row numbers at positions of an epoch's random order";
  let description = [{
    Position by position: an element p of `positions` outside [0, rows) gives -1, so that -1 stays -1 and absence
    survives composition; any other gives order(p). The order of an epoch is a bijection of [0, rows): **the rows of an
    epoch are distinct**, and positions 0 .. rows - 1 give each row once. Each element costs its own few draws; nothing
    is kept, whatever the number of rows.

    order(p) is a Feistel network over Philox4x32-10 with cycle walking:

    * bits = max(8, number of bits of rows - 1), where 0 has 0 bits; left = floor(bits / 2), right = bits - left.
    * One pass over x in [0, 2^bits): L = x >> right, R = x mod 2^right. In round r = 0 .. 5, w is word 0 of
      Philox4x32-10 with key = (seed low, seed high) and counter = (R + r * 2^20 + (rows >> 32) * 2^23, rows mod 2^32,
      epoch low, epoch high xor 0x534A524F), each a word of 32 bits; then (L, R) becomes (R, L xor (w mod 2^l)), where l
      is the width of L: `left` in even rounds, `right` in odd ones. After the six rounds x = L * 2^right + R.
    * Start with x = p and repeat the pass until x < rows: that x is order(p).

    A batch of a part of a split is one op after another: the inner one draws positions within the part, the outer one
    finds the part's rows in the table.

    With `expected` the op stands for a draw of the table's owner: on a private table each of the `rows` rows is in with
    probability expected / rows, independently and by secret coins, whatever positions and seed say; positions then
    only give the number of slots. Elsewhere the attribute changes nothing.

    Before promotion seed and epoch may be `!sojourn.scalar<i64>`.

    Example:

    ```mlir
    %i = sojourn.sample_rows %positions, %seed, %epoch, rows = 569
      : (tensor<64xi64>, tensor<i64>, tensor<i64>) -> tensor<64xi64>
    ```
  }];
  let arguments = (ins PositionTensor:$positions, I64Number:$seed, I64Number:$epoch, IntAttr:$rows,
                       OptionalAttr<IntAttr>:$expected);
  let results = (outs PositionTensor:$result);
  let operations = "cost::times({64, cost::elements(getResult())})";
  let rows = "sampleRows";
  let assemblyFormat = [{
    $positions `,` $seed `,` $epoch `,` `rows` `=` $rows (`,` `expected` `=` $expected^)? attr-dict
    `:` functional-type(operands, $result)
  }];
  let hasVerifier = 1;
}

def ReadRowsOp : CoreOp<"read_rows"> {
  let summary = "columns of a table at row numbers";
  let description = [{
    Row b of the result is row `indices[b]` of the table, converted to the result's element type as `convert` does. A
    row number outside [0, rows) gives zeros. Columns of one shape are read:

    * plain numbers: the result is [B, F], element [b, f] being column `columns[f]`; for exactly one name it may also be
      [B];
    * one shaped column with entries of sizes S: the result is [B, *S].

    A list that holds a shaped column beside another one is refused.

    Example:

    ```mlir
    %x = sojourn.read_rows %table, %i, columns = ["age"]
      : !sojourn.table<569, "age" : f64, "image" : 28x28xui8>, tensor<64xi64> -> tensor<64x1xf32>
    %y = sojourn.read_rows %table, %i, columns = ["image"]
      : !sojourn.table<569, "age" : f64, "image" : 28x28xui8>, tensor<64xi64> -> tensor<64x28x28xui8>
    ```
  }];
  let arguments = (ins Sojourn_Table:$table, PositionTensor:$indices, StrArrayAttr:$columns);
  let results = (outs OrderedTensor:$result);
  let operations = "cost::sum({cost::elements(getIndices()), cost::elements(getResult())})";
  let rows = "readRows";
  let assemblyFormat = [{
    $table `,` $indices `,` `columns` `=` $columns attr-dict `:` qualified(type($table)) `,` type($indices) `->`
    type($result)
  }];
  let hasVerifier = 1;
}

#endif // SOJOURN_ROW_OPS_TD
