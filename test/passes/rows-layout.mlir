// SPDX-License-Identifier: Apache-2.0
// Ops that move elements: slots follow their dim; sums stay sums, for leaving out and repeating is linear.
// RUN: sojourn-opt %s -split-input-file --sojourn-rows="bounds=*=-1:3" --verify-diagnostics=only-expected

// Reshaping changes no position: rows are found again while each dim holds them whole, as one of the factors of a dim,
// and are lost for the next op once they straddle dims.
func.func @step(%t: !sojourn.table<4, "image": 6x3xf64, "k": i64>) {
  %i = sojourn.iota dim = 0 : tensor<4xi64>
  %x = sojourn.read_rows %t, %i, columns = ["image"] : !sojourn.table<4, "image": 6x3xf64, "k": i64>, tensor<4xi64> -> tensor<4x6x3xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 18, in [-1, 3]}}
  %flat = sojourn.reshape %x : tensor<4x6x3xf64> -> tensor<24x3xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 6, in [-1, 3]}}
  %y = sojourn.transpose %flat, perm = [1, 0] : tensor<24x3xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 18, in [-1, 3]}}
  %all = sojourn.reshape %x : tensor<4x6x3xf64> -> tensor<72xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 18, in [-1, 3]}}
  %odd = sojourn.reshape %all : tensor<72xf64> -> tensor<9x8xf64>
  // expected-remark@below {{mixed: rows are spread over several dims of an operand}}
  %bad = sojourn.transpose %odd, perm = [1, 0] : tensor<9x8xf64>
  // Position by position it still does no harm.
  // expected-remark@below {{per row: draw 0, 4 slots, stride 18, in [-3, 1]}}
  %fine = sojourn.neg %odd : tensor<9x8xf64>
  return
}

// -----

// The rows' dim goes where the permutation puts it.
func.func @step(%t: !sojourn.table<4, "image": 6x3xf64, "k": i64>) {
  %i = sojourn.iota dim = 0 : tensor<4xi64>
  %x = sojourn.read_rows %t, %i, columns = ["image"] : !sojourn.table<4, "image": 6x3xf64, "k": i64>, tensor<4xi64> -> tensor<4x6x3xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 3, in [-1, 3]}}
  %y = sojourn.transpose %x, perm = [1, 0, 2] : tensor<4x6x3xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 1, in [-1, 3]}}
  %z = sojourn.transpose %x, perm = [2, 1, 0] : tensor<4x6x3xf64>
  %s = sojourn.reduce_sum %x, dims = [0] : tensor<4x6x3xf64>
  // expected-remark@below {{sum over rows: cuts 0, one row moves it by 12.7279 (sum 54, largest 3), in}}
  %u = sojourn.transpose %s, perm = [1, 0] : tensor<6x3xf64>
  return
}

// -----

// Repeating: each copy is of the same row; a sum in n places moves by the root of n times as much (here
// 3 and 3 * 2; 3 * 4 in all).
func.func @step(%t: !sojourn.table<4, "image": 6x3xf64, "k": i64>) {
  %i = sojourn.iota dim = 0 : tensor<4xi64>
  %k = sojourn.read_rows %t, %i, columns = ["k"] : !sojourn.table<4, "image": 6x3xf64, "k": i64>, tensor<4xi64> -> tensor<4xi64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 2}}
  %wide = sojourn.broadcast %k, dims = [0] : tensor<4xi64> -> tensor<4x2xi64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 1}}
  %down = sojourn.broadcast %k, dims = [1] : tensor<4xi64> -> tensor<2x4xi64>
  %f = sojourn.convert %k : tensor<4xi64> -> tensor<4xf64>
  // expected-remark@below {{sum over rows: cuts 0, one row moves it by 3, in}}
  %s = sojourn.reduce_sum %f, dims = [0] : tensor<4xf64>
  // expected-remark@below {{sum over rows: cuts 0, one row moves it by 6 (sum 12, largest 3), in}}
  %four = sojourn.broadcast %s, dims = [] : tensor<f64> -> tensor<4xf64>
  return
}

// -----

// Parts of a row are per row. Some rows are fewer slots of the same draw: halves of a batch, every second row.
func.func @step(%t: !sojourn.table<4, "image": 6x3xf64, "k": i64>) {
  %i = sojourn.iota dim = 0 : tensor<4xi64>
  %x = sojourn.read_rows %t, %i, columns = ["image"] : !sojourn.table<4, "image": 6x3xf64, "k": i64>, tensor<4xi64> -> tensor<4x6x3xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 6, in [-1, 3]}}
  %part = sojourn.slice %x, start = [0, 1, 0], limit = [4, 5, 3], stride = [1, 2, 1] : tensor<4x6x3xf64>
  // expected-remark@below {{per row: draw 0, 2 slots, stride 18, from slot 2 by 1, in [-1, 3]}}
  %half = sojourn.slice %x, start = [2, 0, 0], limit = [4, 6, 3], stride = [1, 1, 1] : tensor<4x6x3xf64>
  // expected-remark@below {{per row: draw 0, 2 slots, stride 18, from slot 1 by 2, in [-1, 3]}}
  %second = sojourn.slice %x, start = [1, 0, 0], limit = [4, 6, 3], stride = [2, 1, 1] : tensor<4x6x3xf64>
  // A single row would stand alone.
  // expected-remark@below {{mixed: takes a single row out of the batch}}
  %one = sojourn.slice %x, start = [1, 0, 0], limit = [2, 6, 3], stride = [1, 1, 1] : tensor<4x6x3xf64>
  %flat = sojourn.reshape %x : tensor<4x6x3xf64> -> tensor<24x3xf64>
  // Of rows laid end to end: whole rows, one place of every row, of every second one.
  // expected-remark@below {{per row: draw 0, 2 slots, stride 18, from slot 1 by 1, in [-1, 3]}}
  %whole = sojourn.slice %flat, start = [6, 0], limit = [18, 3], stride = [1, 1] : tensor<24x3xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 3, in [-1, 3]}}
  %moment = sojourn.slice %flat, start = [5, 0], limit = [24, 3], stride = [6, 1] : tensor<24x3xf64>
  // expected-remark@below {{per row: draw 0, 2 slots, stride 3, from slot 1 by 2, in [-1, 3]}}
  %odd = sojourn.slice %flat, start = [8, 0], limit = [24, 3], stride = [12, 1] : tensor<24x3xf64>
  // expected-remark@below {{mixed: takes a part of a dim that holds rows and other elements}}
  %some = sojourn.slice %flat, start = [0, 0], limit = [10, 3], stride = [1, 1] : tensor<24x3xf64>
  // expected-remark@below {{mixed: takes a part of a dim that holds rows and other elements}}
  %other = sojourn.slice %flat, start = [0, 0], limit = [24, 3], stride = [4, 1] : tensor<24x3xf64>
  // expected-remark@below {{mixed: takes a single row out of the batch}}
  %first = sojourn.slice %flat, start = [0, 0], limit = [6, 3], stride = [1, 1] : tensor<24x3xf64>
  %s = sojourn.reduce_sum %x, dims = [0] : tensor<4x6x3xf64>
  // expected-remark@below {{sum over rows: cuts 0}}
  %u = sojourn.slice %s, start = [0, 0], limit = [1, 3], stride = [1, 1] : tensor<6x3xf64>
  return
}

// -----

// Reversal within a row; the order of rows is not turned round, since slots would no longer match.
func.func @step(%t: !sojourn.table<4, "image": 6x3xf64, "k": i64>) {
  %i = sojourn.iota dim = 0 : tensor<4xi64>
  %x = sojourn.read_rows %t, %i, columns = ["image"] : !sojourn.table<4, "image": 6x3xf64, "k": i64>, tensor<4xi64> -> tensor<4x6x3xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 18, in [-1, 3]}}
  %y = sojourn.reverse %x, dims = [1, 2] : tensor<4x6x3xf64>
  // expected-remark@below {{mixed: reverses the order of rows}}
  %z = sojourn.reverse %x, dims = [0] : tensor<4x6x3xf64>
  %s = sojourn.reduce_sum %x, dims = [0] : tensor<4x6x3xf64>
  // expected-remark@below {{sum over rows: cuts 0}}
  %u = sojourn.reverse %s, dims = [0] : tensor<6x3xf64>
  return
}

// -----

// Padding within a row, its value in the range. Slots that are no row's are none of the draw's. Padding a sum by zeros
// is linear, by ones it is not.
func.func @step(%t: !sojourn.table<4, "image": 6x3xf64, "k": i64>) {
  %i = sojourn.iota dim = 0 : tensor<4xi64>
  %x = sojourn.read_rows %t, %i, columns = ["image"] : !sojourn.table<4, "image": 6x3xf64, "k": i64>, tensor<4xi64> -> tensor<4x6x3xf64>
  %zero = sojourn.constant 0.0 : f64
  %five = sojourn.constant 5.0 : f64
  // expected-remark@below {{per row: draw 0, 4 slots, stride 24, in [-1, 5]}}
  %y = sojourn.pad %x, %five, low = [0, 1, 0], high = [0, 1, 0], interior = [0, 0, 0] : tensor<4x6x3xf64>, tensor<f64>
  // expected-remark@below {{mixed: pads the dim that holds rows}}
  %z = sojourn.pad %x, %zero, low = [0, 0, 0], high = [1, 0, 0], interior = [0, 0, 0] : tensor<4x6x3xf64>, tensor<f64>
  // expected-remark@below {{mixed: pads the dim that holds rows}}
  %w = sojourn.pad %x, %zero, low = [0, 0, 0], high = [0, 0, 0], interior = [1, 0, 0] : tensor<4x6x3xf64>, tensor<f64>
  // Elements become elements and padding of the same row.
  // expected-remark@below {{per row: draw 0, 4 slots, stride 54, in [-1, 3]}}
  %apart = sojourn.pad %x, %zero, low = [1, 0, 0], high = [1, 0, 0], interior = [2, 0, 0] : tensor<4x6x3xf64>, tensor<f64>
  // expected-remark@below {{mixed: pads the dim that holds rows}}
  %off = sojourn.pad %x, %zero, low = [3, 0, 0], high = [-1, 0, 0], interior = [2, 0, 0] : tensor<4x6x3xf64>, tensor<f64>
  %s = sojourn.reduce_sum %x, dims = [0] : tensor<4x6x3xf64>
  // expected-remark@below {{sum over rows: cuts 0}}
  %u = sojourn.pad %s, %zero, low = [0, 0], high = [1, 0], interior = [0, 0] : tensor<6x3xf64>, tensor<f64>
  // expected-remark@below {{derived from sums over rows: cuts 0}}
  %v = sojourn.pad %s, %five, low = [0, 0], high = [1, 0], interior = [0, 0] : tensor<6x3xf64>, tensor<f64>
  return
}

// -----

// Side by side within a row, with public values in between; one batch after another would make slots of two kinds.
func.func @step(%w: tensor<4x3x3xf64>, %n: tensor<3x3xf64>, %t: !sojourn.table<4, "image": 6x3xf64, "k": i64>) {
  %i = sojourn.iota dim = 0 : tensor<4xi64>
  %x = sojourn.read_rows %t, %i, columns = ["image"] : !sojourn.table<4, "image": 6x3xf64, "k": i64>, tensor<4xi64> -> tensor<4x6x3xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 27}}
  %y = sojourn.concat %x, %w dim = 1 : tensor<4x6x3xf64>, tensor<4x3x3xf64>
  // expected-remark@below {{mixed: concatenates batches of rows}}
  %z = sojourn.concat %x, %x dim = 0 : tensor<4x6x3xf64>, tensor<4x6x3xf64>
  %s = sojourn.reduce_sum %x, dims = [0] : tensor<4x6x3xf64>
  // expected-remark@below {{sum over rows: cuts 0}}
  %u = sojourn.concat %s, %s dim = 0 : tensor<6x3xf64>, tensor<6x3xf64>
  // expected-remark@below {{derived from sums over rows: cuts 0}}
  %v = sojourn.concat %s, %n dim = 0 : tensor<6x3xf64>, tensor<3x3xf64>
  return
}

// -----

// A part from where a number says: rows at the same number lie beside each other, others do not; a number that rows
// make says too much, and one of a part is not followed further.
func.func @step(%k: tensor<i64>, %l: tensor<i64>, %p: tensor<4x9x3xf64>, %t: !sojourn.table<4, "image": 6x3xf64, "k": i64>) {
  %i = sojourn.iota dim = 0 : tensor<4xi64>
  %x = sojourn.read_rows %t, %i, columns = ["image"] : !sojourn.table<4, "image": 6x3xf64, "k": i64>, tensor<4xi64> -> tensor<4x6x3xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 6}}
  %a = sojourn.dynamic_slice %x from [%k], dims = [1], sizes = [2] : tensor<4x6x3xf64>, tensor<i64>
  // expected-remark@below {{per row: draw 0, 2 slots, stride 18, of 4 from a run-time position}}
  %b = sojourn.dynamic_slice %x from [%k], dims = [0], sizes = [2] : tensor<4x6x3xf64>, tensor<i64>
  // expected-remark@below {{per row: draw 0, 2 slots, stride 18, of 4 from a run-time position}}
  %b2 = sojourn.dynamic_slice %x from [%l], dims = [0], sizes = [2] : tensor<4x6x3xf64>, tensor<i64>
  // expected-remark@below {{per row: draw 0, 2 slots, stride 18, of 4 from a run-time position}}
  %c = sojourn.mul %b, %b : tensor<2x6x3xf64>, tensor<2x6x3xf64>
  // expected-remark@below {{mixed: operands have their rows in different places}}
  %d = sojourn.mul %b, %b2 : tensor<2x6x3xf64>, tensor<2x6x3xf64>
  // expected-remark@below {{mixed: takes a single row out of the batch}}
  %e = sojourn.dynamic_slice %x from [%k], dims = [0], sizes = [1] : tensor<4x6x3xf64>, tensor<i64>
  // expected-remark@below {{mixed: takes a part of a dim that holds rows and other elements}}
  %f = sojourn.dynamic_slice %c from [%k], dims = [0], sizes = [1] : tensor<2x6x3xf64>, tensor<i64>
  // expected-remark@below {{mixed: takes a part of a dim that holds rows and other elements}}
  %g = sojourn.slice %c, start = [0, 0, 0], limit = [1, 6, 3], stride = [1, 1, 1] : tensor<2x6x3xf64>
  // A part of a part: what stands beside all slots would begin elsewhere for a number past its end.
  %p4 = sojourn.slice %x, start = [0, 0, 0], limit = [3, 6, 3], stride = [1, 1, 1] : tensor<4x6x3xf64>
  // expected-remark@below {{mixed: takes a part of a dim that holds rows and other elements, at a run-time position}}
  %p2 = sojourn.dynamic_slice %p4 from [%k], dims = [0], sizes = [2] : tensor<3x6x3xf64>, tensor<i64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 27}}
  %h = sojourn.dynamic_update_slice %p, %x from [%k], dims = [1] : tensor<4x9x3xf64>, tensor<4x6x3xf64>, tensor<i64>
  %m = sojourn.read_rows %t, %i, columns = ["k"] : !sojourn.table<4, "image": 6x3xf64, "k": i64>, tensor<4xi64> -> tensor<4xi64>
  // expected-remark@below {{sum over rows: cuts 0}}
  %n = sojourn.reduce_sum %m, dims = [0] : tensor<4xi64>
  // expected-remark@below {{mixed: per-row values meet a value that was summed over rows}}
  %o = sojourn.dynamic_slice %x from [%n], dims = [1], sizes = [2] : tensor<4x6x3xf64>, tensor<i64>
  // expected-remark@below {{mixed: operands have their rows in different places}}
  %q = sojourn.dynamic_update_slice %x, %b from [%k], dims = [0] : tensor<4x6x3xf64>, tensor<2x6x3xf64>, tensor<i64>
  return
}

// -----

// Writing a part of each row; writing some rows is refused, and a sum does not go into a row.
func.func @step(%w: tensor<4x3x3xf64>, %p: tensor<4x9x3xf64>, %q: tensor<2x6x3xf64>, %p3: tensor<6x3xf64>, %t: !sojourn.table<4, "image": 6x3xf64, "k": i64>) {
  %i = sojourn.iota dim = 0 : tensor<4xi64>
  %x = sojourn.read_rows %t, %i, columns = ["image"] : !sojourn.table<4, "image": 6x3xf64, "k": i64>, tensor<4xi64> -> tensor<4x6x3xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 18}}
  %y = sojourn.update_slice %x, %w, start = [0, 1, 0], stride = [1, 1, 1] : tensor<4x6x3xf64>, tensor<4x3x3xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 27}}
  %y2 = sojourn.update_slice %p, %x, start = [0, 1, 0], stride = [1, 1, 1] : tensor<4x9x3xf64>, tensor<4x6x3xf64>
  // expected-remark@below {{mixed: writes a part of the dim that holds rows}}
  %z = sojourn.update_slice %x, %q, start = [1, 0, 0], stride = [1, 1, 1] : tensor<4x6x3xf64>, tensor<2x6x3xf64>
  %s = sojourn.reduce_sum %x, dims = [0] : tensor<4x6x3xf64>
  %b = sojourn.broadcast %s, dims = [1, 2] : tensor<6x3xf64> -> tensor<4x6x3xf64>
  // expected-remark@below {{mixed: per-row values meet a value that was summed over rows}}
  %v = sojourn.update_slice %x, %b, start = [0, 0, 0], stride = [1, 1, 1] : tensor<4x6x3xf64>, tensor<4x6x3xf64>
  // expected-remark@below {{derived from sums over rows: cuts 0}}
  %u = sojourn.update_slice %p3, %s, start = [0, 0], stride = [1, 1] : tensor<6x3xf64>, tensor<6x3xf64>
  return
}

// -----

// A part of the draw is put next to the whole: elements of one place are of other rows.
func.func @step(%t: !sojourn.table<4, "image": 6x3xf64, "k": i64>) {
  %i = sojourn.iota dim = 0 : tensor<4xi64>
  %x = sojourn.read_rows %t, %i, columns = ["image"] : !sojourn.table<4, "image": 6x3xf64, "k": i64>, tensor<4xi64> -> tensor<4x6x3xf64>
  %first = sojourn.slice %x, start = [0, 0, 0], limit = [2, 6, 3], stride = [1, 1, 1] : tensor<4x6x3xf64>
  %last = sojourn.slice %x, start = [2, 0, 0], limit = [4, 6, 3], stride = [1, 1, 1] : tensor<4x6x3xf64>
  // expected-remark@below {{mixed: operands have their rows in different places}}
  %z = sojourn.concat %first, %last dim = 1 : tensor<2x6x3xf64>, tensor<2x6x3xf64>
  return
}

// -----

// A part of a part counts in the slots of the draw: the last two of the rows 1, 3, 5, 7 are the rows 5 and 7, every second
// one of them stands at 1 and 5.
func.func @step(%t: !sojourn.table<8, "k": i64>) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %k = sojourn.read_rows %t, %i, columns = ["k"] : !sojourn.table<8, "k": i64>, tensor<8xi64> -> tensor<8xi64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 1, from slot 1 by 2, in [-1, 3]}}
  %odd = sojourn.slice %k, start = [1], limit = [8], stride = [2] : tensor<8xi64>
  // expected-remark@below {{per row: draw 0, 2 slots, stride 1, from slot 5 by 2, in [-1, 3]}}
  %last = sojourn.slice %odd, start = [2], limit = [4], stride = [1] : tensor<4xi64>
  // expected-remark@below {{per row: draw 0, 2 slots, stride 1, from slot 1 by 4, in [-1, 3]}}
  %second = sojourn.slice %odd, start = [0], limit = [4], stride = [2] : tensor<4xi64>
  return
}
