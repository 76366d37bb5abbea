// SPDX-License-Identifier: Apache-2.0
// Reductions: casts first, variances in two passes, kept dimensions from the recorded shape.
// RUN: sojourn-opt %s --split-input-file --sojourn-decompose | FileCheck %s --implicit-check-not=sojourn.aten

// A mean is the sum, divided; the dimension that is kept comes from the recorded shape.
module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[A0:arg[0-9]+]]: {{[^%]+}}
  func.func @step(%x: tensor<2x3xf32> {sojourn.kind = "upload"}) -> (tensor<2x1xf32> {sojourn.result = "keep"}) {
    // CHECK: sojourn.reduce_sum %[[A0]], dims = [1]
    // CHECK: sojourn.div
    // CHECK: %[[R:.+]] = sojourn.reshape {{.*}} -> tensor<2x1xf32>
    // CHECK-NEXT: return %[[R]]
    %r = sojourn.aten "aten.mean.dim"(%x)
      {args = [#sojourn.operand<0>, [-1 : i64], true, unit], names = ["self", "dim", "keepdim", "dtype"]}
      : (tensor<2x3xf32>) -> tensor<2x1xf32>
    return %r : tensor<2x1xf32>
  }
}

// -----

// A variance takes two passes: the mean is subtracted before anything is squared, and the divisor is never negative.
module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[A0:arg[0-9]+]]: {{[^%]+}}
  func.func @step(%x: tensor<2x3xf32> {sojourn.kind = "upload"}) -> (tensor<2xf32> {sojourn.result = "keep"}) {
    // CHECK: %[[C:.+]] = sojourn.sub %[[A0]],
    // CHECK: %[[SQUARE:.+]] = sojourn.mul %[[C]], %[[C]]
    // CHECK: %[[SUM:.+]] = sojourn.reduce_sum %[[SQUARE]], dims = [1]
    // CHECK: %[[N:.+]] = sojourn.max
    // CHECK-NEXT: %[[R:.+]] = sojourn.div %[[SUM]], %[[N]]
    // CHECK-NEXT: return %[[R]]
    %r = sojourn.aten "aten.var.correction"(%x)
      {args = [#sojourn.operand<0>, [1 : i64], unit, false], names = ["self", "dim", "correction", "keepdim"]}
      : (tensor<2x3xf32>) -> tensor<2xf32>
    return %r : tensor<2xf32>
  }
}

// -----

// A maximum and where it is are two reductions of the same tensor.
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
