// SPDX-License-Identifier: Apache-2.0
// What a step costs: releases of one batch are one charge whose parts add up; each part is a vector with one noise.
// RUN: sojourn-opt %s -split-input-file --sojourn-make-private="bounds=a=-1:3,b=0:1,k=0:4 noise-multiplier=1 rows=200" --verify-diagnostics=only-expected

// One sum: it gets the part of the step that metrics share, 5 % of 1 / (2 sigma^2). A row moves it by 2:
// the sum is taken around 1, the middle of [-1, 3], and eight times 1 is added to what is released.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
// expected-remark@below {{draw 0: 8 rows, 1 releases}}
func.func @step(%t: !sojourn.table<100, "a": f64> {sojourn.kind = "table"}) -> (tensor<f64> {sojourn.result = "publish"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64>, tensor<8xi64> -> tensor<8xf64>
  // expected-remark-re@below {{published result 0: bound 2.00000000, 1 numbers, {{.*}} rho 0.025}}
  %s = sojourn.reduce_sum %x, dims = [0] : tensor<8xf64>
  return %s : tensor<f64>
}
}

// -----

// A second metric on the batch: each has half of that part, so more noise, and the draw is charged once for both.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
// expected-remark@below {{draw 0: 8 rows, 2 releases}}
func.func @step(%t: !sojourn.table<100, "a": f64, "b": f64> {sojourn.kind = "table"})
    -> (tensor<f64> {sojourn.result = "publish"}, tensor<f64> {sojourn.result = "publish"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64, "b": f64>, tensor<8xi64> -> tensor<8xf64>
  %y = sojourn.read_rows %t, %i, columns = ["b"] : !sojourn.table<100, "a": f64, "b": f64>, tensor<8xi64> -> tensor<8xf64>
  // expected-remark-re@below {{published result 0: bound 2.00000000, 1 numbers, {{.*}} rho 0.0125}}
  %s = sojourn.reduce_sum %x, dims = [0] : tensor<8xf64>
  // expected-remark-re@below {{published result 1: bound 0.50000000, 1 numbers, {{.*}} rho 0.0125}}
  %u = sojourn.reduce_sum %y, dims = [0] : tensor<8xf64>
  return %s, %u : tensor<f64>, tensor<f64>
}
}

// -----

// The same value published twice is one release: the second is free. What is computed from it is free, too.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
// expected-remark@below {{draw 0: 8 rows, 1 releases}}
func.func @step(%t: !sojourn.table<100, "a": f64> {sojourn.kind = "table"}) -> (tensor<f64> {sojourn.result = "publish"},
    tensor<f64> {sojourn.result = "publish"}, tensor<f64> {sojourn.result = "publish"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64>, tensor<8xi64> -> tensor<8xf64>
  // expected-remark@below {{rho 0.025}}
  %s = sojourn.reduce_sum %x, dims = [0] : tensor<8xf64>
  %e = sojourn.exp %s : tensor<f64>
  return %s, %s, %e : tensor<f64>, tensor<f64>, tensor<f64>
}
}

// -----

// Loss and gradient of one batch: one draw, two releases, 95 % and 5 %. A gradient is clipped to 1 per row; of a mean over 8
// slots that is 1/8. The loss is not bounded by a range, so it is clipped to 10 per row, 10/8 of the mean.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
// expected-remark@below {{draw 0: 8 rows, 2 releases}}
func.func @step(%w: tensor<2xf64> {sojourn.kind = "state"}, %t: !sojourn.table<100, "a": f64, "b": f64> {sojourn.kind = "table"})
    -> (tensor<2xf64> {sojourn.result = "commit", sojourn.target = 0}, tensor<f64> {sojourn.result = "publish"}) {
  %n = sojourn.constant 0.125 : f64
  %rate = sojourn.constant 0.1 : f64
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a", "b"] : !sojourn.table<100, "a": f64, "b": f64>, tensor<8xi64> -> tensor<8x2xf64>
  %o = sojourn.dot %x, %w, lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [0]
    : tensor<8x2xf64>, tensor<2xf64> -> tensor<8xf64>
  %square = sojourn.mul %o, %o : tensor<8xf64>, tensor<8xf64>
  // expected-remark-re@below {{published result 1: bound 10.00000000, 1 numbers, {{.*}} rho 0.025}}
  %total = sojourn.reduce_sum %square, dims = [0] : tensor<8xf64>
  %loss = sojourn.mul %total, %n : tensor<f64>, tensor<f64>
  %d = sojourn.mul %o, %n : tensor<8xf64>, tensor<f64>
  // expected-remark-re@below {{gradient of 1 tensors: bound 0.12500000, 2 numbers, {{.*}} rho 0.475}}
  %g = sojourn.dot %d, %x, lhs_batch = [], rhs_batch = [], lhs_contract = [0], rhs_contract = [0]
    : tensor<8xf64>, tensor<8x2xf64> -> tensor<2xf64>
  %step = sojourn.mul %g, %rate : tensor<2xf64>, tensor<f64>
  %next = sojourn.sub %w, %step : tensor<2xf64>, tensor<2xf64>
  return %next, %loss : tensor<2xf64>, tensor<f64>
}
}

// -----

// Two draws in one step: each has its releases and its charge.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
// expected-remark@below {{draw 0: 8 rows, 1 releases}}
// expected-remark@below {{draw 1: 8 rows, 1 releases}}
func.func @step(%t: !sojourn.table<100, "a": f64> {sojourn.kind = "table"})
    -> (tensor<f64> {sojourn.result = "publish"}, tensor<f64> {sojourn.result = "publish"}) {
  %p = sojourn.iota dim = 0 : tensor<16xi64>
  %i = sojourn.slice %p, start = [0], limit = [8], stride = [1] : tensor<16xi64>
  %j = sojourn.slice %p, start = [8], limit = [16], stride = [1] : tensor<16xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64>, tensor<8xi64> -> tensor<8xf64>
  %y = sojourn.read_rows %t, %j, columns = ["a"] : !sojourn.table<100, "a": f64>, tensor<8xi64> -> tensor<8xf64>
  // expected-remark@below {{rho 0.025}}
  %s = sojourn.reduce_sum %x, dims = [0] : tensor<8xf64>
  // expected-remark@below {{rho 0.025}}
  %u = sojourn.reduce_sum %y, dims = [0] : tensor<8xf64>
  return %s, %u : tensor<f64>, tensor<f64>
}
}

// -----

// The owner's Poisson draw: expected and population are what the price needs, slots are what is computed.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
// expected-remark@below {{draw 0: 8 of 100 rows expected in 24 slots, 1 releases}}
func.func @step(%e: tensor<i64> {sojourn.kind = "seed"}, %t: !sojourn.table<100, "a": f64> {sojourn.kind = "table"})
    -> (tensor<f64> {sojourn.result = "publish"}) {
  %p = sojourn.iota dim = 0 : tensor<24xi64>
  %i = sojourn.sample_rows %p, %e, %e of %t, expected = 8
    : tensor<24xi64>, tensor<i64>, tensor<i64>, !sojourn.table<100, "a": f64> -> tensor<24xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64>, tensor<24xi64> -> tensor<24xf64>
  %s = sojourn.reduce_sum %x, dims = [0] : tensor<24xf64>
  return %s : tensor<f64>
}
}

// -----

// A draw of a part: its population is the part's, 80 of the table's 100 rows.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
// expected-remark@below {{draw 0: 8 of 80 rows expected in 24 slots, 1 releases}}
func.func @step(%e: tensor<i64> {sojourn.kind = "seed"}, %t: !sojourn.table<100, "a": f64> {sojourn.kind = "table"})
    -> (tensor<f64> {sojourn.result = "publish"}) {
  %p = sojourn.iota dim = 0 : tensor<24xi64>
  %j = sojourn.sample_rows %p, %e, %e of %t, part = [first 0.8], expected = 8
    : tensor<24xi64>, tensor<i64>, tensor<i64>, !sojourn.table<100, "a": f64> -> tensor<24xi64>
  %i = sojourn.sample_rows %j, %e, %e of %t, split = [first 0.8]
    : tensor<24xi64>, tensor<i64>, tensor<i64>, !sojourn.table<100, "a": f64> -> tensor<24xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64>, tensor<24xi64> -> tensor<24xf64>
  %s = sojourn.reduce_sum %x, dims = [0] : tensor<24xf64>
  return %s : tensor<f64>
}
}

// -----

// No type says how many rows this table has: `rows` does.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
// expected-remark@below {{draw 0: 8 of 200 rows expected in 24 slots, 1 releases}}
func.func @step(%e: tensor<i64> {sojourn.kind = "seed"}, %t: !sojourn.table<?, "a": f64> {sojourn.kind = "table"})
    -> (tensor<f64> {sojourn.result = "publish"}) {
  %p = sojourn.iota dim = 0 : tensor<24xi64>
  %i = sojourn.sample_rows %p, %e, %e of %t, expected = 8
    : tensor<24xi64>, tensor<i64>, tensor<i64>, !sojourn.table<?, "a": f64> -> tensor<24xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<?, "a": f64>, tensor<24xi64> -> tensor<24xf64>
  %s = sojourn.reduce_sum %x, dims = [0] : tensor<24xf64>
  return %s : tensor<f64>
}
}

// -----

// A count that bounds decide is public and costs nothing.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
// expected-remark@below {{draw 0: 8 rows, 0 releases}}
func.func @step(%t: !sojourn.table<100, "k": i64> {sojourn.kind = "table"}) -> (tensor<i64> {sojourn.result = "publish"}) {
  %ignored = sojourn.constant -100 : i64
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %k = sojourn.read_rows %t, %i, columns = ["k"] : !sojourn.table<100, "k": i64>, tensor<8xi64> -> tensor<8xi64>
  %valid = sojourn.compare "ne" %k, %ignored : tensor<8xi64>, tensor<i64>
  %one = sojourn.convert %valid : tensor<8xi1> -> tensor<8xi64>
  %count = sojourn.reduce_sum %one, dims = [0] : tensor<8xi64>
  return %count : tensor<i64>
}
}

// -----

// What is kept may stay private; it is refused when it is published, or when rows meet it.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
// expected-remark@below {{draw 0: 8 rows, 0 releases}}
func.func @step(%t: !sojourn.table<100, "a": f64> {sojourn.kind = "table"})
    -> (tensor<8xf64> {sojourn.result = "keep"}, tensor<f64> {sojourn.result = "keep"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64>, tensor<8xi64> -> tensor<8xf64>
  %s = sojourn.reduce_sum %x, dims = [0] : tensor<8xf64>
  return %x, %s : tensor<8xf64>, tensor<f64>
}
}

// -----

// Both neighbours are rounded to the grid, which moves each of 4,096 numbers by one unit at most, and all of them by 64. A
// row moves the sum by 2 * 64 = 128, that is 128 * 2^11 = 262,144 units.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
// expected-remark@below {{draw 0: 8 rows, 1 releases}}
func.func @step(%t: !sojourn.table<100, "a": 4096xf64> {sojourn.kind = "table"}) -> (tensor<4096xf64> {sojourn.result = "publish"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": 4096xf64>, tensor<8xi64> -> tensor<8x4096xf64>
  // expected-remark-re@below {{published result 0: bound 128.00000{{.*}}, 4096 numbers, sensitivity 262208.{{.*}} in units of 2^-11}}
  %s = sojourn.reduce_sum %x, dims = [0] : tensor<8x4096xf64>
  return %s : tensor<4096xf64>
}
}

// -----

// The number of labels that count is between 1 and 8, and private; 8 stands for it where the loss is divided by it.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
// expected-remark@below {{draw 0: 8 rows, 1 releases}}
// expected-remark@below {{a private divisor of the loss was replaced by its largest possible value, 8.0000}}
func.func @step(%w: tensor<2xf64> {sojourn.kind = "state"}, %t: !sojourn.table<100, "a": f64, "b": f64, "k": i64> {sojourn.kind = "table"})
    -> (tensor<2xf64> {sojourn.result = "commit", sojourn.target = 0}) {
  %two = sojourn.constant 2 : i64
  %one = sojourn.constant 1.0 : f64
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a", "b"]
    : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8x2xf64>
  %k = sojourn.read_rows %t, %i, columns = ["k"] : !sojourn.table<100, "a": f64, "b": f64, "k": i64>, tensor<8xi64> -> tensor<8xi64>
  %valid = sojourn.compare "ne" %k, %two : tensor<8xi64>, tensor<i64>
  %counts = sojourn.convert %valid : tensor<8xi1> -> tensor<8xf64>
  %number = sojourn.reduce_sum %counts, dims = [0] : tensor<8xf64>
  %divisor = sojourn.max %number, %one : tensor<f64>, tensor<f64>
  %o = sojourn.dot %x, %w, lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [0]
    : tensor<8x2xf64>, tensor<2xf64> -> tensor<8xf64>
  %masked = sojourn.mul %o, %counts : tensor<8xf64>, tensor<8xf64>
  %d = sojourn.div %masked, %divisor : tensor<8xf64>, tensor<f64>
  // expected-remark@below {{gradient of 1 tensors: bound 0.12500000}}
  %g = sojourn.dot %d, %x, lhs_batch = [], rhs_batch = [], lhs_contract = [0], rhs_contract = [0]
    : tensor<8xf64>, tensor<8x2xf64> -> tensor<2xf64>
  %next = sojourn.sub %w, %g : tensor<2xf64>, tensor<2xf64>
  return %next : tensor<2xf64>
}
}
