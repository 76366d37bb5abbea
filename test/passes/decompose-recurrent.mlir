// SPDX-License-Identifier: Apache-2.0
// The fused LSTM cell: gates input, forget, cell, output, activated in the workspace.
// RUN: sojourn-opt %s --split-input-file --sojourn-decompose | FileCheck %s --implicit-check-not=sojourn.aten

// The gates are input, forget, cell and output, in this order, and are kept as the workspace when they are activated.
module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  func.func @step(%i: tensor<2x12xf32> {sojourn.kind = "upload"}, %h: tensor<2x12xf32> {sojourn.kind = "upload"}, %c: tensor<2x3xf32> {sojourn.kind = "upload"}) -> (tensor<2x3xf32> {sojourn.result = "keep"}, tensor<2x3xf32> {sojourn.result = "keep"}, tensor<2x12xf32> {sojourn.result = "keep"}) {
    // CHECK: %[[INPUT:.+]] = sojourn.slice {{.*}} start = [0, 0]
    // CHECK-NEXT: %[[FORGET:.+]] = sojourn.slice {{.*}} start = [0, 3]
    // CHECK-NEXT: %[[CELL:.+]] = sojourn.slice {{.*}} start = [0, 6]
    // CHECK-NEXT: %[[OUTPUT:.+]] = sojourn.slice {{.*}} start = [0, 9]
    // CHECK-DAG: %[[I:.+]] = sojourn.logistic %[[INPUT]]
    // CHECK-DAG: %[[F:.+]] = sojourn.logistic %[[FORGET]]
    // CHECK-DAG: %[[G:.+]] = sojourn.tanh %[[CELL]]
    // CHECK-DAG: %[[O:.+]] = sojourn.logistic %[[OUTPUT]]
    // CHECK: %[[KEPT:.+]] = sojourn.concat %[[I]], %[[F]], %[[G]], %[[O]] dim = 1
    // CHECK: return %{{.+}}, %{{.+}}, %[[KEPT]] :
    %r:3 = sojourn.aten "aten._thnn_fused_lstm_cell"(%i, %h, %c)
      {args = [#sojourn.operand<0>, #sojourn.operand<1>, #sojourn.operand<2>, unit, unit], names = ["input_gates", "hidden_gates", "cx", "input_bias", "hidden_bias"]}
      : (tensor<2x12xf32>, tensor<2x12xf32>, tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x12xf32>)
    return %r#0, %r#1, %r#2 : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x12xf32>
  }
}
