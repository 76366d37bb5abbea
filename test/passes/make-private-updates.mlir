// SPDX-License-Identifier: Apache-2.0
// Steps that update more than once, and updates by gradients that do not depend on the weights.
// RUN: sojourn-opt %s -split-input-file --sojourn-make-private="bounds=a=-1:3 noise-multiplier=1" --verify-diagnostics=only-expected

// Two updates by the same rows: two releases on one draw, which share what a step has for gradients.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
// expected-remark@below {{draw 0: 8 rows, 2 releases}}
func.func @step(%w: tensor<f64> {sojourn.kind = "state"}, %t: !sojourn.table<100, "a": f64> {sojourn.kind = "table"})
    -> (tensor<f64> {sojourn.result = "commit", sojourn.target = 0}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64>, tensor<8xi64> -> tensor<8xf64>
  %w0 = sojourn.broadcast %w, dims = [] : tensor<f64> -> tensor<8xf64>
  %h0 = sojourn.mul %x, %w0 : tensor<8xf64>, tensor<8xf64>
  // expected-remark-re@below {{gradient of 1 tensors: bound 0.12500000, 1 numbers, {{.*}} rho 0.2375}}
  %g0 = sojourn.reduce_sum %h0, dims = [0] : tensor<8xf64>
  %v = sojourn.sub %w, %g0 : tensor<f64>, tensor<f64>
  %w1 = sojourn.broadcast %v, dims = [] : tensor<f64> -> tensor<8xf64>
  %h1 = sojourn.mul %x, %w1 : tensor<8xf64>, tensor<8xf64>
  // expected-remark-re@below {{gradient of 1 tensors: bound 0.12500000, 1 numbers, {{.*}} rho 0.2375}}
  %g1 = sojourn.reduce_sum %h1, dims = [0] : tensor<8xf64>
  %u = sojourn.sub %v, %g1 : tensor<f64>, tensor<f64>
  return %u : tensor<f64>
}
}

// -----

// By the rows of two draws: each is a charge of its own, and neither shares. What is published shares with metrics alone.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
// expected-remark@below {{draw 0: 8 rows, 1 releases}}
// expected-remark@below {{draw 1: 4 rows, 2 releases}}
func.func @step(%w: tensor<f64> {sojourn.kind = "state"}, %t: !sojourn.table<100, "a": f64> {sojourn.kind = "table"})
    -> (tensor<f64> {sojourn.result = "commit", sojourn.target = 0}, tensor<f64> {sojourn.result = "publish"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %k = sojourn.iota dim = 0 : tensor<4xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64>, tensor<8xi64> -> tensor<8xf64>
  %y = sojourn.read_rows %t, %k, columns = ["a"] : !sojourn.table<100, "a": f64>, tensor<4xi64> -> tensor<4xf64>
  %w0 = sojourn.broadcast %w, dims = [] : tensor<f64> -> tensor<8xf64>
  %h0 = sojourn.mul %x, %w0 : tensor<8xf64>, tensor<8xf64>
  // expected-remark-re@below {{gradient of 1 tensors: bound 0.12500000, 1 numbers, {{.*}} rho 0.47}}
  %g0 = sojourn.reduce_sum %h0, dims = [0] : tensor<8xf64>
  %v = sojourn.sub %w, %g0 : tensor<f64>, tensor<f64>
  %w1 = sojourn.broadcast %v, dims = [] : tensor<f64> -> tensor<4xf64>
  %h1 = sojourn.mul %y, %w1 : tensor<4xf64>, tensor<4xf64>
  // expected-remark-re@below {{gradient of 1 tensors: bound 0.25000000, 1 numbers, {{.*}} rho 0.47}}
  %g1 = sojourn.reduce_sum %h1, dims = [0] : tensor<4xf64>
  %u = sojourn.sub %v, %g1 : tensor<f64>, tensor<f64>
  // expected-remark-re@below {{published result 1: bound 2.00000000, 1 numbers, {{.*}} rho 0.025}}
  %s = sojourn.reduce_sum %y, dims = [0] : tensor<4xf64>
  return %u, %s : tensor<f64>, tensor<f64>
}
}

// -----

// A loss that is linear in the weights: its gradient is the same whatever they are, and no less a sum over rows.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
// expected-remark@below {{draw 0: 8 rows, 1 releases}}
func.func @step(%w: tensor<f64> {sojourn.kind = "state"}, %t: !sojourn.table<100, "a": f64> {sojourn.kind = "table"})
    -> (tensor<f64> {sojourn.result = "commit", sojourn.target = 0, sojourn.trained}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64>, tensor<8xi64> -> tensor<8xf64>
  // expected-remark-re@below {{gradient of 1 tensors: bound 0.12500000, 1 numbers, {{.*}} rho 0.47}}
  %g = sojourn.reduce_sum %x, dims = [0] : tensor<8xf64>
  %v = sojourn.sub %w, %g : tensor<f64>, tensor<f64>
  return %v : tensor<f64>
}
}

// -----

// Likewise in the step that brings the weights along, whose next value is kept.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
// expected-remark@below {{draw 0: 8 rows, 1 releases}}
func.func @step(%t: !sojourn.table<100, "a": f64> {sojourn.kind = "table"})
    -> (tensor<f64> {sojourn.result = "keep", sojourn.trained}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64>, tensor<8xi64> -> tensor<8xf64>
  %g = sojourn.reduce_sum %x, dims = [0] : tensor<8xf64>
  // expected-remark-re@below {{gradient of 1 tensors: {{.*}} rho 0.47}}
  %v = sojourn.neg %g : tensor<f64>
  return %v : tensor<f64>
}
}

// -----

// What is not said to be trained is a sum that was added up without noise.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
func.func @step(%w: tensor<f64> {sojourn.kind = "state"}, %t: !sojourn.table<100, "a": f64> {sojourn.kind = "table"})
    -> (tensor<f64> {sojourn.result = "commit", sojourn.target = 0}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64>, tensor<8xi64> -> tensor<8xf64>
  // expected-error@below {{a sum over private rows is kept without noise in a tensor that the model does not train}}
  %g = sojourn.reduce_sum %x, dims = [0] : tensor<8xf64>
  %v = sojourn.sub %w, %g : tensor<f64>, tensor<f64>
  return %v : tensor<f64>
}
}

// -----

module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
// expected-error@below {{result #0 of kind publish has sojourn.trained, expected it only on committed or kept results}}
func.func @step(%w: tensor<f64> {sojourn.kind = "state"}) -> (tensor<f64> {sojourn.result = "publish", sojourn.trained}) {
  return %w : tensor<f64>
}
}

// -----

module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
// expected-error@below {{result #0 has sojourn.trained = 1 : i64, expected no value}}
func.func @step(%w: tensor<f64> {sojourn.kind = "state"}) -> (tensor<f64> {sojourn.result = "keep", sojourn.trained = 1}) {
  return %w : tensor<f64>
}
}
