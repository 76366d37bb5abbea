// SPDX-License-Identifier: Apache-2.0
// The row maximum is subtracted; log-softmax is never the logarithm of a softmax.
// RUN: sojourn-opt %s --split-input-file --sojourn-decompose | FileCheck %s --implicit-check-not=sojourn.aten

// Log-softmax subtracts the row maximum, then the logarithm of the row's sum: it is never the logarithm of a softmax.
module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[A0:arg[0-9]+]]: {{[^%]+}}
  func.func @step(%x: tensor<2x3xf32> {sojourn.kind = "upload"}) -> (tensor<2x3xf32> {sojourn.result = "keep"}) {
    // CHECK-NOT: sojourn.div
    // CHECK: sojourn.reduce_max %[[A0]], dims = [1]
    // CHECK: %[[C:.+]] = sojourn.sub %[[A0]],
    // CHECK: %[[E:.+]] = sojourn.exp %[[C]]
    // CHECK: sojourn.reduce_sum %[[E]], dims = [1]
    // CHECK: sojourn.log {{.*}} : tensor<2x1xf32>
    // CHECK: %[[R:.+]] = sojourn.sub %[[C]],
    // CHECK-NEXT: return %[[R]]
    %r = sojourn.aten "aten._log_softmax"(%x)
      {args = [#sojourn.operand<0>, -1 : i64, false], names = ["self", "dim", "half_to_float"]}
      : (tensor<2x3xf32>) -> tensor<2x3xf32>
    return %r : tensor<2x3xf32>
  }
}

// -----

// A row of -inf alone gives 0 where a softmax gives NaN.
module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[A0:arg[0-9]+]]: {{[^%]+}}
  func.func @step(%x: tensor<2x3xf32> {sojourn.kind = "upload"}) -> (tensor<2x3xf32> {sojourn.result = "keep"}) {
    // CHECK: sojourn.reduce_max %[[A0]], dims = [1]
    // CHECK: %[[INF:.+]] = sojourn.constant 0xFF800000 : f32
    // CHECK: %[[NONE:.+]] = sojourn.compare "eq" {{.*}}, %[[INF]] : tensor<2x1xf32>
    // CHECK: sojourn.exp
    // CHECK: sojourn.div
    // CHECK: %[[ZERO:.+]] = sojourn.constant 0.0
    // CHECK: %[[ROWS:.+]] = sojourn.broadcast %[[NONE]]
    // CHECK: %[[R:.+]] = sojourn.select %[[ROWS]], %[[ZERO]],
    // CHECK-NEXT: return %[[R]]
    %r = sojourn.aten "aten._safe_softmax"(%x)
      {args = [#sojourn.operand<0>, 1 : i64, unit], names = ["self", "dim", "dtype"]}
      : (tensor<2x3xf32>) -> tensor<2x3xf32>
    return %r : tensor<2x3xf32>
  }
}

// -----

// The gradient of a softmax needs one sum per row, and neither exponentials nor a gather.
module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[A0:arg[0-9]+]]: {{[^%]+}}%[[A1:arg[0-9]+]]: {{[^%]+}}
  func.func @step(%g: tensor<2x3xf32> {sojourn.kind = "upload"}, %y: tensor<2x3xf32> {sojourn.kind = "upload"}) -> (tensor<2x3xf32> {sojourn.result = "keep"}) {
    // CHECK-NOT: sojourn.{{exp|reduce_max|take}}
    // CHECK: %[[P:.+]] = sojourn.mul %[[A0]], %[[A1]]
    // CHECK: sojourn.reduce_sum %[[P]], dims = [1]
    // CHECK-NOT: sojourn.{{exp|reduce|take}}
    // CHECK: %[[R:.+]] = sojourn.sub %[[P]],
    // CHECK-NEXT: return %[[R]]
    %r = sojourn.aten "aten._softmax_backward_data"(%g, %y)
      {args = [#sojourn.operand<0>, #sojourn.operand<1>, 1 : i64, f32], names = ["grad_output", "output", "dim", "input_dtype"]}
      : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    return %r : tensor<2x3xf32>
  }
}
