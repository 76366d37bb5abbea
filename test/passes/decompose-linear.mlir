// SPDX-License-Identifier: Apache-2.0
// Products: bias and factors around `dot`; convolutions, transposed ones as input gradients.
// RUN: sojourn-opt %s --split-input-file --sojourn-decompose | FileCheck %s --implicit-check-not=sojourn.aten

// Addmm of bf16 adds in f32 and is rounded once.
module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  func.func @step(%b: tensor<3xbf16> {sojourn.kind = "upload"}, %x: tensor<2x4xbf16> {sojourn.kind = "upload"}, %w: tensor<4x3xbf16> {sojourn.kind = "upload"}) -> (tensor<2x3xbf16> {sojourn.result = "keep"}) {
    // CHECK: %[[DOT:.+]] = sojourn.dot {{.*}} -> tensor<2x3xf32>
    // CHECK: %[[SUM:.+]] = sojourn.add %{{.+}}, %[[DOT]] : tensor<2x3xf32>, tensor<2x3xf32>
    // CHECK-NEXT: %[[R:.+]] = sojourn.convert %[[SUM]] : tensor<2x3xf32> -> tensor<2x3xbf16>
    // CHECK-NEXT: return %[[R]]
    %r = sojourn.aten "aten.addmm"(%b, %x, %w)
      {args = [#sojourn.operand<0>, #sojourn.operand<1>, #sojourn.operand<2>, 1 : i64, 1 : i64], names = ["self", "mat1", "mat2", "beta", "alpha"]}
      : (tensor<3xbf16>, tensor<2x4xbf16>, tensor<4x3xbf16>) -> tensor<2x3xbf16>
    return %r : tensor<2x3xbf16>
  }
}

// -----

// A transposed convolution is the input gradient of a convolution.
module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[A0:arg[0-9]+]]: {{[^%]+}}%[[A1:arg[0-9]+]]: {{[^%]+}}
  func.func @step(%x: tensor<1x4x5x5xf32> {sojourn.kind = "upload"}, %w: tensor<4x2x3x3xf32> {sojourn.kind = "upload"}) -> (tensor<1x2x10x10xf32> {sojourn.result = "keep"}) {
    // CHECK-NEXT: %[[V0:.+]] = sojourn.constant 0.000000e+00 : f32
    // CHECK-NEXT: %[[V1:.+]] = sojourn.conv_grad_input %[[A0]], %[[A1]], stride = [2, 2], padding = [1, 1], dilation = [1, 1], groups = 1 : tensor<1x4x5x5xf32>, tensor<4x2x3x3xf32> -> tensor<1x2x10x10xf32>
    // CHECK-NEXT: return %[[V1]] : tensor<1x2x10x10xf32>
    %r = sojourn.aten "aten.convolution"(%x, %w)
      {args = [#sojourn.operand<0>, #sojourn.operand<1>, unit, [2 : i64, 2 : i64], [1 : i64, 1 : i64], [1 : i64, 1 : i64], true, [1 : i64, 1 : i64], 1 : i64], names = ["input", "weight", "bias", "stride", "padding", "dilation", "transposed", "output_padding", "groups"]}
      : (tensor<1x4x5x5xf32>, tensor<4x2x3x3xf32>) -> tensor<1x2x10x10xf32>
    return %r : tensor<1x2x10x10xf32>
  }
}

// -----

// Of the gradients of a convolution only those that are wanted are computed.
module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[A0:arg[0-9]+]]: {{[^%]+}}%[[A1:arg[0-9]+]]: {{[^%]+}}%[[A2:arg[0-9]+]]: {{[^%]+}}
  func.func @step(%g: tensor<1x4x5x5xf32> {sojourn.kind = "upload"}, %x: tensor<1x2x10x10xf32> {sojourn.kind = "upload"}, %w: tensor<4x2x3x3xf32> {sojourn.kind = "upload"}) -> (tensor<4x2x3x3xf32> {sojourn.result = "keep"}, tensor<4xf32> {sojourn.result = "keep"}) {
    // CHECK-NEXT: %[[V0:.+]] = sojourn.conv_grad_weight %[[A0]], %[[A1]], stride = [2, 2], padding = [1, 1], dilation = [1, 1], groups = 1 : tensor<1x4x5x5xf32>, tensor<1x2x10x10xf32> -> tensor<4x2x3x3xf32>
    // CHECK-NEXT: %[[V1:.+]] = sojourn.reduce_sum %[[A0]], dims = [0, 2, 3] : tensor<1x4x5x5xf32>
    // CHECK-NEXT: return %[[V0]], %[[V1]] : tensor<4x2x3x3xf32>, tensor<4xf32>
    %r:3 = sojourn.aten "aten.convolution_backward"(%g, %x, %w)
      {args = [#sojourn.operand<0>, #sojourn.operand<1>, #sojourn.operand<2>, [4 : i64], [2 : i64, 2 : i64], [1 : i64, 1 : i64], [1 : i64, 1 : i64], false, [0 : i64, 0 : i64], 1 : i64, [false, true, true]], names = ["grad_output", "input", "weight", "bias_sizes", "stride", "padding", "dilation", "transposed", "output_padding", "groups", "output_mask"]}
      : (tensor<1x4x5x5xf32>, tensor<1x2x10x10xf32>, tensor<4x2x3x3xf32>) -> (none, tensor<4x2x3x3xf32>, tensor<4xf32>)
    return %r#1, %r#2 : tensor<4x2x3x3xf32>, tensor<4xf32>
  }
}

// -----

// The upper factor is that of the transposed matrix, transposed.
module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[X:arg[0-9]+]]: {{[^%]+}}
  func.func @step(%x: tensor<2x3x3xf32> {sojourn.kind = "upload"}) -> (tensor<2x3x3xf32> {sojourn.result = "keep"}, tensor<2xi32> {sojourn.result = "keep"}) {
    // CHECK: %[[T:.+]] = sojourn.transpose %[[X]], perm = [0, 2, 1]
    // CHECK: %[[L:.+]], %[[ORDER:.+]] = sojourn.cholesky %[[T]]
    // CHECK-DAG: %[[U:.+]] = sojourn.transpose %[[L]], perm = [0, 2, 1]
    // CHECK-DAG: %[[INFO:.+]] = sojourn.convert %[[ORDER]] : tensor<2xi64> -> tensor<2xi32>
    // CHECK: return %[[U]], %[[INFO]]
    %r:2 = sojourn.aten "aten.linalg_cholesky_ex"(%x)
      {args = [#sojourn.operand<0>, true, false], names = ["self", "upper", "check_errors"]}
      : (tensor<2x3x3xf32>) -> (tensor<2x3x3xf32>, tensor<2xi32>)
    return %r#0, %r#1 : tensor<2x3x3xf32>, tensor<2xi32>
  }
}
