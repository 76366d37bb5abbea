// SPDX-License-Identifier: Apache-2.0
// What rounding may add to a sum of many rows. Of numbers between 0 and 1 a row moves the sum by 1, 262144 units of its
// grid here. Adding up 2^20 of them in f64 errs by less than 2^-12 of that at each neighbour, which is 128 units, and one
// more is that of the grid. A row that is clipped may hold terms that cancel, and pays 2^10 times as much.
// RUN: sojourn-opt %s --split-input-file --verify-diagnostics --sojourn-make-private="bounds=a=0:1" -o /dev/null

module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
// expected-remark@below {{slots: 13 values have two equal readings}}
// expected-remark@below {{draw 0: 1048576 rows, 1 releases}}
func.func @step(%t: !sojourn.table<1048576, "a" : f64> {sojourn.kind = "table"}) -> (tensor<f64> {sojourn.result = "publish"}) {
  %i = sojourn.iota dim = 0 : tensor<1048576xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<1048576, "a" : f64>, tensor<1048576xi64> -> tensor<1048576xf64>
  // expected-remark@below {{sensitivity 262273.06 and noise}}
  %s = sojourn.reduce_sum %x, dims = [0] : tensor<1048576xf64>
  return %s : tensor<f64>
}
}
