// SPDX-License-Identifier: Apache-2.0
// A table that everyone may read: its rows are public, whoever names them; read at private row numbers they follow them.
// RUN: sojourn-opt %s -split-input-file --sojourn-rows="bounds=a=0:1,p=0:1 open-tables=1" --verify-diagnostics=only-expected

func.func @step(%i: tensor<4xi64>, %open: !sojourn.table<9, "a": f64>, %t: !sojourn.table<9, "p": i64>) {
  // expected-remark@below {{public, in [0, 1]}}
  %x = sojourn.read_rows %open, %i, columns = ["a"] : !sojourn.table<9, "a": f64>, tensor<4xi64> -> tensor<4xf64>
  %j = sojourn.iota dim = 0 : tensor<9xi64>
  %p = sojourn.read_rows %t, %j, columns = ["p"] : !sojourn.table<9, "p": i64>, tensor<9xi64> -> tensor<9xi64>
  // A private row says which row of the open table: per row.
  // expected-remark@below {{per row: draw 0, 9 slots, stride 1, in [0, 1]}}
  %y = sojourn.read_rows %open, %p, columns = ["a"] : !sojourn.table<9, "a": f64>, tensor<9xi64> -> tensor<9xf64>
  %sum = sojourn.reduce_sum %p, dims = [0] : tensor<9xi64>
  %k = sojourn.reshape %sum : tensor<i64> -> tensor<1xi64>
  // expected-remark@below {{derived from sums over rows: cuts 0, in [0, 1]}}
  %z = sojourn.read_rows %open, %k, columns = ["a"] : !sojourn.table<9, "a": f64>, tensor<1xi64> -> tensor<1xf64>
  return
}

// -----

// One row of an open table, and one twice: nothing to hide.
func.func @step(%i: tensor<1xi64>, %open: !sojourn.table<9, "a": f64>) {
  // expected-remark@below {{public}}
  %x = sojourn.read_rows %open, %i, columns = ["a"] : !sojourn.table<9, "a": f64>, tensor<1xi64> -> tensor<1xf64>
  return
}
