// SPDX-License-Identifier: Apache-2.0
// Core ops on datasets: which rows, and the only way to them.
#ifndef SOJOURN_ROW_OPS_TD
#define SOJOURN_ROW_OPS_TD

include "dialect/Types.td"

def SampleRowsOp : InferredCoreOp<"sample_rows"> {
  let summary = "row numbers at positions of an epoch's random order";
  let description = [{
    Position by position: an element p of `positions` outside [0, n) gives -1, so -1 stays -1 and absence survives
    composition; any other gives order(p). The order of an epoch is a bijection of [0, n): **the rows of an epoch are
    distinct**, and positions 0 .. n - 1 give each row once. Each element costs its own few draws; nothing is stored,
    whatever the number of rows. n is the number of rows of `table` when the step runs: programs do not contain it.

    order(p) is a Feistel network over Philox4x32-10 with cycle walking:

    * bits = max(8, number of bits of n - 1), where 0 has 0 bits; left = floor(bits / 2), right = bits - left.
    * One pass over x in [0, 2^bits): L = x >> right, R = x mod 2^right. In round r = 0 .. 5, w is word 0 of
      Philox4x32-10 with key = (seed low, seed high) and counter = (R + r * 2^20 + (n >> 32) * 2^23, n mod 2^32,
      epoch low, epoch high xor 0x534A524F), each a word of 32 bits; then (L, R) becomes (R, L xor (w mod 2^l)), where l
      is the width of L: `left` in even rounds, `right` in odd ones. After the six rounds x = L * 2^right + R.
    * Start with x = p and repeat the pass until x < n: that x is order(p).

    A part of a table is a list of splits, from the table down: the fraction f of each split, and its side. For m rows
    the `first` side has the first floor(f * m + 0.5) positions of an order of these rows, product and sum each rounded
    to f64, and the `other` side the rest.

    * `part`: n is the number of rows of that part, and the order is an order of these rows: a batch of the part.
    * `split`: the order is that of the last split itself. Positions count within its side, so n is the side's number of
      rows. The start of the side is added to each position, and order(start + p) is a row of the split table, or of the
      part above it.

    A batch of a part of a split is one op after another: the inner one draws positions within the part, the outer one
    finds the part's rows in the table.

    With `expected` the op is a draw by the table's owner: on a private table each of the n rows is drawn with
    probability expected / n, independently and by secret coins, whatever the positions and the seed. Positions then
    only give the number of slots. On other tables the attribute has no effect. It cannot be combined with `split`.

    Before promotion seed and epoch may be `!sojourn.scalar<i64>`.

    Example:

    ```mlir
    %i = sojourn.sample_rows %positions, %seed, %epoch of %table, part = [first 8.000000e-01]
      : tensor<64xi64>, tensor<i64>, tensor<i64>, !sojourn.table<?, "age" : f64> -> tensor<64xi64>
    %j = sojourn.sample_rows %i, %split, %never of %table, split = [first 8.000000e-01]
      : tensor<64xi64>, tensor<i64>, tensor<i64>, !sojourn.table<?, "age" : f64> -> tensor<64xi64>
    ```
  }];
  let arguments = (ins PositionTensor:$positions, I64Number:$seed, I64Number:$epoch, Sojourn_Table:$table,
                       DenseF64ArrayAttr:$fractions, DenseI64ArrayAttr:$sides, BoolAttr:$split,
                       OptionalAttr<IntAttr>:$expected);
  let results = (outs PositionTensor:$result);
  let operations = "cost::times({256, cost::elements(getResult())})";
  let rows = "sampleRows";
  let assemblyFormat = [{
    $positions `,` $seed `,` $epoch `of` $table `` custom<Draw>($fractions, $sides, $split, $expected) attr-dict
    `:` type($positions) `,` type($seed) `,` type($epoch) `,` qualified(type($table)) `->` type($result)
  }];
  let hasVerifier = 1;
  let builders = [
    OpBuilder<(ins "::mlir::Type":$result, "::mlir::Value":$positions, "::mlir::Value":$seed, "::mlir::Value":$epoch,
                   "::mlir::Value":$table, "::llvm::ArrayRef<::sojourn::Side>":$part, "bool":$isSplit,
                   "std::optional<int64_t>":$expected)>
  ];
}

def ReadRowsOp : CoreOp<"read_rows"> {
  let summary = "columns of a table at row numbers";
  let description = [{
    Row b of the result is row `indices[b]` of the table, converted to the result's element type as `convert` does. A
    row number outside [0, rows) gives zeros. Columns of one shape are read:

    * plain numbers: the result is [B, F], and element [b, f] comes from column `columns[f]`; for exactly one name it
      may also be [B];
    * one shaped column with entries of sizes S: the result is [B, *S].

    A list with a shaped column and any other column is refused.

    Example:

    ```mlir
    %x = sojourn.read_rows %table, %i, columns = ["age"]
      : !sojourn.table<?, "age" : f64, "image" : 28x28xui8>, tensor<64xi64> -> tensor<64x1xf32>
    %y = sojourn.read_rows %table, %i, columns = ["image"]
      : !sojourn.table<?, "age" : f64, "image" : 28x28xui8>, tensor<64xi64> -> tensor<64x28x28xui8>
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
