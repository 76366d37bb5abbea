// SPDX-License-Identifier: Apache-2.0
// Activations and their gradients.
// RUN: sojourn-opt %s --split-input-file --sojourn-decompose | FileCheck %s --implicit-check-not=sojourn.aten

// Gelu without approximation is the error function, not the formula with tanh.
module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  func.func @step(%x: tensor<2x3xf32> {sojourn.kind = "upload"}) -> (tensor<2x3xf32> {sojourn.result = "keep"}) {
    // CHECK-NOT: sojourn.tanh
    // CHECK: sojourn.erf
    // CHECK-NOT: sojourn.tanh
    %r = sojourn.aten "aten.gelu"(%x)
      {args = [#sojourn.operand<0>, "none"], names = ["self", "approximate"]}
      : (tensor<2x3xf32>) -> tensor<2x3xf32>
    return %r : tensor<2x3xf32>
  }
}

// -----

// The gradient of relu is a choice: where the input is not above 0 even an infinite gradient gives 0.
module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[A0:arg[0-9]+]]: {{[^%]+}}%[[A1:arg[0-9]+]]: {{[^%]+}}
  func.func @step(%g: tensor<2x3xf32> {sojourn.kind = "upload"}, %x: tensor<2x3xf32> {sojourn.kind = "upload"}) -> (tensor<2x3xf32> {sojourn.result = "keep"}) {
    // CHECK-NOT: sojourn.mul
    // CHECK: %[[OFF:.+]] = sojourn.compare "le" %[[A1]],
    // CHECK: %[[R:.+]] = sojourn.select %[[OFF]], %{{.+}}, %[[A0]]
    // CHECK-NEXT: return %[[R]]
    %r = sojourn.aten "aten.threshold_backward"(%g, %x)
      {args = [#sojourn.operand<0>, #sojourn.operand<1>, 0 : i64], names = ["grad_output", "self", "threshold"]}
      : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    return %r : tensor<2x3xf32>
  }
}

// -----

// Silu is x times its logistic.
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

// -----

// Relu is a maximum, as the record of the pass shows it.
module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[X:arg[0-9]+]]: {{[^%]+}}
  func.func @step(%x: tensor<4xf32> {sojourn.kind = "upload"}) -> (tensor<4xf32> {sojourn.result = "keep"}) {
    // CHECK-NEXT: %[[ZERO:.+]] = sojourn.constant 0.000000e+00 : f32
    // CHECK-NEXT: %[[R:.+]] = sojourn.max %[[X]], %[[ZERO]] : tensor<4xf32>, tensor<f32>
    // CHECK-NEXT: return %[[R]]
    %0 = sojourn.aten "aten.relu"(%x) {args = [#sojourn.operand<0>], names = ["self"]}
      : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
