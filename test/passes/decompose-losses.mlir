// SPDX-License-Identifier: Apache-2.0
// Negative log likelihood: ignored targets are chosen away, not multiplied.
// RUN: sojourn-opt %s --split-input-file --sojourn-decompose | FileCheck %s

// Forward, mean.
module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[A0:arg[0-9]+]]: {{[^%]+}}%[[A1:arg[0-9]+]]: {{[^%]+}}
  func.func @step(%x: tensor<4x3xf32> {sojourn.kind = "upload"}, %t: tensor<4xi64> {sojourn.kind = "upload"}) -> (tensor<f32> {sojourn.result = "keep"}, tensor<f32> {sojourn.result = "keep"}) {
    // CHECK-NEXT: %[[V0:.+]] = sojourn.constant -100 : i64
    // CHECK-NEXT: %[[V1:.+]] = sojourn.compare "ne" %[[A1]], %[[V0]] : tensor<4xi64>, tensor<i64>
    // CHECK-NEXT: %[[V2:.+]] = sojourn.constant 0 : i64
    // CHECK-NEXT: %[[V3:.+]] = sojourn.select %[[V1]], %[[A1]], %[[V2]] : tensor<4xi1>, tensor<4xi64>, tensor<i64>
    // CHECK-NEXT: %[[V4:.+]] = sojourn.convert %[[V1]] : tensor<4xi1> -> tensor<4xf32>
    // CHECK-NEXT: %[[V5:.+]] = sojourn.reshape %[[V3]] : tensor<4xi64> -> tensor<4x1xi64>
    // CHECK-NEXT: %[[V6:.+]] = sojourn.take_along %[[A0]], %[[V5]], dim = 1 : tensor<4x3xf32>, tensor<4x1xi64>
    // CHECK-NEXT: %[[V7:.+]] = sojourn.reshape %[[V6]] : tensor<4x1xf32> -> tensor<4xf32>
    // CHECK-NEXT: %[[V8:.+]] = sojourn.neg %[[V7]] : tensor<4xf32>
    // CHECK-NEXT: %[[V9:.+]] = sojourn.mul %[[V8]], %[[V4]] : tensor<4xf32>, tensor<4xf32>
    // CHECK-NEXT: %[[V10:.+]] = sojourn.constant 0.000000e+00 : f32
    // CHECK-NEXT: %[[V11:.+]] = sojourn.select %[[V1]], %[[V9]], %[[V10]] : tensor<4xi1>, tensor<4xf32>, tensor<f32>
    // CHECK-NEXT: %[[V12:.+]] = sojourn.reduce_sum %[[V4]], dims = [0] : tensor<4xf32>
    // CHECK-NEXT: %[[V13:.+]] = sojourn.reduce_sum %[[V11]], dims = [0] : tensor<4xf32>
    // CHECK-NEXT: %[[V14:.+]] = sojourn.div %[[V13]], %[[V12]] : tensor<f32>, tensor<f32>
    // CHECK-NEXT: return %[[V14]], %[[V12]] : tensor<f32>, tensor<f32>
    %r:2 = sojourn.aten "aten.nll_loss_forward"(%x, %t)
      {args = [#sojourn.operand<0>, #sojourn.operand<1>, unit, 1 : i64, -100 : i64], names = ["self", "target", "weight", "reduction", "ignore_index"]}
      : (tensor<4x3xf32>, tensor<4xi64>) -> (tensor<f32>, tensor<f32>)
    return %r#0, %r#1 : tensor<f32>, tensor<f32>
  }
}

// -----

// Binary cross entropy with logits does not overflow.
module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[A0:arg[0-9]+]]: {{[^%]+}}%[[A1:arg[0-9]+]]: {{[^%]+}}
  func.func @step(%x: tensor<4xf32> {sojourn.kind = "upload"}, %t: tensor<4xf32> {sojourn.kind = "upload"}) -> (tensor<f32> {sojourn.result = "keep"}) {
    // CHECK-NEXT: %[[V0:.+]] = sojourn.neg %[[A0]] : tensor<4xf32>
    // CHECK-NEXT: %[[V1:.+]] = sojourn.constant 0.000000e+00 : f32
    // CHECK-NEXT: %[[V2:.+]] = sojourn.max %[[V0]], %[[V1]] : tensor<4xf32>, tensor<f32>
    // CHECK-NEXT: %[[V3:.+]] = sojourn.abs %[[A0]] : tensor<4xf32>
    // CHECK-NEXT: %[[V4:.+]] = sojourn.neg %[[V3]] : tensor<4xf32>
    // CHECK-NEXT: %[[V5:.+]] = sojourn.exp %[[V4]] : tensor<4xf32>
    // CHECK-NEXT: %[[V6:.+]] = sojourn.log1p %[[V5]] : tensor<4xf32>
    // CHECK-NEXT: %[[V7:.+]] = sojourn.add %[[V6]], %[[V2]] : tensor<4xf32>, tensor<4xf32>
    // CHECK-NEXT: %[[V8:.+]] = sojourn.constant 1.000000e+00 : f32
    // CHECK-NEXT: %[[V9:.+]] = sojourn.sub %[[V8]], %[[A1]] : tensor<f32>, tensor<4xf32>
    // CHECK-NEXT: %[[V10:.+]] = sojourn.mul %[[V9]], %[[A0]] : tensor<4xf32>, tensor<4xf32>
    // CHECK-NEXT: %[[V11:.+]] = sojourn.add %[[V10]], %[[V7]] : tensor<4xf32>, tensor<4xf32>
    // CHECK-NEXT: %[[V12:.+]] = sojourn.reduce_sum %[[V11]], dims = [0] : tensor<4xf32>
    // CHECK-NEXT: return %[[V12]] : tensor<f32>
    %r = sojourn.aten "aten.binary_cross_entropy_with_logits"(%x, %t)
      {args = [#sojourn.operand<0>, #sojourn.operand<1>, unit, unit, 2 : i64], names = ["self", "target", "weight", "pos_weight", "reduction"]}
      : (tensor<4xf32>, tensor<4xf32>) -> tensor<f32>
    return %r : tensor<f32>
  }
}
