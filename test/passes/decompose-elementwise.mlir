// SPDX-License-Identifier: Apache-2.0
// Arithmetic: one core op where core has it, ATen's own formula where it has not; shapes broadcast explicitly.
// RUN: sojourn-opt %s --split-input-file --sojourn-decompose | FileCheck %s --implicit-check-not=sojourn.aten

// With alpha = 1 nothing is multiplied, and a vector is broadcast.
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

// A weight that is known at run time is applied from the nearer end, so that both ends are exact.
module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[A0:arg[0-9]+]]: {{[^%]+}}%[[A1:arg[0-9]+]]: {{[^%]+}}%[[A2:arg[0-9]+]]: {{[^%]+}}
  func.func @step(%x: tensor<2x3xf32> {sojourn.kind = "upload"}, %y: tensor<2x3xf32> {sojourn.kind = "upload"}, %w: tensor<f32> {sojourn.kind = "upload"}) -> (tensor<2x3xf32> {sojourn.result = "keep"}) {
    // CHECK: %[[LOW:.+]] = sojourn.compare "lt"
    // CHECK: %[[PART:.+]] = sojourn.select %[[LOW]], %[[A2]],
    // CHECK: %[[STEP:.+]] = sojourn.mul %[[PART]],
    // CHECK: %[[END:.+]] = sojourn.select %[[LOW]], %[[A0]], %[[A1]]
    // CHECK-NEXT: %[[R:.+]] = sojourn.add %[[END]], %[[STEP]]
    // CHECK-NEXT: return %[[R]]
    %r = sojourn.aten "aten.lerp.Scalar"(%x, %y, %w)
      {args = [#sojourn.operand<0>, #sojourn.operand<1>, #sojourn.operand<2>], names = ["self", "end", "weight"]}
      : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
    return %r : tensor<2x3xf32>
  }
}

// -----

// Bf16 with a factor is cast before it is multiplied and rounded once.
module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  func.func @step(%x: tensor<4xbf16> {sojourn.kind = "upload"}, %y: tensor<4xbf16> {sojourn.kind = "upload"}, %a: tensor<bf16> {sojourn.kind = "upload"}) -> (tensor<4xbf16> {sojourn.result = "keep"}) {
    // CHECK-COUNT-3: sojourn.convert {{.*}}bf16> -> tensor<{{(4x)?}}f32>
    // CHECK-NEXT: sojourn.mul {{.*}} : tensor<4xf32>, tensor<f32>
    // CHECK-NEXT: sojourn.sub {{.*}} : tensor<4xf32>, tensor<4xf32>
    // CHECK-NEXT: %[[R:.+]] = sojourn.convert {{.*}} -> tensor<4xbf16>
    // CHECK-NEXT: return %[[R]]
    %r = sojourn.aten "aten.sub.Tensor"(%x, %y, %a)
      {args = [#sojourn.operand<0>, #sojourn.operand<1>, #sojourn.operand<2>], names = ["self", "other", "alpha"]}
      : (tensor<4xbf16>, tensor<4xbf16>, tensor<bf16>) -> tensor<4xbf16>
    return %r : tensor<4xbf16>
  }
}

// -----

// The remainder takes the sign of the divisor, which is added where the signs differ.
module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[A0:arg[0-9]+]]: {{[^%]+}}
  func.func @step(%x: tensor<4xi64> {sojourn.kind = "upload"}) -> (tensor<4xi64> {sojourn.result = "keep"}) {
    // CHECK: %[[R:.+]] = sojourn.rem %[[A0]], %[[N:.+]] :
    // CHECK: sojourn.xor
    // CHECK: sojourn.compare "ne" %[[R]],
    // CHECK: %[[MOVED:.+]] = sojourn.add %[[R]], %[[N]]
    // CHECK-NEXT: %[[ALL:.+]] = sojourn.select %{{.+}}, %[[MOVED]], %[[R]]
    // CHECK-NEXT: return %[[ALL]]
    %r = sojourn.aten "aten.remainder.Scalar"(%x)
      {args = [#sojourn.operand<0>, 3 : i64], names = ["self", "other"]}
      : (tensor<4xi64>) -> tensor<4xi64>
    return %r : tensor<4xi64>
  }
}

// -----

// A square is a product, not a power.
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
