// SPDX-License-Identifier: Apache-2.0
// A table that everyone may read: its rows are public, whoever names them; read at private row numbers they follow them.
// RUN: sojourn-opt %s -split-input-file --sojourn-rows="bounds=a=0:1,p=0:1,k=20:30,v=1:3 open-tables=1" --verify-diagnostics=only-expected

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

// -----

// Numbers of a private column whose bounds leave 0 out, as postcodes: what the open table says of them lies within its own
// bounds all the same, and so does what one row moves.
func.func @step(%t: !sojourn.table<8, "k": i64>, %open: !sojourn.table<200, "v": f64>) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  // expected-remark@below {{per row: draw 0, 8 slots, stride 1, rows in [20, 30], in [0, 30]}}
  %k = sojourn.read_rows %t, %i, columns = ["k"] : !sojourn.table<8, "k": i64>, tensor<8xi64> -> tensor<8xi64>
  // expected-remark-re@below {{per row: draw 0, 8 slots, stride 1, in [0, 3]{{$}}}}
  %v = sojourn.read_rows %open, %k, columns = ["v"] : !sojourn.table<200, "v": f64>, tensor<8xi64> -> tensor<8xf64>
  // expected-remark-re@below {{sum over rows: cuts 0, one row moves it by 3, in [0, 24]{{$}}}}
  %s = sojourn.reduce_sum %v, dims = [0] : tensor<8xf64>
  return
}

// -----

// An open table read at a draw of the owner: which row stands where is secret, and no account pays. Beside it a draw at
// which a private table is read.
func.func @step(%seed: tensor<i64>, %open: !sojourn.table<9, "a": f64>, %t: !sojourn.table<9, "p": f64>) {
  %i = sojourn.iota dim = 0 : tensor<4xi64>
  %d = sojourn.sample_rows %i, %seed, %seed of %open, expected = 2 : tensor<4xi64>, tensor<i64>, tensor<i64>, !sojourn.table<9, "a": f64> -> tensor<4xi64>
  %e = sojourn.sample_rows %i, %seed, %seed of %t, expected = 2 : tensor<4xi64>, tensor<i64>, tensor<i64>, !sojourn.table<9, "p": f64> -> tensor<4xi64>
  // expected-remark-re@below {{per row: draw 0, 4 slots, stride 1, in [0, 1], secret of draws 0, not paid by draws 0{{$}}}}
  %x = sojourn.read_rows %open, %d, columns = ["a"] : !sojourn.table<9, "a": f64>, tensor<4xi64> -> tensor<4xf64>
  // expected-remark-re@below {{per row: draw 1, 4 slots, stride 1, in [0, 1], secret of draws 1{{$}}}}
  %y = sojourn.read_rows %open, %e, columns = ["a"] : !sojourn.table<9, "a": f64>, tensor<4xi64> -> tensor<4xf64>
  %p = sojourn.read_rows %t, %e, columns = ["p"] : !sojourn.table<9, "p": f64>, tensor<4xi64> -> tensor<4xf64>
  %s = sojourn.reduce_sum %x, dims = [0] : tensor<4xf64>
  %u = sojourn.reduce_sum %y, dims = [0] : tensor<4xf64>
  // expected-remark@below {{sum over rows: cuts 0, 1, one row moves it by 2, in [0, 8], secret of draws 0, 1, not paid by draws 0}}
  %both = sojourn.add %s, %u : tensor<f64>, tensor<f64>
  return
}
