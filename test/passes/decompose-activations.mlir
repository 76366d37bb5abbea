// SPDX-License-Identifier: Apache-2.0
// Activations and their gradients.
// RUN: sojourn-opt %s --split-input-file --sojourn-decompose | FileCheck %s

// Exact gelu.
module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[A0:arg[0-9]+]]: {{[^%]+}}
  func.func @step(%x: tensor<2x3xf32> {sojourn.kind = "upload"}) -> (tensor<2x3xf32> {sojourn.result = "keep"}) {
    // CHECK-NEXT: %[[V0:.+]] = sojourn.constant 0.707106769 : f32
    // CHECK-NEXT: %[[V1:.+]] = sojourn.mul %[[A0]], %[[V0]] : tensor<2x3xf32>, tensor<f32>
    // CHECK-NEXT: %[[V2:.+]] = sojourn.erf %[[V1]] : tensor<2x3xf32>
    // CHECK-NEXT: %[[V3:.+]] = sojourn.constant 1.000000e+00 : f32
    // CHECK-NEXT: %[[V4:.+]] = sojourn.add %[[V3]], %[[V2]] : tensor<f32>, tensor<2x3xf32>
    // CHECK-NEXT: %[[V5:.+]] = sojourn.constant 5.000000e-01 : f32
    // CHECK-NEXT: %[[V6:.+]] = sojourn.mul %[[A0]], %[[V5]] : tensor<2x3xf32>, tensor<f32>
    // CHECK-NEXT: %[[V7:.+]] = sojourn.mul %[[V6]], %[[V4]] : tensor<2x3xf32>, tensor<2x3xf32>
    // CHECK-NEXT: return %[[V7]] : tensor<2x3xf32>
    %r = sojourn.aten "aten.gelu"(%x)
      {args = [#sojourn.operand<0>, "none"], names = ["self", "approximate"]}
      : (tensor<2x3xf32>) -> tensor<2x3xf32>
    return %r : tensor<2x3xf32>
  }
}

// -----

// The gradient of relu is a choice.
module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[A0:arg[0-9]+]]: {{[^%]+}}%[[A1:arg[0-9]+]]: {{[^%]+}}
  func.func @step(%g: tensor<2x3xf32> {sojourn.kind = "upload"}, %x: tensor<2x3xf32> {sojourn.kind = "upload"}) -> (tensor<2x3xf32> {sojourn.result = "keep"}) {
    // CHECK-NEXT: %[[V0:.+]] = sojourn.constant 0.000000e+00 : f32
    // CHECK-NEXT: %[[V1:.+]] = sojourn.compare "le" %[[A1]], %[[V0]] : tensor<2x3xf32>, tensor<f32>
    // CHECK-NEXT: %[[V2:.+]] = sojourn.constant 0.000000e+00 : f32
    // CHECK-NEXT: %[[V3:.+]] = sojourn.select %[[V1]], %[[V2]], %[[A0]] : tensor<2x3xi1>, tensor<f32>, tensor<2x3xf32>
    // CHECK-NEXT: return %[[V3]] : tensor<2x3xf32>
    %r = sojourn.aten "aten.threshold_backward"(%g, %x)
      {args = [#sojourn.operand<0>, #sojourn.operand<1>, 0 : i64], names = ["grad_output", "self", "threshold"]}
      : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    return %r : tensor<2x3xf32>
  }
}

// -----

// Silu.
module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[A0:arg[0-9]+]]: {{[^%]+}}
  func.func @step(%x: tensor<2x3xf32> {sojourn.kind = "upload"}) -> (tensor<2x3xf32> {sojourn.result = "keep"}) {
    // CHECK-NEXT: %[[V0:.+]] = sojourn.logistic %[[A0]] : tensor<2x3xf32>
    // CHECK-NEXT: %[[V1:.+]] = sojourn.mul %[[A0]], %[[V0]] : tensor<2x3xf32>, tensor<2x3xf32>
    // CHECK-NEXT: return %[[V1]] : tensor<2x3xf32>
    %r = sojourn.aten "aten.silu"(%x)
      {args = [#sojourn.operand<0>], names = ["self"]}
      : (tensor<2x3xf32>) -> tensor<2x3xf32>
    return %r : tensor<2x3xf32>
  }
}
