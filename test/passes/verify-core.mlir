// SPDX-License-Identifier: Apache-2.0
// Core form lets no other op and no other type through.
// RUN: sojourn-opt %s -split-input-file -verify-diagnostics --sojourn-verify-core | FileCheck %s

// CHECK: sojourn.phase = "core"
module attributes {sojourn.phase = "decomposed", sojourn.promotion = "torch"} {
  func.func @step(%p: tensor<3xf32> {sojourn.kind = "state"}) -> (tensor<3xf32> {sojourn.result = "commit", sojourn.target = 0 : i64}) {
    %0 = sojourn.neg %p : tensor<3xf32>
    return %0 : tensor<3xf32>
  }
}

// -----

module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  func.func @step(%p: tensor<3xf32> {sojourn.kind = "state"}) -> (tensor<3xf32> {sojourn.result = "commit", sojourn.target = 0 : i64}) {
    // expected-error@+1 {{is not an op of core form}}
    %0 = sojourn.aten "aten.neg"(%p) {args = [#sojourn.operand<0>], names = ["self"]} : (tensor<3xf32>) -> tensor<3xf32>
    return %0 : tensor<3xf32>
  }
}
