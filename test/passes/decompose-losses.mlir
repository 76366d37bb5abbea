// SPDX-License-Identifier: Apache-2.0
// Negative log likelihood: ignored targets are chosen away, not multiplied.
// RUN: sojourn-opt %s --split-input-file --sojourn-decompose | FileCheck %s --implicit-check-not=sojourn.aten

// An ignored target is chosen away, not multiplied: its row may hold infinities.
module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[A0:arg[0-9]+]]: {{[^%]+}}%[[A1:arg[0-9]+]]: {{[^%]+}}
  func.func @step(%x: tensor<4x3xf32> {sojourn.kind = "upload"}, %t: tensor<4xi64> {sojourn.kind = "upload"}) -> (tensor<f32> {sojourn.result = "keep"}, tensor<f32> {sojourn.result = "keep"}) {
    // CHECK: %[[KEPT:.+]] = sojourn.compare "ne" %[[A1]],
    // CHECK: sojourn.take_along %[[A0]],
    // CHECK: %[[LOSS:.+]] = sojourn.select %[[KEPT]],
    // CHECK-DAG: %[[WEIGHT:.+]] = sojourn.reduce_sum
    // CHECK-DAG: %[[SUM:.+]] = sojourn.reduce_sum %[[LOSS]],
    // CHECK: %[[MEAN:.+]] = sojourn.div %[[SUM]], %[[WEIGHT]]
    // CHECK-NEXT: return %[[MEAN]], %[[WEIGHT]]
    %r:2 = sojourn.aten "aten.nll_loss_forward"(%x, %t)
      {args = [#sojourn.operand<0>, #sojourn.operand<1>, unit, 1 : i64, -100 : i64], names = ["self", "target", "weight", "reduction", "ignore_index"]}
      : (tensor<4x3xf32>, tensor<4xi64>) -> (tensor<f32>, tensor<f32>)
    return %r#0, %r#1 : tensor<f32>, tensor<f32>
  }
}

// -----

// Binary cross entropy takes the exponential of -|x| alone, which cannot overflow.
module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[A0:arg[0-9]+]]: {{[^%]+}}%[[A1:arg[0-9]+]]: {{[^%]+}}
  func.func @step(%x: tensor<4xf32> {sojourn.kind = "upload"}, %t: tensor<4xf32> {sojourn.kind = "upload"}) -> (tensor<f32> {sojourn.result = "keep"}) {
    // CHECK-NOT: sojourn.exp
    // CHECK: %[[ABS:.+]] = sojourn.abs %[[A0]]
    // CHECK-NEXT: %[[NEG:.+]] = sojourn.neg %[[ABS]]
    // CHECK-NEXT: %[[E:.+]] = sojourn.exp %[[NEG]]
    // CHECK-NEXT: sojourn.log1p %[[E]]
    // CHECK-NOT: sojourn.{{exp|log}}
    %r = sojourn.aten "aten.binary_cross_entropy_with_logits"(%x, %t)
      {args = [#sojourn.operand<0>, #sojourn.operand<1>, unit, unit, 2 : i64], names = ["self", "target", "weight", "pos_weight", "reduction"]}
      : (tensor<4xf32>, tensor<4xf32>) -> tensor<f32>
    return %r : tensor<f32>
  }
}
