// SPDX-License-Identifier: Apache-2.0
// The fused LSTM cell: gates input, forget, cell, output, activated in the workspace.
// RUN: sojourn-opt %s --split-input-file --sojourn-decompose | FileCheck %s

// Forward.
module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[A0:arg[0-9]+]]: {{[^%]+}}%[[A1:arg[0-9]+]]: {{[^%]+}}%[[A2:arg[0-9]+]]: {{[^%]+}}
  func.func @step(%i: tensor<2x12xf32> {sojourn.kind = "upload"}, %h: tensor<2x12xf32> {sojourn.kind = "upload"}, %c: tensor<2x3xf32> {sojourn.kind = "upload"}) -> (tensor<2x3xf32> {sojourn.result = "keep"}, tensor<2x3xf32> {sojourn.result = "keep"}, tensor<2x12xf32> {sojourn.result = "keep"}) {
    // CHECK-NEXT: %[[V0:.+]] = sojourn.add %[[A0]], %[[A1]] : tensor<2x12xf32>, tensor<2x12xf32>
    // CHECK-NEXT: %[[V1:.+]] = sojourn.slice %[[V0]], start = [0, 0], limit = [2, 3], stride = [1, 1] : tensor<2x12xf32>
    // CHECK-NEXT: %[[V2:.+]] = sojourn.slice %[[V0]], start = [0, 3], limit = [2, 6], stride = [1, 1] : tensor<2x12xf32>
    // CHECK-NEXT: %[[V3:.+]] = sojourn.slice %[[V0]], start = [0, 6], limit = [2, 9], stride = [1, 1] : tensor<2x12xf32>
    // CHECK-NEXT: %[[V4:.+]] = sojourn.slice %[[V0]], start = [0, 9], limit = [2, 12], stride = [1, 1] : tensor<2x12xf32>
    // CHECK-NEXT: %[[V5:.+]] = sojourn.logistic %[[V1]] : tensor<2x3xf32>
    // CHECK-NEXT: %[[V6:.+]] = sojourn.logistic %[[V2]] : tensor<2x3xf32>
    // CHECK-NEXT: %[[V7:.+]] = sojourn.tanh %[[V3]] : tensor<2x3xf32>
    // CHECK-NEXT: %[[V8:.+]] = sojourn.logistic %[[V4]] : tensor<2x3xf32>
    // CHECK-NEXT: %[[V9:.+]] = sojourn.mul %[[V5]], %[[V7]] : tensor<2x3xf32>, tensor<2x3xf32>
    // CHECK-NEXT: %[[V10:.+]] = sojourn.mul %[[V6]], %[[A2]] : tensor<2x3xf32>, tensor<2x3xf32>
    // CHECK-NEXT: %[[V11:.+]] = sojourn.add %[[V10]], %[[V9]] : tensor<2x3xf32>, tensor<2x3xf32>
    // CHECK-NEXT: %[[V12:.+]] = sojourn.tanh %[[V11]] : tensor<2x3xf32>
    // CHECK-NEXT: %[[V13:.+]] = sojourn.mul %[[V8]], %[[V12]] : tensor<2x3xf32>, tensor<2x3xf32>
    // CHECK-NEXT: %[[V14:.+]] = sojourn.concat %[[V5]], %[[V6]], %[[V7]], %[[V8]] dim = 1 : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>
    // CHECK-NEXT: return %[[V13]], %[[V11]], %[[V14]] : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x12xf32>
    %r:3 = sojourn.aten "aten._thnn_fused_lstm_cell"(%i, %h, %c)
      {args = [#sojourn.operand<0>, #sojourn.operand<1>, #sojourn.operand<2>, unit, unit], names = ["input_gates", "hidden_gates", "cx", "input_bias", "hidden_bias"]}
      : (tensor<2x12xf32>, tensor<2x12xf32>, tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x12xf32>)
    return %r#0, %r#1, %r#2 : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x12xf32>
  }
}
