// SPDX-License-Identifier: Apache-2.0
// What cannot be decomposed is refused at the call, with the operator's name.
// RUN: sojourn-opt %s --split-input-file --sojourn-decompose --verify-diagnostics

module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  func.func @step(%x: tensor<4xf32> {sojourn.kind = "upload"}) -> (tensor<4xf32> {sojourn.result = "keep"}) {
    // expected-error @+1 {{'aten.no_such_operator' has no decomposition into core ops}}
    %r = sojourn.aten "aten.no_such_operator"(%x) {args = [#sojourn.operand<0>], names = ["self"]}
      : (tensor<4xf32>) -> tensor<4xf32>
    return %r : tensor<4xf32>
  }
}

// -----

module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  func.func @step(%x: tensor<4xf32> {sojourn.kind = "upload"}, %m: tensor<4xi1> {sojourn.kind = "upload"})
      -> (tensor<2xf32> {sojourn.result = "keep"}) {
    // expected-error @+1 {{'aten.index.Tensor' indexes with a mask, whose result shape depends on values}}
    %r = sojourn.aten "aten.index.Tensor"(%x, %m)
      {args = [#sojourn.operand<0>, [#sojourn.operand<1>]], names = ["self", "indices"]}
      : (tensor<4xf32>, tensor<4xi1>) -> tensor<2xf32>
    return %r : tensor<2xf32>
  }
}

// -----

module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  func.func @step(%x: tensor<4xf32> {sojourn.kind = "upload"}) -> (tensor<3xf32> {sojourn.result = "keep"}) {
    // expected-error @+1 {{'aten.relu' decomposes to 'tensor<4xf32>', expected the recorded 'tensor<3xf32>'}}
    %r = sojourn.aten "aten.relu"(%x) {args = [#sojourn.operand<0>], names = ["self"]}
      : (tensor<4xf32>) -> tensor<3xf32>
    return %r : tensor<3xf32>
  }
}

// -----

// Weights come in pairs, with biases in fours: of one at a time the second would be behind the list.
module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  func.func @step(%x: tensor<2x1x3xf32> {sojourn.kind = "upload"}, %w: tensor<4x3xf32> {sojourn.kind = "upload"}, %h: tensor<1x1x4xf32> {sojourn.kind = "upload"}) -> (tensor<2x1x4xf32> {sojourn.result = "keep"}) {
    // expected-error @+1 {{expected dense sequences, time first, without projection, and all weights of all layers}}
    %r:2 = sojourn.aten "aten._cudnn_rnn"(%x, %w, %h)
      {args = [#sojourn.operand<0>, [#sojourn.operand<1>], 1 : si64, unit, #sojourn.operand<2>, unit, 1 : si64, 4 : si64, 0 : si64, 1 : si64, false, unit, false, false], names = ["input", "weight", "weight_stride0", "weight_buf", "hx", "cx", "mode", "hidden_size", "proj_size", "num_layers", "batch_first", "dropout", "train", "bidirectional"]}
      : (tensor<2x1x3xf32>, tensor<4x3xf32>, tensor<1x1x4xf32>) -> (tensor<2x1x4xf32>, tensor<1x1x4xf32>)
    return %r#0 : tensor<2x1x4xf32>
  }
}
