// SPDX-License-Identifier: Apache-2.0
// Layer and batch normalization; running statistics come out as further results.
// RUN: sojourn-opt %s --split-input-file --sojourn-decompose | FileCheck %s

// Layer norm.
module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[A0:arg[0-9]+]]: {{[^%]+}}%[[A1:arg[0-9]+]]: {{[^%]+}}%[[A2:arg[0-9]+]]: {{[^%]+}}%[[A3:arg[0-9]+]]: {{[^%]+}}
  func.func @step(%x: tensor<4x8xf32> {sojourn.kind = "upload"}, %w: tensor<8xf32> {sojourn.kind = "upload"}, %b: tensor<8xf32> {sojourn.kind = "upload"}, %e: tensor<f64> {sojourn.kind = "slot"}) -> (tensor<4x8xf32> {sojourn.result = "keep"}) {
    // CHECK-NEXT: %[[V0:.+]] = sojourn.convert %[[A3]] : tensor<f64> -> tensor<f32>
    // CHECK-NEXT: %[[V1:.+]] = sojourn.reduce_sum %[[A0]], dims = [1] : tensor<4x8xf32>
    // CHECK-NEXT: %[[V2:.+]] = sojourn.reshape %[[V1]] : tensor<4xf32> -> tensor<4x1xf32>
    // CHECK-NEXT: %[[V3:.+]] = sojourn.constant 8.000000e+00 : f32
    // CHECK-NEXT: %[[V4:.+]] = sojourn.div %[[V2]], %[[V3]] : tensor<4x1xf32>, tensor<f32>
    // CHECK-NEXT: %[[V5:.+]] = sojourn.broadcast %[[V4]], dims = [0, 1] : tensor<4x1xf32> -> tensor<4x8xf32>
    // CHECK-NEXT: %[[V6:.+]] = sojourn.sub %[[A0]], %[[V5]] : tensor<4x8xf32>, tensor<4x8xf32>
    // CHECK-NEXT: %[[V7:.+]] = sojourn.mul %[[V6]], %[[V6]] : tensor<4x8xf32>, tensor<4x8xf32>
    // CHECK-NEXT: %[[V8:.+]] = sojourn.reduce_sum %[[V7]], dims = [1] : tensor<4x8xf32>
    // CHECK-NEXT: %[[V9:.+]] = sojourn.reshape %[[V8]] : tensor<4xf32> -> tensor<4x1xf32>
    // CHECK-NEXT: %[[V10:.+]] = sojourn.constant 8.000000e+00 : f32
    // CHECK-NEXT: %[[V11:.+]] = sojourn.div %[[V9]], %[[V10]] : tensor<4x1xf32>, tensor<f32>
    // CHECK-NEXT: %[[V12:.+]] = sojourn.add %[[V11]], %[[V0]] : tensor<4x1xf32>, tensor<f32>
    // CHECK-NEXT: %[[V13:.+]] = sojourn.sqrt %[[V12]] : tensor<4x1xf32>
    // CHECK-NEXT: %[[V14:.+]] = sojourn.constant 1.000000e+00 : f32
    // CHECK-NEXT: %[[V15:.+]] = sojourn.div %[[V14]], %[[V13]] : tensor<f32>, tensor<4x1xf32>
    // CHECK-NEXT: %[[V16:.+]] = sojourn.broadcast %[[V15]], dims = [0, 1] : tensor<4x1xf32> -> tensor<4x8xf32>
    // CHECK-NEXT: %[[V17:.+]] = sojourn.mul %[[V6]], %[[V16]] : tensor<4x8xf32>, tensor<4x8xf32>
    // CHECK-NEXT: %[[V18:.+]] = sojourn.broadcast %[[A1]], dims = [1] : tensor<8xf32> -> tensor<4x8xf32>
    // CHECK-NEXT: %[[V19:.+]] = sojourn.mul %[[V17]], %[[V18]] : tensor<4x8xf32>, tensor<4x8xf32>
    // CHECK-NEXT: %[[V20:.+]] = sojourn.broadcast %[[A2]], dims = [1] : tensor<8xf32> -> tensor<4x8xf32>
    // CHECK-NEXT: %[[V21:.+]] = sojourn.add %[[V19]], %[[V20]] : tensor<4x8xf32>, tensor<4x8xf32>
    // CHECK-NEXT: return %[[V21]] : tensor<4x8xf32>
    %r:3 = sojourn.aten "aten.native_layer_norm"(%x, %w, %b, %e)
      {args = [#sojourn.operand<0>, [8 : i64], #sojourn.operand<1>, #sojourn.operand<2>, #sojourn.operand<3>], names = ["input", "normalized_shape", "weight", "bias", "eps"]}
      : (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f64>) -> (tensor<4x8xf32>, tensor<4x1xf32>, tensor<4x1xf32>)
    return %r#0 : tensor<4x8xf32>
  }
}

// -----

// Batch norm in training.
module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[A0:arg[0-9]+]]: {{[^%]+}}%[[A1:arg[0-9]+]]: {{[^%]+}}%[[A2:arg[0-9]+]]: {{[^%]+}}%[[A3:arg[0-9]+]]: {{[^%]+}}%[[A4:arg[0-9]+]]: {{[^%]+}}
  func.func @step(%m: tensor<2xf32> {sojourn.kind = "state"}, %v: tensor<2xf32> {sojourn.kind = "state"}, %x: tensor<4x2xf32> {sojourn.kind = "upload"}, %mo: tensor<f64> {sojourn.kind = "slot"}, %e: tensor<f64> {sojourn.kind = "slot"}) -> (tensor<4x2xf32> {sojourn.result = "keep"}, tensor<2xf32> {sojourn.result = "commit", sojourn.target = 0 : i64}, tensor<2xf32> {sojourn.result = "commit", sojourn.target = 1 : i64}) {
    // CHECK-NEXT: %[[V0:.+]] = sojourn.convert %[[A4]] : tensor<f64> -> tensor<f32>
    // CHECK-NEXT: %[[V1:.+]] = sojourn.reduce_sum %[[A2]], dims = [0] : tensor<4x2xf32>
    // CHECK-NEXT: %[[V2:.+]] = sojourn.reshape %[[V1]] : tensor<2xf32> -> tensor<1x2xf32>
    // CHECK-NEXT: %[[V3:.+]] = sojourn.constant 4.000000e+00 : f32
    // CHECK-NEXT: %[[V4:.+]] = sojourn.div %[[V2]], %[[V3]] : tensor<1x2xf32>, tensor<f32>
    // CHECK-NEXT: %[[V5:.+]] = sojourn.broadcast %[[V4]], dims = [0, 1] : tensor<1x2xf32> -> tensor<4x2xf32>
    // CHECK-NEXT: %[[V6:.+]] = sojourn.sub %[[A2]], %[[V5]] : tensor<4x2xf32>, tensor<4x2xf32>
    // CHECK-NEXT: %[[V7:.+]] = sojourn.mul %[[V6]], %[[V6]] : tensor<4x2xf32>, tensor<4x2xf32>
    // CHECK-NEXT: %[[V8:.+]] = sojourn.reduce_sum %[[V7]], dims = [0] : tensor<4x2xf32>
    // CHECK-NEXT: %[[V9:.+]] = sojourn.reshape %[[V4]] : tensor<1x2xf32> -> tensor<2xf32>
    // CHECK-NEXT: %[[V10:.+]] = sojourn.constant 4.000000e+00 : f32
    // CHECK-NEXT: %[[V11:.+]] = sojourn.div %[[V8]], %[[V10]] : tensor<2xf32>, tensor<f32>
    // CHECK-NEXT: %[[V12:.+]] = sojourn.add %[[V11]], %[[V0]] : tensor<2xf32>, tensor<f32>
    // CHECK-NEXT: %[[V13:.+]] = sojourn.sqrt %[[V12]] : tensor<2xf32>
    // CHECK-NEXT: %[[V14:.+]] = sojourn.constant 1.000000e+00 : f32
    // CHECK-NEXT: %[[V15:.+]] = sojourn.div %[[V14]], %[[V13]] : tensor<f32>, tensor<2xf32>
    // CHECK-NEXT: %[[V16:.+]] = sojourn.convert %[[A3]] : tensor<f64> -> tensor<f32>
    // CHECK-NEXT: %[[V17:.+]] = sojourn.constant 1.000000e+00 : f32
    // CHECK-NEXT: %[[V18:.+]] = sojourn.sub %[[V17]], %[[V16]] : tensor<f32>, tensor<f32>
    // CHECK-NEXT: %[[V19:.+]] = sojourn.mul %[[V16]], %[[V9]] : tensor<f32>, tensor<2xf32>
    // CHECK-NEXT: %[[V20:.+]] = sojourn.mul %[[V18]], %[[A0]] : tensor<f32>, tensor<2xf32>
    // CHECK-NEXT: %[[V21:.+]] = sojourn.add %[[V20]], %[[V19]] : tensor<2xf32>, tensor<2xf32>
    // CHECK-NEXT: %[[V22:.+]] = sojourn.constant 3.000000e+00 : f32
    // CHECK-NEXT: %[[V23:.+]] = sojourn.div %[[V8]], %[[V22]] : tensor<2xf32>, tensor<f32>
    // CHECK-NEXT: %[[V24:.+]] = sojourn.mul %[[V16]], %[[V23]] : tensor<f32>, tensor<2xf32>
    // CHECK-NEXT: %[[V25:.+]] = sojourn.mul %[[V18]], %[[A1]] : tensor<f32>, tensor<2xf32>
    // CHECK-NEXT: %[[V26:.+]] = sojourn.add %[[V25]], %[[V24]] : tensor<2xf32>, tensor<2xf32>
    // CHECK-NEXT: %[[V27:.+]] = sojourn.reshape %[[V15]] : tensor<2xf32> -> tensor<1x2xf32>
    // CHECK-NEXT: %[[V28:.+]] = sojourn.reshape %[[V9]] : tensor<2xf32> -> tensor<1x2xf32>
    // CHECK-NEXT: %[[V29:.+]] = sojourn.broadcast %[[V28]], dims = [0, 1] : tensor<1x2xf32> -> tensor<4x2xf32>
    // CHECK-NEXT: %[[V30:.+]] = sojourn.sub %[[A2]], %[[V29]] : tensor<4x2xf32>, tensor<4x2xf32>
    // CHECK-NEXT: %[[V31:.+]] = sojourn.broadcast %[[V27]], dims = [0, 1] : tensor<1x2xf32> -> tensor<4x2xf32>
    // CHECK-NEXT: %[[V32:.+]] = sojourn.mul %[[V30]], %[[V31]] : tensor<4x2xf32>, tensor<4x2xf32>
    // CHECK-NEXT: return %[[V32]], %[[V21]], %[[V26]] : tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>
    %r:5 = sojourn.aten "aten.native_batch_norm"(%x, %m, %v, %mo, %e)
      {args = [#sojourn.operand<0>, unit, unit, #sojourn.operand<1>, #sojourn.operand<2>, true, #sojourn.operand<3>, #sojourn.operand<4>], names = ["input", "weight", "bias", "running_mean", "running_var", "training", "momentum", "eps"]}
      : (tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<f64>, tensor<f64>) -> (tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>)
    return %r#0, %r#3, %r#4 : tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>
  }
}
