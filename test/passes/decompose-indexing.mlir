// SPDX-License-Identifier: Apache-2.0
// Indices: Python's negatives are wrapped, each index is tested before they are combined.
// RUN: sojourn-opt %s --split-input-file --sojourn-decompose | FileCheck %s --implicit-check-not=sojourn.aten

// Two indices become one number per element: each is wrapped and tested for itself, then the rows are taken at once.
module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[A0:arg[0-9]+]]: {{[^%]+}}%[[A1:arg[0-9]+]]: {{[^%]+}}%[[A2:arg[0-9]+]]: {{[^%]+}}
  func.func @step(%x: tensor<4x5xf32> {sojourn.kind = "upload"}, %i: tensor<3xi64> {sojourn.kind = "upload"}, %j: tensor<3xi64> {sojourn.kind = "upload"}) -> (tensor<3xf32> {sojourn.result = "keep"}) {
    // CHECK: sojourn.compare "lt" %[[A1]],
    // CHECK: %[[FIRST:.+]] = sojourn.and
    // CHECK: sojourn.compare "lt" %[[A2]],
    // CHECK: %[[SECOND:.+]] = sojourn.and
    // CHECK: %[[INSIDE:.+]] = sojourn.and %[[FIRST]], %[[SECOND]]
    // CHECK: %[[NONE:.+]] = sojourn.constant -1 : i64
    // CHECK: %[[I:.+]] = sojourn.select %[[INSIDE]], %{{.+}}, %[[NONE]]
    // CHECK-NOT: sojourn.take
    // CHECK: %[[R:.+]] = sojourn.take %{{.+}}, %[[I]], dim = 0
    // CHECK-NEXT: return %[[R]]
    %r = sojourn.aten "aten.index.Tensor"(%x, %i, %j)
      {args = [#sojourn.operand<0>, [#sojourn.operand<1>, #sojourn.operand<2>]], names = ["self", "indices"]}
      : (tensor<4x5xf32>, tensor<3xi64>, tensor<3xi64>) -> tensor<3xf32>
    return %r : tensor<3xf32>
  }
}

// -----

// The padding row of an embedding receives nothing: its places become -1, where `put` drops them.
module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[A0:arg[0-9]+]]: {{[^%]+}}%[[A1:arg[0-9]+]]: {{[^%]+}}
  func.func @step(%g: tensor<3x2xf32> {sojourn.kind = "upload"}, %i: tensor<3xi64> {sojourn.kind = "upload"}) -> (tensor<5x2xf32> {sojourn.result = "keep"}) {
    // CHECK: %[[PADS:.+]] = sojourn.compare "eq" %[[A1]],
    // CHECK: %[[NONE:.+]] = sojourn.constant -1 : i64
    // CHECK: %[[I:.+]] = sojourn.select %[[PADS]], %[[NONE]], %[[A1]]
    // CHECK: sojourn.put "add" %{{.+}}, %[[I]], %[[A0]], dim = 0
    %r = sojourn.aten "aten.embedding_dense_backward"(%g, %i)
      {args = [#sojourn.operand<0>, #sojourn.operand<1>, 5 : i64, 0 : i64, false], names = ["grad_output", "indices", "num_weights", "padding_idx", "scale_grad_by_freq"]}
      : (tensor<3x2xf32>, tensor<3xi64>) -> tensor<5x2xf32>
    return %r : tensor<5x2xf32>
  }
}

// -----

// The gradient of a stepped slice is padding, inside too.
module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[A0:arg[0-9]+]]: {{[^%]+}}
  func.func @step(%g: tensor<2x2xf32> {sojourn.kind = "upload"}) -> (tensor<5x2xf32> {sojourn.result = "keep"}) {
    // CHECK-NEXT: %[[V0:.+]] = sojourn.constant 0.000000e+00 : f32
    // CHECK-NEXT: %[[V1:.+]] = sojourn.pad %[[A0]], %[[V0]], low = [1, 0], high = [1, 0], interior = [1, 0] : tensor<2x2xf32>, tensor<f32>
    // CHECK-NEXT: return %[[V1]] : tensor<5x2xf32>
    %r = sojourn.aten "aten.slice_backward"(%g)
      {args = [#sojourn.operand<0>, [5 : i64, 2 : i64], 0 : i64, 1 : i64, 9 : i64, 2 : i64], names = ["grad_output", "input_sizes", "dim", "start", "end", "step"]}
      : (tensor<2x2xf32>) -> tensor<5x2xf32>
    return %r : tensor<5x2xf32>
  }
}

// -----

// A mask with one value is a choice, not a scatter.
module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[A0:arg[0-9]+]]: {{[^%]+}}%[[A1:arg[0-9]+]]: {{[^%]+}}%[[A2:arg[0-9]+]]: {{[^%]+}}
  func.func @step(%x: tensor<4x5xf32> {sojourn.kind = "upload"}, %m: tensor<4xi1> {sojourn.kind = "upload"}, %v: tensor<f32> {sojourn.kind = "upload"}) -> (tensor<4x5xf32> {sojourn.result = "keep"}) {
    // CHECK-NEXT: %[[V0:.+]] = sojourn.broadcast %[[A1]], dims = [0] : tensor<4xi1> -> tensor<4x5xi1>
    // CHECK-NEXT: %[[V1:.+]] = sojourn.select %[[V0]], %[[A2]], %[[A0]] : tensor<4x5xi1>, tensor<f32>, tensor<4x5xf32>
    // CHECK-NEXT: return %[[V1]] : tensor<4x5xf32>
    %r = sojourn.aten "aten.index_put"(%x, %m, %v)
      {args = [#sojourn.operand<0>, [#sojourn.operand<1>], #sojourn.operand<2>, false], names = ["self", "indices", "values", "accumulate"]}
      : (tensor<4x5xf32>, tensor<4xi1>, tensor<f32>) -> tensor<4x5xf32>
    return %r : tensor<4x5xf32>
  }
}
