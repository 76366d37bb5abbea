// SPDX-License-Identifier: Apache-2.0
// What no noise makes releasable: ops that let rows interact. Each program publishes its results; the error stands at the
// op where rows met.
// RUN: sojourn-opt %s -split-input-file --sojourn-make-private="bounds=a=-1:3,b=-1:3,k=0:100" --verify-diagnostics=only-expected

// The largest value over rows.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
func.func @step(%t: !sojourn.table<100, "a": f64, "b": f64, "k": i64> {sojourn.kind = "table"}) -> (tensor<f64> {sojourn.result = "publish"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a", "b"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8x2xf64>
  %y = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xf64>
  %k = sojourn.read_rows %t, %i, columns = ["k"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xi64>
  // expected-error@below {{noise cannot make this published value private: 'reduce_max' is taken over rows}}
  %m = sojourn.reduce_max %y, dims = [0] : tensor<8xf64>
  return %m : tensor<f64>
}
}

// -----

// The least value over rows.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
func.func @step(%t: !sojourn.table<100, "a": f64, "b": f64, "k": i64> {sojourn.kind = "table"}) -> (tensor<f64> {sojourn.result = "publish"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a", "b"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8x2xf64>
  %y = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xf64>
  %k = sojourn.read_rows %t, %i, columns = ["k"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xi64>
  // expected-error@below {{noise cannot make this published value private: 'reduce_min' is taken over rows}}
  %m = sojourn.reduce_min %y, dims = [0] : tensor<8xf64>
  return %m : tensor<f64>
}
}

// -----

// The product of all value over rows.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
func.func @step(%t: !sojourn.table<100, "a": f64, "b": f64, "k": i64> {sojourn.kind = "table"}) -> (tensor<f64> {sojourn.result = "publish"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a", "b"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8x2xf64>
  %y = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xf64>
  %k = sojourn.read_rows %t, %i, columns = ["k"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xi64>
  // expected-error@below {{noise cannot make this published value private: 'reduce_prod' is taken over rows}}
  %m = sojourn.reduce_prod %y, dims = [0] : tensor<8xf64>
  return %m : tensor<f64>
}
}

// -----

// Which row is largest.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
func.func @step(%t: !sojourn.table<100, "a": f64, "b": f64, "k": i64> {sojourn.kind = "table"}) -> (tensor<i64> {sojourn.result = "publish"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a", "b"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8x2xf64>
  %y = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xf64>
  %k = sojourn.read_rows %t, %i, columns = ["k"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xi64>
  // expected-error@below {{noise cannot make this published value private: 'argmax' is taken over rows}}
  %m = sojourn.argmax %y, dim = 0 : tensor<8xf64>
  return %m : tensor<i64>
}
}

// -----

// A median: sorted along rows, and the middle taken.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
func.func @step(%t: !sojourn.table<100, "a": f64, "b": f64, "k": i64> {sojourn.kind = "table"}) -> (tensor<1xf64> {sojourn.result = "publish"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a", "b"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8x2xf64>
  %y = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xf64>
  %k = sojourn.read_rows %t, %i, columns = ["k"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xi64>
  // expected-error@below {{noise cannot make this published value private: 'sort' runs along rows}}
  %v, %p = sojourn.sort %y, dim = 0, descending = false : tensor<8xf64>
  %m = sojourn.slice %v, start = [4], limit = [5], stride = [1] : tensor<8xf64>
  return %m : tensor<1xf64>
}
}

// -----

// The two largest.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
func.func @step(%t: !sojourn.table<100, "a": f64, "b": f64, "k": i64> {sojourn.kind = "table"}) -> (tensor<2xf64> {sojourn.result = "publish"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a", "b"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8x2xf64>
  %y = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xf64>
  %k = sojourn.read_rows %t, %i, columns = ["k"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xi64>
  // expected-error@below {{noise cannot make this published value private: 'topk' runs along rows}}
  %v, %p = sojourn.topk %y, dim = 0, k = 2, largest = true : tensor<8xf64>
  return %v : tensor<2xf64>
}
}

// -----

// Rows of the batch looked up by what rows hold.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
func.func @step(%t: !sojourn.table<100, "a": f64, "b": f64, "k": i64> {sojourn.kind = "table"}) -> (tensor<f64> {sojourn.result = "publish"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a", "b"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8x2xf64>
  %y = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xf64>
  %k = sojourn.read_rows %t, %i, columns = ["k"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xi64>
  // expected-error@below {{noise cannot make this published value private: 'take' chooses rows by values of rows}}
  %o = sojourn.take %y, %k, dim = 0 : tensor<8xf64>, tensor<8xi64>
  %s = sojourn.reduce_sum %o, dims = [0] : tensor<8xf64>
  return %s : tensor<f64>
}
}

// -----

// Rows of the batch in another order, as a public shuffle makes them.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
func.func @step(%u: tensor<8xi64> {sojourn.kind = "upload"}, %t: !sojourn.table<100, "a": f64, "b": f64, "k": i64> {sojourn.kind = "table"}) -> (tensor<f64> {sojourn.result = "publish"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a", "b"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8x2xf64>
  %y = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xf64>
  %k = sojourn.read_rows %t, %i, columns = ["k"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xi64>
  // expected-error@below {{noise cannot make this published value private: 'take' takes rows of the batch by number: the slot of each row is lost}}
  %o = sojourn.take %y, %u, dim = 0 : tensor<8xf64>, tensor<8xi64>
  %s = sojourn.reduce_sum %o, dims = [0] : tensor<8xf64>
  return %s : tensor<f64>
}
}

// -----

// Differences of neighbours in the batch.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
func.func @step(%t: !sojourn.table<100, "a": f64, "b": f64, "k": i64> {sojourn.kind = "table"}) -> (tensor<f64> {sojourn.result = "publish"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a", "b"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8x2xf64>
  %y = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xf64>
  %k = sojourn.read_rows %t, %i, columns = ["k"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xi64>
  %f = sojourn.slice %y, start = [0], limit = [7], stride = [1] : tensor<8xf64>
  %g = sojourn.slice %y, start = [1], limit = [8], stride = [1] : tensor<8xf64>
  // expected-error@below {{noise cannot make this published value private: 'sub' operands have their rows in different places}}
  %d = sojourn.sub %g, %f : tensor<7xf64>, tensor<7xf64>
  %s = sojourn.reduce_sum %d, dims = [0] : tensor<7xf64>
  return %s : tensor<f64>
}
}

// -----

// The batch in reverse beside itself.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
func.func @step(%t: !sojourn.table<100, "a": f64, "b": f64, "k": i64> {sojourn.kind = "table"}) -> (tensor<f64> {sojourn.result = "publish"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a", "b"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8x2xf64>
  %y = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xf64>
  %k = sojourn.read_rows %t, %i, columns = ["k"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xi64>
  // expected-error@below {{noise cannot make this published value private: 'reverse' reverses the order of rows}}
  %r = sojourn.reverse %y, dims = [0] : tensor<8xf64>
  %d = sojourn.mul %r, %y : tensor<8xf64>, tensor<8xf64>
  %s = sojourn.reduce_sum %d, dims = [0] : tensor<8xf64>
  return %s : tensor<f64>
}
}

// -----

// Two halves of a batch one after another.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
func.func @step(%t: !sojourn.table<100, "a": f64, "b": f64, "k": i64> {sojourn.kind = "table"}) -> (tensor<f64> {sojourn.result = "publish"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a", "b"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8x2xf64>
  %y = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xf64>
  %k = sojourn.read_rows %t, %i, columns = ["k"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xi64>
  %f = sojourn.slice %y, start = [0], limit = [4], stride = [1] : tensor<8xf64>
  // expected-error@below {{noise cannot make this published value private: 'concat' concatenates batches of rows}}
  %d = sojourn.concat %f, %f dim = 0 : tensor<4xf64>, tensor<4xf64>
  %s = sojourn.reduce_sum %d, dims = [0] : tensor<8xf64>
  return %s : tensor<f64>
}
}

// -----

// Similarities of all pairs of rows: contrastive losses.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
func.func @step(%t: !sojourn.table<100, "a": f64, "b": f64, "k": i64> {sojourn.kind = "table"}) -> (tensor<f64> {sojourn.result = "publish"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a", "b"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8x2xf64>
  %y = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xf64>
  %k = sojourn.read_rows %t, %i, columns = ["k"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xi64>
  // expected-error@below {{noise cannot make this published value private: 'dot' each row meets other rows of the batch}}
  %d = sojourn.dot %x, %x, lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [1] : tensor<8x2xf64>, tensor<8x2xf64> -> tensor<8x8xf64>
  %s = sojourn.reduce_sum %d, dims = [0, 1] : tensor<8x8xf64>
  return %s : tensor<f64>
}
}

// -----

// A softmax over the batch: what one row gets depends on the others.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
func.func @step(%t: !sojourn.table<100, "a": f64, "b": f64, "k": i64> {sojourn.kind = "table"}) -> (tensor<f64> {sojourn.result = "publish"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a", "b"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8x2xf64>
  %y = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xf64>
  %k = sojourn.read_rows %t, %i, columns = ["k"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xi64>
  // expected-error@below {{noise cannot make this published value private: 'reduce_max' is taken over rows}}
  %m = sojourn.reduce_max %y, dims = [0] : tensor<8xf64>
  %d = sojourn.sub %y, %m : tensor<8xf64>, tensor<f64>
  %e = sojourn.exp %d : tensor<8xf64>
  %s = sojourn.reduce_sum %e, dims = [0] : tensor<8xf64>
  return %s : tensor<f64>
}
}

// -----

// Batch normalisation in training mode, before a nonlinearity: no algebra takes the mean out again.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
func.func @step(%t: !sojourn.table<100, "a": f64, "b": f64, "k": i64> {sojourn.kind = "table"}) -> (tensor<f64> {sojourn.result = "publish"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a", "b"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8x2xf64>
  %y = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xf64>
  %k = sojourn.read_rows %t, %i, columns = ["k"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xi64>
  %n = sojourn.constant 8.0 : f64
  %zero = sojourn.constant 0.0 : f64
  %sum = sojourn.reduce_sum %y, dims = [0] : tensor<8xf64>
  %mean = sojourn.div %sum, %n : tensor<f64>, tensor<f64>
  // expected-error@below {{noise cannot make this published value private: 'sub' per-row values meet a value that was summed over rows}}
  %c = sojourn.sub %y, %mean : tensor<8xf64>, tensor<f64>
  %r = sojourn.max %c, %zero : tensor<8xf64>, tensor<f64>
  %s = sojourn.reduce_sum %r, dims = [0] : tensor<8xf64>
  return %s : tensor<f64>
}
}

// -----

// The mean absolute deviation, for the same reason.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
func.func @step(%t: !sojourn.table<100, "a": f64, "b": f64, "k": i64> {sojourn.kind = "table"}) -> (tensor<f64> {sojourn.result = "publish"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a", "b"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8x2xf64>
  %y = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xf64>
  %k = sojourn.read_rows %t, %i, columns = ["k"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xi64>
  %n = sojourn.constant 8.0 : f64
  %sum = sojourn.reduce_sum %y, dims = [0] : tensor<8xf64>
  %mean = sojourn.div %sum, %n : tensor<f64>, tensor<f64>
  // expected-error@below {{noise cannot make this published value private: 'sub' per-row values meet a value that was summed over rows}}
  %c = sojourn.sub %y, %mean : tensor<8xf64>, tensor<f64>
  %r = sojourn.abs %c : tensor<8xf64>
  %s = sojourn.reduce_sum %r, dims = [0] : tensor<8xf64>
  return %s : tensor<f64>
}
}

// -----

// Which rows are above the mean: a comparison with a sum that is no polynomial.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
func.func @step(%t: !sojourn.table<100, "a": f64, "b": f64, "k": i64> {sojourn.kind = "table"}) -> (tensor<i64> {sojourn.result = "publish"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a", "b"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8x2xf64>
  %y = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xf64>
  %k = sojourn.read_rows %t, %i, columns = ["k"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xi64>
  %sum = sojourn.reduce_sum %y, dims = [0] : tensor<8xf64>
  // expected-error@below {{noise cannot make this published value private: 'compare' per-row values meet a value that was summed over rows}}
  %c = sojourn.compare "gt" %y, %sum : tensor<8xf64>, tensor<f64>
  %r = sojourn.convert %c : tensor<8xi1> -> tensor<8xi64>
  %s = sojourn.reduce_sum %r, dims = [0] : tensor<8xi64>
  return %s : tensor<i64>
}
}

// -----

// A weight of a convolution that depends on rows.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
func.func @step(%p: tensor<1x1x5xf64> {sojourn.kind = "upload"}, %t: !sojourn.table<100, "a": f64, "b": f64, "k": i64> {sojourn.kind = "table"}) -> (tensor<f64> {sojourn.result = "publish"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a", "b"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8x2xf64>
  %y = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xf64>
  %k = sojourn.read_rows %t, %i, columns = ["k"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xi64>
  %w = sojourn.broadcast %y, dims = [0] : tensor<8xf64> -> tensor<8x1x3xf64>
  // expected-error@below {{noise cannot make this published value private: 'conv' the weight of a convolution depends on rows}}
  %c = sojourn.conv %p, %w, stride = [1], padding = [0], dilation = [1], groups = 1 : tensor<1x1x5xf64>, tensor<8x1x3xf64>
  %s = sojourn.reduce_sum %c, dims = [0, 1, 2] : tensor<1x8x3xf64>
  return %s : tensor<f64>
}
}

// -----

// A window that slides over rows.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
func.func @step(%t: !sojourn.table<100, "a": f64, "b": f64, "k": i64> {sojourn.kind = "table"}) -> (tensor<f64> {sojourn.result = "publish"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a", "b"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8x2xf64>
  %y = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xf64>
  %k = sojourn.read_rows %t, %i, columns = ["k"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xi64>
  %w = sojourn.reshape %y : tensor<8xf64> -> tensor<1x1x8xf64>
  // expected-error@below {{noise cannot make this published value private: 'pool_sum' pools over the dim that holds rows}}
  %c = sojourn.pool_sum %w, window = [2], stride = [1], padding = [0], dilation = [1] : tensor<1x1x8xf64>
  %s = sojourn.reduce_sum %c, dims = [0, 1, 2] : tensor<1x1x7xf64>
  return %s : tensor<f64>
}
}

// -----

// Rows that write over each other: the last one of a class wins.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
func.func @step(%t: !sojourn.table<100, "a": f64, "b": f64, "k": i64> {sojourn.kind = "table"}) -> (tensor<5xf64> {sojourn.result = "publish"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a", "b"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8x2xf64>
  %y = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xf64>
  %k = sojourn.read_rows %t, %i, columns = ["k"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xi64>
  %z = sojourn.constant 0.0 : f64
  %zeros = sojourn.broadcast %z, dims = [] : tensor<f64> -> tensor<5xf64>
  // expected-error@below {{noise cannot make this published value private: 'put' rows overwrite each other}}
  %w = sojourn.put "set" %zeros, %k, %y, dim = 0 : tensor<5xf64>, tensor<8xi64>, tensor<8xf64>
  return %w : tensor<5xf64>
}
}

// -----

// The largest of each class.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
func.func @step(%t: !sojourn.table<100, "a": f64, "b": f64, "k": i64> {sojourn.kind = "table"}) -> (tensor<5xf64> {sojourn.result = "publish"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a", "b"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8x2xf64>
  %y = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xf64>
  %k = sojourn.read_rows %t, %i, columns = ["k"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xi64>
  %z = sojourn.constant 0.0 : f64
  %zeros = sojourn.broadcast %z, dims = [] : tensor<f64> -> tensor<5xf64>
  // expected-error@below {{noise cannot make this published value private: 'put' rows overwrite each other}}
  %w = sojourn.put "max" %zeros, %k, %y, dim = 0 : tensor<5xf64>, tensor<8xi64>, tensor<8xf64>
  return %w : tensor<5xf64>
}
}

// -----

// Random numbers seeded by a row's value.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
func.func @step(%t: !sojourn.table<100, "a": f64, "b": f64, "k": i64> {sojourn.kind = "table"}) -> (tensor<4xf64> {sojourn.result = "publish"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a", "b"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8x2xf64>
  %y = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xf64>
  %k = sojourn.read_rows %t, %i, columns = ["k"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xi64>
  // expected-error@below {{noise cannot make this published value private: 'argmax' is taken over rows}}
  %o = sojourn.argmax %y, dim = 0 : tensor<8xf64>
  %r = sojourn.rng_uniform %o, stream = 0 : tensor<4xf64>
  return %r : tensor<4xf64>
}
}

// -----

// Complex sums over rows.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
func.func @step(%t: !sojourn.table<100, "a": f64, "b": f64, "k": i64> {sojourn.kind = "table"}) -> (tensor<complex<f64>> {sojourn.result = "publish"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a", "b"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8x2xf64>
  %y = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xf64>
  %k = sojourn.read_rows %t, %i, columns = ["k"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xi64>
  %c = sojourn.convert %y : tensor<8xf64> -> tensor<8xcomplex<f64>>
  // expected-error@below {{a sum of complex numbers over private rows has no noise; publish its real and imaginary parts}}
  %s = sojourn.reduce_sum %c, dims = [0] : tensor<8xcomplex<f64>>
  return %s : tensor<complex<f64>>
}
}

// -----

// A sum so large that no noise reaches it.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
func.func @step(%t: !sojourn.table<100, "a": f64, "b": f64, "k": i64> {sojourn.kind = "table"}) -> (tensor<f64> {sojourn.result = "publish"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %y = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xf64>
  %c = sojourn.constant 1.0e300 : f64
  %cs = sojourn.broadcast %c, dims = [] : tensor<f64> -> tensor<8xf64>
  %large = sojourn.mul %y, %cs : tensor<8xf64>, tensor<8xf64>
  // expected-error@below {{the contribution of one row to this value is bounded by 2^998, expected a bound from 2^-400 to 2^820, the range of the noise; declare other bounds of the columns, publish with a bound= nearer to 1, or rescale the rows before the sum}}
  %s = sojourn.reduce_sum %large, dims = [0] : tensor<8xf64>
  return %s : tensor<f64>
}
}

// -----

// So small that f64 could not clip to it.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
func.func @step(%t: !sojourn.table<100, "a": f64, "b": f64, "k": i64> {sojourn.kind = "table"}) -> (tensor<f64> {sojourn.result = "publish"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %y = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xf64>
  %c = sojourn.constant 1.0e-150 : f64
  %small = sojourn.mul %y, %c : tensor<8xf64>, tensor<f64>
  // expected-error@below {{is bounded by 2^-497, expected a bound from 2^-400 to 2^820, the range of the noise}}
  %s = sojourn.reduce_sum %small, dims = [0] : tensor<8xf64>
  return %s : tensor<f64>
}
}
