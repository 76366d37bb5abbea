// SPDX-License-Identifier: Apache-2.0
// Clipping per layer: each tensor has a part of the bound, a row moves all of them at once, and the price is that of the
// whole bound.
// RUN: sojourn-opt %s --sojourn-make-private="bounds=a=-1:3,b=0:1 noise-multiplier=1 per-layer" --verify-diagnostics=only-expected

// Two tensors, 1/8 together and 1 / (8 sqrt 2) each. Nothing is published, so they have 95 % of 1/2.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
// expected-remark@below {{draw 0: 8 rows, 1 releases}}
func.func @step(%w: tensor<2xf64> {sojourn.kind = "state"}, %b: tensor<f64> {sojourn.kind = "state"},
                %t: !sojourn.table<100, "a": f64, "b": f64> {sojourn.kind = "table"})
    -> (tensor<2xf64> {sojourn.result = "commit", sojourn.target = 0}, tensor<f64> {sojourn.result = "commit", sojourn.target = 1}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a", "b"] : !sojourn.table<100, "a": f64, "b": f64>, tensor<8xi64> -> tensor<8x2xf64>
  %o = sojourn.dot %x, %w, lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [0]
    : tensor<8x2xf64>, tensor<2xf64> -> tensor<8xf64>
  %y = sojourn.add %o, %b : tensor<8xf64>, tensor<f64>
  // expected-remark-re@below {{gradient of 2 tensors: bound 0.12500000, 3 numbers, {{.*}} rho 0.47}}
  %gw = sojourn.dot %y, %x, lhs_batch = [], rhs_batch = [], lhs_contract = [0], rhs_contract = [0]
    : tensor<8xf64>, tensor<8x2xf64> -> tensor<2xf64>
  %gb = sojourn.reduce_sum %y, dims = [0] : tensor<8xf64>
  %w1 = sojourn.sub %w, %gw : tensor<2xf64>, tensor<2xf64>
  %b1 = sojourn.sub %b, %gb : tensor<f64>, tensor<f64>
  return %w1, %b1 : tensor<2xf64>, tensor<f64>
}
}
