// SPDX-License-Identifier: Apache-2.0
// Reductions: casts first, variances in two passes, kept dimensions from the recorded shape.
// RUN: sojourn-opt %s --split-input-file --sojourn-decompose | FileCheck %s

// Mean with a kept dimension.
module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[A0:arg[0-9]+]]: {{[^%]+}}
  func.func @step(%x: tensor<2x3xf32> {sojourn.kind = "upload"}) -> (tensor<2x1xf32> {sojourn.result = "keep"}) {
    // CHECK-NEXT: %[[V0:.+]] = sojourn.reduce_sum %[[A0]], dims = [1] : tensor<2x3xf32>
    // CHECK-NEXT: %[[V1:.+]] = sojourn.constant 3.000000e+00 : f32
    // CHECK-NEXT: %[[V2:.+]] = sojourn.div %[[V0]], %[[V1]] : tensor<2xf32>, tensor<f32>
    // CHECK-NEXT: %[[V3:.+]] = sojourn.reshape %[[V2]] : tensor<2xf32> -> tensor<2x1xf32>
    // CHECK-NEXT: return %[[V3]] : tensor<2x1xf32>
    %r = sojourn.aten "aten.mean.dim"(%x)
      {args = [#sojourn.operand<0>, [-1 : i64], true, unit], names = ["self", "dim", "keepdim", "dtype"]}
      : (tensor<2x3xf32>) -> tensor<2x1xf32>
    return %r : tensor<2x1xf32>
  }
}

// -----

// Two-pass variance.
module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[A0:arg[0-9]+]]: {{[^%]+}}
  func.func @step(%x: tensor<2x3xf32> {sojourn.kind = "upload"}) -> (tensor<2xf32> {sojourn.result = "keep"}) {
    // CHECK-NEXT: %[[V0:.+]] = sojourn.reduce_sum %[[A0]], dims = [1] : tensor<2x3xf32>
    // CHECK-NEXT: %[[V1:.+]] = sojourn.reshape %[[V0]] : tensor<2xf32> -> tensor<2x1xf32>
    // CHECK-NEXT: %[[V2:.+]] = sojourn.constant 3.000000e+00 : f32
    // CHECK-NEXT: %[[V3:.+]] = sojourn.div %[[V1]], %[[V2]] : tensor<2x1xf32>, tensor<f32>
    // CHECK-NEXT: %[[V4:.+]] = sojourn.broadcast %[[V3]], dims = [0, 1] : tensor<2x1xf32> -> tensor<2x3xf32>
    // CHECK-NEXT: %[[V5:.+]] = sojourn.sub %[[A0]], %[[V4]] : tensor<2x3xf32>, tensor<2x3xf32>
    // CHECK-NEXT: %[[V6:.+]] = sojourn.mul %[[V5]], %[[V5]] : tensor<2x3xf32>, tensor<2x3xf32>
    // CHECK-NEXT: %[[V7:.+]] = sojourn.reduce_sum %[[V6]], dims = [1] : tensor<2x3xf32>
    // CHECK-NEXT: %[[V8:.+]] = sojourn.constant 1.000000e+00 : f32
    // CHECK-NEXT: %[[V9:.+]] = sojourn.constant 3.000000e+00 : f32
    // CHECK-NEXT: %[[V10:.+]] = sojourn.sub %[[V9]], %[[V8]] : tensor<f32>, tensor<f32>
    // CHECK-NEXT: %[[V11:.+]] = sojourn.constant 0.000000e+00 : f32
    // CHECK-NEXT: %[[V12:.+]] = sojourn.max %[[V10]], %[[V11]] : tensor<f32>, tensor<f32>
    // CHECK-NEXT: %[[V13:.+]] = sojourn.div %[[V7]], %[[V12]] : tensor<2xf32>, tensor<f32>
    // CHECK-NEXT: return %[[V13]] : tensor<2xf32>
    %r = sojourn.aten "aten.var.correction"(%x)
      {args = [#sojourn.operand<0>, [1 : i64], unit, false], names = ["self", "dim", "correction", "keepdim"]}
      : (tensor<2x3xf32>) -> tensor<2xf32>
    return %r : tensor<2xf32>
  }
}

// -----

// Maximum and where it is.
module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[A0:arg[0-9]+]]: {{[^%]+}}
  func.func @step(%x: tensor<2x3xf32> {sojourn.kind = "upload"}) -> (tensor<2xf32> {sojourn.result = "keep"}, tensor<2xi64> {sojourn.result = "keep"}) {
    // CHECK-NEXT: %[[V0:.+]] = sojourn.reduce_max %[[A0]], dims = [1] : tensor<2x3xf32>
    // CHECK-NEXT: %[[V1:.+]] = sojourn.argmax %[[A0]], dim = 1 : tensor<2x3xf32>
    // CHECK-NEXT: return %[[V0]], %[[V1]] : tensor<2xf32>, tensor<2xi64>
    %r:2 = sojourn.aten "aten.max.dim"(%x)
      {args = [#sojourn.operand<0>, 1 : i64, false], names = ["self", "dim", "keepdim"]}
      : (tensor<2x3xf32>) -> (tensor<2xf32>, tensor<2xi64>)
    return %r#0, %r#1 : tensor<2xf32>, tensor<2xi64>
  }
}
