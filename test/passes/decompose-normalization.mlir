// SPDX-License-Identifier: Apache-2.0
// Layer and batch normalization; running statistics come out as further results.
// RUN: sojourn-opt %s --split-input-file --sojourn-decompose | FileCheck %s --implicit-check-not=sojourn.aten

// Layer norm subtracts the mean before it squares, takes one root per row, and applies weight and bias last.
module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[A0:arg[0-9]+]]: {{[^%]+}}%[[A1:arg[0-9]+]]: {{[^%]+}}%[[A2:arg[0-9]+]]: {{[^%]+}}%[[A3:arg[0-9]+]]: {{[^%]+}}
  func.func @step(%x: tensor<4x8xf32> {sojourn.kind = "upload"}, %w: tensor<8xf32> {sojourn.kind = "upload"}, %b: tensor<8xf32> {sojourn.kind = "upload"}, %e: tensor<f64> {sojourn.kind = "slot"}) -> (tensor<4x8xf32> {sojourn.result = "keep"}) {
    // CHECK: %[[EPS:.+]] = sojourn.convert %[[A3]]
    // CHECK: sojourn.reduce_sum %[[A0]], dims = [1]
    // CHECK: %[[C:.+]] = sojourn.sub %[[A0]],
    // CHECK: %[[SQUARE:.+]] = sojourn.mul %[[C]], %[[C]]
    // CHECK: sojourn.reduce_sum %[[SQUARE]], dims = [1]
    // CHECK: sojourn.add %{{.+}}, %[[EPS]] : tensor<4x1xf32>
    // CHECK: sojourn.sqrt {{.*}} : tensor<4x1xf32>
    // CHECK: sojourn.mul %[[C]],
    // CHECK: sojourn.broadcast %[[A1]], dims = [1]
    // CHECK: sojourn.broadcast %[[A2]], dims = [1]
    // CHECK-NEXT: %[[R:.+]] = sojourn.add
    // CHECK-NEXT: return %[[R]]
    %r:3 = sojourn.aten "aten.native_layer_norm"(%x, %w, %b, %e)
      {args = [#sojourn.operand<0>, [8 : i64], #sojourn.operand<1>, #sojourn.operand<2>, #sojourn.operand<3>], names = ["input", "normalized_shape", "weight", "bias", "eps"]}
      : (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f64>) -> (tensor<4x8xf32>, tensor<4x1xf32>, tensor<4x1xf32>)
    return %r#0 : tensor<4x8xf32>
  }
}

// -----

// In training the batch's own statistics are used; the running ones are committed, the variance divided by n - 1.
module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[A0:arg[0-9]+]]: {{[^%]+}}%[[A1:arg[0-9]+]]: {{[^%]+}}%[[A2:arg[0-9]+]]: {{[^%]+}}%[[A3:arg[0-9]+]]: {{[^%]+}}%[[A4:arg[0-9]+]]: {{[^%]+}}
  func.func @step(%m: tensor<2xf32> {sojourn.kind = "state"}, %v: tensor<2xf32> {sojourn.kind = "state"}, %x: tensor<4x2xf32> {sojourn.kind = "upload"}, %mo: tensor<f64> {sojourn.kind = "slot"}, %e: tensor<f64> {sojourn.kind = "slot"}) -> (tensor<4x2xf32> {sojourn.result = "keep"}, tensor<2xf32> {sojourn.result = "commit", sojourn.target = 0 : i64}, tensor<2xf32> {sojourn.result = "commit", sojourn.target = 1 : i64}) {
    // CHECK: sojourn.reduce_sum %[[A2]], dims = [0]
    // CHECK: %[[C:.+]] = sojourn.sub %[[A2]],
    // CHECK: %[[SQUARE:.+]] = sojourn.mul %[[C]], %[[C]]
    // CHECK: %[[SUM:.+]] = sojourn.reduce_sum %[[SQUARE]], dims = [0]
    // CHECK: sojourn.constant 4.0
    // CHECK: sojourn.div %[[SUM]],
    // CHECK: sojourn.sqrt
    // CHECK: sojourn.mul %{{.+}}, %[[A0]]
    // CHECK-NEXT: %[[MEAN:.+]] = sojourn.add
    // CHECK: %[[N1:.+]] = sojourn.constant 3.0
    // CHECK-NEXT: sojourn.div %[[SUM]], %[[N1]]
    // CHECK: sojourn.mul %{{.+}}, %[[A1]]
    // CHECK-NEXT: %[[VAR:.+]] = sojourn.add
    // CHECK-NOT: %[[A0]]
    // CHECK-NOT: %[[A1]]
    // CHECK: return %{{.+}}, %[[MEAN]], %[[VAR]] :
    %r:5 = sojourn.aten "aten.native_batch_norm"(%x, %m, %v, %mo, %e)
      {args = [#sojourn.operand<0>, unit, unit, #sojourn.operand<1>, #sojourn.operand<2>, true, #sojourn.operand<3>, #sojourn.operand<4>], names = ["input", "weight", "bias", "running_mean", "running_var", "training", "momentum", "eps"]}
      : (tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<f64>, tensor<f64>) -> (tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>)
    return %r#0, %r#3, %r#4 : tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>
  }
}
