// SPDX-License-Identifier: Apache-2.0
// Draws come from the call's seed; dropout keeps where the draw is below 1 - p.
// RUN: sojourn-opt %s --split-input-file --sojourn-decompose | FileCheck %s --implicit-check-not=sojourn.aten

// Dropout draws from the call's own seed, keeps where the draw is below 1 - p and scales by 1 / (1 - p), or by 0.
module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[A0:arg[0-9]+]]: {{[^%]+}}%[[A1:arg[0-9]+]]: {{[^%]+}}%[[A2:arg[0-9]+]]: {{[^%]+}}
  func.func @step(%x: tensor<2x3xf32> {sojourn.kind = "upload"}, %p: tensor<f64> {sojourn.kind = "slot"}, %s: tensor<i64> {sojourn.kind = "seed"}) -> (tensor<2x3xf32> {sojourn.result = "keep"}, tensor<2x3xi1> {sojourn.result = "keep"}) {
    // CHECK: %[[ONE:.+]] = sojourn.constant 1.0
    // CHECK-NEXT: %[[REST:.+]] = sojourn.sub %[[ONE]], %[[A1]]
    // CHECK: %[[DRAW:.+]] = sojourn.rng_uniform %[[A2]], stream = 0
    // CHECK: %[[KEPT:.+]] = sojourn.compare "lt" %[[DRAW]],
    // CHECK: sojourn.div %{{.+}}, %[[REST]]
    // CHECK: sojourn.compare "eq" %[[REST]],
    // CHECK: sojourn.select
    // CHECK-NOT: sojourn.rng
    // CHECK: return %{{.+}}, %[[KEPT]] :
    %r:2 = sojourn.aten "aten.native_dropout"(%x, %p, %s)
      {args = [#sojourn.operand<0>, #sojourn.operand<1>, true, #sojourn.operand<2>], names = ["input", "p", "train", "seed"]}
      : (tensor<2x3xf32>, tensor<f64>, tensor<i64>) -> (tensor<2x3xf32>, tensor<2x3xi1>)
    return %r#0, %r#1 : tensor<2x3xf32>, tensor<2x3xi1>
  }
}

// -----

// A permutation sorts 63 random bits, of two streams, and says where they were.
module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[A0:arg[0-9]+]]: {{[^%]+}}
  func.func @step(%s: tensor<i64> {sojourn.kind = "seed"}) -> (tensor<4xi64> {sojourn.result = "keep"}) {
    // CHECK-DAG: %[[HIGH:.+]] = sojourn.rng_bits %[[A0]], stream = 0
    // CHECK-DAG: %[[LOW:.+]] = sojourn.rng_bits %[[A0]], stream = 1
    // CHECK-DAG: sojourn.shr %[[LOW]],
    // CHECK-DAG: sojourn.shl %[[HIGH]],
    // CHECK: %[[BITS:.+]] = sojourn.or
    // CHECK-NEXT: %{{.+}}, %[[WHERE:.+]] = sojourn.sort %[[BITS]], dim = 0
    // CHECK-NEXT: return %[[WHERE]]
    %r = sojourn.aten "aten.randperm"(%s)
      {args = [4 : i64, i64, unit, unit, unit, #sojourn.operand<0>], names = ["n", "dtype", "layout", "device", "pin_memory", "seed"]}
      : (tensor<i64>) -> tensor<4xi64>
    return %r : tensor<4xi64>
  }
}
