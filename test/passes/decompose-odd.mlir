// SPDX-License-Identifier: Apache-2.0
// Calls that no recorder writes: each is an error at its line, none ends the process.
// RUN: sojourn-opt %s --split-input-file --sojourn-decompose --verify-diagnostics

module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  func.func @step(%x: tensor<4xf32>, %y: tensor<4xf64>) -> tensor<4xf32> {
    // expected-error @+1 {{'aten.mse_loss' cannot be 'sojourn.sub': operand #1 has type 'tensor<4xf64>', expected element type 'f32'}}
    %r = sojourn.aten "aten.mse_loss"(%x, %y)
      {args = [#sojourn.operand<0>, #sojourn.operand<1>], names = ["self", "target"]}
      : (tensor<4xf32>, tensor<4xf64>) -> tensor<4xf32>
    return %r : tensor<4xf32>
  }
}

// -----

module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  func.func @step(%x: tensor<4xf32>) -> tensor<4xf32> {
    // expected-error @+1 {{'aten.mse_loss' lacks a tensor argument that its formula needs}}
    %r = sojourn.aten "aten.mse_loss"(%x) {args = [#sojourn.operand<0>], names = ["self"]} : (tensor<4xf32>) -> tensor<4xf32>
    return %r : tensor<4xf32>
  }
}

// -----

module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  func.func @step(%x: tensor<4x2xf32>) -> tensor<4xf32> {
    // expected-error @+1 {{'aten.sum' names dimension 7 of a tensor of rank 2}}
    %r = sojourn.aten "aten.sum"(%x) {args = [#sojourn.operand<0>, [7]], names = ["self", "dim"]}
      : (tensor<4x2xf32>) -> tensor<4xf32>
    return %r : tensor<4xf32>
  }
}

// -----

module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  func.func @step(%x: tensor<5x3xf32>, %i: tensor<6x3xi64>) -> tensor<6x3xf32> {
    // expected-error @+1 {{'aten.gather' cannot be 'sojourn.slice'}}
    %r = sojourn.aten "aten.gather"(%x, %i)
      {args = [#sojourn.operand<0>, 1, #sojourn.operand<1>], names = ["self", "dim", "index"]}
      : (tensor<5x3xf32>, tensor<6x3xi64>) -> tensor<6x3xf32>
    return %r : tensor<6x3xf32>
  }
}

// -----

module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  func.func @step(%x: tensor<5x3xf32>, %y: tensor<4x2xf32>) -> tensor<5x2xf32> {
    // expected-error @+1 {{'sojourn.dot' op}}
    %r = sojourn.aten "aten.mm"(%x, %y) {args = [#sojourn.operand<0>, #sojourn.operand<1>], names = ["self", "mat2"]}
      : (tensor<5x3xf32>, tensor<4x2xf32>) -> tensor<5x2xf32>
    return %r : tensor<5x2xf32>
  }
}

// -----

module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  func.func @step(%x: tensor<2x3x8xf32>, %w: tensor<4x3x3xf32>) -> tensor<2x4x8xf32> {
    // expected-error @+1 {{'aten.convolution' has 3 entries in stride, expected 1 or 1}}
    %r = sojourn.aten "aten.convolution"(%x, %w)
      {args = [#sojourn.operand<0>, #sojourn.operand<1>, unit, [1, 1, 1], [0], [1], false, [0], 1],
       names = ["input", "weight", "bias", "stride", "padding", "dilation", "transposed", "output_padding", "groups"]}
      : (tensor<2x3x8xf32>, tensor<4x3x3xf32>) -> tensor<2x4x8xf32>
    return %r : tensor<2x4x8xf32>
  }
}
