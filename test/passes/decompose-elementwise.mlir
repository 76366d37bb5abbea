// SPDX-License-Identifier: Apache-2.0
// Arithmetic: one core op where core has it, ATen's own formula where it has not; shapes broadcast explicitly.
// RUN: sojourn-opt %s --split-input-file --sojourn-decompose | FileCheck %s

// Alpha = 1 costs nothing, a vector is broadcast.
module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[A0:arg[0-9]+]]: {{[^%]+}}%[[A1:arg[0-9]+]]: {{[^%]+}}
  func.func @step(%x: tensor<2x3xf32> {sojourn.kind = "upload"}, %y: tensor<3xf32> {sojourn.kind = "upload"}) -> (tensor<2x3xf32> {sojourn.result = "keep"}) {
    // CHECK-NEXT: %[[V0:.+]] = sojourn.broadcast %[[A1]], dims = [1] : tensor<3xf32> -> tensor<2x3xf32>
    // CHECK-NEXT: %[[V1:.+]] = sojourn.add %[[A0]], %[[V0]] : tensor<2x3xf32>, tensor<2x3xf32>
    // CHECK-NEXT: return %[[V1]] : tensor<2x3xf32>
    %r = sojourn.aten "aten.add.Tensor"(%x, %y)
      {args = [#sojourn.operand<0>, #sojourn.operand<1>, 1 : i64], names = ["self", "other", "alpha"]}
      : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
    return %r : tensor<2x3xf32>
  }
}

// -----

// A run-time weight: from the nearer end.
module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[A0:arg[0-9]+]]: {{[^%]+}}%[[A1:arg[0-9]+]]: {{[^%]+}}%[[A2:arg[0-9]+]]: {{[^%]+}}
  func.func @step(%x: tensor<2x3xf32> {sojourn.kind = "upload"}, %y: tensor<2x3xf32> {sojourn.kind = "upload"}, %w: tensor<f32> {sojourn.kind = "upload"}) -> (tensor<2x3xf32> {sojourn.result = "keep"}) {
    // CHECK-NEXT: %[[V0:.+]] = sojourn.abs %[[A2]] : tensor<f32>
    // CHECK-NEXT: %[[V1:.+]] = sojourn.constant 5.000000e-01 : f32
    // CHECK-NEXT: %[[V2:.+]] = sojourn.compare "lt" %[[V0]], %[[V1]] : tensor<f32>, tensor<f32>
    // CHECK-NEXT: %[[V3:.+]] = sojourn.constant 1.000000e+00 : f32
    // CHECK-NEXT: %[[V4:.+]] = sojourn.sub %[[A2]], %[[V3]] : tensor<f32>, tensor<f32>
    // CHECK-NEXT: %[[V5:.+]] = sojourn.select %[[V2]], %[[A2]], %[[V4]] : tensor<i1>, tensor<f32>, tensor<f32>
    // CHECK-NEXT: %[[V6:.+]] = sojourn.sub %[[A1]], %[[A0]] : tensor<2x3xf32>, tensor<2x3xf32>
    // CHECK-NEXT: %[[V7:.+]] = sojourn.mul %[[V5]], %[[V6]] : tensor<f32>, tensor<2x3xf32>
    // CHECK-NEXT: %[[V8:.+]] = sojourn.select %[[V2]], %[[A0]], %[[A1]] : tensor<i1>, tensor<2x3xf32>, tensor<2x3xf32>
    // CHECK-NEXT: %[[V9:.+]] = sojourn.add %[[V8]], %[[V7]] : tensor<2x3xf32>, tensor<2x3xf32>
    // CHECK-NEXT: return %[[V9]] : tensor<2x3xf32>
    %r = sojourn.aten "aten.lerp.Scalar"(%x, %y, %w)
      {args = [#sojourn.operand<0>, #sojourn.operand<1>, #sojourn.operand<2>], names = ["self", "end", "weight"]}
      : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
    return %r : tensor<2x3xf32>
  }
}

// -----

// Bf16 with a factor: computed in f32, rounded once.
module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[A0:arg[0-9]+]]: {{[^%]+}}%[[A1:arg[0-9]+]]: {{[^%]+}}%[[A2:arg[0-9]+]]: {{[^%]+}}
  func.func @step(%x: tensor<4xbf16> {sojourn.kind = "upload"}, %y: tensor<4xbf16> {sojourn.kind = "upload"}, %a: tensor<bf16> {sojourn.kind = "upload"}) -> (tensor<4xbf16> {sojourn.result = "keep"}) {
    // CHECK-NEXT: %[[V0:.+]] = sojourn.convert %[[A0]] : tensor<4xbf16> -> tensor<4xf32>
    // CHECK-NEXT: %[[V1:.+]] = sojourn.convert %[[A1]] : tensor<4xbf16> -> tensor<4xf32>
    // CHECK-NEXT: %[[V2:.+]] = sojourn.convert %[[A2]] : tensor<bf16> -> tensor<f32>
    // CHECK-NEXT: %[[V3:.+]] = sojourn.mul %[[V1]], %[[V2]] : tensor<4xf32>, tensor<f32>
    // CHECK-NEXT: %[[V4:.+]] = sojourn.sub %[[V0]], %[[V3]] : tensor<4xf32>, tensor<4xf32>
    // CHECK-NEXT: %[[V5:.+]] = sojourn.convert %[[V4]] : tensor<4xf32> -> tensor<4xbf16>
    // CHECK-NEXT: return %[[V5]] : tensor<4xbf16>
    %r = sojourn.aten "aten.sub.Tensor"(%x, %y, %a)
      {args = [#sojourn.operand<0>, #sojourn.operand<1>, #sojourn.operand<2>], names = ["self", "other", "alpha"]}
      : (tensor<4xbf16>, tensor<4xbf16>, tensor<bf16>) -> tensor<4xbf16>
    return %r : tensor<4xbf16>
  }
}

// -----

// Remainder takes the sign of the divisor.
module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[A0:arg[0-9]+]]: {{[^%]+}}
  func.func @step(%x: tensor<4xi64> {sojourn.kind = "upload"}) -> (tensor<4xi64> {sojourn.result = "keep"}) {
    // CHECK-NEXT: %[[V0:.+]] = sojourn.constant 3 : i64
    // CHECK-NEXT: %[[V1:.+]] = sojourn.rem %[[A0]], %[[V0]] : tensor<4xi64>, tensor<i64>
    // CHECK-NEXT: %[[V2:.+]] = sojourn.constant 0 : i64
    // CHECK-NEXT: %[[V3:.+]] = sojourn.compare "lt" %[[V1]], %[[V2]] : tensor<4xi64>, tensor<i64>
    // CHECK-NEXT: %[[V4:.+]] = sojourn.constant 0 : i64
    // CHECK-NEXT: %[[V5:.+]] = sojourn.compare "lt" %[[V0]], %[[V4]] : tensor<i64>, tensor<i64>
    // CHECK-NEXT: %[[V6:.+]] = sojourn.xor %[[V5]], %[[V3]] : tensor<i1>, tensor<4xi1>
    // CHECK-NEXT: %[[V7:.+]] = sojourn.constant 0 : i64
    // CHECK-NEXT: %[[V8:.+]] = sojourn.compare "ne" %[[V1]], %[[V7]] : tensor<4xi64>, tensor<i64>
    // CHECK-NEXT: %[[V9:.+]] = sojourn.and %[[V8]], %[[V6]] : tensor<4xi1>, tensor<4xi1>
    // CHECK-NEXT: %[[V10:.+]] = sojourn.add %[[V1]], %[[V0]] : tensor<4xi64>, tensor<i64>
    // CHECK-NEXT: %[[V11:.+]] = sojourn.select %[[V9]], %[[V10]], %[[V1]] : tensor<4xi1>, tensor<4xi64>, tensor<4xi64>
    // CHECK-NEXT: return %[[V11]] : tensor<4xi64>
    %r = sojourn.aten "aten.remainder.Scalar"(%x)
      {args = [#sojourn.operand<0>, 3 : i64], names = ["self", "other"]}
      : (tensor<4xi64>) -> tensor<4xi64>
    return %r : tensor<4xi64>
  }
}

// -----

// A square is a product.
module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[A0:arg[0-9]+]]: {{[^%]+}}
  func.func @step(%x: tensor<2x3xf32> {sojourn.kind = "upload"}) -> (tensor<2x3xf32> {sojourn.result = "keep"}) {
    // CHECK-NEXT: %[[V0:.+]] = sojourn.mul %[[A0]], %[[A0]] : tensor<2x3xf32>, tensor<2x3xf32>
    // CHECK-NEXT: return %[[V0]] : tensor<2x3xf32>
    %r = sojourn.aten "aten.pow.Tensor_Scalar"(%x)
      {args = [#sojourn.operand<0>, 2 : i64], names = ["self", "exponent"]}
      : (tensor<2x3xf32>) -> tensor<2x3xf32>
    return %r : tensor<2x3xf32>
  }
}
