// SPDX-License-Identifier: Apache-2.0
// Reads and writes at computed places: embeddings, gathers and scatters, and which rows they would let meet.
// RUN: sojourn-opt %s -split-input-file --sojourn-rows="bounds=*=-1:3" --verify-diagnostics=only-expected

// An embedding reads a public table at private places; places within a row that everyone knows; never rows by number,
// nor rows by rows.
func.func @step(%w: tensor<9x5xf64>, %p: tensor<2xi64>, %q: tensor<2x2xi64>, %t: !sojourn.table<4, "ids": 6xi64, "x": 6x3xf64>) {
  %i = sojourn.iota dim = 0 : tensor<4xi64>
  %ids = sojourn.read_rows %t, %i, columns = ["ids"] : !sojourn.table<4, "ids": 6xi64, "x": 6x3xf64>, tensor<4xi64> -> tensor<4x6xi64>
  %x = sojourn.read_rows %t, %i, columns = ["x"] : !sojourn.table<4, "ids": 6xi64, "x": 6x3xf64>, tensor<4xi64> -> tensor<4x6x3xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 30}}
  %e = sojourn.take %w, %ids, dim = 0 : tensor<9x5xf64>, tensor<4x6xi64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 6, in [-1, 3]}}
  %some = sojourn.take %x, %p, dim = 1 : tensor<4x6x3xf64>, tensor<2xi64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 12, in [-1, 3]}}
  %last = sojourn.take %x, %p, dim = 2 : tensor<4x6x3xf64>, tensor<2xi64>
  // Before the rows' dim: two dims more before it.
  %turned = sojourn.transpose %x, perm = [1, 0, 2] : tensor<4x6x3xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 3, in [-1, 3]}}
  %front = sojourn.take %turned, %q, dim = 0 : tensor<6x4x3xf64>, tensor<2x2xi64>
  // expected-remark@below {{mixed: takes rows of the batch by number: the slot of each row is lost}}
  %rows = sojourn.take %x, %p, dim = 0 : tensor<4x6x3xf64>, tensor<2xi64>
  // expected-remark@below {{mixed: chooses rows by values of rows}}
  %by = sojourn.take %x, %ids, dim = 1 : tensor<4x6x3xf64>, tensor<4x6xi64>
  %s = sojourn.reduce_sum %x, dims = [0] : tensor<4x6x3xf64>
  // expected-remark@below {{sum over rows: cuts 0}}
  %st = sojourn.take %s, %p, dim = 0 : tensor<6x3xf64>, tensor<2xi64>
  // expected-remark@below {{mixed: per-row values meet a value that was summed over rows}}
  %sr = sojourn.take %s, %ids, dim = 0 : tensor<6x3xf64>, tensor<4x6xi64>
  %odd = sojourn.reshape %x : tensor<4x6x3xf64> -> tensor<9x8xf64>
  // expected-remark@below {{mixed: rows are spread over several dims of an operand}}
  %str = sojourn.take %odd, %p, dim = 1 : tensor<9x8xf64>, tensor<2xi64>
  return
}

// -----

// Each row at its own places (the label's logit); along rows it would read its neighbours.
func.func @step(%w: tensor<4x6x3xf64>, %p: tensor<6x1xi64>, %t: !sojourn.table<4, "ids": 6xi64, "x": 6x3xf64>) {
  %i = sojourn.iota dim = 0 : tensor<4xi64>
  %ids = sojourn.read_rows %t, %i, columns = ["ids"] : !sojourn.table<4, "ids": 6xi64, "x": 6x3xf64>, tensor<4xi64> -> tensor<4x6xi64>
  %x = sojourn.read_rows %t, %i, columns = ["x"] : !sojourn.table<4, "ids": 6xi64, "x": 6x3xf64>, tensor<4xi64> -> tensor<4x6x3xf64>
  %one = sojourn.reshape %ids : tensor<4x6xi64> -> tensor<4x6x1xi64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 6, in [-1, 3]}}
  %y = sojourn.take_along %x, %one, dim = 2 : tensor<4x6x3xf64>, tensor<4x6x1xi64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 6}}
  %public = sojourn.take_along %w, %one, dim = 2 : tensor<4x6x3xf64>, tensor<4x6x1xi64>
  %flat = sojourn.reshape %x : tensor<4x6x3xf64> -> tensor<4x18xf64>
  %turned = sojourn.transpose %flat, perm = [1, 0] : tensor<4x18xf64>
  %idt = sojourn.transpose %ids, perm = [1, 0] : tensor<4x6xi64>
  %six = sojourn.slice %flat, start = [0, 0], limit = [4, 6], stride = [1, 1] : tensor<4x18xf64>
  // expected-remark@below {{mixed: reads or writes along rows}}
  %z = sojourn.take_along %six, %ids, dim = 0 : tensor<4x6xf64>, tensor<4x6xi64>
  %s = sojourn.reduce_sum %x, dims = [0] : tensor<4x6x3xf64>
  // expected-remark@below {{sum over rows: cuts 0}}
  %st = sojourn.take_along %s, %p, dim = 1 : tensor<6x3xf64>, tensor<6x1xi64>
  %wide = sojourn.broadcast %s, dims = [1, 2] : tensor<6x3xf64> -> tensor<4x6x3xf64>
  // expected-remark@below {{mixed: per-row values meet a value that was summed over rows}}
  %sr = sojourn.take_along %wide, %one, dim = 2 : tensor<4x6x3xf64>, tensor<4x6x1xi64>
  return
}

// -----

// An embedding's gradient adds rows at their own places onto zeros: a cut. At worst all 6 terms of a row go to one place:
// 6 * 3 in each of 3 columns, 18 sqrt 3 = 31.1769, 54 in all. Onto something else, or by another way than adding, rows meet.
func.func @step(%places: tensor<4x6xi64>, %ones: tensor<4x6x3xf64>, %w: tensor<9x3xf64>, %t: !sojourn.table<4, "ids": 6xi64, "x": 6x3xf64>) {
  %i = sojourn.iota dim = 0 : tensor<4xi64>
  %ids = sojourn.read_rows %t, %i, columns = ["ids"] : !sojourn.table<4, "ids": 6xi64, "x": 6x3xf64>, tensor<4xi64> -> tensor<4x6xi64>
  %x = sojourn.read_rows %t, %i, columns = ["x"] : !sojourn.table<4, "ids": 6xi64, "x": 6x3xf64>, tensor<4xi64> -> tensor<4x6x3xf64>
  %zero = sojourn.constant 0.0 : f64
  %zeros = sojourn.broadcast %zero, dims = [] : tensor<f64> -> tensor<9x3xf64>
  // expected-remark@below {{sum over rows: cuts 0, one row moves it by 31.1769 (sum 54, largest 18)}}
  %g = sojourn.put "add" %zeros, %ids, %x, dim = 0 : tensor<9x3xf64>, tensor<4x6xi64>, tensor<4x6x3xf64>
  // Public places for private rows, private places for public numbers (a histogram).
  // expected-remark@below {{sum over rows: cuts 1}}
  %h = sojourn.put "add" %zeros, %places, %x, dim = 0 : tensor<9x3xf64>, tensor<4x6xi64>, tensor<4x6x3xf64>
  // expected-remark@below {{sum over rows: cuts 2}}
  %c = sojourn.put "add" %zeros, %ids, %ones, dim = 0 : tensor<9x3xf64>, tensor<4x6xi64>, tensor<4x6x3xf64>
  // expected-remark@below {{mixed: adds rows onto values other than zeros}}
  %o = sojourn.put "add" %w, %ids, %x, dim = 0 : tensor<9x3xf64>, tensor<4x6xi64>, tensor<4x6x3xf64>
  // expected-remark@below {{mixed: rows overwrite each other}}
  %set = sojourn.put "set" %zeros, %ids, %x, dim = 0 : tensor<9x3xf64>, tensor<4x6xi64>, tensor<4x6x3xf64>
  // expected-remark@below {{mixed: rows overwrite each other}}
  %max = sojourn.put "max" %zeros, %ids, %x, dim = 0 : tensor<9x3xf64>, tensor<4x6xi64>, tensor<4x6x3xf64>
  %back = sojourn.transpose %ids, perm = [1, 0] : tensor<4x6xi64>
  %turned = sojourn.reshape %back : tensor<6x4xi64> -> tensor<4x6xi64>
  // expected-remark@below {{mixed: }}
  %other = sojourn.put "add" %zeros, %turned, %x, dim = 0 : tensor<9x3xf64>, tensor<4x6xi64>, tensor<4x6x3xf64>
  return
}

// -----

// Writes within rows at places that everyone knows; over rows by number; sums at public places.
func.func @step(%p: tensor<2xi64>, %q: tensor<6xi64>, %u: tensor<4x2x3xf64>, %v: tensor<2x6x3xf64>, %t: !sojourn.table<4, "ids": 6xi64, "x": 6x3xf64>) {
  %i = sojourn.iota dim = 0 : tensor<4xi64>
  %ids = sojourn.read_rows %t, %i, columns = ["ids"] : !sojourn.table<4, "ids": 6xi64, "x": 6x3xf64>, tensor<4xi64> -> tensor<4x6xi64>
  %x = sojourn.read_rows %t, %i, columns = ["x"] : !sojourn.table<4, "ids": 6xi64, "x": 6x3xf64>, tensor<4xi64> -> tensor<4x6x3xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 18}}
  %y = sojourn.put "set" %x, %p, %u, dim = 1 : tensor<4x6x3xf64>, tensor<2xi64>, tensor<4x2x3xf64>
  // expected-remark@below {{mixed: writes rows of the batch by number}}
  %z = sojourn.put "set" %x, %p, %v, dim = 0 : tensor<4x6x3xf64>, tensor<2xi64>, tensor<2x6x3xf64>
  %s = sojourn.reduce_sum %x, dims = [0] : tensor<4x6x3xf64>
  %zero = sojourn.constant 0.0 : f64
  %zeros = sojourn.broadcast %zero, dims = [] : tensor<f64> -> tensor<9x3xf64>
  // expected-remark@below {{sum over rows: cuts 0}}
  %st = sojourn.put "add" %zeros, %q, %s, dim = 0 : tensor<9x3xf64>, tensor<6xi64>, tensor<6x3xf64>
  // expected-remark@below {{derived from sums over rows: cuts 0}}
  %sd = sojourn.put "set" %zeros, %q, %s, dim = 0 : tensor<9x3xf64>, tensor<6xi64>, tensor<6x3xf64>
  %wide = sojourn.broadcast %s, dims = [1, 2] : tensor<6x3xf64> -> tensor<4x6x3xf64>
  // expected-remark@below {{mixed: per-row values meet a value that was summed over rows}}
  %m = sojourn.put "add" %zeros, %ids, %wide, dim = 0 : tensor<9x3xf64>, tensor<4x6xi64>, tensor<4x6x3xf64>
  return
}

// -----

// One-hot labels, by writing ones: each row at its own place.
func.func @step(%w: tensor<4x6x3xf64>, %u: tensor<4x6x1xf64>, %t: !sojourn.table<4, "ids": 6xi64, "x": 6x3xf64>) {
  %i = sojourn.iota dim = 0 : tensor<4xi64>
  %ids = sojourn.read_rows %t, %i, columns = ["ids"] : !sojourn.table<4, "ids": 6xi64, "x": 6x3xf64>, tensor<4xi64> -> tensor<4x6xi64>
  %x = sojourn.read_rows %t, %i, columns = ["x"] : !sojourn.table<4, "ids": 6xi64, "x": 6x3xf64>, tensor<4xi64> -> tensor<4x6x3xf64>
  %one = sojourn.reshape %ids : tensor<4x6xi64> -> tensor<4x6x1xi64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 18}}
  %y = sojourn.put_along "set" %w, %one, %u, dim = 2 : tensor<4x6x3xf64>, tensor<4x6x1xi64>, tensor<4x6x1xf64>
  %flat = sojourn.reshape %x : tensor<4x6x3xf64> -> tensor<4x18xf64>
  %six = sojourn.slice %flat, start = [0, 0], limit = [4, 6], stride = [1, 1] : tensor<4x18xf64>
  // expected-remark@below {{mixed: reads or writes along rows}}
  %z = sojourn.put_along "set" %six, %ids, %six, dim = 0 : tensor<4x6xf64>, tensor<4x6xi64>, tensor<4x6xf64>
  return
}

// -----

// As many tokens as rows: places [row, token] for updates [token, row] would write a row's number where another row says.
func.func @step(%t: !sojourn.table<4, "ids": 4xi64, "x": 4xf64>) {
  %i = sojourn.iota dim = 0 : tensor<4xi64>
  %ids = sojourn.read_rows %t, %i, columns = ["ids"] : !sojourn.table<4, "ids": 4xi64, "x": 4xf64>, tensor<4xi64> -> tensor<4x4xi64>
  %x = sojourn.read_rows %t, %i, columns = ["x"] : !sojourn.table<4, "ids": 4xi64, "x": 4xf64>, tensor<4xi64> -> tensor<4x4xf64>
  %zero = sojourn.constant 0.0 : f64
  %zeros = sojourn.broadcast %zero, dims = [] : tensor<f64> -> tensor<9xf64>
  // expected-remark@below {{sum over rows: cuts 0}}
  %own = sojourn.put "add" %zeros, %ids, %x, dim = 0 : tensor<9xf64>, tensor<4x4xi64>, tensor<4x4xf64>
  %turned = sojourn.transpose %x, perm = [1, 0] : tensor<4x4xf64>
  // expected-remark@below {{mixed: operands have their rows in different places}}
  %others = sojourn.put "add" %zeros, %ids, %turned, dim = 0 : tensor<9xf64>, tensor<4x4xi64>, tensor<4x4xf64>
  return
}
