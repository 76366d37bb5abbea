// SPDX-License-Identifier: Apache-2.0
// The row maximum is subtracted; log-softmax is never the logarithm of a softmax.
// RUN: sojourn-opt %s --split-input-file --sojourn-decompose | FileCheck %s

// Log-softmax.
module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[A0:arg[0-9]+]]: {{[^%]+}}
  func.func @step(%x: tensor<2x3xf32> {sojourn.kind = "upload"}) -> (tensor<2x3xf32> {sojourn.result = "keep"}) {
    // CHECK-NEXT: %[[V0:.+]] = sojourn.reduce_max %[[A0]], dims = [1] : tensor<2x3xf32>
    // CHECK-NEXT: %[[V1:.+]] = sojourn.reshape %[[V0]] : tensor<2xf32> -> tensor<2x1xf32>
    // CHECK-NEXT: %[[V2:.+]] = sojourn.broadcast %[[V1]], dims = [0, 1] : tensor<2x1xf32> -> tensor<2x3xf32>
    // CHECK-NEXT: %[[V3:.+]] = sojourn.sub %[[A0]], %[[V2]] : tensor<2x3xf32>, tensor<2x3xf32>
    // CHECK-NEXT: %[[V4:.+]] = sojourn.exp %[[V3]] : tensor<2x3xf32>
    // CHECK-NEXT: %[[V5:.+]] = sojourn.reduce_sum %[[V4]], dims = [1] : tensor<2x3xf32>
    // CHECK-NEXT: %[[V6:.+]] = sojourn.reshape %[[V5]] : tensor<2xf32> -> tensor<2x1xf32>
    // CHECK-NEXT: %[[V7:.+]] = sojourn.log %[[V6]] : tensor<2x1xf32>
    // CHECK-NEXT: %[[V8:.+]] = sojourn.broadcast %[[V7]], dims = [0, 1] : tensor<2x1xf32> -> tensor<2x3xf32>
    // CHECK-NEXT: %[[V9:.+]] = sojourn.sub %[[V3]], %[[V8]] : tensor<2x3xf32>, tensor<2x3xf32>
    // CHECK-NEXT: return %[[V9]] : tensor<2x3xf32>
    %r = sojourn.aten "aten._log_softmax"(%x)
      {args = [#sojourn.operand<0>, -1 : i64, false], names = ["self", "dim", "half_to_float"]}
      : (tensor<2x3xf32>) -> tensor<2x3xf32>
    return %r : tensor<2x3xf32>
  }
}

// -----

// Rows of -inf alone become 0.
module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[A0:arg[0-9]+]]: {{[^%]+}}
  func.func @step(%x: tensor<2x3xf32> {sojourn.kind = "upload"}) -> (tensor<2x3xf32> {sojourn.result = "keep"}) {
    // CHECK-NEXT: %[[V0:.+]] = sojourn.reduce_max %[[A0]], dims = [1] : tensor<2x3xf32>
    // CHECK-NEXT: %[[V1:.+]] = sojourn.reshape %[[V0]] : tensor<2xf32> -> tensor<2x1xf32>
    // CHECK-NEXT: %[[V2:.+]] = sojourn.constant 0xFF800000 : f32
    // CHECK-NEXT: %[[V3:.+]] = sojourn.compare "eq" %[[V1]], %[[V2]] : tensor<2x1xf32>, tensor<f32>
    // CHECK-NEXT: %[[V4:.+]] = sojourn.constant 0.000000e+00 : f32
    // CHECK-NEXT: %[[V5:.+]] = sojourn.select %[[V3]], %[[V4]], %[[V1]] : tensor<2x1xi1>, tensor<f32>, tensor<2x1xf32>
    // CHECK-NEXT: %[[V6:.+]] = sojourn.broadcast %[[V5]], dims = [0, 1] : tensor<2x1xf32> -> tensor<2x3xf32>
    // CHECK-NEXT: %[[V7:.+]] = sojourn.sub %[[A0]], %[[V6]] : tensor<2x3xf32>, tensor<2x3xf32>
    // CHECK-NEXT: %[[V8:.+]] = sojourn.exp %[[V7]] : tensor<2x3xf32>
    // CHECK-NEXT: %[[V9:.+]] = sojourn.reduce_sum %[[V8]], dims = [1] : tensor<2x3xf32>
    // CHECK-NEXT: %[[V10:.+]] = sojourn.reshape %[[V9]] : tensor<2xf32> -> tensor<2x1xf32>
    // CHECK-NEXT: %[[V11:.+]] = sojourn.broadcast %[[V10]], dims = [0, 1] : tensor<2x1xf32> -> tensor<2x3xf32>
    // CHECK-NEXT: %[[V12:.+]] = sojourn.div %[[V8]], %[[V11]] : tensor<2x3xf32>, tensor<2x3xf32>
    // CHECK-NEXT: %[[V13:.+]] = sojourn.constant 0.000000e+00 : f32
    // CHECK-NEXT: %[[V14:.+]] = sojourn.broadcast %[[V3]], dims = [0, 1] : tensor<2x1xi1> -> tensor<2x3xi1>
    // CHECK-NEXT: %[[V15:.+]] = sojourn.select %[[V14]], %[[V13]], %[[V12]] : tensor<2x3xi1>, tensor<f32>, tensor<2x3xf32>
    // CHECK-NEXT: return %[[V15]] : tensor<2x3xf32>
    %r = sojourn.aten "aten._safe_softmax"(%x)
      {args = [#sojourn.operand<0>, 1 : i64, unit], names = ["self", "dim", "dtype"]}
      : (tensor<2x3xf32>) -> tensor<2x3xf32>
    return %r : tensor<2x3xf32>
  }
}

// -----

// Gradient.
module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[A0:arg[0-9]+]]: {{[^%]+}}%[[A1:arg[0-9]+]]: {{[^%]+}}
  func.func @step(%g: tensor<2x3xf32> {sojourn.kind = "upload"}, %y: tensor<2x3xf32> {sojourn.kind = "upload"}) -> (tensor<2x3xf32> {sojourn.result = "keep"}) {
    // CHECK-NEXT: %[[V0:.+]] = sojourn.mul %[[A0]], %[[A1]] : tensor<2x3xf32>, tensor<2x3xf32>
    // CHECK-NEXT: %[[V1:.+]] = sojourn.reduce_sum %[[V0]], dims = [1] : tensor<2x3xf32>
    // CHECK-NEXT: %[[V2:.+]] = sojourn.reshape %[[V1]] : tensor<2xf32> -> tensor<2x1xf32>
    // CHECK-NEXT: %[[V3:.+]] = sojourn.broadcast %[[V2]], dims = [0, 1] : tensor<2x1xf32> -> tensor<2x3xf32>
    // CHECK-NEXT: %[[V4:.+]] = sojourn.mul %[[A1]], %[[V3]] : tensor<2x3xf32>, tensor<2x3xf32>
    // CHECK-NEXT: %[[V5:.+]] = sojourn.sub %[[V0]], %[[V4]] : tensor<2x3xf32>, tensor<2x3xf32>
    // CHECK-NEXT: return %[[V5]] : tensor<2x3xf32>
    %r = sojourn.aten "aten._softmax_backward_data"(%g, %y)
      {args = [#sojourn.operand<0>, #sojourn.operand<1>, 1 : i64, f32], names = ["grad_output", "output", "dim", "input_dtype"]}
      : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    return %r : tensor<2x3xf32>
  }
}
