// SPDX-License-Identifier: Apache-2.0
// What each result is computed from: through operands, never through shapes; arguments that are returned; constants.
// RUN: sojourn-opt %s --split-input-file --sojourn-print-dependence --verify-diagnostics

module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
  func.func @step(%a: tensor<2x3xf32>, %b: tensor<2x3xf32>, %c: tensor<2x3xf32>, %seed: tensor<i64>)
      -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<f32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xi64>) {
    %one = sojourn.constant 1.0 : f32
    %ab = sojourn.add %a, %b : tensor<2x3xf32>, tensor<2x3xf32>
    // Not returned, so c does not reach a result this way.
    %unused = sojourn.add %ab, %c : tensor<2x3xf32>, tensor<2x3xf32>
    %u = sojourn.rng_uniform %seed, stream = 0 : tensor<2x3xf32>
    %d = sojourn.mul %ab, %u : tensor<2x3xf32>, tensor<2x3xf32>
    // Both results of one op depend alike.
    %v, %i = sojourn.sort %c, dim = 1, descending = false : tensor<2x3xf32>
    // expected-remark @+6 {{result #0 depends on #0, #1, #3}}
    // expected-remark @+5 {{result #1 depends on #1}}
    // expected-remark @+4 {{result #2 depends on no argument}}
    // expected-remark @+3 {{result #3 depends on #0, #1}}
    // expected-remark @+2 {{result #4 depends on #2}}
    // expected-remark @+1 {{result #5 depends on #2}}
    return %d, %b, %one, %ab, %v, %i
      : tensor<2x3xf32>, tensor<2x3xf32>, tensor<f32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xi64>
  }
}

// -----

// expected-error @+1 {{the module has no straight-line function @step}}
module attributes {sojourn.promotion = "torch"} {
}
