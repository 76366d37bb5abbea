// SPDX-License-Identifier: Apache-2.0
// Indices: Python's negatives are wrapped, each index is tested before they are combined.
// RUN: sojourn-opt %s --split-input-file --sojourn-decompose | FileCheck %s

// Two index tensors.
module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[A0:arg[0-9]+]]: {{[^%]+}}%[[A1:arg[0-9]+]]: {{[^%]+}}%[[A2:arg[0-9]+]]: {{[^%]+}}
  func.func @step(%x: tensor<4x5xf32> {sojourn.kind = "upload"}, %i: tensor<3xi64> {sojourn.kind = "upload"}, %j: tensor<3xi64> {sojourn.kind = "upload"}) -> (tensor<3xf32> {sojourn.result = "keep"}) {
    // CHECK-NEXT: %[[V0:.+]] = sojourn.constant 4 : i64
    // CHECK-NEXT: %[[V1:.+]] = sojourn.add %[[A1]], %[[V0]] : tensor<3xi64>, tensor<i64>
    // CHECK-NEXT: %[[V2:.+]] = sojourn.constant 0 : i64
    // CHECK-NEXT: %[[V3:.+]] = sojourn.compare "lt" %[[A1]], %[[V2]] : tensor<3xi64>, tensor<i64>
    // CHECK-NEXT: %[[V4:.+]] = sojourn.select %[[V3]], %[[V1]], %[[A1]] : tensor<3xi1>, tensor<3xi64>, tensor<3xi64>
    // CHECK-NEXT: %[[V5:.+]] = sojourn.constant 4 : i64
    // CHECK-NEXT: %[[V6:.+]] = sojourn.compare "lt" %[[V4]], %[[V5]] : tensor<3xi64>, tensor<i64>
    // CHECK-NEXT: %[[V7:.+]] = sojourn.constant 0 : i64
    // CHECK-NEXT: %[[V8:.+]] = sojourn.compare "ge" %[[V4]], %[[V7]] : tensor<3xi64>, tensor<i64>
    // CHECK-NEXT: %[[V9:.+]] = sojourn.and %[[V8]], %[[V6]] : tensor<3xi1>, tensor<3xi1>
    // CHECK-NEXT: %[[V10:.+]] = sojourn.constant 5 : i64
    // CHECK-NEXT: %[[V11:.+]] = sojourn.add %[[A2]], %[[V10]] : tensor<3xi64>, tensor<i64>
    // CHECK-NEXT: %[[V12:.+]] = sojourn.constant 0 : i64
    // CHECK-NEXT: %[[V13:.+]] = sojourn.compare "lt" %[[A2]], %[[V12]] : tensor<3xi64>, tensor<i64>
    // CHECK-NEXT: %[[V14:.+]] = sojourn.select %[[V13]], %[[V11]], %[[A2]] : tensor<3xi1>, tensor<3xi64>, tensor<3xi64>
    // CHECK-NEXT: %[[V15:.+]] = sojourn.constant 5 : i64
    // CHECK-NEXT: %[[V16:.+]] = sojourn.compare "lt" %[[V14]], %[[V15]] : tensor<3xi64>, tensor<i64>
    // CHECK-NEXT: %[[V17:.+]] = sojourn.constant 0 : i64
    // CHECK-NEXT: %[[V18:.+]] = sojourn.compare "ge" %[[V14]], %[[V17]] : tensor<3xi64>, tensor<i64>
    // CHECK-NEXT: %[[V19:.+]] = sojourn.and %[[V18]], %[[V16]] : tensor<3xi1>, tensor<3xi1>
    // CHECK-NEXT: %[[V20:.+]] = sojourn.and %[[V9]], %[[V19]] : tensor<3xi1>, tensor<3xi1>
    // CHECK-NEXT: %[[V21:.+]] = sojourn.constant 5 : i64
    // CHECK-NEXT: %[[V22:.+]] = sojourn.mul %[[V4]], %[[V21]] : tensor<3xi64>, tensor<i64>
    // CHECK-NEXT: %[[V23:.+]] = sojourn.add %[[V22]], %[[V14]] : tensor<3xi64>, tensor<3xi64>
    // CHECK-NEXT: %[[V24:.+]] = sojourn.constant -1 : i64
    // CHECK-NEXT: %[[V25:.+]] = sojourn.select %[[V20]], %[[V23]], %[[V24]] : tensor<3xi1>, tensor<3xi64>, tensor<i64>
    // CHECK-NEXT: %[[V26:.+]] = sojourn.reshape %[[A0]] : tensor<4x5xf32> -> tensor<20xf32>
    // CHECK-NEXT: %[[V27:.+]] = sojourn.take %[[V26]], %[[V25]], dim = 0 : tensor<20xf32>, tensor<3xi64>
    // CHECK-NEXT: return %[[V27]] : tensor<3xf32>
    %r = sojourn.aten "aten.index.Tensor"(%x, %i, %j)
      {args = [#sojourn.operand<0>, [#sojourn.operand<1>, #sojourn.operand<2>]], names = ["self", "indices"]}
      : (tensor<4x5xf32>, tensor<3xi64>, tensor<3xi64>) -> tensor<3xf32>
    return %r : tensor<3xf32>
  }
}

// -----

// The padding row of an embedding receives nothing.
module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[A0:arg[0-9]+]]: {{[^%]+}}%[[A1:arg[0-9]+]]: {{[^%]+}}
  func.func @step(%g: tensor<3x2xf32> {sojourn.kind = "upload"}, %i: tensor<3xi64> {sojourn.kind = "upload"}) -> (tensor<5x2xf32> {sojourn.result = "keep"}) {
    // CHECK-NEXT: %[[V0:.+]] = sojourn.constant 0 : i64
    // CHECK-NEXT: %[[V1:.+]] = sojourn.compare "eq" %[[A1]], %[[V0]] : tensor<3xi64>, tensor<i64>
    // CHECK-NEXT: %[[V2:.+]] = sojourn.constant -1 : i64
    // CHECK-NEXT: %[[V3:.+]] = sojourn.select %[[V1]], %[[V2]], %[[A1]] : tensor<3xi1>, tensor<i64>, tensor<3xi64>
    // CHECK-NEXT: %[[V4:.+]] = sojourn.constant 0.000000e+00 : f32
    // CHECK-NEXT: %[[V5:.+]] = sojourn.broadcast %[[V4]], dims = [] : tensor<f32> -> tensor<5x2xf32>
    // CHECK-NEXT: %[[V6:.+]] = sojourn.put "add" %[[V5]], %[[V3]], %[[A0]], dim = 0 : tensor<5x2xf32>, tensor<3xi64>, tensor<3x2xf32>
    // CHECK-NEXT: return %[[V6]] : tensor<5x2xf32>
    %r = sojourn.aten "aten.embedding_dense_backward"(%g, %i)
      {args = [#sojourn.operand<0>, #sojourn.operand<1>, 5 : i64, 0 : i64, false], names = ["grad_output", "indices", "num_weights", "padding_idx", "scale_grad_by_freq"]}
      : (tensor<3x2xf32>, tensor<3xi64>) -> tensor<5x2xf32>
    return %r : tensor<5x2xf32>
  }
}

// -----

// The gradient of a stepped slice is padding.
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

// A mask with one value is a choice.
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
