// SPDX-License-Identifier: Apache-2.0
// Programs that once went around the proof, as a client may write them: one row in every slot, private numbers as
// positions of a draw that nobody pays for, "always one number" where NaN may be.
// RUN: sojourn-opt %s -split-input-file --sojourn-make-private="bounds=a=0:1,k=0:255,v=-1:1" --verify-diagnostics=only-expected

// A part of one row: -1 in all slots but one, and a constant: one row in every slot.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
func.func @step(%seed: tensor<i64> {sojourn.kind = "seed"}, %t: !sojourn.table<64, "a" : f64> {sojourn.kind = "table"}) -> (tensor<f32> {sojourn.result = "publish"}) {
  %p = sojourn.iota dim = 0 : tensor<1000xi64>
  %i = sojourn.sample_rows %p, %seed, %seed of %t, part = [first 0.015625] : tensor<1000xi64>, tensor<i64>, tensor<i64>, !sojourn.table<64, "a" : f64> -> tensor<1000xi64>
  %k = sojourn.constant 8 : i64
  %j = sojourn.add %i, %k : tensor<1000xi64>, tensor<i64>
  // expected-error@below {{'read_rows' reads row numbers that were not drawn at the owner: a row may be read more than once}}
  %x = sojourn.read_rows %t, %j, columns = ["a"] : !sojourn.table<64, "a" : f64>, tensor<1000xi64> -> tensor<1000xf32>
  %s = sojourn.reduce_sum %x, dims = [0] : tensor<1000xf32>
  return %s : tensor<f32>
}
}

// -----

// The same constant twice, on the other side, from a part of the list.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
func.func @step(%seed: tensor<i64> {sojourn.kind = "seed"}, %t: !sojourn.table<64, "a" : f64> {sojourn.kind = "table"}) -> (tensor<f64> {sojourn.result = "publish"}) {
  %p = sojourn.iota dim = 0 : tensor<1000xi64>
  %i = sojourn.sample_rows %p, %seed, %seed of %t, part = [first 0.015625] : tensor<1000xi64>, tensor<i64>, tensor<i64>, !sojourn.table<64, "a" : f64> -> tensor<1000xi64>
  %k = sojourn.constant 4 : i64
  %h = sojourn.add %k, %i : tensor<i64>, tensor<1000xi64>
  %j = sojourn.add %h, %k : tensor<1000xi64>, tensor<i64>
  %part = sojourn.slice %j, start = [10], limit = [500], stride = [7] : tensor<1000xi64>
  %list = sojourn.reshape %part : tensor<70xi64> -> tensor<70xi64>
  // expected-error@below {{'read_rows' reads row numbers that were not drawn at the owner: a row may be read more than once}}
  %x = sojourn.read_rows %t, %list, columns = ["a"] : !sojourn.table<64, "a" : f64>, tensor<70xi64> -> tensor<70xf64>
  %s = sojourn.reduce_sum %x, dims = [0] : tensor<70xf64>
  return %s : tensor<f64>
}
}

// -----

// An order of an order: what the inner one, of a part of two rows, leaves absent is no row of the outer one, but it is
// moved.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
func.func @step(%seed: tensor<i64> {sojourn.kind = "seed"}, %t: !sojourn.table<64, "a" : f64> {sojourn.kind = "table"}) -> (tensor<f64> {sojourn.result = "publish"}) {
  %p = sojourn.iota dim = 0 : tensor<100xi64>
  %i = sojourn.sample_rows %p, %seed, %seed of %t, part = [first 0.03125] : tensor<100xi64>, tensor<i64>, tensor<i64>, !sojourn.table<64, "a" : f64> -> tensor<100xi64>
  %k = sojourn.constant 2 : i64
  %j = sojourn.add %i, %k : tensor<100xi64>, tensor<i64>
  %o = sojourn.sample_rows %j, %seed, %seed of %t : tensor<100xi64>, tensor<i64>, tensor<i64>, !sojourn.table<64, "a" : f64> -> tensor<100xi64>
  // expected-error@below {{'read_rows' reads row numbers that were not drawn at the owner: a row may be read more than once}}
  %x = sojourn.read_rows %t, %o, columns = ["a"] : !sojourn.table<64, "a" : f64>, tensor<100xi64> -> tensor<100xf64>
  %s = sojourn.reduce_sum %x, dims = [0] : tensor<100xf64>
  return %s : tensor<f64>
}
}

// -----

// Positions of a draw are private numbers, each a row of a wide table; the client knows the seed and undoes the order.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
func.func @step(%w: tensor<64xf64> {sojourn.kind = "upload"}, %seed: tensor<i64> {sojourn.kind = "seed"}, %t: !sojourn.table<64, "k" : i64> {sojourn.kind = "table"}, %wide: !sojourn.table<256, "k" : i64> {sojourn.kind = "table"}) -> (tensor<f64> {sojourn.result = "publish"}) {
  %i = sojourn.iota dim = 0 : tensor<64xi64>
  %p = sojourn.read_rows %t, %i, columns = ["k"] : !sojourn.table<64, "k" : i64>, tensor<64xi64> -> tensor<64xi64>
  // expected-error@below {{'sample_rows' draws rows at positions that depend on rows}}
  %r = sojourn.sample_rows %p, %seed, %seed of %wide, expected = 1 : tensor<64xi64>, tensor<i64>, tensor<i64>, !sojourn.table<256, "k" : i64> -> tensor<64xi64>
  %f = sojourn.convert %r : tensor<64xi64> -> tensor<64xf64>
  %y = sojourn.mul %f, %w : tensor<64xf64>, tensor<64xf64>
  %s = sojourn.reduce_sum %y, dims = [0] : tensor<64xf64>
  return %s : tensor<f64>
}
}

// -----

// A draw at which no private table is read: a release over it has no budget to charge.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
func.func @step(%seed: tensor<i64> {sojourn.kind = "seed"}, %t: !sojourn.table<64, "k" : i64> {sojourn.kind = "table"}, %wide: !sojourn.table<256, "k" : i64> {sojourn.kind = "table"}) -> (tensor<f64> {sojourn.result = "publish"}) {
  %i = sojourn.iota dim = 0 : tensor<64xi64>
  %r = sojourn.sample_rows %i, %seed, %seed of %wide, expected = 1 : tensor<64xi64>, tensor<i64>, tensor<i64>, !sojourn.table<256, "k" : i64> -> tensor<64xi64>
  %f = sojourn.convert %r : tensor<64xi64> -> tensor<64xf64>
  // expected-error@below {{a draw of rows at which no private table is read, so there is no budget to charge}}
  %s = sojourn.reduce_sum %f, dims = [0] : tensor<64xf64>
  return %s : tensor<f64>
}
}

// -----

// +infinity in one lane and -infinity in another: "min(max(q, 1), 1)" is 1, or NaN by the row.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
func.func @step(%t: !sojourn.table<8, "v" : 64xf64> {sojourn.kind = "table"}) -> (tensor<8xf64> {sojourn.result = "publish"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["v"] : !sojourn.table<8, "v" : 64xf64>, tensor<8xi64> -> tensor<8x64xf64>
  %big = sojourn.constant 1.7e308 : f64
  %v = sojourn.mul %x, %big : tensor<8x64xf64>, tensor<f64>
  %q = sojourn.reduce_sum %v, dims = [1] : tensor<8x64xf64>
  %one = sojourn.constant 1.0 : f64
  %y = sojourn.max %q, %one : tensor<8xf64>, tensor<f64>
  // expected-error@below {{a value per row of private data is published}}
  %z = sojourn.min %y, %one : tensor<8xf64>, tensor<f64>
  return %z : tensor<8xf64>
}
}

// -----

// The same of f32, whose numbers end at 3.4e38, behind a running sum.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
func.func @step(%t: !sojourn.table<8, "v" : 64xf64> {sojourn.kind = "table"}) -> (tensor<8x64xf32> {sojourn.result = "publish"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["v"] : !sojourn.table<8, "v" : 64xf64>, tensor<8xi64> -> tensor<8x64xf32>
  %big = sojourn.constant 3.0e38 : f32
  %v = sojourn.mul %x, %big : tensor<8x64xf32>, tensor<f32>
  %q = sojourn.cumsum %v, dim = 1 : tensor<8x64xf32>
  %one = sojourn.constant 1.0 : f32
  %y = sojourn.max %q, %one : tensor<8x64xf32>, tensor<f32>
  // expected-error@below {{a value per row of private data is published}}
  %z = sojourn.min %y, %one : tensor<8x64xf32>, tensor<f32>
  return %z : tensor<8x64xf32>
}
}

// -----

// And of products, each finite, together not.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
func.func @step(%t: !sojourn.table<8, "v" : 64xf64> {sojourn.kind = "table"}) -> (tensor<8xf64> {sojourn.result = "publish"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["v"] : !sojourn.table<8, "v" : 64xf64>, tensor<8xi64> -> tensor<8x64xf64>
  %big = sojourn.constant 1.3e154 : f64
  %v = sojourn.mul %x, %big : tensor<8x64xf64>, tensor<f64>
  %w = sojourn.broadcast %big, dims = [] : tensor<f64> -> tensor<8x64xf64>
  %q = sojourn.dot %v, %w, lhs_batch = [0], rhs_batch = [0], lhs_contract = [1], rhs_contract = [1] : tensor<8x64xf64>, tensor<8x64xf64> -> tensor<8xf64>
  %one = sojourn.constant 1.0 : f64
  %y = sojourn.max %q, %one : tensor<8xf64>, tensor<f64>
  // expected-error@below {{a value per row of private data is published}}
  %z = sojourn.min %y, %one : tensor<8xf64>, tensor<f64>
  return %z : tensor<8xf64>
}
}
