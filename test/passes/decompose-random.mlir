// SPDX-License-Identifier: Apache-2.0
// Draws come from the call's seed; dropout keeps where the draw is below 1 - p.
// RUN: sojourn-opt %s --split-input-file --sojourn-decompose | FileCheck %s

// Dropout.
module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[A0:arg[0-9]+]]: {{[^%]+}}%[[A1:arg[0-9]+]]: {{[^%]+}}%[[A2:arg[0-9]+]]: {{[^%]+}}
  func.func @step(%x: tensor<2x3xf32> {sojourn.kind = "upload"}, %p: tensor<f64> {sojourn.kind = "slot"}, %s: tensor<i64> {sojourn.kind = "seed"}) -> (tensor<2x3xf32> {sojourn.result = "keep"}, tensor<2x3xi1> {sojourn.result = "keep"}) {
    // CHECK-NEXT: %[[V0:.+]] = sojourn.constant 1.000000e+00 : f64
    // CHECK-NEXT: %[[V1:.+]] = sojourn.sub %[[V0]], %[[A1]] : tensor<f64>, tensor<f64>
    // CHECK-NEXT: %[[V2:.+]] = sojourn.convert %[[V1]] : tensor<f64> -> tensor<f32>
    // CHECK-NEXT: %[[V3:.+]] = sojourn.rng_uniform %[[A2]], stream = 0 : tensor<2x3xf32>
    // CHECK-NEXT: %[[V4:.+]] = sojourn.compare "lt" %[[V3]], %[[V2]] : tensor<2x3xf32>, tensor<f32>
    // CHECK-NEXT: %[[V5:.+]] = sojourn.constant 1.000000e+00 : f64
    // CHECK-NEXT: %[[V6:.+]] = sojourn.div %[[V5]], %[[V1]] : tensor<f64>, tensor<f64>
    // CHECK-NEXT: %[[V7:.+]] = sojourn.constant 0.000000e+00 : f64
    // CHECK-NEXT: %[[V8:.+]] = sojourn.compare "eq" %[[V1]], %[[V7]] : tensor<f64>, tensor<f64>
    // CHECK-NEXT: %[[V9:.+]] = sojourn.constant 0.000000e+00 : f64
    // CHECK-NEXT: %[[V10:.+]] = sojourn.select %[[V8]], %[[V9]], %[[V6]] : tensor<i1>, tensor<f64>, tensor<f64>
    // CHECK-NEXT: %[[V11:.+]] = sojourn.convert %[[V10]] : tensor<f64> -> tensor<f32>
    // CHECK-NEXT: %[[V12:.+]] = sojourn.convert %[[V4]] : tensor<2x3xi1> -> tensor<2x3xf32>
    // CHECK-NEXT: %[[V13:.+]] = sojourn.mul %[[A0]], %[[V12]] : tensor<2x3xf32>, tensor<2x3xf32>
    // CHECK-NEXT: %[[V14:.+]] = sojourn.mul %[[V13]], %[[V11]] : tensor<2x3xf32>, tensor<f32>
    // CHECK-NEXT: return %[[V14]], %[[V4]] : tensor<2x3xf32>, tensor<2x3xi1>
    %r:2 = sojourn.aten "aten.native_dropout"(%x, %p, %s)
      {args = [#sojourn.operand<0>, #sojourn.operand<1>, true, #sojourn.operand<2>], names = ["input", "p", "train", "seed"]}
      : (tensor<2x3xf32>, tensor<f64>, tensor<i64>) -> (tensor<2x3xf32>, tensor<2x3xi1>)
    return %r#0, %r#1 : tensor<2x3xf32>, tensor<2x3xi1>
  }
}

// -----

// A permutation sorts 63 random bits.
module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[A0:arg[0-9]+]]: {{[^%]+}}
  func.func @step(%s: tensor<i64> {sojourn.kind = "seed"}) -> (tensor<4xi64> {sojourn.result = "keep"}) {
    // CHECK-NEXT: %[[V0:.+]] = sojourn.rng_bits %[[A0]], stream = 0 : tensor<4xi64>
    // CHECK-NEXT: %[[V1:.+]] = sojourn.rng_bits %[[A0]], stream = 1 : tensor<4xi64>
    // CHECK-NEXT: %[[V2:.+]] = sojourn.constant 31 : i64
    // CHECK-NEXT: %[[V3:.+]] = sojourn.constant 1 : i64
    // CHECK-NEXT: %[[V4:.+]] = sojourn.shr %[[V1]], %[[V3]] : tensor<4xi64>, tensor<i64>
    // CHECK-NEXT: %[[V5:.+]] = sojourn.shl %[[V0]], %[[V2]] : tensor<4xi64>, tensor<i64>
    // CHECK-NEXT: %[[V6:.+]] = sojourn.or %[[V5]], %[[V4]] : tensor<4xi64>, tensor<4xi64>
    // CHECK-NEXT: %[[V7:.+]], %[[V8:.+]] = sojourn.sort %[[V6]], dim = 0, descending = false : tensor<4xi64>
    // CHECK-NEXT: return %[[V8]] : tensor<4xi64>
    %r = sojourn.aten "aten.randperm"(%s)
      {args = [4 : i64, i64, unit, unit, unit, #sojourn.operand<0>], names = ["n", "dtype", "layout", "device", "pin_memory", "seed"]}
      : (tensor<i64>) -> tensor<4xi64>
    return %r : tensor<4xi64>
  }
}
