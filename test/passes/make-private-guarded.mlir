// SPDX-License-Identifier: Apache-2.0
// What is refused for where rows come from and where results go: row numbers, draws, states; and programs that say of
// themselves that they are private already. Each program publishes its results unless it says otherwise.
// RUN: sojourn-opt %s -split-input-file --sojourn-make-private="bounds=a=-1:3,b=-1:3,k=0:100" --verify-diagnostics=only-expected

// A value per row.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
func.func @step(%t: !sojourn.table<100, "a": f64, "b": f64, "k": i64> {sojourn.kind = "table"}) -> (tensor<8xf64> {sojourn.result = "publish"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a", "b"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8x2xf64>
  %y = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xf64>
  %k = sojourn.read_rows %t, %i, columns = ["k"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xi64>
  // expected-error@below {{a value per row of private data is published; reduce it over the rows first (mean, sum)}}
  %z = sojourn.neg %y : tensor<8xf64>
  return %z : tensor<8xf64>
}
}

// -----

// A whole column, read and sent.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
func.func @step(%t: !sojourn.table<100, "a": f64, "b": f64, "k": i64> {sojourn.kind = "table"}) -> (tensor<8xf64> {sojourn.result = "publish"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a", "b"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8x2xf64>
  %y = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xf64>
  %k = sojourn.read_rows %t, %i, columns = ["k"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xi64>
  // expected-error@below {{a value per row of private data is published; reduce it over the rows first (mean, sum)}}
  %z = sojourn.read_rows %t, %i, columns = ["b"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xf64>
  return %z : tensor<8xf64>
}
}

// -----

// Running totals over rows.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
func.func @step(%t: !sojourn.table<100, "a": f64, "b": f64, "k": i64> {sojourn.kind = "table"}) -> (tensor<8xf64> {sojourn.result = "publish"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a", "b"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8x2xf64>
  %y = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xf64>
  %k = sojourn.read_rows %t, %i, columns = ["k"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xi64>
  // expected-error@below {{noise cannot make this published value private: 'cumsum' runs along rows}}
  %c = sojourn.cumsum %y, dim = 0 : tensor<8xf64>
  return %c : tensor<8xf64>
}
}

// -----

// A single row, though a sum of it is published.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
func.func @step(%t: !sojourn.table<100, "a": f64, "b": f64, "k": i64> {sojourn.kind = "table"}) -> (tensor<f64> {sojourn.result = "publish"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a", "b"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8x2xf64>
  %y = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xf64>
  %k = sojourn.read_rows %t, %i, columns = ["k"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xi64>
  // expected-error@below {{noise cannot make this published value private: 'slice' takes a single row out of the batch}}
  %o = sojourn.slice %y, start = [3], limit = [4], stride = [1] : tensor<8xf64>
  %s = sojourn.reduce_sum %o, dims = [0] : tensor<1xf64>
  return %s : tensor<f64>
}
}

// -----

// A batch of one row: mean and row are the same.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
func.func @step(%t: !sojourn.table<100, "a": f64, "b": f64, "k": i64> {sojourn.kind = "table"}) -> (tensor<f64> {sojourn.result = "publish"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a", "b"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8x2xf64>
  %y = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xf64>
  %k = sojourn.read_rows %t, %i, columns = ["k"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xi64>
  %one = sojourn.iota dim = 0 : tensor<1xi64>
  // expected-error@below {{noise cannot make this published value private: 'read_rows' reads fewer than 2 rows: a row cannot be distinguished from its batch}}
  %o = sojourn.read_rows %t, %one, columns = ["a"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<1xi64> -> tensor<1xf64>
  %s = sojourn.reduce_sum %o, dims = [0] : tensor<1xf64>
  return %s : tensor<f64>
}
}

// -----

// Row numbers that the client uploaded.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
func.func @step(%u: tensor<8xi64> {sojourn.kind = "upload"}, %t: !sojourn.table<100, "a": f64, "b": f64, "k": i64> {sojourn.kind = "table"}) -> (tensor<f64> {sojourn.result = "publish"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a", "b"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8x2xf64>
  %y = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xf64>
  %k = sojourn.read_rows %t, %i, columns = ["k"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xi64>
  // expected-error@below {{noise cannot make this published value private: 'read_rows' reads row numbers that were not drawn at the owner: a row may be read more than once}}
  %o = sojourn.read_rows %t, %u, columns = ["a"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xf64>
  %s = sojourn.reduce_sum %o, dims = [0] : tensor<8xf64>
  return %s : tensor<f64>
}
}

// -----

// Each row twice: it would move the sum by twice its bound.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
func.func @step(%t: !sojourn.table<100, "a": f64, "b": f64, "k": i64> {sojourn.kind = "table"}) -> (tensor<f64> {sojourn.result = "publish"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a", "b"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8x2xf64>
  %y = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xf64>
  %k = sojourn.read_rows %t, %i, columns = ["k"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xi64>
  %two = sojourn.constant 2 : i64
  %h = sojourn.div %i, %two : tensor<8xi64>, tensor<i64>
  // expected-error@below {{noise cannot make this published value private: 'read_rows' reads row numbers that were not drawn at the owner}}
  %o = sojourn.read_rows %t, %h, columns = ["a"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xf64>
  %s = sojourn.reduce_sum %o, dims = [0] : tensor<8xf64>
  return %s : tensor<f64>
}
}

// -----

// Two rows in each slot of a draw.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
func.func @step(%e: tensor<i64> {sojourn.kind = "seed"}, %t: !sojourn.table<100, "a": f64, "b": f64, "k": i64> {sojourn.kind = "table"}) -> (tensor<f64> {sojourn.result = "publish"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a", "b"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8x2xf64>
  %y = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xf64>
  %k = sojourn.read_rows %t, %i, columns = ["k"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xi64>
  %j = sojourn.sample_rows %i, %e, %e of %t, expected = 2 : tensor<8xi64>, tensor<i64>, tensor<i64>, !sojourn.table<100, "a": f64, "b": f64, "k": i64> -> tensor<8xi64>
  %l = sojourn.sample_rows %j, %e, %e of %t : tensor<8xi64>, tensor<i64>, tensor<i64>, !sojourn.table<100, "a": f64, "b": f64, "k": i64> -> tensor<8xi64>
  %o = sojourn.read_rows %t, %j, columns = ["a"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xf64>
  // expected-error@below {{noise cannot make this published value private: 'read_rows' reads other rows into the slots of a draw: a row would be in several slots}}
  %q = sojourn.read_rows %t, %l, columns = ["a"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xf64>
  %m = sojourn.mul %o, %q : tensor<8xf64>, tensor<8xf64>
  %s = sojourn.reduce_sum %m, dims = [0] : tensor<8xf64>
  return %s : tensor<f64>
}
}

// -----

// Rows of two draws in one product.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
func.func @step(%t: !sojourn.table<100, "a": f64, "b": f64, "k": i64> {sojourn.kind = "table"}) -> (tensor<f64> {sojourn.result = "publish"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a", "b"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8x2xf64>
  %y = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xf64>
  %k = sojourn.read_rows %t, %i, columns = ["k"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xi64>
  %p = sojourn.iota dim = 0 : tensor<16xi64>
  %j = sojourn.slice %p, start = [8], limit = [16], stride = [1] : tensor<16xi64>
  %o = sojourn.read_rows %t, %j, columns = ["a"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xf64>
  // expected-error@below {{noise cannot make this published value private: 'mul' operands hold different draws of rows}}
  %m = sojourn.mul %y, %o : tensor<8xf64>, tensor<8xf64>
  %s = sojourn.reduce_sum %m, dims = [0] : tensor<8xf64>
  return %s : tensor<f64>
}
}

// -----

// A running total of losses, committed without noise.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
func.func @step(%total: tensor<f64> {sojourn.kind = "state"}, %t: !sojourn.table<100, "a": f64, "b": f64, "k": i64> {sojourn.kind = "table"}) -> (tensor<f64> {sojourn.result = "commit", sojourn.target = 0}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a", "b"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8x2xf64>
  %y = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xf64>
  %k = sojourn.read_rows %t, %i, columns = ["k"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xi64>
  // expected-error@below {{a sum over private rows is kept without noise in a tensor that the model does not train; publish the sum inside the step, and add up the published values}}
  %s = sojourn.reduce_sum %y, dims = [0] : tensor<8xf64>
  %n = sojourn.add %total, %s : tensor<f64>, tensor<f64>
  return %n : tensor<f64>
}
}

// -----

// Running statistics of batch normalisation, committed.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
func.func @step(%mean: tensor<2xf64> {sojourn.kind = "state"}, %t: !sojourn.table<100, "a": f64, "b": f64, "k": i64> {sojourn.kind = "table"}) -> (tensor<2xf64> {sojourn.result = "commit", sojourn.target = 0}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a", "b"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8x2xf64>
  %y = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xf64>
  %k = sojourn.read_rows %t, %i, columns = ["k"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xi64>
  // expected-error@below {{a sum over private rows is kept without noise in a tensor that the model does not train; publish the sum inside the step, and add up the published values}}
  %s = sojourn.reduce_sum %x, dims = [0] : tensor<8x2xf64>
  %f = sojourn.constant 0.1 : f64
  %u = sojourn.mul %s, %f : tensor<2xf64>, tensor<f64>
  %n = sojourn.add %mean, %u : tensor<2xf64>, tensor<2xf64>
  return %n : tensor<2xf64>
}
}

// -----

// Rows committed to a state.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
func.func @step(%s: tensor<8xf64> {sojourn.kind = "state"}, %t: !sojourn.table<100, "a": f64, "b": f64, "k": i64> {sojourn.kind = "table"}) -> (tensor<8xf64> {sojourn.result = "commit", sojourn.target = 0}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a", "b"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8x2xf64>
  %y = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xf64>
  %k = sojourn.read_rows %t, %i, columns = ["k"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xi64>
  // expected-error@below {{a value per row of private data is committed; reduce it over the rows first (mean, sum)}}
  %z = sojourn.neg %y : tensor<8xf64>
  return %z : tensor<8xf64>
}
}

// -----

// A batch that wraps in 8 bits: the sign of a square is no public matter.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
func.func @step(%t: !sojourn.table<100, "a": f64, "b": f64, "k": i64> {sojourn.kind = "table"}) -> (tensor<8xi1> {sojourn.result = "publish"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a", "b"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8x2xf64>
  %y = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xf64>
  %k = sojourn.read_rows %t, %i, columns = ["k"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xi64>
  %zero = sojourn.constant 0 : i8
  %q = sojourn.convert %k : tensor<8xi64> -> tensor<8xi8>
  %w = sojourn.mul %q, %q : tensor<8xi8>, tensor<8xi8>
  // expected-error@below {{a value per row of private data is published; reduce it over the rows first (mean, sum)}}
  %c = sojourn.compare "lt" %w, %zero : tensor<8xi8>, tensor<i8>
  return %c : tensor<8xi1>
}
}

// -----

// A variance that is committed: sums on the way to a state are no statistics, but gradients with a clip of their own.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
func.func @step(%state: tensor<f64> {sojourn.kind = "state"}, %t: !sojourn.table<100, "a": f64, "b": f64, "k": i64> {sojourn.kind = "table"}) -> (tensor<f64> {sojourn.result = "commit", sojourn.target = 0}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a", "b"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8x2xf64>
  %y = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xf64>
  %k = sojourn.read_rows %t, %i, columns = ["k"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xi64>
  %z = sojourn.neg %y : tensor<8xf64>
  %n = sojourn.constant 8.0 : f64
  %sum = sojourn.reduce_sum %z, dims = [0] : tensor<8xf64>
  %mean = sojourn.div %sum, %n : tensor<f64>, tensor<f64>
  // expected-error@below {{noise cannot make this committed value private: 'sub' per-row values meet a value that was summed over rows}}
  %c = sojourn.sub %z, %mean : tensor<8xf64>, tensor<f64>
  %q = sojourn.mul %c, %c : tensor<8xf64>, tensor<8xf64>
  %s = sojourn.reduce_sum %q, dims = [0] : tensor<8xf64>
  return %s : tensor<f64>
}
}

// -----

// Forged: a program brings a clipped sum of its own.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
func.func @step(%t: !sojourn.table<100, "a": f64, "b": f64, "k": i64> {sojourn.kind = "table"}) -> (tensor<f64> {sojourn.result = "publish"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a", "b"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8x2xf64>
  %y = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xf64>
  %k = sojourn.read_rows %t, %i, columns = ["k"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xi64>
  // expected-error@below {{is not an op of core form}}
  %s = sojourn.clipped_sum "flat" rows %i, bounds = [1.0], norm = 2 (%y) : tensor<8xi64>, (tensor<8xf64>) -> tensor<f64> {
  ^bb0(%y0: tensor<8xf64>):
    %a = sojourn.reduce_sum %y0, dims = [0] : tensor<8xf64>
    sojourn.yield %a : tensor<f64>
  }
  return %s : tensor<f64>
}
}

// -----

// Forged: a program brings coins of its own.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
// expected-error@below {{argument #1 is of kind coin, which only an owner appends}}
func.func @step(%t: !sojourn.table<100, "a": f64, "b": f64, "k": i64> {sojourn.kind = "table"}, %c: tensor<i64> {sojourn.kind = "coin"}) -> (tensor<f64> {sojourn.result = "publish"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a", "b"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8x2xf64>
  %y = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xf64>
  %k = sojourn.read_rows %t, %i, columns = ["k"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xi64>
  %s = sojourn.reduce_sum %y, dims = [0] : tensor<8xf64>
  return %s : tensor<f64>
}
}

// -----

// Forged: noise of the client's making, from uploaded numbers.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
func.func @step(%u: tensor<i64> {sojourn.kind = "upload"}, %t: !sojourn.table<100, "a": f64, "b": f64, "k": i64> {sojourn.kind = "table"}) -> (tensor<f64> {sojourn.result = "publish"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a", "b"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8x2xf64>
  %y = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xf64>
  %k = sojourn.read_rows %t, %i, columns = ["k"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xi64>
  %s = sojourn.reduce_sum %y, dims = [0] : tensor<8xf64>
  // expected-error@below {{is not an op of core form}}
  %n = sojourn.noise "gaussian" (%s) coins (%u), exponent = -20, scale = 1048577 : (tensor<f64>), (tensor<i64>) -> (tensor<f64>)
  return %n : tensor<f64>
}
}
