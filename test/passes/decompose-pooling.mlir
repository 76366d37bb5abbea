// SPDX-License-Identifier: Apache-2.0
// Pooling: windows side by side give back by repetition; maxima give back where they were.
// RUN: sojourn-opt %s --split-input-file --sojourn-decompose | FileCheck %s

// Gradient of average pooling without overlap.
module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[A0:arg[0-9]+]]: {{[^%]+}}%[[A1:arg[0-9]+]]: {{[^%]+}}
  func.func @step(%g: tensor<1x2x2x2xf32> {sojourn.kind = "upload"}, %x: tensor<1x2x4x4xf32> {sojourn.kind = "upload"}) -> (tensor<1x2x4x4xf32> {sojourn.result = "keep"}) {
    // CHECK-NEXT: %[[V0:.+]] = sojourn.constant 4.000000e+00 : f32
    // CHECK-NEXT: %[[V1:.+]] = sojourn.div %[[A0]], %[[V0]] : tensor<1x2x2x2xf32>, tensor<f32>
    // CHECK-NEXT: %[[V2:.+]] = sojourn.broadcast %[[V1]], dims = [0, 1, 2, 4] : tensor<1x2x2x2xf32> -> tensor<1x2x2x2x2x2xf32>
    // CHECK-NEXT: %[[V3:.+]] = sojourn.reshape %[[V2]] : tensor<1x2x2x2x2x2xf32> -> tensor<1x2x4x4xf32>
    // CHECK-NEXT: return %[[V3]] : tensor<1x2x4x4xf32>
    %r = sojourn.aten "aten.avg_pool2d_backward"(%g, %x)
      {args = [#sojourn.operand<0>, #sojourn.operand<1>, [2 : i64, 2 : i64], [2 : i64, 2 : i64], [0 : i64, 0 : i64], false, true, unit], names = ["grad_output", "self", "kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override"]}
      : (tensor<1x2x2x2xf32>, tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
    return %r : tensor<1x2x4x4xf32>
  }
}

// -----

// Ceil mode pads by hand and corrects the indices.
module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[A0:arg[0-9]+]]: {{[^%]+}}
  func.func @step(%x: tensor<1x1x3x3xf32> {sojourn.kind = "upload"}) -> (tensor<1x1x2x2xf32> {sojourn.result = "keep"}, tensor<1x1x2x2xi64> {sojourn.result = "keep"}) {
    // CHECK-NEXT: %[[V0:.+]] = sojourn.constant 0xFF800000 : f32
    // CHECK-NEXT: %[[V1:.+]] = sojourn.pad %[[A0]], %[[V0]], low = [0, 0, 0, 0], high = [0, 0, 1, 1], interior = [0, 0, 0, 0] : tensor<1x1x3x3xf32>, tensor<f32>
    // CHECK-NEXT: %[[V2:.+]], %[[V3:.+]] = sojourn.pool_max %[[V1]], window = [2, 2], stride = [2, 2], padding = [0, 0], dilation = [1, 1] : tensor<1x1x4x4xf32>
    // CHECK-NEXT: %[[V4:.+]] = sojourn.constant 4 : i64
    // CHECK-NEXT: %[[V5:.+]] = sojourn.rem %[[V3]], %[[V4]] : tensor<1x1x2x2xi64>, tensor<i64>
    // CHECK-NEXT: %[[V6:.+]] = sojourn.constant 0 : i64
    // CHECK-NEXT: %[[V7:.+]] = sojourn.sub %[[V5]], %[[V6]] : tensor<1x1x2x2xi64>, tensor<i64>
    // CHECK-NEXT: %[[V8:.+]] = sojourn.constant 1 : i64
    // CHECK-NEXT: %[[V9:.+]] = sojourn.mul %[[V7]], %[[V8]] : tensor<1x1x2x2xi64>, tensor<i64>
    // CHECK-NEXT: %[[V10:.+]] = sojourn.constant 4 : i64
    // CHECK-NEXT: %[[V11:.+]] = sojourn.div %[[V3]], %[[V10]] : tensor<1x1x2x2xi64>, tensor<i64>
    // CHECK-NEXT: %[[V12:.+]] = sojourn.constant 4 : i64
    // CHECK-NEXT: %[[V13:.+]] = sojourn.rem %[[V11]], %[[V12]] : tensor<1x1x2x2xi64>, tensor<i64>
    // CHECK-NEXT: %[[V14:.+]] = sojourn.constant 0 : i64
    // CHECK-NEXT: %[[V15:.+]] = sojourn.sub %[[V13]], %[[V14]] : tensor<1x1x2x2xi64>, tensor<i64>
    // CHECK-NEXT: %[[V16:.+]] = sojourn.constant 3 : i64
    // CHECK-NEXT: %[[V17:.+]] = sojourn.mul %[[V15]], %[[V16]] : tensor<1x1x2x2xi64>, tensor<i64>
    // CHECK-NEXT: %[[V18:.+]] = sojourn.add %[[V9]], %[[V17]] : tensor<1x1x2x2xi64>, tensor<1x1x2x2xi64>
    // CHECK-NEXT: %[[V19:.+]] = sojourn.constant 4 : i64
    // CHECK-NEXT: %[[V20:.+]] = sojourn.div %[[V11]], %[[V19]] : tensor<1x1x2x2xi64>, tensor<i64>
    // CHECK-NEXT: return %[[V2]], %[[V18]] : tensor<1x1x2x2xf32>, tensor<1x1x2x2xi64>
    %r:2 = sojourn.aten "aten.max_pool2d_with_indices"(%x)
      {args = [#sojourn.operand<0>, [2 : i64, 2 : i64], [2 : i64, 2 : i64], [0 : i64, 0 : i64], [1 : i64, 1 : i64], true], names = ["self", "kernel_size", "stride", "padding", "dilation", "ceil_mode"]}
      : (tensor<1x1x3x3xf32>) -> (tensor<1x1x2x2xf32>, tensor<1x1x2x2xi64>)
    return %r#0, %r#1 : tensor<1x1x2x2xf32>, tensor<1x1x2x2xi64>
  }
}

// -----

// Uneven adaptive pooling is a product with a matrix.
module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[A0:arg[0-9]+]]: {{[^%]+}}
  func.func @step(%x: tensor<1x1x3x3xf32> {sojourn.kind = "upload"}) -> (tensor<1x1x2x3xf32> {sojourn.result = "keep"}) {
    // CHECK-NEXT: %[[V0:.+]] = sojourn.iota dim = 0 : tensor<2xi64>
    // CHECK-NEXT: %[[V1:.+]] = sojourn.reshape %[[V0]] : tensor<2xi64> -> tensor<2x1xi64>
    // CHECK-NEXT: %[[V2:.+]] = sojourn.iota dim = 0 : tensor<3xi64>
    // CHECK-NEXT: %[[V3:.+]] = sojourn.reshape %[[V2]] : tensor<3xi64> -> tensor<1x3xi64>
    // CHECK-NEXT: %[[V4:.+]] = sojourn.constant 3 : i64
    // CHECK-NEXT: %[[V5:.+]] = sojourn.mul %[[V1]], %[[V4]] : tensor<2x1xi64>, tensor<i64>
    // CHECK-NEXT: %[[V6:.+]] = sojourn.constant 2 : i64
    // CHECK-NEXT: %[[V7:.+]] = sojourn.div %[[V5]], %[[V6]] : tensor<2x1xi64>, tensor<i64>
    // CHECK-NEXT: %[[V8:.+]] = sojourn.constant 1 : i64
    // CHECK-NEXT: %[[V9:.+]] = sojourn.add %[[V1]], %[[V8]] : tensor<2x1xi64>, tensor<i64>
    // CHECK-NEXT: %[[V10:.+]] = sojourn.constant 3 : i64
    // CHECK-NEXT: %[[V11:.+]] = sojourn.mul %[[V9]], %[[V10]] : tensor<2x1xi64>, tensor<i64>
    // CHECK-NEXT: %[[V12:.+]] = sojourn.constant 1 : i64
    // CHECK-NEXT: %[[V13:.+]] = sojourn.add %[[V11]], %[[V12]] : tensor<2x1xi64>, tensor<i64>
    // CHECK-NEXT: %[[V14:.+]] = sojourn.constant 2 : i64
    // CHECK-NEXT: %[[V15:.+]] = sojourn.div %[[V13]], %[[V14]] : tensor<2x1xi64>, tensor<i64>
    // CHECK-NEXT: %[[V16:.+]] = sojourn.broadcast %[[V3]], dims = [0, 1] : tensor<1x3xi64> -> tensor<2x3xi64>
    // CHECK-NEXT: %[[V17:.+]] = sojourn.broadcast %[[V15]], dims = [0, 1] : tensor<2x1xi64> -> tensor<2x3xi64>
    // CHECK-NEXT: %[[V18:.+]] = sojourn.compare "lt" %[[V16]], %[[V17]] : tensor<2x3xi64>, tensor<2x3xi64>
    // CHECK-NEXT: %[[V19:.+]] = sojourn.broadcast %[[V3]], dims = [0, 1] : tensor<1x3xi64> -> tensor<2x3xi64>
    // CHECK-NEXT: %[[V20:.+]] = sojourn.broadcast %[[V7]], dims = [0, 1] : tensor<2x1xi64> -> tensor<2x3xi64>
    // CHECK-NEXT: %[[V21:.+]] = sojourn.compare "ge" %[[V19]], %[[V20]] : tensor<2x3xi64>, tensor<2x3xi64>
    // CHECK-NEXT: %[[V22:.+]] = sojourn.and %[[V21]], %[[V18]] : tensor<2x3xi1>, tensor<2x3xi1>
    // CHECK-NEXT: %[[V23:.+]] = sojourn.sub %[[V15]], %[[V7]] : tensor<2x1xi64>, tensor<2x1xi64>
    // CHECK-NEXT: %[[V24:.+]] = sojourn.convert %[[V23]] : tensor<2x1xi64> -> tensor<2x1xf32>
    // CHECK-NEXT: %[[V25:.+]] = sojourn.constant 1.000000e+00 : f32
    // CHECK-NEXT: %[[V26:.+]] = sojourn.div %[[V25]], %[[V24]] : tensor<f32>, tensor<2x1xf32>
    // CHECK-NEXT: %[[V27:.+]] = sojourn.broadcast %[[V26]], dims = [0, 1] : tensor<2x1xf32> -> tensor<2x3xf32>
    // CHECK-NEXT: %[[V28:.+]] = sojourn.constant 0.000000e+00 : f32
    // CHECK-NEXT: %[[V29:.+]] = sojourn.select %[[V22]], %[[V27]], %[[V28]] : tensor<2x3xi1>, tensor<2x3xf32>, tensor<f32>
    // CHECK-NEXT: %[[V30:.+]] = sojourn.dot %[[A0]], %[[V29]], lhs_batch = [], rhs_batch = [], lhs_contract = [2], rhs_contract = [1] : tensor<1x1x3x3xf32>, tensor<2x3xf32> -> tensor<1x1x3x2xf32>
    // CHECK-NEXT: %[[V31:.+]] = sojourn.transpose %[[V30]], perm = [0, 1, 3, 2] : tensor<1x1x3x2xf32>
    // CHECK-NEXT: return %[[V31]] : tensor<1x1x2x3xf32>
    %r = sojourn.aten "aten._adaptive_avg_pool2d"(%x)
      {args = [#sojourn.operand<0>, [2 : i64, 3 : i64]], names = ["self", "output_size"]}
      : (tensor<1x1x3x3xf32>) -> tensor<1x1x2x3xf32>
    return %r : tensor<1x1x2x3xf32>
  }
}
